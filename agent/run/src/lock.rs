//! One run at a time on a host: the lock names who holds it.

#![expect(clippy::disallowed_methods, reason = "waits for the lock of the run until a deadline")]

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use zagent_config::disk_space::is_full;
use zagent_config::paths::Paths;
use zagent_host::CancelToken;

/// How often a taken lock is tried again.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// Held while a run changes the host; given back when dropped, or when the process ends in whatever way.
#[derive(Debug)]
pub(crate) struct RunLock {
    _file: File,
}

/// Why there is no lock.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another run holds it.
    #[error("another run is going on: {holder}")]
    Held {
        /// Who, in words.
        holder: String,
    },
    /// The lock file cannot be used.
    #[error("cannot use the lock `{}`", path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

impl RunLock {
    /// Takes the lock; waits at most so long for another run to end.
    ///
    /// # Errors
    /// Fails when another run holds it for longer (or started this one), and when the file cannot be used.
    pub(crate) fn acquire(
        path: &Path,
        run: &str,
        timeout: Duration,
        cancel: &CancelToken,
    ) -> Result<Self, LockError> {
        let broken = |source| LockError::Broken { path: path.to_owned(), source };
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(path).map_err(broken)?;
        let mut told = false;
        let until = Instant::now().checked_add(timeout);
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(rustix::io::Errno::WOULDBLOCK) => {}
                Err(e) => return Err(broken(e.into())),
            }
            let holder = read_holder(&mut file);
            let late = until.is_some_and(|u| Instant::now() >= u);
            if late || cancel.is_cancelled() || holder.pid.is_some_and(is_ancestor) {
                return Err(LockError::Held { holder: holder.description });
            }
            if !std::mem::replace(&mut told, true) {
                tracing::warn!(holder = holder.description, "waiting for another run to end");
            }
            cancel.wait(RETRY_INTERVAL);
        }
        let words = format!("{} run {run}\n", std::process::id());
        let named =
            file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(words.as_bytes()));
        match named {
            // Only for those who wait: on a full disk they do not learn for whom.
            Err(error) if !is_full(&error) => Err(broken(error)),
            _ => Ok(Self { _file: file }),
        }
    }
}

/// Held while files of past runs are removed: no run is going on, and one that starts waits.
#[derive(Debug)]
pub struct NoRun {
    _lock: RunLock,
}

impl NoRun {
    /// None when a run is going on, or the lock cannot be used.
    #[must_use]
    pub fn claim(paths: &Paths) -> Option<Self> {
        let path = paths.lock();
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path.parent()?).ok()?;
        let lock = RunLock::acquire(&path, "cleanup", Duration::ZERO, &CancelToken::new()).ok()?;
        Some(Self { _lock: lock })
    }
}

struct LockHolder {
    pid: Option<u32>,
    description: String,
}

fn read_holder(file: &mut File) -> LockHolder {
    let mut text = String::new();
    // Who cannot be read is somebody all the same.
    let _ = file.rewind().and_then(|()| file.take(200).read_to_string(&mut text));
    let (pid, rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
    match pid.parse() {
        Ok(pid) => LockHolder { pid: Some(pid), description: format!("process {pid}, {rest}") },
        Err(_) => LockHolder { pid: None, description: "by an unknown process".into() },
    }
}

/// True when a process started this one, near or far: waiting for it would never end.
fn is_ancestor(pid: u32) -> bool {
    let mut now = std::process::id();
    for _ in 0..64 {
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{now}/stat")) else { return false };
        // The name stands in parentheses and may hold anything; the parent is the second word after it.
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
        match parent {
            Some(parent) if parent == pid => return true,
            Some(parent) if parent > 1 => now = parent,
            _ => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_run_is_told_who_holds_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let cancel = CancelToken::new();
        let first = RunLock::acquire(&path, "one", Duration::ZERO, &cancel).unwrap();
        let second = RunLock::acquire(&path, "two", Duration::ZERO, &cancel).unwrap_err();
        assert!(second.to_string().contains(&format!("process {}, run one", std::process::id())), "{second}");
        drop(first);
        // A command that another test starts in this moment holds the lock too, until it is what it will be.
        RunLock::acquire(&path, "three", Duration::from_secs(30), &cancel).unwrap();
    }
}
