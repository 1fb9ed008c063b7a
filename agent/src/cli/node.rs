//! `zagent node list|show|enroll|forget`: what nodes report on the board.

mod enroll;

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use clap::Subcommand;
use jiff::{SignedDuration, Timestamp};
use serde_json::json as object;
use zagent_config::ids::NodeId;
use zagent_config::settings::Settings;
use zagent_config::suggest::nearest;
use zagent_rollout::record::Component;
use zagent_rollout::records::{RefusedReport, Reports};
use zagent_rollout::report::{NodeActivity, NodeReport, ReportedRun};
use zagent_rollout::targeting::is_targeted;

use super::rollout::{
    BoardArgs, node_state_text, node_state_word, open_board_reports, open_reports, short_version,
    to_agent_error,
};
use super::watch;
use crate::output::{OutputFormat, Paint, TextTable, Tone, Ui, one_line};
use zagent_daemon::error::{AgentError, ExitStatus};
use zagent_daemon::operator::span_text;

/// Missed reports before a node counts as stale.
const MISSED_REPORTS: u32 = 2;
/// Components of a node that report.
const COMPONENTS: [Component; 2] = [Component::Agent, Component::States];

/// Show what nodes report on the board
#[derive(Debug, clap::Args)]
pub(super) struct NodeArgs {
    #[command(subcommand)]
    verb: NodeCommand,
}

#[derive(Debug, Subcommand)]
enum NodeCommand {
    /// List the nodes that report, with the age of each report
    List(NodeListArgs),
    /// Print everything one node reports
    Show(NodeIdArgs),
    /// Sign that a key belongs to a node, so that drivers count its reports
    Enroll(enroll::NodeEnrollArgs),
    /// Remove a node's reports and enrolment from the board; a running node reports again
    Forget(NodeIdArgs),
}

#[derive(Debug, clap::Args)]
struct NodeListArgs {
    /// Nodes to list: a compound target such as 'G@os:Debian and web-*'; default: all
    #[arg(value_name = "TARGET")]
    target: Option<String>,

    /// List them again and again until interrupted: on a terminal in place, in a pipe each line that changed, with the
    /// time
    #[arg(long)]
    watch: bool,

    #[command(flatten)]
    place: BoardArgs,
}

#[derive(Debug, clap::Args)]
struct NodeIdArgs {
    /// Node ID
    #[arg(value_name = "ID")]
    id: NodeId,

    #[command(flatten)]
    place: BoardArgs,
}

impl NodeArgs {
    pub(super) const fn format(&self) -> OutputFormat {
        match &self.verb {
            NodeCommand::List(list) => list.place.format(),
            NodeCommand::Enroll(one) => one.format(),
            NodeCommand::Show(one) | NodeCommand::Forget(one) => one.place.format(),
        }
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        match &self.verb {
            NodeCommand::List(list) => list.run(ui),
            NodeCommand::Enroll(one) => one.run(ui),
            NodeCommand::Show(one) => one.show(ui),
            NodeCommand::Forget(one) => one.forget(ui),
        }
    }
}

/// What the board has: reports by node and component, and those that do not count.
#[derive(Default)]
pub(super) struct BoardContent {
    pub(super) nodes: BTreeMap<NodeId, Vec<NodeReport>>,
    pub(super) refused: Vec<(Component, RefusedReport)>,
}

impl BoardContent {
    pub(super) fn read(settings: &Settings) -> Result<Self, AgentError> {
        let mut board = open_reports(settings)?;
        let mut content = Self::default();
        for part in COMPONENTS {
            for (id, report) in board.latest_reports(part).map_err(to_agent_error)? {
                content.nodes.entry(id).or_default().push(report);
            }
            content.refused.extend(board.refused().into_iter().map(|refused| (part, refused)));
        }
        Ok(content)
    }
}

