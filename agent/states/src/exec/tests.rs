//! The decision table and the two messages of a dry run, row by row, with real commands.

use super::super::testing::{
    StateTestBed, apply_chunk, apply_line, build_state, check_line, chunk, preview_chunk,
};
use super::*;

#[test]
fn decision_table() {
    let none = ExecFacts::default();
    let rows = [
        ("subscribe triggered", ExecFacts { is_triggered: true, ..none }, ExecDecision::Refresh),
        (
            "triggered, file exists",
            ExecFacts { is_triggered: true, is_created: true, ..none },
            ExecDecision::Refresh,
        ),
        (
            "triggered, onlyif fails",
            ExecFacts { is_triggered: true, onlyif: Some(false), ..none },
            ExecDecision::Refresh,
        ),
        (
            "triggered, unless holds",
            ExecFacts { is_triggered: true, unless: Some(true), ..none },
            ExecDecision::Refresh,
        ),
        (
            "triggered, refresh_only",
            ExecFacts { is_triggered: true, refresh_only: true, ..none },
            ExecDecision::Refresh,
        ),
        ("creates file exists", ExecFacts { is_created: true, ..none }, ExecDecision::Created),
        (
            "exists, onlyif holds",
            ExecFacts { is_created: true, onlyif: Some(true), ..none },
            ExecDecision::Created,
        ),
        (
            "exists, refresh_only",
            ExecFacts { is_created: true, refresh_only: true, ..none },
            ExecDecision::Created,
        ),
        ("onlyif exits non-zero", ExecFacts { onlyif: Some(false), ..none }, ExecDecision::OnlyifFailed),
        ("onlyif exits 0", ExecFacts { onlyif: Some(true), ..none }, ExecDecision::Execute),
        ("unless exits 0", ExecFacts { unless: Some(true), ..none }, ExecDecision::UnlessSucceeded),
        ("unless exits non-zero", ExecFacts { unless: Some(false), ..none }, ExecDecision::Execute),
        (
            "both guards let it",
            ExecFacts { onlyif: Some(true), unless: Some(false), ..none },
            ExecDecision::Execute,
        ),
        (
            "both guards hold",
            ExecFacts { onlyif: Some(true), unless: Some(true), ..none },
            ExecDecision::UnlessSucceeded,
        ),
        ("refresh_only, no trigger", ExecFacts { refresh_only: true, ..none }, ExecDecision::RefreshOnly),
        (
            "refresh_only, guards let it",
            ExecFacts { refresh_only: true, onlyif: Some(true), ..none },
            ExecDecision::RefreshOnly,
        ),
        ("no guards", none, ExecDecision::Execute),
    ];
    for (name, found, want) in rows {
        assert_eq!(decide(&found), want, "{name}");
    }
}

/// Arguments; what a dry run says, and whether the command runs, without and with a trigger.
type Row = (&'static str, &'static str, bool);

const SUBSCRIBE: &str = r#"null "Would have executed via subscribe""#;
const EXECUTE: &str = r#"null "Would have executed""#;

