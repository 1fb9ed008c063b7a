//! YAML 1.1 as Salt reads and writes it, and the JSON and Python texts that its filters print.
//!
//! Law: what Salt's loader takes is taken with the same value, what it refuses is refused; what Salt's dumpers print is
//! printed to the letter.

mod read;
mod write;

pub use self::read::{YamlError, load};
pub use self::write::{
    DumpStyle, FlowStyle, JsonStyle, WriteError, dump, dump_block, dump_flow, json, yaml_dquote, yaml_encode,
    yaml_squote,
};
