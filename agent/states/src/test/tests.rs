//! What Salt 3008 answers, word for word.

use super::super::testing::{
    StateTestBed, apply_chunk, apply_line, build_state, check_line, chunk, preview_chunk,
};

const PRETENDED: &str = r#"{"testing":{"old":"Unchanged","new":"Something pretended to change"}}"#;

#[test]
fn real_and_dry_answers() {
    let test_bed = StateTestBed::new();
    let raised = "An exception occurred in this state: salt.exceptions.SaltInvocationError: ";
    let options = "with invalid arguments. It must be either True, False, or 'Random'";
    let bad =
        |key: &str| format!(r#"false "{raised}You have specified the state option '{key}' {options}" {{}}"#);
    let missing = format!(r#"false "{raised}Missing required argument text." {{}}"#);
    let conf = "configurable_test_state";
    let rows = [
        (
            "nop",
            r#"{"comment": "x"}"#,
            r#"true "Success!" {}"#.to_owned(),
            r#"true "Success!" {}"#.to_owned(),
        ),
        ("succeed_without_changes", r#"{"comment": "x"}"#, r#"true "x" {}"#.into(), r#"true "x" {}"#.into()),
        (
            "succeed_with_changes",
            "{}",
            format!(r#"true "Success!" {PRETENDED}"#),
            format!(r#"null "If we weren't testing, this would be successful with changes" {PRETENDED}"#),
        ),
        (
            "fail_without_changes",
            "{}",
            r#"false "Failure!" {}"#.into(),
            r#"false "If we weren't testing, this would be a failure!" {}"#.into(),
        ),
        (
            "fail_with_changes",
            "{}",
            format!(r#"false "Failure!" {PRETENDED}"#),
            format!(r#"null "If we weren't testing, this would be failed with changes" {PRETENDED}"#),
        ),
        (conf, "{}", format!(r#"true "" {PRETENDED}"#), format!(r#"null "This is a test" {PRETENDED}"#)),
        (
            conf,
            r#"{"result": false}"#,
            format!(r#"false "" {PRETENDED}"#),
            format!(r#"null "This is a test" {PRETENDED}"#),
        ),
        (
            conf,
            r#"{"result": false, "allow_test_mode_failure": true}"#,
            format!(r#"false "" {PRETENDED}"#),
            format!(r#"false "This is a test" {PRETENDED}"#),
        ),
        (conf, r#"{"changes": false}"#, r#"true "" {}"#.into(), r#"true "This is a test" {}"#.into()),
        (
            conf,
            r#"{"changes": false, "result": false, "comment": "c"}"#,
            r#"false "c" {}"#.into(),
            r#"true "c" {}"#.into(),
        ),
        (conf, r#"{"changes": "maybe"}"#, bad("changes"), bad("changes")),
        (conf, r#"{"result": "maybe"}"#, bad("result"), bad("result")),
        (
            "show_notification",
            r#"{"text": "Hello"}"#,
            r#"true "Hello" {}"#.into(),
            r#"true "Hello" {}"#.into(),
        ),
        ("show_notification", "{}", missing.clone(), missing),
    ];
    for (fun, args, real, dry) in rows {
        let chunk = chunk(&format!("test.{fun}"), "x", args);
        assert_eq!(apply_chunk(&chunk, &test_bed.scene()), real, "{fun} {args}");
        assert_eq!(preview_chunk(&chunk, &test_bed.scene()), dry, "{fun} {args}");
    }
}

#[test]
fn chance_is_not_foretold() {
    let test_bed = StateTestBed::strict();
    let chunk = chunk("test.configurable_test_state", "x", r#"{"changes": "Random", "result": "random"}"#);
    assert!(preview_chunk(&chunk, &test_bed.scene()).starts_with("null \"unknown: "));
    let mut seen: Vec<String> = (0..200).map(|_| apply_chunk(&chunk, &test_bed.scene())).collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 4, "{seen:?}");
}

#[test]
fn a_watch_is_answered_with_what_fired() {
    let test_bed = StateTestBed::new();
    let rows = [
        ("{}", r#"true "Watch statement fired." {"Requisites with changes":["test: a","file: b"]}"#),
        (r#"{"comment": "c"}"#, r#"true "c" {"Requisites with changes":["test: a","file: b"]}"#),
        (r#"{"result": false, "changes": {"x": "y"}}"#, r#"false "Watch statement fired." {"x":"y"}"#),
        (
            r#"{"changes": false}"#,
            r#"false "An exception occurred in this state: 'Changes' should be a dictionary." {}"#,
        ),
    ];
    for (args, want) in rows {
        let chunk = chunk("test.nop", "x", args);
        test_bed.set_watched_changes(&chunk, &["test: a", "file: b"]);
        assert_eq!(apply_line(build_state(&chunk).react(&test_bed.scene())), want, "{args}");
        assert_eq!(check_line(build_state(&chunk).predict_reaction(&test_bed.scene())), want, "{args}");
    }
    let listener = chunk("test.nop", "listener", "{}");
    let want = r#"true "Watch statement fired." {"Requisites with changes":[]}"#;
    assert_eq!(apply_line(build_state(&listener).react(&test_bed.scene())), want);
}

#[test]
fn warnings_are_details() {
    let test_bed = StateTestBed::new();
    let chunk = chunk("test.configurable_test_state", "x", r#"{"changes": false, "warnings": "careful"}"#);
    let done = build_state(&chunk).apply(&test_bed.scene()).unwrap();
    assert_eq!(serde_json::to_string(&done.details.get("warnings")).unwrap(), r#"["careful"]"#);
}

#[test]
fn pillar_keys_and_their_types() {
    let pillar = r#"{"a": 1, "b": {"c": null, "d": [1]}, "s": "x", "l": [], "t": true}"#;
    let test_bed = StateTestBed::with_files(&[], pillar);
    for (args, want) in [
        (
            r#"{"present": ["a", "b:d"], "string": "s", "listing": ["l"], "dictionary": ["b"]}"#,
            r#"true "" {}"#,
        ),
        (
            r#"{"present": "zz", "integer": "s"}"#,
            r#"false "Pillar key \"zz\" is missing.\nPillar key \"s\" is not <class 'int'>.\n" {}"#,
        ),
        (r#"{"integer": "t", "boolean": "t"}"#, r#"true "" {}"#),
        (r#"{"present": "b:c"}"#, r#"false "Pillar key \"b:c\" is missing.\n" {}"#),
        (r#"{"string": ["a"]}"#, r#"false "Pillar key \"a\" is not (<class 'str'>,).\n" {}"#),
        (
            r#"{"string": ["s"], "present": "a", "verbose": true}"#,
            r#"true "Those keys passed the check:\n- a (None)\n- s ((<class 'str'>,))\n" {}"#,
        ),
    ] {
        assert_eq!(apply_chunk(&chunk("test.check_pillar", "x", args), &test_bed.scene()), want, "{args}");
    }
    for args in ["{}", r#"{"present": {"a": 1}}"#] {
        assert!(
            apply_chunk(&chunk("test.check_pillar", "x", args), &test_bed.scene()).starts_with("false "),
            "{args}"
        );
    }
}
