//! `zagent node list|show|forget`: what nodes report on the board.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use clap::Subcommand;
use jiff::{SignedDuration, Timestamp};
use serde_json::json as object;
use zagent_config::ids::NodeId;
use zagent_config::settings::Settings;
use zagent_config::suggest::nearest;
use zagent_rollout::envelope::EnvelopeError;
use zagent_rollout::meant::is_meant;
use zagent_rollout::record::Component;
use zagent_rollout::records::Reports;
use zagent_rollout::report::{LastRun, Report};

use super::rollout::{Place, board_of, doing, reports, says, trouble, version};
use crate::operate::span;
use crate::output::{Format, Paint, Table, Tone, Ui, one_line};
use crate::report::{Exit, Trouble};

/// So many reports may fail to come before a node counts as silent.
const MISSED: u32 = 3;
/// The shortest silence that is one.
const SILENCE: Duration = Duration::from_secs(120);
/// The parts of a node that report.
const PARTS: [Component; 2] = [Component::Agent, Component::States];

/// Look at what nodes report on the board
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Print the nodes that report, and how old their reports are
    List(List),
    /// Print all that one node reports
    Show(One),
    /// Take a node's reports off the board; one that still runs reports again
    Forget(One),
}

#[derive(Debug, clap::Args)]
struct List {
    /// Which nodes: a compound target such as 'G@os:Debian and web-*'; default: all
    #[arg(value_name = "TARGET")]
    target: Option<String>,

    #[command(flatten)]
    place: Place,
}

#[derive(Debug, clap::Args)]
struct One {
    /// The node
    #[arg(value_name = "ID")]
    id: NodeId,

    #[command(flatten)]
    place: Place,
}

impl Args {
    pub(super) const fn format(&self) -> Format {
        match &self.verb {
            Verb::List(list) => list.place.format(),
            Verb::Show(one) | Verb::Forget(one) => one.place.format(),
        }
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<Exit, Trouble> {
        match &self.verb {
            Verb::List(list) => list.run(ui),
            Verb::Show(one) => one.show(ui),
            Verb::Forget(one) => one.forget(ui),
        }
    }
}

/// All reports, by node and part.
fn all(settings: &Settings) -> Result<BTreeMap<NodeId, Vec<Report>>, Trouble> {
    let mut board = reports(settings)?;
    let mut nodes: BTreeMap<NodeId, Vec<Report>> = BTreeMap::new();
    for part in PARTS {
        for (id, report) in board.all(part).map_err(trouble)? {
            nodes.entry(id).or_default().push(report);
        }
    }
    Ok(nodes)
}

/// After how long without a report a node counts as silent.
pub(super) fn patience(settings: &Settings) -> Duration {
    settings.board.every.saturating_mul(MISSED).max(SILENCE)
}

/// True when a node has said nothing for too long.
pub(super) fn is_silent(report: &Report, now: Timestamp, patience: Duration) -> bool {
    let age = now.duration_since(report.updated_at);
    SignedDuration::try_from(patience).is_ok_and(|patience| age > patience)
}

impl List {
    fn run(&self, ui: &mut Ui<'_>) -> Result<Exit, Trouble> {
        let settings = self.place.settings()?;
        let mut nodes = all(&settings)?;
        if let Some(target) = &self.target {
            let mut fault = None;
            nodes.retain(|_, reports| {
                reports.iter().any(|report| {
                    is_meant(target, report).unwrap_or_else(|e| {
                        fault = Some(e);
                        false
                    })
                })
            });
            if let Some(fault) = fault {
                let hint = "write a compound target such as 'G@os:Debian and web-*'";
                return Err(Trouble::usage_hint(crate::report::chain(&fault), hint));
            }
        }
        let (now, patience) = (Timestamp::now(), patience(&settings));
        let flat: Vec<&Report> = nodes.values().flatten().collect();
        let data: Vec<_> = flat
            .iter()
            .map(|report| object!({"silent": is_silent(report, now, patience), "report": report}))
            .collect();
        self.place.print(&table(&flat, now, patience, ui.paint), &data, ui);
        Ok(Exit::Fine)
    }
}

/// Nodes for people.
fn table(reports: &[&Report], now: Timestamp, patience: Duration, paint: Paint) -> String {
    if reports.is_empty() {
        return "no such node reports on the board\n".into();
    }
    let heads = ["NODE", "COMPONENT", "VERSION", "REVISION", "STATE", "REPORT", "SYSTEM", "NOTE"];
    let mut table = Table::new(heads);
    for report in reports {
        let silent = is_silent(report, now, patience);
        let tone = match (&report.degraded, silent) {
            (Some(_), _) => Tone::Bad,
            (None, true) => Tone::Look,
            (None, false) => Tone::Plain,
        };
        let mut notes = Vec::new();
        notes.extend(silent.then(|| "silent".to_owned()));
        notes.extend(report.degraded.as_ref().map(|why| format!("degraded: {why}")));
        notes.extend(report.hold.clone());
        let revision = report.revision.as_deref().map(|r| version(Component::States, r));
        table.row(
            tone,
            [
                report.id.to_string(),
                report.component.word().into(),
                report.version.clone(),
                revision.unwrap_or_default(),
                doing(report).into(),
                format!("{} ago", span(report.updated_at.min(now), now)),
                format!("{}/{}", report.os, report.arch),
                notes.join("; "),
            ],
        );
    }
    table.text(paint)
}

impl One {
    /// The reports of the node, at least one.
    fn reports(&self, settings: &Settings) -> Result<Vec<Report>, Trouble> {
        let mut board = board_of(settings)?;
        let (mut own, mut others, mut wrong) = (Vec::new(), Vec::new(), None);
        for part in PARTS {
            let (mut good, refused) = board.judged(part, Timestamp::now()).map_err(trouble)?;
            own.extend(good.remove(&self.id).map(|opened| opened.report));
            wrong = wrong.or_else(|| refused.into_iter().find(|error| of(error) == Some(&self.id)));
            others.extend(good.into_keys());
        }
        match wrong {
            _ if !own.is_empty() => Ok(own),
            Some(error) => Err(Trouble::Refusal {
                exit: Exit::Failed,
                message: crate::report::chain(&error),
                hint: Some(format!(
                    "its next report takes the place of this one, or: zagent node forget {}",
                    self.id
                )),
            }),
            None => Err(self.unknown(others.iter())),
        }
    }

