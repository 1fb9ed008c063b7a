//! A state tree in, a plan out: select, render, merge, lower, link.
//!
//! Law: pure. No clock, no network, no process, no write; the host is accessed through [`TemplateHost`], files are
//! read through [`FileTree`]. Every stage has a printable value (held by `clippy.toml`,
//! `pure_modules_do_not_touch_the_machine`).

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests use the machine directly"))]

mod compile;
pub mod functions;
mod high;
mod input;
pub mod jinja;
mod link;
mod lower;
mod merge;
mod pillar;
mod plan;
mod plan_bytes;
mod private_networks;
pub mod schema;
mod secret_argv;
mod select;
mod session;
mod single;
mod source_files;
mod strict;
mod trace;
pub mod yaml;

pub use compile::{CompileOutput, CompileTarget, Compiler, TopTarget};
pub use input::{
    BASE_ENV, CallError, Cipher, Compat, CompileInputs, CompileOptions, CompiledResource, FileStamp,
    FileTree, FunctionCall, TemplateHost, TreeLimits,
};
pub use plan::{Chunk, Plan, PrereqRole, Requisite, RequisiteEdge, RequisiteGraph, name_text};
