//! The tests of the built program, in one binary: `cargo test -p zagent --test it daemon::` runs one suite.
//!
//! `idle` has its own binary: it measures the CPU time of its process.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests use the machine directly, and fail when they cannot"
)]

mod book;
mod canary;
mod crash;
mod daemon;
mod enroll;
mod fleet;
mod full_disk;
mod local;
mod node;
mod orphans;
mod passphrase;
mod rollout;
mod secrets;
mod signals;
mod site;
mod ssh;
mod tokens;
mod trust;
