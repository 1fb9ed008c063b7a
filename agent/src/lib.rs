//! The agent: a command line around the compiler, the facts of this host and what would change on it.

mod embedded;

pub mod check;
pub mod cli;
pub mod doctor;
pub mod draw;
pub mod init;
pub mod log;
pub mod output;
