//! Variables for later commands.

use super::super::testing::{StateTestBed, apply_chunk, chunk, preview_chunk};

#[test]
fn later_commands_see_what_was_set() {
    let test_bed = StateTestBed::new();
    let set = chunk("environ.setenv", "ZAGENT_T1", r#"{"value": "1"}"#);
    assert_eq!(
        preview_chunk(&set, &test_bed.scene()),
        r#"null "Environ values will be changed" {"ZAGENT_T1":"1"}"#
    );
    assert_eq!(apply_chunk(&set, &test_bed.scene()), r#"true "Environ values were set" {"ZAGENT_T1":"1"}"#);
    let same = r#"true "Environ values were already set with the correct values" {}"#;
    assert_eq!(apply_chunk(&set, &test_bed.scene()), same);
    let print = chunk("cmd.run", "echo $ZAGENT_T1-${HOME-none}", "{}");
    assert!(apply_chunk(&print, &test_bed.scene()).contains(r#""stdout":"1-/"#));
    let away = chunk("environ.setenv", "x", r#"{"value": {"HOME": false}, "false_unsets": true}"#);
    assert_eq!(apply_chunk(&away, &test_bed.scene()), r#"true "Environ values were set" {"HOME":null}"#);
    assert!(apply_chunk(&print, &test_bed.scene()).contains(r#""stdout":"1-none"#));
}

#[test]
fn what_is_no_variable_is_refused() {
    let test_bed = StateTestBed::new();
    for (name, args, want) in [
        ("A", r#"{"value": 1}"#, "Environ value must be string, dict or False"),
        ("A", "{}", "Environ value must be string, dict or False"),
        ("A=B", r#"{"value": "x"}"#, "cannot be the name of a variable"),
        ("A", r#"{"value": "x", "clear_all": true}"#, "what the agent itself needs"),
    ] {
        assert!(
            apply_chunk(&chunk("environ.setenv", name, args), &test_bed.scene()).contains(want),
            "{name} {args}"
        );
    }
}
