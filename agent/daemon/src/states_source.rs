//! Cache and baked directory in, the directory that a run reads out: decided before every run.
//!
//! Law: the cache takes precedence whenever it holds files. A read during the switch of `current` must not select
//! the baked states, so an empty cache is checked again several times (held by
//! `the_baked_states_run_until_there_is_a_cache`).

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use zagent_cache::{Cache, CacheError, Generation, GenerationPin, VerifiedTree};
use zagent_config::settings::Settings;

/// Number of retries for an empty or missing cache.
const EMPTY_CACHE_RETRIES: usize = 5;
/// Delay between two retries.
const RETRY_DELAY: Duration = Duration::from_millis(25);

/// Warning when a run falls back to the baked states.
pub const FALLBACK_WARNING: &str =
    "state-file cache dir empty or missing after retries, falling back to baked states dir";
/// Warning when the agent starts without states.
pub const NO_STATES_AT_BOOT: &str = "states engine unavailable at boot; will build when state files appear";
/// Error of a run without states.
pub const NO_STATES: &str = "states engine unavailable: no states directory exists yet (state files not yet synced from \
                           Git and no baked states dir); retry after state files are published";

/// Source of a run.
#[derive(Debug)]
pub struct StatesSource {
    /// Top directory of the repository.
    pub top: PathBuf,
    /// Commit, or a description of the directory.
    pub revision: String,
    /// Keeps it in place while a run reads it.
    pub guard: SourceGuard,
}

/// What a source belongs to.
#[derive(Debug)]
pub enum SourceGuard {
    /// A generation: not pruned while this lives.
    Generation(Box<Generation>, GenerationPin),
    /// A verified, unpublished revision: removed when this is dropped.
    Verified(Box<VerifiedTree>),
    /// The baked states.
    Baked,
}

impl StatesSource {
    /// The cache, otherwise the baked directory, otherwise nothing. `wait` is called for each delay.
    ///
    /// # Errors
    /// Fails when the cache exists and cannot be read.
    pub fn find(
        settings: &Settings,
        cache: &Cache,
        mut wait: impl FnMut(Duration),
    ) -> Result<Option<Self>, CacheError> {
        for look in 0..=EMPTY_CACHE_RETRIES {
            if let Some(generation) = cache.current()?.filter(|generation| has_files(generation.tree_dir())) {
                match Self::from_generation(generation) {
                    // Pruned at this moment: there is another one.
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

    /// A generation, pinned.
    ///
    /// # Errors
    /// Fails when it was pruned at this moment.
    pub(crate) fn from_generation(generation: Generation) -> Result<Self, CacheError> {
        let pin = generation.pin()?;
        let (top, revision) = (generation.tree_dir().to_owned(), generation.record().revision.clone());
        Ok(Self { top, revision, guard: SourceGuard::Generation(Box::new(generation), pin) })
    }

    /// An unpublished revision.
    #[must_use]
    pub(crate) fn from_verified(verified: VerifiedTree) -> Self {
        let (top, revision) = (verified.dir(), verified.record().revision.clone());
        Self { top, revision, guard: SourceGuard::Verified(Box::new(verified)) }
    }

    /// When the manifest expires.
    #[must_use]
    pub(crate) fn expires(&self) -> Option<Timestamp> {
        match &self.guard {
            SourceGuard::Generation(generation, _) => generation.record().expires,
            SourceGuard::Verified(verified) => verified.record().expires,
            SourceGuard::Baked => None,
        }
    }

    /// True for the baked states.
    #[must_use]
    pub(crate) const fn is_baked(&self) -> bool {
        matches!(self.guard, SourceGuard::Baked)
    }
}

/// True when the directory is not empty.
pub(crate) fn has_files(dir: &Path) -> bool {
    std::fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some())
}
