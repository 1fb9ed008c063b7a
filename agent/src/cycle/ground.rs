//! The cache and the baked directory in, the directory that a run reads out: decided before every run.
//!
//! Law: the cache counts whenever it holds files. A look that falls into the moment of a flip must not switch a run to
//! the baked states, so an empty cache is looked at again before it is believed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use zagent_cache::{Cache, CacheError, Generation, Pin, Verified};
use zagent_config::settings::Settings;

/// How often an empty or missing cache is looked at again.
const LOOKS: usize = 5;
/// How long between two looks.
const PAUSE: Duration = Duration::from_millis(25);

/// What is told when a run falls back to the states that came with the image.
pub const FALLS_BACK: &str =
    "state-file cache dir empty or missing after retries, falling back to baked states dir";
/// What is told when the agent starts with nothing to run.
pub const NOTHING_AT_BOOT: &str = "states engine unavailable at boot; will build when state files appear";
/// What a run with nothing to read answers.
pub const NOTHING: &str = "states engine unavailable: no states directory exists yet (state files not yet synced from \
                           Git and no baked states dir); retry after state files are published";

/// Where a run reads.
#[derive(Debug)]
pub struct Ground {
    /// The top of the repository.
    pub top: PathBuf,
    /// The commit, or the directory in words.
    pub revision: String,
    /// What holds it in place while a run reads it.
    pub held: Hold,
}

/// What a ground is part of.
#[derive(Debug)]
pub enum Hold {
    /// A generation: not pruned while this lives.
    Generation(Box<Generation>, Pin),
    /// A revision that was verified and is not published: gone when this is dropped.
    Verified(Box<Verified>),
    /// The states of the image.
    Baked,
}

impl Ground {
    /// The cache, else the baked directory, else nothing. `wait` is asked to let a little time pass.
    ///
    /// # Errors
    /// Fails when the cache is there and cannot be read.
    pub fn find(
        settings: &Settings,
        cache: &Cache,
        mut wait: impl FnMut(Duration),
    ) -> Result<Option<Self>, CacheError> {
        for look in 0..=LOOKS {
            if let Some(generation) = cache.current()?.filter(|generation| holds_files(generation.dir())) {
                match Self::of(generation) {
                    // Pruned in this moment: there is another one.
                    Err(CacheError::NoGeneration { .. }) => continue,
                    found => return found.map(Some),
                }
            }
            if look < LOOKS {
                wait(PAUSE);
            }
        }
        let baked = &settings.baked;
        Ok(holds_files(baked).then(|| Self {
            top: baked.clone(),
            revision: baked.display().to_string(),
            held: Hold::Baked,
        }))
    }

    /// A generation, held in place.
    ///
    /// # Errors
    /// Fails when it was pruned in this moment.
    pub fn of(generation: Generation) -> Result<Self, CacheError> {
        let pin = generation.pin()?;
        let (top, revision) = (generation.dir().to_owned(), generation.record().revision.clone());
        Ok(Self { top, revision, held: Hold::Generation(Box::new(generation), pin) })
    }

    /// A revision that is not published.
    #[must_use]
    pub fn ahead(verified: Verified) -> Self {
        let (top, revision) = (verified.dir(), verified.record().revision.clone());
        Self { top, revision, held: Hold::Verified(Box::new(verified)) }
    }

    /// True when these are the states of the image.
    #[must_use]
    pub const fn is_baked(&self) -> bool {
        matches!(self.held, Hold::Baked)
    }
}

/// True when there is anything at all in the directory.
pub(super) fn holds_files(dir: &Path) -> bool {
    std::fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some())
}
