//! What a crash left behind in, a whole cache out.
//!
//! Law: a complete current generation is never touched. Whatever is removed was either never published or is not a
//! generation at all.

use crate::{Cache, CacheError, Depth, Generation, disk};

/// What was put right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Healed {
    /// Trees that were never published, now removed.
    pub staged: usize,
    /// Generations without a whole record, now removed.
    pub broken: Vec<String>,
    /// The generation that `current` leads to now, when it led nowhere before.
    pub current: Option<String>,
}

impl Healed {
    /// True when nothing was wrong.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

impl Cache {
    /// True when something may have to be put right: cheap, so that it can be asked before every turn.
    #[must_use]
    pub fn is_disturbed(&self) -> bool {
        let staged = disk::names(&self.paths().staging()).is_ok_and(|names| !names.is_empty());
        staged || !matches!(self.current_name(), Ok(Some(name)) if self.paths().generation(&name).is_dir())
    }

    /// Clears what a killed process left, and lets `current` lead to a complete generation if there is any.
    ///
    /// # Errors
    /// Fails when another process changes the cache, or a file cannot be removed.
    pub fn heal(&self) -> Result<Healed, CacheError> {
        let _lock = self.lock()?;
        let mut healed = Healed { staged: self.clear_staging()?, ..Healed::default() };
        disk::remove_file(&self.paths().current().with_extension("new"))?;
        disk::point("heal::cleared").map_err(disk::failed("heal", &self.paths().staging()))?;
        let current = self.current_name()?;
        let whole = current.as_deref().is_some_and(|name| self.is_complete(name));
        if !whole {
            healed.current = self.lead_somewhere(current.as_deref())?;
        }
        let now = self.current_name()?;
        for name in disk::names(&self.paths().generations())? {
            if Some(&name) != now.as_ref() && Generation::open(self.paths(), &name).is_err() {
                self.discard(&name)?;
                healed.broken.push(name);
            }
        }
        if !healed.is_nothing() {
            tracing::info!(?healed, "the cache was put right");
        }
        Ok(healed)
    }

    fn is_complete(&self, name: &str) -> bool {
        Generation::open(self.paths(), name).is_ok_and(|g| g.dir().is_dir())
    }

    /// Lets `current` lead to the newest generation that is whole; to nothing when there is none.
    fn lead_somewhere(&self, was: Option<&str>) -> Result<Option<String>, CacheError> {
        let whole = self.list()?.into_iter().rev().find(|g| g.check(Depth::Full).is_ok());
        match (whole, was) {
            (Some(generation), _) => {
                tracing::warn!(was, now = generation.name(), "`current` led to no generation");
                self.flip(generation.name())?;
                Ok(Some(generation.name().to_owned()))
            }
            (None, Some(was)) => {
                tracing::warn!(was, "`current` led to no generation, and there is none that is whole");
                disk::remove_file(&self.paths().current())?;
                Ok(None)
            }
            (None, None) => Ok(None),
        }
    }

    /// Removes every staged tree; only with the lock held, so nobody is writing one.
    pub(crate) fn clear_staging(&self) -> Result<usize, CacheError> {
        let names = disk::names(&self.paths().staging())?;
        for name in &names {
            disk::remove_all(&self.paths().staging().join(name))?;
        }
        Ok(names.len())
    }

    /// Removes a generation: it leaves its place in one step, so there is never half of one.
    pub(crate) fn discard(&self, name: &str) -> Result<(), CacheError> {
        let gone = self.paths().staging().join(format!("gone-{name}"));
        disk::make_dirs(&self.paths().staging())?;
        disk::remove_all(&gone)?;
        disk::rename(&self.paths().generation(name), &gone)?;
        disk::sync_dir(&self.paths().generations())?;
        disk::point("prune::moved").map_err(disk::failed("remove", &gone))?;
        disk::remove_all(&gone)
    }
}
