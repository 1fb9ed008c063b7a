//! The cache lock: one process at a time changes the cache, and the others learn which process holds the lock.
//!
//! Law: held from the first staged byte until `current` changes, and released by the kernel when the holder dies
//! (held by `the_holder_is_named`, `one_at_a_time`).

#![expect(clippy::disallowed_methods, reason = "waits for the lock of the cache until a deadline")]

use std::fs::{File, OpenOptions};
use std::io::{Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::{CacheError, disk};

/// The retry interval while another process holds the lock.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// A held lock; released when dropped.
#[derive(Debug)]
pub(crate) struct CacheLock(#[expect(dead_code, reason = "closing it releases the lock")] File);

impl CacheLock {
    /// Waits at most `patience` for other holders.
    pub(crate) fn acquire(path: &Path, timeout: Duration) -> Result<Self, CacheError> {
        let until = Instant::now() + timeout;
        if let Some(dir) = path.parent() {
            disk::make_dirs(dir)?;
        }
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)
            .map_err(disk::io_error("open the lock", path))?;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(Errno::WOULDBLOCK) if Instant::now() < until => std::thread::sleep(RETRY_INTERVAL),
                Err(Errno::WOULDBLOCK) => {
                    let holder = std::fs::read_to_string(path).unwrap_or_default();
                    let holder = if holder.trim().is_empty() { "another process" } else { holder.trim() };
                    return Err(CacheError::Busy { path: path.into(), holder: holder.into() });
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(disk::io_error("take the lock", path)(error.into())),
            }
        }
        // Only information for other processes: if it cannot be written, for example on a full disk, the holder
        // continues.
        let _ = file.set_len(0).and_then(|()| file.rewind());
        let _ = write!(file, "process {}", std::process::id());
        Ok(Self(file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run/lock");
        let held = CacheLock::acquire(&path, Duration::ZERO).unwrap();
        let error = CacheLock::acquire(&path, Duration::from_millis(30)).unwrap_err().to_string();
        assert!(error.contains(&format!("process {}", std::process::id())), "{error}");
        drop(held);
        // A program that another test starts at this moment also holds the lock, until it calls exec.
        assert!(CacheLock::acquire(&path, Duration::from_secs(10)).is_ok());
    }
}
