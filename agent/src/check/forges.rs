//! Report in, what code hosts show beside changed lines out: annotations of GitHub workflows, code quality of GitLab.

use std::collections::HashMap;
use std::fmt::Write;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::sarif::{fingerprint, relative_path};
use super::{CheckFinding, CheckReport};
use crate::draw::diagnostic::Severity;

/// A file as a code host names it: relative to where the check runs, which is the checkout.
#[must_use]
pub(super) fn forge_path(file: &str, root: &str) -> String {
    if root.starts_with('/') { relative_path(file, root) } else { file.trim_start_matches("./").to_owned() }
}

/// The report as GitHub workflow commands, one line per finding, and a summary.
#[must_use]
pub fn github_annotations(report: &CheckReport, root: &str) -> String {
    let mut out = String::new();
    for finding in &report.findings {
        let fault = &finding.diagnostic;
        let word = match finding.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        let mut properties = Vec::new();
        if let Some(place) = &fault.location {
            properties.push(format!("file={}", github_property(&forge_path(&place.file, root))));
            if place.pos.line > 0 {
                properties.push(format!("line={}", place.pos.line));
            }
            if place.pos.column > 0 {
                properties.push(format!("col={}", place.pos.column));
            }
        }
        properties
            .push(format!("title={}", github_property(&format!("{} {}", fault.code.id, fault.code.title))));
        let _ = writeln!(out, "::{word} {}::{}", properties.join(","), github_data(&message(finding)));
    }
    let (errors, warnings) = (report.error_count(), report.warning_count());
    let _ = writeln!(out, "zagent check: {errors} errors, {warnings} warnings, {} hosts", report.hosts.len());
    out
}

/// The report as GitLab code quality.
#[must_use]
pub fn gitlab_code_quality(report: &CheckReport, root: &str) -> Value {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let findings = report.findings.iter().map(|finding| {
        let identity = fingerprint(finding, root);
        let count = seen.entry(identity.clone()).or_default();
        *count += 1;
        let place = finding.diagnostic.location.as_ref();
        json!({
            "description": message(finding),
            "check_name": finding.diagnostic.code.id,
            "fingerprint": digest(&identity, *count),
            "severity": match finding.severity { Severity::Error => "major", Severity::Warning => "minor" },
            "location": {
                "path": place.map_or_else(|| ".".to_owned(), |place| forge_path(&place.file, root)),
                "lines": {"begin": place.map_or(1, |place| place.pos.line.max(1))},
            },
        })
    });
    findings.collect()
}

fn message(finding: &CheckFinding) -> String {
    let mut text = zagent_config::sanitize(&finding.diagnostic.message);
    if let Some(hint) = &finding.diagnostic.hint {
        let _ = write!(text, "\nhelp: {}", zagent_config::sanitize(hint));
    }
    if !finding.hosts.is_empty() {
        let hosts: Vec<&str> = finding.hosts.iter().map(String::as_str).collect();
        let _ = write!(text, "\nhosts: {}", zagent_config::sanitize(&hosts.join(", ")));
    }
    text
}

/// The message of a workflow command: what would end it or be read as an escape is escaped.
fn github_data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// A property of a workflow command; colons and commas separate them.
fn github_property(text: &str) -> String {
    github_data(text).replace(':', "%3A").replace(',', "%2C")
}

/// The identity of a finding as hex digits, the same for every run; moved lines do not change it. The same finding on
/// several lines of a file is counted.
fn digest(identity: &str, count: usize) -> String {
    format!("{:x}", Sha256::digest(format!("{identity}:{count}")))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use zagent_config::codes::edge;
    use zagent_config::{Diagnostic, Pos};

    use super::*;

    fn report(faults: Vec<Diagnostic>) -> CheckReport {
        let findings = faults.into_iter().map(|diagnostic| CheckFinding {
            severity: Severity::Error,
            diagnostic,
            hosts: BTreeSet::from(["web-01".to_owned()]),
        });
        CheckReport { hosts: vec![("web-01".into(), None)], recorded: true, findings: findings.collect() }
    }

    fn fault(file: &str, line: u32, message: &str) -> Diagnostic {
        Diagnostic::new(edge::UNUSED_SLS, message).at(file, Pos::new(line, 0))
    }

    #[test]
    fn annotations_are_escaped() {
        let text =
            github_annotations(&report(vec![fault("./states/a,b:c.sls", 7, "50% of\nit\n::error::x")]), ".");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines[0].starts_with("::error file=states/a%2Cb%3Ac.sls,line=7,title="), "{text}");
        assert!(lines[0].contains("::50%25 of"), "{text}");
        assert!(lines[0].ends_with("%0Ahosts: web-01"), "{text}");
        assert_eq!(lines[1], "zagent check: 1 errors, 0 warnings, 1 hosts");
    }

    #[test]
    fn fingerprints_survive_moved_lines_and_differ_by_finding() {
        let prints = |faults| -> Vec<String> {
            let all = gitlab_code_quality(&report(faults), "/repo");
            all.as_array().unwrap().iter().map(|f| f["fingerprint"].as_str().unwrap().to_owned()).collect()
        };
        let first = prints(vec![
            fault("/repo/a.sls", 3, "x"),
            fault("/repo/a.sls", 9, "x"),
            fault("/repo/b.sls", 3, "x"),
        ]);
        let moved = prints(vec![
            fault("/repo/a.sls", 5, "x"),
            fault("/repo/a.sls", 11, "x"),
            fault("/repo/b.sls", 1, "x"),
        ]);
        assert_eq!(first, moved);
        assert_eq!(first.iter().collect::<BTreeSet<_>>().len(), 3);
        assert!(first.iter().all(|print| print.len() == 64));
        let quality = gitlab_code_quality(&report(vec![fault("/repo/a.sls", 0, "x")]), "/repo");
        assert_eq!(quality[0]["location"], json!({"path": "a.sls", "lines": {"begin": 1}}));
        assert_eq!(quality[0]["severity"], "major");
    }
}
