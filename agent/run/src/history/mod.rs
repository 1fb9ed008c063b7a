//! Run reports in, recent reports out: by run ID, by the start of an ID, or the last one.
//!
//! Law: a run pays only for one small file (the spool). The store is opened on a query, or when the spool is full;
//! it holds only data that can be lost, and a store that cannot be opened is moved aside and replaced (held by
//! `a_run_pays_for_one_file_that_only_its_owner_reads`, `a_damaged_store_is_moved_aside_and_replaced`).
//!
//! ## Why not write to the store directly
//! Opening sled costs more than a whole run without changes, and ten threads.

#![expect(clippy::disallowed_methods, reason = "owns the files of the history and waits for its lock")]

pub mod error;
pub mod record;
pub(crate) mod spool;
pub mod store;

#[cfg(test)]
pub mod tests;

pub use error::HistoryError;
pub(crate) use record::RunRecord;
pub use record::RunSummary;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use zagent_config::paths::Paths;

use crate::{RunMode, RunReport};
use spool::RunSpool;
use store::HistoryStore;
use zagent_config::SecretMask;

/// Number of runs in the spool that triggers a move to the store.
const SPOOL_LIMIT: usize = 32;
/// How long a query waits for another process to release the store.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// `20261116T084512-3f9a7`: start of a run (UTC) to a 4096th of a second, and a random part for runs that
/// start together.
#[must_use]
pub fn run_name(start: Timestamp, chance: u8) -> String {
    let part = i64::from(start.subsec_nanosecond().max(0)) * 4096 / 1_000_000_000;
    format!("{}-{part:03x}{chance:02x}", time_stamp(start))
}

/// Eight bits that most likely differ between processes.
#[must_use]
pub fn random_suffix() -> u8 {
    let random = RandomState::new().build_hasher().finish();
    u8::try_from(random & 0xff).unwrap_or_default()
}

fn time_stamp(time: Timestamp) -> String {
    TimeZone::UTC.to_datetime(time).strftime("%Y%m%dT%H%M%S").to_string()
}

/// A result, and warnings.
#[derive(Debug)]
pub struct HistoryAnswer<T> {
    /// The result.
    pub found: T,
    /// Warnings: a store that was damaged, or is in use.
    pub warnings: Vec<HistoryError>,
}

/// The runs of this node.
#[derive(Clone, Debug)]
pub struct History {
    spool: RunSpool,
    store: HistoryStore,
    keep: usize,
}

impl History {
    /// The history below a root; keeps the newest `keep` runs. Opens nothing.
    #[must_use]
    pub fn new(paths: &Paths, keep: usize) -> Self {
        let spool = RunSpool::new(paths.history_spool());
        Self { spool, store: HistoryStore::new(paths.history_store(), LOCK_TIMEOUT), keep }
    }

    /// Records a run: states that changed, failed or did not run in full, the others as a number. A dry run
    /// is not recorded.
    ///
    /// # Errors
    /// Fails when the file cannot be written.
    pub fn record(&self, report: &RunReport, mask: &SecretMask) -> Result<(), HistoryError> {
        if report.mode == RunMode::Test {
            return Ok(());
        }
        self.spool.write(&report.run, &RunRecord::from_report(report, mask).to_bytes())
    }

    /// Moves the spool to the store when it is full; a store in use is left for the next time.
    ///
    /// # Errors
    /// Fails when the spool cannot be read or the store cannot be written.
    pub fn drain_if_full(&self, now: Timestamp) -> Result<Vec<HistoryError>, HistoryError> {
        if self.spool.names()?.len() < SPOOL_LIMIT {
            return Ok(Vec::new());
        }
        let mut hasty = self.clone();
        hasty.store.lock_timeout = Duration::ZERO;
        match hasty.drain_spool(now) {
            Err(HistoryError::Busy) => Ok(Vec::new()),
            folded => folded.map(|(_, warnings)| warnings),
        }
    }

