//! A turn and the rollout repository: records are read, the report of this node is published.
//!
//! A read error changes nothing: the node uses what it read last.

#![expect(
    clippy::disallowed_methods,
    reason = "a step of the turn: it reads the clock and hands time to decisions"
)]

use jiff::Timestamp;
use zagent_cache::Cache;
use zagent_config::error_chain;
use zagent_config::settings::BoardKind;
use zagent_rollout::board_stores::BoardReports;
use zagent_rollout::records::Reports;

use super::Turn;
use crate::damage::find_damage;
use crate::memory::AgentMemory;
use crate::operator_orders::OperatorOrders;
use crate::rollout_state::{self, RolloutState};
use crate::turn_runner::TurnRunner;
use crate::{node_report, sync};

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
        let damaged = find_damage(settings.id.as_str(), &paths, &memory);
        let moment = node_report::ReportInputs {
            revision: current.as_ref().map(|current| sync::plain_revision(&current.record().revision)),
            memory: &memory,
            orders: &orders,
            damaged: &damaged,
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
    pub(crate) fn read_records(&self, runner: &mut TurnRunner<'_>) {
        let heard = node_report::open_records(self.settings).map_err(|error| error_chain(&error)).and_then(
            |mut records| {
                let all =
                    rollout_state::read_records(records.as_mut()).map_err(|error| error_chain(&error))?;
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
