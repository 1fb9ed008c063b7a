//! The cache and the baked directory in, the directory that a run reads out: decided before every run.
//!
//! Law: the cache counts whenever it holds files. A look that falls into the moment of a flip must not switch a run to
//! the baked states, so an empty cache is looked at again before it is believed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use zagent_cache::{Cache, CacheError, Generation, GenerationPin, VerifiedTree};
use zagent_config::settings::Settings;

/// How often an empty or missing cache is looked at again.
const EMPTY_CACHE_RETRIES: usize = 5;
/// How long between two looks.
const RETRY_DELAY: Duration = Duration::from_millis(25);

/// What is told when a run falls back to the states that came with the image.
pub const FALLBACK_WARNING: &str =
    "state-file cache dir empty or missing after retries, falling back to baked states dir";
/// What is told when the agent starts with nothing to run.
pub const NO_STATES_AT_BOOT: &str = "states engine unavailable at boot; will build when state files appear";
/// What a run with nothing to read answers.
pub const NO_STATES: &str = "states engine unavailable: no states directory exists yet (state files not yet synced from \
                           Git and no baked states dir); retry after state files are published";

/// Where a run reads.
#[derive(Debug)]
pub struct StatesSource {
    /// The top of the repository.
    pub top: PathBuf,
    /// The commit, or the directory in words.
    pub revision: String,
    /// What holds it in place while a run reads it.
    pub guard: SourceGuard,
}

/// What a ground is part of.
#[derive(Debug)]
pub enum SourceGuard {
    /// A generation: not pruned while this lives.
    Generation(Box<Generation>, GenerationPin),
    /// A revision that was verified and is not published: gone when this is dropped.
    Verified(Box<VerifiedTree>),
    /// The states of the image.
    Baked,
}

impl StatesSource {
    /// The cache, else the baked directory, else nothing. `wait` is asked to let a little time pass.
    ///
    /// # Errors
    /// Fails when the cache is there and cannot be read.
    pub fn find(
        settings: &Settings,
        cache: &Cache,
        mut wait: impl FnMut(Duration),
    ) -> Result<Option<Self>, CacheError> {
        for look in 0..=EMPTY_CACHE_RETRIES {
            if let Some(generation) = cache.current()?.filter(|generation| has_files(generation.tree_dir())) {
                match Self::from_generation(generation) {
                    // Pruned in this moment: there is another one.
                    Err(CacheError::NoGeneration { .. }) => continue,
                    found => return found.map(Some),
                }
            }
            if look < EMPTY_CACHE_RETRIES {
                wait(RETRY_DELAY);
            }
        }
        let baked = &settings.baked;
        Ok(has_files(baked).then(|| Self {
            top: baked.clone(),
            revision: baked.display().to_string(),
            guard: SourceGuard::Baked,
        }))
    }

    /// A generation, held in place.
    ///
    /// # Errors
    /// Fails when it was pruned in this moment.
    pub fn from_generation(generation: Generation) -> Result<Self, CacheError> {
        let pin = generation.pin()?;
        let (top, revision) = (generation.tree_dir().to_owned(), generation.record().revision.clone());
        Ok(Self { top, revision, guard: SourceGuard::Generation(Box::new(generation), pin) })
    }

    /// A revision that is not published.
    #[must_use]
    pub fn from_verified(verified: VerifiedTree) -> Self {
        let (top, revision) = (verified.dir(), verified.record().revision.clone());
        Self { top, revision, guard: SourceGuard::Verified(Box::new(verified)) }
    }

    /// True when these are the states of the image.
    #[must_use]
    pub const fn is_baked(&self) -> bool {
        matches!(self.guard, SourceGuard::Baked)
    }
}

/// True when there is anything at all in the directory.
pub fn has_files(dir: &Path) -> bool {
    std::fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some())
}
