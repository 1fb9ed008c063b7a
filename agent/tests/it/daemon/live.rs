//! The daemon among other processes: it reloads its configuration, stops cleanly, and outlives its turns.

use std::fs;

use jiff::{SignedDuration, Timestamp};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use zagent_daemon::api::RunRequest;

use crate::node::{Node, STUCK, Upstream, eventually, is_idle};

#[test]
fn an_invalid_configuration_is_reported_and_the_old_one_stays() {
    let mut upstream = Upstream::new();
    let mut node = Node::new(&upstream.config());
    let first = upstream.push_marker(&node, "one");
    node.start();
    node.converges(&first);
    let pid = node.status().daemon.unwrap().pid;
    node.configure("source: {poll: never}\n");
    node.signal(Signal::SIGHUP);
    node.says("the configuration is invalid, keeping the previous one");
    upstream.polls(2);
    assert_eq!(node.status().daemon.unwrap().pid, pid);
    node.configure(&upstream.config());
    node.signal(Signal::SIGHUP);
    node.says("configuration reloaded");
    let second = upstream.push_marker(&node, "two");
    node.converges(&second);
}

#[test]
fn a_new_configuration_applies_to_polls_too() {
    let mut upstream = Upstream::new();
    let without = upstream.config().replace("poll: 1s", "poll: 1s, testing: false");
    let mut node = Node::new(&without);
    let first = upstream.push_marker(&node, "one");
    node.start();
    node.converges(&first);
    let second = upstream.push_marker(&node, "two");
    upstream.repo.set_branch("main", &first);
    upstream.repo.set_branch("testing/node", &second);
    upstream.polls(2);
    assert_eq!(node.host("marker"), "one\n");
    node.configure(&upstream.config());
    node.signal(Signal::SIGHUP);
    let settled = node.converges(&second).last_run;
    upstream.polls(3);
    assert_eq!(node.status().last_run, settled, "polls ask for the branch too");
    upstream.repo.checkout(&second);
    let third = upstream.push_marker(&node, "three");
    upstream.repo.set_branch("main", &first);
    upstream.repo.set_branch("testing/node", &third);
    let run = node.converges(&third).last_run.unwrap();
    assert_eq!(run.trigger, "git");
}

#[test]
fn it_stops_cleanly_together_with_its_turn() {
    let mut upstream = Upstream::new();
    let mut node = Node::new(&upstream.config());
    node.pipe("never");
    upstream.push(&node, STUCK);
    node.start();
    eventually("the run is stuck", || (!node.host("pid").is_empty()).then_some(()));
    node.signal(Signal::SIGTERM);
    let status = node.ended();
    assert_eq!(status.code(), Some(0), "{status}: {}", node.said());
    assert!(!node.socket().exists());
    let stuck = node.host("pid");
    assert!(!fs::exists(format!("/proc/{}", stuck.trim())).unwrap(), "the command of the run is gone");
    let last: Value = serde_json::from_str(&node.fine(&["history", "last", "--out", "json"])).unwrap();
    assert_eq!((&last["canceled"], &last["success"]), (&true.into(), &false.into()), "{last:#}");
    assert_eq!(node.host("ran"), "");
}

#[test]
fn an_upgrade_stops_it_after_its_turn() {
    let mut upstream = Upstream::new();
    let mut node = Node::new(&upstream.config());
    let never = node.pipe("never");
    upstream.push(&node, STUCK);
    node.start();
    eventually("the run is stuck", || (!node.host("pid").is_empty()).then_some(()));
    node.signal(Signal::SIGUSR1);
    node.says("the daemon stops after the current run");
    assert_eq!(node.host("ran"), "");
    // Opening it lets the command continue.
    fs::write(never, "now\n").unwrap();
    let status = node.ended();
    assert_eq!(status.code(), Some(0), "{status}: {}", node.said());
    assert_eq!(node.host("ran"), "x\n");
    let last: Value = serde_json::from_str(&node.fine(&["history", "last", "--out", "json"])).unwrap();
    assert_eq!((&last["canceled"], &last["success"]), (&false.into(), &true.into()), "{last:#}");
    // Without a run it stops at once.
    node.start();
    eventually("it is idle", || is_idle(&node.status()).then_some(()));
    node.signal(Signal::SIGUSR1);
    assert_eq!(node.ended().code(), Some(0));
}

#[test]
fn one_daemon_serves_a_root() {
    let upstream = Upstream::new();
    let mut node = Node::new(&upstream.config());
    node.start();
    let output = node.zagent(&["run"]);
    assert!(!output.status.success(), "{output:?}");
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(words.contains(node.socket().to_str().unwrap()) && words.contains("another"), "{words}");
    node.status();
    node.signal(Signal::SIGTERM);
    assert_eq!(node.ended().code(), Some(0));
    node.start();
    node.status();
}

#[test]
fn a_killed_turn_is_a_failure_like_any_other() {
    let mut upstream = Upstream::new();
    let mut node = Node::new(&upstream.config());
    node.pipe("never");
    let revision = upstream.push(&node, STUCK);
    node.start();
    eventually("the run is stuck", || (!node.host("pid").is_empty()).then_some(()));
    let [turn] = node.children()[..] else { panic!("{:?}", node.children()) };
    kill(Pid::from_raw(turn), Signal::SIGKILL).unwrap();
    eventually("it was waited for", || (!node.children().contains(&turn)).then_some(()));
    // The turn is gone; the processes it started are not.
    let _ = kill(Pid::from_raw(node.host("pid").trim().parse().unwrap()), Signal::SIGKILL);
    fs::write(node.path("host/go"), "").unwrap();
    let end = node.run(&RunRequest::default());
    assert_eq!(end.exit, 0, "{end:?}\n{}", node.said());
    assert_eq!(node.converges(&revision).failures, 0);
    let runs: Value = serde_json::from_str(&node.fine(&["history", "--out", "json"])).unwrap();
    let killed = runs.as_array().unwrap().iter().filter(|run| run["killed"] == true).count();
    assert_eq!(killed, 1, "{runs:#}");
}

