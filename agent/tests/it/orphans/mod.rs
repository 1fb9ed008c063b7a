//! What earlier revisions managed and this one does not: listed, removed, and never anything else.

#![allow(clippy::disallowed_methods, reason = "tests use the machine directly")]
#![expect(clippy::unwrap_used, reason = "a test that cannot set up its host has failed")]

mod accounts;
mod authoring;
mod histories;
mod kept;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A directory of states, a directory that stands for the host, and the agent's own directory.
struct PruneHost {
    temp: TempDir,
}

impl PruneHost {
    fn new() -> Self {
        let node = Self { temp: tempfile::tempdir().unwrap() };
        fs::create_dir(node.path("host")).unwrap();
        node.configure("");
        node.write("states/top.sls", "base: {'*': [web]}\n");
        node
    }

    /// Follows the directory of states, with more settings.
    fn configure(&self, more: &str) {
        let at = |name: &str| self.path(name).display().to_string();
        self.write(
            "zagent.yaml",
            &format!("id: web-01\nroot: {}\nbaked: {}\n{more}", at("root"), at("states")),
        );
    }

    fn path(&self, name: &str) -> PathBuf {
        self.temp.path().join(name)
    }

    fn host(&self, name: &str) -> PathBuf {
        self.path("host").join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text.replace("$H", &self.path("host").display().to_string())).unwrap();
    }

    fn states(&self, sls: &str) {
        self.write("states/web.sls", sls);
    }

    fn zagent(&self, code: i32, args: &[&str]) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_zagent"))
            .args(args)
            .current_dir(self.temp.path())
            .env("ZAGENT_CONFIG", self.path("zagent.yaml"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(
            output.status.code(),
            Some(code),
            "{args:?}\n{}\n{}",
            text(&output.stdout),
            text(&output.stderr)
        );
        text(&output.stdout)
    }

    fn run(&self, args: &[&str]) -> Value {
        self.run_code(0, args)
    }

    fn run_code(&self, code: i32, args: &[&str]) -> Value {
        let all = [&["run", "--once", "--out", "json"], args].concat();
        serde_json::from_str(&self.zagent(code, &all)).unwrap()
    }

    fn orphans(&self) -> Vec<String> {
        let all: Value = serde_json::from_str(&self.zagent(0, &["orphans", "--out", "json"])).unwrap();
        let host = self.path("host").display().to_string();
        let one = |o: &Value| {
            let name = o["name"].as_str().unwrap().replace(&host, "$H");
            format!(
                "{} {name} created={} changed={}",
                o["type"].as_str().unwrap(),
                o["created"],
                o["changed"]
            )
        };
        all["orphans"].as_array().unwrap().iter().map(one).collect()
    }

    fn record(&self) -> Vec<u8> {
        fs::read(self.path("root/state/managed")).unwrap()
    }
}

