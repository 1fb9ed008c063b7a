//! The tests of rollouts, in one binary: `cargo test -p zagent-rollout --test it board::` runs one suite.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests use the machine directly, and fail when they cannot"
)]

mod artifact;
mod board;
mod reports;
mod watchdog;
