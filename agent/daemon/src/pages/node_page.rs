//! Status, runs and time in, the page of a node out.
//!
//! Law: a summary holds counts and names, and nothing that a state, a check or a person wrote (held by
//! `a_summary_tells_no_messages_and_no_diffs`).

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use zagent_config::ids::short_revision;
use zagent_run::history::{RunRecord, RunSummary};
use zagent_run::{StateOutcome, StateStatus};

use super::html::Html;
use super::node_facts::NodeFacts;
use super::{PageFiles, document};
use crate::status::AgentStatus;
use crate::status::lines::{StatusLines, StatusTone, millis_text};

/// Size of all diffs on a page.
const MAX_DIFF_BYTES: usize = 256 << 10;
/// Number of states per run on a page.
const MAX_STATES: usize = 100;

/// How much a page tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageDetail {
    /// Counts and names: for a reader whom nobody has checked.
    Summary,
    /// Everything.
    Full,
}

/// The page of a node.
#[derive(Debug)]
pub struct NodePage<'p> {
    /// The status.
    pub status: &'p AgentStatus,
    /// Runs and graph.
    pub facts: &'p NodeFacts,
    /// Current time, for ages.
    pub now: Timestamp,
    /// Time zone for times of day.
    pub zone: TimeZone,
    /// How much it tells.
    pub detail: PageDetail,
}

