//! Plan in, page for the decision out: which node is updated when, which canaries cover it, which nodes are
//! excluded.
//!
//! Law: the page shows everything that excludes a node or leaves a stratum without a canary (held by `plans`).

use std::fmt::Write;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::json as object;
use zagent_config::ids::NodeId;
use zagent_rollout::plan::{RolloutPlan, Stratum};
use zagent_rollout::record::{RolloutMode, RolloutProfile, RolloutRecord};
use zagent_rollout::waves;

use super::record_text;
use crate::output::{Paint, TextTable, Tone, one_line, pluralize};
use zagent_daemon::operator::{clock_text, span_text};

/// Maximum number of nodes named per batch.
const MAX_NAMED: usize = 8;
/// Maximum number of excluded or held nodes listed.
const MAX_LISTED: usize = 20;

/// A plan to be printed.
pub(super) struct PlanView<'p> {
    /// The plan.
    pub(super) plan: &'p RolloutPlan,
    /// Earliest start time.
    pub(super) now: Timestamp,
    /// Time zone for times of day.
    pub(super) zone: TimeZone,
    /// The colours.
    pub(super) paint: Paint,
    /// True to print every node.
    pub(super) all_nodes: bool,
}

impl PlanView<'_> {
    /// Renders the page.
    pub(super) fn render(&self) -> String {
        let record = &self.plan.record;
        let mut out = String::new();
        let mut line = |name: &str, words: String| {
            let _ = writeln!(out, "{} {}", self.paint.bold(format!("{name:8}")), one_line(&words));
        };
        line("rollout", record.id.to_string());
        line("order", format!("{}, target `{}`", record_text::order_text(record), record.target));
        line("pace", self.pace_line());
        if record.mode == RolloutMode::Driver {
            line("limits", limits_text(record));
        }
        line("length", self.length_line());
        match record.mode {
            RolloutMode::Driver => self.write_batches(&mut out),
            RolloutMode::Clock => self.write_waves(&mut out),
        }
        self.write_strata(&mut out);
        self.write_node_list(["HELD", "REASON"], &self.plan.held, &mut out);
        self.write_node_list(["EXCLUDED", "REASON"], &self.plan.excluded, &mut out);
        out
    }

    fn pace_line(&self) -> String {
        let record = &self.plan.record;
        let care = match record.profile {
            RolloutProfile::Normal => "",
            RolloutProfile::Emergency => "EMERGENCY, ignores maintenance windows; ",
        };
        let dry = if record.dry_run { "dry run; " } else { "" };
        let (soak, pause) = (record.soak_time, record.batch_pause);
        match record.mode {
            RolloutMode::Driver => {
                let batches = match record.batches.len() {
                    1 => "1 batch".to_owned(),
                    n => format!("{n} batches"),
                };
                let nodes = pluralize(record_text::node_count(record), "node");
                format!("{dry}{care}{nodes} in {batches}, soak {soak}, pause {pause}")
            }
            RolloutMode::Clock => {
                let waves = pluralize(self.plan.earliest.len(), "wave");
                format!("{dry}{care}{waves} by the clock, soak {soak}, spread over {pause}")
            }
        }
    }

    fn length_line(&self) -> String {
        match minimum_duration(self.plan, self.now) {
            Some(total) if total > SignedDuration::ZERO => {
                let end = self.now.saturating_add(total).unwrap_or(self.now);
                let length = span_text(self.now, end);
                format!("at least {length}: started now, it ends at {} at the earliest", self.wall_time(end))
            }
            _ => "no time at all".into(),
        }
    }

    fn write_batches(&self, out: &mut String) {
        let canaries: Vec<_> = self.plan.strata.iter().flat_map(|stratum| &stratum.canaries).collect();
        let mut table = TextTable::new(["BATCH", "EARLIEST", "NODES", "NAMES"]);
        let most = if self.all_nodes { usize::MAX } else { MAX_NAMED };
        for (index, nodes) in self.plan.record.batches.iter().enumerate() {
            let is_canary = !nodes.is_empty() && nodes.iter().all(|node| canaries.contains(&node));
            let canary = if is_canary { " canary" } else { "" };
            let tone = if is_canary { Tone::Warn } else { Tone::Plain };
            let at = self.plan.earliest.get(index).map(|at| self.start_text(*at)).unwrap_or_default();
            let (number, size) = (format!("{}{canary}", index + 1), nodes.len().to_string());
            table.add_row(tone, [number, at, size, record_text::join_names(nodes.iter(), most)]);
        }
        let _ = write!(out, "\n{}", table.render(self.paint));
    }

    fn write_waves(&self, out: &mut String) {
        let mut table = TextTable::new(["WAVE", "EARLIEST", "NODES UP TO"]);
        let shares = waves::wave_shares(&self.plan.record);
        for (index, (at, share)) in self.plan.earliest.iter().zip(shares).enumerate() {
            table.add_row(Tone::Plain, [(index + 1).to_string(), self.start_text(*at), format!("{share}%")]);
        }
        let _ = write!(out, "\n{}", table.render(self.paint));
    }

    fn write_strata(&self, out: &mut String) {
        if self.plan.strata.is_empty() || self.plan.record.mode == RolloutMode::Clock {
            return;
        }
        let by = self.plan.record.canary.by.join("/");
        let mut table = TextTable::new(["STRATUM", "NODES", "CANARY"]);
        for Stratum { name, nodes, canaries } in &self.plan.strata {
            let (tone, who) = match canaries.is_empty() {
                true => (Tone::Warn, "not covered".to_owned()),
                false => (Tone::Plain, record_text::join_names(canaries.iter(), MAX_NAMED)),
            };
            table.add_row(tone, [name.clone(), nodes.to_string(), who]);
        }
        let _ = write!(out, "\n{}", table.render(self.paint));
        let bare = self.plan.strata.iter().filter(|stratum| !stratum.is_covered()).count();
        if bare > 0 {
            let words = format!(
                "{bare} of {} strata ({by}) are not covered: they have no canary",
                self.plan.strata.len()
            );
            let _ = writeln!(out, "{}", self.paint.yellow(words));
        }
    }

    fn write_node_list(&self, heads: [&'static str; 2], nodes: &[(NodeId, String)], out: &mut String) {
        if nodes.is_empty() {
            return;
        }
        let mut table = TextTable::new(heads);
        let most = if self.all_nodes { usize::MAX } else { MAX_LISTED };
        for (node, why) in nodes.iter().take(most) {
            table.add_row(Tone::Warn, [node.to_string(), why.clone()]);
        }
        let _ = write!(out, "\n{}", table.render(self.paint));
        let more = nodes.len().saturating_sub(most);
        if more > 0 {
            let _ = writeln!(out, "{}", self.paint.dim(format!("and {more} more: add -v to print all")));
        }
    }

    fn start_text(&self, at: Timestamp) -> String {
        match at <= self.now {
            true => "now".into(),
            false => format!("{} (in {})", self.wall_time(at), span_text(self.now, at)),
        }
    }

    fn wall_time(&self, at: Timestamp) -> String {
        clock_text(at, self.now, &self.zone)
    }
}

