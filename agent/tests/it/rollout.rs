//! States rollouts on one node with a real Git remote: held back, released, applied, soaked, confirmed, and
//! everything that rolls it back. The test writes what a driver would write, as commits of the branch
//! `rollout/<id>`.

#![allow(clippy::disallowed_methods, reason = "tests use the machine directly")]
#![expect(clippy::unwrap_used, reason = "a test that cannot read or write its files has failed")]

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use jiff::Timestamp;
use nix::sys::signal::Signal;
use zagent_config::paths::Paths;
use zagent_daemon::HoldReason;
use zagent_daemon::status::{AgentStatus, RolloutSummary};
use zagent_rollout::board::SledBoard;
use zagent_rollout::board_stores::{BoardRecords, BoardReports};
use zagent_rollout::envelope::NodeKeys;
use zagent_rollout::record::{
    BatchPhase, Component, NodeProgress, NodeStatus, RolloutMode, RolloutProfile, RolloutRecord,
    RolloutStatus,
};
use zagent_rollout::records::{Records, Reports};
use zagent_rollout::report::NodeActivity;
use zagent_rollout::{BatchSize, Span};

use crate::node::{Node, Upstream, eventually, is_idle, marker};

/// A check that passes as long as the file `sick` does not exist on the host.
const HEALTH: &str = "health: [{name: web, command: '! test -e $D/host/sick', required: true, tries: 1}]\n";

/// One node that follows a repository, and the rollout in that repository.
struct Scene {
    upstream: Upstream,
    node: Node,
    record: RolloutRecord,
}

impl Scene {
    /// A node on `one`, and a rollout that is waiting.
    fn new(config: &str) -> Self {
        let mut upstream = Upstream::new();
        let mut node = Node::new(&format!("{}{config}", upstream.config()));
        let first = upstream.push_marker(&node, "one");
        node.start();
        node.converges(&first);
        let [other, own] = ["other", "node"].map(|name| vec![name.parse().unwrap()]);
        let record = RolloutRecord {
            schema: 1,
            id: "web-42".parse().unwrap(),
            component: Component::States,
            to: "f".repeat(40),
            from: Some(first),
            target: "*".into(),
            batch_size: BatchSize::Nodes(1),
            canary: Default::default(),
            soak_time: Span::seconds(1),
            batch_pause: Span::seconds(0),
            max_failed: 1,
            max_silent: 0,
            min_protocol: 0,
            dry_run: false,
            mode: RolloutMode::Driver,
            profile: RolloutProfile::Normal,
            anyway: false,
            artifacts: vec![],
            batches: vec![other, own],
            current_batch: 0,
            phase: BatchPhase::Prepare,
            phase_since: None,
            nodes: BTreeMap::new(),
            failed: 0,
            state: RolloutStatus::Created,
            reason: None,
            driver: None,
            created: Timestamp::now(),
            by: None,
            started: None,
            finished: None,
            serial: 0,
            unknown_fields: std::collections::BTreeMap::new(),
            fleet: None,
            expires: None,
            postponed: vec![],
            sealed: None,
        };
        Self { upstream, node, record }
    }

    /// Writes the record as a commit of its branch.
    fn write(&mut self, change: impl FnOnce(&mut RolloutRecord)) {
        change(&mut self.record);
        self.record.serial += 1;
        let file = self.node.path("rollout.yaml");
        fs::write(&file, serde_yaml::to_string(&self.record).unwrap()).unwrap();
        let git = |args: &[&str]| {
            let mut command = Command::new("git");
            command.arg("-C").arg(self.upstream.repo.path()).args(args);
            for name in ["AUTHOR", "COMMITTER"] {
                command
                    .env(format!("GIT_{name}_NAME"), "t")
                    .env(format!("GIT_{name}_EMAIL"), "t@example.org");
            }
            let output = command.output().unwrap();
            assert!(output.status.success(), "{args:?} {output:?}");
            String::from_utf8(output.stdout).unwrap().trim().to_owned()
        };
        let blob = git(&["hash-object", "-w", file.to_str().unwrap()]);
        let list = self.node.path("tree");
        fs::write(&list, format!("100644 blob {blob}\trollout.yaml\n")).unwrap();
        let tree = String::from_utf8(
            Command::new("git")
                .arg("-C")
                .arg(self.upstream.repo.path())
                .arg("mktree")
                .stdin(fs::File::open(&list).unwrap())
                .output()
                .unwrap()
                .stdout,
        )
        .unwrap();
        let commit = git(&["commit-tree", tree.trim(), "-m", "a step"]);
        self.upstream.repo.set_branch("rollout/web-42", &commit);
    }

