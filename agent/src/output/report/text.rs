//! Report view in, text for the on-call engineer out: what changed, what failed, why the rest did not run,
//! one last line.
//!
//! Law: the last line is the same at every verbosity, and a dry run never reads as if something was changed (held
//! by `the_summary_does_not_depend_on_verbosity`, `a_dry_run_never_reads_as_done`).

use std::fmt::Write;
use zagent_config::ids::short_revision;

use zagent_config::value::{python_repr, python_str};
use zagent_config::{Map, Value};

use super::skip_groups::{self, SkipGroup};
use super::{ReportView, Tally, salt_millis};
use crate::output::{Paint, pluralize};
use zagent_config::sanitize;
use zagent_run::{ChangeCause, IRREVERSIBLE, LEFT_ALONE, RunMode, StateOutcome, StateStatus};

/// Lines of a diff or output shown per state without `-v`.
const MAX_LINES: usize = 20;
/// Maximum number of skipped state names.
const MAX_NAMES: usize = 8;
/// Reports that fit on a screen do not repeat their failures.
const SCREEN_LINES: usize = 20;
/// Maximum length of one line without `-v`.
const MAX_LINE_CHARS: usize = 160;
/// Text that Salt adds to the comment of each file in a dry run.
const SALT_NOTE: &str = "\nNote: No changes made, actual changes may\nbe different due to other states.";

/// The whole report.
pub(super) fn render_text(view: &ReportView<'_>, all: bool, paint: Paint) -> String {
    let page = ReportText { view, words: ModeWords::for_mode(view.report.mode), all, paint };
    let mut out = String::new();
    page.write_title(&mut out);
    for outcome in &view.report.states {
        let is_quiet = matches!(outcome.status(), StateStatus::Unchanged | StateStatus::Skipped);
        if all || !is_quiet || outcome.has_detail(IRREVERSIBLE) {
            page.write_state(&mut out, outcome);
        }
    }
    let groups = skip_groups::group_skipped(&view.report.states);
    page.write_skipped(&mut out, &groups);
    page.write_unchanged(&mut out, &groups);
    if out.lines().count() > SCREEN_LINES {
        page.write_failures(&mut out);
    }
    page.write_next_step(&mut out);
    page.write_summary(&mut out);
    out
}

/// Words of a mode.
struct ModeWords {
    changed: &'static str,
    failed: &'static str,
    unchanged: &'static str,
    /// Width of the longest word before a state.
    width: usize,
}

impl ModeWords {
    const fn for_mode(mode: RunMode) -> Self {
        match mode {
            RunMode::Apply => Self { changed: "changed", failed: "failed", unchanged: "unchanged", width: 8 },
            RunMode::Test | RunMode::Audit => {
                Self { changed: "would change", failed: "would fail", unchanged: "unchanged", width: 12 }
            }
            RunMode::Revert => {
                Self { changed: "reverted", failed: "not reverted", unchanged: "untouched", width: 12 }
            }
        }
    }
}

struct ReportText<'a> {
    view: &'a ReportView<'a>,
    words: ModeWords,
    all: bool,
    paint: Paint,
}

