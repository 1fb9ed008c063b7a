//! States that need no program of the host: what they say and what they leave.

use crate::Effects;
use crate::assumed_accounts::{AccountKind, AssumedScope};
use crate::testing::{StateTestBed, apply_chunk, build_state, check_line, chunk, preview_chunk};
use zagent_host::{Machine, Tools};

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

#[test]
fn hosts_that_are_known_by_key_need_no_network() {
    let test_bed = StateTestBed::new();
    let path = test_bed.path("known_hosts");
    let key = "AAAAC3NzaC1lZDI1NTE5AAAAIBqV5mKZ2m6vHqjGcz3eX8Yp3pD0lTz2FnqX2pFvYl1m";
    std::fs::write(&path, "other ssh-rsa AAAA\n").expect("written");
    let args =
        format!(r#"{{"config": "{path}", "enc": "ed25519", "key": "{key}", "hash_known_hosts": false}}"#);
    let present = chunk("ssh_known_hosts.present", "git", &args);
    assert!(apply_chunk(&present, &test_bed.scene()).contains("git's key saved to"));
    let left = std::fs::read_to_string(&path).expect("read");
    assert_eq!(left, format!("other ssh-rsa AAAA\ngit ssh-ed25519 {key}\n"));
    assert!(apply_chunk(&present, &test_bed.scene()).contains("git already exists in"));
    let absent = chunk("ssh_known_hosts.absent", "git", &format!(r#"{{"config": "{path}"}}"#));
    assert!(apply_chunk(&absent, &test_bed.scene()).starts_with("true"));
    assert_eq!(std::fs::read_to_string(&path).expect("read"), "other ssh-rsa AAAA\n");
}

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
        ("ssh_auth.present", r#"{"user": "nobody-such"}"#, "User 'nobody-such' does not exist"),
        ("at.present", r#"{"timespec": "now", "unique_tag": true}"#, "no tag provided"),
    ] {
        let said = apply_chunk(&chunk(function, "nobody-such", args), &test_bed.scene());
        assert!(said.starts_with("false") && said.contains(words), "{function}: {said}");
    }
}

#[test]
fn a_user_that_is_not_there_would_be_added() {
    let test_bed = StateTestBed::new();
    let groups = r#"{"groups": ["nosuchgroup"], "password": "$6$a$b"}"#;
    let said = preview_chunk(&chunk("user.present", "nobody-such", groups), &test_bed.scene());
    assert_eq!(
        said,
        r#"null "User nobody-such set to be added (pending groups: nosuchgroup)" {"name":"nobody-such"}"#
    );
    let said = preview_chunk(&chunk("user.absent", "nobody-such", "{}"), &test_bed.scene());
    assert_eq!(said, r#"true "User nobody-such is not present" {}"#);
    let said = preview_chunk(&chunk("group.absent", "nobody-such", "{}"), &test_bed.scene());
    assert_eq!(said, r#"true "Group not present" {}"#);
}

#[test]
fn a_package_may_bring_who_is_missing() {
    let test_bed = StateTestBed::strict();
    for (function, name, comes) in [
        ("user.present", "nobody-such", true),
        ("group.present", "nobody-such", true),
        ("user.present", "root", false),
        ("group.present", "root", false),
    ] {
        let mut state = build_state(&chunk(function, name, r#"{"system": true}"#));
        let look = state.check(&test_bed.scene()).expect("a look");
        assert_eq!(state.package_may_provide(&look), comes, "{function} {name}");
        assert!(
            !build_state(&chunk(function, name, "{}")).package_may_provide(&look),
            "a person's {function} {name}"
        );
    }
}

#[test]
fn what_would_fail_is_foretold() {
    let test_bed = StateTestBed::strict();
    for (function, name, args, words) in [
        ("user.present", "nobody-such", r#"{"groups": ["nosuchgroup"]}"#, "not present: nosuchgroup"),
        (
            "user.present",
            "nobody-such",
            r#"{"gid": "nosuchgroup"}"#,
            "the main group `nosuchgroup` is not present",
        ),
        ("user.present", "nobody-such", r#"{"uid": 0}"#, "uid 0 is already taken by user root"),
        ("user.present", "Carl X", "{}", "`Carl X` cannot be the name of a user"),
        ("group.present", "Carl X", "{}", "`Carl X` cannot be the name of a group"),
        ("group.present", "nobody-such", r#"{"gid": 0}"#, "is already taken by group root"),
        ("group.absent", "root", "{}", "it is the main group of user root"),
    ] {
        let chunk = chunk(function, name, args);
        for said in [
            preview_chunk(&chunk, &test_bed.scene()),
            check_line(build_state(&chunk).check(&test_bed.scene())),
        ] {
            assert!(said.starts_with("false") && said.contains(words), "{function} {args}: {said}");
        }
    }
    // What a dry run of Salt does not see is left to the run.
    let salt = StateTestBed::new();
    let said = preview_chunk(&chunk("group.absent", "root", "{}"), &salt.scene());
    assert!(said.starts_with("null"), "{said}");
    if Tools::new(&Machine::this_host()).which("gpasswd").is_some() {
        let chunk = chunk("group.present", "nobody-such", r#"{"members": ["nosuchuser"]}"#);
        let said = preview_chunk(&chunk, &test_bed.scene());
        assert!(said.starts_with("false") && said.contains("not present: nosuchuser"), "{said}");
    }
}

#[test]
fn who_is_missing_stays_so_behind_other_users() {
    let test_bed = StateTestBed::strict();
    for (function, name, args, is_lost) in [
        ("user.present", "nobody-such", r#"{"groups": ["nosuchgroup"]}"#, true),
        ("user.present", "nobody-such", r#"{"gid": "nosuchgroup"}"#, true),
        // Whoever has the number may go before.
        ("user.present", "nobody-such", r#"{"uid": 0}"#, false),
        ("group.absent", "root", "{}", false),
    ] {
        let mut state = build_state(&chunk(function, name, args));
        assert!(state.preview(&test_bed.scene()).is_err(), "{function} {args}");
        assert_eq!(state.fails_regardless(Effects::USERS), is_lost, "{function} {args}");
        assert!(!state.fails_regardless(Effects::PACKAGE_CHANGE), "a package may bring it");
    }
}

#[test]
fn groups_that_would_be_made_before_count() {
    let test_bed = StateTestBed::strict();
    let names = &test_bed.shared.assumed_accounts;
    names.add(AccountKind::Group, "nosuchgroup", None);
    let _known = AssumedScope::enter(names);
    let args = r#"{"groups": ["nosuchgroup"], "uid": 54321, "home": "/srv/x", "shell": "/bin/sh", "usergroup": true}"#;
    let said = preview_chunk(&chunk("user.present", "nobody-such", args), &test_bed.scene());
    let told =
        r#"{"name":"nobody-such","uid":54321,"groups":["nosuchgroup"],"home":"/srv/x","shell":"/bin/sh"}"#;
    assert_eq!(
        said,
        format!(r#"null "User nobody-such set to be added (pending groups: nosuchgroup)" {told}"#)
    );
    let group = chunk("group.present", "nobody-such", r#"{"gid": 54321, "addusers": ["root"]}"#);
    assert_eq!(
        preview_chunk(&group, &test_bed.scene()),
        r#"null "Group nobody-such set to be added" {"name":"nobody-such","gid":54321,"members":["root"]}"#
    );
}
