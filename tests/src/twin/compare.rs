//! Two sides in, their differences out, one per line.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Side;

/// How well a dry run predicted a run.
#[derive(Clone, Debug, Default)]
pub struct Foresight {
    /// States whose change was predicted correctly.
    pub right: usize,
    /// States that were reported as unknown: why, and what happened.
    pub unknown: Vec<String>,
    /// Wrong predictions.
    pub wrong: Vec<String>,
}

/// The remaining files and settings, compared.
#[must_use]
pub fn compare(salt: &Side, zagent: &Side) -> Vec<String> {
    let mut lines = Vec::new();
    for part in ["packages", "accounts", "units", "files"] {
        let (theirs, ours) = (&salt.left[part], &zagent.left[part]);
        for key in keys(theirs, ours) {
            let (a, b) = (&theirs[&key], &ours[&key]);
            if a != b {
                lines.push(format!("{} {key}: {}", part.trim_end_matches('s'), difference(a, b)));
            }
        }
    }
    lines
}

/// Results by state, compared.
#[must_use]
pub fn results(salt: &Side, zagent: &Side) -> Vec<String> {
    let mut lines = Vec::new();
    for tag in keys(&salt.first, &zagent.first) {
        let (a, b) = (&salt.first[&tag], &zagent.first[&tag]);
        let told = |side: &Value| match (&side["result"], side["changed"] == true) {
            _ if !side.is_object() => "not there".to_owned(),
            (result, changed) => format!("{result}, {}", if changed { "changed" } else { "unchanged" }),
        };
        if told(a) != told(b) {
            let words = |side: &Value| side["comment"].as_str().unwrap_or_default().replace('\n', " ");
            lines.push(format!("{tag}: Salt {} ({}); zagent {} ({})", told(a), words(a), told(b), words(b)));
        }
    }
    lines
}

/// The dry run and the run, compared.
#[must_use]
pub fn foresight(zagent: &Side) -> Foresight {
    let mut sum = Foresight::default();
    for tag in keys(&zagent.trial, &zagent.first) {
        let (trial, run) = (&zagent.trial[&tag], &zagent.first[&tag]);
        let told = (trial["result"].is_null() || trial["changed"] == true, trial["result"] == false);
        let came = (run["changed"] == true, run["result"] == false);
        let words = |side: &Value| side["comment"].as_str().unwrap_or("nothing").replace('\n', " ");
        let line = || format!("{tag}: foretold: {}; done: {} {}", words(trial), words(run), run["changes"]);
        if trial["unknown"] == true {
            sum.unknown.push(line());
        } else if trial.is_object() && told.1 == came.1 && (told.1 || told.0 == came.0) {
            sum.right += 1;
        } else {
            sum.wrong.push(line());
        }
    }
    sum
}

fn keys(a: &Value, b: &Value) -> BTreeSet<String> {
    let of = |v: &Value| v.as_object().map(|m| m.keys().cloned().collect::<Vec<_>>()).unwrap_or_default();
    of(a).into_iter().chain(of(b)).collect()
}

fn difference(salt: &Value, zagent: &Value) -> String {
    let (a, b) = (salt["content"].as_str(), zagent["content"].as_str());
    match (a, b) {
        _ if salt.is_null() => format!("only zagent: {}", short(zagent)),
        _ if zagent.is_null() => format!("only Salt: {}", short(salt)),
        (Some(a), Some(b)) if a != b => {
            let (old, new): (Vec<&str>, Vec<&str>) = (a.lines().collect(), b.lines().collect());
            let lost = old.iter().filter(|l| !new.contains(l)).take(4).map(|l| format!("-{l}"));
            let won = new.iter().filter(|l| !old.contains(l)).take(4).map(|l| format!("+{l}"));
            let lines: Vec<String> = lost.chain(won).collect();
            if lines.is_empty() {
                "the same lines in another order or number".into()
            } else {
                lines.join(" ⏎ ")
            }
        }
        _ if salt["owner"] != zagent["owner"] => {
            format!("Salt {}, zagent {}", salt["owner"], zagent["owner"])
        }
        _ => format!("Salt {}, zagent {}", short(salt), short(zagent)),
    }
}

fn short(value: &Value) -> String {
    value.to_string().chars().take(200).collect()
}
