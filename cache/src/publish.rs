//! A verified tree in, the current generation out.
//!
//! Law: a tree without a record is no generation. The files are on disk before the replay protection record
//! changes, that record before the tree gets its own, and the tree's record before `current` points to it. After a
//! crash, `current` points to the old tree or to the new one (held by
//! `a_crash_at_any_point_leaves_the_old_or_the_new_generation`).

use crate::generation::{self, RECORD};
use crate::{CacheError, Generation, VerifiedTree, disk};

impl VerifiedTree {
    /// Moves the tree to where it stays when it is published; it is no generation yet. What is compiled from it here
    /// keeps its paths.
    ///
    /// # Errors
    /// Fails when it cannot be moved.
    pub fn place(&mut self) -> Result<(), CacheError> {
        if self.staged_tree.staging_dir.is_placed() {
            return Ok(());
        }
        let paths = self.staged_tree.cache.paths();
        // Someone may have deleted the cache while the agent runs.
        disk::make_dirs(&paths.generations())?;
        let taken = disk::list_names(&paths.generations())?;
        let number =
            taken.iter().filter_map(|name| generation::generation_number(name)).max().unwrap_or(0) + 1;
        let name = generation::generation_name(number, &self.record.revision, &self.record_bytes);
        let target = paths.generation(&name);
        disk::rename(self.staged_tree.staging_dir.path(), &target)?;
        self.staged_tree.staging_dir.set_placed(target, name);
        self.pass("publish::renamed")
    }

    /// Makes it the current generation.
    ///
    /// # Errors
    /// Fails when something cannot be written; `current` then stays as it was.
    pub fn publish(mut self) -> Result<Generation, CacheError> {
        self.place()?;
        let (cache, paths) = (&self.staged_tree.cache, self.staged_tree.cache.paths());
        let place = self.staged_tree.staging_dir.path();
        self.staged_tree.written.sync(place)?;
        self.pass("publish::synced")?;
        if let Some(floor) = &self.floor {
            floor.write(paths)?;
        }
        self.pass("publish::floor")?;
        disk::write_atomic(&place.join(RECORD), &self.record_bytes)?;
        let name = self.staged_tree.staging_dir.keep();
        disk::sync_dir(&paths.generations())?;
        disk::failpoint("publish::named").map_err(disk::io_error("publish", &paths.generation(&name)))?;
        cache.switch_current(&name)?;
        Ok(Generation::new(paths, name, self.record))
    }

    fn pass(&self, point: &str) -> Result<(), CacheError> {
        disk::failpoint(point).map_err(disk::io_error("publish", self.staged_tree.staging_dir.path()))
    }
}
