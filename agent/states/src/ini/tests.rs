//! Files of options: what states say and what they leave.

use crate::testing::{StateTestBed, apply_chunk, chunk, preview_chunk};

#[test]
fn options_are_set_once() {
    let test_bed = StateTestBed::new();
    let path = test_bed.path("app.ini");
    std::fs::write(&path, "# own\n[server]\n#port = 80\n").expect("written");
    let args = r#"{"sections": {"server": {"port": 8080}, "top": true}}"#;
    let chunk = chunk("ini.options_present", &path, args);
    let would = preview_chunk(&chunk, &test_bed.scene());
    assert!(
        would.starts_with(r#"null "Changed key port in section server.\nChanged key top.\n""#),
        "{would}"
    );
    assert_eq!(
        apply_chunk(&chunk, &test_bed.scene()),
        r#"true "Changes take effect" {"server":{"port":{"before":null,"after":"8080"}},"top":{"before":null,"after":"True"}}"#
    );
    let left = std::fs::read_to_string(&path).expect("read");
    assert_eq!(left, "# own\ntop = True\n\n[server]\nport = 8080\n");
    assert_eq!(apply_chunk(&chunk, &test_bed.scene()), r#"true "No anomaly detected" {}"#);
    // A dry run of Salt says what becomes of each option, and nothing in its changes.
    assert!(would.ends_with(" {}"), "{would}");
    assert_eq!(
        preview_chunk(&chunk, &test_bed.scene()),
        r#"true "Unchanged key port in section server.\nUnchanged key top.\n" {}"#
    );
}

#[test]
fn strict_options_take_others_away() {
    let test_bed = StateTestBed::new();
    let path = test_bed.path("app.ini");
    std::fs::write(&path, "gone = 1\n\n[a]\nx = 1\ny = 2\n\n[b]\nz = 3\n").expect("written");
    let chunk = chunk("ini.options_present", &path, r#"{"strict": true, "sections": {"a": {"x": 1}}}"#);
    let done = apply_chunk(&chunk, &test_bed.scene());
    assert!(done.contains(r#""b":{"before":{"z":"3"},"after":null}"#), "{done}");
    assert_eq!(std::fs::read_to_string(&path).expect("read"), "[a]\nx = 1\n");
}

#[test]
fn bytes_that_are_no_text_stay() {
    let test_bed = StateTestBed::new();
    let path = test_bed.path("old.ini");
    std::fs::write(&path, b"# caf\xe9\na = 1\n").expect("written");
    let chunk = chunk("ini.options_absent", &path, r#"{"sections": ["a"]}"#);
    assert!(apply_chunk(&chunk, &test_bed.scene()).starts_with(r#"true "Changes take effect""#));
    assert_eq!(std::fs::read(&path).expect("read"), b"# caf\xe9\n");
}
