//! What rollouts require of one node, and what they keep it on.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use zagent_config::ids::NodeId;
use zagent_config::paths::Paths;
use zagent_config::settings::FollowMode;
use zagent_rollout::phase::{NodeEvent, NodePhase, NodeState};
use zagent_rollout::record::{
    BatchPhase, Component, NodeProgress, NodeStatus, RolloutMode, RolloutProfile, RolloutRecord,
    RolloutStatus,
};
use zagent_rollout::records::SkippedRecord;
use zagent_rollout::report::{NodeActivity, NodeReport};
use zagent_rollout::{BatchSize, PROTOCOL, Span};

use super::observe::FoundRecords;
use super::{RolloutHold, RolloutPlacement, RolloutState};
use crate::decide::RolloutConstraint;

const OLD: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const NEW: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

/// A node that follows its branch, without a hold.
const FREE: RolloutHold<'static> = RolloutHold::none(FollowMode::Head);

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn id(name: &str) -> NodeId {
    name.parse().unwrap()
}

fn me() -> NodeReport {
    NodeReport {
        id: id("web-03"),
        component: Component::States,
        version: "1.0.0".into(),
        revision: None,
        state: NodeActivity::Idle,
        taken: None,
        os: "linux".into(),
        arch: "x86_64".into(),
        facts: BTreeMap::from([("os".to_owned(), "Debian".into())]),
        updated_at: at(7),
        child: None,
        degraded: None,
        protocol: PROTOCOL,
        hold: None,
        last_run: None,
        stopped: None,
        rejected: Default::default(),
        failing_checks: Vec::new(),
        waits: Default::default(),
    }
}

/// A rollout of three batches, with web-03 in the last one.
fn record(name: &str) -> RolloutRecord {
    RolloutRecord {
        schema: 1,
        id: name.parse().unwrap(),
        component: Component::States,
        to: NEW.into(),
        from: Some(OLD.into()),
        target: "web-*".into(),
        batch_size: BatchSize::Nodes(1),
        canary: Default::default(),
        soak_time: Span::seconds(60),
        batch_pause: Span::seconds(30),
        max_failed: 1,
        max_silent: 0,
        min_protocol: 0,
        dry_run: false,
        mode: RolloutMode::Driver,
        profile: RolloutProfile::Normal,
        anyway: false,
        artifacts: vec![],
        batches: ["web-01", "web-02", "web-03"].map(|name| vec![id(name)]).to_vec(),
        current_batch: 0,
        phase: BatchPhase::Prepare,
        phase_since: None,
        nodes: BTreeMap::new(),
        failed: 0,
        state: RolloutStatus::Rolling,
        reason: None,
        driver: None,
        created: at(0),
        by: None,
        started: Some(at(0)),
        finished: None,
        serial: 1,
        unknown_fields: BTreeMap::new(),
        fleet: None,
        expires: None,
        postponed: vec![],
        sealed: None,
    }
}

/// Content of the record store, and unreadable records.
fn found(records: &[RolloutRecord], unread: &[&str]) -> FoundRecords {
    let skipped = |id: &&str| SkippedRecord {
        id: id.parse().unwrap(),
        why: "it cannot be read".into(),
        record: None,
        is_foreign: false,
    };
    FoundRecords { records: records.to_vec(), skipped: unread.iter().map(skipped).collect() }
}

fn heard(records: &[RolloutRecord]) -> RolloutState {
    let mut rollout_state = RolloutState { node: NodeState::with_version(OLD), ..RolloutState::default() };
    rollout_state.observe(records, &me());
    rollout_state
}