/// Time without a report after which a node counts as stale: two intervals were missed.
pub(super) fn silence_limit(settings: &Settings) -> Duration {
    settings.board.every.saturating_mul(MISSED_REPORTS)
}

/// True when the last report of a node is too old.
pub(super) fn is_silent(report: &NodeReport, now: Timestamp, patience: Duration) -> bool {
    let age = now.duration_since(report.updated_at);
    SignedDuration::try_from(patience).is_ok_and(|patience| age > patience)
}

impl NodeListArgs {
    fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        if self.watch {
            return watch::watch(ui, self.place.format(), |ui| self.list(ui));
        }
        self.list(ui)
    }

    fn list(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let settings = self.place.settings()?;
        let BoardContent { mut nodes, mut refused } = BoardContent::read(&settings)?;
        if let Some(target) = &self.target {
            let mut fault = None;
            nodes.retain(|_, reports| {
                reports.iter().any(|report| {
                    is_targeted(target, report).unwrap_or_else(|e| {
                        fault = Some(e);
                        false
                    })
                })
            });
            if let Some(fault) = fault {
                let hint = "write a compound target such as 'G@os:Debian and web-*'";
                return Err(AgentError::usage_hint(zagent_config::error_chain(&fault), hint));
            }
        }
        // The facts in a refused report cannot be trusted: its name alone decides whether it is shown.
        if let Some(target) = &self.target {
            refused.retain(|(_, one)| is_named(target, &one.node));
        }
        let (now, patience) = (Timestamp::now(), silence_limit(&settings));
        let flat: Vec<&NodeReport> = nodes.values().flatten().collect();
        let good = flat.iter().map(|report| {
            let stale = is_silent(report, now, patience);
            object!({"stale": stale, "silent": stale, "stopped": report.stopped, "report": report})
        });
        let bad = refused
            .iter()
            .map(|(part, one)| object!({"node": one.node, "component": part, "refused": one.why}));
        let data: Vec<_> = good.chain(bad).collect();
        let text = nodes_table(&flat, now, patience, ui.paint) + &refused_table(&refused, ui.paint);
        self.place.print(&text, &data, ui);
        Ok(ExitStatus::Success)
    }
}

/// True when a target matches a node by its name alone, or cannot tell.
fn is_named(target: &str, node: &NodeId) -> bool {
    is_targeted(target, &bare_report(node)).unwrap_or(true)
}

/// A report that says nothing but a name.
fn bare_report(node: &NodeId) -> NodeReport {
    NodeReport {
        id: node.clone(),
        component: Component::States,
        version: String::new(),
        revision: None,
        state: NodeActivity::Idle,
        taken: None,
        os: String::new(),
        arch: String::new(),
        facts: BTreeMap::new(),
        updated_at: Timestamp::UNIX_EPOCH,
        child: None,
        degraded: None,
        hold: None,
        waits: BTreeMap::new(),
        protocol: 0,
        last_run: None,
        stopped: None,
        rejected: Default::default(),
        failing_checks: Vec::new(),
    }
}

/// Reports that do not count, as a table.
fn refused_table(refused: &[(Component, RefusedReport)], paint: Paint) -> String {
    if refused.is_empty() {
        return String::new();
    }
    let mut table = TextTable::new(["REFUSED", "COMPONENT", "REASON"]);
    for (part, one) in refused {
        table.add_row(Tone::Error, [one.node.to_string(), part.name().into(), one.why.clone()]);
    }
    format!("\n{}", table.render(paint))
}

