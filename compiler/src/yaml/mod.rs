//! YAML 1.1 as Salt reads and writes it, and the JSON and Python texts that its filters print.
//!
//! Law: what Salt's loader accepts is accepted with the same value, what it rejects is rejected; the output equals
//! that of Salt's dumpers, character by character (held by `files_read_as_salt_reads_them`,
//! `texts_read_as_salt_reads_them`, `values_are_written_as_salt_writes_them`).

mod read;
mod write;

pub use self::read::{YamlError, load};
pub use self::write::{
    DumpStyle, FlowStyle, JsonStyle, WriteError, dump, dump_block, dump_flow, json, yaml_dquote, yaml_encode,
    yaml_squote,
};
