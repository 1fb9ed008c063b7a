//! Report in, SARIF 2.1.0 out, for code hosts to show next to changed lines.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use zagent_config::codes::Code;

use super::{CheckFinding, CheckReport};
use crate::draw::diagnostic::Severity;

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";
const PROJECT_URL: &str = env!("CARGO_PKG_REPOSITORY");

/// The report as a SARIF log. File names are relative to `root`, the checked directory.
#[must_use]
pub fn render_sarif(report: &CheckReport, root: &str) -> Value {
    let mut codes: BTreeMap<&str, Code> = BTreeMap::new();
    for finding in &report.findings {
        codes.insert(finding.diagnostic.code.id, finding.diagnostic.code);
    }
    let order: Vec<&str> = codes.keys().copied().collect();
    let results: Vec<Value> = report.findings.iter().map(|f| sarif_result(f, &order, root)).collect();
    json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "zagent",
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "informationUri": PROJECT_URL,
                "rules": codes.values().map(sarif_rule).collect::<Vec<_>>(),
            }},
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

fn sarif_rule(code: &Code) -> Value {
    let body = code.explanation.trim_start_matches(|c| c != '\n').trim();
    json!({
        "id": code.id,
        "name": camel_case(code.title),
        "shortDescription": {"text": code.title},
        "fullDescription": {"text": body},
        "help": {"text": body, "markdown": code.explanation},
    })
}

/// Turns `undefined variable` into `UndefinedVariable`.
fn camel_case(title: &str) -> String {
    let words = title.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty());
    words
        .map(|w| {
            let mut chars = w.chars();
            chars.next().map(|c| c.to_uppercase().chain(chars).collect::<String>()).unwrap_or_default()
        })
        .collect()
}

fn sarif_result(finding: &CheckFinding, order: &[&str], root: &str) -> Value {
    let fault = &finding.diagnostic;
    let mut text = fault.message.clone();
    if let Some(hint) = &fault.hint {
        text.push_str("\nhelp: ");
        text.push_str(hint);
    }
    if !finding.hosts.is_empty() {
        let hosts: Vec<&str> = finding.hosts.iter().map(String::as_str).collect();
        text.push_str("\nhosts: ");
        text.push_str(&hosts.join(", "));
    }
    let mut out = json!({
        "ruleId": fault.code.id,
        "ruleIndex": order.iter().position(|id| *id == fault.code.id),
        "level": match finding.severity { Severity::Error => "error", Severity::Warning => "warning" },
        "message": {"text": text},
        "partialFingerprints": {"zagent/v1": fingerprint(finding, root)},
    });
    if let Some(place) = &fault.location {
        out["locations"] = json!([sarif_location(&place.file, place.pos, root)]);
        let related: Vec<Value> = fault
            .chain
            .iter()
            .map(|step| {
                let mut location = sarif_location(&step.location.file, step.location.pos, root);
                location["message"] = json!({"text": step.what});
                location
            })
            .collect();
        if !related.is_empty() {
            out["relatedLocations"] = related.into();
        }
    }
    out
}

fn sarif_location(file: &str, pos: zagent_config::Pos, root: &str) -> Value {
    let mut physical = json!({"artifactLocation": {"uri": percent_encode(&relative_path(file, root))}});
    if pos.line > 0 {
        physical["region"] = json!({"startLine": pos.line});
        if pos.column > 0 {
            physical["region"]["startColumn"] = json!(pos.column);
        }
    }
    json!({"physicalLocation": physical})
}

/// Identity that survives moved lines: the code, the file and the message.
pub(super) fn fingerprint(finding: &CheckFinding, root: &str) -> String {
    let file = finding.diagnostic.location.as_ref().map(|p| relative_path(&p.file, root)).unwrap_or_default();
    format!("{}:{file}:{}", finding.diagnostic.code.id, finding.diagnostic.message)
}

pub(super) fn relative_path(file: &str, root: &str) -> String {
    let root = root.trim_end_matches('/');
    let inside = file.strip_prefix(root).and_then(|rest| rest.strip_prefix('/')).filter(|_| !root.is_empty());
    inside.unwrap_or(file).trim_start_matches("./").to_owned()
}

/// A path as a URI reference: everything but plain characters is escaped.
fn percent_encode(path: &str) -> String {
    let mut out = String::new();
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_relative_references() {
        assert_eq!(percent_encode(&relative_path("repo/states/a b.sls", "repo/")), "states/a%20b.sls");
        assert_eq!(percent_encode(&relative_path("./states/ü.sls", ".")), "states/%C3%BC.sls");
        assert_eq!(relative_path("/other/x", "/repo"), "/other/x");
        assert_eq!(camel_case("top file: no match"), "TopFileNoMatch");
    }
}
