//! What the package states of one run tell each other: the database, whether the catalogue is fresh, what was brought for whom.
//!
//! The database is read once, and again only when its files were written.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zagent_config::Map;

use zagent_host::packages::{PkgChange, PkgDb, PkgDbStamp};

/// What is kept for the run.
#[derive(Debug, Default)]
pub struct PkgRunCache(Mutex<CachedPackages>);

#[derive(Debug, Default)]
pub struct CachedPackages {
    /// Whose database it is, when its files were written, and what they say.
    pub db: Option<(&'static str, PkgDbStamp, Arc<PkgDb>)>,
    /// The catalogue was fetched in this run, or that was tried.
    pub(crate) is_refreshed: bool,
    /// Why the last try to fetch it failed.
    pub(crate) refresh_error: Option<String>,
    /// What a joint transaction brought for a state that has not had its turn, by tag.
    pub(crate) batch_changes: BTreeMap<String, Map>,
    /// What earlier states of a dry run would have changed.
    pub simulated: Vec<PkgChange>,
}

impl PkgRunCache {
    pub fn lock(&self) -> MutexGuard<'_, CachedPackages> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
