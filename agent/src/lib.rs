//! The agent: a command line around the compiler, the grains of this host and the changes to it.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests use the machine directly"))]

mod embedded;

pub mod check;
pub mod cli;
pub mod doctor;
pub mod draw;
pub mod exit_code;
pub mod init;
pub mod log;
pub mod output;
pub mod secrets;
