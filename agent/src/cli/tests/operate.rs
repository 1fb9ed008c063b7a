//! Pause, pin and quarantine on the command line.

use std::os::unix::fs::MetadataExt;

use jiff::Timestamp;
use zagent_config::paths::Paths;

use super::*;
use zagent_daemon::operator::pause::Pause;
use zagent_daemon::operator::pin::{NodePin, PinTarget};
use zagent_daemon::operator::quarantine::{Quarantine, QuarantinedRevision};

struct Node {
    dir: tempfile::TempDir,
}

impl Node {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let text = format!("root: {}\n", dir.path().join("root").display());
        std::fs::write(dir.path().join("zagent.yaml"), text).unwrap();
        Self { dir }
    }

    fn paths(&self) -> Paths {
        Paths::new(self.dir.path().join("root"))
    }

    fn say(&self, args: &[&str]) -> Said {
        let config = self.dir.path().join("zagent.yaml").display().to_string();
        let mut args = args.to_vec();
        args.extend(["--config", &config]);
        zagent(&args, self.dir.path())
    }
}

#[test]
fn a_pause_is_set_shown_and_ended() {
    let node = Node::new();
    let said = node.say(&["pause", "--for", "90m", "--reason", "disk\nswap"]);
    assert_eq!(said.exit, ExitStatus::Success, "{}", said.all());
    assert!(said.out.starts_with("paused until ") && said.out.ends_with(": disk swap\n"), "{}", said.all());
    assert!(said.out.contains("(in 1h 30m)"), "{}", said.all());
    let now = Timestamp::now();
    let pause = Pause::read(&node.paths(), now).unwrap().unwrap();
    let left = pause.until.unwrap().duration_since(now).as_secs();
    assert!((5300..=5400).contains(&left), "{left}");
    assert_eq!(std::fs::metadata(node.paths().pause()).unwrap().mode() & 0o777, 0o600);
    let file = node.dir.path().join("by-hand").display().to_string();
    let asked = ["state.single", "file.managed", &file, "contents=x"];
    let said = node.say(&[&asked[..], &["--test"]].concat());
    assert!(!said.err.contains("paused"), "who only looks disturbs no pause: {}", said.all());
    let said = node.say(&asked);
    assert!(
        said.err.contains("warning: the agent is paused until ") && said.err.contains("started manually"),
        "{}",
        said.all()
    );
    assert!(node.say(&["resume"]).out.starts_with("resumed; it was paused until "));
    assert_eq!(node.say(&["resume"]).out, "not paused\n");
    let data = node.say(&["pause", "--out", "json"]).json();
    assert_eq!((&data["success"], data["pause"]["until"].is_string()), (&true.into(), true), "a pause ends");
    let data = node.say(&["pause", "--forever", "--out", "json"]).json();
    assert!(data["pause"]["until"].is_null());
    std::fs::write(node.paths().pause(), "{").unwrap();
    assert_eq!(node.say(&["resume"]).out, "resumed; the pause file was damaged\n");
    for bad in [
        &["pause", "--for", "soon"][..],
        &["pause", "--for", "0s"],
        &["pause", "--until", "never"],
        &["pause", "--forever", "--for", "1h"],
    ] {
        let said = node.say(bad);
        assert_eq!(said.exit, ExitStatus::Usage, "{}", said.all());
    }
    assert!(!node.paths().pause().exists(), "a slip pauses nothing");
}

#[test]
fn a_pin_is_set_and_removed() {
    let node = Node::new();
    let commit = "0123456789abcdef0123456789abcdef01234567";
    let said = node.say(&["pin", commit, "--reason", "wait for the fix"]);
    assert_eq!(said.exit, ExitStatus::Success, "{}", said.all());
    assert!(said.out.starts_with("pinned to commit 0123456789ab since "), "{}", said.all());
    assert_eq!(NodePin::read(&node.paths()).unwrap().unwrap().to, PinTarget::Commit(commit.parse().unwrap()));
    let data = node.say(&["pin", "fix/disk", "--out", "json"]).json();
    assert_eq!(data["pin"]["to"], serde_json::json!({"branch": "fix/disk"}));
    let short = node.say(&["pin", "0123456789"]);
    assert!(
        short.exit == ExitStatus::Usage && short.err.contains("git rev-parse 0123456789"),
        "{}",
        short.all()
    );
    assert_eq!(node.say(&["pin", "--upload-pack=x"]).exit, ExitStatus::Usage);
    assert!(node.say(&["unpin"]).out.starts_with("unpinned; it was pinned to branch fix/disk since "));
    assert_eq!(node.say(&["unpin"]).out, "not pinned\n");
    std::fs::write(node.paths().pin(), "{").unwrap();
    assert_eq!(node.say(&["unpin"]).out, "unpinned; the pin file was damaged\n");
}

#[test]
fn revisions_are_cleared_one_by_one_or_all() {
    let node = Node::new();
    assert_eq!(node.say(&["quarantine", "list"]).out, "no revision is quarantined\n");
    for digit in ["a", "b", "c"] {
        let one = QuarantinedRevision {
            revision: digit.repeat(40).parse().unwrap(),
            since: Timestamp::now(),
            reason: format!("health check web failed: {digit}"),
            run: format!("run-{digit}"),
        };
        Quarantine::add(&node.paths(), one).unwrap();
    }
    let list = node.say(&["quarantine", "list"]).out;
    assert_eq!(list.lines().count(), 3);
    assert!(
        list.starts_with("cccccccccccc  for ") && list.contains("  run run-c  health check web failed: c"),
        "{list}"
    );
    assert_eq!(node.say(&["quarantine", "list", "--out", "json"]).json()[2]["run"], "run-a");
    assert_eq!(
        node.say(&["quarantine", "clear", "bbbbbbb"]).out,
        "1 revision cleared: the node can try again\n"
    );
    for bad in [
        &["quarantine", "clear", "dddd"][..],
        &["quarantine", "clear", "a"],
        &["quarantine", "clear"],
        &["quarantine", "clear", "aaaa", "--all"],
    ] {
        assert_eq!(node.say(bad).exit, ExitStatus::Usage, "{bad:?}");
    }
    assert_eq!(node.say(&["quarantine", "list", "--out", "json"]).json().as_array().unwrap().len(), 2);
    assert_eq!(
        node.say(&["quarantine", "clear", "--all"]).out,
        "2 revisions cleared: the node can try again\n"
    );
    assert_eq!(node.say(&["quarantine", "clear", "--all"]).out, "no revision was quarantined\n");
    std::fs::write(node.paths().quarantine(), "[").unwrap();
    let damaged = node.say(&["quarantine", "list"]);
    assert!(damaged.exit == ExitStatus::Failed && damaged.err.contains("is damaged"), "{}", damaged.all());
}