impl NodePage<'_> {
    /// Renders the page.
    #[must_use]
    pub fn render(&self) -> String {
        let status = self.status;
        let problems = status.problems();
        document(&format!("{} - zagent", status.node), PageFiles::Inside, |html| {
            html.element("header", &[], |html| {
                html.line("h1", &[], &status.node);
                let (class, words) = match problems.len() {
                    0 => ("badge good", "OK".to_owned()),
                    1 => ("badge bad", "1 problem".to_owned()),
                    n => ("badge bad", format!("{n} problems")),
                };
                html.line("span", &[("class", class)], &words);
            });
            html.element("main", &[("id", "main")], |html| match self.detail {
                PageDetail::Full => self.full(html, &problems),
                PageDetail::Summary => self.summary(html, problems.len()),
            });
            html.element("footer", &[], |html| {
                let words = format!("zagent {}, read-only page of ", status.version);
                html.text(&words);
                self.time(html, self.now);
            });
        })
    }

    fn full(&self, html: &mut Html, problems: &[String]) {
        if !problems.is_empty() {
            html.line("h2", &[], "What is wrong");
            html.element("div", &[("class", "card bad")], |html| {
                problems.iter().for_each(|problem| html.line("p", &[], problem));
                let run = self.status.last_run.as_ref();
                let errors = run.map(|run| run.errors.as_slice()).unwrap_or_default();
                errors.iter().for_each(|error| html.line("p", &[], error));
            });
        }
        html.line("h2", &[], "Status");
        let lines = StatusLines { status: self.status, now: self.now, zone: self.zone.clone() };
        html.element("div", &[("class", "card")], |html| {
            html.element("dl", &[], |html| {
                for line in lines.all() {
                    html.line("dt", &[], line.name);
                    html.line("dd", &[("class", tone_class(line.tone))], &line.words);
                }
            });
        });
        self.health(html);
        self.resources(html);
        self.runs(html);
        if let Some(graph) = &self.facts.graph {
            html.line("h2", &[], "State graph of the last run");
            let attributes =
                [("class", "graph"), ("tabindex", "0"), ("role", "region"), ("aria-label", "State graph")];
            html.element("div", &attributes, |html| html.drawing(graph));
        }
        for unread in &self.facts.unread {
            html.line("p", &[("class", "warn")], unread);
        }
    }

    fn summary(&self, html: &mut Html, problems: usize) {
        let status = self.status;
        let revision = status.current.as_ref().map_or("none", |current| short_revision(&current.revision));
        let count = |n: usize| n.to_string();
        let run = status.last_run.as_ref();
        let result = run.map_or("none yet", |run| match (run.canceled, run.success) {
            (true, _) => "stopped",
            (false, true) => "OK",
            (false, false) => "failed",
        });
        let states = run.map(crate::status::lines::counts_text).unwrap_or_default();
        let sick: Vec<&str> = status.health.iter().filter(|v| !v.healthy).map(|v| v.name.as_str()).collect();
        let signers = status.current.as_ref().map(|current| current.signed_by.join(", ")).unwrap_or_default();
        let rows = [
            ("revision", revision.to_owned()),
            ("signed by", signers),
            ("newest", if status.is_current { "is current".into() } else { "not current".into() }),
            ("last run", result.to_owned()),
            ("states", states),
            ("drift", count(status.drift)),
            ("failing health checks", sick.join(", ")),
            ("quarantined revisions", count(status.quarantined.len())),
            ("problems", count(problems)),
        ];
        html.element("div", &[("class", "card")], |html| {
            html.element("dl", &[], |html| {
                for (name, words) in rows {
                    html.line("dt", &[], name);
                    html.line("dd", &[], if words.is_empty() { "none" } else { &words });
                }
            });
        });
        html.line(
            "p",
            &[("class", "dim")],
            "This address shows counts and names only. Details: `zagent status --html` on the node.",
        );
    }

    fn health(&self, html: &mut Html) {
        if self.status.health.is_empty() {
            return;
        }
        html.line("h2", &[], "Health checks");
        html.element("div", &[("class", "card")], |html| {
            table(html, &["Check", "Result", "Kind", "When", "Message"], |html| {
                for check in &self.status.health {
                    html.element("tr", &[], |html| {
                        html.line("td", &[("data-label", "Check")], &check.name);
                        let (class, word) =
                            if check.healthy { ("badge good", "passed") } else { ("badge bad", "failed") };
                        html.element("td", &[], |html| html.line("span", &[("class", class)], word));
                        let kind = if check.required { "required" } else { "wanted" };
                        html.line("td", &[("data-label", "Kind")], kind);
                        html.element("td", &[], |html| self.time(html, check.at));
                        html.line("td", &[("data-label", "Message")], &check.message);
                    });
                }
            });
        });
    }

    /// Resources that the last run changed or failed on.
    fn resources(&self, html: &mut Html) {
        let last = self.facts.runs.first().and_then(|(_, record)| record.as_ref());
        let mut counts: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
        for state in last.map(|record| record.report.states.as_slice()).unwrap_or_default() {
            let Some(resource) = &state.resource else { continue };
            let count = counts.entry(resource).or_default();
            count[usize::from(state.status() == StateStatus::Failed)] += 1;
        }
        if counts.is_empty() {
            return;
        }
        html.line("h2", &[], "Resources with changes or failures in the last run");
        html.element("div", &[("class", "card")], |html| {
            table(html, &["Resource", "Changed or skipped", "Failed"], |html| {
                for (resource, [changed, failed]) in counts {
                    html.element("tr", &[], |html| {
                        html.line("td", &[("data-label", "Resource")], resource);
                        html.line("td", &[("data-label", "Changed or skipped")], &changed.to_string());
                        html.line("td", &[("data-label", "Failed")], &failed.to_string());
                    });
                }
            });
        });
    }

    fn runs(&self, html: &mut Html) {
        html.line("h2", &[], "Recent runs");
        html.element("div", &[("class", "card")], |html| {
            if self.facts.runs.is_empty() {
                html.line("p", &[], "none yet");
            }
            let mut left = MAX_DIFF_BYTES;
            for (index, (head, record)) in self.facts.runs.iter().enumerate() {
                let is_open = index == 0 && !head.success;
                let attributes: &[_] = if is_open { &[("open", "")] } else { &[] };
                html.element("details", attributes, |html| {
                    html.element("summary", &[], |html| self.run_head(html, head));
                    match record {
                        Some(record) => self.states(html, record, &mut left),
                        None => html.line("p", &[("class", "dim")], &counts(head)),
                    }
                });
            }
        });
    }

    fn run_head(&self, html: &mut Html, head: &RunSummary) {
        let (class, word) = match head {
            head if head.killed => ("badge bad", "killed"),
            head if head.rolled_back.is_some() => ("badge bad", "rolled back"),
            head if head.canceled => ("badge warn", "stopped"),
            head if head.success => ("badge good", "OK"),
            _ => ("badge bad", "failed"),
        };
        html.line("span", &[("class", class)], word);
        html.text(" ");
        self.time(html, head.start());
        let took = millis_text(head.duration().as_secs_f64() * 1000.0);
        let revision = short_revision(&head.revision);
        html.text(&format!(
            ", {}, {}, {took}, revision {revision}: {}",
            head.mode,
            head.trigger,
            counts(head)
        ));
        if let Some(why) = &head.rolled_back {
            html.text(&format!("; {why}"));
        }
    }

    fn states(&self, html: &mut Html, record: &RunRecord, left: &mut usize) {
        html.line("p", &[("class", "dim")], &format!("zagent history {}", record.report.run));
        let states = &record.report.states;
        let is_failed = |state: &&StateOutcome| state.status() == StateStatus::Failed;
        let (failed, others): (Vec<_>, Vec<_>) = states.iter().partition(is_failed);
        for state in failed.iter().chain(&others).take(MAX_STATES) {
            let (class, word) = status_look(state.status());
            html.element("div", &[], |html| {
                html.line("span", &[("class", class)], word);
                html.text(&format!(" {}.{} {}", state.state, state.fun, state.shown_id()));
                if !state.comment.is_empty() {
                    html.line("p", &[("class", "dim")], &state.comment);
                }
                if !state.diff.is_empty() && state.diff.len() <= *left {
                    *left -= state.diff.len();
                    diff(html, &state.diff);
                } else if !state.diff.is_empty() {
                    html.line("p", &[("class", "dim")], "The diff is too long for this page.");
                }
            });
        }
        if states.len() > MAX_STATES {
            html.line("p", &[("class", "dim")], &format!("and {} more", states.len() - MAX_STATES));
        }
    }

    fn time(&self, html: &mut Html, at: Timestamp) {
        let shown = self.zone.to_datetime(at).strftime("%Y-%m-%d %H:%M:%S").to_string();
        html.element("time", &[("datetime", &at.to_string())], |html| html.text(&shown));
    }
}

