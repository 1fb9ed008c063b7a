//! One run at a time on a host: the lock names who holds it.

#![expect(clippy::disallowed_methods, reason = "waits for the lock of the run until a deadline")]

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use zagent_config::disk_space::is_full;
use zagent_config::paths::Paths;
use zagent_host::CancelToken;

/// How often a taken lock is tried again.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// Held while a run changes the host; given back when dropped, or when the process ends in whatever way.
#[derive(Debug)]
pub(crate) struct RunLock {
    file: File,
    /// True when it holds its own name, which is removed at the end: only a run that was killed leaves its name.
    is_named: bool,
    /// The run that held it before, when its process was killed.
    pub(crate) killed: Option<KilledRun>,
}

/// What is known of a run while it goes on; its lock holds it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StartedRun {
    /// The node.
    pub(crate) node: String,
    /// Commit, or source of the states.
    pub(crate) revision: String,
    /// Mode: `apply` or `revert`.
    pub(crate) mode: String,
    /// Order in which states run.
    pub(crate) schedule: String,
    /// What triggered it.
    pub(crate) trigger: String,
}

/// A run whose process ended before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KilledRun {
    pub(crate) run: String,
    pub(crate) started: StartedRun,
}

impl KilledRun {
    /// Reads it from a lock that nobody holds: `PID run NAME`, then what is known of the run.
    fn from_lock(text: &str) -> Option<Self> {
        let (first, rest) = text.split_once('\n')?;
        let (pid, run) = first.split_once(" run ")?;
        if is_alive(pid.parse().ok()?) {
            return None;
        }
        let started = serde_json::from_str(rest.lines().next()?).ok()?;
        Some(Self { run: run.to_owned(), started })
    }
}

/// The name under which files of past runs are removed.
const CLEANUP: &str = "cleanup";
/// Bytes read of a lock file.
const LOCK_BYTES: u64 = 4096;

/// The run that a lock names, when nobody holds it and its process is gone. A run that ended is in the history too.
pub(crate) fn killed_run(path: &Path) -> Option<KilledRun> {
    let mut file = File::open(path).ok()?;
    flock(&file, FlockOperation::NonBlockingLockShared).ok()?;
    KilledRun::from_lock(&read_text(&mut file))
}

fn read_text(file: &mut File) -> String {
    let mut text = String::new();
    // What cannot be read names nobody.
    let _ = file.rewind().and_then(|()| file.take(LOCK_BYTES).read_to_string(&mut text));
    text
}

fn is_alive(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
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
        (run, started): (&str, &StartedRun),
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
        let killed = KilledRun::from_lock(&read_text(&mut file));
        if run == CLEANUP && killed.is_some() {
            return Ok(Self { file, is_named: false, killed });
        }
        let about = serde_json::to_string(started).unwrap_or_default();
        let words = format!("{} run {run}\n{about}\n", std::process::id());
        let named =
            file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(words.as_bytes()));
        match named {
            // Only for those who wait: on a full disk they do not learn for whom.
            Err(error) if !is_full(&error) => Err(broken(error)),
            _ => Ok(Self { file, is_named: true, killed }),
        }
    }
}

impl Drop for RunLock {
    fn drop(&mut self) {
        if self.is_named {
            // A name that stays is told as a killed run only when the history lacks it.
            let _ = self.file.set_len(0);
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
        let lock =
            RunLock::acquire(&path, (CLEANUP, &StartedRun::default()), Duration::ZERO, &CancelToken::new())
                .ok()?;
        Some(Self { _lock: lock })
    }
}

struct LockHolder {
    pid: Option<u32>,
    description: String,
}

fn read_holder(file: &mut File) -> LockHolder {
    // Who cannot be read is somebody all the same.
    let text = read_text(file);
    let first = text.lines().next().unwrap_or_default().trim();
    let (pid, rest) = first.split_once(' ').unwrap_or((first, ""));
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
        let about = StartedRun::default();
        let first = RunLock::acquire(&path, ("one", &about), Duration::ZERO, &cancel).unwrap();
        let second = RunLock::acquire(&path, ("two", &about), Duration::ZERO, &cancel).unwrap_err();
        assert!(second.to_string().contains(&format!("process {}, run one", std::process::id())), "{second}");
        drop(first);
        // A command that another test starts in this moment holds the lock too, until it is what it will be.
        RunLock::acquire(&path, ("three", &about), Duration::from_secs(30), &cancel).unwrap();
    }

    #[test]
    fn a_lock_names_the_run_that_was_killed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let started = StartedRun { node: "web-01".into(), mode: "apply".into(), ..StartedRun::default() };
        let about = serde_json::to_string(&started).unwrap();
        // No process has this number.
        let dead = u32::MAX;
        let text = format!("{dead} run 20261116T084512-3f9a7\n{about}\n");
        std::fs::write(&path, &text).unwrap();
        let head = crate::history::RunSummary::of_killed(&killed_run(&path).unwrap()).unwrap();
        assert_eq!((head.run.as_str(), head.node.as_str()), ("20261116T084512-3f9a7", "web-01"));
        assert!(head.killed && !head.success && head.start().to_string() == "2026-11-16T08:45:12Z");
        let cleanup =
            RunLock::acquire(&path, (CLEANUP, &started), Duration::ZERO, &CancelToken::new()).unwrap();
        drop(cleanup);
        assert_eq!(killed_run(&path).unwrap().run, head.run);
        let lock = RunLock::acquire(&path, ("two", &started), Duration::ZERO, &CancelToken::new()).unwrap();
        assert_eq!(lock.killed.as_ref().unwrap().run, head.run);
        assert_eq!(killed_run(&path), None, "a run goes on");
        drop(lock);
        assert_eq!(killed_run(&path), None, "it ended");
    }
}
