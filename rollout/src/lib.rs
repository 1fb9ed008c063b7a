//! A fleet that updates itself: what a rollout is, how it progresses, and what a node does in it.
//!
//! Law: the core is pure (held by `tests/tests/it/laws.rs`). [`record`], [`plan`], [`phase`], [`recovery`] and [`node`] are functions of
//! their arguments, including the time; boards, slots and processes are at the edges.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests use the machine directly"))]

pub mod acceptance;
pub mod artifact;
mod batches;
pub mod board;
mod board_reports;
pub mod board_stores;
pub mod driver;
pub mod driver_logic;
pub mod envelope;
pub mod node;
pub mod phase;
pub mod plan;
pub mod record;
pub mod records;
pub mod recovery;
pub mod report;
mod sled_call;
pub mod slots;
mod span;
pub mod stored_record;
pub mod supervise;
pub mod targeting;
pub mod unsaved_step;
pub mod version;
pub mod watchdog;
pub mod waves;

pub use batches::{BatchSize, BatchSizeError, split_batches};
pub use span::Span;

/// The protocol version between nodes, drivers and boards: fields are only ever added.
pub const PROTOCOL: u32 = 1;

/// A point where a test makes an operation fail or the process crash.
#[cfg(feature = "failpoints")]
pub(crate) fn fail_point(name: &str) -> std::io::Result<()> {
    match fail::eval(name, Option::unwrap_or_default) {
        None => Ok(()),
        Some(what) if what == "abort" => std::process::abort(),
        Some(_) => Err(std::io::Error::from_raw_os_error(rustix::io::Errno::NOSPC.raw_os_error())),
    }
}

#[cfg(not(feature = "failpoints"))]
#[expect(clippy::unnecessary_wraps, reason = "with the feature it fails")]
pub(crate) const fn fail_point(_: &str) -> std::io::Result<()> {
    Ok(())
}
