//! One rule per test: what a driver does with the reports of the nodes.

use std::collections::BTreeMap;

use super::*;
use crate::Span;
use crate::phase::{self, NodeEvent, NodeOutcome, NodeState};
use crate::record::{BatchPhase, Component, NodeStatus, RolloutStatus};
use crate::report::{NodeActivity, NodeRollout};

pub(super) const ME: &str = "driver-1";

pub(crate) fn id<T: std::str::FromStr<Err: std::fmt::Debug>>(text: &str) -> T {
    text.parse().unwrap()
}

pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

/// A record with these batches, ordered and not started.
pub(crate) fn record(batches: &[&[&str]]) -> RolloutRecord {
    let ids = |batch: &&[&str]| batch.iter().map(|name| id(name)).collect::<Vec<NodeId>>();
    let batches: Vec<Vec<NodeId>> = batches.iter().map(ids).collect();
    let nodes = batches.iter().flatten().map(|node| (node.clone(), Default::default())).collect();
    RolloutRecord {
        schema: 1,
        id: id("r1"),
        component: Component::Agent,
        to: "2.0.0".to_owned(),
        from: None,
        target: "*".to_owned(),
        batch_size: crate::BatchSize::Nodes(1),
        canary: Default::default(),
        soak_time: Span::seconds(60),
        batch_pause: Span::seconds(30),
        max_failed: 1,
        max_silent: 0,
        min_protocol: 0,
        dry_run: false,
        mode: Default::default(),
        profile: Default::default(),
        anyway: false,
        artifacts: vec![],
        batches,
        current_batch: 0,
        phase: BatchPhase::Prepare,
        phase_since: None,
        nodes,
        failed: 0,
        state: RolloutStatus::Created,
        reason: None,
        driver: None,
        created: at(0),
        by: None,
        started: None,
        finished: None,
        serial: 1,
        unknown_fields: BTreeMap::new(),
        fleet: None,
        expires: None,
        postponed: vec![],
        sealed: None,
    }
}

/// A node that reports about the rollout `r1`.
pub(crate) fn says(
    name: &str,
    state: NodeActivity,
    outcome: Option<NodeOutcome>,
    now: Timestamp,
) -> NodeReport {
    let taken = NodeRollout {
        rollout: id("r1"),
        outcome,
        error: matches!(outcome, Some(NodeOutcome::Failed)).then(|| "it does not start".to_owned()),
        at: now,
        ready_since: (state == NodeActivity::Soaking).then_some(now),
        created: at(0),
    };
    NodeReport {
        id: id(name),
        component: Component::Agent,
        version: "1.0.0".to_owned(),
        revision: None,
        state,
        taken: Some(taken),
        os: "linux".to_owned(),
        arch: "x86_64".to_owned(),
        facts: BTreeMap::new(),
        updated_at: now,
        child: None,
        degraded: None,
        protocol: 1,
        hold: None,
        last_run: None,
        stopped: None,
        rejected: Default::default(),
        failing_checks: Vec::new(),
        waits: BTreeMap::new(),
    }
}

/// A running rollout, and the last reports of its nodes.
pub(super) struct Run {
    pub(super) record: RolloutRecord,
    pub(super) reports: BTreeMap<NodeId, NodeReport>,
    pub(super) now: Timestamp,
}

impl Run {
    pub(super) fn of(record: RolloutRecord) -> Self {
        let mut run = Self { record, reports: BTreeMap::new(), now: at(0) };
        run.look();
        run
    }

    pub(super) fn look(&mut self) -> DriveStep {
        let step = step(&self.record, &self.reports, ME, self.now);
        self.record = step.record.clone();
        step
    }

    /// Lets time pass with a driver that checks all the time.
    pub(super) fn pass(&mut self, seconds: i64) -> Vec<String> {
        let mut notes = vec![];
        let end = self.now.as_second() + seconds;
        while self.now.as_second() < end {
            self.now = Timestamp::from_second((self.now.as_second() + 5).min(end)).unwrap();
            notes.extend(self.look().notes);
        }
        notes
    }

