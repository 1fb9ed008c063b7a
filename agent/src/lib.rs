//! The agent: a command line around the compiler, the grains of this host and the changes to it.

pub mod api;
pub mod check;
pub mod cli;
pub mod cli_error;
pub mod cycle;
pub mod doctor;
pub mod draw;
pub mod facts;
pub mod files;
pub mod fs;
pub mod health;
pub mod history;
pub mod host;
pub mod init;
pub mod log;
pub mod notify;
pub mod operate;
pub mod output;
pub mod plan_cache;
pub mod run;
pub mod sd_notify;
pub mod states;
pub mod status;
pub mod undo;
pub mod watchdog;