#[test]
fn the_table_holds_on_a_host_and_dry_runs_say_so() {
    let rows: [Row; 9] = [
        ("", EXECUTE, true),
        (r#", "creates": "/etc/passwd""#, r#"true "/etc/passwd exists""#, false),
        (r#", "creates": "/etc/passwd", "onlyif": "/no/such/guard""#, r#"true "/etc/passwd exists""#, false),
        (r#", "onlyif": "false""#, r#"true "onlyif condition is false""#, false),
        (r#", "onlyif": "true""#, EXECUTE, true),
        (r#", "unless": "true""#, r#"true "unless condition is true""#, false),
        (r#", "unless": "false""#, EXECUTE, true),
        (r#", "refresh_only": true"#, r#"true "refresh_only: nothing it subscribes to has changed""#, false),
        (
            r#", "refresh_only": true, "onlyif": "true""#,
            r#"true "refresh_only: nothing it subscribes to has changed""#,
            false,
        ),
    ];
    for provider in ["posix", "shell"] {
        for (more, dry, runs) in rows {
            for triggered in [false, true] {
                let test_bed = StateTestBed::new();
                let made = test_bed.path("made");
                let args = format!(r#"{{"command": "touch {made}", "provider": "{provider}"{more}}}"#);
                let chunk = chunk("exec.run", "x", &args);
                if triggered {
                    test_bed.set_watched_changes(&chunk, &["file: /etc/x"]);
                }
                let want = if triggered { SUBSCRIBE } else { dry };
                let said = preview_chunk(&chunk, &test_bed.scene());
                assert!(said.starts_with(&format!("{want} ")), "{args} {triggered}: {said}");
                assert!(!test_bed.exists("made"), "a dry run ran it: {args}");
                apply_chunk(&chunk, &test_bed.scene());
                assert_eq!(test_bed.exists("made"), runs || triggered, "{args} {triggered}");
            }
        }
    }
}

#[test]
fn details_say_what_was_found_and_how_it_ended() {
    for (args, triggered, want) in [
        (r#"{"creates": "/etc/passwd", "onlyif": "true"}"#, false, "true null null null"),
        (r#"{"onlyif": "false", "unless": "false"}"#, false, "false false null null"),
        (r#"{"onlyif": "true", "unless": "true"}"#, false, "false true true null"),
        (r#"{"onlyif": "true", "unless": "false"}"#, false, "false true false 0"),
        (r#"{"onlyif": "false", "unless": "true"}"#, true, "false false true 0"),
        (r#"{"refresh_only": true}"#, false, "false null null null"),
        (r#"{"command": "sh -c 'exit 7'"}"#, false, "false null null 7"),
        (r#"{"command": "no-such-program"}"#, false, "false null null null"),
        (r#"{"unless": "no-such-program"}"#, false, "false null null null"),
        (r#"{"command": "sleep 1000", "timeout": 0.05}"#, false, "false null null null"),
    ] {
        let test_bed = StateTestBed::new();
        let chunk = chunk("exec.run", "true", args);
        if triggered {
            test_bed.set_watched_changes(&chunk, &["file: /etc/x"]);
        }
        let mut state = build_state(&chunk);
        let details = match state.check(&test_bed.scene()) {
            Ok(look) if look.verdict == super::super::Verdict::InSync => look.details,
            Ok(_) => match state.apply(&test_bed.scene()) {
                Ok(done) => done.details,
                Err(failure) => failure.result.details,
            },
            Err(failure) => failure.result.details,
        };
        let keys = ["creates_satisfied", "onlyif_satisfied", "unless_satisfied", "exit_code"];
        let said: Vec<String> =
            keys.iter().map(|key| serde_json::to_string(details.get(key).unwrap()).unwrap()).collect();
        assert_eq!(said.join(" "), want, "{args} {triggered}");
    }
}

#[test]
fn guards_of_a_triggered_command_are_evaluated_and_their_errors_show() {
    let test_bed = StateTestBed::new();
    let (made, guarded) = (test_bed.path("made"), test_bed.path("guarded"));
    let args = format!(r#"{{"command": "touch {made}", "onlyif": "touch {guarded}"}}"#);
    let seen = chunk("exec.run", "x", &args);
    test_bed.set_watched_changes(&seen, &["file: /etc/x"]);
    assert!(preview_chunk(&seen, &test_bed.scene()).starts_with(SUBSCRIBE));
    assert!(test_bed.exists("guarded"), "the guard was not evaluated");
    for guard in ["onlyif", "unless"] {
        let args = format!(r#"{{"command": "touch {made}", "{guard}": "/no/such/guard"}}"#);
        let broken = chunk("exec.run", guard, &args);
        test_bed.set_watched_changes(&broken, &["file: /etc/x"]);
        let said = apply_chunk(&broken, &test_bed.scene());
        assert!(said.starts_with(&format!("false \"cannot tell whether `{guard}` holds")), "{said}");
        let said = apply_line(build_state(&broken).react(&test_bed.scene()));
        assert!(said.contains("cannot tell whether"), "{said}");
        assert!(!test_bed.exists("made"));
    }
}

#[test]
fn a_reaction_needs_no_guard() {
    let test_bed = StateTestBed::new();
    let made = test_bed.path("made");
    let args = format!(r#"{{"command": "touch {made}", "onlyif": "false", "creates": "/etc/passwd"}}"#);
    let chunk = chunk("exec.run", "x", &args);
    assert!(check_line(build_state(&chunk).predict_reaction(&test_bed.scene())).starts_with(SUBSCRIBE));
    let said = apply_line(build_state(&chunk).react(&test_bed.scene()));
    assert!(
        said.starts_with(&format!(r#"true "Command \"touch {made}\" executed via subscribe""#)),
        "{said}"
    );
    assert!(test_bed.exists("made"));
}

#[test]
fn a_guard_that_fails_is_an_answer_and_one_that_cannot_start_is_not() {
    let test_bed = StateTestBed::new();
    let script = test_bed.path("not-executable");
    std::fs::write(&script, "#!/bin/sh\n").unwrap();
    for guard in ["onlyif", "unless"] {
        for (line, want) in
            [("no-such-program", "cannot start"), (script.as_str(), "denied"), ("sleep 1000", "in time")]
        {
            let args = format!(r#"{{"command": "true", "{guard}": "{line}", "timeout": "50ms"}}"#);
            for said in
                [preview_chunk, apply_chunk].map(|act| act(&chunk("exec.run", "x", &args), &test_bed.scene()))
            {
                assert!(said.starts_with(&format!("false \"cannot tell whether `{guard}` holds")), "{said}");
                assert!(said.contains(want), "{said}");
            }
        }
    }
}

#[test]
fn exit_codes_and_the_created_file_decide_success() {
    let test_bed = StateTestBed::new();
    let made = test_bed.path("made");
    for (args, want) in [
        (r#"{"command": "sh -c 'exit 3'"}"#.to_owned(), false),
        (r#"{"command": "sh -c 'exit 3'", "returns": [0, 3]}"#.into(), true),
        (r#"{"command": "true", "returns": [1]}"#.into(), false),
        (r#"{"command": "false", "returns": 1}"#.into(), true),
        (r#"{"command": "true", "creates": "/no/such/file"}"#.into(), true),
        (format!(r#"{{"command": "sh -c 'touch {made}; exit 3'", "creates": "{made}"}}"#), true),
        (r#"{"command": "sleep 1000", "timeout": 0.05, "returns": [1]}"#.into(), false),
        (r#"{"command": "no-such-program"}"#.into(), false),
    ] {
        let said = apply_chunk(&chunk("exec.run", "x", &args), &test_bed.scene());
        assert_eq!(said.starts_with("true "), want, "{args}: {said}");
    }
    let said = apply_chunk(&chunk("exec.run", "sh -c 'exit 7'", "{}"), &test_bed.scene());
    assert_eq!(
        said,
        r#"false "Command \"sh -c 'exit 7'\" executed and returned 7, not one of: 0" {"pid":1,"retcode":7,"stdout":"","stderr":""}"#
    );
}

#[test]
fn command_and_guards_share_directory_environment_and_path() {
    let test_bed = StateTestBed::new();
    let bin = test_bed.path("bin");
    std::fs::create_dir(&bin).unwrap();
    let tool = format!("{bin}/tool");
    std::fs::write(&tool, "#!/bin/sh\necho \"$A in $PWD\"\ntest \"$A\" = 'b c'\n").unwrap();
    std::fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let args = format!(
        r#"{{"command": "tool", "onlyif": "tool", "cwd": "/usr", "environment": ["A=b c"], "path": "{bin}:/bin"}}"#
    );
    let said = apply_chunk(&chunk("exec.run", "x", &args), &test_bed.scene());
    assert!(said.contains(r#""stdout":"b c in /usr""#), "{said}");
}

#[test]
fn posix_expands_nothing_and_shell_does() {
    let test_bed = StateTestBed::new();
    for (provider, want) in [("posix", "$HOME * | cat"), ("shell", "x")] {
        let args = format!(r#"{{"provider": "{provider}", "environment": {{"X": "x"}}}}"#);
        let name = if provider == "posix" { "echo '$HOME' * | cat" } else { "echo $X | cat" };
        let said = apply_chunk(&chunk("exec.run", name, &args), &test_bed.scene());
        assert!(said.contains(&format!(r#""stdout":"{want}""#)), "{said}");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let test_bed = StateTestBed::new();
    for (args, want) in [
        (r#"{"provider": "perl"}"#, "must be `posix` or `shell`"),
        (r#"{"path": "/bin:bin"}"#, "no absolute directory"),
        (r#"{"path": ":/bin"}"#, "no absolute directory"),
        (r#"{"timeout": "soon"}"#, "a duration such as 30s"),
        (r#"{"environment": ["A"]}"#, "KEY=value"),
        (r#"{"environment": ["=x"]}"#, "KEY=value"),
        (r#"{"returns": ["x"]}"#, "exit code"),
        (r#"{"command": "echo 'x"}"#, "not closed"),
        (r#"{"command": " "}"#, "no command"),
        (r#"{"creates": "relative"}"#, "not an absolute path"),
        (r#"{"onlyif": ["true"]}"#, "must be text"),
        (r#"{"onlyif": true}"#, "must be a command"),
        (r#"{"unless": "echo 'x"}"#, "not closed"),
        (r#"{"command": ""}"#, "no command"),
        (r#"{"timeout": -1}"#, "a time such as 30s"),
        (r#"{"timeout": "0s"}"#, "a time such as 30s"),
        (r#"{"returns": [256]}"#, "exit code"),
        (r#"{"environment": {"A": [1]}}"#, "KEY=value"),
        (r#"{"cwd": "relative"}"#, "not an absolute path"),
        (r#"{"umask": "1777"}"#, "no umask"),
        (r#"{"refresh_only": "false"}"#, "must be true or false"),
        (r#"{"shell": "/bin/sh"}"#, "no parameter `shell`"),
        (r#"{"cwd": "/no/dir"}"#, "either not absolute or does not exist"),
    ] {
        let said = apply_chunk(&chunk("exec.run", "true", args), &test_bed.scene());
        assert!(said.starts_with("false ") && said.contains(want), "{args}: {said}");
    }
}

#[test]
fn subscriptions_are_watch_edges() {
    let sls = "
a:
  exec.run:
    - command: 'true'
    - refresh_only: true
    - subscribe:
      - file#/etc/x
      - {test: n}
      - other
/etc/x:
  file.managed: []
n: test.nop
other: test.nop
";
    let test_bed = StateTestBed::with_files(&[("t.sls", sls)], "{}");
    let place = |id: &str| test_bed.plan.chunks.iter().position(|c| &*c.id == id).unwrap();
    let watched: Vec<usize> = test_bed
        .plan
        .graph
        .edges
        .iter()
        .filter(|e| e.to == place("a") && e.kind == zagent_compiler::Requisite::Watch)
        .map(|e| e.from)
        .collect();
    let mut want = vec![place("/etc/x"), place("n"), place("other")];
    want.sort_unstable();
    assert_eq!(watched, want);
    assert!(build("run", &ChunkArgs::new(&test_bed.plan.chunks[place("a")])).unwrap().is_ok());
}
