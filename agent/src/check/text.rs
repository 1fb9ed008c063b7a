//! Report in, text out: every finding drawn, then the hosts that compile, then one summary line.

use std::fmt::Write;

use zagent_config::Value;

use super::{CheckFinding, CheckReport, HostDiff, PlanChange, PlanDiff};
use crate::draw::diagnostic::{Severity, render_diagnostic};
use crate::output::{Paint, pluralize};
use zagent_config::sanitize;

/// Maximum number of hosts to name; the rest is counted.
const MAX_HOSTS: usize = 6;
/// Maximum number of characters shown of a value.
const MAX_VALUE_CHARS: usize = 60;

/// The report.
#[must_use]
pub fn report_text(report: &CheckReport, paint: Paint) -> String {
    let mut out = String::new();
    for finding in &report.findings {
        out.push_str(&render_diagnostic(&finding.diagnostic, finding.severity, paint));
        write_hosts(&mut out, finding, report.hosts.len(), paint);
        out.push('\n');
    }
    let compiled: Vec<usize> = report.hosts.iter().filter_map(|(_, states)| *states).collect();
    for (name, _) in report.hosts.iter().filter(|(_, states)| states.is_none()) {
        let _ = writeln!(out, "{} {} does not compile", paint.red(paint.mark('✗')), sanitize(name));
    }
    if let (Some(least), Some(most)) = (compiled.iter().min(), compiled.iter().max()) {
        let range =
            if least == most { pluralize(*most, "state") } else { format!("{least} to {most} states") };
        let all = format!("{} of {} compile", compiled.len(), pluralize(report.hosts.len(), "host"));
        let _ = writeln!(out, "{} {all}, {range} each", paint.green(paint.mark('✓')));
    }
    let (errors, warnings) =
        (pluralize(report.error_count(), "error"), pluralize(report.warning_count(), "warning"));
    let verdict = if report.error_count() > 0 { paint.red(errors) } else { paint.green(errors) };
    let more = report
        .findings
        .first()
        .map_or_else(String::new, |f| format!("; zagent explain {}", f.diagnostic.code.id));
    let _ = writeln!(out, "{verdict}, {warnings}{more}");
    out
}

fn write_hosts(out: &mut String, finding: &CheckFinding, total: usize, paint: Paint) {
    if finding.hosts.is_empty() || total < 2 {
        return;
    }
    let mut names: Vec<String> = finding.hosts.iter().take(MAX_HOSTS).map(|h| sanitize(h)).collect();
    if finding.hosts.len() > MAX_HOSTS {
        names.push(format!("{} more", finding.hosts.len() - MAX_HOSTS));
    }
    let all = if finding.hosts.len() == total { "all hosts".to_owned() } else { names.join(", ") };
    let word = if finding.severity == Severity::Error { "fails on" } else { "on" };
    let _ = writeln!(out, "   {} {word} {all}", paint.blue("="));
}

/// The comparison of two revisions.
#[must_use]
pub fn diff_text(diff: &PlanDiff, paint: Paint) -> String {
    let mut out = String::new();
    let moved: Vec<_> = diff.hosts.iter().filter(|(_, host)| !host.is_unchanged()).collect();
    for (name, host) in &moved {
        let _ = writeln!(out, "{}{}", paint.bold(sanitize(name)), headline(host));
        if let HostDiff::Changes(changes) = host {
            for change in changes {
                write_change(&mut out, change, paint);
            }
        }
        out.push('\n');
    }
    let (from, to) = (sanitize(&diff.from), sanitize(&diff.to));
    if moved.is_empty() {
        let _ = writeln!(out, "{from}..{to}: no host changes ({})", pluralize(diff.hosts.len(), "host"));
        return out;
    }
    let (mut added, mut changed, mut removed) = (0, 0, 0);
    for change in
        diff.hosts.values().flat_map(|h| if let HostDiff::Changes(c) = h { c.as_slice() } else { &[] })
    {
        match change {
            PlanChange::Added { .. } => added += 1,
            PlanChange::Changed { .. } => changed += 1,
            PlanChange::Removed { .. } => removed += 1,
        }
    }
    let hosts = format!("{} of {}", moved.len(), pluralize(diff.hosts.len(), "host"));
    let _ =
        writeln!(out, "{from}..{to}: {hosts} change: {added} added, {changed} changed, {removed} removed");
    let broken = diff.hosts.values().filter(|h| matches!(h, HostDiff::Breaks | HostDiff::Broken)).count();
    if broken > 0 {
        let _ = writeln!(
            out,
            "{} not compile at {to}: find the reason with `zagent check`",
            paint.red(hosts_do(broken))
        );
    }
    out
}

fn hosts_do(hosts: usize) -> String {
    if hosts == 1 { "1 host does".into() } else { format!("{hosts} hosts do") }
}

pub(super) fn headline(host: &HostDiff) -> String {
    match host {
        HostDiff::Changes(changes) => format!(": {}", pluralize(changes.len(), "change")),
        HostDiff::Breaks => ": no longer compiles".into(),
        HostDiff::Fixed => ": compiles again".into(),
        HostDiff::Broken => ": does not compile".into(),
        HostDiff::New(states) => format!(": new host with {}", pluralize(*states, "state")),
        HostDiff::Removed => ": removed from the inventory".into(),
    }
}

fn write_change(out: &mut String, change: &PlanChange, paint: Paint) {
    let tag = display_tag(change.tag());
    match change {
        PlanChange::Added { .. } => {
            let _ = writeln!(out, "  {} {tag}", paint.green("+"));
        }
        PlanChange::Removed { leaves, .. } => {
            let _ = writeln!(out, "  {} {tag}", paint.red("-"));
            for thing in leaves {
                let _ = writeln!(out, "      leaves {} behind (see `zagent orphans`)", sanitize(thing));
            }
        }
        PlanChange::Changed { arguments, .. } => {
            let _ = writeln!(out, "  {} {tag}", paint.yellow("~"));
            for (name, old, new) in arguments {
                let _ = writeln!(
                    out,
                    "      {}: {} -> {}",
                    sanitize(name),
                    short_value(old.as_ref()),
                    short_value(new.as_ref())
                );
            }
        }
    }
}

/// Turns `file_|-id_|-name_|-managed` into a readable form.
pub(super) fn display_tag(tag: &str) -> String {
    let parts: Vec<&str> = tag.split("_|-").collect();
    match parts.as_slice() {
        [state, id, name, fun] if id == name => sanitize(&format!("{state}.{fun}  {id}")),
        [state, id, name, fun] => sanitize(&format!("{state}.{fun}  {id} ({name})")),
        _ => sanitize(tag),
    }
}

pub(super) fn short_value(value: Option<&Value>) -> String {
    let Some(value) = value else {
        return "nothing".into();
    };
    let text = sanitize(&serde_json::to_string(value).unwrap_or_default());
    if text.chars().count() <= MAX_VALUE_CHARS {
        return text;
    }
    text.chars().take(MAX_VALUE_CHARS).chain(['…']).collect()
}
