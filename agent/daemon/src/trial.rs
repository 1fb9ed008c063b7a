//! A generation on trial: from its publication until a complete run and the health checks after it.
//!
//! Law: written before the first run starts, removed after the last check. A run interrupted by a crash, a timeout
//! or a power cut is repeated as the trial of a new generation, with the original baseline. A generation from a
//! rollout is on trial until the rollout keeps it or rolls back, and only the rollout decides that
//! (`follow_rollout`) (held by `a_missed_trial_is_done_later`,
//! `a_revision_whose_runs_are_interrupted_is_rolled_back`).

use serde::{Deserialize, Serialize};
use zagent_cache::Cache;
use zagent_config::paths::Paths;

use crate::health::HealthResult;
use zagent_config::json_file;
use zagent_config::json_file::JsonFileError;

/// Interrupted runs after which the generation counts as bad.
pub const MAX_TRIES: u32 = 4;

/// The trial.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GenerationTrial {
    /// Generation name.
    pub generation: String,
    /// Number of started runs.
    #[serde(default)]
    pub tries: u32,
    /// Results of the checks before the first run; none when they have not run yet.
    #[serde(default)]
    pub before: Option<Vec<HealthResult>>,
}

impl GenerationTrial {
    /// Starts the trial of a published generation.
    ///
    /// # Errors
    /// Fails when the file cannot be written.
    pub(crate) fn begin(paths: &Paths, generation: &str) -> Result<(), JsonFileError> {
        Self { generation: generation.to_owned(), ..Self::default() }.save(paths)
    }

    /// The trial of a generation, when it is on trial. An unreadable file counts as no trial.
    #[must_use]
    pub(crate) fn load(paths: &Paths, generation: &str) -> Option<Self> {
        let found: Option<Self> = json_file::read(&paths.trial()).ok().flatten();
        found.filter(|trial| trial.generation == generation)
    }

    /// True when a generation of that revision is on trial, current or not: it was published and may have
    /// run.
    #[must_use]
    pub(crate) fn is_on_trial(paths: &Paths, cache: &Cache, revision: &str) -> bool {
        let found: Option<Self> = json_file::read(&paths.trial()).ok().flatten();
        let generation = found.and_then(|trial| cache.find(&trial.generation).ok());
        generation.is_some_and(|generation| generation.record().revision == revision)
    }

    /// Writes it.
    ///
    /// # Errors
    /// Fails when the file cannot be written.
    pub(crate) fn save(&self, paths: &Paths) -> Result<(), JsonFileError> {
        json_file::write(&paths.trial(), self)
    }

    /// Ends the trial: the generation passed, or is gone.
    ///
    /// # Errors
    /// Fails when the file cannot be removed.
    pub(crate) fn end(paths: &Paths) -> Result<(), JsonFileError> {
        json_file::remove(&paths.trial()).map(drop)
    }
}
