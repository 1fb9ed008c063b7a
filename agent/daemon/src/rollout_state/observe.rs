//! Record store in, what it says about this node on its disk out.
//!
//! A read error changes nothing: the node uses what it read last.

#![expect(clippy::disallowed_methods, reason = "a damaged file is moved aside")]

use std::collections::BTreeMap;

use zagent_config::error_chain;
use zagent_config::ids::RolloutId;
use zagent_config::json_file::JsonFileError;
use zagent_config::paths::Paths;
use zagent_rollout::board::BoardError;
use zagent_rollout::board_stores::BoardRecords;
use zagent_rollout::record::{Component, RolloutRecord};
use zagent_rollout::records::{Records, SkippedRecord};
use zagent_rollout::report::NodeReport;

use super::RolloutState;
use zagent_config::sorted::CollectSorted;

/// What the record store holds.
#[derive(Default)]
pub(crate) struct FoundRecords {
    pub records: Vec<RolloutRecord>,
    /// Records that cannot be read or are not accepted.
    pub skipped: Vec<SkippedRecord>,
}

/// All records; without a store there are none, and those that were read before no longer count.
pub(crate) fn read_records(records: Option<&mut BoardRecords>) -> Result<FoundRecords, BoardError> {
    let Some(records) = records else { return Ok(FoundRecords::default()) };
    let all = records.list()?.into_iter().map(|held| held.value).collect();
    Ok(FoundRecords { records: all, skipped: records.skipped() })
}

impl RolloutState {
    /// Moves an unreadable file aside and logs an error: its content is lost, and the records are read again.
    /// Holding the node forever would not be safer, because the file cannot be repaired manually.
    pub(crate) fn move_aside_damaged(paths: &Paths) {
        let Err(damaged @ JsonFileError::Damaged { .. }) = Self::read(paths) else { return };
        let path = paths.rollout_states();
        let aside = path.with_extension("damaged");
        let words = error_chain(&damaged);
        match std::fs::rename(&path, &aside) {
            Ok(()) => tracing::error!(
                "{words}: moved to `{}`; the rollout state of this node is lost and will be read again \
                 from the records",
                aside.display()
            ),
            Err(error) => tracing::error!("{words}, and it cannot be moved aside: {error}"),
        }
    }

    /// False when there are no records and never were: a node that was never in a rollout has no such file.
    pub(crate) fn is_news(paths: &Paths, found: &FoundRecords) -> bool {
        let is_shown = |skipped: &SkippedRecord| skipped.record.is_some();
        !found.records.is_empty() || found.skipped.iter().any(is_shown) || paths.rollout_states().exists()
    }

    /// Saves all records. A record that cannot be read or is not accepted counts as it was read before, unless it is
    /// not for this node at all; why it is skipped is kept for the report.
    ///
    /// # Errors
    /// As [`RolloutState::update`].
    pub(crate) fn store_records(
        paths: &Paths,
        found: FoundRecords,
        me: &NodeReport,
    ) -> Result<(), JsonFileError> {
        let FoundRecords { mut records, skipped } = found;
        let keeps = |record: &&RolloutRecord| {
            skipped.iter().any(|skipped| skipped.id == record.id && !skipped.is_foreign)
        };
        let refused: BTreeMap<RolloutId, String> = skipped
            .iter()
            .filter(|skipped| skipped.record.as_deref().is_some_and(|record| is_missed(record, me)))
            .map(|skipped| (skipped.id.clone(), skipped.why.clone()))
            .into_map();
        Self::update(paths, |rollout_state| {
            records.extend(rollout_state.records.iter().filter(keeps).cloned());
            rollout_state.observe(&records, me);
            rollout_state.refused = refused;
        })
        .map(drop)
    }
}

/// True when a record that is not accepted would have moved this node.
fn is_missed(record: &RolloutRecord, me: &NodeReport) -> bool {
    let is_open = !record.state.is_final() && !record.dry_run;
    is_open && record.component == Component::States && super::is_addressed(record, me)
}
