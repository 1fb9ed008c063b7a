//! A record, what nodes report and the time in, one page for whoever was woken up out.
//!
//! Law: the state and what to do about it come first; a line that needs a look is not green.

use std::collections::BTreeMap;
use std::fmt::Write;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use zagent_config::ids::NodeId;
use zagent_rollout::phase::Outcome;
use zagent_rollout::record::{Component, Mode, NodeStatus, Record, State};
use zagent_rollout::report::{Doing, Report};
use zagent_rollout::waves;

use super::words;
use crate::operate::{span, wall};
use crate::output::{Paint, Table, Tone, one_line};

/// A rollout of so many nodes is printed whole.
const WHOLE: usize = 20;
/// How many nodes of a larger one are printed.
const SHOWN: usize = 40;

/// A rollout on its way to a terminal.
pub(super) struct Page<'r> {
    /// The rollout.
    pub(super) record: &'r Record,
    /// What its nodes say.
    pub(super) reports: &'r BTreeMap<NodeId, Report>,
    /// True when its driver was not heard for too long.
    pub(super) is_stale: bool,
    /// The time that ages are counted from.
    pub(super) now: Timestamp,
    /// The zone of times of day.
    pub(super) zone: TimeZone,
    /// The colours.
    pub(super) paint: Paint,
    /// True when every node is wanted.
    pub(super) whole: bool,
}