/// Nodes as a table.
fn nodes_table(reports: &[&NodeReport], now: Timestamp, patience: Duration, paint: Paint) -> String {
    if reports.is_empty() {
        return "no matching node reports on the board\n".into();
    }
    let heads = ["NODE", "COMPONENT", "VERSION", "REVISION", "STATE", "REPORT", "SYSTEM", "NOTE"];
    let mut table = TextTable::new(heads);
    for report in reports {
        let silent = is_silent(report, now, patience);
        let is_bad = report.degraded.is_some() || !report.failing_checks.is_empty();
        let tone = match (is_bad, silent || report.stopped.is_some()) {
            (true, _) => Tone::Error,
            (false, true) => Tone::Warn,
            (false, false) => Tone::Plain,
        };
        let mut notes = Vec::new();
        notes.extend(absence_text(report, silent, now));
        notes.extend(report.failing_checks.iter().map(|check| format!("health check fails: {check}")));
        notes.extend(report.degraded.as_ref().map(|why| format!("degraded: {why}")));
        notes.extend(report.hold.clone());
        notes.extend(report.waits.iter().map(|(rollout, why)| format!("{rollout}: {why}")));
        let revision = report.revision.as_deref().map(|r| short_version(Component::States, r));
        table.add_row(
            tone,
            [
                report.id.to_string(),
                report.component.name().into(),
                report.version.clone(),
                revision.unwrap_or_default(),
                node_state_word(report).into(),
                format!("{} ago", span_text(report.updated_at.min(now), now)),
                format!("{}/{}", report.os, report.arch),
                notes.join("; "),
            ],
        );
    }
    table.render(paint)
}

/// Why a report is not a current one: the node was stopped, or it stopped reporting.
fn absence_text(report: &NodeReport, silent: bool, now: Timestamp) -> Option<String> {
    match report.stopped {
        Some(at) => Some(format!("stopped {} ago", span_text(at.min(now), now))),
        None => {
            silent.then(|| format!("stale: no report for {}", span_text(report.updated_at.min(now), now)))
        }
    }
}

impl NodeIdArgs {
    /// Reports of the node, at least one.
    fn load_reports(&self, settings: &Settings) -> Result<Vec<NodeReport>, AgentError> {
        let mut board = open_board_reports(settings)?;
        let (mut own, mut others, mut wrong) = (Vec::new(), Vec::new(), None);
        for part in COMPONENTS {
            let (mut good, refused) =
                board.verified_reports(part, Timestamp::now()).map_err(to_agent_error)?;
            own.extend(good.remove(&self.id).map(|opened| opened.report));
            wrong =
                wrong.or_else(|| refused.into_iter().find(|error| error.claimed_node() == Some(&self.id)));
            others.extend(good.into_keys());
        }
        match wrong {
            _ if !own.is_empty() => Ok(own),
            Some(error) => Err(AgentError::Refusal {
                exit: ExitStatus::Failed,
                message: zagent_config::error_chain(&error),
                hint: Some(format!(
                    "wait for its next report, which replaces this one, or remove it: zagent node forget {}",
                    self.id
                )),
            }),
            None => Err(self.unknown_node(others.iter())),
        }
    }

    fn unknown_node<'n>(&self, others: impl Iterator<Item = &'n NodeId>) -> AgentError {
        let near = nearest(self.id.as_str(), others.map(NodeId::as_str));
        let hint = match near {
            Some(near) => format!("did you mean `{near}`? list the nodes with `zagent node list`"),
            None => "list the nodes with `zagent node list`".into(),
        };
        AgentError::usage_hint(format!("no node `{}` reports on the board", self.id), hint)
    }

    fn show(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let settings = self.place.settings()?;
        let reports = self.load_reports(&settings)?;
        let (now, patience) = (Timestamp::now(), silence_limit(&settings));
        let pages: Vec<String> = reports.iter().map(|r| node_text(r, now, patience, ui.paint)).collect();
        self.place.print(&pages.join("\n"), &reports, ui);
        Ok(ExitStatus::Success)
    }

    fn forget(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let settings = self.place.settings()?;
        let mut board = open_board_reports(&settings)?;
        let mut gone = Vec::new();
        // A reinstalled node signs with a new key, so its reports are refused: this command clears the old
        // key.
        let mut was_there = has_key(&settings, &self.id);
        let mut others = Vec::new();
        for part in COMPONENTS {
            let (mut good, refused) =
                board.verified_reports(part, Timestamp::now()).map_err(to_agent_error)?;
            gone.extend(good.remove(&self.id).map(|opened| opened.report));
            was_there |= refused.iter().any(|error| error.claimed_node() == Some(&self.id));
            others.extend(good.into_keys());
        }
        if gone.is_empty() && !was_there {
            return Err(self.unknown_node(others.iter()));
        }
        for part in COMPONENTS {
            board.forget(part, &self.id).map_err(to_agent_error)?;
        }
        let words = format!("{} is removed from the board; if it still runs, it reports again\n", self.id);
        self.place.print(&words, &object!({"success": true, "forgotten": gone}), ui);
        Ok(ExitStatus::Success)
    }
}

