//! Run in, notifications out: webhooks and the audit file.
//!
//! Law: everything that leaves passes the run's secret mask, and no receiver can delay the agent (held by
//! `an_event_is_sent_signed_and_without_secrets`, `a_silent_server_does_not_delay_the_agent`).

#![expect(
    clippy::disallowed_methods,
    reason = "webhooks have deadlines, and the audit log is rotated by a rename"
)]

pub mod audit;
pub(crate) mod commit_status;
mod event;
pub(crate) mod webhook;

pub(crate) use event::{NotifyEvent, run_occasions};
