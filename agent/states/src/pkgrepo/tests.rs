use super::*;
use crate::testing::{StateTestBed, build_state, chunk, preview_chunk};

fn settings_of(args: &str) -> String {
    let chunk = chunk("pkgrepo.managed", "base", args);
    serde_json::to_string(&Value::from(section_settings(&ChunkArgs::new(&chunk)))).unwrap()
}

fn asked_line(name: &str, args: &str) -> String {
    let chunk = chunk("pkgrepo.managed", name, args);
    let asked = apt_request(&ChunkArgs::new(&chunk), AptEntry::parse_line(name).unwrap())
        .unwrap_or_else(|f| panic!("{}", f.result.comment));
    asked.wanted.to_line()
}

#[test]
fn arguments_go_before_what_the_name_says() {
    let table = [
        (r#"{"dist": "y", "comps": "main, contrib"}"#, "deb http://h/ y main contrib"),
        (
            r#"{"architectures": "amd64,arm64", "trusted": true}"#,
            "deb [arch=amd64,arm64 trusted=yes] http://h/ x main",
        ),
        (r#"{"signedby": "/k.gpg", "disabled": true}"#, "# deb [signed-by=/k.gpg] http://h/ x main"),
        (r#"{"enabled": 0}"#, "# deb http://h/ x main"),
        (r#"{"enabled": "yes", "comments": ["a", "b"]}"#, "deb http://h/ x main"),
    ];
    for (args, expected) in table {
        assert_eq!(asked_line("deb http://h/ x main", args), expected, "{args}");
    }
}

#[test]
fn a_section_gets_what_is_said_and_no_more() {
    assert_eq!(
        settings_of(
            r#"{"humanname": "Base", "baseurl": "http://h/", "key_url": "http://k", "gpgcheck": 1, "proxy": ""}"#
        ),
        r#"{"name":"Base","enabled":true,"baseurl":"http://h/","gpgcheck":1,"proxy":null}"#
    );
}

#[test]
fn what_cannot_be_is_told_at_once() {
    let test_bed = StateTestBed::new();
    let told = |args: &str| preview_chunk(&chunk("pkgrepo.managed", "plain-name", args), &test_bed.scene());
    assert!(told(r#"{"enabled": 1, "disabled": 0}"#).contains("Only one of enabled/disabled is allowed"));
    assert!(told(r#"{"repo": "x"}"#).contains("'repo' is not a supported argument"));
    assert!(told(r#"{"key_url": "x", "key_text": "y"}"#).contains("both"));
    assert!(told(r#"{"keyid": "AB"}"#).contains("both keyserver and keyid options required."));
    assert!(told("{}").contains("must be the complete repo entry"));
}

#[test]
fn what_is_no_entry_is_not_absent() {
    let test_bed = StateTestBed::new();
    let told =
        |name: &str, args: &str| preview_chunk(&chunk("pkgrepo.absent", name, args), &test_bed.scene());
    for name in ["docker", "http://h/ x main", "ppa:a/b"] {
        assert!(told(name, "{}").contains("is not a well formatted definition"), "{name}");
    }
    assert!(told("deb http://h.invalid/ x main", r#"{"keyid": "0123ABCD"}"#).contains("is absent"));
    assert!(
        told("deb http://h.invalid/ x main", r#"{"keyid_ppa": true}"#).contains("give the number of the key")
    );
}

#[test]
fn a_personal_archive_is_one_of_ubuntu() {
    let chunk = chunk("pkgrepo.managed", "x", r#"{"ppa": "wolfnet/logstash"}"#);
    let args = ChunkArgs::new(&chunk);
    let line = |os: &str| {
        entry_from_name(&args, &RepoFormat::Debian(os.into(), "jammy".into())).unwrap().map(|e| e.to_line())
    };
    assert_eq!(
        line("Ubuntu").as_deref(),
        Some("deb https://ppa.launchpadcontent.net/wolfnet/logstash/ubuntu jammy main")
    );
    assert_eq!(line("Debian"), None);
}

#[test]
fn the_key_goes_to_the_keyring_that_the_entry_names() {
    let path = |name: &str, args: &str| {
        let chunk = chunk("pkgrepo.managed", name, args);
        let args = ChunkArgs::new(&chunk);
        let ring = keyring_path(&args, &RepoFormat::Debian("Debian".into(), "bookworm".into())).unwrap();
        SigningKey::from_args(&args, ring.as_deref()).unwrap().map(|key| key.path().display().to_string())
    };
    let url = r#"{"key_url": "salt://k", "signedby": "/etc/apt/keyrings/x.gpg"}"#;
    assert_eq!(path("deb http://h/ x main", url).as_deref(), Some("/etc/apt/keyrings/x.gpg"));
    let named = "deb [signed-by=/y.gpg] http://h/ x main";
    assert_eq!(path(named, r#"{"key_url": "salt://k"}"#).as_deref(), Some("/y.gpg"));
    let common = path("deb http://h/ x main", r#"{"key_url": "salt://k"}"#);
    assert!(common.is_some_and(|p| p.starts_with("/etc/apt/trusted.gpg.d/")));
}

#[test]
fn only_a_key_of_the_network_cannot_be_foreseen() {
    let is_foreseen =
        |args: &str| build_state(&chunk("pkgrepo.managed", "deb http://h/ x main", args)).is_predictable();
    assert!(is_foreseen("{}") && is_foreseen(r#"{"key_url": "salt://key"}"#));
    assert!(
        !is_foreseen(r#"{"key_url": "https://h/key"}"#)
            && !is_foreseen(r#"{"keyid": "AB", "keyserver": "h"}"#)
    );
}
