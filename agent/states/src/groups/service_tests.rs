//! What can be said without changing the host: arguments, files of a stage's own.

use crate::service;
use crate::testing::{StateTestBed, apply_chunk, build_state, chunk, preview_chunk};
use crate::undoable::{key_with_provider, split_key};
use crate::{ChunkArgs, Effects, Undoable};

#[test]
fn arguments_that_cannot_be() {
    let test_bed = StateTestBed::strict();
    let wrong = chunk("service.running", "x", r#"{"enabled": true}"#);
    assert!(apply_chunk(&wrong, &test_bed.scene()).contains("Perhaps \\\"enable\\\" option was intended?"));
    let nobody = chunk("service.running", "x", r#"{"provider": "launchd"}"#);
    assert!(apply_chunk(&nobody, &test_bed.scene()).contains("there is no service provider `launchd`"));
    let lacking = chunk("mount.mounted", "/x", r#"{"fstype": "ext4"}"#);
    assert!(apply_chunk(&lacking, &test_bed.scene()).contains("Must provide device to mount.mounted"));
    let zone = chunk("timezone.system", "Atlantis/Capital", "{}");
    assert!(
        apply_chunk(&zone, &test_bed.scene())
            .contains("Zone does not exist: /usr/share/zoneinfo/Atlantis/Capital")
    );
    let name = chunk("sysctl.present", "no.such.thing", r#"{"value": 1}"#);
    assert_eq!(
        apply_chunk(&name, &test_bed.scene()),
        r#"false "Failed to set no.such.thing to 1: sysctl no.such.thing does not exist" {}"#
    );
}

#[test]
fn a_name_is_never_an_option() {
    let test_bed = StateTestBed::strict();
    for (function, name, args) in [
        ("kmod.present", "-r", "{}"),
        ("kmod.absent", "x", r#"{"mods": ["loop", "-f"]}"#),
        ("mount.mounted", "-a", r#"{"device": "/dev/x", "fstype": "ext4"}"#),
        ("mount.mounted", "/x", r#"{"device": "-a", "fstype": "ext4"}"#),
        ("mount.unmounted", "-a", "{}"),
        ("mount.swap", "-a", "{}"),
        ("network.managed", "-a", r#"{"type": "eth"}"#),
        ("network.system", "x", r#"{"hostname": "-F"}"#),
        ("system.hostname", "-F", "{}"),
        ("service.running", "-s", r#"{"provider": "sysv"}"#),
    ] {
        let said = apply_chunk(&chunk(function, name, args), &test_bed.scene());
        assert!(said.contains("begins with a dash"), "{function} {name}: {said}");
    }
    assert!(
        crate::groups::services::reject_option_names(
            "system",
            &ChunkArgs::new(&chunk("system.computer_desc", "- a host", "{}"))
        )
        .is_ok()
    );
    let route = r#"{"routes": [{"ipaddr": "10.0.0.0", "gateway": "$(reboot)"}]}"#;
    assert!(apply_chunk(&chunk("network.routes", "eth0", route), &test_bed.scene()).contains("is no route"));
}

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

#[test]
fn a_line_of_the_table_comes_and_goes() {
    let test_bed = StateTestBed::strict();
    let table = test_bed.path("fstab");
    std::fs::write(&table, "# a remark\n").unwrap();
    let args =
        format!(r#"{{"fs_file": "/srv/", "fs_vfstype": "ext4", "mount": false, "config": {table:?}}}"#);
    let present = chunk("mount.fstab_present", "/dev/sdx9", &args);
    let absent = chunk("mount.fstab_absent", "/dev/sdx9", &args);
    let ctx = test_bed.scene();
    assert_eq!(
        apply_chunk(&present, &ctx),
        format!(r#"true "/srv entry added in {table}." {{"persist":"new"}}"#)
    );
    let text = "# a remark\n/dev/sdx9\t\t/srv\text4\tdefaults\t0 0\n";
    assert_eq!(std::fs::read_to_string(&table).unwrap(), text);
    assert_eq!(apply_chunk(&present, &ctx), format!(r#"true "/srv entry was already in {table}." {{}}"#));
    assert_eq!(
        apply_chunk(&absent, &ctx),
        format!(r#"true "/srv entry removed from {table}." {{"persist":"removed"}}"#)
    );
    assert_eq!(std::fs::read_to_string(&table).unwrap(), "# a remark\n");
    assert_eq!(
        apply_chunk(&absent, &ctx),
        format!(r#"true "/srv entry is already missing in {table}." {{}}"#)
    );
}