    pub(super) fn say(&mut self, name: &str, state: NodeActivity, outcome: Option<NodeOutcome>) -> &mut Self {
        self.reports.insert(id(name), says(name, state, outcome, self.now));
        self
    }

    pub(super) fn repeat(&mut self, name: &str) {
        self.reports.get_mut(&id(name)).unwrap().updated_at = self.now;
    }

    pub(super) fn phase(&self) -> (usize, BatchPhase) {
        (self.record.current_batch, self.record.phase)
    }

    pub(super) fn status(&self, name: &str) -> NodeStatus {
        self.record.node_status(&id(name))
    }
}

#[test]
fn a_batch_goes_through_its_phases_and_the_next_follows_the_pause() {
    let mut run = Run::of(record(&[&["a", "b"], &["c"]]));
    assert_eq!((run.record.state, run.phase()), (RolloutStatus::Rolling, (0, BatchPhase::Prepare)));
    assert_eq!(run.record.started, Some(at(0)));
    run.say("a", NodeActivity::Staged, None).look();
    assert_eq!(run.phase(), (0, BatchPhase::Prepare), "all must be prepared");
    let step = run.say("b", NodeActivity::Staged, None).look();
    assert_eq!(step.notes, ["batch 1 of 2: apply (a, b)"]);
    run.say("a", NodeActivity::Soaking, None).say("b", NodeActivity::Applying, None).look();
    assert_eq!(run.phase(), (0, BatchPhase::Apply));
    let step = run.say("b", NodeActivity::Soaking, None).look();
    assert_eq!(step.notes, ["batch 1 of 2: soak for 1m (a, b)"]);
    assert!(run.pass(59).is_empty());
    assert_eq!(run.pass(1), ["batch 1 of 2: confirm (a, b)"]);
    run.say("a", NodeActivity::Idle, Some(NodeOutcome::Confirmed)).look();
    assert_eq!(run.phase(), (0, BatchPhase::Confirm));
    let step = run.say("b", NodeActivity::Idle, Some(NodeOutcome::Confirmed)).look();
    assert_eq!(step.notes, ["batch 1 of 2: done, pause for 30s (a, b)"]);
    assert!(run.pass(29).is_empty());
    assert_eq!(run.pass(1), ["batch 2 of 2: prepare (c)"]);
    run.say("c", NodeActivity::Idle, Some(NodeOutcome::Confirmed));
    assert_eq!(run.look().notes, ["completed: 3 confirmed, 0 failed, 0 silent"]);
    assert_eq!((run.record.state, run.record.finished), (RolloutStatus::Completed, Some(run.now)));
}

#[test]
fn max_failed_aborts_and_a_node_is_counted_once() {
    let mut run = Run::of(RolloutRecord { max_failed: 2, ..record(&[&["a", "b", "c"], &["d"]]) });
    run.say("a", NodeActivity::RollingBack, None).look();
    assert_eq!((run.record.failed, run.status("a")), (1, NodeStatus::Failed));
    run.say("a", NodeActivity::Idle, Some(NodeOutcome::Failed)).look();
    run.pass(20);
    assert_eq!((run.record.failed, run.record.state), (1, RolloutStatus::Rolling));
    let step = run.say("b", NodeActivity::Idle, Some(NodeOutcome::Failed)).look();
    assert_eq!(step.notes, ["b failed: it does not start", "aborted: 2 failed nodes, and the limit is 2"]);
    assert_eq!((run.record.state, run.record.failed), (RolloutStatus::Aborted, 2));
    let last = run.record.clone();
    run.say("c", NodeActivity::Idle, Some(NodeOutcome::Failed)).look();
    assert_eq!(run.record, last, "nothing follows");
}

