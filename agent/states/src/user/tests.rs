//! Users and groups in dry runs and looks, without programs of the host.

use crate::Effects;
use crate::assumed_accounts::{AccountKind, AssumedScope};
use crate::testing::{StateTestBed, build_state, check_line, chunk, preview_chunk};
use zagent_host::{Machine, Tools};

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
        // The user with this number may be removed before.
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
