//! Arguments that states of several modules refuse.

use crate::testing::{StateTestBed, apply_chunk, chunk};

#[test]
fn what_cannot_be_asked_for_is_refused() {
    let test_bed = StateTestBed::new();
    for (function, args, words) in [
        ("user.present", r#"{"fullname": "a,b"}"#, "Unsupported char ',' in a,b"),
        ("user.present", r#"{"expire": "soon"}"#, "`expire` must be a number of days, not soon"),
        (
            "user.present",
            r#"{"groups": ["nosuchgroup"]}"#,
            "The following group(s) are not present: nosuchgroup",
        ),
        ("group.present", r#"{"addusers": ["a"], "delusers": ["a"]}"#, "Error. Same user(s)"),
        ("group.present", r#"{"gid": "many"}"#, "Invalid gid"),
        ("host.present", r#"{"ip": "10.0.0"}"#, "Invalid IP Address for nobody-such (10.0.0)"),
        ("cron.present", r#"{"minute": "1 2"}"#, "a job of a crontab is one line"),
        ("ssh_known_hosts.present", r#"{"key": "AAAA"}"#, "Required argument"),
        ("ssh_auth.present", r#"{"user": "nobody-such"}"#, "Is the home directory available"),
        ("at.present", r#"{"timespec": "now", "unique_tag": true}"#, "no tag provided"),
    ] {
        let said = apply_chunk(&chunk(function, "nobody-such", args), &test_bed.scene());
        assert!(said.starts_with("false") && said.contains(words), "{function}: {said}");
    }
}

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
    assert!(crate::build(&chunk("system.computer_desc", "- a host", "{}")).is_ok());
    let route = r#"{"routes": [{"ipaddr": "10.0.0.0", "gateway": "$(reboot)"}]}"#;
    assert!(apply_chunk(&chunk("network.routes", "eth0", route), &test_bed.scene()).contains("is no route"));
}