    fn unknown<'n>(&self, others: impl Iterator<Item = &'n NodeId>) -> Trouble {
        let near = nearest(self.id.as_str(), others.map(NodeId::as_str));
        let hint = match near {
            Some(near) => format!("did you mean `{near}`? `zagent node list` prints those that report"),
            None => "`zagent node list` prints those that report".into(),
        };
        Trouble::usage_hint(format!("no node `{}` reports on the board", self.id), hint)
    }

    fn show(&self, ui: &mut Ui<'_>) -> Result<Exit, Trouble> {
        let settings = self.place.settings()?;
        let reports = self.reports(&settings)?;
        let (now, patience) = (Timestamp::now(), patience(&settings));
        let pages: Vec<String> = reports.iter().map(|r| page(r, now, patience, ui.paint)).collect();
        self.place.print(&pages.join("\n"), &reports, ui);
        Ok(Exit::Fine)
    }

    fn forget(&self, ui: &mut Ui<'_>) -> Result<Exit, Trouble> {
        let settings = self.place.settings()?;
        let mut board = board_of(&settings)?;
        let mut gone = Vec::new();
        // A node that was set up anew signs with another key: its reports are refused, and that is what this is for.
        let mut was_there = has_key(&settings, &self.id);
        let mut others = Vec::new();
        for part in PARTS {
            let (mut good, refused) = board.judged(part, Timestamp::now()).map_err(trouble)?;
            gone.extend(good.remove(&self.id).map(|opened| opened.report));
            was_there |= refused.iter().any(|error| of(error) == Some(&self.id));
            others.extend(good.into_keys());
        }
        if gone.is_empty() && !was_there {
            return Err(self.unknown(others.iter()));
        }
        for part in PARTS {
            board.forget(part, &self.id).map_err(trouble)?;
        }
        let words = format!("{} is forgotten; when it still runs, it reports again\n", self.id);
        self.place.print(&words, &object!({"success": true, "forgotten": gone}), ui);
        Ok(Exit::Fine)
    }
}

/// True when this host has seen a key of the node before.
fn has_key(settings: &Settings, id: &NodeId) -> bool {
    let known = std::fs::read_to_string(settings.paths().nodes()).unwrap_or_default();
    known.lines().filter_map(|line| line.split_once(' ')).any(|(node, _)| node == id.as_str())
}

/// The node that a refused report claims to be of.
const fn of(error: &EnvelopeError) -> Option<&NodeId> {
    match error {
        EnvelopeError::Damaged { node, .. }
        | EnvelopeError::Foreign { node, .. }
        | EnvelopeError::Signature { node, .. }
        | EnvelopeError::OtherKey { node, .. }
        | EnvelopeError::Replayed { node, .. } => Some(node),
        _ => None,
    }
}

