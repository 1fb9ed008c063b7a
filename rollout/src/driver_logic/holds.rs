//! Held nodes: a driver waits for them, and it is not a failure.

use super::tests::{ME, Run, id, record};
use super::*;
use crate::record::{BatchPhase, Component, NodeStatus, RolloutStatus};
use crate::report::NodeActivity;

impl Run {
    /// A node repeats its report, with its hold.
    fn hold(&mut self, name: &str, why: Option<&str>) {
        self.repeat(name);
        self.reports.get_mut(&id(name)).unwrap().hold = why.map(str::to_owned);
    }
}

const CLOSED: Option<&str> = Some("outside of its window until 22:00");

#[test]
fn a_held_node_is_waited_for_and_not_counted_as_failed() {
    let mut run = Run::of(record(&[&["a"], &["b"]]));
    run.say("a", NodeActivity::Staged, None).hold("a", CLOSED);
    let mut notes = vec![];
    // A night without a window, and nothing is lost.
    for _ in 0..12 * 60 {
        run.hold("a", CLOSED);
        notes.extend(run.pass(60));
    }
    assert_eq!((run.phase(), run.status("a")), ((0, BatchPhase::Prepare), NodeStatus::Prepared));
    assert_eq!((run.record.state, run.record.failed), (RolloutStatus::Rolling, 0));
    assert_eq!(notes, ["waits for a: outside of its window until 22:00"], "reported once");
    assert_eq!(run.record.nodes[&id("a")].held.as_deref(), CLOSED);
    run.hold("a", None);
    assert!(run.pass(5).iter().any(|note| note == "a is no longer held"));
    assert_eq!(run.phase(), (0, BatchPhase::Apply));
    assert_eq!(run.record.nodes[&id("a")].held, None);
    run.say("a", NodeActivity::Soaking, None).pass(5);
    assert_eq!(run.status("a"), NodeStatus::Applied, "and it has the whole time to do so");
}

#[test]
fn a_paused_node_is_waited_for_until_an_abort_or_silence() {
    let paused = Some("paused without an end by root");
    let mut run = Run::of(record(&[&["a"]]));
    run.say("a", NodeActivity::Idle, None).reports.get_mut(&id("a")).unwrap().taken = None;
    for _ in 0..60 {
        run.hold("a", paused);
        run.pass(60);
    }
    assert_eq!((run.record.state, run.status("a")), (RolloutStatus::Rolling, NodeStatus::Waiting));
    let aborted = abort(&run.record, "enough", run.now);
    assert_eq!(step(&aborted, &run.reports, ME, run.now).record.state, RolloutStatus::Aborted);
    run.pass(3600);
    assert_eq!(run.status("a"), NodeStatus::Silent, "a reported hold is valid for minutes only");
}

#[test]
fn other_nodes_do_not_wait_forever_for_a_held_one() {
    let mut run = Run::of(record(&[&["a", "b"], &["c"]]));
    run.say("a", NodeActivity::Staged, None).say("b", NodeActivity::Staged, None).hold("b", CLOSED);
    for _ in 0..11 {
        run.hold("b", CLOSED);
        run.repeat("a");
        run.pass(60);
    }
    let batches: Vec<Vec<NodeId>> = vec![vec![id("a")], vec![id("b")], vec![id("c")]];
    assert_eq!((&run.record.batches, run.phase()), (&batches, (0, BatchPhase::Apply)));
    // A node that is held when others have switched is postponed in time for them.
    let mut run = Run::of(record(&[&["a", "b"], &["c"]]));
    run.say("a", NodeActivity::Staged, None).say("b", NodeActivity::Staged, None).pass(5);
    run.say("a", NodeActivity::Soaking, None).hold("b", CLOSED);
    for _ in 0..6 {
        run.hold("b", CLOSED);
        run.repeat("a");
        run.pass(60);
    }
    assert_eq!((&run.record.batches, run.record.failed), (&batches, 0));
    assert!(run.phase() > (0, BatchPhase::Apply), "{:?}", run.phase());
    assert_eq!((run.status("a"), run.status("b")), (NodeStatus::Applied, NodeStatus::Prepared));
}

/// A rollout of states, in which reports are about states too.
fn states(batches: &[&[&str]]) -> Run {
    Run::of(RolloutRecord { component: Component::States, ..record(batches) })
}

impl Run {
    fn say_states(&mut self, name: &str, state: NodeActivity) {
        self.say(name, state, None);
        self.reports.get_mut(&id(name)).unwrap().component = Component::States;
    }
}

#[test]
fn a_node_that_still_runs_states_is_not_failed_and_does_not_delay_the_others() {
    let mut run = states(&[&["a", "b"], &["c"]]);
    run.say_states("a", NodeActivity::Staged);
    run.say_states("b", NodeActivity::Staged);
    run.pass(5);
    assert_eq!(run.phase(), (0, BatchPhase::Apply));
    run.say_states("a", NodeActivity::Soaking);
    run.say_states("b", NodeActivity::Applying);
    // The run on `b` takes minutes longer than the deadline of `a` allows to wait.
    for _ in 0..6 {
        run.repeat("a");
        run.repeat("b");
        run.pass(60);
    }
    let batches: Vec<Vec<NodeId>> = vec![vec![id("a")], vec![id("b")], vec![id("c")]];
    assert_eq!((&run.record.batches, run.record.failed), (&batches, 0));
    assert_eq!(run.status("b"), NodeStatus::Prepared);
    run.say_states("a", NodeActivity::Idle);
    run.reports.get_mut(&id("a")).unwrap().taken.as_mut().unwrap().outcome =
        Some(crate::phase::NodeOutcome::Confirmed);
    run.repeat("b");
    run.pass(5);
    assert_eq!(run.phase(), (1, BatchPhase::Apply), "its own batch starts at once: it has begun to switch");
    run.say_states("b", NodeActivity::Soaking);
    run.pass(5);
    assert_eq!(run.status("b"), NodeStatus::Applied);
    // One that stops reporting is not waited for.
    let mut run = states(&[&["a"]]);
    run.say_states("a", NodeActivity::Staged);
    run.pass(5);
    run.say_states("a", NodeActivity::Applying);
    run.pass(3 * 3600);
    assert_eq!(run.status("a"), NodeStatus::Silent);
}

#[test]
fn what_a_node_waits_for_is_recorded_at_once() {
    let mut run = Run::of(record(&[&["a"], &["b"]]));
    run.say("a", NodeActivity::Preparing, None);
    let why = "the commit 2222 is in no repository";
    run.reports.get_mut(&id("a")).unwrap().waits.insert(id("r1"), why.to_owned());
    let notes = run.pass(2);
    assert_eq!(notes, [format!("a does not continue: {why}")]);
    assert_eq!(run.record.nodes[&id("a")].waits.as_deref(), Some(why));
    for _ in 0..11 {
        run.repeat("a");
        run.reports.get_mut(&id("a")).unwrap().waits.insert(id("r1"), why.to_owned());
        run.pass(60);
    }
    let error = run.record.nodes[&id("a")].error.clone().unwrap();
    assert_eq!(error, format!("it was not prepared within 10m: {why}"));
}

#[test]
fn an_expired_order_is_aborted() {
    let mut run = Run::of(RolloutRecord { expires: Some(super::tests::at(100)), ..record(&[&["a"]]) });
    run.pass(99);
    assert_eq!(run.record.state, RolloutStatus::Rolling);
    run.pass(2);
    assert_eq!(run.record.state, RolloutStatus::Aborted);
    assert!(run.record.reason.unwrap().contains("expired"));
}
