//! What Salt 3008 answers, word for word.

use super::super::testing::{
    StateTestBed, apply_chunk, apply_line, build_state, check_line, chunk, preview_chunk,
};

/// Name, arguments, what a run and what a dry run answers.
const CALLS: &[(&str, &str, &str, &str)] = &[
    (
        "new",
        r#"{"test.echo": [{"text": "hello"}]}"#,
        r#"true "test.echo: hello" {"test.echo":"hello"}"#,
        r#"null "Function test.echo to be executed." {}"#,
    ),
    (
        "test.echo",
        r#"{"text": "hello"}"#,
        r#"true "Module function test.echo executed" {"ret":"hello"}"#,
        r#"null "Module function test.echo is set to execute" {}"#,
    ),
    (
        "two",
        r#"{"test.true": null, "test.false": null}"#,
        r#"false "'test.false': False, test.true: True" {"test.true":true}"#,
        r#"null "FunctionTrue test.true, test.false to be executed." {}"#,
    ),
    (
        "h",
        r#"{"test.echo": null}"#,
        r#"false "'test.echo' failed: Missing arguments: text" {}"#,
        r#"null "Function test.echo to be executed." {}"#,
    ),
    (
        "h2",
        r#"{"test.nosuch": [1]}"#,
        r#"false "Unavailable function: test.nosuch." {}"#,
        r#"false "Unavailable function: test.nosuch." {}"#,
    ),
    (
        "test.nosuch",
        "{}",
        r#"false "Module function test.nosuch is not available" {}"#,
        r#"false "Module function test.nosuch is not available" {}"#,
    ),
    (
        "test.arg",
        r#"{"args": [1, 2], "kwargs": {"a": 1}}"#,
        r#"true "Module function test.arg executed" {"ret":{"args":[1,2],"kwargs":{"a":1}}}"#,
        r#"null "Module function test.arg is set to execute" {}"#,
    ),
    (
        "test.echo",
        "{}",
        r#"false "The following arguments are missing: text" {}"#,
        r#"null "Module function test.echo is set to execute" {}"#,
    ),
    (
        "h7",
        r#"{"test.arg": [1, {"a": "b"}, "c"], "test.ping": []}"#,
        r#"true "test.arg: Success, test.ping: True" {"test.arg":{"args":[1,"c"],"kwargs":{"a":"b"}},"test.ping":true}"#,
        r#"null "FunctionTrue test.arg, test.ping to be executed." {}"#,
    ),
    (
        "h11",
        r#"{"test.ping:1": [], "test.ping:2": []}"#,
        r#"true "test.ping:1: True, test.ping:2: True" {"test.ping:1":true,"test.ping:2":true}"#,
        r#"null "FunctionTrue test.ping, test.ping to be executed." {}"#,
    ),
    (
        "test.arg",
        r#"{"m_name": "n", "require": [], "__reqs__": {}, "onlyif": "true"}"#,
        r#"true "Module function test.arg executed" {"ret":{"args":[],"kwargs":{"name":"n"}}}"#,
        r#"null "Module function test.arg is set to execute" {}"#,
    ),
    (
        "cmd.run_all",
        r#"{"cmd": "false"}"#,
        r#"false "Module function cmd.run_all executed" {"ret":{"pid":"","retcode":1,"stdout":"","stderr":""}}"#,
        r#"null "Module function cmd.run_all is set to execute" {}"#,
    ),
];

#[test]
fn both_ways_of_calling() {
    let test_bed = StateTestBed::new();
    for &(name, args, real, dry) in CALLS {
        let chunk = chunk("module.run", name, args);
        let got = apply_chunk(&chunk, &test_bed.scene());
        let got = match (got.find(r#""pid":"#), got.find(r#","retcode""#)) {
            (Some(at), Some(end)) => format!("{}\"pid\":\"\"{}", &got[..at], &got[end..]),
            _ => got,
        };
        assert_eq!(got, real, "{name} {args}");
        assert_eq!(preview_chunk(&chunk, &test_bed.scene()), dry, "{name} {args}");
    }
}

#[test]
fn one_that_waits_runs_for_a_watch() {
    let test_bed = StateTestBed::new();
    let chunk = chunk("module.wait", "test.ping", "{}");
    assert_eq!(apply_chunk(&chunk, &test_bed.scene()), r#"true "" {}"#);
    let ran = r#"true "Module function test.ping executed" {"ret":true}"#;
    assert_eq!(apply_line(build_state(&chunk).react(&test_bed.scene())), ran);
    let would = r#"null "Module function test.ping is set to execute" {}"#;
    assert_eq!(check_line(build_state(&chunk).predict_reaction(&test_bed.scene())), would);
}
