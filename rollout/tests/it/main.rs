//! The tests of rollouts, in one binary: `cargo test -p zagent-rollout --test it board::` runs one suite.

mod artifact;
mod board;
mod reports;
mod watchdog;
