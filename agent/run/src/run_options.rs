//! What somebody asks of a run, beside the states themselves.

use std::time::Duration;

use zagent_config::settings::RunSchedule;

use super::RunMode;

/// What is asked of a run. What is `None` is as configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunOptions {
    /// Only look.
    pub test: bool,
    /// The node is in audit mode: the run only looks, and is reported like a real one.
    pub audit: bool,
    /// Undo what a run did: the named one, or the last when no name is given.
    pub revert: Option<Option<String>>,
    /// Undo also what other hands have changed since.
    pub force: bool,
    /// Undo only the state of this id.
    pub state: Option<String>,
    /// In which order states run.
    pub schedule: Option<RunSchedule>,
    /// How long the run may take.
    pub timeout: Option<Duration>,
    /// How many states run at once.
    pub jobs: Option<usize>,
    /// Remove what no state manages any more; as configured when unset.
    pub prune: Option<PruneFlags>,
}

/// What `--prune` and its companions say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PruneFlags {
    /// Kinds of things; as configured when empty.
    pub kinds: Vec<String>,
    /// How many at most; as configured when unset.
    pub max: Option<usize>,
    /// Also what was there before zagent managed it.
    pub found: bool,
}

impl RunOptions {
    /// What the run is for. A revert that only looks is a test.
    #[must_use]
    pub const fn mode(&self) -> RunMode {
        match (self.test, &self.revert) {
            (true, _) => RunMode::Test,
            (false, Some(_)) => RunMode::Revert,
            (false, None) => RunMode::Apply,
        }
    }
}
