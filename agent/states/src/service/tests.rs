//! Services that are not there, and what a revert asks.

use crate::service;
use crate::testing::{StateTestBed, apply_chunk, build_state, chunk, preview_chunk};
use crate::undoable::{key_with_provider, split_key};
use crate::{Effects, Undoable};

#[test]
fn a_revert_asks_the_manager_that_the_state_asked() {
    let test_bed = StateTestBed::strict();
    let looked =
        service::ServiceUndo.capture(&key_with_provider("ssh", Some("launchd")).into(), &test_bed.scene());
    assert!(looked.unwrap_err().result.comment.contains("there is no service provider `launchd`"));
    assert_eq!(split_key(&key_with_provider("ssh", Some("sysv")).into()), ("ssh", Some("sysv")));
    assert_eq!(split_key(&key_with_provider("getty@tty1", None).into()), ("getty@tty1", None));
}

#[test]
fn services_that_are_not_there() {
    let test_bed = StateTestBed::strict();
    for (function, said) in [
        ("service.running", r#"false "The named service no-such is not available" {}"#),
        ("service.enabled", r#"false "The named service no-such is not available" {}"#),
        ("service.dead", r#"true "The named service no-such is not available" {}"#),
        ("service.disabled", r#"true "The named service no-such is not available" {}"#),
    ] {
        let asked = chunk(function, "no-such", r#"{"provider": "debian_service"}"#);
        assert_eq!(apply_chunk(&asked, &test_bed.scene()), said, "{function}");
    }
    let asked = chunk("service.running", "no-such", r#"{"provider": "sysv"}"#);
    let salt = StateTestBed::new();
    let words = "Service no-such not present; if created in this state run, it would have been started";
    assert_eq!(preview_chunk(&asked, &salt.scene()), format!("null {words:?} {{}}"));
    let masked = chunk("service.masked", "no-such", r#"{"provider": "sysv"}"#);
    let words = "Service masking not available on this minion";
    assert_eq!(apply_chunk(&masked, &test_bed.scene()), format!("false {words:?} {{}}"));
}

#[test]
fn a_package_may_bring_a_unit_that_is_missing() {
    let test_bed = StateTestBed::strict();
    let asked = chunk("service.dead", "no-such", r#"{"provider": "sysv"}"#);
    let mut state = build_state(&asked);
    let checked = state.check(&test_bed.scene()).unwrap();
    let hidden = Effects::PACKAGE_CHANGE & state.reads();
    assert!(state.package_may_provide(&checked) && !state.still_valid(&checked, hidden));
}

#[test]
fn a_watch_makes_a_start_certain() {
    let test_bed = StateTestBed::strict();
    let asked = chunk("service.running", "no-such", r#"{"provider": "sysv"}"#);
    test_bed.set_watched_changes(&asked, &["pkg: no-such"]);
    let tag = asked.tag();
    let ctx = crate::StateCtx { tag: &tag, ..test_bed.scene() };
    assert_eq!(preview_chunk(&asked, &ctx), r#"null "Service no-such is set to start" {"no-such":true}"#);
}
