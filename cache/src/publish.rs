//! A verified tree in, the current generation out.
//!
//! Law: files and record are on disk before the replay protection record changes, that record before the tree gets its
//! name, and the name before `current` points to it. After a crash, `current` points to the old tree or to the new one.

use crate::generation::{self, RECORD};
use crate::{CacheError, Generation, VerifiedTree, disk};

impl VerifiedTree {
    /// Makes it the current generation.
    ///
    /// # Errors
    /// Fails when something cannot be written; `current` then stays as it was.
    pub fn publish(self) -> Result<Generation, CacheError> {
        let Self { staged_tree, record, floor } = self;
        let (cache, paths, place) =
            (&staged_tree.cache, staged_tree.cache.paths(), staged_tree.staging_dir.path());
        let at = |name: &str| disk::failpoint(name).map_err(disk::io_error("publish", place));
        let bytes = serde_json::to_vec(&record).map_err(|e| disk::io_error("write", place)(e.into()))?;
        disk::write_new(&place.join(RECORD), &bytes, 0o600)?;
        disk::sync_below(place)?;
        at("publish::synced")?;
        if let Some(floor) = floor {
            floor.write(paths)?;
        }
        at("publish::floor")?;
        // Someone may have deleted the cache while the agent runs.
        disk::make_dirs(&paths.generations())?;
        let taken = disk::list_names(&paths.generations())?;
        let number =
            taken.iter().filter_map(|name| generation::generation_number(name)).max().unwrap_or(0) + 1;
        let name = generation::generation_name(number, &record.revision, &bytes);
        disk::rename(place, &paths.generation(&name))?;
        at("publish::renamed")?;
        disk::sync_dir(&paths.generations())?;
        disk::sync_dir(&paths.staging())?;
        at("publish::named")?;
        cache.switch_current(&name)?;
        Generation::open(paths, &name)
    }
}
