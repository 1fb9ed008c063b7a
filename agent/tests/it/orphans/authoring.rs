//! Taking over a host that exists: what a first run would overwrite, and states written from what is there.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::process::Command;

use serde_json::Value;

use super::{PruneHost, exists};

#[test]
fn adopt_shows_and_saves_what_would_be_lost() {
    let node = PruneHost::new();
    node.write("host/conf", "old = 1\n");
    node.write("host/same", "same\n");
    node.write("host/gone", "going\n");
    fs::set_permissions(node.host("conf"), fs::Permissions::from_mode(0o640)).unwrap();
    symlink("conf", node.host("link")).unwrap();
    node.states(
        "conf:\n  file.managed:\n    - name: $H/conf\n    - contents: new = 2\n\
         same:\n  file.managed:\n    - name: $H/same\n    - contents: same\n\
         link:\n  file.symlink:\n    - name: $H/link\n    - target: same\n    - force: true\n\
         gone:\n  file.absent:\n    - name: $H/gone\n\
         new:\n  file.managed:\n    - name: $H/new\n    - contents: new\n",
    );
    let before = host_listing(&node);
    let text = node.zagent(0, &["adopt"]);
    assert!(text.contains("-old = 1") && text.contains("+new = 2"), "{text}");
    assert!(!text.contains("/same:") && !text.contains("/new"), "{text}");
    let saved = node.path("saved").display().to_string();
    let all: Value =
        serde_json::from_str(&node.zagent(0, &["adopt", "--backup", &saved, "--out", "json"])).unwrap();
    assert_eq!((&all["saved"], all["overwrites"].as_array().unwrap().len()), (&3.into(), 3), "{all:#}");
    let below = |name: &str| node.path("saved").join(node.host(name).strip_prefix("/").unwrap());
    assert_eq!(fs::read_to_string(below("conf")).unwrap(), "old = 1\n");
    assert_eq!(fs::metadata(below("conf")).unwrap().mode() & 0o7777, 0o640);
    assert_eq!(fs::read_link(below("link")).unwrap().to_str(), Some("conf"));
    assert!(exists(&below("gone")) && !exists(&below("same")));
    // An earlier copy is never overwritten, and nothing else was touched.
    node.zagent(1, &["adopt", "--backup", &saved]);
    assert_eq!(host_listing(&node), before);
    node.run(&[]);
    assert!(node.zagent(0, &["adopt"]).contains("a run would overwrite nothing that is there"));
}

#[test]
fn adopt_shows_and_saves_directories_that_would_go() {
    let node = PruneHost::new();
    node.write("host/gone/sub/a", "a\n");
    node.write("host/kept/c", "c\n");
    node.states(
        "gone:\n  file.absent:\n    - name: $H/gone\n\
         kept:\n  file.directory:\n    - name: $H/kept\n    - mode: '0700'\n",
    );
    let saved = node.path("saved").display().to_string();
    let all: Value =
        serde_json::from_str(&node.zagent(0, &["adopt", "--backup", &saved, "--out", "json"])).unwrap();
    assert_eq!((&all["saved"], all["overwrites"].as_array().unwrap().len()), (&1.into(), 1), "{all:#}");
    let below = |name: &str| node.path("saved").join(node.host(name).strip_prefix("/").unwrap());
    assert_eq!(fs::read_to_string(below("gone/sub/a")).unwrap(), "a\n");
    assert!(!exists(&below("kept")));
}

fn host_listing(node: &PruneHost) -> Vec<(String, u32, i64)> {
    let mut all: Vec<_> = fs::read_dir(node.path("host"))
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let meta = entry.path().symlink_metadata().unwrap();
            (entry.file_name().into_string().unwrap(), meta.mode(), meta.mtime_nsec())
        })
        .collect();
    all.sort();
    all
}