fn limits_text(record: &RolloutRecord) -> String {
    let silent = match record.max_silent {
        0 => "allows no silent nodes".to_owned(),
        n => format!("allows {n} silent"),
    };
    let protocol = match record.min_protocol {
        0 => String::new(),
        n => format!(", requires protocol {n} on every node"),
    };
    format!("aborts at {} failed, {silent}{protocol}", record.max_failed)
}

/// Minimum duration.
fn minimum_duration(plan: &RolloutPlan, now: Timestamp) -> Option<SignedDuration> {
    let last = plan.earliest.last()?;
    let soak = SignedDuration::try_from(plan.record.soak_time.0).ok()?;
    last.duration_since(now).checked_add(soak)
}

/// A plan as data.
pub(super) fn plan_json(plan: &RolloutPlan, now: Timestamp) -> serde_json::Value {
    let strata: Vec<_> = plan.strata.iter().map(stratum_json).collect();
    let listed = |nodes: &[(NodeId, String)]| -> Vec<serde_json::Value> {
        nodes.iter().map(|(node, why)| object!({"node": node, "why": why})).collect()
    };
    let seconds = minimum_duration(plan, now).map(|total| total.as_secs());
    object!({
        "success": true, "record": plan.record, "strata": strata, "excluded": listed(&plan.excluded),
        "held": listed(&plan.held),
        "earliest": plan.earliest, "seconds": seconds,
    })
}

fn stratum_json(stratum: &Stratum) -> serde_json::Value {
    let Stratum { name, nodes, canaries } = stratum;
    object!({"name": name, "nodes": nodes, "canaries": canaries, "covered": stratum.is_covered()})
}