impl Page<'_> {
    /// The page.
    pub(super) fn text(&self) -> String {
        let record = self.record;
        let mut out = String::new();
        let mut line = |name: &str, tone: Tone, words: String| {
            let words = tone.on(&one_line(&words), self.paint);
            let _ = writeln!(out, "{} {words}", self.paint.bold(format!("{name:8}")));
        };
        let why = record.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        let dry = if record.dry_run { ", a dry run: nothing is done" } else { "" };
        line("rollout", Tone::Plain, record.id.to_string());
        line("state", words::state_tone(record.state), format!("{}{why}{dry}", record.state.word()));
        line("order", Tone::Plain, self.order());
        line("batch", Tone::Plain, self.batch());
        let bad = record.failed > 0 || record.nodes.values().any(|p| p.status == NodeStatus::Silent);
        let counts = if record.mode == Mode::Clock { self.heard() } else { words::counts(record) };
        line("nodes", if bad { Tone::Look } else { Tone::Plain }, counts);
        line("limits", Tone::Plain, self.limits());
        let (tone, driver) = self.driver();
        line("driver", tone, driver);
        if let Some(next) = self.next() {
            line("next", Tone::Look, next);
        }
        self.nodes(&mut out);
        out
    }

    fn order(&self) -> String {
        let record = self.record;
        let by = record.by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
        let ordered = span(record.created.min(self.now), self.now);
        let ended = record.finished.map(|at| format!(", ended {}", self.clock(at))).unwrap_or_default();
        let started = record.started.map(|at| format!(", began {}", self.clock(at))).unwrap_or_default();
        let target = &record.target;
        format!("{}, target `{target}`, ordered{by} {ordered} ago{started}{ended}", words::order(record))
    }

    fn batch(&self) -> String {
        let record = self.record;
        let all = record.batches.len();
        match (record.state, record.mode) {
            (State::Created, _) => format!("none of {all} yet"),
            (State::Completed, _) => format!("all {all} done"),
            (_, Mode::Clock) => self.waves(),
            (State::Aborting | State::Aborted, _) => {
                format!("ended in {}, in {}", words::batch(record), words::phase(record.phase))
            }
            _ => format!("{}, {}", words::batch(record), words::under_way(record, self.now)),
        }
    }

    /// Which wave it is by the clock, and when the last node is done.
    fn waves(&self) -> String {
        let begins = waves::begins(self.record);
        let begun = begins.iter().filter(|at| **at <= self.now).count();
        let end = super::ends(self.record).map(|at| format!(", all are done by {}", self.clock(at)));
        format!("wave {} of {}{}", begun.max(1), begins.len(), end.unwrap_or_default())
    }

    /// How it ended on nodes, as far as they say.
    fn heard(&self) -> String {
        let taken = self.reports.values().filter_map(|report| report.taken.as_ref());
        let mine: Vec<_> = taken.filter(|taken| taken.rollout == self.record.id).collect();
        let count = |outcome| mine.iter().filter(|taken| taken.outcome == outcome).count();
        let (good, bad) = (count(Some(Outcome::Confirmed)), count(Some(Outcome::Failed)));
        format!("as far as they report: {good} confirmed, {bad} failed, {} under way", count(None))
    }

    fn limits(&self) -> String {
        let record = self.record;
        let (soak, pause) = (record.soak_time, record.batch_pause);
        if record.mode == Mode::Clock {
            return format!("soak {soak}, each wave spread over {pause}");
        }
        let (max, failed, silent) = (record.max_failed, record.failed, record.max_silent);
        format!("ends at {max} failed (now {failed}), {silent} may be silent; soak {soak}, pause {pause}")
    }

    fn driver(&self) -> (Tone, String) {
        let record = self.record;
        let needless = record.state.is_final() || record.dry_run;
        match &record.driver {
            _ if record.mode == Mode::Clock => (Tone::Plain, "nobody: the clock does it".into()),
            None if needless => (Tone::Faint, "nobody".into()),
            None => (Tone::Look, "nobody yet".into()),
            Some(driver) => {
                let heard = span(driver.heartbeat.min(self.now), self.now);
                let tone = if self.is_stale && !needless { Tone::Bad } else { Tone::Plain };
                (tone, format!("{}, heard {heard} ago", driver.id))
            }
        }
    }

    /// What somebody may want to do about it.
    fn next(&self) -> Option<String> {
        let record = self.record;
        let id = &record.id;
        let to = words::version(record.component, &record.to);
        match record.state {
            State::Completed if record.failed > 0 => {
                Some("nodes that failed are on what they had: `zagent node show NODE` says why".into())
            }
            State::Completed => None,
            State::Aborted => Some(format!(
                "nodes that confirmed keep {to}, the others are on what they had; a rollout back is one of its own: \
                 zagent rollout start --component {} --to {} --anyway",
                record.component.word(),
                record.from.as_deref().unwrap_or("VERSION")
            )),
            _ if record.dry_run || record.mode == Mode::Clock => None,
            State::Paused => {
                Some(format!("`zagent rollout resume {id}` goes on, `zagent rollout abort {id}` ends it"))
            }
            _ if self.is_stale => Some(format!("nobody drives it: zagent rollout drive {id}")),
            State::Created | State::Rolling | State::Aborting => None,
        }
    }

    fn nodes(&self, out: &mut String) {
        let record = self.record;
        let (total, whole) = (words::total(record), self.whole);
        let is_worth = |batch: usize, node: &NodeId| {
            let status = record.status(node);
            let is_bad = matches!(status, NodeStatus::Failed | NodeStatus::Silent);
            let is_current = batch == record.current_batch && !record.state.is_final();
            whole || total <= WHOLE || is_bad || is_current
        };
        let all = record
            .batches
            .iter()
            .enumerate()
            .flat_map(|(batch, nodes)| nodes.iter().map(move |node| (batch, node)));
        let worth: Vec<_> = all.filter(|(batch, node)| is_worth(*batch, node)).collect();
        let most = if whole { usize::MAX } else { SHOWN };
        let mut table = Table::new(["BATCH", "NODE", "STATUS", "SINCE", "VERSION", "NOTE"]);
        for (batch, node) in worth.iter().take(most) {
            let status = record.status(node);
            table.row(words::tone(status), self.row(*batch, node, status));
        }
        if worth.is_empty() {
            return;
        }
        let _ = write!(out, "\n{}", table.text(self.paint));
        let more = total - worth.len().min(most);
        if more > 0 {
            let _ = writeln!(out, "{}", self.paint.dim(format!("and {more} more: -v prints them all")));
        }
    }

    fn row(&self, batch: usize, node: &NodeId, status: NodeStatus) -> [String; 6] {
        let progress = self.record.nodes.get(node);
        let since = progress.and_then(|p| p.at).map(|at| span(at.min(self.now), self.now));
        let report = self.reports.get(node);
        let held = progress.and_then(|p| p.held.as_ref()).map(|why| format!("held: {why}"));
        let note = match (progress.and_then(|p| p.error.clone()).or(held), report) {
            (Some(error), _) => error,
            (None, Some(report)) => says(report, self.now),
            (None, None) => String::new(),
        };
        let on = report.map(on).unwrap_or_default();
        let since = since.unwrap_or_default();
        [(batch + 1).to_string(), node.to_string(), words::status(status).into(), since, on, note]
    }

    fn clock(&self, at: Timestamp) -> String {
        wall(at, self.now, &self.zone)
    }
}

/// What a node is on, as far as the component of its report goes.
fn on(report: &Report) -> String {
    match report.component {
        Component::Agent => report.version.clone(),
        Component::States => {
            report.revision.as_deref().map(|r| words::version(Component::States, r)).unwrap_or_default()
        }
    }
}

/// What a node does, and how it is: `soaking, ready for 20s`.
pub(in crate::cli) fn says(report: &Report, now: Timestamp) -> String {
    let mut said = vec![doing(report).to_owned()];
    let ready = report.taken.as_ref().and_then(|taken| taken.ready_since);
    said.extend(ready.map(|at| format!("ready for {}", span(at.min(now), now))));
    said.extend(report.degraded.as_ref().map(|why| format!("degraded: {why}")));
    said.extend(report.hold.clone());
    said.join(", ")
}

/// The word for what a node does.
pub(in crate::cli) const fn doing(report: &Report) -> &'static str {
    match report.state {
        Doing::Idle => "idle",
        Doing::Preparing => "preparing",
        Doing::Staged => "staged",
        Doing::Applying => "applying",
        Doing::Soaking => "soaking",
        Doing::RollingBack => "rolling back",
    }
}
