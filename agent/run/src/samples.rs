//! Sample reports for tests.

#![expect(clippy::unwrap_used, reason = "a fixture that cannot be made has failed its test")]

use std::time::Duration;

use jiff::Timestamp;
use zagent_config::settings::RunSchedule;
use zagent_config::{Map, SecretMask, Value};

use crate::outcome::{FileLines, OutcomeDraft};

use crate::{IRREVERSIBLE, LEFT_ALONE, RunMode, RunReport, RunTrigger, SkipReason, StateOutcome};

/// Start time of all samples: 2026-11-16 08:45:12 UTC.
pub fn start() -> Timestamp {
    Timestamp::from_second(1_794_818_712).unwrap()
}

/// An unchanged state.
pub fn state(function: &str, id: &str, name: &str) -> StateOutcome {
    draft(function, id, name).into_outcome(&SecretMask::default(), FileLines::Shown)
}

/// The same before its secrets are masked.
pub(crate) fn draft(function: &str, id: &str, name: &str) -> OutcomeDraft {
    let (state, fun) = function.split_once('.').unwrap();
    OutcomeDraft {
        tag: format!("{state}_|-{id}_|-{name}_|-{fun}"),
        state: state.into(),
        fun: fun.into(),
        id: id.into(),
        sls: "web".into(),
        name: name.into(),
        about: None,
        result: Some(true),
        unknown: false,
        skip: None,
        changes: Map::new(),
        comment: "Success!".into(),
        diff: String::new(),
        details: Map::new(),
        run_num: 0,
        level: 0,
        start: start(),
        duration: Duration::from_micros(270),
    }
}

/// The same with changes, given as JSON.
pub fn changed(mut outcome: StateOutcome, comment: &str, changes: &str) -> StateOutcome {
    let Value::Map(changes) = Value::from_json_str(changes).unwrap() else { panic!("no mapping: {changes}") };
    (outcome.changes, outcome.comment) = ((*changes).clone(), comment.into());
    outcome
}

/// The same, failed.
pub fn bad(mut outcome: StateOutcome, comment: &str) -> StateOutcome {
    (outcome.result, outcome.comment) = (Some(false), comment.into());
    outcome
}

/// The same, skipped.
pub fn skipped(mut outcome: StateOutcome, reason: SkipReason, comment: &str) -> StateOutcome {
    outcome.result = Some(reason != SkipReason::RequireFailed);
    (outcome.skip, outcome.comment) = (Some(reason), comment.into());
    outcome
}

fn at_level(mut outcome: StateOutcome, level: usize) -> StateOutcome {
    outcome.level = level;
    outcome
}

/// A run of these states.
pub fn report(mode: RunMode, mut states: Vec<StateOutcome>) -> RunReport {
    for (n, state) in states.iter_mut().enumerate() {
        state.run_num = n as u64;
    }
    RunReport {
        run: "20261116T084512-3f9a7".into(),
        node: "web-01".into(),
        revision: "8d3c1f0a9b7e6d5c4b3a29180f7e6d5c4b3a2918".into(),
        mode,
        reverts: None,
        schedule: RunSchedule::Levels,
        trigger: RunTrigger::Manual,
        canceled: false,
        start: start(),
        duration: Duration::from_micros(12_345),
        states,
    }
}

