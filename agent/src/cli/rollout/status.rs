//! `zagent rollout status|list`: shows rollouts.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::json as object;
use zagent_config::ids::{NodeId, RolloutId};
use zagent_config::settings::{BoardKind, Settings};
use zagent_rollout::acceptance::OrderSignatures;
use zagent_rollout::record::{Component, RolloutMode, RolloutRecord, RolloutStatus};
use zagent_rollout::records::{Records, RefusedReport};
use zagent_rollout::report::NodeReport;

use super::board_args::{self, BoardArgs};
use super::rollout_view::RolloutView;
use super::{is_clock_done, pick_record, record_text};
use crate::cli::warn;
use crate::output::{OutputFormat, Paint, TextTable, Ui};
use zagent_config::sorted::CollectSorted;
use zagent_daemon::error::{AgentError, ExitStatus};
use zagent_daemon::operator::span_text;
use zagent_host::timezone::local_zone;

/// Show the state of a rollout and what to do next
#[derive(Debug, clap::Args)]
pub(super) struct RolloutStatusArgs {
    /// Rollout ID; default: the active one, otherwise the newest
    #[arg(value_name = "ID")]
    id: Option<RolloutId>,

    #[command(flatten)]
    place: BoardArgs,
}

/// List active rollouts
#[derive(Debug, clap::Args)]
pub(super) struct RolloutListArgs {
    /// Include rollouts that are over
    #[arg(long)]
    all: bool,

    #[command(flatten)]
    place: BoardArgs,
}

impl RolloutStatusArgs {
    pub(super) const fn format(&self) -> OutputFormat {
        self.place.format()
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let settings = self.place.settings()?;
        let mut records = board_args::open_records_for_review(&settings)?;
        let record = pick_record(records.as_mut(), self.id.as_ref())?.value;
        let facts = StatusFacts::read(&settings, records.as_ref(), &record, ui);
        let text = facts.page(&record, ui);
        self.place.print(&text, &facts.json(&record), ui);
        Ok(ExitStatus::Success)
    }
}

/// What a status page shows besides the record.
#[derive(Default)]
pub(super) struct StatusFacts {
    /// The last reports of the nodes.
    pub(super) reports: BTreeMap<NodeId, NodeReport>,
    /// Reports that do not count.
    pub(super) refused: Vec<RefusedReport>,
    /// The signatures of the order.
    pub(super) signatures: OrderSignatures,
}

impl StatusFacts {
    /// Reads them. Without a board, or when it does not answer, the record is enough.
    pub(super) fn read(
        settings: &Settings,
        records: &dyn Records,
        record: &RolloutRecord,
        ui: &mut Ui<'_>,
    ) -> Self {
        let mut facts = Self { signatures: records.signatures(record), ..Self::default() };
        if settings.board.kind == BoardKind::None {
            return facts;
        }
        let read = board_args::open_reports(settings).and_then(|mut all| {
            let reports = all.latest_reports(record.component).map_err(board_args::to_agent_error)?;
            Ok((reports, all.refused()))
        });
        match read {
            Ok((reports, refused)) => (facts.reports, facts.refused) = (reports, refused),
            Err(error) => warn(&format!("cannot read the node reports: {}", error.summary()), ui),
        }
        facts
    }

    /// Status page of a rollout.
    pub(super) fn page(&self, record: &RolloutRecord, ui: &Ui<'_>) -> String {
        let now = Timestamp::now();
        let is_stale = is_stale(record, now);
        let (zone, paint, whole) = (local_zone(), ui.paint, ui.verbose > 0);
        RolloutView { record, facts: self, is_stale, now, zone, paint, all_nodes: whole }.render()
    }

    /// The record as data, with the signatures of its order and what its nodes wait for.
    fn json(&self, record: &RolloutRecord) -> serde_json::Value {
        let mut data = object!(record);
        let waits = |(node, report): (&NodeId, &NodeReport)| {
            Some((node.clone(), report.waits.get(&record.id)?.clone()))
        };
        let waits: BTreeMap<NodeId, String> = self.reports.iter().filter_map(waits).into_map();
        let refused = self.refused.iter().map(|one| object!({"node": one.node, "why": one.why}));
        data["signatures"] = object!({
            "signers": self.signatures.signers, "needed": self.signatures.needed,
        });
        data["waits"] = object!(waits);
        let nodes = record.batches.iter().flatten();
        let runs: BTreeMap<&NodeId, Option<String>> =
            nodes.map(|node| (node, self.reports.get(node).and_then(running_version))).into_map();
        data["runs"] = object!(runs);
        data["refused_reports"] = refused.collect();
        data
    }
}

