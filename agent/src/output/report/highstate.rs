//! Report view in, the layout of `salt-call state.apply` out.
//!
//! Law: what a script reads in Salt's output is in the same column here; only text that could control the terminal
//! is replaced (held by `the_layout_is_that_of_salt`, `control_characters_stay_out_of_every_format`).

use std::fmt::Write;

use zagent_config::value::python_repr;
use zagent_config::{Diagnostic, Value};

use super::{ReportView, salt_millis, salt_time};
use crate::output::Paint;
use zagent_config::sanitize;
use zagent_run::StateOutcome;

/// Salt's name for a masterless host.
const HOST: &str = "local";
/// Indent of the changes of a state.
const CHANGES_INDENT: usize = 14;
/// Width of `Succeeded: ` and similar labels.
const LABEL_WIDTH: usize = "Succeeded".len() + 2;

/// The whole report.
pub(super) fn render_highstate(view: &ReportView<'_>, paint: Paint) -> String {
    let mut out = String::new();
    let states = &view.report.states;
    let host = format!("{HOST}:");
    let host = match () {
        () if states.iter().any(|s| s.result == Some(false)) => paint.red(host),
        () if states.iter().any(|s| s.result.is_none()) => paint.yellow(host),
        () => paint.green(host),
    };
    let _ = writeln!(out, "{host}");
    for outcome in states {
        write_state(&mut out, outcome, view, paint);
    }
    write_summary(&mut out, view, paint);
    out
}

fn write_state(out: &mut String, outcome: &StateOutcome, view: &ReportView<'_>, paint: Paint) {
    let colour = |line: String| match outcome.result {
        Some(false) => paint.red(line),
        None => paint.yellow(line),
        Some(true) if outcome.changes.is_empty() => paint.green(line),
        Some(true) => paint.cyan(line),
    };
    let mut line = |text: String| {
        let _ = writeln!(out, "{}", colour(text));
    };
    line("----------".into());
    line(format!("          ID: {}", sanitize(outcome.shown_id())));
    line(format!("    Function: {}.{}", outcome.state, outcome.fun));
    if outcome.shown_id() != outcome.shown_name() {
        line(format!("        Name: {}", sanitize(outcome.shown_name())));
    }
    line(format!("      Result: {}", python_repr(&outcome.result.into())));
    line(format!("     Comment: {}", sanitize(outcome.comment.trim()).replace('\n', "\n              ")));
    line(format!("     Started: {}", salt_time(outcome.start, &view.zone)));
    line(format!("    Duration: {:?} ms", salt_millis(outcome.duration)));
    line("     Changes:   ".into());
    if !outcome.changes.is_empty() {
        write_nested(out, &outcome.changes.clone().into(), CHANGES_INDENT, "", paint);
    }
}

fn write_summary(out: &mut String, view: &ReportView<'_>, paint: Paint) {
    let states = &view.report.states;
    let failed = states.iter().filter(|s| s.result == Some(false)).count();
    let undecided = states.iter().filter(|s| s.result.is_none()).count();
    // A report from the history lists no unchanged states; they count as succeeded.
    let total = view.tally.total().max(states.len());
    let unlisted = total - states.len();
    let succeeded = states.iter().filter(|s| s.result == Some(true)).count() + undecided + unlisted;
    let changed = states.iter().filter(|s| !s.changes.is_empty()).count();
    let counts = [succeeded - undecided, failed, undecided];
    let digits = counts.iter().filter(|n| **n > 0).map(|n| n.to_string().len()).max().unwrap_or(0);
    let width = LABEL_WIDTH + digits;
    let rule = "-".repeat(width);
    let count = |label: &str, n: usize| format!("{label}: {n:>space$}", space = width - label.len() - 2);
    let _ = writeln!(out, "{}", paint.cyan(format!("\nSummary for {HOST}\n{rule}")));
    let mut notes = Vec::new();
    if undecided > 0 {
        notes.push(paint.yellow(format!("unchanged={undecided}")));
    }
    if changed > 0 {
        notes.push(paint.green(format!("changed={changed}")));
    }
    let notes = if notes.is_empty() { String::new() } else { format!(" ({})", notes.join(", ")) };
    let _ = writeln!(out, "{}{notes}", paint.green(count("Succeeded", succeeded)));
    let line = count("Failed", failed);
    let _ = writeln!(out, "{}", if failed > 0 { paint.red(line) } else { paint.cyan(line) });
    let _ = writeln!(
        out,
        "{}",
        paint.cyan(format!("{rule}\nTotal states run: {total:>space$}", space = width - 7))
    );
    let time: f64 = states.iter().map(|s| salt_millis(s.duration)).sum();
    let (time, unit) = if time > 999.0 { (time / 1000.0, "s") } else { (time, "ms") };
    let time = format!("{time:.3}");
    let _ =
        writeln!(out, "{}", paint.cyan(format!("Total run time: {time:>space$} {unit}", space = width - 5)));
}

/// What Salt prints for states that do not compile.
#[must_use]
pub fn render_compile_errors<'f>(faults: impl IntoIterator<Item = &'f Diagnostic>, paint: Paint) -> String {
    let mut out =
        format!("{}\n{}\n", paint.red(format!("{HOST}:")), paint.red("    Data failed to compile:"));
    for fault in faults {
        let _ = writeln!(out, "{}", paint.red(format!("----------\n    {}", sanitize(&fault.to_string()))));
    }
    out
}

/// A value as Salt's nested outputter prints it.
#[must_use]
pub fn render_nested(value: &Value, paint: Paint) -> String {
    let mut out = String::new();
    write_nested(&mut out, value, 0, "", paint);
    out
}

fn write_nested(out: &mut String, value: &Value, indent: usize, prefix: &str, paint: Paint) {
    match value {
        Value::Str(text) => {
            for (i, line) in sanitize(text).lines().enumerate() {
                let blank = " ".repeat(prefix.len());
                let before = if i == 0 { prefix } else { &blank };
                let _ = writeln!(out, "{:indent$}{}", "", paint.green(format!("{before}{line}")));
            }
        }
        Value::List(list) => {
            for item in list.iter() {
                if matches!(item, Value::List(_) | Value::Map(_)) {
                    let _ = writeln!(out, "{:indent$}{}", "", paint.green("|_"));
                    let prefix = if item.as_map().is_some() { "" } else { "- " };
                    write_nested(out, item, indent + 2, prefix, paint);
                } else {
                    write_nested(out, item, indent, "- ", paint);
                }
            }
        }
        Value::Map(map) => {
            if indent > 0 {
                let _ = writeln!(out, "{:indent$}{}", "", paint.cyan("----------"));
            }
            let mut entries: Vec<(String, &Value)> =
                map.iter().map(|(k, v)| (zagent_config::value::python_str(k), v)).collect();
            zagent_config::sorted::sort_by(&mut entries, |a, b| a.0.cmp(&b.0));
            for (key, value) in entries {
                let key = paint.cyan(format!("{prefix}{}", sanitize(&key)));
                let _ = writeln!(out, "{:indent$}{key}:", "");
                write_nested(out, value, indent + 4, "", paint);
            }
        }
        other => {
            let text = paint.yellow(format!("{prefix}{}", python_repr(other)));
            let _ = writeln!(out, "{:indent$}{text}", "");
        }
    }
}
