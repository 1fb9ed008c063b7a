//! The agent: a command line around the compiler, the grains of this host and the changes to it.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests use the machine directly"))]

mod embedded;

pub mod adopt;
pub mod check;
pub mod cli;
pub mod container_test;
pub mod doctor;
pub mod draw;
mod enroll;
pub mod exit_code;
pub mod init;
mod install;
pub mod log;
mod manual;
pub mod output;
pub mod pages;
pub mod record;
pub mod secrets;
pub mod sls_schema;
mod systemd;
