//! What the watchdog connects to: the records, the board, the binaries and the service manager.

#![expect(clippy::disallowed_methods, reason = "an order expires by the clock of this node")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use jiff::Timestamp;
use zagent_cache::source::RefStore;
use zagent_config::ids::{NodeId, RolloutId};
use zagent_config::settings::Settings;
use zagent_rollout::artifact::{ArtifactFetcher, ReleaseArtifact, ReleaseTrust, TIMEOUT};
use zagent_rollout::board::{BoardError, GitBoardConfig};
use zagent_rollout::board_stores::{BoardRecords, BoardReports, ON_BOARD};
use zagent_rollout::node;
use zagent_rollout::record::{Artifact, Component, RolloutRecord};
use zagent_rollout::records::{Records, Reports, SkippedRecord};
use zagent_rollout::report::NodeReport;
use zagent_rollout::watchdog::{FetchBinary, FetchFailure, RolloutLink, ServiceNotifier};

use super::LoadSettings;
use crate::sd_notify::SdNotify;
use zagent_config::error_chain;
use zagent_config::sorted::CollectSorted;

/// The records and the board, if configured.
pub(crate) struct BoardLink {
    settings: Settings,
    records: Option<BoardRecords>,
    reports: Option<BoardReports>,
    /// What this node waits for or refuses, as of the last poll.
    waits: BTreeMap<RolloutId, String>,
    /// The last report, and what it said about waiting.
    published: Option<(NodeReport, BTreeMap<RolloutId, String>)>,
}

impl BoardLink {
    pub(crate) fn open(settings: &Settings) -> Result<Box<dyn RolloutLink>, String> {
        // A node without any place for records takes part in nothing, which is no fault; one that is there and says no is.
        let records = crate::open_records(settings).map_err(|error| error_chain(&error))?;
        let reports = BoardReports::open(settings).map_err(|error| error_chain(&error))?;
        let waits = BTreeMap::new();
        Ok(Box::new(Self { settings: settings.clone(), records, reports, waits, published: None }))
    }
}

impl RolloutLink for BoardLink {
    fn poll(&mut self) -> Result<Vec<RolloutRecord>, BoardError> {
        let Some(records) = &mut self.records else { return Ok(Vec::new()) };
        let all: Vec<RolloutRecord> = records.list()?.into_iter().map(|held| held.value).collect();
        self.waits = waits(&all, &records.skipped(), &self.settings.id, Timestamp::now());
        // People see at once why this node does not take part.
        let told = self.published.clone().filter(|(_, told)| *told != self.waits);
        if let Some((report, _)) = told
            && let Err(error) = self.publish(&NodeReport { updated_at: Timestamp::now(), ..report })
        {
            tracing::debug!(error = error_chain(&error), "the next report says what this node waits for");
        }
        Ok(all)
    }

    fn unreadable(&self) -> Vec<RolloutId> {
        let skipped = self.records.as_ref().map(Records::skipped).unwrap_or_default();
        skipped.into_iter().filter(|skipped| !skipped.is_foreign).map(|skipped| skipped.id).collect()
    }

    fn publish(&mut self, report: &NodeReport) -> Result<(), BoardError> {
        let Some(reports) = &mut self.reports else { return Ok(()) };
        let (revision, last_run) = crate::revision_and_run(&self.settings);
        let waits = self.waits.clone();
        reports.put(&NodeReport { revision, last_run, waits: waits.clone(), ..report.clone() })?;
        self.published = Some((report.clone(), waits));
        Ok(())
    }
}

/// What a node waits for or refuses, by rollout of the agent.
fn waits(
    records: &[RolloutRecord],
    skipped: &[SkippedRecord],
    id: &NodeId,
    now: Timestamp,
) -> BTreeMap<RolloutId, String> {
    let is_ours = |record: &RolloutRecord| {
        record.component == Component::Agent
            && !record.dry_run
            && !record.state.is_final()
            && record.batch_of(id).is_some()
    };
    let ours = records.iter().filter(|record| is_ours(record));
    let expired = ours.filter_map(|record| Some((record.id.clone(), node::expiry_text(record, now)?)));
    let refused = skipped.iter().filter(|skipped| skipped.record.as_deref().is_some_and(is_ours));
    expired.chain(refused.map(|skipped| (skipped.id.clone(), skipped.why.clone()))).into_map()
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
