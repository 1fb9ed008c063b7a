//! A plan in, a converged host and a report out.
//!
//! Law: the queue decides what may start, the requisites whether it runs, `converge` how; only the runner owns threads.

mod converge;
mod graph;
pub mod guard;
mod hold;
mod listen;
mod lock;
mod order;
mod outcome;
pub mod queue;
pub mod requisite;
mod retry;
mod runner;
mod signal;
mod slot;
mod turn;

pub use graph::Graph;
pub use lock::{LockError, RunLock};
pub use order::Order;
pub use outcome::{IRREVERSIBLE, LEFT_ALONE, Mode, Outcome, Report, SkipReason, Standing, Trigger};
pub use runner::{Ground, Ran, Settings, Stage, run};
pub use signal::Signals;
pub use turn::{Turn, TurnError};
