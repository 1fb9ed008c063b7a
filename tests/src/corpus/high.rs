//! Two high states in, the first relevant difference out.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::compare::equal;
use super::{Rigour, Verdict, differs};

/// Compares high state by ids, SLS, state modules, functions and arguments.
pub(crate) fn compare(expected: &Value, got: &Value, rigour: Rigour) -> Verdict {
    let (Value::Object(expected), Value::Object(got)) = (expected, got) else {
        return differs(format!("highstate: a mapping is expected, got {got}"));
    };
    if rigour == Rigour::Letter {
        let same = expected.keys().eq(got.keys()) && expected.iter().all(|(id, body)| equal(body, &got[id]));
        return if same { Ok(()) } else { differs("highstate: not identical") };
    }
    let (e, g) = (ids(expected), ids(got));
    if e != g {
        let missing: Vec<_> = e.difference(&g).collect();
        let extra: Vec<_> = g.difference(&e).collect();
        return differs(format!("highstate: ids missing {missing:?} extra {extra:?}"));
    }
    e.iter().try_for_each(|id| body(id, &expected[*id], &got[*id]))
}

fn ids(high: &Map<String, Value>) -> BTreeSet<&str> {
    high.keys().map(String::as_str).filter(|id| !id.starts_with("__")).collect()
}

fn body(id: &str, expected: &Value, got: &Value) -> Verdict {
    let (Value::Object(expected), Value::Object(got)) = (expected, got) else {
        return if equal(expected, got) {
            Ok(())
        } else {
            differs(format!("highstate {id}: expected {expected} got {got}"))
        };
    };
    if expected.get("__sls__") != got.get("__sls__") {
        return differs(format!(
            "highstate {id}: __sls__ expected {:?} got {:?}",
            expected.get("__sls__"),
            got.get("__sls__")
        ));
    }
    let (e, g) = (states(expected), states(got));
    if !e.keys().eq(g.keys()) {
        return differs(format!("highstate {id}: states expected {:?} got {:?}", e.keys(), g.keys()));
    }
    for (name, state) in &e {
        let other = &g[name];
        if state.functions != other.functions {
            return differs(format!(
                "highstate {id}.{name}: functions expected {:?} got {:?}",
                state.functions, other.functions
            ));
        }
        let keys = state.arguments.keys().chain(other.arguments.keys());
        for key in keys {
            let (e, g) = (values(state, key), values(other, key));
            if e.len() != g.len() || !e.iter().zip(g).all(|(e, g)| equal(e, g)) {
                return differs(format!("highstate {id}.{name}: {key} expected {e:?} got {g:?}"));
            }
        }
    }
    Ok(())
}

/// One state of an id, its items separated: functions as a multiset, arguments by name.
#[derive(Default)]
struct State<'a> {
    functions: Vec<String>,
    arguments: BTreeMap<&'a str, Vec<&'a Value>>,
}

fn values<'s, 'a>(state: &'s State<'a>, key: &str) -> &'s [&'a Value] {
    state.arguments.get(key).map_or(&[], Vec::as_slice)
}

fn states(body: &Map<String, Value>) -> BTreeMap<&str, State<'_>> {
    let mut states = BTreeMap::new();
    for (name, items) in body.iter().filter(|(name, _)| !name.starts_with("__")) {
        let mut state = State::default();
        let items = items.as_array().map_or(std::slice::from_ref(items), Vec::as_slice);
        for item in items {
            match item {
                Value::Object(arguments) => {
                    for (key, value) in arguments {
                        state.arguments.entry(key).or_default().push(value);
                    }
                }
                Value::String(function) => state.functions.push(function.clone()),
                other => state.functions.push(other.to_string()),
            }
        }
        state.functions.sort();
        states.insert(name.as_str(), state);
    }
    states
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn ids_functions_and_arguments_must_agree_and_their_order_need_not() {
        let base = json!({"a": {"test": ["nop", {"v": 1}, {"order": 1}], "__sls__": "x", "__env__": "base"}, "__extend__": []});
        let same = json!({"a": {"__sls__": "x", "test": [{"order": 1}, {"v": 1}, "nop"]}});
        assert!(compare(&base, &same, Rigour::Meaning).is_ok());
        assert!(compare(&base, &same, Rigour::Letter).is_err());
        for other in [
            json!({}),
            json!({"a": {"test": ["nop", {"v": 2}, {"order": 1}], "__sls__": "x"}}),
            json!({"a": {"test": ["fail", {"v": 1}, {"order": 1}], "__sls__": "x"}}),
            json!({"a": {"test": ["nop", {"v": 1}, {"order": 1}], "__sls__": "y"}}),
            json!({"a": {"test": ["nop", {"v": 1}, {"order": 1}, {"w": 1}], "__sls__": "x"}}),
            json!({"a": {"file": ["nop", {"v": 1}, {"order": 1}], "__sls__": "x"}}),
            json!([]),
        ] {
            assert!(compare(&base, &other, Rigour::Meaning).is_err(), "{other}");
        }
    }
}