#[test]
fn the_batch_continues_without_the_failed_node() {
    let mut run = Run::of(RolloutRecord { max_failed: 2, ..record(&[&["a", "b"], &["c"]]) });
    run.say("a", NodeActivity::Idle, Some(NodeOutcome::Withdrawn))
        .say("b", NodeActivity::Staged, None)
        .look();
    assert_eq!(run.phase(), (0, BatchPhase::Apply));
    let mut run = Run::of(RolloutRecord { max_failed: 2, ..record(&[&["a"], &["b"]]) });
    run.say("a", NodeActivity::Idle, Some(NodeOutcome::Failed)).look();
    assert_eq!(run.phase(), (0, BatchPhase::Pause), "an empty batch is done");
}

#[test]
fn reports_about_another_rollout_or_component_are_ignored() {
    let mut run = Run::of(record(&[&["a"]]));
    run.say("a", NodeActivity::Idle, Some(NodeOutcome::Failed));
    run.reports.get_mut(&id("a")).unwrap().taken.as_mut().unwrap().rollout = id("r0");
    run.look();
    assert_eq!(run.status("a"), NodeStatus::Waiting);
    run.say("a", NodeActivity::Idle, Some(NodeOutcome::Failed));
    run.reports.get_mut(&id("a")).unwrap().component = Component::States;
    run.look();
    assert_eq!(run.status("a"), NodeStatus::Waiting);
}

#[test]
fn a_late_node_that_reports_fails_and_one_that_does_not_is_silent() {
    for (reports, want) in [(true, NodeStatus::Failed), (false, NodeStatus::Silent)] {
        let mut run = Run::of(RolloutRecord { max_failed: 2, max_silent: 1, ..record(&[&["a", "b"]]) });
        run.say("a", NodeActivity::Preparing, None).say("b", NodeActivity::Staged, None);
        run.pass(530);
        assert_eq!(run.record.nodes[&id("a")].late, None);
        assert_eq!(run.pass(20), ["a is late: it was not prepared"]);
        if reports {
            run.repeat("a");
        }
        run.pass(45);
        assert_eq!(run.status("a"), NodeStatus::Waiting, "10 minutes are not over");
        let notes = run.pass(10);
        assert_eq!(run.status("a"), want, "{notes:?}");
        assert_eq!(run.phase(), (0, BatchPhase::Apply));
    }
}

#[test]
fn more_silent_nodes_than_allowed_abort() {
    let mut run = Run::of(record(&[&["a"], &["b"]]));
    let notes = run.pass(620);
    assert_eq!(run.record.state, RolloutStatus::Aborted, "{notes:?}");
    assert_eq!(run.record.reason.as_deref(), Some("1 silent nodes, 0 are allowed"));
    assert_eq!(run.record.failed, 0);
}

#[test]
fn a_silent_node_that_returns_reports_its_result() {
    let silent = || {
        let mut run =
            Run::of(RolloutRecord { max_silent: 2, max_failed: 9, ..record(&[&["a", "b"], &["c"]]) });
        run.say("b", NodeActivity::Staged, None);
        run.pass(620);
        assert_eq!(run.status("a"), NodeStatus::Silent);
        run
    };
    let mut run = silent();
    run.say("a", NodeActivity::Idle, Some(NodeOutcome::Confirmed)).look();
    assert_eq!(run.status("a"), NodeStatus::Confirmed);
    let mut run = silent();
    run.say("a", NodeActivity::Idle, Some(NodeOutcome::Failed)).look();
    assert_eq!((run.status("a"), run.record.failed), (NodeStatus::Failed, 1));
    let mut run = silent();
    // What the driver itself makes such a node do is not a failure.
    let mut node = NodeState::with_version("1.0.0");
    (node, _) = phase::step(&node, NodeEvent::Prepare(crate::node::order_from_record(&run.record)), run.now);
    let withdrawn = crate::node::driven_action(&run.record, &id("a"), &node, run.now).unwrap();
    (node, _) = phase::step(&node, withdrawn, run.now);
    let mut report = says("a", NodeActivity::Idle, None, run.now);
    report.update_from_node(&node);
    assert_eq!(report.taken.as_ref().unwrap().outcome, Some(NodeOutcome::Withdrawn));
    run.reports.insert(id("a"), report);
    run.look();
    assert_eq!((run.status("a"), run.record.failed), (NodeStatus::Silent, 0));
}

