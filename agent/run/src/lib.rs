//! A plan in, a converged host and a report out.
//!
//! Law: the queue decides what may start, the requisites whether it runs, `converge` how. Only the runner and the
//! signal watcher start threads (held by `each_act_has_its_owners`).

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests use the machine directly"))]

pub mod history;
pub mod plan_cache;
#[cfg(any(test, feature = "testing"))]
pub mod samples;
pub mod tally;

pub(crate) mod causes;
pub mod converge;
pub(crate) mod global_conditions;
pub mod graph;
pub mod guard;
pub(crate) mod listeners;
pub mod lock;
pub mod managed;
pub mod outcome;
pub mod progress;
pub mod queue;
pub mod requisite;
pub(crate) mod run_options;
pub mod runner;
pub(crate) mod secret_files;
pub mod signal;
pub mod slot;
mod sls_line;
pub(crate) mod state_locks;
pub(crate) mod state_run;

pub use global_conditions::GlobalConditions;
pub(crate) use lock::RunLock;
pub use lock::{LockError, NoRun};
pub use managed::{ManagedEntry, ManagedScope, Orphan, PruneOptions, RecordError, orphan_count};
pub use outcome::{
    ChangeCause, IRREVERSIBLE, LEFT_ALONE, RunMode, RunReport, RunTrigger, SALT_RESULT_KEYS, SkipReason,
    StateOutcome, StateStatus,
};
pub use progress::{NoProgress, RunProgress};
pub use run_options::{PruneFlags, RunOptions};
pub use runner::run_plan;
pub use signal::SignalWatcher;
pub use state_run::{ManagingNode, StateRun, StateRunError, undoable_runs};
