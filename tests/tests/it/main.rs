//! The tests across all crates, in one binary: `cargo test -p zagent-tests --test it corpus::` runs one suite.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests use the machine directly, and fail when they cannot"
)]

mod attacks;
mod container;
mod converge;
mod corpus;
mod direction;
mod e2e;
mod encrypted;
mod faults;
mod fleet;
mod forges;
mod formulas;
mod fuzz;
mod hardship;
mod honesty;
mod hostile;
mod laws;
mod matrix;
mod packages;
mod providers;
mod reboot;
mod reference;
mod runner;
mod schema;
mod seed000;
mod speed;
