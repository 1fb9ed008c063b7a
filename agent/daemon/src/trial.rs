//! A generation that has not proved itself yet: from its publication until a whole run and the checks after it.
//!
//! Law: written before the first run begins, removed when the last check has spoken. A run that is cut off, by a crash, a
//! time limit or a power cut, is tried again as what it is: the trial of something new, with the baseline of before. What
//! a rollout gives is on trial until the rollout keeps it or goes back, and only the rollout decides that (`course/edge.rs`).

use serde::{Deserialize, Serialize};
use zagent_cache::Cache;
use zagent_config::paths::Paths;

use crate::health::HealthResult;
use zagent_config::json_file;
use zagent_config::json_file::JsonFileError;

/// How many runs may be cut off before the generation counts as bad.
pub const MAX_TRIES: u32 = 4;

/// The trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GenerationTrial {
    /// The generation, by its name.
    pub generation: String,
    /// How many runs were begun.
    #[serde(default)]
    pub tries: u32,
    /// How the checks went before the first of them; none when nobody has looked yet.
    #[serde(default)]
    pub before: Option<Vec<HealthResult>>,
}

impl GenerationTrial {
    /// A generation was published.
    ///
    /// # Errors
    /// Fails when the file cannot be written.
    pub fn begin(paths: &Paths, generation: &str) -> Result<(), JsonFileError> {
        Self { generation: generation.to_owned(), ..Self::default() }.save(paths)
    }

    /// The trial of a generation, when it is on trial. A file that cannot be read is no trial.
    #[must_use]
    pub fn load(paths: &Paths, generation: &str) -> Option<Self> {
        let found: Option<Self> = json_file::read(&paths.trial()).ok().flatten();
        found.filter(|trial| trial.generation == generation)
    }

    /// True when a generation of that revision is on trial, current or not: it was published and may have been run.
    #[must_use]
    pub fn is_on_trial(paths: &Paths, cache: &Cache, revision: &str) -> bool {
        let found: Option<Self> = json_file::read(&paths.trial()).ok().flatten();
        let generation = found.and_then(|trial| cache.find(&trial.generation).ok());
        generation.is_some_and(|generation| generation.record().revision == revision)
    }

    /// Writes it.
    ///
    /// # Errors
    /// Fails when the file cannot be written.
    pub fn save(&self, paths: &Paths) -> Result<(), JsonFileError> {
        json_file::write(&paths.trial(), self)
    }

    /// The generation has proved itself, or is gone.
    ///
    /// # Errors
    /// Fails when the file cannot be removed.
    pub fn end(paths: &Paths) -> Result<(), JsonFileError> {
        json_file::remove(&paths.trial()).map(drop)
    }
}
