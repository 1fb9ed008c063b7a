//! Salt's report and zagent's report of a run in, the first relevant difference out.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::compare::equal;
use super::{Closeness, Verdict, differs};

type States = Map<String, Value>;

/// Compares the states of two reports: which exist, their run numbers, results, whether they changed something; and
/// their comments and changes on request.
pub(crate) fn compare(label: &str, expected: &Value, got: &Value, closeness: Closeness) -> Verdict {
    let got = got.get("states").unwrap_or(got);
    let (Value::Object(expected), Value::Object(got)) = (expected, got) else {
        return differs(format!("{label}: a mapping is expected, got {got}"));
    };
    tags(label, expected, got)?;
    expected.iter().try_for_each(|(tag, state)| one(&format!("{label} {tag}"), state, &got[tag], closeness))
}

fn tags(label: &str, expected: &States, got: &States) -> Verdict {
    let keys = |states: &States| states.keys().cloned().collect::<BTreeSet<_>>();
    let (e, g) = (keys(expected), keys(got));
    let missing: Vec<_> = e.difference(&g).collect();
    let extra: Vec<_> = g.difference(&e).collect();
    if missing.is_empty() && extra.is_empty() {
        return Ok(());
    }
    differs(format!("{label}: states missing {missing:?} extra {extra:?}"))
}

fn one(label: &str, expected: &Value, got: &Value, closeness: Closeness) -> Verdict {
    if !got.is_object() {
        return differs(format!("{label}: a mapping is expected, got {got}"));
    }
    let said = format!("({} against {})", got["comment"], expected["comment"]);
    for key in ["result", "__run_num__"] {
        if expected[key] != got[key] {
            return differs(format!("{label}: {key} expected {} got {} {said}", expected[key], got[key]));
        }
    }
    if expected["changes_empty"] != is_empty(&got["changes"]) {
        return differs(format!("{label}: changes expected {} got {}", expected["changes"], got["changes"]));
    }
    for key in ["name", "__id__", "__sls__"] {
        if !expected[key].is_null() && expected[key] != got[key] {
            return differs(format!("{label}: {key} expected {} got {}", expected[key], got[key]));
        }
    }
    if closeness == Closeness::Verdicts {
        return Ok(());
    }
    for key in ["skip_watch", "skip_req", "__state_ran__", "__parallel__"] {
        if expected[key] != got[key] {
            return differs(format!("{label}: {key} expected {} got {}", expected[key], got[key]));
        }
    }
    if words(&expected["comment"]) != words(&got["comment"]) {
        return differs(format!("{label}: comment expected {} got {}", expected["comment"], got["comment"]));
    }
    if !equal(&expected["changes"], &impersonal(&got["changes"])) {
        return differs(format!("{label}: changes expected {} got {}", expected["changes"], got["changes"]));
    }
    Ok(())
}

fn is_empty(changes: &Value) -> bool {
    changes.as_object().is_none_or(Map::is_empty)
}

/// Changes without the process id, which differs each time.
fn impersonal(changes: &Value) -> Value {
    let mut changes = changes.clone();
    if let Some(pid) = changes.get_mut("pid") {
        *pid = json!("@PID@");
    }
    changes
}

/// A comment without what Salt itself leaves random: the order of failed requisites, and the trace of an exception.
fn words(comment: &Value) -> String {
    const FAILED: &str = "One or more requisite failed: ";
    const RAISED: &str = "An exception occurred in this state";
    let text = comment.as_str().map_or_else(|| comment.to_string(), str::to_owned);
    if let Some(list) = text.strip_prefix(FAILED) {
        let mut names: Vec<_> = list.split(", ").collect();
        names.sort_unstable();
        return format!("{FAILED}{}", names.join(", ")).trim().to_owned();
    }
    if text.starts_with(&format!("{RAISED}: ")) { RAISED.to_owned() } else { text.trim().to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(more: &Value) -> Value {
        let mut state = json!({
            "__id__": "a", "__sls__": "s", "__run_num__": 0, "name": "a", "result": true, "changes_empty": false,
            "changes": {"pid": "@PID@", "x": 1}, "comment": "One or more requisite failed: s.b, s.a",
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            state[key] = value.clone();
        }
        state
    }

    fn agree(got: &Value, closeness: Closeness) -> bool {
        let got = json!({"success": true, "states": {"t": got}});
        compare("run", &json!({"t": state(&json!({}))}), &got, closeness).is_ok()
    }

    #[test]
    fn every_verdict_counts() {
        let other = json!({"comment": "else", "changes": {"x": 2}});
        assert!(agree(&state(&other), Closeness::Verdicts));
        for wrong in [
            json!({"result": null}),
            json!({"result": false}),
            json!({"__run_num__": 1}),
            json!({"changes": {}}),
            json!({"name": "b"}),
            json!({"__id__": "b"}),
            json!({"__sls__": "b"}),
        ] {
            assert!(!agree(&state(&wrong), Closeness::Verdicts), "{wrong}");
        }
        assert!(!agree(&json!("x"), Closeness::Verdicts));
    }

    #[test]
    fn states_may_neither_be_missing_nor_extra() {
        let (one, two) =
            (json!({"t": state(&json!({}))}), json!({"t": state(&json!({})), "u": state(&json!({}))}));
        assert!(compare("run", &one, &two, Closeness::Verdicts).is_err());
        assert!(compare("run", &two, &one, Closeness::Verdicts).is_err());
        assert!(compare("run", &one, &json!([]), Closeness::Verdicts).is_err());
    }

    #[test]
    fn comments_count_except_what_salt_leaves_random() {
        let same =
            json!({"comment": "One or more requisite failed: s.a, s.b\n", "changes": {"x": 1, "pid": 77}});
        assert!(agree(&state(&same), Closeness::Words));
        for wrong in [
            json!({"comment": "One or more requisite failed: s.a"}),
            json!({"comment": "else"}),
            json!({"changes": {"x": 2, "pid": 77}}),
            json!({"changes": {"x": 1}}),
        ] {
            assert!(!agree(&state(&wrong), Closeness::Words), "{wrong}");
        }
        let raised = |why: &str| words(&json!(format!("An exception occurred in this state: {why}")));
        assert_eq!(raised("Traceback"), raised("what it means"));
    }
}
