//! What can be said without changing the host: arguments, files of a stage's own.

use super::service;
use crate::states::stage::{Stage, apply, built, chunk, preview};
use crate::states::{Args, Thing, Veil, key_parts, keyed};

#[test]
fn arguments_that_cannot_be() {
    let stage = Stage::strict();
    let wrong = chunk("service.running", "x", r#"{"enabled": true}"#);
    assert!(apply(&wrong, &stage.scene()).contains("Perhaps \\\"enable\\\" option was intended?"));
    let nobody = chunk("service.running", "x", r#"{"provider": "launchd"}"#);
    assert!(apply(&nobody, &stage.scene()).contains("there is no service provider `launchd`"));
    let lacking = chunk("mount.mounted", "/x", r#"{"fstype": "ext4"}"#);
    assert!(apply(&lacking, &stage.scene()).contains("Must provide device to mount.mounted"));
    let zone = chunk("timezone.system", "Atlantis/Capital", "{}");
    assert!(
        apply(&zone, &stage.scene()).contains("Zone does not exist: /usr/share/zoneinfo/Atlantis/Capital")
    );
    let name = chunk("sysctl.present", "no.such.thing", r#"{"value": 1}"#);
    assert_eq!(
        apply(&name, &stage.scene()),
        r#"false "Failed to set no.such.thing to 1: sysctl no.such.thing does not exist" {}"#
    );
}

#[test]
fn a_name_is_never_an_option() {
    let stage = Stage::strict();
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
        let said = apply(&chunk(function, name, args), &stage.scene());
        assert!(said.contains("begins with a dash"), "{function} {name}: {said}");
    }
    assert!(super::verify("system", &Args::new(&chunk("system.computer_desc", "- a host", "{}"))).is_ok());
    let route = r#"{"routes": [{"ipaddr": "10.0.0.0", "gateway": "$(reboot)"}]}"#;
    assert!(apply(&chunk("network.routes", "eth0", route), &stage.scene()).contains("is no route"));
}

#[test]
fn a_revert_asks_the_manager_that_the_state_asked() {
    let stage = Stage::strict();
    let looked = service::ServiceThing.look(&keyed("ssh", Some("launchd")).into(), &stage.scene());
    assert!(looked.unwrap_err().done.comment.contains("there is no service provider `launchd`"));
    assert_eq!(key_parts(&keyed("ssh", Some("sysv")).into()), ("ssh", Some("sysv")));
    assert_eq!(key_parts(&keyed("getty@tty1", None).into()), ("getty@tty1", None));
}

#[test]
fn services_that_are_not_there() {
    let stage = Stage::strict();
    for (function, said) in [
        ("service.running", r#"false "The named service no-such is not available" {}"#),
        ("service.enabled", r#"false "The named service no-such is not available" {}"#),
        ("service.dead", r#"true "The named service no-such is not available" {}"#),
        ("service.disabled", r#"true "The named service no-such is not available" {}"#),
    ] {
        let asked = chunk(function, "no-such", r#"{"provider": "debian_service"}"#);
        assert_eq!(apply(&asked, &stage.scene()), said, "{function}");
    }
    let asked = chunk("service.running", "no-such", r#"{"provider": "sysv"}"#);
    let salt = Stage::new();
    let words = "Service no-such not present; if created in this state run, it would have been started";
    assert_eq!(preview(&asked, &salt.scene()), format!("null {words:?} {{}}"));
    let masked = chunk("service.masked", "no-such", r#"{"provider": "sysv"}"#);
    let words = "Service masking not available on this minion";
    assert_eq!(apply(&masked, &stage.scene()), format!("false {words:?} {{}}"));
}

#[test]
fn a_package_may_bring_a_unit_that_is_missing() {
    let stage = Stage::strict();
    let asked = chunk("service.dead", "no-such", r#"{"provider": "sysv"}"#);
    let mut state = built(&asked);
    let look = state.check(&stage.scene()).unwrap();
    let hidden = Veil::PACKAGE & state.sees();
    assert!(state.may_come(&look) && !state.holds(&look, hidden));
}

#[test]
fn a_watch_makes_a_start_certain() {
    let stage = Stage::strict();
    let asked = chunk("service.running", "no-such", r#"{"provider": "sysv"}"#);
    stage.fire(&asked, &["pkg: no-such"]);
    let tag = asked.tag();
    let scene = crate::states::Scene { tag: &tag, ..stage.scene() };
    assert_eq!(preview(&asked, &scene), r#"null "Service no-such is set to start" {"no-such":true}"#);
}

#[test]
fn a_line_of_the_table_comes_and_goes() {
    let stage = Stage::strict();
    let table = stage.path("fstab");
    std::fs::write(&table, "# a remark\n").unwrap();
    let args =
        format!(r#"{{"fs_file": "/srv/", "fs_vfstype": "ext4", "mount": false, "config": {table:?}}}"#);
    let present = chunk("mount.fstab_present", "/dev/sdx9", &args);
    let absent = chunk("mount.fstab_absent", "/dev/sdx9", &args);
    let scene = stage.scene();
    assert_eq!(
        apply(&present, &scene),
        format!(r#"true "/srv entry added in {table}." {{"persist":"new"}}"#)
    );
    let text = "# a remark\n/dev/sdx9\t\t/srv\text4\tdefaults\t0 0\n";
    assert_eq!(std::fs::read_to_string(&table).unwrap(), text);
    assert_eq!(apply(&present, &scene), format!(r#"true "/srv entry was already in {table}." {{}}"#));
    assert_eq!(
        apply(&absent, &scene),
        format!(r#"true "/srv entry removed from {table}." {{"persist":"removed"}}"#)
    );
    assert_eq!(std::fs::read_to_string(&table).unwrap(), "# a remark\n");
    assert_eq!(apply(&absent, &scene), format!(r#"true "/srv entry is already missing in {table}." {{}}"#));
}
