//! Many generations in, few out.
//!
//! Law: the current generation, the one before it, the newest few and every generation that a run reads are kept
//! (held by `pruning_keeps_every_needed_generation`).

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use crate::deadline::Deadline;
use crate::generation::{RECORD, published_names};
use crate::lock::CacheLock;
use crate::repair::AfterRemoval;
use crate::{Cache, CacheError, ObjectStore, RepositoryError, disk};

impl Cache {
    /// Removes generations that are not needed, and trees that were never published; returns the names. The tree of one
    /// stays as the spare one, from which the next is made.
    ///
    /// # Errors
    /// Fails when another process changes the cache, or a file cannot be removed.
    pub fn gc(&self) -> Result<Vec<String>, CacheError> {
        let lock = self.lock()?;
        self.prune(self.keep_count(), AfterRemoval::SpareTree, &lock)
    }

    /// The same because space is short: only the newest `keep` of the others stay, and no spare tree.
    ///
    /// # Errors
    /// As [`Cache::gc`].
    pub fn gc_beyond(&self, keep: usize) -> Result<Vec<String>, CacheError> {
        let lock = self.lock()?;
        let removed = self.prune(keep, AfterRemoval::Nothing, &lock)?;
        disk::remove_all(&self.paths().spare_tree())?;
        Ok(removed)
    }

    fn prune(&self, keep: usize, left: AfterRemoval, _lock: &CacheLock) -> Result<Vec<String>, CacheError> {
        self.clear_staging()?;
        let all = published_names(self.paths())?;
        let current = self.current_name()?;
        let newest = all.len().saturating_sub(keep);
        if newest == 0 {
            return Ok(Vec::new());
        }
        let previous = current.as_deref().and_then(|now| {
            let older = || all.iter().rfind(|name| name.as_str() < now).map(String::as_str);
            self.previous_name(now, &all).or_else(older)
        });
        let mut removed = Vec::new();
        for name in &all[..newest] {
            if [current.as_deref(), previous].contains(&Some(name.as_str())) {
                continue;
            }
            // Held until it is removed: a run that starts now must not find it half removed.
            let place = self.paths().generation(name);
            let Some(_held) = lock_unpinned(&place) else {
                continue;
            };
            disk::failpoint("prune::one").map_err(disk::io_error("remove", &place))?;
            self.discard(name, left)?;
            removed.push(name.clone());
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
fn lock_unpinned(place: &Path) -> Option<File> {
    let file = File::open(place.join(RECORD)).ok()?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok().map(|()| file)
}
