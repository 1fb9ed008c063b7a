//! A plan in, a page for whoever decides out: who comes when, who speaks for whom, who stays behind.
//!
//! Law: whatever keeps a node out, or leaves a stratum without a canary, is on the page.

use std::fmt::Write;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::json as object;
use zagent_config::ids::NodeId;
use zagent_rollout::plan::{Plan, Stratum};
use zagent_rollout::record::{Mode, Profile, Record};
use zagent_rollout::waves;

use super::words;
use crate::operate::{span, wall};
use crate::output::{Paint, Table, Tone, count, one_line};

/// How many nodes of a batch are named.
const NAMED: usize = 8;
/// How many nodes that stay behind, or are waited for, are listed.
const LISTED: usize = 20;

/// A plan on its way to a terminal.
pub(super) struct Sheet<'p> {
    /// The plan.
    pub(super) plan: &'p Plan,
    /// The time that it begins at the earliest.
    pub(super) now: Timestamp,
    /// The zone of times of day.
    pub(super) zone: TimeZone,
    /// The colours.
    pub(super) paint: Paint,
    /// True when every node is wanted.
    pub(super) whole: bool,
}

impl Sheet<'_> {
    /// The page.
    pub(super) fn text(&self) -> String {
        let record = &self.plan.record;
        let mut out = String::new();
        let mut line = |name: &str, words: String| {
            let _ = writeln!(out, "{} {}", self.paint.bold(format!("{name:8}")), one_line(&words));
        };
        line("rollout", record.id.to_string());
        line("order", format!("{}, target `{}`", words::order(record), record.target));
        line("pace", self.pace());
        if record.mode == Mode::Driver {
            line("limits", limits(record));
        }
        line("length", self.length());
        match record.mode {
            Mode::Driver => self.batches(&mut out),
            Mode::Clock => self.waves(&mut out),
        }
        self.strata(&mut out);
        self.listed(["HELD NOW", "WHY"], &self.plan.held, &mut out);
        self.listed(["LEFT OUT", "WHY"], &self.plan.excluded, &mut out);
        out
    }

    fn pace(&self) -> String {
        let record = &self.plan.record;
        let care = match record.profile {
            Profile::Normal => "",
            Profile::Emergency => "EMERGENCY, windows do not hold it up; ",
        };
        let dry = if record.dry_run { "dry run; " } else { "" };
        let (soak, pause) = (record.soak_time, record.batch_pause);
        match record.mode {
            Mode::Driver => {
                let batches = match record.batches.len() {
                    1 => "1 batch".to_owned(),
                    n => format!("{n} batches"),
                };
                let nodes = count(words::total(record), "node");
                format!("{dry}{care}{nodes} in {batches}, soak {soak}, pause {pause}")
            }
            Mode::Clock => {
                let waves = count(self.plan.earliest.len(), "wave");
                format!("{dry}{care}{waves} by the clock, soak {soak}, spread over {pause}")
            }
        }
    }

    fn length(&self) -> String {
        match total(self.plan, self.now) {
            Some(total) if total > SignedDuration::ZERO => {
                let end = self.now.saturating_add(total).unwrap_or(self.now);
                let length = span(self.now, end);
                format!("at least {length}: begun now, it ends at {} at the earliest", self.clock(end))
            }
            _ => "no time at all".into(),
        }
    }

    fn batches(&self, out: &mut String) {
        let canaries: Vec<_> = self.plan.strata.iter().flat_map(|stratum| &stratum.canaries).collect();
        let mut table = Table::new(["BATCH", "EARLIEST", "NODES", "WHO"]);
        let most = if self.whole { usize::MAX } else { NAMED };
        for (index, nodes) in self.plan.record.batches.iter().enumerate() {
            let is_canary = !nodes.is_empty() && nodes.iter().all(|node| canaries.contains(&node));
            let canary = if is_canary { " canary" } else { "" };
            let tone = if is_canary { Tone::Look } else { Tone::Plain };
            let at = self.plan.earliest.get(index).map(|at| self.start(*at)).unwrap_or_default();
            let (number, size) = (format!("{}{canary}", index + 1), nodes.len().to_string());
            table.row(tone, [number, at, size, words::names(nodes.iter(), most)]);
        }
        let _ = write!(out, "\n{}", table.text(self.paint));
    }

    fn waves(&self, out: &mut String) {
        let mut table = Table::new(["WAVE", "EARLIEST", "NODES UP TO"]);
        let shares = waves::shares(&self.plan.record);
        for (index, (at, share)) in self.plan.earliest.iter().zip(shares).enumerate() {
            table.row(Tone::Plain, [(index + 1).to_string(), self.start(*at), format!("{share}%")]);
        }
        let _ = write!(out, "\n{}", table.text(self.paint));
    }

    fn strata(&self, out: &mut String) {
        if self.plan.strata.is_empty() || self.plan.record.mode == Mode::Clock {
            return;
        }
        let by = self.plan.record.canary.by.join("/");
        let mut table = Table::new(["STRATUM", "NODES", "CANARY"]);
        for Stratum { name, nodes, canaries } in &self.plan.strata {
            let (tone, who) = match canaries.is_empty() {
                true => (Tone::Look, "not covered".to_owned()),
                false => (Tone::Plain, words::names(canaries.iter(), NAMED)),
            };
            table.row(tone, [name.clone(), nodes.to_string(), who]);
        }
        let _ = write!(out, "\n{}", table.text(self.paint));
        let bare = self.plan.strata.iter().filter(|stratum| !stratum.is_covered()).count();
        if bare > 0 {
            let words = format!(
                "{bare} of {} strata ({by}) are not covered: no node like theirs goes first",
                self.plan.strata.len()
            );
            let _ = writeln!(out, "{}", self.paint.yellow(words));
        }
    }

    fn listed(&self, heads: [&'static str; 2], nodes: &[(NodeId, String)], out: &mut String) {
        if nodes.is_empty() {
            return;
        }
        let mut table = Table::new(heads);
        let most = if self.whole { usize::MAX } else { LISTED };
        for (node, why) in nodes.iter().take(most) {
            table.row(Tone::Look, [node.to_string(), why.clone()]);
        }
        let _ = write!(out, "\n{}", table.text(self.paint));
        let more = nodes.len().saturating_sub(most);
        if more > 0 {
            let _ = writeln!(out, "{}", self.paint.dim(format!("and {more} more: -v prints them all")));
        }
    }

    fn start(&self, at: Timestamp) -> String {
        match at <= self.now {
            true => "at once".into(),
            false => format!("{} (in {})", self.clock(at), span(self.now, at)),
        }
    }

    fn clock(&self, at: Timestamp) -> String {
        wall(at, self.now, &self.zone)
    }
}