#[test]
fn a_failed_run_is_retried_without_a_new_commit() {
    let mut upstream = Upstream::new();
    let mut node = Node::new(&upstream.config());
    upstream.push(&node, "bad: {cmd.run: [{name: 'test -e $D/mended'}]}\n");
    node.start();
    let status = node.until("a failed run", |status| status.last_run.is_some() && is_idle(status));
    assert_eq!(status.failures, 1);
    // A run without a new revision would come in half an hour.
    let next = status.next.run.unwrap();
    assert!(next <= Timestamp::now() + SignedDuration::from_secs(76), "{next}");
    node.signal(Signal::SIGTERM);
    assert_eq!(node.ended().code(), Some(0));
    node.start();
    let status = node.until("a plan for the next run", |status| status.next.run.is_some());
    let next = status.next.run.unwrap();
    assert!(next <= Timestamp::now() + SignedDuration::from_secs(76), "{next}: also after a restart");
}

#[test]
fn a_clean_stop_is_on_the_board() {
    let mut upstream = Upstream::new();
    let board = tempfile::tempdir().unwrap();
    let made = std::process::Command::new("git").args(["init", "-q", "--bare"]).arg(board.path()).status();
    assert!(made.unwrap().success());
    let url = board.path().display();
    let mut node = Node::new(&format!("{}board: {{kind: git, url: 'file://{url}'}}\n", upstream.config()));
    let first = upstream.push_marker(&node, "one");
    node.start();
    node.converges(&first);
    let list = |node: &Node| -> Value {
        serde_json::from_slice(&node.zagent(&["node", "list", "--out", "json"]).stdout).unwrap_or_default()
    };
    eventually("a report", || list(&node)[0]["report"]["last_run"].is_object().then_some(()));
    assert_eq!(list(&node)[0]["stopped"], Value::Null);
    node.signal(Signal::SIGTERM);
    assert_eq!(node.ended().code(), Some(0), "{}", node.said());
    let last = list(&node);
    assert!(last[0]["stopped"].is_string() && last[0]["stale"] == false, "{last:#}");
    assert!(node.fine(&["node", "list"]).contains("stopped "));
}

#[test]
fn a_waiting_client_gets_the_reason_when_nothing_was_run() {
    let mut upstream = Upstream::new();
    let mut node = Node::new(&upstream.config());
    upstream.push(&node, "marker: {file.mangd: []}\n");
    node.start();
    let output = node.zagent(&["trigger", "--wait"]);
    let words = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(65), "{output:?}");
    assert!(words.contains("all.sls") && words.contains("mangd"), "{words}");
}

#[test]
fn a_fault_that_goes_on_is_logged_once() {
    let mut upstream = Upstream::new();
    let mut node = Node::new(&upstream.config());
    let first = upstream.push_marker(&node, "one");
    node.start();
    node.converges(&first);
    upstream.server.set_down(true);
    let failures = |node: &Node| node.status().remotes[0].failures.values().sum::<u64>();
    let before = failures(&node);
    node.until("several polls fail", |status| status.remotes[0].failures.values().sum::<u64>() >= before + 3);
    let status = node.status();
    let words = status.remotes[0].message.clone().unwrap();
    let lines = node.said().lines().filter(|line| line.contains("WARN") && line.contains(&words)).count();
    assert_eq!(lines, 1, "{}", node.said());
    assert!(node.fine(&["status"]).contains("newest    unknown: no remote answers since"), "{status:?}");
}

/// The program where every user can start it, with a root that only its owner can read.
fn shared_site() -> Option<(tempfile::TempDir, std::path::PathBuf)> {
    use std::os::unix::fs::PermissionsExt;
    if !nix::unistd::geteuid().is_root() {
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = dir.path().join("zagent");
    fs::copy(env!("CARGO_BIN_EXE_zagent"), &program).unwrap();
    let at = dir.path().display();
    fs::write(dir.path().join("zagent.yaml"), format!("id: web-01\nroot: {at}/root\n")).unwrap();
    fs::create_dir(dir.path().join("states")).unwrap();
    let sls = "say:\n  exec.run:\n    - command: echo hello from exec\n    - logoutput: true\n";
    fs::write(dir.path().join("states/all.sls"), sls).unwrap();
    Some((dir, program))
}

#[test]
fn a_history_that_may_not_be_read_exits_with_77_and_logged_output_needs_no_flag() {
    use std::os::unix::process::CommandExt;
    let Some((dir, program)) = shared_site() else { return };
    let command = |words: &[&str]| {
        let mut command = std::process::Command::new(&program);
        command.args(words).arg("--config").arg(dir.path().join("zagent.yaml")).current_dir(dir.path());
        command
    };
    let states = dir.path().join("states").display().to_string();
    let ran = command(&["run", "--once", "--states", &states, "--sls", "all"]).output().unwrap();
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(said.contains("hello from exec"), "{said}");
    assert_eq!(command(&["history"]).output().unwrap().status.code(), Some(0));
    let denied = command(&["history"]).uid(65534).gid(65534).output().unwrap();
    assert_eq!(denied.status.code(), Some(77), "{denied:?}");
}
