//! Record, node reports and time in, one status page for the on-call engineer out.
//!
//! Law: the state and the next step come first; a line that needs attention is not green (held by `pages`,
//! `a_large_rollout_shows_what_matters`).

use std::collections::BTreeMap;
use std::fmt::Write;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use zagent_config::ids::NodeId;
use zagent_rollout::phase::NodeOutcome;
use zagent_rollout::record::{Component, NodeStatus, RolloutMode, RolloutRecord, RolloutStatus};
use zagent_rollout::report::{NodeActivity, NodeReport};
use zagent_rollout::waves;

use super::record_text;
use super::status::StatusFacts;
use crate::output::{Paint, TextTable, Tone, one_line, pluralize};
use zagent_daemon::operator::{clock_text, span_text};

/// A rollout with fewer nodes than this is printed in full.
const SHOW_ALL_BELOW: usize = 20;
/// Maximum number of nodes printed for a larger rollout.
const MAX_NODES: usize = 40;

/// A rollout to be printed.
pub(super) struct RolloutView<'r> {
    /// The rollout.
    pub(super) record: &'r RolloutRecord,
    /// Reports of its nodes, and the signatures of its order.
    pub(super) facts: &'r StatusFacts,
    /// True when its driver has been silent for too long.
    pub(super) is_stale: bool,
    /// Current time, for ages.
    pub(super) now: Timestamp,
    /// Time zone for times of day.
    pub(super) zone: TimeZone,
    /// The colours.
    pub(super) paint: Paint,
    /// True to print every node.
    pub(super) all_nodes: bool,
}

