//! A state tree in, a plan out: select, render, merge, lower, link.
//!
//! Law: pure. No clock, no network, no process, no write; the host is asked through [`Host`], files are read through
//! [`Files`]. Every stage has a printable value.

mod compile;
pub mod functions;
mod high;
mod input;
pub mod jinja;
mod kept;
mod link;
mod lower;
mod merge;
mod pillar;
mod plan;
mod render;
pub mod schema;
mod select;
mod session;
mod single;
mod sources;
mod strict;
mod template;
mod trace;
mod veil;
pub mod yaml;

pub use compile::{Compiled, Compiler, TopTarget, Want};
pub use input::{Call, CallError, Cipher, Compat, Files, Host, Inputs, Limits, Options, Stamp};
pub use plan::{Chunk, Edge, Graph, Plan, Prereq, Requisite, name_text};
