//! Revisions that failed their health checks: not tried again until a newer one arrives or an operator clears
//! them.
//!
//! Law: at most [`MAX_QUARANTINED`] are kept, the newest; a revision that is added twice is listed once (held by
//! `the_newest_hundred_are_kept_each_once`).

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use zagent_config::ids::Revision;
use zagent_config::paths::Paths;

use zagent_config::json_file;
use zagent_config::json_file::JsonFileError;

/// Maximum number of entries.
pub(crate) const MAX_QUARANTINED: usize = 100;

/// A revision that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuarantinedRevision {
    /// The commit.
    pub revision: Revision,
    /// Since when.
    pub since: Timestamp,
    /// Reason.
    pub reason: String,
    /// Run that failed.
    pub run: String,
}

/// All entries, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quarantine {
    all: Vec<QuarantinedRevision>,
}

impl Quarantine {
    /// Reads it; empty when there is no file.
    ///
    /// # Errors
    /// Fails when the file is damaged or cannot be read: no new revision may be accepted then.
    pub fn read(paths: &Paths) -> Result<Self, JsonFileError> {
        Ok(Self { all: json_file::read(&paths.quarantine())?.unwrap_or_default() })
    }

    /// The entry of a revision.
    #[must_use]
    pub fn find(&self, revision: &Revision) -> Option<&QuarantinedRevision> {
        self.all.iter().find(|q| q.revision == *revision)
    }

    /// All entries, oldest first.
    #[must_use]
    pub fn list(&self) -> &[QuarantinedRevision] {
        &self.all
    }

    /// Adds an entry on disk. A damaged file is replaced: its content is lost, but the new entry is not.
    ///
    /// # Errors
    /// Fails when it cannot be written.
    pub fn add(paths: &Paths, one: QuarantinedRevision) -> Result<(), JsonFileError> {
        let path = paths.quarantine();
        let add = |all: &mut Vec<QuarantinedRevision>| {
            all.retain(|q| q.revision != one.revision);
            all.push(one.clone());
            all.drain(..all.len().saturating_sub(MAX_QUARANTINED));
            Some(())
        };
        match json_file::update(&path, add) {
            Err(JsonFileError::Damaged { .. }) => json_file::write(&path, &[&one]),
            answer => answer.map(|_| ()),
        }
    }

    /// Removes entries whose ID starts with this, and returns them.
    ///
    /// # Errors
    /// Fails when the file cannot be read or written.
    pub fn remove(paths: &Paths, begins: &str) -> Result<Vec<Revision>, JsonFileError> {
        let begins = begins.to_ascii_lowercase();
        let gone = json_file::update(&paths.quarantine(), |all: &mut Vec<QuarantinedRevision>| {
            let (gone, left): (Vec<_>, Vec<_>) =
                std::mem::take(all).into_iter().partition(|q| q.revision.as_str().starts_with(&begins));
            *all = left;
            (!gone.is_empty()).then(|| gone.into_iter().map(|q| q.revision).collect())
        });
        Ok(gone?.unwrap_or_default())
    }

    /// Removes all entries, and a damaged file as well. True when there was a file.
    ///
    /// # Errors
    /// Fails when the file cannot be removed.
    pub fn clear(paths: &Paths) -> Result<bool, JsonFileError> {
        json_file::remove(&paths.quarantine())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(n: usize) -> QuarantinedRevision {
        QuarantinedRevision {
            revision: format!("{n:040x}").parse().unwrap(),
            since: Timestamp::from_second(n as i64).unwrap(),
            reason: "http failed".into(),
            run: format!("run-{n}"),
        }
    }

    #[test]
    fn the_newest_hundred_are_kept_each_once() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::new(dir.path());
        for n in (0..MAX_QUARANTINED + 5).chain([50]) {
            Quarantine::add(&paths, one(n)).unwrap();
        }
        let all = Quarantine::read(&paths).unwrap();
        assert_eq!(all.list().len(), MAX_QUARANTINED);
        assert_eq!(all.list().last(), Some(&one(50)));
        assert!(all.find(&one(4).revision).is_none() && all.find(&one(5).revision).is_some());
        assert_eq!(all.find(&one(7).revision).unwrap().run, "run-7");
        let gone = Quarantine::remove(&paths, &one(50).revision.as_str()[..40]).unwrap();
        assert_eq!(gone, [one(50).revision]);
        assert!(Quarantine::remove(&paths, "ffff").unwrap().is_empty());
        assert_eq!(Quarantine::read(&paths).unwrap().list().len(), MAX_QUARANTINED - 1);
        assert!(Quarantine::clear(&paths).unwrap());
        assert!(Quarantine::read(&paths).unwrap().list().is_empty());
    }

    #[test]
    fn damage_does_not_keep_a_bad_revision_out_of_the_list() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::new(dir.path());
        Quarantine::add(&paths, one(1)).unwrap();
        std::fs::write(paths.quarantine(), "[{").unwrap();
        assert!(matches!(Quarantine::read(&paths), Err(JsonFileError::Damaged { .. })));
        Quarantine::add(&paths, one(2)).unwrap();
        assert_eq!(Quarantine::read(&paths).unwrap().list(), [one(2)]);
    }
}
