//! A real fleet: twelve nodes as processes against one Git server; good and bad releases, and every process
//! killed at every step.

#![allow(clippy::disallowed_methods, reason = "tests use the machine directly")]
#![expect(clippy::unwrap_used, reason = "a test that cannot read or write its files has failed")]

mod a_few;
mod bad;
mod damaged;
mod good;
mod held;
mod killed;
mod nodes;
mod shelf;
mod stale;
mod states;