/// A partial failure: a database that does not install, and its dependants.
pub fn failed() -> RunReport {
    let nginx = r#"{"nginx": {"old": "", "new": "1.22.1-9"}}"#;
    let conf = r#"{"diff": "--- \n+++ \n@@ -1,2 +1,2 @@\n workers 2\n-password=old\n+password=********\n"}"#;
    let run = r#"{"pid": 4711, "retcode": 3, "stdout": "", "stderr": "line 1\nline 2"}"#;
    let mut file = changed(state("file.managed", "/etc/nginx/nginx.conf", "/etc/nginx/nginx.conf"), "", conf);
    file.comment = "File /etc/nginx/nginx.conf updated".into();
    file.diff = file.changes.get("diff").and_then(Value::as_str).unwrap().into();
    file.level = 1;
    let postgres =
        bad(state("pkg.installed", "postgres", "postgresql"), "E: Unable to locate package postgresql");
    let postgres = changed(postgres.clone(), &postgres.comment, run);
    let need = |id: &str, who: &str| {
        let comment = format!("One or more requisite failed: web.{who}");
        skipped(state("file.managed", id, id), SkipReason::RequireFailed, &comment)
    };
    let quiet = "State was not run because none of the onchanges reqs changed";
    report(
        RunMode::Apply,
        vec![
            changed(state("pkg.installed", "nginx", "nginx"), "The following packages were installed", nginx),
            postgres,
            file,
            at_level(need("/etc/postgresql/pg.conf", "postgres"), 1),
            at_level(need("start_all", "/etc/postgresql/pg.conf"), 2),
            skipped(state("cmd.run", "reload", "systemctl reload nginx"), SkipReason::OnchangesNotMet, quiet),
        ],
    )
}

/// No changes.
pub fn quiet() -> RunReport {
    report(RunMode::Apply, (0..3).map(|n| state("test.nop", &format!("s{n}"), &format!("s{n}"))).collect())
}

/// A dry run, with one state that cannot be predicted.
pub fn dry_run() -> RunReport {
    let mut would =
        changed(state("file.managed", "motd", "/etc/motd"), "The file /etc/motd is set to be changed", "{}");
    would.result = None;
    would.diff = "--- \n+++ \n@@ -0,0 +1 @@\n+hello\n".into();
    would.changes.insert("newfile", "/etc/motd");
    let mut odd = state("module.run", "odd", "odd");
    (odd.result, odd.unknown, odd.comment) = (None, true, "unknown: it calls `pkg.upgrade`".into());
    report(
        RunMode::Test,
        vec![would, odd, state("test.nop", "ok", "ok"), bad(state("test.nop", "no", "no"), "Failure!")],
    )
}

/// An earlier run, reverted.
pub fn reverted() -> RunReport {
    let back = r#"{"mode": {"old": "0600", "new": "0644"}}"#;
    let mut kept =
        bad(state("file.managed", "issue", "/etc/issue"), "/etc/issue left alone: it was changed since");
    kept.details.insert(LEFT_ALONE, true);
    let mut command = state("cmd.run", "migrate", "migrate");
    command.comment = "what a command did cannot be undone".into();
    command.details.insert(IRREVERSIBLE, true);
    let motd = changed(state("file.managed", "motd", "/etc/motd"), "/etc/motd is as it was", back);
    let reverts = Some("20261116T080000-11122".into());
    RunReport { reverts, ..report(RunMode::Revert, vec![motd, kept, command]) }
}

/// Stopped by a signal, with text that would control a terminal.
pub fn stopped() -> RunReport {
    let hostile = bad(state("cmd.run", "evil\u{1b}[2J", "evil\u{1b}[2J"), "first\r\u{202e}\n\u{7}second");
    let rest = (0..12).map(|n| {
        skipped(
            state("test.nop", &format!("s{n}"), &format!("s{n}")),
            SkipReason::Cancelled,
            "The run was stopped",
        )
    });
    let states = std::iter::once(hostile).chain(rest).collect();
    RunReport { canceled: true, ..report(RunMode::Apply, states) }
}

/// Many states, one long diff and a failure among them.
pub fn long() -> RunReport {
    let mut states: Vec<StateOutcome> = (0..10)
        .map(|n| {
            changed(
                state("test.nop", &format!("c{n}"), &format!("c{n}")),
                "Changed",
                r#"{"a": [1, {"b": null}]}"#,
            )
        })
        .collect();
    states[0].diff = (0..40).map(|n| format!("+line {n}\n")).collect();
    states.insert(5, bad(state("test.nop", "broken", "broken"), "It broke\nbadly"));
    report(RunMode::Apply, states)
}