    /// Pushes `two`, which the rollout holds back, and releases no batch yet.
    fn hold_back(&mut self, sls: &str) -> String {
        self.write(|_| ());
        self.node.until("the rollout is known", |status| status.rollout.is_some());
        let second = self.upstream.push(&self.node, sls);
        let to = second.clone();
        self.write(move |record| (record.to, record.state) = (to, RolloutStatus::Rolling));
        second
    }

    /// Releases the node's batch in this phase.
    fn release(&mut self, phase: BatchPhase) {
        self.write(|record| (record.current_batch, record.phase) = (1, phase));
    }

    fn driver_says(&mut self, status: NodeStatus) {
        self.write(|record| {
            record.nodes.insert("node".parse().unwrap(), NodeProgress { status, ..NodeProgress::default() });
        });
    }

    fn is(&self, phase: &str) -> AgentStatus {
        let is = |rollout: &RolloutSummary| rollout.phase == phase;
        self.node.until(phase, |status| status.rollout.as_ref().is_some_and(is) && is_idle(status))
    }

    /// Kills the daemon as a power cut would, and starts it again.
    fn kill(&mut self) {
        self.node.signal(Signal::SIGKILL);
        self.node.ended();
        self.node.start();
    }
}

fn on(status: &AgentStatus) -> &str {
    &status.current.as_ref().unwrap().revision
}

#[test]
fn held_back_released_applied_soaked_and_confirmed() {
    let mut scene = Scene::new(HEALTH);
    let second = scene.hold_back(&marker("two"));
    let status = scene.node.until("the head is held back", |status| status.why_not.is_some());
    let held = status.why_not.unwrap();
    assert_eq!((held.revision.as_str(), held.why), (second.as_str(), HoldReason::Rollout));
    assert!(held.message.contains("held back by rollout web-42: batch 2 of 2, waiting"), "{}", held.message);
    assert!(scene.node.fine(&["status"]).contains("batch 2 of 2, waiting"));
    scene.upstream.polls(2);
    assert_eq!(scene.node.host("marker"), "one\n");
    let by_hand = scene.node.zagent(&["source", "sync"]);
    assert!(String::from_utf8_lossy(&by_hand.stderr).contains("web-42"), "{by_hand:?}");

    scene.release(BatchPhase::Prepare);
    assert_ne!(on(&scene.is("staged")), second, "fetched and verified, not published");
    scene.release(BatchPhase::Apply);
    let status = scene.is("soaking");
    assert_eq!((on(&status), scene.node.host("marker").as_str()), (second.as_str(), "two\n"));
    assert_eq!(status.last_run.unwrap().trigger, "rollout");
    let third = scene.upstream.push_marker(&scene.node, "three");
    scene.release(BatchPhase::Soak);
    scene.release(BatchPhase::Confirm);
    scene.is("confirmed");
    scene.node.until("the next head waits", |status| {
        status.why_not.as_ref().is_some_and(|held| held.revision.as_str() == third)
    });
    assert_eq!(scene.node.host("marker"), "two\n", "the rollout is not over yet");
    scene.write(|record| record.state = RolloutStatus::Completed);
    scene.node.converges(&third);
    assert_eq!(scene.node.host("marker"), "three\n", "the head counts again");
}

