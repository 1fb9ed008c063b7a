//! A Debian with real systemd in, commands inside it out: built once with debootstrap, booted by systemd-nspawn on its
//! own overlay, stopped with the value.
//!
//! Every wait is for a condition and has a deadline; a container that fails prints its journal.

mod base;
mod cgroup;
mod host;
mod mirror;
mod node;
mod scene;
mod server;

pub use base::Base;
pub use host::{Changes, Host, Ran};
pub use mirror::Mirror;
pub use node::{Init, Network, Node, Said};
pub use scene::{Line, Scene, motd, program};
pub use server::Server;

use std::time::{Duration, Instant};

/// Why the suite does not run here; `None` when it must run.
///
/// # Panics
/// When it was requested and something that it needs is missing.
#[must_use]
pub fn is_asked_for() -> bool {
    if std::env::var_os("NSPAWN").is_none_or(|v| v.is_empty() || v == "0") {
        return false;
    }
    assert!(rustix::process::geteuid().is_root(), "NSPAWN=1 needs root: systemd-nspawn mounts");
    for program in ["systemd-nspawn", "debootstrap", "nsenter", "setpriv", "git", "ssh-keygen", "tar", "ip"] {
        assert!(base::has(program), "NSPAWN=1 needs `{program}`: .ci/nspawn installs it");
    }
    true
}

/// Waits for a condition; after the time limit it fails with the last value.
///
/// # Panics
/// When the time is up.
pub fn eventually<T>(what: &str, limit: Duration, mut look: impl FnMut() -> Result<T, String>) -> T {
    let begun = Instant::now();
    loop {
        match look() {
            Ok(found) => return found,
            Err(last) => assert!(begun.elapsed() < limit, "not within {limit:?}: {what}; last seen: {last}"),
        }
        // The pause is between two checks: a check starts a process.
        std::thread::sleep(Duration::from_millis(100));
    }
}
