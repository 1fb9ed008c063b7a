//! A sheet in, text for whoever was woken up out: what changed, what failed, why the rest did not run, one last line.
//!
//! Law: the last line says the same at every verbosity, and a dry run never reads as if something had been done.

use std::fmt::Write;

use zagent_compiler::yaml::{python_repr, python_str};
use zagent_config::{Map, Value};

use super::skips::{self, Group};
use super::{Sheet, Tally, millis};
use crate::output::{Paint, count, harmless};
use crate::run::{IRREVERSIBLE, LEFT_ALONE, Mode, Outcome, Standing};

/// Lines of a diff or an output that are shown of one state unless all is wanted.
const LINES: usize = 20;
/// How many names of skipped states are shown.
const NAMES: usize = 8;
/// Reports that fit on a screen do not repeat their failures.
const SCREEN: usize = 20;
/// How much of one line is shown unless all is wanted.
const WIDTH: usize = 160;
/// What Salt adds to the words about each file of a dry run.
const SALT_NOTE: &str = "\nNote: No changes made, actual changes may\nbe different due to other states.";

/// The whole report.
pub(super) fn text(sheet: &Sheet<'_>, all: bool, paint: Paint) -> String {
    let page = Page { sheet, words: Words::of(sheet.report.mode), all, paint };
    let mut out = String::new();
    page.title(&mut out);
    for outcome in &sheet.report.states {
        let is_quiet = matches!(outcome.standing(), Standing::Unchanged | Standing::Skipped);
        if all || !is_quiet || outcome.is_marked(IRREVERSIBLE) {
            page.state(&mut out, outcome);
        }
    }
    let groups = skips::groups(&sheet.report.states);
    page.skipped(&mut out, &groups);
    page.rest(&mut out, &groups);
    if out.lines().count() > SCREEN {
        page.failures(&mut out);
    }
    page.way_on(&mut out);
    page.summary(&mut out);
    out
}

/// How a mode speaks.
struct Words {
    changed: &'static str,
    failed: &'static str,
    unchanged: &'static str,
    /// Of the longest word that can stand before a state.
    width: usize,
}

impl Words {
    const fn of(mode: Mode) -> Self {
        match mode {
            Mode::Apply => Self { changed: "changed", failed: "failed", unchanged: "unchanged", width: 8 },
            Mode::Test => {
                Self { changed: "would change", failed: "would fail", unchanged: "unchanged", width: 12 }
            }
            Mode::Revert => {
                Self { changed: "reverted", failed: "not reverted", unchanged: "untouched", width: 12 }
            }
        }
    }
}

struct Page<'a> {
    sheet: &'a Sheet<'a>,
    words: Words,
    all: bool,
    paint: Paint,
}

