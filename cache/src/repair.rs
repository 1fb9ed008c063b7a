//! The state after a crash in, a consistent cache out.
//!
//! Law: a complete current generation is never touched. Everything that is removed was either never published or is
//! not a generation (held by `leftovers_of_a_crash_are_repaired`).

use std::fs;

use crate::generation::{RECORD, TREE};
use crate::{Cache, CacheError, CheckDepth, Generation, disk};

/// What was repaired.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// Trees that were never published, now removed.
    pub staged: usize,
    /// Generations without a complete record, now removed.
    pub broken: Vec<String>,
    /// The generation that `current` points to now, if it pointed to nothing before.
    pub current: Option<String>,
}

/// What stays of a removed generation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AfterRemoval {
    Nothing,
    /// Its tree, if there is no spare one yet. Only of a published generation: everything in it is durable.
    SpareTree,
}

impl RepairReport {
    /// True when nothing was wrong.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        *self == Self::default()
    }
}

impl Cache {
    /// True when a repair may be needed: cheap enough to check before every turn.
    #[must_use]
    pub fn needs_repair(&self) -> bool {
        let staged = disk::list_names(&self.paths().staging()).is_ok_and(|names| !names.is_empty());
        staged
            || self.has_unpublished()
            || !matches!(self.current_name(), Ok(Some(name)) if self.paths().generation(&name).is_dir())
    }

    /// True when a process was killed between placing and publishing a tree.
    fn has_unpublished(&self) -> bool {
        let home = self.paths().generations();
        disk::list_names(&home)
            .is_ok_and(|names| names.iter().any(|name| !home.join(name).join(RECORD).exists()))
    }

    /// Removes what a killed process left, and points `current` to a complete generation if there is one.
    ///
    /// # Errors
    /// Fails when another process changes the cache, or a file cannot be removed.
    pub fn repair(&self) -> Result<RepairReport, CacheError> {
        let _lock = self.lock()?;
        let mut report = RepairReport { staged: self.clear_staging()?, ..RepairReport::default() };
        disk::remove_file(&self.paths().current().with_extension("new"))?;
        disk::failpoint("heal::cleared").map_err(disk::io_error("heal", &self.paths().staging()))?;
        let current = self.current_name()?;
        let whole = current.as_deref().is_some_and(|name| self.is_complete(name));
        if !whole {
            report.current = self.repoint_current(current.as_deref())?;
        }
        let now = self.current_name()?;
        for name in disk::list_names(&self.paths().generations())? {
            if Some(&name) != now.as_ref() && Generation::open(self.paths(), &name).is_err() {
                self.discard(&name, AfterRemoval::Nothing)?;
                report.broken.push(name);
            }
        }
        if !report.is_clean() {
            tracing::info!(?report, "repaired the cache");
        }
        Ok(report)
    }

    fn is_complete(&self, name: &str) -> bool {
        Generation::open(self.paths(), name).is_ok_and(|g| g.tree_dir().is_dir())
    }

    /// Points `current` to the newest complete generation; removes it when there is none.
    fn repoint_current(&self, was: Option<&str>) -> Result<Option<String>, CacheError> {
        let whole = self.list()?.into_iter().rev().find(|g| g.check(CheckDepth::Full).is_ok());
        match (whole, was) {
            (Some(generation), _) => {
                tracing::warn!(
                    was,
                    now = generation.name(),
                    "`current` did not point to a generation; reset it"
                );
                self.switch_current(generation.name())?;
                Ok(Some(generation.name().to_owned()))
            }
            (None, Some(was)) => {
                tracing::warn!(
                    was,
                    "`current` did not point to a generation, and no complete generation is left"
                );
                disk::remove_file(&self.paths().current())?;
                Ok(None)
            }
            (None, None) => Ok(None),
        }
    }

    /// Removes every staged tree; only with the lock held, so no process is writing one.
    pub(crate) fn clear_staging(&self) -> Result<usize, CacheError> {
        let names = disk::list_names(&self.paths().staging())?;
        for name in &names {
            disk::remove_all(&self.paths().staging().join(name))?;
        }
        Ok(names.len())
    }

    /// Removes a generation: it is moved away in one step, so it is never half removed.
    pub(crate) fn discard(&self, name: &str, left: AfterRemoval) -> Result<(), CacheError> {
        let gone = self.paths().staging().join(format!("gone-{name}"));
        disk::make_dirs(&self.paths().staging())?;
        disk::remove_all(&gone)?;
        disk::rename(&self.paths().generation(name), &gone)?;
        disk::sync_dir(&self.paths().generations())?;
        disk::failpoint("prune::moved").map_err(disk::io_error("remove", &gone))?;
        let spare = self.paths().spare_tree();
        let tree = gone.join(TREE);
        // By now it is durable that this is no generation any more, so its files may change. A damaged one may have no tree.
        if left == AfterRemoval::SpareTree
            && fs::symlink_metadata(&spare).is_err()
            && fs::symlink_metadata(&tree).is_ok_and(|meta| meta.is_dir())
        {
            disk::rename(&tree, &spare)?;
        }
        disk::remove_all(&gone)
    }
}
