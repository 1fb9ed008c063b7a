//! Directories whose entries changed, synced once for many changes.
//!
//! A name that was changed is durable after [`DirSync::sync_all`]. Until then a power cut may bring back what was
//! there before, whole: the content of a new file is always durable before it gets its name.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Directories that may wait with an open descriptor.
const MAX_WAITING: usize = 64;

/// Directories that wait to be synced.
#[derive(Debug, Default)]
pub(crate) struct DirSync {
    waiting: Mutex<HashMap<(u64, u64), OwnedFd>>,
}

impl DirSync {
    /// Remembers that the entries of a directory changed.
    pub(crate) fn mark_dirty(&self, dir: BorrowedFd<'_>) -> io::Result<()> {
        let stat = rustix::fs::fstat(dir)?;
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let std::collections::hash_map::Entry::Vacant(slot) = waiting.entry((stat.st_dev, stat.st_ino)) {
            slot.insert(dir.try_clone_to_owned()?);
        }
        if waiting.len() < MAX_WAITING {
            return Ok(());
        }
        let full = std::mem::take(&mut *waiting);
        drop(waiting);
        fsync_dirs(full)
    }

    /// Makes durable what waits.
    pub(crate) fn sync_all(&self) -> io::Result<()> {
        fsync_dirs(std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

fn fsync_dirs(dirs: HashMap<(u64, u64), OwnedFd>) -> io::Result<()> {
    for dir in dirs.into_values() {
        // One that is open for walking only cannot be synced; one that was removed needs not be.
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = rustix::fs::openat(dir.as_fd(), ".", flags, Mode::empty());
        match open.and_then(rustix::fs::fsync) {
            // Not every file system can sync a directory, and not every directory that may be changed may be read.
            Ok(()) | Err(Errno::NOENT | Errno::INVAL | Errno::ACCESS | Errno::ROFS) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

impl Drop for DirSync {
    fn drop(&mut self) {
        if let Err(error) = self.sync_all() {
            tracing::warn!(%error, "cannot sync a directory");
        }
    }
}
