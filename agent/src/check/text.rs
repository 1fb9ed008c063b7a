//! A report in, text for people out: every finding drawn, then who compiles, then one line.

use std::fmt::Write;

use zagent_config::Value;

use super::{Change, Diff, Finding, HostDiff, Report};
use crate::draw::fault::{Severity, draw};
use crate::output::{Paint, count, harmless};

/// Hosts that are named before the rest is only counted.
const NAMED: usize = 6;
/// Characters of a value that are shown.
const VALUE: usize = 60;

/// The report.
#[must_use]
pub fn text(report: &Report, paint: Paint) -> String {
    let mut out = String::new();
    for finding in &report.findings {
        out.push_str(&draw(&finding.fault, finding.severity, paint));
        hosts(&mut out, finding, report.hosts.len(), paint);
        out.push('\n');
    }
    let compiled: Vec<usize> = report.hosts.iter().filter_map(|(_, states)| *states).collect();
    for (name, _) in report.hosts.iter().filter(|(_, states)| states.is_none()) {
        let _ = writeln!(out, "{} {} does not compile", paint.red("✗"), harmless(name));
    }
    if let (Some(least), Some(most)) = (compiled.iter().min(), compiled.iter().max()) {
        let range = if least == most { count(*most, "state") } else { format!("{least} to {most} states") };
        let all = format!("{} of {} compile", compiled.len(), count(report.hosts.len(), "host"));
        let _ = writeln!(out, "{} {all}, {range} each", paint.green("✓"));
    }
    let (errors, warnings) = (count(report.errors(), "error"), count(report.warnings(), "warning"));
    let verdict = if report.errors() > 0 { paint.red(errors) } else { paint.green(errors) };
    let more =
        report.findings.first().map_or_else(String::new, |f| format!("; zagent explain {}", f.fault.code.id));
    let _ = writeln!(out, "{verdict}, {warnings}{more}");
    out
}

fn hosts(out: &mut String, finding: &Finding, total: usize, paint: Paint) {
    if finding.hosts.is_empty() || total < 2 {
        return;
    }
    let mut names: Vec<String> = finding.hosts.iter().take(NAMED).map(|h| harmless(h)).collect();
    if finding.hosts.len() > NAMED {
        names.push(format!("{} more", finding.hosts.len() - NAMED));
    }
    let all = if finding.hosts.len() == total { "all hosts".to_owned() } else { names.join(", ") };
    let word = if finding.severity == Severity::Error { "fails on" } else { "on" };
    let _ = writeln!(out, "   {} {word} {all}", paint.blue("="));
}

/// The comparison of two revisions.
#[must_use]
pub fn diff_text(diff: &Diff, paint: Paint) -> String {
    let mut out = String::new();
    let moved: Vec<_> = diff.hosts.iter().filter(|(_, host)| !host.is_quiet()).collect();
    for (name, host) in &moved {
        let _ = writeln!(out, "{}{}", paint.bold(harmless(name)), headline(host));
        if let HostDiff::Changes(changes) = host {
            for change in changes {
                draw_change(&mut out, change, paint);
            }
        }
        out.push('\n');
    }
    let (from, to) = (harmless(&diff.from), harmless(&diff.to));
    if moved.is_empty() {
        let _ = writeln!(out, "{from}..{to}: no host changes ({})", count(diff.hosts.len(), "host"));
        return out;
    }
    let (mut added, mut changed, mut removed) = (0, 0, 0);
    for change in
        diff.hosts.values().flat_map(|h| if let HostDiff::Changes(c) = h { c.as_slice() } else { &[] })
    {
        match change {
            Change::Added { .. } => added += 1,
            Change::Changed { .. } => changed += 1,
            Change::Removed { .. } => removed += 1,
        }
    }
    let hosts = format!("{} of {}", moved.len(), count(diff.hosts.len(), "host"));
    let _ =
        writeln!(out, "{from}..{to}: {hosts} change: {added} added, {changed} changed, {removed} removed");
    let broken = diff.hosts.values().filter(|h| matches!(h, HostDiff::Breaks | HostDiff::Broken)).count();
    if broken > 0 {
        let _ = writeln!(out, "{} not compile at {to}: `zagent check` tells why", paint.red(does(broken)));
    }
    out
}

fn does(hosts: usize) -> String {
    if hosts == 1 { "1 host does".into() } else { format!("{hosts} hosts do") }
}

fn headline(host: &HostDiff) -> String {
    match host {
        HostDiff::Changes(changes) => format!(": {}", count(changes.len(), "change")),
        HostDiff::Breaks => ": no longer compiles".into(),
        HostDiff::Mends => ": compiles again".into(),
        HostDiff::Broken => ": does not compile".into(),
        HostDiff::New(states) => format!(": new host with {}", count(*states, "state")),
        HostDiff::Gone => ": left the inventory".into(),
    }
}

fn draw_change(out: &mut String, change: &Change, paint: Paint) {
    let tag = tag(change.tag());
    match change {
        Change::Added { .. } => {
            let _ = writeln!(out, "  {} {tag}", paint.green("+"));
        }
        Change::Removed { .. } => {
            let _ = writeln!(out, "  {} {tag}", paint.red("-"));
        }
        Change::Changed { arguments, .. } => {
            let _ = writeln!(out, "  {} {tag}", paint.yellow("~"));
            for (name, old, new) in arguments {
                let _ = writeln!(
                    out,
                    "      {}: {} -> {}",
                    harmless(name),
                    value(old.as_ref()),
                    value(new.as_ref())
                );
            }
        }
    }
}

/// `file_|-id_|-name_|-managed` as a human says it.
fn tag(tag: &str) -> String {
    let parts: Vec<&str> = tag.split("_|-").collect();
    match parts.as_slice() {
        [state, id, name, fun] if id == name => harmless(&format!("{state}.{fun}  {id}")),
        [state, id, name, fun] => harmless(&format!("{state}.{fun}  {id} ({name})")),
        _ => harmless(tag),
    }
}

fn value(value: Option<&Value>) -> String {
    let Some(value) = value else {
        return "nothing".into();
    };
    let text = harmless(&serde_json::to_string(value).unwrap_or_default());
    if text.chars().count() <= VALUE {
        return text;
    }
    text.chars().take(VALUE).chain(['…']).collect()
}
