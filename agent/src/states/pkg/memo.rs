//! What the package states of one run tell each other: the database, whether the catalogue is fresh, what was brought for whom.
//!
//! Law: the database is read once, and again only when its files were written.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zagent_config::Map;

use crate::host::packages::{Db, Stamp, Step};

/// What is kept for the run.
#[derive(Debug, Default)]
pub struct Memo(Mutex<Kept>);

#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Whose database it is, when its files were written, and what they say.
    pub(super) db: Option<(&'static str, Stamp, Arc<Db>)>,
    /// The catalogue was fetched in this run, or that was tried.
    pub(super) is_refreshed: bool,
    /// Why the last try to fetch it failed.
    pub(super) refusal: Option<String>,
    /// What a joint transaction brought for a state that has not had its turn, by tag.
    pub(super) brought: BTreeMap<String, Map>,
    /// What earlier states of a dry run would have changed.
    pub(super) foreseen: Vec<Step>,
}

impl Memo {
    pub(super) fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