#[test]
fn a_rollout_back_lasts_until_something_new_is_pushed() {
    let mut scene = Scene::new(HEALTH);
    let first = scene.record.from.clone().unwrap();
    let second = scene.upstream.push_marker(&scene.node, "two");
    scene.node.converges(&second);
    let back = first.clone();
    scene.write(move |record| {
        (record.to, record.from, record.anyway, record.state) = (back, None, true, RolloutStatus::Rolling);
    });
    scene.release(BatchPhase::Apply);
    assert_eq!(on(&scene.is("soaking")), first);
    scene.release(BatchPhase::Confirm);
    scene.is("confirmed");
    scene.write(|record| record.state = RolloutStatus::Completed);
    scene.node.until("it stays", |status| {
        status.why_not.as_ref().is_some_and(|held| held.message.contains("set the revision of this node"))
    });
    scene.upstream.polls(3);
    assert_eq!(scene.node.host("marker"), "one\n", "the head is where it was, and so is the node");
    let third = scene.upstream.push_marker(&scene.node, "three");
    scene.node.converges(&third);
}

#[test]
fn a_paused_node_is_checked_and_starts_nothing() {
    let mut scene = Scene::new(HEALTH);
    let second = scene.hold_back(&marker("two"));
    scene.release(BatchPhase::Apply);
    assert_eq!(on(&scene.is("soaking")), second);
    scene.node.fine(&["pause", "--for", "1h"]);
    fs::write(scene.node.path("host/sick"), "").unwrap();
    let status = scene.is("failed");
    assert_ne!(on(&status), second, "what was begun is taken back");
    assert_eq!(scene.node.host("marker"), "one\n");

    let mut scene = Scene::new(HEALTH);
    scene.hold_back(&marker("two"));
    scene.node.fine(&["pause", "--for", "1h"]);
    scene.release(BatchPhase::Apply);
    scene.upstream.polls(3);
    assert_eq!((scene.is("waiting").rollbacks, scene.node.host("marker").as_str()), (0, "one\n"));
    scene.node.fine(&["resume"]);
    scene.is("soaking");
}

#[test]
fn a_failing_check_rolls_back_and_quarantines() {
    let mut scene = Scene::new(HEALTH);
    let sick = format!("{}sick: {{file.managed: [{{name: $D/sick}}]}}\n", marker("two"));
    let second = scene.hold_back(&sick);
    scene.release(BatchPhase::Apply);
    let status = scene.is("failed");
    assert_ne!(on(&status), second);
    assert_eq!((scene.node.host("marker").as_str(), status.rollbacks), ("one\n", 1));
    assert_eq!(status.quarantined[0].revision, second);
    assert!(status.quarantined[0].message.contains("health check web failed"), "{:?}", status.quarantined);
    assert_eq!(status.last_run.unwrap().trigger, "rollout");
    // It is not tried again: not because of the record, not because of the head when the rollout is over.
    scene.write(|record| record.state = RolloutStatus::Completed);
    scene.node.until("it is over", |status| {
        status.why_not.as_ref().is_some_and(|held| held.why == HoldReason::Quarantined)
    });
    assert_eq!(scene.node.host("marker"), "one\n");
}

#[test]
fn a_failing_run_rolls_back_and_a_check_that_fails_later_too() {
    let mut scene = Scene::new(HEALTH);
    let second = scene.hold_back(&format!("{}bad: {{test.fail_without_changes: []}}\n", marker("two")));
    scene.release(BatchPhase::Apply);
    let status = scene.is("failed");
    assert_ne!(on(&status), second);
    assert!(status.quarantined[0].message.contains("its run failed: bad"), "{:?}", status.quarantined);
    assert_eq!(scene.node.host("marker"), "one\n");

    let mut scene = Scene::new(HEALTH);
    let second = scene.hold_back(&marker("two"));
    scene.release(BatchPhase::Apply);
    assert_eq!(on(&scene.is("soaking")), second);
    fs::write(scene.node.path("host/sick"), "").unwrap();
    let status = scene.is("failed");
    assert_eq!((scene.node.host("marker").as_str(), status.rollbacks), ("one\n", 1), "three misses in a row");
    assert_eq!(status.quarantined.len(), 1);
}

