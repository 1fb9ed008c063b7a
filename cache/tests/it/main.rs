//! The tests of the cache, in one binary: `cargo test -p zagent-cache --test it source::` runs one suite.
//!
//! Two suites have their own binary: `disk_full` turns fail points on for its whole process, and `idle` measures the CPU
//! time and the descriptors of its process.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests use the machine directly, and fail when they cannot"
)]

mod binding;
mod crash;
mod flip;
mod malicious;
mod power;
mod replay;
mod rest;
mod sharing;
mod site;
mod source;
mod tree;
mod trust;
