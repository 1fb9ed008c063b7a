//! Two lists of low chunks in, the first relevant difference out.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::compare::{equal, requisites};
use super::{Rigour, Verdict, differs};

const REQUISITES: [&str; 11] = [
    "require",
    "require_any",
    "watch",
    "watch_any",
    "onchanges",
    "onchanges_any",
    "onfail",
    "onfail_any",
    "onfail_all",
    "prereq",
    "listen",
];
const TURNED: [&str; 8] =
    ["require_in", "watch_in", "onchanges_in", "onfail_in", "prereq_in", "listen_in", "use", "use_in"];
const INTERNAL: [&str; 13] = [
    "order",
    "name_order",
    "__sls_included_from__",
    "__prereq__",
    "__prerequiring__",
    "__env__",
    "__umask__",
    "__agg__",
    "state",
    "name",
    "fun",
    "__id__",
    "__sls__",
];

type Chunk = Map<String, Value>;

/// Compares low state by sequence, SLS, requisites and arguments.
pub(crate) fn compare(expected: &Value, got: &Value, rigour: Rigour) -> Verdict {
    let (Some(expected), Some(got)) = (chunks(expected), chunks(got)) else {
        return differs(format!("lowstate: a list of mappings is expected, got {got}"));
    };
    let (expected, got) = match rigour {
        Rigour::Meaning => (once(expected), once(got)),
        Rigour::Letter => (expected, got),
    };
    sequence(&expected, &got)?;
    expected.iter().zip(&got).try_for_each(|(expected, got)| chunk(expected, got, rigour))
}

fn chunks(value: &Value) -> Option<Vec<&Chunk>> {
    value.as_array()?.iter().map(Value::as_object).collect()
}

fn tag(chunk: &Chunk) -> String {
    let part = |key| match chunk.get(key) {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => "None".to_owned(),
    };
    format!("{}_|-{}_|-{}_|-{}", part("state"), part("__id__"), part("name"), part("fun"))
}

/// Salt lists a prereq target twice, for its test run and its real run: the last one counts.
fn once(chunks: Vec<&Chunk>) -> Vec<&Chunk> {
    let mut seen = BTreeSet::new();
    let mut last: Vec<_> = chunks.into_iter().rev().filter(|chunk| seen.insert(tag(chunk))).collect();
    last.reverse();
    last
}

fn sequence(expected: &[&Chunk], got: &[&Chunk]) -> Verdict {
    let tags = |chunks: &[&Chunk]| chunks.iter().map(|chunk| tag(chunk)).collect::<Vec<_>>();
    let (expected, got) = (tags(expected), tags(got));
    let missing: Vec<_> = expected.iter().filter(|tag| !got.contains(tag)).collect();
    let extra: Vec<_> = got.iter().filter(|tag| !expected.contains(tag)).collect();
    if !missing.is_empty() || !extra.is_empty() || expected.len() != got.len() {
        return differs(format!(
            "lowstate: missing {missing:?} extra {extra:?} ({} of {})",
            got.len(),
            expected.len()
        ));
    }
    match (0..expected.len()).find(|&i| expected[i] != got[i]) {
        Some(i) => {
            differs(format!("lowstate: order differs at {i}: expected {} got {}", expected[i], got[i]))
        }
        None => Ok(()),
    }
}

fn chunk(expected: &Chunk, got: &Chunk, rigour: Rigour) -> Verdict {
    let tag = tag(expected);
    let strict = rigour == Rigour::Letter;
    let plain: &[&str] = if strict { &["__sls__", "__env__", "order"] } else { &["__sls__"] };
    for key in plain {
        let (e, g) = (expected.get(*key).unwrap_or(&Value::Null), got.get(*key).unwrap_or(&Value::Null));
        if !equal(e, g) {
            return differs(format!("lowstate {tag}: {key} expected {e} got {g}"));
        }
    }
    let turned: &[&str] = if strict { &TURNED } else { &[] };
    for key in REQUISITES.iter().chain(turned) {
        let (e, g) = (requisites(expected.get(*key)), requisites(got.get(*key)));
        if e != g {
            return differs(format!("lowstate {tag}: {key} expected {e:?} got {g:?}"));
        }
    }
    arguments(&tag, expected, got)
}

fn arguments(tag: &str, expected: &Chunk, got: &Chunk) -> Verdict {
    let own = |key: &str| !REQUISITES.contains(&key) && !TURNED.contains(&key) && !INTERNAL.contains(&key);
    let names = |chunk: &Chunk| chunk.keys().filter(|key| own(key)).cloned().collect::<BTreeSet<_>>();
    let (e, g) = (names(expected), names(got));
    if e != g {
        return differs(format!("lowstate {tag}: arguments expected {e:?} got {g:?}"));
    }
    match e.iter().find(|key| !equal(&expected[*key], &got[*key])) {
        Some(key) => differs(format!("lowstate {tag}: {key} expected {} got {}", expected[key], got[key])),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(id: &str, more: &Value) -> Value {
        let mut chunk =
            json!({"state": "test", "fun": "nop", "name": id, "__id__": id, "__sls__": "a", "order": 1});
        for (key, value) in more.as_object().into_iter().flatten() {
            chunk[key] = value.clone();
        }
        chunk
    }

    #[test]
    fn sequence_requisites_and_arguments_must_agree() {
        let base = json!([of("a", &json!({})), of("b", &json!({"require": [{"test": "a"}], "v": 1}))]);
        let same = json!([
            of("a", &json!({"order": 9})),
            of("b", &json!({"v": 1, "require": [{"test": "a"}, {"test": "a"}]}))
        ]);
        assert!(compare(&base, &same, Rigour::Meaning).is_ok());
        assert!(compare(&base, &same, Rigour::Letter).is_err(), "order numbers count to the letter");
        for other in [
            json!([of("b", &json!({"require": [{"test": "a"}], "v": 1})), of("a", &json!({}))]),
            json!([of("a", &json!({})), of("b", &json!({"v": 1}))]),
            json!([of("a", &json!({})), of("b", &json!({"require": [{"test": "a"}], "v": 2}))]),
            json!([of("a", &json!({}))]),
            json!([of("a", &json!({"__sls__": "z"})), of("b", &json!({"require": [{"test": "a"}], "v": 1}))]),
            json!({}),
        ] {
            assert!(compare(&base, &other, Rigour::Meaning).is_err(), "{other}");
        }
    }

    #[test]
    fn a_prereq_target_counts_once() {
        let twice = json!([of("t", &json!({"__prereq__": true})), of("a", &json!({})), of("t", &json!({}))]);
        let single = json!([of("a", &json!({})), of("t", &json!({}))]);
        assert!(compare(&twice, &single, Rigour::Meaning).is_ok());
        assert!(compare(&twice, &single, Rigour::Letter).is_err());
    }
}
