//! What the watchdog connects to: the records, the board, the binaries and the service manager.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use zagent_cache::source::RefStore;
use zagent_config::ids::RolloutId;
use zagent_config::settings::Settings;
use zagent_rollout::artifact::{ArtifactFetcher, ReleaseArtifact, ReleaseTrust, TIMEOUT};
use zagent_rollout::board::{BoardError, GitBoardConfig};
use zagent_rollout::board_stores::{BoardRecords, BoardReports, ON_BOARD};
use zagent_rollout::record::{Artifact, RolloutRecord};
use zagent_rollout::records::{Records, Reports};
use zagent_rollout::report::NodeReport;
use zagent_rollout::watchdog::{FetchBinary, FetchFailure, RolloutLink, ServiceNotifier};

use super::LoadSettings;
use crate::sd_notify::SdNotify;
use zagent_config::error_chain;

/// The records and the board, if configured.
pub(crate) struct BoardLink {
    settings: Settings,
    records: Option<BoardRecords>,
    reports: Option<BoardReports>,
}

impl BoardLink {
    pub(crate) fn open(settings: &Settings) -> Result<Box<dyn RolloutLink>, String> {
        // A node without any place for records takes part in nothing, which is no fault; one that is there and says no is.
        let records = crate::open_records(settings).map_err(|error| error_chain(&error))?;
        let reports = BoardReports::open(settings).map_err(|error| error_chain(&error))?;
        Ok(Box::new(Self { settings: settings.clone(), records, reports }))
    }
}

impl RolloutLink for BoardLink {
    fn poll(&mut self) -> Result<Vec<RolloutRecord>, BoardError> {
        let held = self.records.as_mut().map(Records::list).transpose()?;
        Ok(held.unwrap_or_default().into_iter().map(|held| held.value).collect())
    }

    fn unreadable(&self) -> Vec<RolloutId> {
        self.records.as_ref().map(Records::unreadable).unwrap_or_default()
    }

    fn publish(&mut self, report: &NodeReport) -> Result<(), BoardError> {
        let Some(reports) = &mut self.reports else { return Ok(()) };
        let (revision, last_run) = crate::revision_and_run(&self.settings);
        reports.put(&NodeReport { revision, last_run, ..report.clone() })
    }
}

/// Binaries, from the locations in the records.
pub(crate) struct RecordArtifacts {
    pub load: LoadSettings,
}

impl FetchBinary for RecordArtifacts {
    fn fetch(
        &self,
        record: &RolloutRecord,
        artifact: &Artifact,
        into: &Path,
        stop: &AtomicBool,
    ) -> Result<(), FetchFailure> {
        let for_good = |error: &dyn std::error::Error| FetchFailure::permanent(error_chain(error));
        let settings = (self.load)().map_err(FetchFailure::permanent)?;
        let judge = ReleaseTrust::from_settings(&settings.trust).map_err(|error| for_good(&error))?;
        let place = match settings.rollout.url.as_deref() {
            Some(ON_BOARD) => GitBoardConfig::from_board_settings(&settings),
            _ => GitBoardConfig::from_rollout_settings(&settings),
        };
        let shelf = place.ok().map(|place| RefStore::new(&place.remote, &place.source, place.scratch));
        let shelf = shelf.transpose().map_err(|error| for_good(&error))?;
        let release = ReleaseArtifact { component: record.component, version: &record.to, artifact };
        let mut fetcher = ArtifactFetcher { trust: judge, ref_store: shelf, timeout: TIMEOUT };
        let fetched = fetcher.fetch(&release, into, stop);
        fetched.map_err(|error| FetchFailure { why: error_chain(&error), transient: error.is_transient() })
    }
}

impl ServiceNotifier for SdNotify {
    fn ready(&self, words: &str) {
        Self::ready(self, words);
    }

    fn status(&self, words: &str) {
        Self::status(self, words);
    }

    fn keep_alive(&self) {
        Self::ping_watchdog(self);
    }

    fn keep_alive_interval(&self) -> Option<Duration> {
        Self::watchdog_interval(self)
    }

    fn stopping(&self, words: &str) {
        Self::stopping(self, words);
    }
}

#[cfg(test)]
mod tests {
    use zagent_config::settings::{ConfigFragment, MergedConfig};

    use super::*;

    fn opened(more: &str) -> Result<(), String> {
        let dir = tempfile::tempdir().unwrap();
        let text = format!("root: {}\n{more}", dir.path().display());
        let fragment = ConfigFragment::read("zagent.yaml", &text).unwrap();
        BoardLink::open(&MergedConfig::new(vec![fragment], [], &[]).into_settings(Some("web-01")).unwrap())
            .map(drop)
    }

    #[test]
    fn a_refusing_store_is_reported_and_a_missing_store_is_no_error() {
        assert_eq!(opened(""), Ok(()));
        let no = opened("board: {kind: nats, url: 'tls://nats.example.org', bucket: 'a b'}").unwrap_err();
        // A program without NATS refuses the kind of board instead.
        let is_named = no.contains("board.bucket") || no.contains("board.kind");
        assert!(is_named, "a node that hears of no rollout says why: {no}");
    }
}
