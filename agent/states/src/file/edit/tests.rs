//! Every edit side by side with Salt: the table holds what Salt 3008 did with each case, in a dry run and for real.

pub mod host;

use std::collections::BTreeMap;

use serde_json::Value as Json;
use zagent_compiler::{Chunk, Compat};
use zagent_config::{Map, Value};

use crate::testing::{MemoryFs, StateTestBed};
use crate::{CheckResult, StateError, Verdict, build};

const PATH: &str = "/tmp/fe/f";

fn value(json: &Json) -> Value {
    Value::from_json_str(&json.to_string()).unwrap()
}

fn map(json: &Json) -> Map {
    value(json).as_map().unwrap().clone()
}

/// Result, words and changes, as a report has them.
#[derive(Debug, PartialEq)]
struct EditTestReport {
    result: Option<bool>,
    comment: String,
    changes: Value,
}

impl EditTestReport {
    fn from_check(checked: &Result<CheckResult, StateError>) -> Self {
        match checked {
            Ok(checked) => Self {
                result: (checked.verdict == Verdict::InSync).then_some(true),
                comment: checked.comment.clone(),
                changes: checked.changes.clone().into(),
            },
            Err(failure) => Self::from_failure(failure),
        }
    }

    fn from_failure(failure: &StateError) -> Self {
        let done = failure.result.clone();
        Self { result: Some(false), comment: done.comment, changes: done.changes.into() }
    }
}

/// What a state says in a dry run and for real.
fn run_both(test_bed: &StateTestBed<MemoryFs>, chunk: &Chunk) -> (EditTestReport, EditTestReport) {
    let ctx = test_bed.scene();
    let mut state = match build(chunk) {
        Ok(state) => state,
        Err(failure) => {
            return (EditTestReport::from_failure(&failure), EditTestReport::from_failure(&failure));
        }
    };
    let checked = state.check(&ctx);
    let test = EditTestReport::from_check(&checked);
    let real = match checked {
        Ok(checked) if checked.verdict != Verdict::InSync => match state.apply(&ctx) {
            Ok(done) => {
                EditTestReport { result: Some(true), comment: done.comment, changes: done.changes.into() }
            }
            Err(failure) => EditTestReport::from_failure(&failure),
        },
        checked => EditTestReport::from_check(&checked),
    };
    if real.result == Some(true) && state.is_convergent() {
        let again = state.check(&ctx);
        assert!(matches!(&again, Ok(checked) if checked.verdict == Verdict::InSync), "{chunk:?}: {again:?}");
    }
    (test, real)
}

/// How what was told differs from what Salt told; its tracebacks are not compared, only that it failed.
fn differs(told: &EditTestReport, salt: &Json) -> Option<String> {
    let result = salt["result"].as_bool();
    let same = match salt["comment"].as_str() {
        None => told.result == Some(false),
        Some(comment) => {
            told.result == result && told.comment == comment && told.changes == value(&salt["changes"])
        }
    };
    (!same).then(|| format!("\n  told {told:?}\n  salt {salt}"))
}

fn compare(case: &Json) -> Vec<String> {
    let fun = case["fun"].as_str().unwrap();
    let test_bed = StateTestBed::in_memory(Compat::Salt);
    if let Some(old) = case["old"].as_str() {
        test_bed.fs.put_file(PATH, old.as_bytes());
    }
    let (test, real) = run_both(&test_bed, &Chunk::single("file", fun, PATH, map(&case["args"])));
    let files = test_bed.fs.texts();
    let mut faults = Vec::new();
    if let Some(fault) = differs(&test, &case["test"]).filter(|_| !case["odd"].as_bool().unwrap_or(false)) {
        faults.push(format!("dry run: {fault}"));
    }
    faults.extend(differs(&real, &case["real"]).map(|fault| format!("real: {fault}")));
    let mut want: BTreeMap<String, String> = BTreeMap::new();
    want.extend(case["new"].as_str().map(|text| (PATH.to_owned(), text.to_owned())));
    for kept in case["bak"].as_array().unwrap() {
        want.insert(format!("{PATH}{}", kept[0].as_str().unwrap()), kept[1].as_str().unwrap().to_owned());
    }
    if files != want {
        faults.push(format!("files: {files:?}\n  salt {want:?}"));
    }
    faults.iter().map(|f| format!("{fun} {} on {:?}\n  {f}\n", case["args"], case["old"])).collect()
}

#[test]
fn edits_do_and_say_what_salts_do() {
    let table: Json = serde_json::from_str(include_str!("cases/edits.json")).unwrap();
    let cases = table.as_array().unwrap();
    let faults: Vec<String> = cases.iter().flat_map(compare).collect();
    assert!(faults.is_empty(), "{} of {}:\n{}", faults.len(), cases.len(), faults.concat());
}

/// A patch that fits, that is in there already, or that does not fit: as the program `patch` in Salt's hands has it.
#[test]
fn patches_apply_as_salts_do() {
    let table: Json = serde_json::from_str(include_str!("cases/patch.json")).unwrap();
    let cases = table.as_array().unwrap();
    let mut faults = String::new();
    for case in cases {
        let test_bed = StateTestBed::in_memory(Compat::Salt);
        test_bed.fs.put_file(PATH, case["old"].as_str().unwrap().as_bytes());
        test_bed.fs.put_file("/tmp/fe/p", case["patch"].as_str().unwrap().as_bytes());
        let args = map(&serde_json::json!({"source": "/tmp/fe/p"}));
        let (test, real) = run_both(&test_bed, &Chunk::single("file", "patch", PATH, args));
        let same = test.result == case["test"].as_bool()
            && real.result == case["real"].as_bool()
            && case["comment"].as_str().is_none_or(|words| real.comment.lines().next() == Some(words))
            && test_bed.fs.texts().get(PATH).map(String::as_str) == case["new"].as_str()
            && case["stdout"].as_str().is_none_or(|text| real.changes.get("stdout") == Some(&text.into()));
        if !same {
            let new = test_bed.fs.texts().get(PATH).cloned();
            faults += &format!("patch {{ {test:?} {real:?} {new:?}\n  salt {case}\n");
        }
    }
    assert!(faults.is_empty(), "{faults}");
}
