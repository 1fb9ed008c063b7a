//! Real formulas in, the same host as with Salt out. `FORMULAS=DIR` has their checkouts, `SALT=DIR` a virtualenv with
//! Salt, `TWINS=DIR` earlier Salt results; `FORMULA=a,b` selects some, `FORMULAS_PAGE=FILE` writes the page,
//! `SIDE=salt` only records; `SCHEDULE=ordered` runs them in Salt's order.

#![allow(clippy::disallowed_methods, reason = "tests use the machine directly")]

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Instant;

use serde_json::Value;
use zagent_tests::container::is_asked_for;
use zagent_tests::twin::{Outcome, Plan, Side, compare, foresight, page, plans, record, results, zagent};

fn var(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from)
}

/// States that failed, or the error that stopped the run.
fn failed(side: &Side) -> Vec<String> {
    if let Some(error) = side.first.get("error") {
        return vec![error.to_string()];
    }
    let states = side.first.as_object().into_iter().flatten();
    states.filter(|(_, s)| s["result"] == false).map(|(tag, s)| format!("{tag}: {}", s["comment"])).collect()
}

fn restless(side: &Side) -> Vec<String> {
    let states = side.second.as_object().into_iter().flatten();
    states.filter(|(_, s)| s["changed"] == true).map(|(tag, s)| format!("{tag}: {}", s["changes"])).collect()
}

/// The lines of the first whose state is not in the second.
fn without(lines: Vec<String>, others: &[String]) -> Vec<String> {
    let tag = |line: &str| line.split(": ").next().unwrap_or_default().to_owned();
    lines.into_iter().filter(|line| !others.iter().any(|o| tag(o) == tag(line))).collect()
}

fn outcome(plan: &Plan, salt: &Side, ours: &Side) -> Outcome {
    let reason = |line: &str| plan.explained.iter().find(|(part, _)| line.contains(part.as_str()));
    let (explained, differences): (Vec<_>, Vec<_>) =
        compare(salt, ours).into_iter().partition(|line| reason(line).is_some());
    let told = |line: String| reason(&line).map(|(_, why)| format!("{line}: {why}")).unwrap_or(line);
    Outcome {
        plan: plan.clone(),
        states: ours.first.as_object().map_or(0, |states| states.len()),
        failed: without(failed(ours), &failed(salt)),
        failing: failed(salt).len(),
        restless: without(restless(ours), &restless(salt)),
        foresight: foresight(ours),
        differences,
        explained: explained.into_iter().map(told).collect(),
        results: results(salt, ours),
    }
}

#[test]
fn formulas_give_the_same_host_as_salt() {
    if !is_asked_for() {
        return;
    }
    let dir = var("FORMULAS").expect("FORMULAS names the directory of their checkouts");
    let (salt, twins) = (var("SALT"), var("TWINS").expect("TWINS names a directory"));
    let only = std::env::var("FORMULA").unwrap_or_default();
    let wanted = |plan: &Plan| only.is_empty() || only.split(',').any(|name| name == plan.name);
    let (run, out): (Vec<Plan>, Vec<Plan>) =
        plans(&dir).into_iter().filter(wanted).partition(|plan| plan.out.is_empty());
    let just_salt = std::env::var("SIDE").is_ok_and(|side| side == "salt");
    let queue = Mutex::new(run.iter());
    let outcomes = Mutex::new(Vec::new());
    let jobs = std::env::var("NSPAWN_JOBS").ok().and_then(|n| n.parse().ok()).unwrap_or(2);
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some(plan) = { queue.lock().unwrap().next() } {
                    let begun = Instant::now();
                    let theirs = record(plan, &twins, salt.as_deref());
                    if just_salt {
                        let (failed, again) = (failed(&theirs), restless(&theirs));
                        println!(
                            "{:6.1} s  {}: failed {failed:#?} again {again:#?}",
                            begun.elapsed().as_secs_f32(),
                            plan.name
                        );
                        continue;
                    }
                    let outcome = outcome(plan, &theirs, &zagent(plan));
                    println!("{:6.1} s  {}: {outcome:#?}", begun.elapsed().as_secs_f32(), plan.name);
                    outcomes.lock().unwrap().push(outcome);
                }
            });
        }
    });
    let mut outcomes: Vec<Outcome> = outcomes.into_inner().unwrap();
    outcomes.sort_by(|a, b| a.plan.name.cmp(&b.plan.name));
    if let Some(path) = var("FORMULAS_PAGE") {
        std::fs::write(path, page(&outcomes, &out)).unwrap();
    }
    let bad: Vec<&str> = outcomes.iter().filter(|o| !o.is_good()).map(|o| o.plan.name.as_str()).collect();
    assert!(bad.is_empty(), "{} of {} formulas: {bad:?}", bad.len(), outcomes.len());
    let good = outcomes.iter().filter(|o| o.states > 0).count();
    assert!(just_salt || !only.is_empty() || good >= 25, "only {good} formulas ran");
}

#[test]
fn the_table_of_formulas_can_be_read() {
    let table = include_str!("../../formulas.yaml");
    let table: Value = serde_yaml_to_json(table);
    let known = ["sls", "example", "pillar", "options", "setup", "out", "explained"];
    for (name, told) in table.as_object().expect("a map") {
        for key in told.as_object().into_iter().flatten().map(|(key, _)| key) {
            assert!(known.contains(&key.as_str()), "{name}: what is `{key}`?");
        }
    }
}

fn serde_yaml_to_json(text: &str) -> Value {
    serde_yaml::from_str(text).unwrap_or_else(|e| panic!("formulas.yaml: {e}"))
}
