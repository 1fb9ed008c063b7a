//! Small state files that must not be lost: requests of an operator, and records of bad revisions.
//!
//! Law: after a crash, a file has the old or the new content; two writers run one after the other; no other user
//! can read it (0600 in a directory with 0700), and a file over the size limit is not read (held by
//! `leftovers_of_a_crash_are_replaced_and_damage_is_reported`, `no_change_is_lost`,
//! `written_read_changed_and_removed`).

#![expect(
    clippy::disallowed_methods,
    reason = "owns the atomic write of the agent's own files and waits for their lock"
)]

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, OFlags, flock};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::atomic_file::AtomicFile;
use crate::durable;

/// Maximum bytes of such a file.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// The error for a larger file.
const TOO_LARGE: &str = "the file is too large";
/// How long a writer waits for another writer.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// The retry interval for the lock.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(5);

/// Why such a file could not be used.
#[derive(Debug, thiserror::Error)]
pub enum JsonFileError {
    /// It exists and cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Its content is not valid.
    #[error("`{}` is damaged", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The problem.
        #[source]
        source: serde_json::Error,
    },
    /// It cannot be written.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl JsonFileError {
    /// True when the system denied permission.
    #[must_use]
    pub fn is_permission(&self) -> bool {
        match self {
            Self::Read { source, .. } | Self::Write { source, .. } => {
                matches!(source.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
            }
            Self::Damaged { .. } => false,
        }
    }

    /// True when the content was never written by zagent.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        match self {
            Self::Damaged { .. } => true,
            Self::Read { source, .. } => source.kind() == io::ErrorKind::FileTooLarge,
            Self::Write { .. } => false,
        }
    }
}

/// Reads a value; `None` when the file does not exist.
///
/// # Errors
/// Fails when it cannot be read, and when it is damaged.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, JsonFileError> {
    let failed = |source| JsonFileError::Read { path: path.to_owned(), source };
    let no_follow = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or(0);
    let file = match File::options().read(true).custom_flags(no_follow).open(path) {
        Ok(file) => file,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(failed(e)),
    };
    let mut bytes = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(failed(io::Error::new(io::ErrorKind::FileTooLarge, TOO_LARGE)));
    }
    let damaged = |source| JsonFileError::Damaged { path: path.to_owned(), source };
    serde_json::from_slice(&bytes).map(Some).map_err(damaged)
}

/// Replaces the value.
///
/// # Errors
/// Fails when it cannot be written; the old value then stays.
pub fn write(path: &Path, value: &impl Serialize) -> Result<(), JsonFileError> {
    let dir = LockedDir::acquire(path)?;
    dir.replace_file(path, value)
}

/// Reads a value, changes it and writes it, under the lock. Returns what `change` returns; with `None` nothing is
/// written.
///
/// # Errors
/// Fails when it cannot be read or written.
pub fn update<T, R>(path: &Path, change: impl FnOnce(&mut T) -> Option<R>) -> Result<Option<R>, JsonFileError>
where
    T: DeserializeOwned + Serialize + Default,
{
    let dir = LockedDir::acquire(path)?;
    let mut value = read::<T>(path)?.unwrap_or_default();
    let Some(answer) = change(&mut value) else { return Ok(None) };
    dir.replace_file(path, &value)?;
    Ok(Some(answer))
}

/// Removes a file; true when it existed.
///
/// # Errors
/// Fails when it exists and cannot be removed.
pub fn remove(path: &Path) -> Result<bool, JsonFileError> {
    let failed = |source| JsonFileError::Write { path: path.to_owned(), source };
    match std::fs::remove_file(path) {
        Ok(()) => durable::sync_parent(path).map(|()| true).map_err(failed),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(failed(e)),
    }
}

/// The directory of a file, locked against other writers.
struct LockedDir {
    _lock: File,
}

impl LockedDir {
    fn acquire(path: &Path) -> Result<Self, JsonFileError> {
        Self::try_acquire(path).map_err(|source| JsonFileError::Write { path: path.to_owned(), source })
    }

    fn try_acquire(path: &Path) -> io::Result<Self> {
        let parent = path.parent().unwrap_or(Path::new("/"));
        durable::create_dirs(parent, 0o700)?;
        let dir = File::open(parent)?;
        let until = Instant::now() + LOCK_TIMEOUT;
        loop {
            match flock(&dir, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Self { _lock: dir }),
                Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) if Instant::now() < until => {
                    std::thread::sleep(LOCK_RETRY_INTERVAL);
                }
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    let words = "another process holds the lock";
                    return Err(io::Error::new(io::ErrorKind::WouldBlock, words));
                }
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// Replaces the file, under the lock.
    fn replace_file(&self, path: &Path, value: &impl Serialize) -> Result<(), JsonFileError> {
        let failed = |source| JsonFileError::Write { path: path.to_owned(), source };
        let mut bytes = serde_json::to_vec_pretty(value).map_err(|e| failed(e.into()))?;
        bytes.push(b'\n');
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(failed(io::Error::new(io::ErrorKind::FileTooLarge, TOO_LARGE)));
        }
        AtomicFile::durable(0o600).single_writer().write(path, &bytes).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn written_read_changed_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state/thing");
        assert_eq!(read::<Vec<u32>>(&path).unwrap(), None);
        assert!(!remove(&path).unwrap());
        write(&path, &vec![1]).unwrap();
        let mode = |p: &Path| std::fs::metadata(p).unwrap().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        let added = update(&path, |list: &mut Vec<u32>| {
            list.push(2);
            Some(list.len())
        });
        assert_eq!(added.unwrap(), Some(2));
        assert_eq!(read::<Vec<u32>>(&path).unwrap(), Some(vec![1, 2]));
        assert!(remove(&path).unwrap());
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 0);
    }

    #[test]
    fn leftovers_of_a_crash_are_replaced_and_damage_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("thing");
        std::fs::write(dir.path().join("thing.new"), "[1").unwrap();
        write(&path, &vec![7]).unwrap();
        assert_eq!(read::<Vec<u32>>(&path).unwrap(), Some(vec![7]));
        assert!(!dir.path().join("thing.new").exists());
        std::fs::write(&path, "[7").unwrap();
        assert!(matches!(read::<Vec<u32>>(&path), Err(JsonFileError::Damaged { .. })));
        let untouched = update(&path, |_: &mut Vec<u32>| Some(()));
        assert!(matches!(untouched, Err(JsonFileError::Damaged { .. })));
        assert_eq!(std::fs::read(&path).unwrap(), b"[7", "a damaged file is kept for an investigation");
        std::fs::write(&path, vec![b' '; (MAX_FILE_BYTES + 1) as usize]).unwrap();
        assert!(read::<Vec<u32>>(&path).unwrap_err().is_damaged());
        write(&path, &vec![1]).unwrap();
        assert!(write(&path, &vec![1_000_000_000_u32; 100_000]).is_err(), "it could not be read again");
        assert_eq!(read::<Vec<u32>>(&path).unwrap(), Some(vec![1]));
    }

    #[test]
    fn no_change_is_lost() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("thing");
        std::thread::scope(|scope| {
            for n in 0..8 {
                let path = &path;
                scope.spawn(move || {
                    for i in 0..5 {
                        let add = |list: &mut Vec<u32>| {
                            list.push(n * 10 + i);
                            Some(())
                        };
                        update(path, add).unwrap();
                    }
                });
            }
        });
        assert_eq!(read::<Vec<u32>>(&path).unwrap().unwrap().len(), 40);
    }
}