#[test]
fn a_slow_node_does_not_use_up_the_deadline_of_the_others() {
    // With a soak of at most a minute, a node gives up five minutes after it switched.
    let mut run = Run::of(RolloutRecord { max_failed: 2, ..record(&[&["a", "b"]]) });
    run.say("a", NodeActivity::Staged, None).say("b", NodeActivity::Staged, None).look();
    run.say("a", NodeActivity::Soaking, None).look();
    let switched = run.now;
    while run.record.phase != BatchPhase::Confirm {
        assert!(run.now < saturating_after(switched, Duration::from_secs(300)), "{:?}", run.record);
        run.repeat("b");
        run.pass(5);
    }
    assert_eq!(run.status("b"), NodeStatus::Failed);
    assert!(
        run.now <= saturating_after(switched, Duration::from_secs(250)),
        "the change must still reach the node"
    );
}

#[test]
fn soak_waits_for_nodes_that_are_not_ready_but_not_forever() {
    let mut run = Run::of(record(&[&["a"]]));
    run.say("a", NodeActivity::Staged, None).look();
    run.say("a", NodeActivity::Soaking, None);
    run.reports.get_mut(&id("a")).unwrap().taken.as_mut().unwrap().ready_since = None;
    run.pass(160);
    assert_eq!(run.phase(), (0, BatchPhase::Soak));
    let mut late = Run { record: run.record.clone(), reports: run.reports.clone(), now: run.now };
    run.reports.get_mut(&id("a")).unwrap().taken.as_mut().unwrap().ready_since = Some(run.now);
    assert!(run.record.nodes[&id("a")].late.is_some());
    run.look();
    assert_eq!(run.phase(), (0, BatchPhase::Confirm));
    assert_eq!(run.record.nodes[&id("a")].late, None, "the next phase has its own time");
    late.repeat("a");
    late.pass(60);
    assert_eq!((late.status("a"), late.record.state), (NodeStatus::Failed, RolloutStatus::Aborted));
}

#[test]
fn a_node_whose_clock_is_wrong_neither_shortens_nor_stretches_the_soak() {
    for wrong in [-3000, 3000] {
        let mut run = Run::of(record(&[&["a"]]));
        run.say("a", NodeActivity::Staged, None).look();
        let mut report = says("a", NodeActivity::Soaking, None, at(wrong));
        run.reports.insert(id("a"), report.clone());
        run.look();
        report.updated_at = at(wrong + 60);
        run.reports.insert(id("a"), report);
        run.pass(59);
        assert_eq!(run.phase(), (0, BatchPhase::Soak), "{wrong}");
        run.pass(1);
        assert_eq!(run.phase(), (0, BatchPhase::Confirm), "{wrong}");
    }
}

#[test]
fn a_node_told_to_confirm_is_failed_only_by_its_own_report() {
    let mut run = Run::of(RolloutRecord { max_silent: 1, ..record(&[&["a"], &["b"]]) });
    run.say("a", NodeActivity::Staged, None).look();
    run.say("a", NodeActivity::Soaking, None).pass(60);
    run.pass(5);
    assert_eq!(run.phase(), (0, BatchPhase::Confirm));
    for _ in 0..40 {
        run.repeat("a");
        run.pass(5);
    }
    assert_eq!((run.status("a"), run.record.failed), (NodeStatus::Silent, 0));
    run.say("a", NodeActivity::Idle, Some(NodeOutcome::Confirmed)).look();
    assert_eq!(run.status("a"), NodeStatus::Confirmed);
}

