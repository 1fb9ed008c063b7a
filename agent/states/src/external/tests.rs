//! Modules in shell, each a file of the tree.

use super::super::testing::{
    StateTestBed, apply_chunk, apply_line, build_state, check_line, chunk, preview_chunk,
};
use super::*;

/// Answers by the marker file that its argument names.
const MARKER: &str = r#"#!/bin/sh
question=$(cat)
case "$question" in *'"os":"Debian"'*) ;; *) echo "no grains" >&2; exit 9;; esac
file=$(printf %s "$question" | sed 's/.*"file":"\([^"]*\)".*/\1/')
case "$question" in
  *'"call":"check","function":"present"'*'"test":true'*)
    if [ -e "$file" ]; then echo '{"result": true, "changes": {}, "comment": "there"}'
    else echo '{"result": null, "changes": {"made": "it"}, "comment": "would make it"}'; fi;;
  *'"call":"apply"'*'"test":false'*) touch "$file"; echo '{"result": true, "changes": {"made": "it"}, "comment": "made"}';;
  *'"call":"revert"'*) rm "$file"; echo '{"result": true, "changes": {"made": "gone"}, "comment": "undone"}';;
  *) echo "what is $question" >&2; exit 8;;
esac
"#;

#[test]
fn a_module_checks_applies_and_reverts() {
    let test_bed = StateTestBed::with_files(&[("_states/marker", MARKER)], "{}");
    let chunk = chunk("marker.present", "m", &format!(r#"{{"file": "{}"}}"#, test_bed.path("made")));
    assert_eq!(preview_chunk(&chunk, &test_bed.scene()), r#"null "would make it" {"made":"it"}"#);
    assert!(!test_bed.exists("made"));
    assert_eq!(apply_chunk(&chunk, &test_bed.scene()), r#"true "made" {"made":"it"}"#);
    assert!(test_bed.exists("made"));
    assert_eq!(apply_chunk(&chunk, &test_bed.scene()), r#"true "there" {}"#);
    assert_eq!(
        apply_line(revert(&ExternalUndoNote::new(&chunk), &test_bed.scene())),
        r#"true "undone" {"made":"gone"}"#
    );
    assert!(!test_bed.exists("made"));
}

#[test]
fn anything_but_an_answer_is_a_failure_in_words() {
    let modules = [
        ("_states/silent", "#!/bin/sh\ncat > /dev/null\n"),
        ("_states/babble", "#!/bin/sh\necho hello\n"),
        ("_states/list", "#!/bin/sh\necho '[]'\n"),
        ("_states/half", "#!/bin/sh\necho '{\"changes\": {}}'\n"),
        ("_states/odd", "#!/bin/sh\necho '{\"result\": 1}'\n"),
        ("_states/flood", "#!/bin/sh\nhead -c 9000000 /dev/zero\n"),
        ("_states/exits", "#!/bin/sh\necho boom >&2\nexit 3\n"),
        ("_states/slow.sh", "#!/bin/sh\nexec sleep 1000\n"),
        ("_states/python.py", "def present(name):\n    pass\n"),
        (
            "_states/no",
            "#!/bin/sh\necho '{\"result\": false, \"comment\": \"it cannot be\", \"changes\": {\"a\": 1}}'\n",
        ),
    ];
    let test_bed = StateTestBed::with_files(&modules, "{}");
    for (module, want) in [
        ("silent", "not JSON"),
        ("babble", "not JSON"),
        ("list", "printed a list, not an object"),
        ("half", "without a result"),
        ("odd", "as its result"),
        ("flood", "printed more than 8388608 bytes"),
        ("exits", "exited with code 3: boom"),
        ("slow", "was ended after 50ms"),
        ("python", "is no program"),
        ("no", r#""it cannot be" {"a":1}"#),
        ("nosuch", "State 'nosuch.present' was not found in SLS 't'"),
    ] {
        let chunk = chunk(&format!("{module}.present"), "x", r#"{"timeout": 0.05}"#);
        let chunk = if module == "slow" {
            chunk
        } else {
            super::super::testing::chunk(&format!("{module}.present"), "x", "{}")
        };
        let said = check_line(build_state(&chunk).check(&test_bed.scene()));
        assert!(said.starts_with("false ") && said.contains(want), "{module}: {said}");
    }
}

#[test]
fn null_is_no_answer_to_an_order() {
    let test_bed =
        StateTestBed::with_files(&[("_states/shy", "#!/bin/sh\necho '{\"result\": null}'\n")], "{}");
    let said = apply_chunk(&chunk("shy.present", "x", "{}"), &test_bed.scene());
    assert_eq!(said, r#"false "module `shy` answered null to `apply`" {}"#);
}

#[test]
fn a_file_that_was_tampered_with_is_written_anew() {
    let test_bed = StateTestBed::with_files(
        &[("_states/fine", "#!/bin/sh\necho '{\"result\": true, \"comment\": \"real\"}'\n")],
        "{}",
    );
    let chunk = chunk("fine.present", "x", "{}");
    assert_eq!(apply_chunk(&chunk, &test_bed.scene()), r#"true "real" {}"#);
    let kept =
        std::fs::read_dir(test_bed.dir.path().join("modules")).unwrap().next().unwrap().unwrap().path();
    std::fs::write(&kept, "#!/bin/sh\necho '{\"result\": true, \"comment\": \"evil\"}'\n").unwrap();
    assert_eq!(apply_chunk(&chunk, &test_bed.scene()), r#"true "real" {}"#);
}