fn exists(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

const TWO: &str = "a:\n  file.managed:\n    - name: $H/new/a\n    - makedirs: true\n    - contents: a\n\
                   b:\n  file.managed:\n    - name: $H/b\n    - contents: b\n\
                   l:\n  file.symlink:\n    - name: $H/l\n    - target: b\n";
const NONE: &str = "keep:\n  file.managed:\n    - name: $H/keep\n    - contents: keep\n";

#[test]
fn orphans_are_listed_and_removed_and_come_back_with_a_revert() {
    let node = PruneHost::new();
    node.write("host/b", "mine\n");
    node.states(TWO);
    node.run(&[]);
    assert_eq!(node.orphans(), [""; 0]);
    node.states(NONE);
    node.run(&[]);
    assert_eq!(
        node.orphans(),
        [
            "symlink $H/l created=true changed=false",
            "file $H/new/a created=true changed=false",
            "file $H/b created=false changed=false",
            "directory $H/new created=true changed=false",
        ]
    );
    let text = node.zagent(2, &["orphans", "--detailed-exitcodes"]);
    assert!(text.contains("web.sls:1)") && text.contains("was there before zagent"), "{text}");

    let dry = node.run(&["--test", "--prune=file,directory,symlink"]);
    assert_eq!((&dry["total"], &dry["changed"]), (&5.into(), &3.into()), "{dry:#}");
    assert!(exists(&node.host("new/a")));

    let report = node.run(&["--prune=file,directory,symlink"]);
    assert_eq!(report["changed"], 3, "{report:#}");
    let host = node.path("host").display().to_string();
    let state = &report["states"][format!("file_|-orphan file {host}/new/a_|-{host}/new/a_|-absent")];
    assert_eq!((&state["result"], &state["__sls__"]), (&true.into(), &"web".into()), "{report:#}");
    assert_eq!(state["details"]["prune"], true, "{state:#}");
    assert!(!exists(&node.host("new")) && !exists(&node.host("l")));
    assert!(exists(&node.host("b")), "it was there before zagent");
    assert_eq!(node.orphans(), ["file $H/b created=false changed=false"]);

    node.zagent(0, &["run", "--revert", "last"]);
    assert_eq!(fs::read_to_string(node.host("new/a")).unwrap(), "a\n");
    assert!(exists(&node.host("l")));
}

#[test]
fn what_was_changed_since_or_is_mentioned_or_holds_more_is_kept() {
    let node = PruneHost::new();
    node.states(&format!("{TWO}d:\n  file.directory:\n    - name: $H/d\n"));
    node.run(&[]);
    node.write("host/new/a", "edited\n");
    node.write("host/d/mine", "mine\n");
    node.states(&format!("{NONE}user:\n  file.symlink:\n    - name: $H/other\n    - target: $H/b\n"));
    let report = node.run(&["--prune=file,directory,symlink"]);
    let mut comments: Vec<&str> = report["states"]
        .as_object()
        .unwrap()
        .values()
        .filter_map(|state| state["comment"].as_str()?.split_once("kept: ").map(|(_, why)| why))
        .collect();
    comments.sort_unstable();
    assert_eq!(
        comments,
        [
            "it holds what zagent does not manage",
            "it holds what zagent does not manage",
            "it was changed since outside zagent",
            "the state `user` mentions it"
        ]
    );
    assert!(["new/a", "b", "d/mine"].iter().all(|name| exists(&node.host(name))));
}

#[test]
fn more_orphans_than_the_cap_are_refused() {
    let node = PruneHost::new();
    node.configure("run: {prune: {types: [file], max: 2}}\n");
    let file = |n: usize| format!("f{n}:\n  file.managed:\n    - name: $H/f{n}\n    - contents: x\n");
    node.states(&(0..3).map(file).collect::<String>());
    node.run(&[]);
    node.states(NONE);
    let report = node.run_code(1, &[]);
    let refused = &report["states"]["prune_|-orphans_|-orphans_|-limit"]["comment"];
    assert!(refused.as_str().unwrap().starts_with("3 orphans would be removed, more than the limit of 2"));
    assert!((0..3).all(|n| exists(&node.host(&format!("f{n}")))));
    node.run(&["--prune", "--prune-max", "3"]);
    assert!((0..3).all(|n| !exists(&node.host(&format!("f{n}")))));
}

#[test]
fn a_first_run_an_empty_tree_a_failed_run_and_a_part_remove_nothing() {
    let node = PruneHost::new();
    node.write("host/old", "old\n");
    node.states(NONE);
    node.run(&["--prune=file"]);
    assert!(exists(&node.host("old")));
    node.states(TWO);
    node.run(&[]);
    // Nothing is selected: nothing is an orphan.
    node.write("states/top.sls", "base: {'nobody': [web]}\n");
    assert_eq!(node.orphans(), [""; 0]);
    node.write("states/top.sls", "base: {'*': [web]}\n");
    node.states(&format!("{NONE}bad:\n  file.managed:\n    - name: $H/none/x\n    - contents: x\n"));
    node.run_code(1, &["--prune=file,symlink"]);
    assert!(exists(&node.host("b")) && exists(&node.host("l")));
    // A run of one SLS file, and another tree, are about something else.
    node.states(NONE);
    node.run_code(2, &["--sls", "web", "--prune=file"]);
    node.write("other/top.sls", "base: {'*': [x]}\n");
    node.write("other/x.sls", "x:\n  test.nop: []\n");
    let report = node.run(&["--states", "other", "--prune=file,symlink"]);
    assert_eq!((&report["total"], exists(&node.host("b"))), (&1.into(), true), "{report:#}");
}

#[test]
fn a_run_without_changes_does_not_write_the_record() {
    let node = PruneHost::new();
    node.states(TWO);
    node.run(&[]);
    let before = (node.record(), fs::metadata(node.path("root/state/managed")).unwrap().modified().unwrap());
    node.run(&[]);
    node.run(&["--test"]);
    let after = (node.record(), fs::metadata(node.path("root/state/managed")).unwrap().modified().unwrap());
    assert_eq!(before, after);
}

#[test]
fn files_of_a_directory_tree_go_with_it_and_wrong_types_are_refused() {
    let node = PruneHost::new();
    node.write("states/tree/one", "1\n");
    node.write("states/tree/sub/two", "2\n");
    node.states("t:\n  file.recurse:\n    - name: $H/t\n    - source: salt://tree\n");
    node.run(&[]);
    node.write("host/t/sub/mine", "mine\n");
    node.states(NONE);
    node.run(&["--prune=file,directory"]);
    assert!(!exists(&node.host("t/one")) && !exists(&node.host("t/sub/two")));
    assert_eq!(fs::read_to_string(node.host("t/sub/mine")).unwrap(), "mine\n");
    node.run_code(2, &["--prune=fles"]);
    node.run_code(2, &["--prune"]);
}

#[test]
fn a_damaged_record_removes_nothing_and_says_so() {
    let node = PruneHost::new();
    node.states(TWO);
    node.run(&[]);
    fs::write(node.path("root/state/managed"), "damage").unwrap();
    node.states(NONE);
    let refused = node.run_code(1, &["--prune=file,symlink"]);
    assert!(refused["errors"][0]["message"].as_str().unwrap().contains("damaged at line 1"), "{refused:#}");
    node.run(&[]);
    assert_eq!(node.orphans(), [""; 0]);
    assert!(exists(&node.host("b")) && exists(&node.host("l")));
}