/// Records something, and runs what was written: nothing may change.
fn record_and_check(node: &PruneHost, args: &[&str]) -> String {
    let sls = node.zagent(0, &[&["record"], args].concat());
    fs::write(node.path("states/web.sls"), &sls).unwrap();
    let report = node.run(&["--test"]);
    assert_eq!((&report["changed"], &report["failed"]), (&0.into(), &0.into()), "{sls}\n{report:#}");
    assert!(report["total"].as_u64().unwrap() > 0, "{sls}");
    sls
}

#[test]
fn what_is_recorded_is_in_sync() {
    let node = PruneHost::new();
    node.write("host/plain", "a: b\n{{ not a template }} {% if %}\n\ttab 'quote' \"double\"\n\nend\n");
    node.write("host/open", "no newline");
    node.write("host/empty", "");
    fs::set_permissions(node.host("open"), fs::Permissions::from_mode(0o600)).unwrap();
    symlink("plain", node.host("link")).unwrap();
    let path = |name: &str| node.host(name).display().to_string();
    let names = [path("plain"), path("open"), path("empty"), path("link"), path("")];
    let names: Vec<&str> = names.iter().map(|name| name.trim_end_matches('/')).collect();
    record_and_check(&node, &[&["file"], names.as_slice()].concat());
    record_and_check(&node, &["user", "root", "nobody"]);
    record_and_check(&node, &["group", "root", "daemon"]);
    if Command::new("dpkg").arg("--version").output().is_ok() {
        record_and_check(&node, &["pkg", "coreutils", "bash"]);
    }
    let out = node.path("new.sls").display().to_string();
    node.zagent(0, &["record", "user", "root", "--out", &out]);
    assert!(fs::read_to_string(&out).unwrap().starts_with("#!yaml\n"));
    node.zagent(2, &["record", "user", "root", "--out", &out]);
    for args in [["pkg", "no-such-package"], ["user", "no-such-user"], ["group", "nogroup-x"]] {
        node.zagent(1, &["record", args[0], args[1]]);
    }
    fs::write(node.host("binary"), [0, 255, 1]).unwrap();
    node.zagent(2, &["record", "file", &path("binary")]);
    node.zagent(2, &["record", "file", "relative"]);
}

#[test]
fn a_comparison_names_what_a_removed_state_leaves_behind() {
    let node = PruneHost::new();
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        command.current_dir(node.path("repo")).args([
            "-c",
            "user.name=You",
            "-c",
            "user.email=you@example.org",
        ]);
        assert!(command.args(args).output().unwrap().status.success(), "{args:?}");
    };
    node.write("repo/states/top.sls", "base: {'*': [web]}\n");
    node.write("repo/states/web.sls", "a:\n  file.managed:\n    - name: /etc/za\nb:\n  pkg.installed: []\n");
    node.write("repo/inventory/web-01.yaml", "id: web-01\n");
    git(&["init", "-q"]);
    git(&["add", "-A"]);
    git(&["commit", "-qm", "one"]);
    node.write("repo/states/web.sls", "other:\n  pkg.installed:\n    - name: b\n");
    git(&["commit", "-qam", "two"]);
    let output = Command::new(env!("CARGO_BIN_EXE_zagent"))
        .args(["check", "--diff", "HEAD~1..HEAD"])
        .current_dir(node.path("repo"))
        .env("ZAGENT_CONFIG", node.path("zagent.yaml"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("leaves file /etc/za behind"), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(!text.contains("leaves pkg b behind"), "another state manages it: {text}");
}

#[test]
fn the_daemon_removes_orphans_as_configured_and_counts_the_others() {
    let node = PruneHost::new();
    node.configure("run: {prune: {types: [file]}}\n");
    node.states(super::TWO);
    let turn = |node: &PruneHost| node.run(&["--trigger", "timer"]);
    turn(&node);
    node.states(super::NONE);
    let report = turn(&node);
    assert_eq!(report["changed"], 3, "{report:#}");
    assert!(!exists(&node.host("b")) && exists(&node.host("l")));
    let status: Value = serde_json::from_str(&node.zagent(0, &["status", "--out", "json"])).unwrap();
    assert_eq!(status["orphans"], 2, "{status:#}");
}
