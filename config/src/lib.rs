//! Everything a user writes for zagent, parsed and checked: configuration, ids, paths, targets; and the values
//! and diagnostics that all crates share.

pub mod codes;
pub mod cron;
pub mod diagnostic;
pub mod glob;
pub mod ids;
pub mod manifest;
pub mod paths;
pub mod py_regex;
mod py_text;
pub mod salt_config;
pub mod secret_keys;
pub mod settings;
pub mod suggest;
pub mod target;
pub mod value;
mod yaml;

pub use diagnostic::{Diagnostic, Diagnostics, Excerpt, FileLocation, TraceStep};
pub use value::{List, Map, Pos, Value};
