//! Record store in, what it says about this node on its disk out.
//!
//! Law: a read error changes nothing: the node uses what it read last.

#![expect(
    clippy::disallowed_methods,
    reason = "a step of the turn: it reads the clock and hands time to decisions"
)]

use jiff::Timestamp;
use zagent_cache::Cache;
use zagent_config::paths::Paths;
use zagent_config::settings::BoardKind;
use zagent_rollout::board_stores::BoardReports;
use zagent_rollout::records::Reports;
use zagent_rollout::report::NodeReport;

use super::RolloutState;
use crate::memory::AgentMemory;
use crate::node_report::FoundRecords;
use crate::operator_orders::OperatorOrders;
use crate::turn::Turn;
use crate::turn_runner::TurnRunner;
use crate::{node_report, sync};
use zagent_config::error_chain;
use zagent_config::json_file::JsonFileError;

impl RolloutState {
    /// Moves an unreadable file aside and logs an error: its content is lost, and the records are read again.
    /// Holding the node forever would not be safer, because the file cannot be repaired manually.
    pub fn move_aside_damaged(paths: &Paths) {
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
    pub fn is_news(paths: &Paths, found: &FoundRecords) -> bool {
        !found.records.is_empty() || paths.rollout_states().exists()
    }

    /// Saves all records. An unreadable record counts as it was read before.
    ///
    /// # Errors
    /// As [`RolloutState::update`].
    pub fn store_records(paths: &Paths, found: FoundRecords, me: &NodeReport) -> Result<(), JsonFileError> {
        let FoundRecords { mut records, unread } = found;
        Self::update(paths, |rollout_state| {
            let known = rollout_state.records.iter().filter(|record| unread.contains(&record.id)).cloned();
            records.extend(known);
            rollout_state.observe(&records, me);
        })
        .map(drop)
    }
}

impl Turn<'_> {
    /// Publishes a report of this node to the board, once.
    pub fn publish_report(&self, runner: &mut TurnRunner<'_>) {
        let settings = self.settings;
        if settings.board.kind == BoardKind::None {
            return;
        }
        let (paths, now) = (settings.paths(), Timestamp::now());
        let current = Cache::open(&paths, &settings.source).and_then(|cache| cache.current()).ok().flatten();
        let (memory, orders) = (AgentMemory::load(&paths.memory()), OperatorOrders::read(&paths, now));
        let moment = node_report::ReportInputs {
            revision: current.as_ref().map(|current| sync::plain_revision(&current.record().revision)),
            memory: &memory,
            orders: &orders,
            windows: &settings.windows,
            since: None,
            now,
        };
        let report = node_report::current_report(&node_report::base_report(settings), &moment);
        let told = BoardReports::open(settings)
            .and_then(|reports| reports.map_or(Ok(()), |mut reports| reports.put(&report)));
        if let Err(error) = told {
            runner.warn(&format!(
                "cannot publish the report of this node to the board: {}",
                error_chain(&error)
            ));
        }
    }

    /// Reads the records.
    pub fn read_records(&self, runner: &mut TurnRunner<'_>) {
        let heard = node_report::open_records(self.settings).map_err(|error| error_chain(&error)).and_then(
            |records| {
                let Some(mut records) = records else { return Ok(()) };
                let all = node_report::read_records(&mut records).map_err(|error| error_chain(&error))?;
                let paths = self.settings.paths();
                if !RolloutState::is_news(&paths, &all) {
                    return Ok(());
                }
                RolloutState::store_records(&paths, all, &node_report::base_report(self.settings))
                    .map_err(|error| error_chain(&error))
            },
        );
        if let Err(words) = heard {
            runner.warn(&format!("cannot read the rollout records, using the last known ones: {words}"));
        }
    }
}