    /// Moves the spool to the store and removes all but the newest runs; returns the open store, if any.
    fn drain_spool(
        &self,
        now: Timestamp,
    ) -> Result<(Option<store::OpenStore>, Vec<HistoryError>), HistoryError> {
        let names = self.spool.names()?;
        if names.is_empty() && !self.store.exists() {
            return Ok((None, Vec::new()));
        }
        let (mut open, mut warnings) = self.store.open(now)?;
        let mut folded = Vec::new();
        for name in names {
            match self.spool.get(&name)? {
                Some(bytes) if RunSummary::from_bytes(&bytes).is_some() => open.insert(&name, &bytes)?,
                Some(_) => warnings.push(HistoryError::UnreadableRecord(name.clone())),
                None => continue,
            }
            folded.push(name);
        }
        open.prune(self.keep)?;
        open.flush()?;
        // Only what is safely in the store leaves the spool.
        for name in folded {
            self.spool.remove(&name);
        }
        self.spool.remove_stale(now);
        let open = self.store.rebuild_if_large(open)?;
        Ok((Some(open), warnings))
    }

    /// The newest runs, newest first.
    ///
    /// # Errors
    /// Fails when the history cannot be read.
    pub fn list(&self, limit: usize, now: Timestamp) -> Result<HistoryAnswer<Vec<RunSummary>>, HistoryError> {
        let (reader, warnings) = self.open_reader(now)?;
        let mut found = Vec::new();
        for name in reader.names()?.into_iter().rev().take(limit) {
            found.extend(reader.get(&name)?.as_deref().and_then(RunSummary::from_bytes));
        }
        Ok(HistoryAnswer { found, warnings })
    }

    /// The newest run. It is usually still in the spool, and nothing is opened.
    ///
    /// # Errors
    /// Fails when the history cannot be read.
    pub fn last(&self, now: Timestamp) -> Result<Option<RunSummary>, HistoryError> {
        for name in self.spool.names()?.iter().rev() {
            if let Some(head) = self.spool.get(name)?.as_deref().and_then(RunSummary::from_bytes) {
                return Ok(Some(head));
            }
        }
        Ok(self.list(1, now)?.found.pop())
    }

    /// One run: by its ID, by a unique start of it, or `last`.
    ///
    /// # Errors
    /// Fails when there is no such run, several match, or the history cannot be read.
    pub fn get(&self, which: &str, now: Timestamp) -> Result<HistoryAnswer<RunRecord>, HistoryError> {
        let (reader, warnings) = self.open_reader(now)?;
        let name = resolve_name(which, reader.names()?)?;
        let bytes = reader.get(&name)?.ok_or_else(|| HistoryError::NoRun(name.clone()))?;
        let found = RunRecord::from_bytes(&bytes).ok_or(HistoryError::UnreadableRecord(name))?;
        Ok(HistoryAnswer { found, warnings })
    }

    /// The store with the spool moved into it; while it cannot be opened, only the spool.
    fn open_reader(&self, now: Timestamp) -> Result<(HistoryReader<'_>, Vec<HistoryError>), HistoryError> {
        match self.drain_spool(now) {
            Ok((open, warnings)) => Ok((HistoryReader { spool: &self.spool, open }, warnings)),
            Err(HistoryError::Busy) => {
                Ok((HistoryReader { spool: &self.spool, open: None }, vec![HistoryError::Busy]))
            }
            // A full disk does not prevent reading the spool.
            Err(e) if !e.is_permission() => {
                let warning = HistoryError::StoreUnavailable(Box::new(e));
                Ok((HistoryReader { spool: &self.spool, open: None }, vec![warning]))
            }
            Err(e) => Err(e),
        }
    }
}

struct HistoryReader<'h> {
    spool: &'h RunSpool,
    open: Option<store::OpenStore>,
}

impl HistoryReader<'_> {
    /// IDs of all runs, oldest first.
    fn names(&self) -> Result<Vec<String>, HistoryError> {
        match &self.open {
            Some(open) => open.names(),
            None => self.spool.names(),
        }
    }

    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, HistoryError> {
        match &self.open {
            Some(open) => open.get(name),
            None => self.spool.get(name),
        }
    }
}

fn resolve_name(which: &str, mut names: Vec<String>) -> Result<String, HistoryError> {
    if which == "last" {
        return names.pop().ok_or(HistoryError::Empty);
    }
    if names.iter().any(|n| n == which) {
        return Ok(which.to_owned());
    }
    names.retain(|n| n.starts_with(which));
    match names.len() {
        0 => Err(HistoryError::NoRun(which.to_owned())),
        1 => Ok(names.remove(0)),
        _ => Err(HistoryError::Ambiguous { beginning: which.to_owned(), runs: names }),
    }
}