/// True when this host has recorded a key of the node.
fn has_key(settings: &Settings, id: &NodeId) -> bool {
    let known = std::fs::read_to_string(settings.paths().nodes()).unwrap_or_default();
    known.lines().filter_map(|line| line.split_once(' ')).any(|(node, _)| node == id.as_str())
}

/// One report as text.
fn node_text(report: &NodeReport, now: Timestamp, patience: Duration, paint: Paint) -> String {
    let mut out = String::new();
    let mut line = |name: &str, tone: Tone, words: String| {
        let words = tone.apply(&one_line(&words), paint);
        let _ = writeln!(out, "{} {words}", paint.bold(format!("{name:9}")));
    };
    let age = span_text(report.updated_at.min(now), now);
    let silent = is_silent(report, now, patience);
    let absence = absence_text(report, silent, now);
    let tone = if absence.is_some() { Tone::Warn } else { Tone::Plain };
    let old = absence.map(|words| format!(": {words}")).unwrap_or_default();
    line("node", Tone::Plain, format!("{} ({})", report.id, report.component.name()));
    line("report", tone, format!("{age} ago{old}"));
    line("version", Tone::Plain, format!("{}, protocol {}", report.version, report.protocol));
    line("revision", Tone::Plain, report.revision.clone().unwrap_or_else(|| "none".into()));
    line("state", Tone::Plain, node_state_text(report, now));
    for check in &report.failing_checks {
        line("health", Tone::Error, format!("check fails: {check}"));
    }
    match &report.degraded {
        Some(why) => line("health", Tone::Error, format!("degraded: {why}")),
        None if report.failing_checks.is_empty() => line("health", Tone::Good, "well".into()),
        None => {}
    }
    for (version, why) in &report.rejected {
        line("rejected", Tone::Warn, format!("{version}: {why}"));
    }
    if let Some(why) = &report.hold {
        line("held", Tone::Warn, why.clone());
    }
    for (rollout, why) in &report.waits {
        line("waits", Tone::Warn, format!("{rollout}: {why}"));
    }
    if let Some(taken) = &report.taken {
        use zagent_rollout::phase::NodeOutcome;
        let (tone, how) = match taken.outcome {
            None => (Tone::Plain, "in progress"),
            Some(NodeOutcome::Confirmed) => (Tone::Good, "confirmed"),
            Some(NodeOutcome::Failed) => (Tone::Error, "failed"),
            Some(NodeOutcome::Withdrawn) => (Tone::Warn, "withdrawn"),
        };
        let why = taken.error.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        let age = span_text(taken.at.min(now), now);
        line("rollout", tone, format!("{}, {how} for {age}{why}", taken.rollout));
    }
    if let Some(run) = &report.last_run {
        let tone = if run.success { Tone::Good } else { Tone::Error };
        line("last run", tone, last_run_text(run, now));
    }
    if let Some(child) = &report.child {
        let up = i64::try_from(child.uptime).ok().and_then(|s| Timestamp::from_second(s).ok());
        let up = up.map_or_else(|| "for a long time".into(), |up| span_text(Timestamp::UNIX_EPOCH, up));
        line("process", Tone::Plain, format!("{}, up {up} at the time of the report", child.pid));
    }
    line("system", Tone::Plain, format!("{}/{}", report.os, report.arch));
    let facts = report.facts.iter().map(|(name, value)| match value {
        serde_json::Value::String(text) => format!("{name}={text}"),
        value => format!("{name}={value}"),
    });
    line("facts", Tone::Plain, facts.collect::<Vec<_>>().join(" "));
    out
}

