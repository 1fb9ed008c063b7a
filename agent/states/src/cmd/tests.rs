//! What Salt 3008 answers, word for word; real commands.

use super::super::testing::{
    StateTestBed, apply_chunk, apply_line, build_state, check_line, chunk, preview_chunk,
};

/// Name, arguments, answer.
const RUNS: &[(&str, &str, &str)] = &[
    (
        "echo out; echo err >&2",
        "{}",
        r#"true "Command \"echo out; echo err >&2\" run" {"pid":1,"retcode":0,"stdout":"out","stderr":"err"}"#,
    ),
    ("exit 3", "{}", r#"false "Command \"exit 3\" run" {"pid":1,"retcode":3,"stdout":"","stderr":""}"#),
    (
        "exit 3",
        r#"{"success_retcodes": [3]}"#,
        r#"true "Command \"exit 3\" run" {"pid":1,"retcode":0,"stdout":"","stderr":""}"#,
    ),
    (
        "exit 3",
        r#"{"success_retcodes": 4}"#,
        r#"false "Command \"exit 3\" run" {"pid":1,"retcode":3,"stdout":"","stderr":""}"#,
    ),
    ("exit 3", r#"{"success_retcodes": "abc"}"#, r#"false "success_retcodes must be a list of integers" {}"#),
    (
        "echo a; exit 2",
        r#"{"success_stdout": ["a"]}"#,
        r#"true "Command \"echo a; exit 2\" run" {"pid":1,"retcode":0,"stdout":"a","stderr":""}"#,
    ),
    (
        "echo a >&2; exit 2",
        r#"{"success_stderr": "a"}"#,
        r#"true "Command \"echo a >&2; exit 2\" run" {"pid":1,"retcode":0,"stdout":"","stderr":"a"}"#,
    ),
    (
        "kill -9 $$",
        "{}",
        r#"false "Command \"kill -9 $$\" run" {"pid":1,"retcode":-9,"stdout":"","stderr":""}"#,
    ),
    (
        "echo hi",
        r#"{"hide_output": true}"#,
        r#"true "Command \"echo hi\" run" {"pid":1,"retcode":0,"stdout":"","stderr":""}"#,
    ),
    (
        "echo $A",
        r#"{"env": {"A": "dict"}}"#,
        r#"true "Command \"echo $A\" run" {"pid":1,"retcode":0,"stdout":"dict","stderr":""}"#,
    ),
    ("echo $A", r#"{"env": "A=1"}"#, r#"false "Invalidly-formatted 'env' parameter. See documentation." {}"#),
    (
        "echo x",
        r#"{"cwd": "/no/dir"}"#,
        r#"false "Desired working directory \"/no/dir\" is not available" {}"#,
    ),
    ("echo x", r#"{"runas": "no_such_user_zz"}"#, r#"false "User 'no_such_user_zz' is not available" {}"#),
    ("echo x", r#"{"shell": "/no/shell"}"#, r#"false "The shell /no/shell is not available" {}"#),
    (
        "cat",
        r#"{"stdin": "given"}"#,
        r#"true "Command \"cat\" run" {"pid":1,"retcode":0,"stdout":"given","stderr":""}"#,
    ),
    (
        "sleep 1000",
        r#"{"timeout": 0.05}"#,
        r#"false "Command \"sleep 1000\" run" {"pid":1,"retcode":1,"stdout":"sleep 1000 : Timed out after 0.05 seconds","stderr":""}"#,
    ),
    (
        "sleep 1000",
        r#"{"timeout": 0.05, "ignore_timeout": true}"#,
        r#"true "Command \"sleep 1000\" run" {"pid":1,"retcode":0,"stdout":"sleep 1000 : Timed out after 0.05 seconds","stderr":""}"#,
    ),
    (
        "true",
        r#"{"bg": true}"#,
        r#"true "Command \"true\" run" {"pid":1,"retcode":null,"stdout":"","stderr":""}"#,
    ),
];

#[test]
fn real_answers_of_run() {
    let test_bed = StateTestBed::new();
    for &(name, args, want) in RUNS {
        assert_eq!(apply_chunk(&chunk("cmd.run", name, args), &test_bed.scene()), want, "{name} {args}");
    }
}

#[test]
fn stateful_commands_speak_for_themselves() {
    let test_bed = StateTestBed::new();
    let rows = [
        (
            r#"echo working; echo; echo "changed=yes comment='it changed' extra=1""#,
            r#"true "it changed" {"changed":"yes","extra":"1","pid":1,"retcode":0,"stdout":"working\n","stderr":""}"#,
        ),
        (r#"echo; echo "changed=no comment='nothing'""#, r#"true "nothing" {}"#),
        (
            r#"echo; echo '{"changed": true, "comment": "json", "who": "x"}'"#,
            r#"true "json" {"changed":true,"who":"x","pid":1,"retcode":0,"stdout":"","stderr":""}"#,
        ),
        (
            "echo 'no kv'",
            r#"false "Failed parsing script output! Stdout must be JSON or a line of name=value pairs." {"pid":1,"retcode":0,"stdout":"no kv","stderr":""}"#,
        ),
        ("echo '[1]'", r#"false "script JSON output must be a JSON object (e.g., {})!" {}"#),
        ("echo changed=maybe", r#"false "Failed parsing boolean value: maybe" {}"#),
        ("echo hi >&2", r#"true "hi" {}"#),
        (
            "echo changed=yes",
            r#"true "" {"changed":"yes","pid":1,"retcode":0,"stdout":"changed=ye","stderr":""}"#,
        ),
        (
            "echo 'changed=yes comment=\"é'",
            r#"false "Failed parsing script output! Stdout must be JSON or a line of name=value pairs." {"pid":1,"retcode":0,"stdout":"changed=yes comment=\"é","stderr":""}"#,
        ),
    ];
    for (name, want) in rows {
        let chunk = chunk("cmd.run", name, r#"{"stateful": true}"#);
        assert_eq!(apply_chunk(&chunk, &test_bed.scene()), want, "{name}");
        assert_eq!(preview_chunk(&chunk, &test_bed.scene()), r#"null "" {}"#);
    }
    let strict = StateTestBed::strict();
    let one_line = chunk("cmd.run", "echo changed=yes", r#"{"stateful": true}"#);
    assert!(apply_chunk(&one_line, &strict.scene()).contains(r#""stdout":"""#));
}

#[test]
fn a_stateful_dry_run_asks_its_test() {
    let test_bed = StateTestBed::new();
    for (test, want) in [
        (
            r#"echo changed=yes comment=tst"#,
            r#"null "tst" {"changed":"yes","pid":1,"retcode":0,"stdout":"changed=yes comment=ts","stderr":""}"#,
        ),
        (r#"echo changed=no comment=same"#, r#"true "same" {}"#),
        ("echo changed=no; exit 1", r#"false "" {}"#),
    ] {
        let args = format!(r#"{{"stateful": [{{"test_name": "{test}"}}]}}"#);
        let chunk = chunk("cmd.run", "echo never", &args);
        assert_eq!(preview_chunk(&chunk, &test_bed.scene()), want, "{test}");
    }
}

#[test]
fn dry_runs_start_nothing() {
    let test_bed = StateTestBed::new();
    let made = test_bed.path("made");
    let touch = chunk("cmd.run", &format!("touch {made}"), r#"{"cwd": "/no/dir"}"#);
    let want =
        format!(r#"null "Command \"touch {made}\" would have been executed" {{"cmd":"touch {made}"}}"#);
    assert_eq!(preview_chunk(&touch, &test_bed.scene()), want);
    let script = chunk("cmd.script", "salt://s.sh", "{}");
    assert_eq!(
        preview_chunk(&script, &test_bed.scene()),
        r#"null "Command 'salt://s.sh' would have been executed" {}"#
    );
    assert!(!test_bed.exists("made"));
}

#[test]
fn those_that_wait_run_for_a_watch_only() {
    let test_bed = StateTestBed::with_files(&[("s.sh", "#!/bin/sh\necho script\n")], "{}");
    for (function, name, ran) in [
        (
            "cmd.wait",
            "echo x",
            r#"true "Command \"echo x\" run" {"pid":1,"retcode":0,"stdout":"x","stderr":""}"#,
        ),
        (
            "cmd.watch",
            "echo x",
            r#"true "Command \"echo x\" run" {"pid":1,"retcode":0,"stdout":"x","stderr":""}"#,
        ),
        (
            "cmd.wait_script",
            "salt://s.sh",
            r#"true "Command 'salt://s.sh' run" {"pid":1,"retcode":0,"stdout":"script","stderr":""}"#,
        ),
    ] {
        let chunk = chunk(function, name, "{}");
        assert_eq!(apply_chunk(&chunk, &test_bed.scene()), r#"true "" {}"#, "{function}");
        assert_eq!(preview_chunk(&chunk, &test_bed.scene()), r#"true "" {}"#, "{function}");
        assert_eq!(apply_line(build_state(&chunk).react(&test_bed.scene())), ran, "{function}");
        assert!(
            check_line(build_state(&chunk).predict_reaction(&test_bed.scene()))
                .contains("would have been executed"),
            "{function}"
        );
    }
}

#[test]
fn scripts_run_with_their_arguments() {
    let files = [
        ("s.sh", "#!/bin/sh\necho \"$A {{ v }} ${0##*.} $# $*\"\n"),
        ("bare", "echo no interpreter\n"),
        ("bad", "#!/bin/sh\nexit 4\n"),
    ];
    let test_bed = StateTestBed::with_files(&files, "{}");
    let here = test_bed.path("on host.sh");
    std::fs::write(&here, "#!/bin/sh\necho from the host\n").unwrap();
    let rows = [
        ("s.sh a b", r#"{"source": "salt://s.sh"}"#.to_owned(), r#"true "Command 's.sh a b' run" {"pid":1,"retcode":0,"stdout":" {{ v }} sh 2 a b","stderr":""}"#),
        ("x", r#"{"source": "salt://s.sh", "args": "x 'y z'", "template": "jinja", "defaults": {"v": 1}, "context": {"v": 3}, "env": [{"A": 1}]}"#.into(), r#"true "Command 'x' run" {"pid":1,"retcode":0,"stdout":"1 3 sh 2 x y z","stderr":""}"#),
        ("salt://bare", "{}".into(), r#"true "Command 'salt://bare' run" {"pid":1,"retcode":0,"stdout":"no interpreter","stderr":""}"#),
        ("salt://bad", "{}".into(), r#"false "Command 'salt://bad' run" {"pid":1,"retcode":4,"stdout":"","stderr":""}"#),
        ("salt://nosuch.sh", "{}".into(), r#"false "Unable to cache script salt://nosuch.sh from saltenv 'base'" {"pid":1,"retcode":1,"stdout":"","stderr":"","cache_error":true}"#),
        ("h", format!(r#"{{"source": "{here}"}}"#), r#"true "Command 'h' run" {"pid":1,"retcode":0,"stdout":"from the host","stderr":""}"#),
        ("c", r#"{"source": "salt://s.sh", "context": "x"}"#.into(), r#"false "Invalidly-formatted 'context' parameter. Must be formed as a dict." {}"#),
    ];
    for (name, args, want) in rows {
        assert_eq!(apply_chunk(&chunk("cmd.script", name, &args), &test_bed.scene()), want, "{name} {args}");
    }
}

#[test]
fn a_command_is_rendered_when_asked() {
    let test_bed = StateTestBed::new();
    let chunk = chunk("cmd.run", "echo {{ x }}", r#"{"template": "jinja"}"#);
    assert!(apply_chunk(&chunk, &test_bed.scene()).starts_with("true "));
    let mako = super::super::testing::chunk("cmd.run", "echo", r#"{"template": "mako"}"#);
    assert!(apply_chunk(&mako, &test_bed.scene()).contains("knows jinja only"));
}

#[test]
fn python_is_refused_in_words() {
    let test_bed = StateTestBed::new();
    for fun in ["call", "wait_call"] {
        assert!(
            apply_chunk(&chunk(&format!("cmd.{fun}"), "f", "{}"), &test_bed.scene())
                .contains("no Python here")
        );
    }
}

#[test]
fn a_stopped_run_stops_its_command() {
    let test_bed = StateTestBed::new();
    test_bed.cancel.cancel();
    assert!(
        apply_chunk(&chunk("cmd.run", "sleep 1000", "{}"), &test_bed.scene()).contains("the run was stopped")
    );
}
