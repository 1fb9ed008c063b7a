//! The reports of a dry run, a run and a second run in, a row per SLS and the states to look at out.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::TestRuns;

/// What one run says about one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Unchanged,
    Changed,
    Failed,
    Skipped,
    /// The dry run cannot know.
    Unknown,
}

/// The states of one SLS, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlsRow {
    /// All of them.
    pub states: usize,
    /// The dry run predicts a change.
    pub predicted: usize,
    /// The run changed something.
    pub changed: usize,
    /// The run or the second run failed.
    pub failed: usize,
    /// The second run changed something again.
    pub again: usize,
    /// The dry run predicted something else than what happened.
    pub wrong: usize,
}

impl SlsRow {
    /// True when nothing has to be looked at.
    #[must_use]
    pub const fn is_good(&self) -> bool {
        self.failed == 0 && self.again == 0 && self.wrong == 0
    }
}

/// The result of a test.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// By SLS.
    pub rows: BTreeMap<String, SlsRow>,
    /// What has to be looked at: the state and why.
    pub problems: Vec<(String, String)>,
}

impl Comparison {
    /// Compares the reports.
    #[must_use]
    pub fn new(runs: &TestRuns) -> Self {
        let mut out = Self::default();
        let none = serde_json::Map::new();
        let states = |report: &Value| report["states"].as_object().cloned().unwrap_or_else(|| none.clone());
        let (dry, run, again) = (states(&runs.dry), states(&runs.run), states(&runs.again));
        for (tag, state) in &run {
            let sls = state["__sls__"].as_str().unwrap_or("(run)").to_owned();
            let row = out.rows.entry(sls).or_default();
            row.states += 1;
            let predicted = dry.get(tag).map(verdict);
            let (ended, second) = (verdict(state), again.get(tag).map(verdict));
            row.predicted += usize::from(predicted == Some(Verdict::Changed));
            row.changed += usize::from(ended == Verdict::Changed);
            let mut note = |why: String| out.problems.push((shown(tag), why));
            if ended == Verdict::Failed {
                row.failed += 1;
                note(format!("failed: {}", first_line(&state["comment"])));
            } else if second == Some(Verdict::Failed) {
                row.failed += 1;
                note(format!("failed in the second run: {}", first_line(&again[tag]["comment"])));
            } else if second == Some(Verdict::Changed) {
                row.again += 1;
                note(format!("changed again in the second run: {}", first_line(&again[tag]["comment"])));
            }
            if let Some(why) = misprediction(predicted, ended) {
                row.wrong += 1;
                note(why.to_owned());
            }
        }
        out
    }

    /// True when every SLS converges as predicted.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.rows.values().all(SlsRow::is_good)
    }

    /// The result as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let rows = self.rows.iter().map(|(sls, row)| {
            let counts = json!({
                "states": row.states, "predicted": row.predicted, "changed": row.changed,
                "failed": row.failed, "changed_again": row.again, "mispredicted": row.wrong,
            });
            (sls.clone(), counts)
        });
        let problems: Vec<Value> =
            self.problems.iter().map(|(state, why)| json!({"state": state, "problem": why})).collect();
        json!({
            "success": self.is_good(),
            "sls": rows.collect::<serde_json::Map<_, _>>(),
            "problems": problems,
        })
    }
}

/// How the dry run was wrong. A state that failed has a problem of its own, and `unknown` promises nothing.
const fn misprediction(predicted: Option<Verdict>, ended: Verdict) -> Option<&'static str> {
    match (predicted, ended) {
        (None, Verdict::Changed) => Some("changed, and the dry run did not know it"),
        (Some(Verdict::Unchanged | Verdict::Skipped), Verdict::Changed) => {
            Some("changed, and the dry run predicted no change")
        }
        (Some(Verdict::Changed), Verdict::Unchanged | Verdict::Skipped) => {
            Some("did not change, and the dry run predicted a change")
        }
        (Some(Verdict::Failed), Verdict::Unchanged | Verdict::Changed) => {
            Some("succeeded, and the dry run predicted a failure")
        }
        _ => None,
    }
}

fn verdict(state: &Value) -> Verdict {
    if state["details"]["unknown"] == true {
        return Verdict::Unknown;
    }
    if state["skipped"] == true {
        return Verdict::Skipped;
    }
    match state["result"].as_bool() {
        Some(false) => Verdict::Failed,
        // A dry run that would change something has no result yet.
        None => Verdict::Changed,
        Some(true) if state["changes"].as_object().is_some_and(|changes| !changes.is_empty()) => {
            Verdict::Changed
        }
        Some(true) => Verdict::Unchanged,
    }
}

fn first_line(text: &Value) -> String {
    text.as_str()
        .and_then(|text| text.lines().find(|line| !line.trim().is_empty()))
        .unwrap_or_default()
        .to_owned()
}

/// `file_|-id_|-name_|-managed` as `file.managed id`.
fn shown(tag: &str) -> String {
    match tag.split("_|-").collect::<Vec<_>>().as_slice() {
        [state, id, _, fun] => format!("{state}.{fun} {id}"),
        _ => tag.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(result: Value, changes: Value) -> Value {
        json!({"__sls__": "web", "result": result, "changes": changes, "comment": "why\nmore", "skipped": false, "details": {}})
    }

    fn compare(dry: Value, run: Value, again: Value) -> Comparison {
        let report = |one: Value| json!({"states": {"file_|-a_|-/a_|-managed": one}});
        Comparison::new(&TestRuns { dry: report(dry), run: report(run), again: report(again) })
    }

    #[test]
    fn every_way_to_be_wrong_is_counted_and_named() {
        let (same, change) = (|| state(json!(true), json!({})), || state(json!(true), json!({"diff": "x"})));
        let (would, bad) = (|| state(Value::Null, json!({"diff": "x"})), || state(json!(false), json!({})));
        let good = compare(would(), change(), same());
        assert!(good.is_good() && good.problems.is_empty());
        let want = SlsRow { states: 1, predicted: 1, changed: 1, ..SlsRow::default() };
        assert_eq!(good.rows["web"], want);
        for (dry, run, again, why) in [
            (same(), change(), same(), "changed, and the dry run predicted no change"),
            (would(), same(), same(), "did not change, and the dry run predicted a change"),
            (would(), bad(), bad(), "failed: why"),
            (would(), change(), bad(), "failed in the second run: why"),
            (would(), change(), change(), "changed again in the second run: why"),
            (bad(), change(), same(), "succeeded, and the dry run predicted a failure"),
        ] {
            let told = compare(dry, run, again);
            assert!(!told.is_good());
            assert_eq!(told.problems, [("file.managed a".to_owned(), why.to_owned())]);
        }
        let mut unknown = would();
        unknown["details"] = json!({"unknown": true});
        assert!(compare(unknown, same(), same()).is_good(), "unknown promises nothing");
    }
}
