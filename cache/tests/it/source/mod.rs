//! Remotes of every kind, well-behaved and hostile, on this machine.

#![allow(clippy::disallowed_methods, reason = "tests use the machine directly")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its remote has failed")]

mod bombs;
mod fixture;
mod hostile;
mod https;
mod login;
mod packs;
mod remote_kinds;
mod ssh;
mod well_behaved;