#[test]
fn an_abort_while_soaking_rolls_back_without_quarantine() {
    let mut scene = Scene::new(HEALTH);
    let second = scene.hold_back(&marker("two"));
    scene.release(BatchPhase::Apply);
    assert_eq!(on(&scene.is("soaking")), second);
    scene.write(|record| {
        (record.state, record.reason) = (RolloutStatus::Aborted, Some("another node failed".into()));
    });
    let status = scene.is("failed");
    assert_ne!(on(&status), second);
    assert_eq!((scene.node.host("marker").as_str(), status.quarantined.len()), ("one\n", 0));
    scene.upstream.polls(3);
    let status = scene.node.status();
    assert_ne!(on(&status), second, "it stays, though the head is elsewhere");
    assert!(status.why_not.unwrap().message.contains("aborted: another node failed"));
}

#[test]
fn a_pin_overrides_the_rollout_and_reports_it() {
    let mut scene = Scene::new("");
    let second = scene.hold_back(&marker("two"));
    let first = scene.record.from.clone().unwrap();
    scene.node.fine(&["pin", &first]);
    scene.node.until("it is pinned", |status| status.pinned.is_some());
    scene.release(BatchPhase::Apply);
    let status = scene.is("failed");
    assert!(status.rollout.unwrap().message.contains("pinned"));
    assert_eq!((on(&scene.node.status()), scene.node.host("marker").as_str()), (first.as_str(), "one\n"));
    assert_ne!(first, second);
}

#[test]
fn a_clock_rollout_needs_no_driver() {
    let mut scene = Scene::new("");
    scene.write(|record| (record.mode, record.state) = (RolloutMode::Clock, RolloutStatus::Paused));
    scene.node.until("the rollout is known", |status| status.rollout.is_some());
    let second = scene.upstream.push_marker(&scene.node, "two");
    scene.node.until("the head is held back", |status| status.why_not.is_some());
    let started = Timestamp::now() - jiff::SignedDuration::from_mins(1);
    let to = second.clone();
    scene.write(|record| {
        (record.to, record.state, record.started) = (to, RolloutStatus::Rolling, Some(started));
        (record.mode, record.batches) = (RolloutMode::Clock, vec![]);
    });
    let status = scene.is("confirmed");
    assert_eq!((on(&status), scene.node.host("marker").as_str()), (second.as_str(), "two\n"));
}

#[test]
fn a_killed_daemon_continues_where_it_was() {
    let mut scene = Scene::new(HEALTH);
    let stuck = "stuck: {cmd.run: [{name: 'echo x >> $D/begun; test -e $D/go || read x < $D/never'}]}\n";
    scene.node.pipe("never");
    let second = scene.hold_back(&format!("{}{stuck}", marker("two")));
    scene.kill();
    scene.release(BatchPhase::Prepare);
    scene.is("staged");
    scene.kill();
    assert_eq!(scene.node.host("marker"), "one\n");
    scene.release(BatchPhase::Apply);
    eventually("the run is stuck", || (!scene.node.host("begun").is_empty()).then_some(()));
    for child in scene.node.children() {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(-child), Signal::SIGKILL).unwrap();
    }
    fs::write(scene.node.path("host/go"), "").unwrap();
    scene.kill();
    let status = scene.is("soaking");
    assert_eq!((on(&status), scene.node.host("begun").lines().count()), (second.as_str(), 2));
    scene.kill();
    scene.release(BatchPhase::Confirm);
    scene.driver_says(NodeStatus::Confirmed);
    scene.is("confirmed");
    scene.kill();
    let status = scene.is("confirmed");
    assert_eq!((on(&status), status.rollbacks, status.quarantined.len()), (second.as_str(), 0, 0));
}