fn words(rollout_state: &RolloutState, follow: FollowMode) -> String {
    match rollout_state.constraint(&id("web-03"), follow, at(1)) {
        Some(RolloutConstraint::Stay { words, .. }) => words,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_node_waits_for_its_batch_and_says_so() {
    let rollout_state = heard(&[record("web-42")]);
    assert_eq!(rollout_state.desired_action(FREE, at(1)), None);
    let told = words(&rollout_state, FollowMode::Head);
    assert!(told.starts_with("held back by rollout web-42: batch 3 of 3, waiting; "), "{told}");
    assert!(told.contains("zagent pin"), "{told}");
    let status = rollout_state.rollout_status(&id("web-03")).unwrap();
    assert_eq!((status.batch, status.batches, status.phase.as_str()), (Some(3), 3, "waiting"));

    let released = RolloutRecord { current_batch: 2, serial: 2, ..record("web-42") };
    let asked = heard(std::slice::from_ref(&released)).desired_action(FREE, at(1));
    assert!(matches!(asked, Some(NodeEvent::Prepare(order)) if order.to == NEW));
    let others = RolloutRecord { batches: vec![vec![id("db-01")]], ..released };
    let rollout_state = heard(&[others, RolloutRecord { dry_run: true, ..record("dry") }]);
    assert_eq!(
        (rollout_state.records.len(), rollout_state.constraint(&id("web-03"), FollowMode::Head, at(1))),
        (0, None)
    );
}

#[test]
fn only_relevant_records_are_kept_and_older_versions_ignored() {
    let mut long = RolloutRecord { serial: 5, ..record("web-42") };
    long.nodes.insert(id("web-01"), NodeProgress::default());
    long.nodes.insert(id("web-03"), NodeProgress { status: NodeStatus::Prepared, ..NodeProgress::default() });
    let mut rollout_state = heard(&[long]);
    let kept = &rollout_state.records[0];
    assert_eq!(
        (kept.nodes.len(), kept.batch_of(&id("web-03")), kept.batch_of(&id("web-01"))),
        (1, Some(2), None)
    );
    let before = rollout_state.clone();
    rollout_state
        .observe(&[RolloutRecord { serial: 4, state: RolloutStatus::Completed, ..record("web-42") }], &me());
    assert_eq!(rollout_state, before, "somebody shows an old one again");
    rollout_state.observe(&[], &me());
    assert!(rollout_state.records.is_empty());
    assert_eq!(
        rollout_state.node.heard.values().map(|heard| heard.serial).collect::<Vec<_>>(),
        [5],
        "and may do so later, too"
    );
}

#[test]
fn a_finished_rollout_releases_the_node_unless_aborted() {
    let state = |state| RolloutRecord { state, reason: Some("web-01 failed".into()), ..record("web-42") };
    for (state_is, follow, stays) in [
        (RolloutStatus::Created, FollowMode::Head, true),
        (RolloutStatus::Rolling, FollowMode::Head, true),
        (RolloutStatus::Paused, FollowMode::Head, true),
        (RolloutStatus::Completed, FollowMode::Head, false),
        (RolloutStatus::Completed, FollowMode::Rollouts, true),
        (RolloutStatus::Aborting, FollowMode::Head, true),
        (RolloutStatus::Aborted, FollowMode::Head, true),
    ] {
        let constraint = heard(&[state(state_is)]).constraint(&id("web-03"), follow, at(1));
        assert_eq!(constraint.is_some(), stays, "{state_is:?} {follow:?}");
    }
    let told = words(&heard(&[state(RolloutStatus::Aborted)]), FollowMode::Head);
    assert!(told.contains("web-42 was aborted: web-01 failed") && told.contains("deleted"), "{told}");
    assert!(words(&RolloutState::default(), FollowMode::Rollouts).contains("rollout.follow"));
    assert_eq!(RolloutState::default().constraint(&id("web-03"), FollowMode::Head, at(1)), None);

    let (old, new) = (state(RolloutStatus::Aborted), RolloutRecord { created: at(5), ..record("web-43") });
    let both = heard(&[old.clone(), new.clone()]);
    assert_eq!(both.leading_record().unwrap().id, new.id);
    let over = heard(&[old, RolloutRecord { state: RolloutStatus::Completed, ..new.clone() }]);
    assert_eq!(over.constraint(&id("web-03"), FollowMode::Head, at(1)), None, "a later one that went well");
    let active = heard(&[record("web-42"), RolloutRecord { state: RolloutStatus::Completed, ..new }]);
    assert_eq!(active.leading_record().unwrap().id.as_str(), "web-43", "the last word counts");
}

/// A node after these events of a released record.
fn led(record: &RolloutRecord, events: &[NodeEvent]) -> RolloutState {
    let mut rollout_state = heard(std::slice::from_ref(record));
    let asked = rollout_state.desired_action(FREE, at(1)).unwrap();
    for event in [asked].into_iter().chain(events.iter().cloned()) {
        rollout_state.node = zagent_rollout::phase::step(&rollout_state.node, event, at(2)).0;
    }
    rollout_state
}

#[test]
fn a_closed_window_holds_what_has_not_started_except_emergencies() {
    let released = RolloutRecord { current_batch: 2, phase: BatchPhase::Apply, ..record("web-42") };
    let closed = RolloutHold { closed: true, ..FREE };
    let emergency = RolloutRecord { profile: RolloutProfile::Emergency, ..released.clone() };
    for (record, hold, applies) in
        [(&released, FREE, true), (&released, closed, false), (&emergency, closed, true)]
    {
        let asked = led(record, &[NodeEvent::Fetched]).desired_action(hold, at(3));
        assert_eq!(matches!(asked, Some(NodeEvent::Apply(_))), applies, "{:?} {asked:?}", record.profile);
    }
    let soaking = [NodeEvent::Fetched, NodeEvent::Apply(released.id.clone()), NodeEvent::Applied];
    let aborted = RolloutRecord { state: RolloutStatus::Aborted, serial: 9, ..released.clone() };
    let mut rollout_state = led(&released, &soaking);
    rollout_state.observe(&[aborted], &me());
    assert!(
        matches!(rollout_state.desired_action(closed, at(3)), Some(NodeEvent::Withdraw(..))),
        "going back is always allowed"
    );
}

#[test]
fn a_pin_or_a_deleted_record_ends_the_rollout_here() {
    let released = RolloutRecord { current_batch: 2, phase: BatchPhase::Apply, ..record("web-42") };
    let steps = [NodeEvent::Fetched, NodeEvent::Apply(released.id.clone()), NodeEvent::Applied];
    for done in 0..=steps.len() {
        let rollout_state = led(&released, &steps[..done]);
        let pinned = RolloutHold { pinned: Some("pinned to main"), ..FREE };
        let asked = rollout_state.desired_action(pinned, at(3));
        assert!(
            matches!(&asked, Some(NodeEvent::Withdraw(_, why)) if why.contains("pinned to main")),
            "{done} {asked:?}"
        );
        let mut gone = rollout_state.clone();
        gone.observe(&[], &me());
        assert!(matches!(gone.desired_action(FREE, at(3)), Some(NodeEvent::Withdraw(..))), "{done}");
        assert!(
            gone.constraint(&id("web-03"), FollowMode::Head, at(1)).is_some(),
            "until that is done: {done}"
        );
        assert!(gone.rollout_status(&id("web-03")).is_some(), "{done}");
    }
}

#[test]
fn a_pause_holds_only_what_has_not_started() {
    let released = RolloutRecord { current_batch: 2, ..record("web-42") };
    let paused = RolloutHold { paused: true, ..FREE };
    assert_eq!(heard(std::slice::from_ref(&released)).desired_action(paused, at(1)), None, "no prepare");
    let apply =
        RolloutRecord { phase: BatchPhase::Apply, profile: RolloutProfile::Emergency, ..released.clone() };
    assert_eq!(
        led(&apply, &[NodeEvent::Fetched]).desired_action(paused, at(3)),
        None,
        "no apply, emergency or not"
    );
    let soaking = [NodeEvent::Fetched, NodeEvent::Apply(released.id.clone()), NodeEvent::Applied];
    let mut rollout_state = led(&apply, &soaking);
    rollout_state.observe(&[RolloutRecord { phase: BatchPhase::Confirm, serial: 9, ..apply.clone() }], &me());
    assert!(matches!(rollout_state.desired_action(paused, at(90)), Some(NodeEvent::Confirm(_))));
    rollout_state.observe(&[RolloutRecord { state: RolloutStatus::Aborted, serial: 10, ..apply }], &me());
    assert!(matches!(rollout_state.desired_action(paused, at(90)), Some(NodeEvent::Withdraw(..))));
}

fn by_clock(name: &str) -> RolloutRecord {
    RolloutRecord { mode: RolloutMode::Clock, batches: vec![], ..record(name) }
}

/// Ten nights later.
fn late() -> Timestamp {
    at(0) + SignedDuration::from_hours(240)
}

#[test]
fn a_clock_rollout_needs_no_driver() {
    let clock = by_clock("web-42");
    let rollout_state = heard(std::slice::from_ref(&clock));
    assert_eq!(rollout_state.records.len(), 1, "its target means the node");
    let end = at(450);
    assert!(matches!(rollout_state.desired_action(FREE, end), Some(NodeEvent::Prepare(_))));
    assert!(rollout_state.is_under_way(end));
    assert!(
        rollout_state.constraint(&id("web-03"), FollowMode::Head, end).is_some(),
        "until then the head is not taken"
    );
    let elsewhere = RolloutRecord { target: "db-*".into(), ..clock };
    assert!(heard(&[elsewhere]).records.is_empty());
}

#[test]
fn a_rollout_by_the_clock_is_over_when_its_time_is() {
    let rollout_state = heard(&[by_clock("web-42")]);
    assert!(!rollout_state.is_under_way(late()), "nobody polls for ever");
    assert_eq!(rollout_state.constraint(&id("web-03"), FollowMode::Head, late()), None);
    assert_eq!(rollout_state.desired_action(FREE, late()), None, "who follows heads goes on with these");
    let waits = RolloutHold::none(FollowMode::Rollouts);
    assert!(
        matches!(rollout_state.desired_action(waits, late()), Some(NodeEvent::Prepare(_))),
        "who does not takes it late"
    );
    assert!(rollout_state.constraint(&id("web-03"), FollowMode::Rollouts, late()).is_some());

    let paused = heard(&[RolloutRecord { state: RolloutStatus::Paused, ..by_clock("web-42") }]);
    assert!(
        paused.is_under_way(late()) && paused.constraint(&id("web-03"), FollowMode::Head, late()).is_some()
    );
    let done = confirmed(&by_clock("web-42"), None, 450);
    assert!(!done.is_under_way(at(600)), "it has had it");
    assert!(done.constraint(&id("web-03"), FollowMode::Head, at(600)).is_some(), "others have not");
}

#[test]
fn a_held_node_starts_a_clock_rollout_later() {
    let mut rollout_state = heard(&[by_clock("web-42")]);
    let pinned = RolloutHold { pinned: Some("pinned to main"), ..FREE };
    assert_eq!(rollout_state.desired_action(pinned, at(450)), None);
    assert!(rollout_state.desired_action(FREE, at(450)).is_some());
    rollout_state.observe(&[by_clock("web-42")], &NodeReport { degraded: Some("crash loop".into()), ..me() });
    assert_eq!(rollout_state.desired_action(FREE, at(450)), None, "the plan says that it is left out");
}

#[test]
fn the_newest_record_overrides_an_older_clock_rollout() {
    let old = by_clock("web-42");
    let new =
        RolloutRecord { created: at(5), state: RolloutStatus::Completed, to: OLD.into(), ..record("web-43") };
    let rollout_state = heard(&[old, new]);
    assert_eq!(
        rollout_state.desired_action(FREE, at(450)),
        None,
        "the older one does not take the node back"
    );
    assert_eq!(rollout_state.constraint(&id("web-03"), FollowMode::Head, at(450)), None);
    assert!(!rollout_state.is_under_way(at(450)));
}

/// A node that took part and confirmed, and knew this head at the start.
fn confirmed(record: &RolloutRecord, head: Option<&str>, second: i64) -> RolloutState {
    let dir = tempfile::tempdir().unwrap();
    let paths = Paths::new(dir.path());
    RolloutState::update(&paths, |rollout_state| rollout_state.set_settled(Some(OLD))).unwrap();
    RolloutState::store_records(&paths, found(std::slice::from_ref(record), &[]), &me()).unwrap();
    let head = head.map(|head| head.parse().unwrap());
    let order = zagent_rollout::node::order_from_record(record);
    let steps = [
        (NodeEvent::Prepare(order), 0),
        (NodeEvent::Fetched, 0),
        (NodeEvent::Apply(record.id.clone()), 0),
        (NodeEvent::Applied, 0),
        (NodeEvent::Ready, 10),
        (NodeEvent::Confirm(record.id.clone()), 100),
    ];
    for (event, later) in steps {
        RolloutState::step(&paths, event, head.as_ref(), at(second + later)).unwrap();
    }
    let rollout_state = RolloutState::read(&paths).unwrap();
    assert_eq!(
        (rollout_state.node.running.as_str(), &rollout_state.node.phase),
        (record.to.as_str(), &NodePhase::Idle)
    );
    rollout_state
}

#[test]
fn the_end_of_a_rollout_does_not_undo_it() {
    let head = "cccccccccccccccccccccccccccccccccccccccc";
    let released = RolloutRecord { current_batch: 2, phase: BatchPhase::Apply, ..record("web-42") };
    let mut rollout_state = confirmed(&released, Some(head), 0);
    let over = RolloutRecord { state: RolloutStatus::Completed, serial: 9, ..released };
    rollout_state.observe(std::slice::from_ref(&over), &me());
    let Some(RolloutConstraint::Keep { to, head: Some(then), words }) =
        rollout_state.constraint(&id("web-03"), FollowMode::Head, at(200))
    else {
        panic!("{:?}", rollout_state.constraint(&id("web-03"), FollowMode::Head, at(200)));
    };
    assert_eq!((to.as_str(), then.as_str()), (NEW, head));
    assert!(words.contains("web-42") && words.contains("new commit"), "{words}");
    assert!(matches!(
        rollout_state.constraint(&id("web-03"), FollowMode::Rollouts, at(200)),
        Some(RolloutConstraint::Stay { .. })
    ));

    let mut tidy = rollout_state.clone();
    tidy.observe(&[], &me());
    assert!(
        tidy.constraint(&id("web-03"), FollowMode::Head, at(200)).is_some(),
        "nor when its record is tidied away"
    );
    let mut moved = rollout_state.clone();
    moved.set_settled(Some(OLD));
    assert_eq!(
        (moved.kept.as_ref(), moved.constraint(&id("web-03"), FollowMode::Head, at(200))),
        (None, None)
    );

    let mut aborted = rollout_state;
    aborted.observe(&[RolloutRecord { state: RolloutStatus::Aborted, serial: 10, ..over }], &me());
    assert!(aborted.constraint(&id("web-03"), FollowMode::Head, at(200)).is_some());
    aborted.observe(&[], &me());
    assert_eq!(aborted.constraint(&id("web-03"), FollowMode::Head, at(200)), None, "deleted on purpose");
}

#[test]
fn an_unknown_head_is_the_first_one_seen() {
    let dir = tempfile::tempdir().unwrap();
    let paths = Paths::new(dir.path());
    let kept = RolloutPlacement { rollout: "web-42".parse().unwrap(), to: NEW.into(), head: None };
    RolloutState::update(&paths, |rollout_state| rollout_state.kept = Some(kept)).unwrap();
    let head = |of: &str| of.parse().unwrap();
    for (seen, known) in [(None, None), (Some(head(OLD)), Some(OLD)), (Some(head(NEW)), Some(OLD))] {
        RolloutState::read(&paths).unwrap().note_head(&paths, seen.as_ref()).unwrap();
        let kept = RolloutState::read(&paths).unwrap().kept.unwrap();
        assert_eq!(kept.head.as_ref().map(|head| head.as_str()), known);
    }
}

#[test]
fn a_damaged_file_is_moved_aside_and_does_not_block_the_node() {
    let dir = tempfile::tempdir().unwrap();
    let paths = Paths::new(dir.path());
    RolloutState::store_records(&paths, found(&[record("web-42")], &[]), &me()).unwrap();
    RolloutState::move_aside_damaged(&paths);
    assert_eq!(RolloutState::read(&paths).unwrap().records.len(), 1, "what is well stays");
    std::fs::write(paths.rollout_states(), "{").unwrap();
    RolloutState::move_aside_damaged(&paths);
    assert_eq!(RolloutState::read(&paths).unwrap(), RolloutState::default());
    assert!(paths.rollout_states().with_extension("damaged").exists());
    RolloutState::store_records(&paths, found(&[record("web-42")], &[]), &me()).unwrap();
    assert_eq!(RolloutState::read(&paths).unwrap().records.len(), 1);
}

#[test]
fn state_is_written_when_changed_and_settles_on_the_current_revision() {
    let dir = tempfile::tempdir().unwrap();
    let paths = Paths::new(dir.path());
    assert!(!RolloutState::is_news(&paths, &found(&[], &[])), "no rollout ever spoke of this node");
    let released = RolloutRecord { current_batch: 2, phase: BatchPhase::Apply, ..record("web-42") };
    RolloutState::store_records(&paths, found(std::slice::from_ref(&released), &[]), &me()).unwrap();
    RolloutState::update(&paths, |rollout_state| rollout_state.set_settled(Some(OLD))).unwrap();
    assert!(RolloutState::is_news(&paths, &found(&[], &[])), "that it is gone now is news");
    let asked = RolloutState::read(&paths).unwrap().desired_action(FREE, at(1)).unwrap();
    let (rollout_state, actions) = RolloutState::step(&paths, asked, None, at(1)).unwrap();
    assert_eq!((actions.len(), rollout_state.node.running.as_str()), (1, OLD));
    assert_eq!(RolloutState::read(&paths).unwrap(), rollout_state);
    let (rollout_state, ()) =
        RolloutState::update(&paths, |rollout_state| rollout_state.set_settled(Some(NEW))).unwrap();
    assert_eq!(
        rollout_state.node.running, OLD,
        "what it goes back to does not move while it is in a rollout"
    );
    assert!(
        matches!(rollout_state.node.phase, NodePhase::Preparing { .. }) && !rollout_state.is_judging(OLD)
    );
    std::fs::write(paths.rollout_states(), "{").unwrap();
    assert!(
        RolloutState::step(&paths, NodeEvent::Fetched, None, at(2)).is_err(),
        "nothing is done about what is not kept"
    );
}

#[test]
fn an_unreadable_record_counts_as_last_read() {
    let dir = tempfile::tempdir().unwrap();
    let paths = Paths::new(dir.path());
    let known = record("web-42");
    let name = known.id.to_string();
    RolloutState::store_records(&paths, found(&[known], &[]), &me()).unwrap();
    let before = RolloutState::read(&paths).unwrap();
    assert_eq!(before.records.len(), 1);
    RolloutState::store_records(&paths, found(&[], &[&name]), &me()).unwrap();
    assert_eq!(RolloutState::read(&paths).unwrap(), before);
    RolloutState::store_records(&paths, found(&[], &[]), &me()).unwrap();
    assert!(RolloutState::read(&paths).unwrap().records.is_empty(), "gone is gone");
}
