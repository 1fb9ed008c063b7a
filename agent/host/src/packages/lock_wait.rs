//! The wait for the lock of a package manager (dpkg, apt, ...): who holds it, for how long it is waited for, and what is
//! said when it does not come free.

#![expect(clippy::disallowed_methods, reason = "waits for the lock of the package manager until a deadline")]

use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use zagent_config::FunctionError;

use super::runner::{PkgRunner, RUN_TIMEOUT, failure_summary};
use crate::Machine;

/// How long to wait for the process that holds the database.
pub(super) const LOCK_TIMEOUT: Duration = Duration::from_secs(120);
/// How often a lock is looked at.
const LOCK_POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Locks of apt and dpkg; other managers say themselves who is at it.
const DPKG_LOCK_FILES: [&str; 4] = [
    "/var/lib/dpkg/lock-frontend",
    "/var/lib/dpkg/lock",
    "/var/cache/apt/archives/lock",
    "/var/lib/apt/lists/lock",
];

/// Says so when the database is in somebody else's hands.
const LOCK_BUSY_MESSAGES: [&str; 5] = [
    "Could not get lock",
    "Unable to lock",
    "unable to lock database",
    "System management is locked",
    "Unable to acquire the dpkg frontend lock",
];

impl PkgRunner<'_> {
    /// Runs a command line of the manager once its lock is free.
    pub(super) fn run_with_lock_wait(&self, line: &[String], finishes: bool) -> Result<(), FunctionError> {
        let left = self.tools.time_left().map(|left| left.saturating_sub(Duration::from_secs(1)));
        let patience = left.map_or(LOCK_TIMEOUT, |left| left.min(LOCK_TIMEOUT));
        // Fetching the catalogue is nothing to dpkg, and the others do not look at the lists.
        let (dpkg, lists) = DPKG_LOCK_FILES.split_at(DPKG_LOCK_FILES.len() - 1);
        let locks = match line[0].as_str() {
            "apt-get" if line.iter().any(|w| w == "update") => lists,
            "apt-get" | "apt-mark" | "dpkg" => dpkg,
            _ => &[],
        };
        let started = Instant::now();
        loop {
            let waited = started.elapsed();
            let holder = find_lock_holder(self.tools.machine, locks);
            if let Some((file, who)) = &holder {
                if waited >= patience {
                    return Err(lock_busy_error(file, who, patience));
                }
                self.tools.sleep(LOCK_POLL_INTERVAL)?;
                continue;
            }
            let mut line = line.to_vec();
            if line[0] == "apt-get" {
                let rest = patience.saturating_sub(waited).as_secs();
                line.splice(1..1, ["-o".to_owned(), format!("DPkg::Lock::Timeout={rest}")]);
            }
            let output = self.run_line(&line, RUN_TIMEOUT, finishes)?;
            if self.selected.provider.is_success_code(output.code) {
                return Ok(());
            }
            let is_busy =
                LOCK_BUSY_MESSAGES.iter().any(|b| output.stderr.contains(b) || output.stdout.contains(b));
            if !is_busy || started.elapsed() >= patience {
                let who = find_lock_holder(self.tools.machine, locks).filter(|_| is_busy);
                return Err(who.map_or_else(
                    || FunctionError::failed(failure_summary(&line[0], &output)),
                    |(file, who)| lock_busy_error(file, &who, patience),
                ));
            }
            self.tools.sleep(LOCK_POLL_INTERVAL)?;
        }
    }
}

fn lock_busy_error(file: &str, who: &str, patience: Duration) -> FunctionError {
    FunctionError::failed(format!(
        "could not get the lock `{file}` within {} s: it is held by {who}",
        patience.as_secs()
    ))
}

/// The process that holds a lock on one of these files: the file, and who it is in words.
pub(crate) fn find_lock_holder<'f>(machine: &Machine, files: &[&'f str]) -> Option<(&'f str, String)> {
    let locks = machine.read("/proc/locks").ok().flatten()?;
    files.iter().find_map(|file| {
        let inode = machine.metadata(file).ok()?.ino();
        let pid = parse_lock_pid(&locks, inode)?;
        let program = machine.read(&format!("/proc/{pid}/comm")).ok().flatten();
        let program = program.as_deref().map_or("a program that is out of sight", str::trim);
        Some((*file, format!("process {pid} ({program})")))
    })
}

/// The process in `1: POSIX  ADVISORY  WRITE 42 08:01:5678 0 EOF` for an inode; lines with an arrow only wait.
fn parse_lock_pid(locks: &str, inode: u64) -> Option<i64> {
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, kind, _, "WRITE", pid, place, ..] = words[..] else { return None };
        let is_it = place.rsplit(':').next()?.parse() == Ok(inode);
        (kind != "->" && is_it).then(|| pid.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::parse_lock_pid;

    #[test]
    fn the_writer_of_an_inode_is_found_and_who_waits_is_not() {
        let locks = "1: POSIX  ADVISORY  READ  7 00:2a:11 128 128\n\
                     2: POSIX  ADVISORY  WRITE 42 08:01:5678 0 EOF\n\
                     2: -> POSIX  ADVISORY  WRITE 43 08:01:5678 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 44 08:01:9 0 EOF\n";
        assert_eq!(parse_lock_pid(locks, 5678), Some(42));
        assert_eq!(parse_lock_pid(locks, 9), Some(44));
        assert_eq!(parse_lock_pid(locks, 11), None);
        assert_eq!(parse_lock_pid(locks, 1), None);
    }
}
