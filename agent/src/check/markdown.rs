//! Report or comparison in, Markdown out, for a comment on a pull request.
//!
//! Law: text from the repository is shown and does nothing: it makes no link, no mention, no HTML and no further table
//! cell (held by `text_of_the_repository_stays_text`).

use std::fmt::Write;

use super::text::{display_tag, headline, short_value};
use super::{CheckFinding, CheckReport, HostDiff, PlanChange, PlanDiff};
use crate::draw::diagnostic::Severity;
use crate::output::{one_line, pluralize};

/// Maximum number of rows: code hosts limit the size of a comment.
const MAX_ROWS: usize = 200;
/// Maximum number of hosts to name in a cell.
const MAX_HOSTS: usize = 6;

/// The report.
#[must_use]
pub fn report_markdown(report: &CheckReport, root: &str) -> String {
    let (errors, warnings) = (report.error_count(), report.warning_count());
    let verdict = if errors == 0 { "passed" } else { "failed" };
    let compiled = report.hosts.iter().filter(|(_, states)| states.is_some()).count();
    let mut out = format!(
        "### zagent check {verdict}\n\n{} of {} compile, {}, {}.\n",
        compiled,
        pluralize(report.hosts.len(), "host"),
        pluralize(errors, "error"),
        pluralize(warnings, "warning"),
    );
    if report.findings.is_empty() {
        return out;
    }
    out.push_str("\n| | where | what | hosts |\n|---|---|---|---|\n");
    for finding in report.findings.iter().take(MAX_ROWS) {
        let _ = writeln!(out, "{}", finding_row(finding, root));
    }
    write_rest(&mut out, report.findings.len());
    out
}

fn finding_row(finding: &CheckFinding, root: &str) -> String {
    let fault = &finding.diagnostic;
    let word = match finding.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let place = fault.location.as_ref().map(|place| {
        let file = super::forge_path(&place.file, root);
        code(&if place.pos.line > 0 { format!("{file}:{}", place.pos.line) } else { file })
    });
    let mut what = format!("{}: {}", fault.code.id, plain(&fault.message));
    if let Some(hint) = &fault.hint {
        let _ = write!(what, "<br>{}", plain(hint));
    }
    let mut hosts: Vec<String> = finding.hosts.iter().take(MAX_HOSTS).map(|host| code(host)).collect();
    if finding.hosts.len() > MAX_HOSTS {
        hosts.push(format!("{} more", finding.hosts.len() - MAX_HOSTS));
    }
    format!("| {word} | {} | {what} | {} |", place.unwrap_or_default(), hosts.join(", "))
}

/// The comparison of two revisions.
#[must_use]
pub fn diff_markdown(diff: &PlanDiff) -> String {
    let moved: Vec<_> = diff.hosts.iter().filter(|(_, host)| !host.is_unchanged()).collect();
    let range = code(&format!("{}..{}", diff.from, diff.to));
    let total = pluralize(diff.hosts.len(), "host");
    if moved.is_empty() {
        return format!("### zagent: no host changes\n\n{range}: {total}, all unchanged.\n");
    }
    let mut out = format!("### zagent: {} of {total} change\n\n{range}\n", moved.len());
    out.push_str("\n| host | | state | arguments |\n|---|---|---|---|\n");
    let rows: Vec<String> = moved.iter().flat_map(|(name, host)| host_rows(name, host)).collect();
    for row in rows.iter().take(MAX_ROWS) {
        let _ = writeln!(out, "{row}");
    }
    write_rest(&mut out, rows.len());
    out
}

fn host_rows(name: &str, host: &HostDiff) -> Vec<String> {
    let HostDiff::Changes(changes) = host else {
        let words = headline(host);
        return vec![format!("| {} | {} | | |", code(name), words.trim_start_matches(": "))];
    };
    changes.iter().map(|change| change_row(name, change)).collect()
}

