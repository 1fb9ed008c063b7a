//! The cache of one node: the published generations, the current one, and the operations on them.
//!
//! Law: `current` points to a complete generation or does not exist; it changes in one rename; every change holds
//! the cache lock (held by `a_reader_never_sees_a_missing_or_mixed_tree`, `one_at_a_time`).

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use zagent_config::paths::Paths;
use zagent_config::settings::SourceSettings;

use crate::generation::{self, published_names};
use crate::lock::CacheLock;
use crate::{CacheError, CacheLimits, CheckDepth, Generation, disk};

/// How long an operation on the cache waits for another one.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// The cache below one root.
#[derive(Clone, Debug)]
pub struct Cache {
    paths: Paths,
    limits: CacheLimits,
    keep: usize,
}

impl Cache {
    /// Opens the cache and creates missing directories.
    ///
    /// # Errors
    /// Fails when a directory cannot be created.
    pub fn open(paths: &Paths, source: &SourceSettings) -> Result<Self, CacheError> {
        for dir in [paths.staging(), paths.generations()] {
            disk::make_dirs(&dir)?;
        }
        let limits = CacheLimits {
            files: source.max_files,
            bytes: source.max_file,
            // Received data is compressed; at most four times as much is written.
            total: source.max_pack.saturating_mul(4).max(source.max_file),
            ..CacheLimits::default()
        };
        Ok(Self { paths: paths.clone(), limits, keep: source.keep.max(1) })
    }

    /// The limits for a tree.
    #[must_use]
    pub fn limits(&self) -> CacheLimits {
        self.limits
    }

    /// How many generations are kept.
    pub(crate) fn keep_count(&self) -> usize {
        self.keep
    }

    pub(crate) fn paths(&self) -> &Paths {
        &self.paths
    }

    pub(crate) fn lock(&self) -> Result<CacheLock, CacheError> {
        CacheLock::acquire(&self.paths.cache_lock(), LOCK_TIMEOUT)
    }

    /// The generation that runs read; `None` before the first publish.
    ///
    /// # Errors
    /// Fails when `current` points to something that is not a complete generation; [`Cache::heal`] repairs that.
    pub fn current(&self) -> Result<Option<Generation>, CacheError> {
        match self.current_name()? {
            Some(name) => Generation::open(&self.paths, &name).map(Some),
            None => Ok(None),
        }
    }

    /// The name that `current` points to, whether it exists or not.
    pub(crate) fn current_name(&self) -> Result<Option<String>, CacheError> {
        let link = self.paths.current();
        match fs::read_link(&link) {
            Ok(target) => Ok(Some(
                target.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default(),
            )),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(disk::io_error("read the symlink", &link)(error)),
        }
    }

    /// Every complete generation, oldest first.
    ///
    /// # Errors
    /// Fails when the directory cannot be read.
    pub fn list(&self) -> Result<Vec<Generation>, CacheError> {
        let names = disk::list_names(&self.paths.generations())?;
        Ok(names.iter().filter_map(|name| Generation::open(&self.paths, name).ok()).collect())
    }

    /// One generation by its name, or the newest one whose revision starts with `name`.
    ///
    /// # Errors
    /// Fails when no generation matches.
    pub fn find(&self, name: &str) -> Result<Generation, CacheError> {
        let fits =
            |g: &Generation| g.name() == name || name.len() >= 4 && g.record().revision.starts_with(name);
        self.list()?.into_iter().rfind(fits).ok_or_else(|| CacheError::NoGeneration { name: name.into() })
    }

    /// Makes an earlier generation the current one: the one with that name or revision, or the one that was current
    /// before. The replay protection record does not change.
    ///
    /// # Errors
    /// Fails when there is none, or when it was modified after it was published.
    pub fn rollback(&self, name: Option<&str>) -> Result<Generation, CacheError> {
        let _lock = self.lock()?;
        let to = match name {
            Some(name) => self.find(name)?,
            None => self.previous()?.ok_or(CacheError::NoPrevious)?,
        };
        to.check(CheckDepth::Full)?;
        self.switch_current(to.name())?;
        Ok(to)
    }

    /// The generation that was current before the current one; if it was removed, the next older one.
    pub(crate) fn previous(&self) -> Result<Option<Generation>, CacheError> {
        let Some(now) = self.current_name()? else {
            return Ok(None);
        };
        let names = published_names(&self.paths)?;
        let named = self.previous_name(&now, &names);
        let older = names.iter().rev().filter(|name| **name < now).map(String::as_str);
        // Most often the first one is whole: the records of the others are not read.
        let mut whole =
            named.into_iter().chain(older).filter_map(|name| Generation::open(&self.paths, name).ok());
        Ok(whole.next())
    }

    /// The name of the generation that was current before this one, if it is still there.
    pub(crate) fn previous_name<'n>(&self, now: &str, names: &'n [String]) -> Option<&'n str> {
        let before = generation::previous_name(&self.paths, now)?;
        names.iter().find(|name| **name == before && before != now).map(String::as_str)
    }

    /// Points `current` to a generation, in one step.
    pub(crate) fn switch_current(&self, name: &str) -> Result<(), CacheError> {
        let link = self.paths.current();
        let new = link.with_extension("new");
        let generations = self.paths.generations();
        let within = generations.file_name().unwrap_or_default().to_string_lossy();
        disk::remove_file(&new)?;
        disk::make_link(&format!("{within}/{name}"), &new)?;
        disk::rename(&new, &link)?;
        disk::failpoint("publish::flipped").map_err(disk::io_error("flip", &link))?;
        disk::sync_dir(link.parent().unwrap_or(Path::new("/")))
    }
}
