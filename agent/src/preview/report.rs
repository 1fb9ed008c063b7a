//! A preview in, the result of a run out: as JSON, and as text for people.

use std::fmt::Write;

use serde_json::{Map as Json, json};
use zagent_compiler::{Chunk, Compat, name_text};

use super::{Outcome, Preview, Verdict};
use crate::output::{Paint, count, harmless};

/// Who was looked at.
pub struct Head<'a> {
    /// The node.
    pub node: &'a str,
    /// Where the states come from.
    pub revision: &'a str,
    /// Whose verdicts count.
    pub compat: Compat,
    /// How long it took.
    pub duration_ms: f64,
}

/// How many states there are of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    changed: usize,
    failed: usize,
    skipped: usize,
    unchanged: usize,
    unknown: usize,
}

impl Preview<'_> {
    fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for (_, _, outcome) in &self.states {
            let place = match outcome.verdict {
                Verdict::WouldChange => &mut tally.changed,
                Verdict::WouldFail => &mut tally.failed,
                Verdict::Skipped(_) => &mut tally.skipped,
                Verdict::Unchanged => &mut tally.unchanged,
                Verdict::Unknown => &mut tally.unknown,
            };
            *place += 1;
        }
        tally
    }

    /// True when nothing would fail.
    #[must_use]
    pub fn success(&self) -> bool {
        self.states.iter().all(|(_, _, outcome)| outcome.result() != Some(false))
    }

    /// True when something would change.
    #[must_use]
    pub fn changes(&self) -> bool {
        self.tally().changed > 0
    }
}

/// The result of a run in test mode.
#[must_use]
pub fn to_json(preview: &Preview<'_>, head: &Head<'_>) -> serde_json::Value {
    let tally = preview.tally();
    let mut states = Json::new();
    for (number, (chunk, level, outcome)) in preview.states.iter().enumerate() {
        states.insert(chunk.tag(), state(chunk, number, *level, outcome));
    }
    json!({
        "run": null, "node": head.node, "revision": head.revision, "test": true, "mode": "test",
        "schedule": if head.compat == Compat::Salt { "ordered" } else { "levels" },
        "trigger": "manual", "success": preview.success(), "canceled": false, "duration_ms": head.duration_ms,
        "changed": tally.changed, "failed": tally.failed, "skipped": tally.skipped,
        "unchanged": tally.unchanged, "unknown": tally.unknown, "total": preview.states.len(),
        "states": states,
    })
}

fn state(chunk: &Chunk, number: usize, level: usize, outcome: &Outcome) -> serde_json::Value {
    let skip = if let Verdict::Skipped(reason) = outcome.verdict { Some(reason) } else { None };
    let failed = outcome.result() == Some(false);
    json!({
        "__id__": &*chunk.id, "__sls__": &*chunk.sls, "__run_num__": number, "name": name_text(&chunk.name),
        "result": outcome.result(), "changes": outcome.changes, "comment": outcome.comment, "diff": outcome.diff,
        "start_time": "", "duration": 0.0, "level": level,
        "skipped": skip.is_some(), "skip_reason": skip.map_or("", super::SkipReason::word),
        "error": if failed { outcome.comment.as_str() } else { "" },
        "details": {"verdict": word(outcome.verdict)},
    })
}

const fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Unchanged => "unchanged",
        Verdict::WouldChange => "would change",
        Verdict::WouldFail => "would fail",
        Verdict::Skipped(_) => "skipped",
        Verdict::Unknown => "unknown",
    }
}

/// The preview for people: what would change or fail, the rest in numbers unless `all`; failures again at the end.
#[must_use]
pub fn text(preview: &Preview<'_>, head: &Head<'_>, all: bool, paint: Paint) -> String {
    let mut out = String::new();
    let total = count(preview.states.len(), "state");
    let title = format!("dry run of {total} for {}", harmless(head.node));
    let _ = writeln!(out, "{} {}\n", paint.bold(title), paint.dim("(nothing is changed)"));
    for (chunk, _, outcome) in &preview.states {
        if all || !matches!(outcome.verdict, Verdict::Unchanged | Verdict::Skipped(_)) {
            line(&mut out, chunk, outcome, paint);
            diff(&mut out, outcome, paint);
        }
    }
    if !all {
        rest(&mut out, preview, paint);
    }
    let failed = || preview.states.iter().filter(|(_, _, o)| o.verdict == Verdict::WouldFail);
    if failed().next().is_some() && preview.states.len() > 8 {
        let _ = writeln!(out, "\n{}", paint.red("would fail:"));
        for (chunk, _, outcome) in failed() {
            line(&mut out, chunk, outcome, paint);
        }
    }
    let tally = preview.tally();
    let _ = writeln!(
        out,
        "\n{} {} would change, {} unchanged, {} unknown, {} skipped, {} would fail",
        paint.bold(format!("{total}:")),
        tally.changed,
        tally.unchanged,
        tally.unknown,
        tally.skipped,
        tally.failed
    );
    out
}

fn line(out: &mut String, chunk: &Chunk, outcome: &Outcome, paint: Paint) {
    let mark = match outcome.verdict {
        Verdict::Unchanged => paint.green("  ok    "),
        Verdict::WouldChange => paint.yellow("  change"),
        Verdict::WouldFail => paint.red("  FAIL  "),
        Verdict::Skipped(_) => paint.dim("  skip  "),
        Verdict::Unknown => paint.cyan("  unsure"),
    };
    let function = format!("{}.{}", chunk.state, chunk.fun);
    let id = harmless(&chunk.id);
    let comment = paint.dim(harmless(&outcome.comment));
    let _ = writeln!(out, "{mark}  {}  {}  {comment}", paint.bold(id), paint.cyan(function));
}

fn diff(out: &mut String, outcome: &Outcome, paint: Paint) {
    for text in outcome.diff.lines().skip_while(|l| l.starts_with("---") || l.starts_with("+++")) {
        let text = harmless(text);
        let painted = match text.as_bytes().first() {
            Some(b'+') => paint.green(text),
            Some(b'-') => paint.red(text),
            Some(b'@') => paint.blue(text),
            _ => text,
        };
        let _ = writeln!(out, "            {painted}");
    }
    let plain =
        outcome.changes.iter().filter(|(k, v)| *k != "diff" && v.get("old").is_some() && *k != "testing");
    for (key, change) in plain {
        let old = change["old"].to_string();
        let new = change["new"].to_string();
        let _ = writeln!(out, "            {key}: {} -> {}", harmless(&old), harmless(&new));
    }
}

fn rest(out: &mut String, preview: &Preview<'_>, paint: Paint) {
    let tally = preview.tally();
    let mut parts = Vec::new();
    if tally.unchanged > 0 {
        parts.push(format!("{} as it should be", tally.unchanged));
    }
    if tally.skipped > 0 {
        parts.push(format!("{} would not run", tally.skipped));
    }
    if !parts.is_empty() {
        let _ = writeln!(out, "  {}", paint.dim(format!("{} (-v lists them)", parts.join(", "))));
    }
}
