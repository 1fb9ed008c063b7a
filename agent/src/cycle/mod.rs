//! From a push to a converged host: one turn of the agent, and the daemon around it.

mod daemon;
mod decide;
mod memory;
mod node_report;
mod operator_orders;
mod post_run;
mod rollout_state;
pub mod scheduler;
mod seed;
mod states_source;
mod sync;
mod trial;
mod turn;
mod turn_process;

pub use daemon::{DaemonSetup, run as stay};
pub use decide::{NodeView, RemoteOffer, RevisionRole, RolloutConstraint, SyncDecision, decide_revision};
pub use memory::{
    AgentMemory, HeldRevision, HoldReason, LastRun, NewestRevision, RemoteHealth, TestingAncestry,
};
pub(crate) use node_report::{open_records, reported_facts, revision_and_run};
pub use operator_orders::OperatorOrders;
pub use rollout_state::{RolloutHold as Obstacle, RolloutState};
pub use seed::{machine_seed, seed_from};
pub use states_source::{FALLBACK_WARNING, NO_STATES, NO_STATES_AT_BOOT, SourceGuard, StatesSource};
pub use sync::{
    StatesSync, SyncOptions, SyncOutcome, directory_remote, followed_remotes, plain_revision, testing_branch,
};
pub use turn::{CompletedRun, Turn, TurnHooks, TurnOutcome};
