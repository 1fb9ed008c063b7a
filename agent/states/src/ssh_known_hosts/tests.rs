//! Files of known hosts: what states say and what they leave.

use crate::testing::{StateTestBed, apply_chunk, chunk};

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
