//! The edge to the host: what the agent asks of the machine beside its files.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests use the machine directly"))]

pub mod disk;
pub mod facts;
pub mod fs;
pub mod text_file;
pub mod timezone;
pub mod undo;

pub mod accounts;
pub mod command_options;
pub mod exec;
pub mod git;
pub mod http_client;
pub mod http_request;
pub mod machine;
pub mod packages;
pub mod reboot;
pub mod secrets;
pub mod services;
pub mod temp_file;
pub mod tools;

pub use self::machine::Machine;
pub use crate::exec::cancel::CancelToken;
pub use crate::tools::{CommandOutput, Tools, refuse_option};
