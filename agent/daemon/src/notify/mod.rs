//! Run in, notifications out: webhooks and the audit file.
//!
//! Law: everything that leaves passes the run's secret mask, and no receiver can delay the agent.

#![expect(
    clippy::disallowed_methods,
    reason = "webhooks have deadlines, and the audit log is rotated by a rename"
)]

pub mod audit;
pub mod event;
pub mod webhook;

pub use event::{FailedState, NotifyEvent, run_occasions};