fn change_row(name: &str, change: &PlanChange) -> String {
    let (word, arguments) = match change {
        PlanChange::Added { .. } => ("added", String::new()),
        PlanChange::Removed { leaves, .. } => {
            let all = leaves.iter().map(|thing| format!("leaves {} behind", code(thing)));
            ("removed", all.collect::<Vec<_>>().join("<br>"))
        }
        PlanChange::Changed { arguments, .. } => {
            let all = arguments.iter().map(|(argument, old, new)| {
                let (old, new) = (short_value(old.as_ref()), short_value(new.as_ref()));
                format!("{}: {} → {}", code(argument), code(&old), code(&new))
            });
            ("changed", all.collect::<Vec<_>>().join("<br>"))
        }
    };
    format!("| {} | {word} | {} | {arguments} |", code(name), code(&display_tag(change.tag())))
}

fn write_rest(out: &mut String, rows: usize) {
    if rows > MAX_ROWS {
        let _ = writeln!(out, "\n{} more rows are not shown.", rows - MAX_ROWS);
    }
}

/// Text as a code span in a table cell: the fence is longer than any run of backticks inside.
fn code(text: &str) -> String {
    let line = one_line(text).replace('|', "\\|");
    if line.is_empty() {
        return String::new();
    }
    let longest = line.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let pad = if line.starts_with('`') || line.ends_with('`') { " " } else { "" };
    format!("{fence}{pad}{line}{pad}{fence}")
}

/// A sentence of ours with parts from the repository: every character that Markdown or the code host reads is escaped.
fn plain(text: &str) -> String {
    let mut out = String::new();
    for c in one_line(text).chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '&' => out.push_str("&amp;"),
            '@' => out.push_str("&#64;"),
            '#' => out.push_str("&#35;"),
            '\\' | '|' | '*' | '_' | '[' | ']' | '!' | '~' | '`' => out.extend(['\\', c]),
            // Without its colon, an address is not made a link.
            ':' => out.push_str("&#58;"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_the_repository_stays_text() {
        assert_eq!(code("a|b"), "`a\\|b`");
        assert_eq!(code("a`b``c"), "```a`b``c```");
        assert_eq!(code("`x`"), "`` `x` ``");
        assert_eq!(code("two\nlines"), "`two lines`");
        let hostile = plain("<img src=x> @team #1 [x](http://e) *b* | `c`");
        for part in ["<img", "@team", "#1", "http://"] {
            assert!(!hostile.contains(part), "{hostile}");
        }
        assert!(hostile.contains("\\[x\\](http&#58;//e) \\*b\\* \\| \\`c\\`"), "{hostile}");
    }

    #[test]
    fn a_comparison_is_a_table() {
        let changes = vec![
            PlanChange::Added { tag: "file_|-a_|-/a_|-managed".into() },
            PlanChange::Changed {
                tag: "pkg_|-vim_|-vim_|-installed".into(),
                arguments: vec![("version".into(), None, Some("9|1".into()))],
            },
        ];
        let hosts = [("web-01".to_owned(), HostDiff::Changes(changes)), ("db".to_owned(), HostDiff::Breaks)];
        let diff = PlanDiff { from: "main".into(), to: "HEAD".into(), hosts: hosts.into() };
        let text = diff_markdown(&diff);
        assert!(text.starts_with("### zagent: 2 of 2 hosts change\n\n`main..HEAD`\n"), "{text}");
        assert!(text.contains("| `db` | no longer compiles | | |"), "{text}");
        assert!(text.contains("| `web-01` | added | `file.managed a (/a)` |  |"), "{text}");
        assert!(text.contains("`version`: `nothing` → `\"9\\|1\"`"), "{text}");
        let still = PlanDiff { from: "a".into(), to: "b".into(), hosts: std::collections::BTreeMap::new() };
        assert!(diff_markdown(&still).starts_with("### zagent: no host changes"));
    }
}