/// The whole version or commit that a node runs, by its own report.
fn running_version(report: &NodeReport) -> Option<String> {
    match report.component {
        Component::Agent => Some(report.version.clone()),
        Component::States => report.revision.clone(),
    }
}

/// True when it needs a driver and the driver has been silent for too long.
pub(super) fn is_stale(record: &RolloutRecord, now: Timestamp) -> bool {
    zagent_rollout::driver_logic::is_adoptable(record, now)
}

impl RolloutListArgs {
    pub(super) const fn format(&self) -> OutputFormat {
        self.place.format()
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let settings = self.place.settings()?;
        let mut all =
            board_args::open_records_for_review(&settings)?.list().map_err(board_args::to_agent_error)?;
        zagent_config::sorted::sort_by_key(&mut all, |held| std::cmp::Reverse(held.value.created));
        let now = Timestamp::now();
        let shown: Vec<&RolloutRecord> = all
            .iter()
            .map(|held| &held.value)
            .filter(|r| self.all || !(r.state.is_final() || is_clock_done(r, now)))
            .collect();
        let text = rollouts_table(&shown, all.len() - shown.len(), now, ui.paint);
        let data: Vec<_> = shown.iter().map(|record| rollout_json(record, now)).collect();
        self.place.print(&text, &data, ui);
        Ok(ExitStatus::Success)
    }
}

/// Rollouts as a table, newest first; `hidden` counts those that are over and not shown.
pub(super) fn rollouts_table(
    records: &[&RolloutRecord],
    hidden: usize,
    now: Timestamp,
    paint: Paint,
) -> String {
    let over = match hidden {
        0 => String::new(),
        n => format!(
            "{} over: add --all to list them\n",
            if n == 1 { "1 is".into() } else { format!("{n} are") }
        ),
    };
    if records.is_empty() {
        return format!("no active rollout\n{}", paint.dim(over));
    }
    let mut table = TextTable::new(["ROLLOUT", "ORDER", "STATE", "BATCH", "NODES", "AGE", "DRIVER"]);
    for record in records {
        let state = if record.dry_run { "dry run".into() } else { record.state.name().to_owned() };
        let batch = match (record.state, record.mode) {
            (_, RolloutMode::Clock) => "by the clock".into(),
            (RolloutStatus::Created, _) => format!("0/{}", record.batches.len()),
            (RolloutStatus::Completed, _) => format!("{0}/{0}", record.batches.len()),
            _ => format!(
                "{}/{} {}",
                record.current_batch + 1,
                record.batches.len(),
                record_text::phase_word(record.phase)
            ),
        };
        let tally = record_text::status_counts(record);
        let confirmed = tally.get("confirmed").copied().unwrap_or(0);
        let failed = if record.failed > 0 { format!(", {} failed", record.failed) } else { String::new() };
        let driver = match record_text::driver_name(record) {
            Some(driver) if is_stale(record, now) => format!("{driver} (gone)"),
            Some(driver) => driver.to_owned(),
            None => String::new(),
        };
        table.add_row(
            record_text::state_tone(record.state),
            [
                record.id.to_string(),
                record_text::order_text(record),
                state,
                batch,
                format!("{confirmed}/{}{failed}", record_text::node_count(record)),
                span_text(record.created.min(now), now),
                driver,
            ],
        );
    }
    format!("{}{}", table.render(paint), paint.dim(over))
}

/// A rollout as data, without its nodes.
fn rollout_json(record: &RolloutRecord, now: Timestamp) -> serde_json::Value {
    object!({
        "id": record.id, "component": record.component, "to": record.to, "from": record.from,
        "target": record.target, "state": record.state, "reason": record.reason, "dry_run": record.dry_run,
        "mode": record.mode, "batch": record.current_batch + 1, "batches": record.batches.len(),
        "phase": record.phase, "nodes": record_text::status_counts(record), "failed": record.failed,
        "driver": record.driver, "stale": is_stale(record, now), "by": record.by, "created": record.created,
        "started": record.started, "finished": record.finished, "fleet": record.fleet,
        "expires": record.expires_at(),
    })
}
