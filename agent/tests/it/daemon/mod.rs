//! The daemon as a process that follows a Git server: from a push to a converged host, and everything that
//! can happen in between.

#![allow(clippy::disallowed_methods, reason = "tests use the machine directly")]
#![expect(clippy::unwrap_used, reason = "a test that cannot read or write its files has failed")]

mod follow;
mod hold;
mod live;
