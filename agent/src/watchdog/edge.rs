//! What the watchdog reaches: the records, the board, the binaries and the service manager.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use zagent_cache::source::Shelf;
use zagent_config::ids::RolloutId;
use zagent_config::settings::Settings;
use zagent_rollout::artifact::{Fetcher, Judge, Release, TIMEOUT};
use zagent_rollout::board::{BoardError, Place};
use zagent_rollout::record::{Artifact, Record};
use zagent_rollout::records::{Records, Reports};
use zagent_rollout::report::Report;
use zagent_rollout::stores::{BoardRecords, BoardReports};
use zagent_rollout::watchdog::{Fetch, Link, Unfetched, Voice};

use super::Load;
use crate::cycle;
use crate::notify::Notify;
use crate::report::chain;

/// The word for records that are on the board itself.
const ON_BOARD: &str = "board";

/// The records and the board, as far as there are any.
pub(super) struct Boards {
    settings: Settings,
    records: Option<BoardRecords>,
    reports: Option<BoardReports>,
}

impl Boards {
    pub(super) fn open(settings: &Settings) -> Result<Box<dyn Link>, String> {
        // A node without any place for records takes part in nothing, which is no fault; one that is there and says no is.
        let records = cycle::records(settings).map_err(|error| chain(&error))?;
        let reports = BoardReports::open(settings).map_err(|error| chain(&error))?;
        Ok(Box::new(Self { settings: settings.clone(), records, reports }))
    }
}

impl Link for Boards {
    fn poll(&mut self) -> Result<Vec<Record>, BoardError> {
        let held = self.records.as_mut().map(Records::list).transpose()?;
        Ok(held.unwrap_or_default().into_iter().map(|held| held.value).collect())
    }

    fn unread(&self) -> Vec<RolloutId> {
        self.records.as_ref().map(Records::unread).unwrap_or_default()
    }

    fn publish(&mut self, report: &Report) -> Result<(), BoardError> {
        let Some(reports) = &mut self.reports else { return Ok(()) };
        let (revision, last_run) = cycle::seen(&self.settings);
        reports.put(&Report { revision, last_run, ..report.clone() })
    }
}

/// Binaries, from where records say that they are.
pub(super) struct Artifacts {
    pub(super) load: Load,
}

impl Fetch for Artifacts {
    fn fetch(
        &self,
        record: &Record,
        artifact: &Artifact,
        into: &Path,
        stop: &AtomicBool,
    ) -> Result<(), Unfetched> {
        let for_good = |error: &dyn std::error::Error| Unfetched::for_good(chain(error));
        let settings = (self.load)().map_err(Unfetched::for_good)?;
        let judge = Judge::read(&settings.trust).map_err(|error| for_good(&error))?;
        let place = match settings.rollout.url.as_deref() {
            Some(ON_BOARD) => Place::of_board(&settings),
            _ => Place::of_rollouts(&settings),
        };
        let shelf = place.ok().map(|place| Shelf::new(&place.remote, &place.source, place.scratch));
        let shelf = shelf.transpose().map_err(|error| for_good(&error))?;
        let release = Release { component: record.component, version: &record.to, artifact };
        let mut fetcher = Fetcher { judge, shelf, timeout: TIMEOUT };
        let fetched = fetcher.fetch(&release, into, stop);
        fetched.map_err(|error| Unfetched { why: chain(&error), passing: error.is_passing() })
    }
}

impl Voice for Notify {
    fn ready(&self, words: &str) {
        Self::ready(self, words);
    }

    fn status(&self, words: &str) {
        Self::status(self, words);
    }

    fn alive(&self) {
        Self::alive(self);
    }

    fn alive_every(&self) -> Option<Duration> {
        Self::alive_every(self)
    }

    fn stopping(&self, words: &str) {
        Self::stopping(self, words);
    }
}

#[cfg(test)]
mod tests {
    use zagent_config::settings::{Fragment, Merged};

    use super::*;

    fn opened(more: &str) -> Result<(), String> {
        let dir = tempfile::tempdir().unwrap();
        let text = format!("root: {}\n{more}", dir.path().display());
        let fragment = Fragment::read("zagent.yaml", &text).unwrap();
        Boards::open(&Merged::new(vec![fragment], [], &[]).settings(Some("web-01")).unwrap()).map(drop)
    }

    #[test]
    fn a_place_that_says_no_is_told_and_no_place_is_no_fault() {
        assert_eq!(opened(""), Ok(()));
        let no = opened("board: {kind: nats, url: 'tls://nats.example.org', bucket: 'a b'}").unwrap_err();
        assert!(no.contains("board.bucket"), "a node that hears of no rollout says why: {no}");
    }
}
