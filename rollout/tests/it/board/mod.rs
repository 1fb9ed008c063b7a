//! The requirements for every board, checked against real servers.

#![allow(clippy::disallowed_methods, reason = "tests use the machine directly")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its board has failed")]

mod conforms;
mod git;
#[cfg(feature = "nats")]
mod nats;
mod scale;
mod sled;