#[test]
fn a_pause_lets_the_batch_finish_and_holds_the_next() {
    let mut run = Run::of(record(&[&["a"], &["b"]]));
    run.record = pause(&run.record, "lunch", run.now).unwrap();
    run.say("a", NodeActivity::Staged, None);
    run.pass(3600);
    assert_eq!(run.phase(), (0, BatchPhase::Prepare), "nothing is switched, and nobody is late");
    assert_eq!(run.record.nodes[&id("a")].late, None);
    run.record = resume(&run.record, run.now).unwrap();
    run.look();
    assert_eq!(run.phase(), (0, BatchPhase::Apply));
    run.record = pause(&run.record, "tea", run.now).unwrap();
    run.say("a", NodeActivity::Soaking, None).pass(70);
    assert_eq!(run.phase(), (0, BatchPhase::Confirm));
    run.say("a", NodeActivity::Idle, Some(NodeOutcome::Confirmed)).pass(100);
    assert_eq!((run.phase(), run.record.state), ((0, BatchPhase::Pause), RolloutStatus::Paused));
    run.record = resume(&run.record, run.now).unwrap();
    run.look();
    assert_eq!(run.phase(), (1, BatchPhase::Prepare));
}

#[test]
fn heartbeats_come_within_ten_seconds_and_do_not_last() {
    let mut run = Run::of(record(&[&["a"]]));
    let (mut last, mut quiet) = (run.now, 0);
    for _ in 0..30 {
        let wait = run.look().wait;
        assert!(wait <= HEARTBEAT);
        run.now = saturating_after(run.now, wait);
        let before = run.record.clone();
        let step = run.look();
        let beat = run.record.driver.as_ref().unwrap().heartbeat;
        if beat != last {
            assert!(beat <= saturating_after(last, HEARTBEAT));
            assert!(!step.lasting && run.record.serial == before.serial + 1);
            last = beat;
            quiet += 1;
        } else {
            assert_eq!(run.record, before);
        }
    }
    assert!(quiet > 5);
}

#[test]
fn a_stale_rollout_is_taken_over_and_an_active_one_is_not() {
    let mut run = Run::of(record(&[&["a", "b"]]));
    run.say("a", NodeActivity::Staged, None).say("b", NodeActivity::Staged, None).look();
    let other = |seconds| {
        step(&run.record, &run.reports, "driver-2", saturating_after(run.now, Duration::from_secs(seconds)))
    };
    assert_eq!(other(59).record, run.record);
    let taken = other(60);
    assert_eq!(taken.record.driver.as_ref().unwrap().id, "driver-2");
    assert_eq!((taken.record.phase, taken.lasting), (BatchPhase::Apply, true));
    assert!(taken.notes[0].starts_with("driver-2 takes over from driver-1"), "{:?}", taken.notes);
    let mut zero = run.record.clone();
    zero.driver.as_mut().unwrap().heartbeat = Timestamp::UNIX_EPOCH;
    assert!(is_adoptable(&zero, run.now) && is_adoptable(&record(&[&["a"]]), run.now));
    for no in [
        RolloutRecord { dry_run: true, ..zero.clone() },
        RolloutRecord { mode: RolloutMode::Clock, ..zero.clone() },
    ] {
        assert!(!is_adoptable(&no, run.now));
        assert_eq!(step(&no, &run.reports, ME, run.now).record, no);
    }
}

#[test]
fn a_driver_that_returns_after_an_outage_gives_all_nodes_time() {
    let mut run = Run::of(record(&[&["a", "b"]]));
    run.say("a", NodeActivity::Staged, None).say("b", NodeActivity::Preparing, None).look();
    run.now = saturating_after(run.now, Duration::from_secs(3600));
    assert_eq!(run.look().notes, ["b is late: it was not prepared"]);
    run.pass(30);
    assert_eq!(run.record.state, RolloutStatus::Rolling);
    run.say("b", NodeActivity::Staged, None).look();
    assert_eq!(run.phase(), (0, BatchPhase::Apply));
    assert_eq!(run.record.nodes[&id("b")].late, None);
}

