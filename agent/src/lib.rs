//! The agent: a command line around the compiler, the facts of this host and what would change on it.

pub mod check;
pub mod cli;
pub mod draw;
pub mod facts;
pub mod files;
pub mod host;
pub mod output;
pub mod preview;
pub mod report;