#[test]
fn killed_during_a_rollback_it_rolls_back_once() {
    let mut scene = Scene::new(HEALTH);
    scene.node.pipe("never");
    // A rollback runs `one` again, which waits at a pipe because the second revision removes the bypass.
    let waits = "waits: {cmd.run: [{name: 'echo x >> $D/back; test -e $D/go || read x < $D/never'}]}\n";
    fs::write(scene.node.path("host/go"), "").unwrap();
    let first = scene.upstream.push(&scene.node, &format!("{}{waits}", marker("first")));
    scene.node.converges(&first);
    scene.record.from = Some(first.clone());
    let second = scene.hold_back(&format!("{}gone: {{file.absent: [{{name: $D/go}}]}}\n", marker("two")));
    scene.release(BatchPhase::Apply);
    scene.is("soaking");
    // The daemon reads the result of a turn when it ends; the effect of the run is visible at once.
    let ran = scene.node.host("back").lines().count();
    scene.write(|record| (record.state, record.reason) = (RolloutStatus::Aborted, Some("enough".into())));
    eventually("it is going back", || (scene.node.host("back").lines().count() > ran).then_some(()));
    for child in scene.node.children() {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(-child), Signal::SIGKILL).unwrap();
    }
    fs::write(scene.node.path("host/go"), "").unwrap();
    scene.kill();
    let status = scene.is("failed");
    assert_eq!((on(&status), scene.node.host("marker").as_str()), (first.as_str(), "first\n"));
    assert_ne!(first, second);
}

#[test]
fn without_a_daemon_a_timer_is_enough() {
    let mut scene = Scene::new(HEALTH);
    scene.write(|record| (record.mode, record.state) = (RolloutMode::Clock, RolloutStatus::Paused));
    scene.node.until("the rollout is known", |status| status.rollout.is_some());
    let second = scene.upstream.push_marker(&scene.node, "two");
    scene.node.signal(Signal::SIGTERM);
    scene.node.ended();
    scene.node.fine(&["run", "--once", "--trigger", "timer"]);
    assert_eq!(scene.node.host("marker"), "one\n", "the record holds it back");
    let started = Timestamp::now() - jiff::SignedDuration::from_mins(1);
    let to = second.clone();
    scene.write(|record| {
        (record.to, record.state, record.started) = (to, RolloutStatus::Rolling, Some(started));
    });
    scene.node.fine(&["run", "--once", "--trigger", "timer"]);
    assert_eq!(scene.node.host("marker"), "two\n");
    let status = scene.node.fine(&["status", "--out", "json"]);
    let status: AgentStatus = serde_json::from_str(&status).unwrap();
    assert_eq!(status.rollout.unwrap().phase, "confirmed", "one turn saw it through");
}

#[test]
fn a_driver_node_adopts_a_rollout_without_a_driver_and_completes_it() {
    let mut scene = Scene::new("board: {kind: sled}\nrollout: {url: board}\ndriver: true\n");
    let paths = Paths::new(scene.node.path("root"));
    let board = || Box::new(SledBoard::new(paths.board()));
    let mut reports = BoardReports::new(board(), paths.key(), NodeKeys::new(None, paths.nodes()));
    let told = eventually("the board is told", || {
        let told = reports.latest_reports(Component::States).unwrap().remove(&"node".parse().unwrap())?;
        told.last_run.as_ref().is_some_and(|run| run.success).then_some(told)
    });
    assert_eq!((told.revision.as_ref(), told.state), (scene.record.from.as_ref(), NodeActivity::Idle));
    assert!(told.facts.contains_key("kernel") && told.degraded.is_none(), "{told:?}");
    scene.node.signal(Signal::SIGTERM);
    scene.node.ended();

    // Written while the daemon is down; the head moves with it.
    let second = scene.upstream.push_marker(&scene.node, "two");
    scene.record.to = second.clone();
    scene.record.batches = vec![vec!["node".parse().unwrap()]];
    scene.record.nodes.insert("node".parse().unwrap(), NodeProgress::default());
    let mut records = BoardRecords::new(board());
    records.put(&scene.record, None, "ordered", true).unwrap();
    scene.node.start();
    let is_on =
        |status: &AgentStatus| status.current.as_ref().is_some_and(|current| current.revision == second);
    scene.node.until("it is applied", is_on);
    let status = scene.is("confirmed");
    assert_eq!((on(&status), scene.node.host("marker").as_str()), (second.as_str(), "two\n"));
    eventually("the driver says so too", || {
        let record = records.get(&scene.record.id).unwrap().unwrap().value;
        let driver = record.driver.as_ref().map(|driver| driver.id.as_str());
        (record.state == RolloutStatus::Completed && driver == Some("node/daemon")).then_some(())
    });
}
