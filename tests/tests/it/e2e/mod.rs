//! From a push to a converged host: real `git` pushes, real servers on this machine, the whole program.

#![expect(clippy::unwrap_used, reason = "a test that cannot set up its repository has failed")]

mod branches;
mod follow;
mod ground;
mod health;
mod large;
mod tell;