#[test]
fn a_rollout_with_one_check_every_15_minutes_ends_too() {
    let mut run = Run::of(record(&[&["a"]]));
    for _ in 0..4 {
        run.now = saturating_after(run.now, Duration::from_secs(900));
        run.look();
    }
    assert_eq!(run.record.state, RolloutStatus::Aborted);
}

#[test]
fn an_aborting_record_is_finished_with_what_is_known_by_then() {
    let mut run = Run::of(record(&[&["a", "b"], &["c"]]));
    run.record = abort(&run.record, "wrong one", run.now);
    assert_eq!(run.record.state, RolloutStatus::Aborting);
    run.say("a", NodeActivity::Idle, Some(NodeOutcome::Confirmed));
    assert_eq!(run.look().notes, ["aborted: wrong one"]);
    assert_eq!((run.record.state, run.status("a")), (RolloutStatus::Aborted, NodeStatus::Confirmed));
    let nobody = abort(&record(&[&["a"]]), "never mind", at(5));
    assert_eq!((nobody.state, nobody.finished), (RolloutStatus::Aborted, Some(at(5))));
}

#[test]
fn an_abort_does_not_wait_for_a_driver_that_is_gone() {
    let driver = Some(DriverLease { id: "gone".to_owned(), heartbeat: at(0) });
    let driven = RolloutRecord { driver, ..record(&[&["a"]]) };
    let asked = abort(&driven, "wrong one", at(30));
    assert_eq!(asked.state, RolloutStatus::Aborting);
    assert_eq!(abort(&asked, "hurry", at(40)), asked, "its driver may still handle it");
    let ended = abort(&asked, "hurry", at(90));
    assert_eq!(
        (ended.state, ended.finished, ended.reason.as_deref()),
        (RolloutStatus::Aborted, Some(at(90)), Some("wrong one"))
    );
    assert_eq!(
        abort(&driven, "wrong one", at(90)).state,
        RolloutStatus::Aborted,
        "and at once when it was gone before"
    );
}

#[test]
fn strange_records_have_a_result() {
    let gone = RolloutRecord { current_batch: 7, state: RolloutStatus::Rolling, ..record(&[&["a"]]) };
    let step_of = |record: &RolloutRecord| step(record, &BTreeMap::new(), ME, at(1)).record;
    assert_eq!(step_of(&gone).reason.as_deref(), Some("the record is damaged: it is at batch 8 of 1"));
    assert_eq!(step_of(&RolloutRecord { current_batch: usize::MAX, ..gone }).state, RolloutStatus::Aborted);
    assert_eq!(step_of(&record(&[])).state, RolloutStatus::Completed);
    assert_eq!(step_of(&record(&[&[], &["a"]])).current_batch, 0, "the pause");
    let mut unknown = record(&[&["a"]]);
    unknown.nodes.clear();
    assert_eq!(step_of(&unknown).state, RolloutStatus::Rolling);
    let later = RolloutRecord {
        state: RolloutStatus::Rolling,
        phase: BatchPhase::Soak,
        phase_since: Some(at(99_999)),
        ..record(&[&["a"]])
    };
    assert_eq!(step_of(&later).phase_since, Some(at(1)));
}

#[test]
fn text_from_a_node_cannot_break_the_log() {
    let mut run = Run::of(record(&[&["a"]]));
    run.say("a", NodeActivity::Idle, Some(NodeOutcome::Failed));
    let words = format!("\n\u{1b}[31mred {}\nsecond line", "x".repeat(5000));
    run.reports.get_mut(&id("a")).unwrap().taken.as_mut().unwrap().error = Some(words);
    let notes = run.look().notes;
    assert!(notes[0].starts_with("a failed: [31mred x") && notes[0].len() < 300, "{notes:?}");
    assert!(notes.iter().all(|note| !note.contains(char::is_control)));
}
