//! A target in, one report or one value out: the node and its resources, each with its own grains, pillar and machine.
//!
//! Law: the node runs first, then resources side by side, never more than `resources.jobs`. A resource that fails, hangs or floods
//! costs only its own entry (held by `a_broken_resource_costs_only_its_own_entry`).

mod call;
mod parallel;
mod remote;
mod resource_job;
mod run;
pub(crate) mod run_settings;
mod selection;

pub use self::call::{FunctionReply, call_on_node, call_on_targets};
pub use self::run::{ManualRun, PlanRequest, TargetRun, run_manually, run_on_targets};
pub use self::selection::{ResourceSet, Selection, TargetText};
