//! Run in, notifications out: webhooks and the audit file.
//!
//! Law: everything that leaves passes the run's secret mask, and no receiver can delay the agent.

pub mod audit;
pub mod event;
pub mod webhook;

pub use event::{FailedState, NotifyEvent, run_occasions};
