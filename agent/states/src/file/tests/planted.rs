//! Links that somebody else put where a state writes.

use std::os::unix::fs::lchown;
use std::path::Path;

use serde_json::{Value as Json, json};

use super::{put_file, set_mode};
use crate::testing::StateTestBed;
use zagent_host::disk::Disk;
use zagent_host::fs::Overlay;

/// Somebody who is not us.
const STRANGER: u32 = 12345;

/// Every state that writes into a file that is there, with a change that it would make to `old`.
fn writers(name: &str) -> Vec<(&'static str, Json)> {
    vec![
        ("managed", json!({"name": name, "contents": "new"})),
        ("append", json!({"name": name, "text": "new"})),
        ("prepend", json!({"name": name, "text": "new"})),
        ("replace", json!({"name": name, "pattern": "old", "repl": "new"})),
        ("line", json!({"name": name, "mode": "replace", "match": "old", "content": "new"})),
        ("comment", json!({"name": name, "regex": "old"})),
        (
            "keyvalue",
            json!({"name": name, "key": "k", "value": "new", "separator": "=", "append_if_not_found": true}),
        ),
        (
            "blockreplace",
            json!({"name": name, "content": "new", "marker_start": "#a", "marker_end": "#b", "append_if_not_found": true}),
        ),
        ("serialize", json!({"name": name, "dataset": {"new": 1}, "formatter": "json"})),
        ("decode", json!({"name": name, "encoded_data": "bmV3", "encoding_type": "base64"})),
    ]
}

/// `d/ww/f` leads to `victim`.
fn plant(test_bed: &StateTestBed, mode: &str, dir_owner: u32, link_owner: u32) -> std::path::PathBuf {
    let victim = test_bed.dir.path().join("victim");
    put_file(&victim, "old\n", "0600");
    let ww = test_bed.test_dir().join("ww");
    std::fs::create_dir(&ww).unwrap();
    set_mode(&ww, mode);
    std::os::unix::fs::symlink(&victim, ww.join("f")).unwrap();
    lchown(ww.join("f"), Some(link_owner), None).unwrap();
    lchown(&ww, Some(dir_owner), None).unwrap();
    victim
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn a_link_of_a_stranger_at_the_end_is_never_written_through() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    for (mode, dir_owner) in [("1777", 0), ("0755", STRANGER), ("0777", 0)] {
        for (fun, args) in writers("$D/ww/f") {
            let test_bed = StateTestBed::for_files();
            let link_owner = if mode == "0777" { 0 } else { STRANGER };
            let victim = plant(&test_bed, mode, dir_owner, link_owner);
            let chunk = test_bed.chunk(fun, &args);
            for answer in [test_bed.check_chunk(&chunk), test_bed.run_chunk(&chunk)] {
                assert_eq!(answer.result, Some(false), "{fun} in {mode}: {answer:?}");
                assert!(answer.comment.contains("another user may have put there"), "{fun}: {answer:?}");
            }
            assert_eq!(text(&victim), "old\n", "{fun} in {mode}");
            assert!(test_bed.test_dir().join("ww/f").is_symlink());
        }
    }
}

#[test]
fn a_planted_link_to_nothing_makes_nothing() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    for (fun, args) in [
        ("managed", json!({"name": "$D/ww/f", "contents": "new", "makedirs": true})),
        ("append", json!({"name": "$D/ww/f", "text": "new", "makedirs": true})),
    ] {
        let test_bed = StateTestBed::for_files();
        let victim = plant(&test_bed, "1777", 0, STRANGER);
        std::fs::remove_file(&victim).unwrap();
        let answer = test_bed.run_chunk(&test_bed.chunk(fun, &args));
        assert_eq!(answer.result, Some(false), "{fun}: {answer:?}");
        assert!(!victim.exists(), "{fun}");
    }
}

#[test]
fn a_link_of_our_own_is_followed() {
    let me = rustix::process::geteuid().as_raw();
    for mode in ["0755", "1777"] {
        for (fun, args) in writers("$D/ww/f") {
            let test_bed = StateTestBed::for_files();
            let victim = plant(&test_bed, mode, me, me);
            let answer = test_bed.run_chunk(&test_bed.chunk(fun, &args));
            assert_eq!(answer.result, Some(true), "{fun}: {answer:?}");
            assert_ne!(text(&victim), "old\n", "{fun}");
            assert!(test_bed.test_dir().join("ww/f").is_symlink(), "{fun}");
        }
    }
}

#[test]
fn what_is_imagined_follows_the_same_rule() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    for (owner, result) in [(STRANGER, Some(false)), (0, Some(true))] {
        for (fun, args) in writers("$D/ww/f") {
            let test_bed = StateTestBed::for_files();
            let victim = plant(&test_bed, "1777", 0, owner);
            let overlay = Overlay::new(std::sync::Arc::new(Disk::default()));
            let answer = test_bed.run_on(&overlay, &test_bed.chunk(fun, &args));
            assert_eq!(answer.result, result, "{fun} of {owner}: {answer:?}");
            assert_eq!(text(&victim), "old\n", "{fun}");
        }
    }
}

#[test]
fn the_name_of_a_directory_is_no_file() {
    for makedirs in [false, true] {
        for there in [false, true] {
            let test_bed = StateTestBed::for_files();
            if there {
                put_file(&test_bed.test_dir().join("f"), "old\n", "0644");
            }
            let args = json!({"name": "$D/f/", "contents": "new", "makedirs": makedirs});
            let chunk = test_bed.chunk("managed", &args);
            let answer = test_bed.run_chunk(&chunk);
            assert_eq!((answer.result, &*answer.comment), (Some(false), "Parent directory not present"));
            let append =
                test_bed.run_chunk(&test_bed.chunk("append", &json!({"name": "$D/f/", "text": "new"})));
            assert_eq!(append.result, Some(false), "{append:?}");
            let left = std::fs::read_to_string(test_bed.test_dir().join("f")).ok();
            assert_eq!(left.as_deref(), there.then_some("old\n"));
        }
    }
}