impl Page<'_> {
    fn shown(&self, text: &str) -> String {
        harmless(&self.sheet.mask.veil(text))
    }

    fn title(&self, out: &mut String) {
        let report = self.sheet.report;
        let states = count(self.sheet.tally.total(), "state");
        let node = self.shown(&report.node);
        let reverts = report.reverts.as_ref().map(|run| format!("revert of {}", self.shown(run)));
        let still = "  (nothing is changed)".to_owned();
        let (title, note) = match (report.mode, reverts) {
            (Mode::Test, Some(revert)) => (format!("dry run of the {revert} on {node}"), still),
            (Mode::Test, None) => (format!("dry run of {states} on {node}"), still),
            (Mode::Apply | Mode::Revert, Some(revert)) => (format!("{revert} on {node}"), String::new()),
            (Mode::Revert, None) => (format!("revert on {node}"), String::new()),
            (Mode::Apply, None) => (format!("{states} on {node}"), self.revision()),
        };
        let _ = writeln!(out, "{}{}\n", self.paint.bold(title), self.paint.dim(note));
    }

    /// A commit in short, anything else as it is.
    fn revision(&self) -> String {
        let revision = &self.sheet.report.revision;
        if revision.is_empty() { String::new() } else { format!("  {}", short(&self.shown(revision))) }
    }

    fn fit(&self, word: &str) -> String {
        format!("  {word:width$}", width = self.words.width)
    }

    fn mark(&self, standing: Standing) -> String {
        let (paint, words) = (self.paint, &self.words);
        let fit = |word: &str| self.fit(word);
        match standing {
            Standing::Unchanged => paint.green(fit("ok")),
            Standing::Changed | Standing::WouldChange => paint.yellow(fit(words.changed)),
            Standing::Unknown => paint.cyan(fit("unknown")),
            Standing::Failed => paint.red(fit(&words.failed.to_uppercase())),
            Standing::Skipped => paint.dim(fit("skipped")),
        }
    }

    /// Where what belongs to a state stands.
    const fn indent(&self) -> usize {
        self.words.width + 4
    }

    fn line(&self, out: &mut String, outcome: &Outcome) {
        let paint = self.paint;
        let function = paint.cyan(format!("{}.{}", outcome.state, outcome.fun));
        let name = if outcome.name == outcome.id || outcome.comment.contains(&outcome.name) {
            String::new()
        } else {
            format!("  {}", cut(self.shown(&outcome.name).lines().next().unwrap_or_default()))
        };
        // The head of a dry run says it once for all.
        let mut comment = self.shown(outcome.comment.trim()).replace(SALT_NOTE, "");
        if let Some(why) = exit_of(outcome) {
            let why = self.shown(&why);
            comment = if comment.is_empty() { why } else { format!("{why}\n{comment}") };
        }
        let mut lines = comment.lines();
        let first = match lines.next().unwrap_or_default() {
            "" => String::new(),
            first if outcome.result == Some(false) => format!("  {first}"),
            first => format!("  {}", paint.dim(first)),
        };
        let id = paint.bold(self.shown(&outcome.id));
        let mark = match outcome.standing() {
            Standing::Unchanged if outcome.is_marked(IRREVERSIBLE) => paint.yellow(self.fit("not undone")),
            standing => self.mark(standing),
        };
        let _ = writeln!(out, "{mark}  {id}  {function}{name}{first}");
        self.block(out, lines, |line| line.to_owned());
    }

    fn state(&self, out: &mut String, outcome: &Outcome) {
        self.line(out, outcome);
        if !outcome.diff.is_empty() {
            let diff = self.shown(&outcome.diff);
            let lines = diff.lines().skip_while(|l| l.starts_with("---") || l.starts_with("+++"));
            self.block(out, lines, |line| match line.as_bytes().first() {
                Some(b'+') => self.paint.green(line),
                Some(b'-') => self.paint.red(line),
                Some(b'@') => self.paint.blue(line),
                _ => line.to_owned(),
            });
        }
        self.changes(out, outcome);
    }

    /// Lines below a state, not too many.
    fn block<'l>(
        &self,
        out: &mut String,
        lines: impl Iterator<Item = &'l str>,
        paint: impl Fn(&str) -> String,
    ) {
        let (lines, indent): (Vec<&str>, usize) = (lines.collect(), self.indent());
        // One line more is shown rather than a line that says so.
        let limit = if self.all || lines.len() <= LINES + 1 { lines.len() } else { LINES };
        for line in &lines[..limit] {
            let line = if self.all { (*line).to_owned() } else { cut(line) };
            let _ = writeln!(out, "{:indent$}{}", "", paint(&line));
        }
        // A diff that was cut when it was made ends in a line that says how much more there was.
        let beyond = lines.last().map_or(0, |line| beyond(line));
        if let rest @ 1.. = lines.len() - limit {
            let all = if beyond > 0 { "more" } else { "all" };
            let more = format!("… {} more (-v shows {all})", count(rest + beyond, "line"));
            let _ = writeln!(out, "{:indent$}{}", "", self.paint.dim(more));
        }
    }

    fn changes(&self, out: &mut String, outcome: &Outcome) {
        for (key, change) in outcome.changes.iter() {
            let key = python_str(key);
            // The diff was shown; a process id tells nobody anything.
            let is_noise = key == "diff" && !outcome.diff.is_empty() || key == "pid" && !self.all;
            if !is_noise {
                self.change(out, &self.shown(&key), &self.sheet.mask.value(change));
            }
        }
    }

    fn change(&self, out: &mut String, key: &str, change: &Value) {
        if let Some((old, new)) = old_and_new(change) {
            let line = format!("{key}: {} -> {}", value(old), value(new));
            return self.block(out, std::iter::once(line.as_str()), str::to_owned);
        }
        match change {
            Value::Str(text) if text.is_empty() => {}
            Value::Null => {}
            Value::Str(text) if text.trim_end().contains('\n') => {
                let text = format!("{key}:\n{}", harmless(text)).replace('\n', "\n  ");
                self.block(out, text.trim_end().lines(), str::to_owned);
            }
            other => {
                let line = format!("{key}: {}", value(other));
                self.block(out, std::iter::once(line.as_str()), str::to_owned);
            }
        }
    }

    /// How to undo also what was left alone.
    fn way_on(&self, out: &mut String) {
        let report = self.sheet.report;
        if let Some(run) = &report.reverts
            && report.states.iter().any(|s| s.is_marked(LEFT_ALONE))
        {
            let command = format!("zagent run --revert {} --force", self.shown(run));
            let _ = writeln!(out, "\n  to undo also what was changed since: {}", self.paint.bold(command));
        }
    }

    /// Who did not run because something went wrong, by reason and culprit.
    fn skipped(&self, out: &mut String, groups: &[Group<'_>]) {
        for group in groups.iter().filter(|g| g.reason.is_trouble()) {
            self.group(out, group);
        }
    }

    fn group(&self, out: &mut String, group: &Group<'_>) {
        let paint = self.paint;
        let because = if group.culprits.is_empty() {
            group.reason.because().to_owned()
        } else {
            let culprits: Vec<String> =
                group.culprits.iter().map(|c| format!("`{}`", self.shown(c))).collect();
            format!("{} failed", bounded(&culprits))
        };
        let states = count(group.states.len(), "state");
        let reason = paint.cyan(group.reason.word());
        let _ = writeln!(out, "{}  {states}  {reason}  {because}", self.mark(Standing::Skipped));
        if !self.all {
            let names: Vec<String> = group.states.iter().map(|s| self.shown(&s.id)).collect();
            let _ = writeln!(out, "{:indent$}{}", "", paint.dim(bounded(&names)), indent = self.indent());
        }
    }

    /// How many states nothing was done for because nothing can be.
    fn lasting(&self) -> usize {
        let states = self.sheet.report.states.iter();
        let lasting = states.filter(|s| s.standing() == Standing::Unchanged && s.is_marked(IRREVERSIBLE));
        lasting.count().min(self.sheet.tally.unchanged)
    }

    /// One line for what needs no eye.
    fn rest(&self, out: &mut String, groups: &[Group<'_>]) {
        let mut parts = Vec::new();
        if let unchanged @ 1.. = self.sheet.tally.unchanged - self.lasting() {
            parts.push(format!("{unchanged} {}", self.words.unchanged));
        }
        for group in groups.iter().filter(|g| !g.reason.is_trouble()) {
            parts.push(format!("{} not needed ({})", group.states.len(), group.reason.because()));
        }
        let listed = self.all && self.sheet.tally.total() == self.sheet.report.states.len();
        if !parts.is_empty() && !listed {
            let _ = writeln!(out, "  {}", self.paint.dim(parts.join(", ")));
        }
    }

    fn failures(&self, out: &mut String) {
        let failed = || self.sheet.report.states.iter().filter(|s| s.standing() == Standing::Failed);
        if failed().next().is_none() {
            return;
        }
        let _ = writeln!(out, "\n{}", self.paint.red(format!("{}:", self.words.failed)));
        for outcome in failed() {
            self.line(out, outcome);
        }
    }

    fn summary(&self, out: &mut String) {
        let Sheet { report, tally: Tally { changed, failed, skipped, unchanged, unknown }, .. } = self.sheet;
        let verdict = match (report.canceled, report.success()) {
            (true, _) => self.paint.red("STOPPED"),
            (false, false) => self.paint.red("FAILED"),
            (false, true) => self.paint.green("OK"),
        };
        let words = &self.words;
        let lasting = self.lasting();
        let mut counts = vec![
            format!("{changed} {}", words.changed),
            format!("{failed} {}", words.failed),
            format!("{skipped} skipped"),
            format!("{} {}", unchanged - lasting, words.unchanged),
        ];
        if lasting > 0 {
            counts.push(format!("{lasting} cannot be undone"));
        }
        if report.mode == Mode::Test {
            counts.push(format!("{unknown} unknown"));
        }
        let mut notes = vec![seconds(millis(report.duration))];
        if report.mode == Mode::Test {
            notes.insert(0, "dry run, nothing was changed".into());
        }
        if !report.run.is_empty() {
            notes.push(format!("run {}", self.shown(&report.run)));
        }
        let states = self.paint.bold(format!("{}:", count(self.sheet.tally.total(), "state")));
        let _ = writeln!(
            out,
            "\n{verdict}  {states} {}  {}",
            counts.join(", "),
            self.paint.dim(format!("({})", notes.join("; ")))
        );
    }
}

/// `exit 7: no such file`: how the command of a state that failed ended.
fn exit_of(outcome: &Outcome) -> Option<String> {
    let code = outcome.changes.get("retcode").filter(|_| outcome.standing() == Standing::Failed)?;
    let text = outcome.changes.get("stderr").and_then(Value::as_str).unwrap_or_default();
    let last = text.lines().rev().map(str::trim).find(|line| !line.is_empty());
    let code = python_str(code);
    Some(last.map_or_else(|| format!("exit {code}"), |line| format!("exit {code}: {}", cut(line))))
}

/// How many lines a line stands for beside itself, when it says that some are left out.
fn beyond(line: &str) -> usize {
    let number = line.strip_prefix("… ").and_then(|line| line.strip_suffix(" more lines"));
    number.and_then(|n| n.parse::<usize>().ok()).map_or(0, |n| n.saturating_sub(1))
}

/// A change of one thing from one value to another.
fn old_and_new(change: &Value) -> Option<(&Value, &Value)> {
    let map: &Map = change.as_map()?;
    if map.len() != 2 { None } else { Some((map.get("old")?, map.get("new")?)) }
}

/// A value in one line.
fn value(value: &Value) -> String {
    match value {
        Value::Null => "nothing".into(),
        Value::Str(text) if text.is_empty() => "nothing".into(),
        Value::Str(text) if !text.contains('\n') => cut(&harmless(text)),
        other => cut(&harmless(&plain(other))),
    }
}

/// A value in one line, without the signs of a language: `directory: new`, `a, b`.
fn plain(value: &Value) -> String {
    let inner = |value: &Value| match value {
        Value::Map(map) if !map.is_empty() => format!("({})", plain(value)),
        Value::List(list) if !list.is_empty() => format!("[{}]", plain(value)),
        other => plain(other),
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

/// The first names, and how many more there are.
fn bounded(names: &[String]) -> String {
    match names.get(NAMES..) {
        Some(rest) if rest.len() > 1 => format!("{} and {} more", names[..NAMES].join(", "), rest.len()),
        _ => names.join(", "),
    }
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(WIDTH) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

/// The first digits of a commit, as people know it; anything else as it is.
#[must_use]
pub fn short(revision: &str) -> &str {
    let plain = crate::cycle::plain(revision);
    let is_commit = plain.len() >= 40 && plain.bytes().all(|b| b.is_ascii_hexdigit());
    if is_commit { &plain[..9] } else { revision }
}

/// How long something took, for people.
#[must_use]
pub fn seconds(millis: f64) -> String {
    match millis {
        ms if ms < 1000.0 => format!("{ms:.0} ms"),
        ms if ms < 120_000.0 => format!("{:.1} s", ms / 1000.0),
        ms => format!("{:.0} min", ms / 60_000.0),
    }
}
