//! Many generations in, few out.
//!
//! Law: the current generation, the one before it, the newest few and every generation that a run reads are kept
//! (held by `pruning_keeps_every_needed_generation`).

use std::fs::File;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use crate::deadline::Deadline;
use crate::generation::RECORD;
use crate::{Cache, CacheError, Generation, ObjectStore, RepositoryError, disk};

impl Cache {
    /// Removes generations that are not needed, and trees that were never published; returns the names.
    ///
    /// # Errors
    /// Fails when another process changes the cache, or a file cannot be removed.
    pub fn gc(&self) -> Result<Vec<String>, CacheError> {
        self.gc_beyond(self.keep_count())
    }

    /// The same, and of the others only the newest `keep` stay.
    ///
    /// # Errors
    /// As [`Cache::gc`].
    pub fn gc_beyond(&self, keep: usize) -> Result<Vec<String>, CacheError> {
        let _lock = self.lock()?;
        self.clear_staging()?;
        let all = self.list()?;
        let current = self.current_name()?;
        let previous = self.previous()?;
        let newest = all.len().saturating_sub(keep);
        let mut removed = Vec::new();
        for generation in &all[..newest] {
            let needed = [current.as_deref(), previous.as_ref().map(Generation::name)];
            if needed.contains(&Some(generation.name())) {
                continue;
            }
            // Held until it is removed: a run that starts now must not find it half removed.
            let Some(_held) = lock_unpinned(generation) else {
                continue;
            };
            disk::failpoint("prune::one").map_err(disk::io_error("remove", generation.root_dir()))?;
            self.discard(generation.name())?;
            removed.push(generation.name().to_owned());
        }
        Ok(removed)
    }
}

impl Cache {
    /// Removes the repository that fetches go into; the next fetch creates it.
    ///
    /// # Errors
    /// Fails when another process fetches, or a file cannot be removed.
    pub fn remove_repository(&self) -> Result<(), CacheError> {
        let path = self.paths().repository();
        let remove = || {
            let store = ObjectStore::open(&path)?;
            let _lock = store.lock(Deadline::after(Duration::ZERO))?;
            store.discard()
        };
        let failed = |error: RepositoryError| disk::io_error("remove", &path)(std::io::Error::other(error));
        remove().map_err(failed)
    }
}

/// The lock on a generation that no run reads.
fn lock_unpinned(generation: &Generation) -> Option<File> {
    let file = File::open(generation.root_dir().join(RECORD)).ok()?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok().map(|()| file)
}