/// Counts of a run in words.
fn counts(head: &RunSummary) -> String {
    let tally = &head.tally;
    let all = [
        (tally.changed, if head.mode == "test" { "would change" } else { "changed" }),
        (tally.failed, "failed"),
        (tally.skipped, "skipped"),
        (tally.unchanged, "unchanged"),
        (tally.unknown, "unknown"),
    ];
    let words: Vec<String> =
        all.iter().filter(|(n, _)| *n > 0).map(|(n, word)| format!("{n} {word}")).collect();
    if words.is_empty() { "no states".into() } else { words.join(", ") }
}

const fn status_look(status: StateStatus) -> (&'static str, &'static str) {
    match status {
        StateStatus::Unchanged => ("badge", "unchanged"),
        StateStatus::Changed => ("badge good", "changed"),
        StateStatus::WouldChange => ("badge warn", "would change"),
        StateStatus::Unknown => ("badge warn", "unknown"),
        StateStatus::Failed => ("badge bad", "failed"),
        StateStatus::Skipped => ("badge warn", "skipped"),
    }
}

/// The class of a line.
const fn tone_class(tone: StatusTone) -> &'static str {
    match tone {
        StatusTone::Fine => "good",
        StatusTone::Plain => "",
        StatusTone::Attention => "warn",
        StatusTone::Bad => "bad",
    }
}

/// A table that becomes a list on a phone.
pub fn table(html: &mut Html, heads: &[&str], rows: impl FnOnce(&mut Html)) {
    html.element("table", &[("class", "stack")], |html| {
        html.element("thead", &[], |html| {
            html.element("tr", &[], |html| {
                heads.iter().for_each(|head| html.line("th", &[("scope", "col")], head));
            });
        });
        html.element("tbody", &[], rows);
    });
}

/// Lines of a diff: added and removed ones are marked by element and sign, not by colour alone.
fn diff(html: &mut Html, text: &str) {
    html.element("pre", &[("tabindex", "0")], |html| {
        for line in text.lines() {
            match line.as_bytes().first() {
                Some(b'+') => html.element("ins", &[], |html| html.text(line)),
                Some(b'-') => html.element("del", &[], |html| html.text(line)),
                _ => html.text(line),
            }
            html.text("\n");
        }
    });
}