/// One report for people.
fn page(report: &Report, now: Timestamp, patience: Duration, paint: Paint) -> String {
    let mut out = String::new();
    let mut line = |name: &str, tone: Tone, words: String| {
        let words = tone.on(&one_line(&words), paint);
        let _ = writeln!(out, "{} {words}", paint.bold(format!("{name:9}")));
    };
    let age = span(report.updated_at.min(now), now);
    let silent = is_silent(report, now, patience);
    let (tone, old) = if silent { (Tone::Look, ": silent") } else { (Tone::Plain, "") };
    line("node", Tone::Plain, format!("{} ({})", report.id, report.component.word()));
    line("report", tone, format!("{age} ago{old}"));
    line("version", Tone::Plain, format!("{}, protocol {}", report.version, report.protocol));
    line("revision", Tone::Plain, report.revision.clone().unwrap_or_else(|| "none".into()));
    line("state", Tone::Plain, says(report, now));
    match &report.degraded {
        Some(why) => line("health", Tone::Bad, format!("degraded: {why}")),
        None => line("health", Tone::Fine, "well".into()),
    }
    if let Some(why) = &report.hold {
        line("held", Tone::Look, why.clone());
    }
    if let Some(taken) = &report.taken {
        use zagent_rollout::phase::Outcome;
        let (tone, how) = match taken.outcome {
            None => (Tone::Plain, "under way"),
            Some(Outcome::Confirmed) => (Tone::Fine, "confirmed"),
            Some(Outcome::Failed) => (Tone::Bad, "failed"),
            Some(Outcome::Withdrawn) => (Tone::Look, "withdrawn"),
        };
        let why = taken.error.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        let age = span(taken.at.min(now), now);
        line("rollout", tone, format!("{}, {how} for {age}{why}", taken.rollout));
    }
    if let Some(run) = &report.last_run {
        let tone = if run.success { Tone::Fine } else { Tone::Bad };
        line("last run", tone, last_run(run, now));
    }
    if let Some(child) = &report.child {
        let up = i64::try_from(child.uptime).ok().and_then(|s| Timestamp::from_second(s).ok());
        let up = up.map_or_else(|| "for ages".into(), |up| span(Timestamp::UNIX_EPOCH, up));
        line("process", Tone::Plain, format!("{}, up {up} when it reported", child.pid));
    }
    line("system", Tone::Plain, format!("{}/{}", report.os, report.arch));
    let facts = report.facts.iter().map(|(name, value)| match value {
        serde_json::Value::String(text) => format!("{name}={text}"),
        value => format!("{name}={value}"),
    });
    line("facts", Tone::Plain, facts.collect::<Vec<_>>().join(" "));
    out
}

fn last_run(run: &LastRun, now: Timestamp) -> String {
    let verdict = if run.success { "OK" } else { "FAILED" };
    let age = span(run.at.min(now), now);
    format!("{verdict} {age} ago: {} changed, {} failed, {}", run.changed, run.failed, run.run)
}

#[cfg(test)]
mod tests {
    use zagent_rollout::phase::Outcome;
    use zagent_rollout::report::{Child, Doing, Taken};

    use super::*;

    fn at(clock: &str) -> Timestamp {
        format!("2026-11-16T{clock}Z").parse().unwrap()
    }

    fn report(id: &str) -> Report {
        Report {
            id: id.parse().unwrap(),
            component: Component::States,
            version: "1.3.2".into(),
            revision: Some("3f2a1b9c0d1e2f3a4b5c6d7e8f90a1b2c3d4e5f6".into()),
            state: Doing::Idle,
            taken: None,
            os: "linux".into(),
            arch: "x86_64".into(),
            facts: [("os".to_owned(), "Debian".into()), ("cpus".to_owned(), 4.into())].into(),
            updated_at: at("11:59:40"),
            child: None,
            degraded: None,
            protocol: 1,
            hold: None,
            last_run: None,
        }
    }

    #[test]
    fn nodes_for_people() {
        let now = at("12:00:00");
        let well = report("web-01");
        let silent = Report { updated_at: at("08:00:00"), ..report("web-02") };
        let degraded = Some("crash loop\n\x1b[2J".into());
        let ill = Report { component: Component::Agent, revision: None, degraded, ..report("web-03") };
        let all = [&well, &silent, &ill];
        let patience = Duration::from_secs(45 * 60);
        insta::assert_snapshot!("nodes", table(&all, now, patience, Paint::new(false)));
        assert!(table(&[], now, patience, Paint::new(false)).starts_with("no such node"));
        let full = Report {
            state: Doing::Soaking,
            child: Some(Child { pid: 712, uptime: 3725 }),
            taken: Some(Taken {
                rollout: "r1".parse().unwrap(),
                outcome: Some(Outcome::Failed),
                error: Some("not ready: 503".into()),
                at: at("11:58:00"),
                ready_since: Some(at("11:59:30")),
                created: Timestamp::UNIX_EPOCH,
            }),
            last_run: Some(LastRun {
                run: "20261116T115600-3f9a7".into(),
                at: at("11:56:00"),
                success: false,
                changed: 2,
                failed: 1,
            }),
            ..report("web-01")
        };
        let page = |report: &Report| page(report, now, patience, Paint::new(false));
        insta::assert_snapshot!("node", format!("{}---\n{}", page(&full), page(&silent)));
        let odd = Report { child: Some(Child { pid: 1, uptime: u64::MAX }), ..report("web-01") };
        assert!(page(&odd).contains("up for ages"));
    }
}
