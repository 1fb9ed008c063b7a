//! From a push to a converged host: real `git` pushes, real servers on this machine, the whole program.

#![allow(clippy::disallowed_methods, reason = "tests use the machine directly")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its repository has failed")]

mod branches;
mod follow;
mod ground;
mod health;
mod large;
mod secrets;
mod tell;
