//! A plan in, a converged host and a report out.
//!
//! Law: the queue decides what may start, the requisites whether it runs, `converge` how; only the runner owns threads.

mod converge;
mod graph;
pub mod guard;
mod listeners;
mod lock;
mod outcome;
mod progress;
pub mod queue;
pub mod requisite;
mod retry;
mod run_options;
mod runner;
mod signal;
mod slot;
mod state_locks;
mod state_run;

pub use graph::RunGraph;
pub use lock::{LockError, RunLock};
pub use outcome::{
    IRREVERSIBLE, LEFT_ALONE, RunMode, RunReport, RunTrigger, SkipReason, StateOutcome, StateStatus,
};
pub use progress::{NoProgress, RunProgress};
pub use run_options::RunOptions;
pub use runner::{RunCtx, RunFs, RunResult, RunnerSettings, run_plan};
pub use signal::SignalWatcher;
pub use state_run::{StateRun, StateRunError};
