//! `zagent rollout status|list`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::json as object;
use zagent_config::ids::{NodeId, RolloutId};
use zagent_config::settings::{BoardKind, Settings};
use zagent_rollout::record::{Component, Mode, Record, State};
use zagent_rollout::report::Report;

use super::page::Page;
use super::place::{self, Place};
use super::{is_spent, picked, words};
use crate::cli::warn;
use crate::operate::span;
use crate::output::{Format, Paint, Table, Ui, local_zone};
use crate::report::{Exit, Trouble};

/// Tell how a rollout stands and what to do about it
#[derive(Debug, clap::Args)]
pub(super) struct StatusArgs {
    /// The rollout; default: the one under way, else the newest
    #[arg(value_name = "ID")]
    id: Option<RolloutId>,

    #[command(flatten)]
    place: Place,
}

/// Print the rollouts under way
#[derive(Debug, clap::Args)]
pub(super) struct ListArgs {
    /// Those that are over, too
    #[arg(long)]
    all: bool,

    #[command(flatten)]
    place: Place,
}

impl StatusArgs {
    pub(super) const fn format(&self) -> Format {
        self.place.format()
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<Exit, Trouble> {
        let settings = self.place.settings()?;
        let mut records = place::records(&settings)?;
        let record = picked(records.as_mut(), self.id.as_ref())?.value;
        let reports = said(&settings, record.component, ui);
        let text = page(&record, &reports, ui);
        self.place.print(&text, &record, ui);
        Ok(Exit::Fine)
    }
}

/// What nodes say. Without a board, or when it does not answer, the record says enough.
pub(super) fn said(settings: &Settings, component: Component, ui: &mut Ui<'_>) -> BTreeMap<NodeId, Report> {
    if settings.board.kind == BoardKind::None {
        return BTreeMap::new();
    }
    let all = place::reports(settings).and_then(|mut all| all.all(component).map_err(place::trouble));
    all.unwrap_or_else(|trouble| {
        warn(&format!("what nodes say is not known: {}", trouble.words()), ui);
        BTreeMap::new()
    })
}

/// The page of one rollout.
pub(super) fn page(record: &Record, reports: &BTreeMap<NodeId, Report>, ui: &Ui<'_>) -> String {
    let now = Timestamp::now();
    let is_stale = is_stale(record, now);
    let (zone, paint, whole) = (local_zone(), ui.paint, ui.verbose > 0);
    Page { record, reports, is_stale, now, zone, paint, whole }.text()
}

/// True when it needs a driver and none was heard of for too long.
pub(super) fn is_stale(record: &Record, now: Timestamp) -> bool {
    zagent_rollout::drive::is_adoptable(record, now)
}

impl ListArgs {
    pub(super) const fn format(&self) -> Format {
        self.place.format()
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<Exit, Trouble> {
        let settings = self.place.settings()?;
        let mut all = place::records(&settings)?.list().map_err(place::trouble)?;
        all.sort_by_key(|held| std::cmp::Reverse(held.value.created));
        let now = Timestamp::now();
        let shown: Vec<&Record> = all
            .iter()
            .map(|held| &held.value)
            .filter(|r| self.all || !(r.state.is_final() || is_spent(r, now)))
            .collect();
        let text = table(&shown, all.len() - shown.len(), now, ui.paint);
        let data: Vec<_> = shown.iter().map(|record| summary(record, now)).collect();
        self.place.print(&text, &data, ui);
        Ok(Exit::Fine)
    }
}

/// Rollouts for people, the newest first; `hidden` are over and not among them.
pub(super) fn table(records: &[&Record], hidden: usize, now: Timestamp, paint: Paint) -> String {
    let over = match hidden {
        0 => String::new(),
        n => format!("{} over: --all prints them\n", if n == 1 { "1 is".into() } else { format!("{n} are") }),
    };
    if records.is_empty() {
        return format!("no rollout is under way\n{}", paint.dim(over));
    }
    let mut table = Table::new(["ROLLOUT", "ORDER", "STATE", "BATCH", "NODES", "AGE", "DRIVER"]);
    for record in records {
        let state = if record.dry_run { "dry run".into() } else { record.state.word().to_owned() };
        let batch = match (record.state, record.mode) {
            (_, Mode::Clock) => "by the clock".into(),
            (State::Created, _) => format!("0/{}", record.batches.len()),
            (State::Completed, _) => format!("{0}/{0}", record.batches.len()),
            _ => format!(
                "{}/{} {}",
                record.current_batch + 1,
                record.batches.len(),
                words::phase(record.phase)
            ),
        };
        let tally = words::tally(record);
        let confirmed = tally.get("confirmed").copied().unwrap_or(0);
        let failed = if record.failed > 0 { format!(", {} failed", record.failed) } else { String::new() };
        let driver = match words::driver(record) {
            Some(driver) if is_stale(record, now) => format!("{driver} (gone)"),
            Some(driver) => driver.to_owned(),
            None => String::new(),
        };
        table.row(
            words::state_tone(record.state),
            [
                record.id.to_string(),
                words::order(record),
                state,
                batch,
                format!("{confirmed}/{}{failed}", words::total(record)),
                span(record.created.min(now), now),
                driver,
            ],
        );
    }
    format!("{}{}", table.text(paint), paint.dim(over))
}

/// A rollout as data, without its nodes.
fn summary(record: &Record, now: Timestamp) -> serde_json::Value {
    object!({
        "id": record.id, "component": record.component, "to": record.to, "from": record.from,
        "target": record.target, "state": record.state, "reason": record.reason, "dry_run": record.dry_run,
        "mode": record.mode, "batch": record.current_batch + 1, "batches": record.batches.len(),
        "phase": record.phase, "nodes": words::tally(record), "failed": record.failed,
        "driver": record.driver, "stale": is_stale(record, now), "by": record.by, "created": record.created,
        "started": record.started, "finished": record.finished,
    })
}
