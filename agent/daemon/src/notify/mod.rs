//! A run in, words to those who should know out: webhooks, and the audit file.
//!
//! Law: nothing leaves here without the run's mask, and nobody who is told can hold up the agent.

pub mod audit;
pub mod event;
pub mod webhook;

pub use event::{FailedState, NotifyEvent, run_occasions};
