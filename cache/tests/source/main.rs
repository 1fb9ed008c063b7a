//! Remotes of every kind, honest and not, on this machine.

#![expect(clippy::unwrap_used, reason = "a test that cannot set up its remote has failed")]

mod fixture;
mod honest;
mod hostile;
mod https;
mod login;
mod packs;
mod places;
mod ssh;