impl RolloutView<'_> {
    /// Renders the page.
    pub(super) fn render(&self) -> String {
        let record = self.record;
        let mut out = String::new();
        let mut line = |name: &str, tone: Tone, words: String| {
            let words = tone.apply(&one_line(&words), self.paint);
            let _ = writeln!(out, "{} {words}", self.paint.bold(format!("{name:8}")));
        };
        let why = record.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        let dry = if record.dry_run { ", dry run: nodes do nothing" } else { "" };
        line("rollout", Tone::Plain, record.id.to_string());
        line("state", record_text::state_tone(record.state), format!("{}{why}{dry}", record.state.name()));
        line("order", Tone::Plain, self.order_line());
        line("batch", Tone::Plain, self.batch_line());
        let bad = record.failed > 0 || record.nodes.values().any(|p| p.status == NodeStatus::Silent);
        let counts = if record.mode == RolloutMode::Clock {
            self.outcome_counts()
        } else {
            record_text::counts_text(record)
        };
        line("nodes", if bad { Tone::Warn } else { Tone::Plain }, counts);
        if let Some(runs) = self.runs_line() {
            line("runs", Tone::Warn, runs);
        }
        line("limits", Tone::Plain, self.limits_line());
        if let Some((tone, signed)) = self.signatures_line() {
            line("signed", tone, signed);
        }
        let (tone, driver) = self.driver_line();
        line("driver", tone, driver);
        if let Some(next) = self.next_step() {
            line("next", Tone::Warn, next);
        }
        self.write_nodes(&mut out);
        out
    }

    fn order_line(&self) -> String {
        let record = self.record;
        let by = record.by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
        let ordered = span_text(record.created.min(self.now), self.now);
        let ended = record.finished.map(|at| format!(", ended {}", self.wall_time(at))).unwrap_or_default();
        let started = record.started.map(|at| format!(", began {}", self.wall_time(at))).unwrap_or_default();
        let fleet = record.fleet.as_ref().map(|fleet| format!(", fleet `{fleet}`")).unwrap_or_default();
        let target = &record.target;
        format!(
            "{}{fleet}, target `{target}`, ordered{by} {ordered} ago{started}{ended}",
            record_text::order_text(record)
        )
    }

    fn batch_line(&self) -> String {
        let record = self.record;
        let all = record.batches.len();
        match (record.state, record.mode) {
            (RolloutStatus::Created, _) => format!("none of {all} yet"),
            (RolloutStatus::Completed, _) => format!("all {all} done"),
            (_, RolloutMode::Clock) => self.wave_line(),
            (RolloutStatus::Aborting | RolloutStatus::Aborted, _) => {
                format!(
                    "ended in {}, in {}",
                    record_text::batch_text(record),
                    record_text::phase_word(record.phase)
                )
            }
            _ => {
                format!("{}, {}", record_text::batch_text(record), record_text::phase_text(record, self.now))
            }
        }
    }

    /// Current wave of a clock rollout, and when the last node is done.
    fn wave_line(&self) -> String {
        let begins = waves::wave_starts(self.record);
        let begun = begins.iter().filter(|at| **at <= self.now).count();
        let end =
            super::clock_end(self.record).map(|at| format!(", last node done by {}", self.wall_time(at)));
        format!("wave {} of {}{}", begun.max(1), begins.len(), end.unwrap_or_default())
    }

    /// After an abort: what the nodes actually run, as they report it, with the names of the nodes.
    fn runs_line(&self) -> Option<String> {
        if !matches!(self.record.state, RolloutStatus::Aborting | RolloutStatus::Aborted) {
            return None;
        }
        let mut groups: BTreeMap<String, Vec<&NodeId>> = BTreeMap::new();
        for node in self.record.batches.iter().flatten() {
            groups.entry(self.running_version(node)).or_default().push(node);
        }
        let words: Vec<String> = groups
            .into_iter()
            .map(|(version, nodes)| {
                let names = record_text::join_names(nodes.iter().copied(), record_text::MAX_NAMED);
                format!("{version} on {} ({names})", pluralize(nodes.len(), "node"))
            })
            .collect();
        (!words.is_empty()).then(|| words.join("; "))
    }

    /// What a node runs by its own report; `unknown` when it does not report.
    fn running_version(&self, node: &NodeId) -> String {
        let version = self.facts.reports.get(node).map(node_version).filter(|version| !version.is_empty());
        version.unwrap_or_else(|| "unknown".into())
    }

    /// Results on nodes, as far as they report.
    fn outcome_counts(&self) -> String {
        let taken = self.facts.reports.values().filter_map(|report| report.taken.as_ref());
        let mine: Vec<_> = taken.filter(|taken| taken.rollout == self.record.id).collect();
        let count = |outcome| mine.iter().filter(|taken| taken.outcome == outcome).count();
        let (good, bad) = (count(Some(NodeOutcome::Confirmed)), count(Some(NodeOutcome::Failed)));
        format!("reported: {good} confirmed, {bad} failed, {} in progress", count(None))
    }

    fn limits_line(&self) -> String {
        let record = self.record;
        let (soak, pause) = (record.soak_time, record.batch_pause);
        let end = record.expires_at();
        let ends = match record.state.is_final() {
            true => String::new(),
            false if record.is_expired(self.now) => format!("; EXPIRED {}", self.wall_time(end)),
            false => format!("; expires {}", self.wall_time(end)),
        };
        if record.mode == RolloutMode::Clock {
            return format!("soak {soak}, each wave spread over {pause}{ends}");
        }
        let (max, failed, silent) = (record.max_failed, record.failed, record.max_silent);
        format!(
            "aborts at {max} failed (now {failed}), allows {silent} silent; soak {soak}, pause {pause}{ends}"
        )
    }

    /// Who signed the order, and who else must.
    fn signatures_line(&self) -> Option<(Tone, String)> {
        let signed = &self.facts.signatures;
        let (have, needed) = (signed.signers.len(), signed.needed);
        if needed == 0 {
            return None;
        }
        let whom = if have == 0 { String::new() } else { format!(": {}", signed.signers.join(", ")) };
        let words = format!("{have} of {needed} signatures{whom}");
        if have >= needed || self.record.state.is_final() {
            return Some((Tone::Plain, words));
        }
        let more = format!("no node starts; another person runs `zagent rollout sign {}`", self.record.id);
        Some((Tone::Warn, format!("{words}; {more}")))
    }

    fn driver_line(&self) -> (Tone, String) {
        let record = self.record;
        let needless = record.state.is_final() || record.dry_run;
        match &record.driver {
            _ if record.mode == RolloutMode::Clock => (Tone::Plain, "none: the clock decides".into()),
            None if needless => (Tone::Dim, "none".into()),
            None => (Tone::Warn, "none yet".into()),
            Some(driver) => {
                let heard = span_text(driver.heartbeat.min(self.now), self.now);
                let tone = if self.is_stale && !needless { Tone::Error } else { Tone::Plain };
                (tone, format!("{}, last seen {heard} ago", driver.id))
            }
        }
    }

    /// What to do next.
    fn next_step(&self) -> Option<String> {
        let record = self.record;
        let id = &record.id;
        let to = record_text::short_version(record.component, &record.to);
        match record.state {
            RolloutStatus::Completed if record.failed > 0 => Some(
                "failed nodes keep their previous version: find the reason with `zagent node show NODE`"
                    .into(),
            ),
            RolloutStatus::Completed => None,
            RolloutStatus::Aborted => Some(format!(
                "an abort changes no node that was confirmed; to roll back the nodes that run {to}: zagent \
                 rollout start --component {} --to {} --anyway",
                record.component.name(),
                record.from.as_deref().unwrap_or("VERSION")
            )),
            _ if record.dry_run || record.mode == RolloutMode::Clock => None,
            RolloutStatus::Paused => Some(format!(
                "continue with `zagent rollout resume {id}`, or end it with `zagent rollout abort {id}`"
            )),
            _ if self.is_stale => Some(format!("no active driver: zagent rollout drive {id}")),
            RolloutStatus::Created | RolloutStatus::Rolling | RolloutStatus::Aborting => None,
        }
    }

    fn write_nodes(&self, out: &mut String) {
        let record = self.record;
        let (total, whole) = (record_text::node_count(record), self.all_nodes);
        let is_worth = |batch: usize, node: &NodeId| {
            let status = record.node_status(node);
            let is_bad = matches!(status, NodeStatus::Failed | NodeStatus::Silent);
            let is_current = batch == record.current_batch && !record.state.is_final();
            whole || total <= SHOW_ALL_BELOW || is_bad || is_current
        };
        let all = record
            .batches
            .iter()
            .enumerate()
            .flat_map(|(batch, nodes)| nodes.iter().map(move |node| (batch, node)));
        let worth: Vec<_> = all.filter(|(batch, node)| is_worth(*batch, node)).collect();
        let most = if whole { usize::MAX } else { MAX_NODES };
        let mut table = TextTable::new(["BATCH", "NODE", "STATUS", "SINCE", "RUNS", "NOTE"]);
        for (batch, node) in worth.iter().take(most) {
            let status = record.node_status(node);
            table.add_row(record_text::status_tone(status), self.node_row(*batch, node, status));
        }
        if worth.is_empty() {
            return;
        }
        let _ = write!(out, "\n{}", table.render(self.paint));
        let more = total - worth.len().min(most);
        if more > 0 {
            let _ = writeln!(out, "{}", self.paint.dim(format!("and {more} more: add -v to print all")));
        }
    }

    fn node_row(&self, batch: usize, node: &NodeId, status: NodeStatus) -> [String; 6] {
        let progress = self.record.nodes.get(node);
        let since = progress.and_then(|p| p.at).map(|at| span_text(at.min(self.now), self.now));
        let report = self.facts.reports.get(node);
        let held = || progress.and_then(|p| p.held.as_ref()).map(|why| format!("held: {why}"));
        // What a node waits for is shown as soon as it says so, also before a driver writes it down.
        let is_open = !matches!(status, NodeStatus::Confirmed | NodeStatus::Failed);
        let said = report.and_then(|report| report.waits.get(&self.record.id)).filter(|_| is_open);
        let waits = || said.map(|why| format!("does not continue: {why}"));
        let error = progress.and_then(|p| p.error.clone()).or_else(waits).or_else(held);
        let refused = || self.facts.refused.iter().find(|one| one.node == *node).map(|one| &one.why);
        let note = match (error, report) {
            (Some(error), _) => error,
            (None, Some(report)) => node_state_text(report, self.now),
            (None, None) => refused().map(|why| format!("report refused: {why}")).unwrap_or_default(),
        };
        let on = self.running_version(node);
        let since = since.unwrap_or_default();
        [(batch + 1).to_string(), node.to_string(), record_text::status_word(status).into(), since, on, note]
    }

    fn wall_time(&self, at: Timestamp) -> String {
        clock_text(at, self.now, &self.zone)
    }
}

/// What a node runs, for the component of its report.
fn node_version(report: &NodeReport) -> String {
    match report.component {
        Component::Agent => report.version.clone(),
        Component::States => report
            .revision
            .as_deref()
            .map(|r| record_text::short_version(Component::States, r))
            .unwrap_or_default(),
    }
}

/// What a node does, and its health: `soaking, ready for 20s`.
pub(in crate::cli) fn node_state_text(report: &NodeReport, now: Timestamp) -> String {
    let mut said = vec![node_state_word(report).to_owned()];
    let ready = report.taken.as_ref().and_then(|taken| taken.ready_since);
    said.extend(ready.map(|at| format!("ready for {}", span_text(at.min(now), now))));
    said.extend(report.degraded.as_ref().map(|why| format!("degraded: {why}")));
    said.extend(report.hold.clone());
    said.join(", ")
}

/// The word for what a node does.
pub(crate) const fn node_state_word(report: &NodeReport) -> &'static str {
    match report.state {
        NodeActivity::Idle => "idle",
        NodeActivity::Preparing => "preparing",
        NodeActivity::Staged => "staged",
        NodeActivity::Applying => "applying",
        NodeActivity::Soaking => "soaking",
        NodeActivity::RollingBack => "rolling back",
    }
}