impl ReportText<'_> {
    fn write_title(&self, out: &mut String) {
        let report = self.view.report;
        let states = pluralize(self.view.tally.total(), "state");
        let node = sanitize(&report.node);
        let reverts = report.reverts.as_ref().map(|run| format!("revert of {}", sanitize(run)));
        let still = "  (nothing is changed)".to_owned();
        let (title, note) = match (report.mode, reverts) {
            (RunMode::Audit, _) => (format!("audit of {states} on {node}"), still),
            (RunMode::Test, Some(revert)) => (format!("dry run of the {revert} on {node}"), still),
            (RunMode::Test, None) => (format!("dry run of {states} on {node}"), still),
            (RunMode::Apply | RunMode::Revert, Some(revert)) => {
                (format!("{revert} on {node}"), String::new())
            }
            (RunMode::Revert, None) => (format!("revert on {node}"), String::new()),
            (RunMode::Apply, None) => (format!("{states} on {node}"), self.revision_text()),
        };
        let _ = writeln!(out, "{}{}\n", self.paint.bold(title), self.paint.dim(note));
    }

    /// A commit shortened, anything else as it is.
    fn revision_text(&self) -> String {
        let revision = &self.view.report.revision;
        if revision.is_empty() { String::new() } else { format!("  {}", short_revision(&sanitize(revision))) }
    }

    fn pad_word(&self, word: &str) -> String {
        format!("  {word:width$}", width = self.words.width)
    }

    fn status_mark(&self, standing: StateStatus) -> String {
        let (paint, words) = (self.paint, &self.words);
        let fit = |word: &str| self.pad_word(word);
        match standing {
            StateStatus::Unchanged => paint.green(fit("ok")),
            StateStatus::Changed | StateStatus::WouldChange => paint.yellow(fit(words.changed)),
            StateStatus::Unknown => paint.cyan(fit("unknown")),
            StateStatus::Failed => paint.red(fit(&words.failed.to_uppercase())),
            StateStatus::Skipped => paint.dim(fit("skipped")),
        }
    }

    /// Indent of the details of a state.
    const fn indent(&self) -> usize {
        self.words.width + 4
    }

    fn write_line(&self, out: &mut String, outcome: &StateOutcome) {
        let paint = self.paint;
        let function = paint.cyan(format!("{}.{}", outcome.state, outcome.fun));
        let name = if outcome.name == outcome.id || outcome.comment.contains(&outcome.name) {
            String::new()
        } else {
            format!("  {}", truncate_line(sanitize(&outcome.name).lines().next().unwrap_or_default()))
        };
        // The heading of a dry run says it once for all states.
        let mut comment = sanitize(outcome.comment.trim()).replace(SALT_NOTE, "");
        if let Some(why) = exit_summary(outcome) {
            let why = sanitize(&why);
            comment = if comment.is_empty() { why } else { format!("{why}\n{comment}") };
        }
        let mut lines = comment.lines();
        let first = match lines.next().unwrap_or_default() {
            "" => String::new(),
            first if outcome.result == Some(false) => format!("  {first}"),
            first => format!("  {}", paint.dim(first)),
        };
        let id = paint.bold(sanitize(outcome.shown_id()));
        let mark = match outcome.status() {
            StateStatus::Unchanged if outcome.has_detail(IRREVERSIBLE) => {
                paint.yellow(self.pad_word("not undone"))
            }
            standing => self.status_mark(standing),
        };
        let place = outcome.declared_at().map(|place| paint.dim(format!("  ({})", sanitize(place))));
        let _ = writeln!(out, "{mark}  {id}  {function}{}{name}{first}", place.unwrap_or_default());
        self.write_block(out, lines, |line| line.to_owned());
    }

    fn write_state(&self, out: &mut String, outcome: &StateOutcome) {
        self.write_line(out, outcome);
        if !outcome.diff.is_empty() {
            let diff = sanitize(&outcome.diff);
            let lines = diff.lines().skip_while(|l| l.starts_with("---") || l.starts_with("+++"));
            self.write_block(out, lines, |line| match line.as_bytes().first() {
                Some(b'+') => self.paint.green(line),
                Some(b'-') => self.paint.red(line),
                Some(b'@') => self.paint.blue(line),
                _ => line.to_owned(),
            });
        }
        self.write_changes(out, outcome);
    }

    /// Lines below a state, limited.
    fn write_block<'l>(
        &self,
        out: &mut String,
        lines: impl Iterator<Item = &'l str>,
        paint: impl Fn(&str) -> String,
    ) {
        let (lines, indent): (Vec<&str>, usize) = (lines.collect(), self.indent());
        // Show one more line rather than a line that says one was omitted.
        let limit = if self.all || lines.len() <= MAX_LINES + 1 { lines.len() } else { MAX_LINES };
        for line in &lines[..limit] {
            let line = if self.all { (*line).to_owned() } else { truncate_line(line) };
            let _ = writeln!(out, "{:indent$}{}", "", paint(&line));
        }
        // A diff that was cut when it was created ends in a line with the number of omitted lines.
        let beyond = lines.last().map_or(0, |line| omitted_lines(line));
        if let rest @ 1.. = lines.len() - limit {
            let all = if beyond > 0 { "more" } else { "all" };
            let more = format!("… {} more (-v shows {all})", pluralize(rest + beyond, "line"));
            let _ = writeln!(out, "{:indent$}{}", "", self.paint.dim(more));
        }
    }

    fn write_changes(&self, out: &mut String, outcome: &StateOutcome) {
        for (key, change) in outcome.changes.iter() {
            let key = python_str(key);
            // The diff was shown; a process ID is not useful.
            let is_noise = key == "diff" && !outcome.diff.is_empty() || key == "pid" && !self.all;
            if !is_noise {
                self.write_change(out, &sanitize(&key), change);
            }
        }
    }

    fn write_change(&self, out: &mut String, key: &str, change: &Value) {
        if let Some((old, new)) = old_and_new(change) {
            let line = format!("{key}: {} -> {}", value_line(old), value_line(new));
            return self.write_block(out, std::iter::once(line.as_str()), str::to_owned);
        }
        match change {
            Value::Str(text) if text.is_empty() => {}
            Value::Null => {}
            Value::Str(text) if text.trim_end().contains('\n') => {
                let text = format!("{key}:\n{}", sanitize(text)).replace('\n', "\n  ");
                self.write_block(out, text.trim_end().lines(), str::to_owned);
            }
            other => {
                let line = format!("{key}: {}", value_line(other));
                self.write_block(out, std::iter::once(line.as_str()), str::to_owned);
            }
        }
    }

    /// How to revert also what was skipped.
    fn write_next_step(&self, out: &mut String) {
        let report = self.view.report;
        if let Some(run) = &report.reverts
            && report.states.iter().any(|s| s.has_detail(LEFT_ALONE))
        {
            let command = format!("zagent run --revert {} --force", sanitize(run));
            let _ = writeln!(out, "\n  to revert also what was modified since: {}", self.paint.bold(command));
        }
    }

    /// States that did not run because of a failure, by reason and cause.
    fn write_skipped(&self, out: &mut String, groups: &[SkipGroup<'_>]) {
        for group in groups.iter().filter(|g| g.reason.is_problem()) {
            self.write_group(out, group);
        }
    }

    fn write_group(&self, out: &mut String, group: &SkipGroup<'_>) {
        let paint = self.paint;
        let because = if group.culprits.is_empty() {
            group.reason.explanation().to_owned()
        } else {
            let culprits: Vec<String> = group.culprits.iter().map(|c| format!("`{}`", sanitize(c))).collect();
            format!("{} failed", join_names(&culprits))
        };
        let states = pluralize(group.states.len(), "state");
        let reason = paint.cyan(group.reason.as_str());
        let _ = writeln!(out, "{}  {states}  {reason}  {because}", self.status_mark(StateStatus::Skipped));
        if !self.all {
            let names: Vec<String> = group.states.iter().map(|s| sanitize(s.shown_id())).collect();
            let _ = writeln!(out, "{:indent$}{}", "", paint.dim(join_names(&names)), indent = self.indent());
        }
    }

    /// Number of states that cannot be reverted.
    fn irreversible_count(&self) -> usize {
        let states = self.view.report.states.iter();
        let lasting = states.filter(|s| s.status() == StateStatus::Unchanged && s.has_detail(IRREVERSIBLE));
        lasting.count().min(self.view.tally.unchanged)
    }

    /// One line for what needs no attention.
    fn write_unchanged(&self, out: &mut String, groups: &[SkipGroup<'_>]) {
        let mut parts = Vec::new();
        if let unchanged @ 1.. = self.view.tally.unchanged - self.irreversible_count() {
            parts.push(format!("{unchanged} {}", self.words.unchanged));
        }
        for group in groups.iter().filter(|g| !g.reason.is_problem()) {
            parts.push(format!("{} not needed ({})", group.states.len(), group.reason.explanation()));
        }
        let listed = self.all && self.view.tally.total() == self.view.report.states.len();
        if !parts.is_empty() && !listed {
            let _ = writeln!(out, "  {}", self.paint.dim(parts.join(", ")));
        }
    }

    fn write_failures(&self, out: &mut String) {
        let failed = || self.view.report.states.iter().filter(|s| s.status() == StateStatus::Failed);
        if failed().next().is_none() {
            return;
        }
        let _ = writeln!(out, "\n{}", self.paint.red(format!("{}:", self.words.failed)));
        for outcome in failed() {
            self.write_line(out, outcome);
        }
    }

    fn write_summary(&self, out: &mut String) {
        let ReportView { report, tally: Tally { changed, failed, skipped, unchanged, unknown }, .. } =
            self.view;
        let verdict = match (report.canceled, report.is_success()) {
            (true, _) => self.paint.red("STOPPED"),
            (false, false) => self.paint.red("FAILED"),
            (false, true) => self.paint.green("OK"),
        };
        let words = &self.words;
        let lasting = self.irreversible_count();
        let mut counts = vec![
            format!("{changed} {}", words.changed),
            format!("{failed} {}", words.failed),
            format!("{skipped} skipped"),
            format!("{} {}", unchanged - lasting, words.unchanged),
        ];
        if lasting > 0 {
            counts.push(format!("{lasting} cannot be undone"));
        }
        if report.mode.changes_nothing() {
            counts.push(format!("{unknown} unknown"));
        }
        let mut notes = vec![format_millis(salt_millis(report.duration))];
        match report.mode {
            RunMode::Test => notes.insert(0, "dry run, nothing was changed".into()),
            RunMode::Audit => notes.insert(0, "audit mode, nothing was changed".into()),
            RunMode::Apply | RunMode::Revert => {}
        }
        match report.count_cause(ChangeCause::Drift) {
            0 => {}
            n => notes.insert(0, format!("{n} by drift")),
        }
        if !report.run.is_empty() {
            notes.push(format!("run {}", sanitize(&report.run)));
        }
        let states = self.paint.bold(format!("{}:", pluralize(self.view.tally.total(), "state")));
        let _ = writeln!(
            out,
            "\n{verdict}  {states} {}  {}",
            counts.join(", "),
            self.paint.dim(format!("({})", notes.join("; ")))
        );
    }
}

/// `exit 7: no such file`: how the command of a failed state ended.
fn exit_summary(outcome: &StateOutcome) -> Option<String> {
    let code = outcome.changes.get("retcode").filter(|_| outcome.status() == StateStatus::Failed)?;
    let text = outcome.changes.get("stderr").and_then(Value::as_str).unwrap_or_default();
    let last = text.lines().rev().map(str::trim).find(|line| !line.is_empty());
    let code = python_str(code);
    Some(last.map_or_else(|| format!("exit {code}"), |line| format!("exit {code}: {}", truncate_line(line))))
}

/// Number of lines that a line stands for, when it says that some were omitted.
fn omitted_lines(line: &str) -> usize {
    let number = line.strip_prefix("… ").and_then(|line| line.strip_suffix(" more lines"));
    number.and_then(|n| n.parse::<usize>().ok()).map_or(0, |n| n.saturating_sub(1))
}

/// A change of one thing from one value to another.
fn old_and_new(change: &Value) -> Option<(&Value, &Value)> {
    let map: &Map = change.as_map()?;
    if map.len() != 2 { None } else { Some((map.get("old")?, map.get("new")?)) }
}

/// A value on one line.
fn value_line(value: &Value) -> String {
    match value {
        Value::Null => "nothing".into(),
        Value::Str(text) if text.is_empty() => "nothing".into(),
        Value::Str(text) if !text.contains('\n') => truncate_line(&sanitize(text)),
        other => truncate_line(&sanitize(&plain_value(other))),
    }
}

/// A value on one line, without syntax: `directory: new`, `a, b`.
fn plain_value(value: &Value) -> String {
    let inner = |value: &Value| match value {
        Value::Map(map) if !map.is_empty() => format!("({})", plain_value(value)),
        Value::List(list) if !list.is_empty() => format!("[{}]", plain_value(value)),
        other => plain_value(other),
    };
    match value {
        Value::Null => "nothing".into(),
        Value::Str(text) if text.is_empty() => "nothing".into(),
        Value::Str(text) if !text.contains('\n') => text.to_string(),
        Value::Map(map) if !map.is_empty() => {
            let entry = |(key, value): (&Value, &Value)| format!("{}: {}", python_str(key), inner(value));
            map.iter().map(entry).collect::<Vec<_>>().join(", ")
        }
        Value::List(list) if !list.is_empty() => list.iter().map(inner).collect::<Vec<_>>().join(", "),
        other => python_repr(other),
    }
}

/// The first names, and the number of further ones.
fn join_names(names: &[String]) -> String {
    match names.get(MAX_NAMES..) {
        Some(rest) if rest.len() > 1 => format!("{} and {} more", names[..MAX_NAMES].join(", "), rest.len()),
        _ => names.join(", "),
    }
}

fn truncate_line(line: &str) -> String {
    match line.char_indices().nth(MAX_LINE_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

pub use zagent_daemon::status::lines::millis_text as format_millis;