fn last_run_text(run: &ReportedRun, now: Timestamp) -> String {
    let verdict = if run.success { "OK" } else { "FAILED" };
    let age = span_text(run.at.min(now), now);
    format!("{verdict} {age} ago: {} changed, {} failed, {}", run.changed, run.failed, run.run)
}

#[cfg(test)]
mod tests {
    use zagent_rollout::phase::NodeOutcome;
    use zagent_rollout::report::{AgentProcess, NodeRollout};

    use super::*;

    fn at(clock: &str) -> Timestamp {
        format!("2026-11-16T{clock}Z").parse().unwrap()
    }

    fn report(id: &str) -> NodeReport {
        NodeReport {
            id: id.parse().unwrap(),
            component: Component::States,
            version: "1.3.2".into(),
            revision: Some("3f2a1b9c0d1e2f3a4b5c6d7e8f90a1b2c3d4e5f6".into()),
            state: NodeActivity::Idle,
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
            stopped: None,
            rejected: Default::default(),
            failing_checks: Vec::new(),
            waits: Default::default(),
        }
    }

    #[test]
    fn nodes_as_text() {
        let now = at("12:00:00");
        let well = report("web-01");
        let silent = NodeReport { updated_at: at("08:00:00"), ..report("web-02") };
        let degraded = Some("crash loop\n\x1b[2J".into());
        let ill = NodeReport { component: Component::Agent, revision: None, degraded, ..report("web-03") };
        let sick = NodeReport {
            failing_checks: vec!["web: http://localhost/ answers 503".into()],
            rejected: [("3f2a".into(), "health check web failed".into())].into(),
            ..report("web-04")
        };
        let stopped =
            NodeReport { stopped: Some(at("11:50:00")), updated_at: at("11:50:00"), ..report("web-05") };
        let all = [&well, &silent, &ill, &sick, &stopped];
        let patience = Duration::from_secs(45 * 60);
        insta::assert_snapshot!("nodes", nodes_table(&all, now, patience, Paint::new(false)));
        assert!(nodes_table(&[], now, patience, Paint::new(false)).starts_with("no matching node"));
        let full = NodeReport {
            state: NodeActivity::Soaking,
            child: Some(AgentProcess { pid: 712, uptime: 3725 }),
            taken: Some(NodeRollout {
                rollout: "r1".parse().unwrap(),
                outcome: Some(NodeOutcome::Failed),
                error: Some("not ready: 503".into()),
                at: at("11:58:00"),
                ready_since: Some(at("11:59:30")),
                created: Timestamp::UNIX_EPOCH,
            }),
            last_run: Some(ReportedRun {
                run: "20261116T115600-3f9a7".into(),
                at: at("11:56:00"),
                success: false,
                changed: 2,
                failed: 1,
            }),
            ..report("web-01")
        };
        let page = |report: &NodeReport| node_text(report, now, patience, Paint::new(false));
        insta::assert_snapshot!("node", format!("{}---\n{}", page(&full), page(&silent)));
        assert!(page(&sick).contains("health    check fails: web: http://localhost/ answers 503\n"));
        assert!(
            !page(&sick).contains("well") && page(&sick).contains("rejected  3f2a: health check web failed")
        );
        assert!(page(&stopped).contains("stopped 10m ago"), "{}", page(&stopped));
        let odd = NodeReport { child: Some(AgentProcess { pid: 1, uptime: u64::MAX }), ..report("web-01") };
        assert!(page(&odd).contains("up for a long time"));
    }
}
