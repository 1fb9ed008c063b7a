//! Everything a user writes for zagent, parsed and checked: configuration, ids, paths, targets; and the values
//! and diagnostics that all crates share.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests use the machine directly"))]

pub mod atomic_file;
pub mod backoff;
pub mod child_process;
pub mod codes;
pub mod cron;
pub mod diagnostic;
pub mod disk_space;
pub mod durable;
mod function_error;
pub mod glob;
pub mod ids;
pub mod json_file;
pub mod manifest;
pub mod mask;
pub mod paths;
pub mod pkg_version;
pub mod py_regex;
mod py_text;
pub mod redirect;
mod repository_name;
pub mod resources;
pub mod salt_config;
mod salt_options;
pub mod settings;
pub mod sorted;
pub mod suggest;
pub mod target;
pub mod text;
pub mod trusted_path;
pub mod value;
mod yaml;

pub use diagnostic::{Diagnostic, Diagnostics, Excerpt, FileLocation, TraceStep};
pub use function_error::FunctionError;
pub use mask::SecretMask;
pub use repository_name::repository_name;
pub use text::{error_chain, escape_json, sanitize, steers_terminal};
pub use value::{List, Map, Pos, Value};