fn limits(record: &Record) -> String {
    let silent = match record.max_silent {
        0 => "no node may be silent".to_owned(),
        n => format!("{n} may be silent"),
    };
    let protocol = match record.min_protocol {
        0 => String::new(),
        n => format!(", every node speaks protocol {n}"),
    };
    format!("ends at {} failed, {silent}{protocol}", record.max_failed)
}

/// How long it takes at the least.
fn total(plan: &Plan, now: Timestamp) -> Option<SignedDuration> {
    let last = plan.earliest.last()?;
    let soak = SignedDuration::try_from(plan.record.soak_time.0).ok()?;
    last.duration_since(now).checked_add(soak)
}

/// A plan as data.
pub(super) fn data(plan: &Plan, now: Timestamp) -> serde_json::Value {
    let strata: Vec<_> = plan.strata.iter().map(stratum).collect();
    let listed = |nodes: &[(NodeId, String)]| -> Vec<serde_json::Value> {
        nodes.iter().map(|(node, why)| object!({"node": node, "why": why})).collect()
    };
    let seconds = total(plan, now).map(|total| total.as_secs());
    object!({
        "success": true, "record": plan.record, "strata": strata, "excluded": listed(&plan.excluded),
        "held": listed(&plan.held),
        "earliest": plan.earliest, "seconds": seconds,
    })
}

fn stratum(stratum: &Stratum) -> serde_json::Value {
    let Stratum { name, nodes, canaries } = stratum;
    object!({"name": name, "nodes": nodes, "canaries": canaries, "covered": stratum.is_covered()})
}
