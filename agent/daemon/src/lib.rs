//! From a push to a converged host: one turn of the agent, and the daemon around it.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests use the machine directly"))]

pub mod api;
pub mod compile_job;
pub mod compile_request;
pub mod damage;
pub mod drive_loop;
pub mod error;
pub mod event_loop;
pub(crate) mod git_tree;
pub mod graph_drawing;
pub mod handover;
pub mod health;
pub mod held_revision;
pub(crate) mod local_key;
pub mod node_settings;
pub mod notify;
pub mod operator;
pub mod pages;
pub mod plan_file;
pub mod plan_run;
pub mod repo_layout;
pub mod resource_agent;
pub mod resource_run;
pub mod run_output;
pub(crate) mod sd_notify;
pub mod space;
pub mod status;
pub mod watchdog;

pub mod decide;
mod managed_templates;
pub mod memory;
pub mod node_report;
pub(crate) mod operator_orders;
pub(crate) mod rollout_state;
pub(crate) mod scheduler;
pub mod seed;
pub(crate) mod states_source;
pub mod sync;
pub(crate) mod synced_states;
pub mod trial;
pub mod trust_warnings;
pub mod turn;
pub mod turn_options;
pub(crate) mod turn_process;
pub(crate) mod turn_runner;

pub use crate::event_loop::{DaemonSetup, run as stay};
pub use held_revision::{HeldRevision, HoldReason};
pub(crate) use memory::NewestRevision;
pub use memory::{AgentMemory, LastRun, RemoteHealth};
pub use node_report::open_records;
pub(crate) use node_report::{reported_facts, revision_and_run};
pub use operator_orders::OperatorOrders;
pub(crate) use rollout_state::RolloutState;
pub use seed::machine_seed;
pub use states_source::{FALLBACK_WARNING, NO_STATES, NO_STATES_AT_BOOT};
pub use sync::{StatesSync, SyncOptions, SyncOutcome, plain_revision};
pub use turn::{Turn, TurnOutcome};
