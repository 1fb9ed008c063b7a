//! From a push to a converged host: one turn of the agent, and the daemon around it.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests use the machine directly"))]

pub mod api;
pub mod compile_job;
pub mod compile_request;
pub mod drive_loop;
mod empty_plan;
pub mod error;
pub mod event_loop;
pub mod git_tree;
pub mod handover;
pub mod health;
pub mod node_settings;
pub mod notify;
pub mod operator;
pub mod plan_run;
pub mod repo_layout;
pub mod run_output;
pub mod sd_notify;
pub mod status;
pub mod watchdog;

pub mod decide;
pub mod memory;
pub mod node_report;
pub mod operator_orders;
pub mod post_run;
pub mod rollout_state;
pub mod scheduler;
pub mod seed;
pub mod states_source;
pub mod sync;
pub mod trial;
pub mod turn;
pub mod turn_options;
pub mod turn_process;
pub mod turn_runner;

pub use crate::event_loop::{DaemonSetup, run as stay};
pub use decide::{NodeView, RemoteOffer, RevisionRole, RolloutConstraint, SyncDecision, decide_revision};
pub use memory::{
    AgentMemory, HeldRevision, HoldReason, LastRun, NewestRevision, RemoteHealth, TestingAncestry,
};
pub use node_report::{open_records, reported_facts, revision_and_run};
pub use operator_orders::OperatorOrders;
pub use rollout_state::{RolloutHold as Obstacle, RolloutState};
pub use seed::{machine_seed, seed_from};
pub use states_source::{FALLBACK_WARNING, NO_STATES, NO_STATES_AT_BOOT, SourceGuard, StatesSource};
pub use sync::{
    StatesSync, SyncOptions, SyncOutcome, directory_remote, followed_remotes, plain_revision, testing_branch,
};
pub use turn::{CompletedRun, Turn, TurnOutcome};
