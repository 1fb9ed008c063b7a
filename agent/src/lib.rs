//! The agent: a command line around the compiler, the facts of this host and what would change on it.

pub mod check;
pub mod cli;
pub mod draw;
pub mod facts;
pub mod files;
pub mod fs;
pub mod history;
pub mod host;
pub mod keep;
pub mod log;
pub mod output;
pub mod report;
pub mod run;
pub mod states;
pub mod undo;
