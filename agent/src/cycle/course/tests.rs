//! What rollouts ask of one node, and what they keep it on.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use zagent_config::ids::NodeId;
use zagent_config::paths::Paths;
use zagent_config::settings::Follow;
use zagent_rollout::phase::{Event, Node, Phase};
use zagent_rollout::record::{BatchPhase, Component, Mode, NodeStatus, Profile, Progress, Record, State};
use zagent_rollout::report::{Doing, Report};
use zagent_rollout::{BatchSize, PROTOCOL, Span};

use super::{Course, Hold, Kept};
use crate::cycle::me::Found;
use crate::cycle::want::Ruling;

const OLD: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
const NEW: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

/// A node that follows its branch and that nothing holds.
const FREE: Hold<'static> = Hold::none(Follow::Head);

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn id(name: &str) -> NodeId {
    name.parse().unwrap()
}

fn me() -> Report {
    Report {
        id: id("web-03"),
        component: Component::States,
        version: "1.0.0".into(),
        revision: None,
        state: Doing::Idle,
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
    }
}

/// A rollout of three batches of which web-03 is the last.
fn record(name: &str) -> Record {
    Record {
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
        mode: Mode::Driver,
        profile: Profile::Normal,
        anyway: false,
        artifacts: vec![],
        batches: ["web-01", "web-02", "web-03"].map(|name| vec![id(name)]).to_vec(),
        current_batch: 0,
        phase: BatchPhase::Prepare,
        phase_since: None,
        nodes: BTreeMap::new(),
        failed: 0,
        state: State::Rolling,
        reason: None,
        driver: None,
        created: at(0),
        by: None,
        started: Some(at(0)),
        finished: None,
        serial: 1,
        more: BTreeMap::new(),
    }
}

/// What was found where the records are, and what could not be read there.
fn found(records: &[Record], unread: &[&str]) -> Found {
    Found { records: records.to_vec(), unread: unread.iter().map(|id| id.parse().unwrap()).collect() }
}

fn heard(records: &[Record]) -> Course {
    let mut course = Course { node: Node::on(OLD), ..Course::default() };
    course.hear(records, &me());
    course
}

fn words(course: &Course, follow: Follow) -> String {
    match course.ruling(&id("web-03"), follow, at(1)) {
        Some(Ruling::Stay { words, .. }) => words,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_node_waits_for_its_batch_and_says_so() {
    let course = heard(&[record("web-42")]);
    assert_eq!(course.asked(FREE, at(1)), None);
    let told = words(&course, Follow::Head);
    assert!(told.starts_with("held back by rollout web-42: batch 3 of 3, waiting; "), "{told}");
    assert!(told.contains("zagent pin"), "{told}");
    let status = course.told(&id("web-03")).unwrap();
    assert_eq!((status.batch, status.batches, status.phase.as_str()), (Some(3), 3, "waiting"));

    let released = Record { current_batch: 2, serial: 2, ..record("web-42") };
    let asked = heard(std::slice::from_ref(&released)).asked(FREE, at(1));
    assert!(matches!(asked, Some(Event::Prepare(order)) if order.to == NEW));
    let others = Record { batches: vec![vec![id("db-01")]], ..released };
    let course = heard(&[others, Record { dry_run: true, ..record("dry") }]);
    assert_eq!((course.records.len(), course.ruling(&id("web-03"), Follow::Head, at(1))), (0, None));
}

#[test]
fn only_what_this_node_needs_is_kept_and_nothing_old_is_believed() {
    let mut long = Record { serial: 5, ..record("web-42") };
    long.nodes.insert(id("web-01"), Progress::default());
    long.nodes.insert(id("web-03"), Progress { status: NodeStatus::Prepared, ..Progress::default() });
    let mut course = heard(&[long]);
    let kept = &course.records[0];
    assert_eq!(
        (kept.nodes.len(), kept.batch_of(&id("web-03")), kept.batch_of(&id("web-01"))),
        (1, Some(2), None)
    );
    let before = course.clone();
    course.hear(&[Record { serial: 4, state: State::Completed, ..record("web-42") }], &me());
    assert_eq!(course, before, "somebody shows an old one again");
    course.hear(&[], &me());
    assert!(course.records.is_empty());
    assert_eq!(
        course.node.heard.values().map(|heard| heard.serial).collect::<Vec<_>>(),
        [5],
        "and may do so later, too"
    );
}

#[test]
fn what_is_over_lets_go_unless_it_was_aborted() {
    let state = |state| Record { state, reason: Some("web-01 failed".into()), ..record("web-42") };
    for (state_is, follow, stays) in [
        (State::Created, Follow::Head, true),
        (State::Rolling, Follow::Head, true),
        (State::Paused, Follow::Head, true),
        (State::Completed, Follow::Head, false),
        (State::Completed, Follow::Rollouts, true),
        (State::Aborting, Follow::Head, true),
        (State::Aborted, Follow::Head, true),
    ] {
        let ruling = heard(&[state(state_is)]).ruling(&id("web-03"), follow, at(1));
        assert_eq!(ruling.is_some(), stays, "{state_is:?} {follow:?}");
    }
    let told = words(&heard(&[state(State::Aborted)]), Follow::Head);
    assert!(told.contains("web-42 was aborted: web-01 failed") && told.contains("deleted"), "{told}");
    assert!(words(&Course::default(), Follow::Rollouts).contains("rollout.follow"));
    assert_eq!(Course::default().ruling(&id("web-03"), Follow::Head, at(1)), None);

    let (old, new) = (state(State::Aborted), Record { created: at(5), ..record("web-43") });
    let both = heard(&[old.clone(), new.clone()]);
    assert_eq!(both.leading().unwrap().id, new.id);
    let over = heard(&[old, Record { state: State::Completed, ..new.clone() }]);
    assert_eq!(over.ruling(&id("web-03"), Follow::Head, at(1)), None, "a later one that went well");
    let active = heard(&[record("web-42"), Record { state: State::Completed, ..new }]);
    assert_eq!(active.leading().unwrap().id.as_str(), "web-43", "the last word counts");
}

/// A node that was led so far by a record that is released.
fn led(record: &Record, events: &[Event]) -> Course {
    let mut course = heard(std::slice::from_ref(record));
    let asked = course.asked(FREE, at(1)).unwrap();
    for event in [asked].into_iter().chain(events.iter().cloned()) {
        course.node = zagent_rollout::phase::step(&course.node, event, at(2)).0;
    }
    course
}

#[test]
fn a_closed_window_holds_what_is_not_begun_and_no_emergency() {
    let released = Record { current_batch: 2, phase: BatchPhase::Apply, ..record("web-42") };
    let closed = Hold { closed: true, ..FREE };
    let emergency = Record { profile: Profile::Emergency, ..released.clone() };
    for (record, hold, applies) in
        [(&released, FREE, true), (&released, closed, false), (&emergency, closed, true)]
    {
        let asked = led(record, &[Event::Fetched]).asked(hold, at(3));
        assert_eq!(matches!(asked, Some(Event::Apply(_))), applies, "{:?} {asked:?}", record.profile);
    }
    let soaking = [Event::Fetched, Event::Apply(released.id.clone()), Event::Applied];
    let aborted = Record { state: State::Aborted, serial: 9, ..released.clone() };
    let mut course = led(&released, &soaking);
    course.hear(&[aborted], &me());
    assert!(matches!(course.asked(closed, at(3)), Some(Event::Withdraw(..))), "going back is always allowed");
}

#[test]
fn a_pin_and_a_record_that_is_gone_end_it_here() {
    let released = Record { current_batch: 2, phase: BatchPhase::Apply, ..record("web-42") };
    let steps = [Event::Fetched, Event::Apply(released.id.clone()), Event::Applied];
    for done in 0..=steps.len() {
        let course = led(&released, &steps[..done]);
        let pinned = Hold { pinned: Some("pinned to main"), ..FREE };
        let asked = course.asked(pinned, at(3));
        assert!(
            matches!(&asked, Some(Event::Withdraw(_, why)) if why.contains("pinned to main")),
            "{done} {asked:?}"
        );
        let mut gone = course.clone();
        gone.hear(&[], &me());
        assert!(matches!(gone.asked(FREE, at(3)), Some(Event::Withdraw(..))), "{done}");
        assert!(gone.ruling(&id("web-03"), Follow::Head, at(1)).is_some(), "until that is done: {done}");
        assert!(gone.told(&id("web-03")).is_some(), "{done}");
    }
}

#[test]
fn a_pause_holds_what_is_not_begun_and_nothing_else() {
    let released = Record { current_batch: 2, ..record("web-42") };
    let paused = Hold { paused: true, ..FREE };
    assert_eq!(heard(std::slice::from_ref(&released)).asked(paused, at(1)), None, "no prepare");
    let apply = Record { phase: BatchPhase::Apply, profile: Profile::Emergency, ..released.clone() };
    assert_eq!(led(&apply, &[Event::Fetched]).asked(paused, at(3)), None, "no apply, emergency or not");
    let soaking = [Event::Fetched, Event::Apply(released.id.clone()), Event::Applied];
    let mut course = led(&apply, &soaking);
    course.hear(&[Record { phase: BatchPhase::Confirm, serial: 9, ..apply.clone() }], &me());
    assert!(matches!(course.asked(paused, at(90)), Some(Event::Confirm(_))));
    course.hear(&[Record { state: State::Aborted, serial: 10, ..apply }], &me());
    assert!(matches!(course.asked(paused, at(90)), Some(Event::Withdraw(..))));
}

fn by_clock(name: &str) -> Record {
    Record { mode: Mode::Clock, batches: vec![], ..record(name) }
}

/// Ten nights later.
fn late() -> Timestamp {
    at(0) + SignedDuration::from_hours(240)
}

#[test]
fn the_clock_asks_by_itself() {
    let clock = by_clock("web-42");
    let course = heard(std::slice::from_ref(&clock));
    assert_eq!(course.records.len(), 1, "its target means the node");
    let end = at(450);
    assert!(matches!(course.asked(FREE, end), Some(Event::Prepare(_))));
    assert!(course.is_under_way(end));
    assert!(course.ruling(&id("web-03"), Follow::Head, end).is_some(), "until then the head is not taken");
    let elsewhere = Record { target: "db-*".into(), ..clock };
    assert!(heard(&[elsewhere]).records.is_empty());
}

#[test]
fn a_rollout_by_the_clock_is_over_when_its_time_is() {
    let course = heard(&[by_clock("web-42")]);
    assert!(!course.is_under_way(late()), "nobody polls for ever");
    assert_eq!(course.ruling(&id("web-03"), Follow::Head, late()), None);
    assert_eq!(course.asked(FREE, late()), None, "who follows heads goes on with these");
    let waits = Hold::none(Follow::Rollouts);
    assert!(matches!(course.asked(waits, late()), Some(Event::Prepare(_))), "who does not takes it late");
    assert!(course.ruling(&id("web-03"), Follow::Rollouts, late()).is_some());

    let paused = heard(&[Record { state: State::Paused, ..by_clock("web-42") }]);
    assert!(paused.is_under_way(late()) && paused.ruling(&id("web-03"), Follow::Head, late()).is_some());
    let done = confirmed(&by_clock("web-42"), None, 450);
    assert!(!done.is_under_way(at(600)), "it has had it");
    assert!(done.ruling(&id("web-03"), Follow::Head, at(600)).is_some(), "others have not");
}

#[test]
fn by_the_clock_a_node_that_is_held_begins_later() {
    let mut course = heard(&[by_clock("web-42")]);
    let pinned = Hold { pinned: Some("pinned to main"), ..FREE };
    assert_eq!(course.asked(pinned, at(450)), None);
    assert!(course.asked(FREE, at(450)).is_some());
    course.hear(&[by_clock("web-42")], &Report { degraded: Some("crash loop".into()), ..me() });
    assert_eq!(course.asked(FREE, at(450)), None, "the plan says that it is left out");
}

#[test]
fn the_newest_word_counts_also_against_an_older_clock() {
    let old = by_clock("web-42");
    let new = Record { created: at(5), state: State::Completed, to: OLD.into(), ..record("web-43") };
    let course = heard(&[old, new]);
    assert_eq!(course.asked(FREE, at(450)), None, "the older one does not take the node back");
    assert_eq!(course.ruling(&id("web-03"), Follow::Head, at(450)), None);
    assert!(!course.is_under_way(at(450)));
}

/// A node that took part and confirmed, and knew this head when it began.
fn confirmed(record: &Record, head: Option<&str>, second: i64) -> Course {
    let dir = tempfile::tempdir().unwrap();
    let paths = Paths::new(dir.path());
    Course::change(&paths, |course| course.settle(Some(OLD))).unwrap();
    Course::take_over(&paths, found(std::slice::from_ref(record), &[]), &me()).unwrap();
    let head = head.map(|head| head.parse().unwrap());
    let order = zagent_rollout::node::order(record);
    let steps = [
        (Event::Prepare(order), 0),
        (Event::Fetched, 0),
        (Event::Apply(record.id.clone()), 0),
        (Event::Applied, 0),
        (Event::Ready, 10),
        (Event::Confirm(record.id.clone()), 100),
    ];
    for (event, later) in steps {
        Course::step(&paths, event, head.as_ref(), at(second + later)).unwrap();
    }
    let course = Course::read(&paths).unwrap();
    assert_eq!((course.node.running.as_str(), &course.node.phase), (record.to.as_str(), &Phase::Idle));
    course
}

#[test]
fn what_a_rollout_led_to_is_not_undone_by_its_end() {
    let head = "cccccccccccccccccccccccccccccccccccccccc";
    let released = Record { current_batch: 2, phase: BatchPhase::Apply, ..record("web-42") };
    let mut course = confirmed(&released, Some(head), 0);
    let over = Record { state: State::Completed, serial: 9, ..released };
    course.hear(std::slice::from_ref(&over), &me());
    let Some(Ruling::Keep { to, head: Some(then), words }) =
        course.ruling(&id("web-03"), Follow::Head, at(200))
    else {
        panic!("{:?}", course.ruling(&id("web-03"), Follow::Head, at(200)));
    };
    assert_eq!((to.as_str(), then.as_str()), (NEW, head));
    assert!(words.contains("web-42") && words.contains("new commit"), "{words}");
    assert!(matches!(course.ruling(&id("web-03"), Follow::Rollouts, at(200)), Some(Ruling::Stay { .. })));

    let mut tidy = course.clone();
    tidy.hear(&[], &me());
    assert!(
        tidy.ruling(&id("web-03"), Follow::Head, at(200)).is_some(),
        "nor when its record is tidied away"
    );
    let mut moved = course.clone();
    moved.settle(Some(OLD));
    assert_eq!((moved.kept.as_ref(), moved.ruling(&id("web-03"), Follow::Head, at(200))), (None, None));

    let mut aborted = course;
    aborted.hear(&[Record { state: State::Aborted, serial: 10, ..over }], &me());
    assert!(aborted.ruling(&id("web-03"), Follow::Head, at(200)).is_some());
    aborted.hear(&[], &me());
    assert_eq!(aborted.ruling(&id("web-03"), Follow::Head, at(200)), None, "deleted on purpose");
}

#[test]
fn a_head_that_was_not_known_is_the_one_that_is_seen_first() {
    let dir = tempfile::tempdir().unwrap();
    let paths = Paths::new(dir.path());
    let kept = Kept { rollout: "web-42".parse().unwrap(), to: NEW.into(), head: None };
    Course::change(&paths, |course| course.kept = Some(kept)).unwrap();
    let head = |of: &str| of.parse().unwrap();
    for (seen, known) in [(None, None), (Some(head(OLD)), Some(OLD)), (Some(head(NEW)), Some(OLD))] {
        Course::read(&paths).unwrap().see(&paths, seen.as_ref()).unwrap();
        let kept = Course::read(&paths).unwrap().kept.unwrap();
        assert_eq!(kept.head.as_ref().map(|head| head.as_str()), known);
    }
}

#[test]
fn a_damaged_file_is_moved_aside_and_holds_nobody_for_ever() {
    let dir = tempfile::tempdir().unwrap();
    let paths = Paths::new(dir.path());
    Course::take_over(&paths, found(&[record("web-42")], &[]), &me()).unwrap();
    Course::mend(&paths);
    assert_eq!(Course::read(&paths).unwrap().records.len(), 1, "what is well stays");
    std::fs::write(paths.rollout_states(), "{").unwrap();
    Course::mend(&paths);
    assert_eq!(Course::read(&paths).unwrap(), Course::default());
    assert!(paths.rollout_states().with_extension("damaged").exists());
    Course::take_over(&paths, found(&[record("web-42")], &[]), &me()).unwrap();
    assert_eq!(Course::read(&paths).unwrap().records.len(), 1);
}

#[test]
fn what_is_kept_is_written_when_it_changed_and_settles_on_what_the_node_is_on() {
    let dir = tempfile::tempdir().unwrap();
    let paths = Paths::new(dir.path());
    assert!(!Course::is_news(&paths, &found(&[], &[])), "no rollout ever spoke of this node");
    let released = Record { current_batch: 2, phase: BatchPhase::Apply, ..record("web-42") };
    Course::take_over(&paths, found(std::slice::from_ref(&released), &[]), &me()).unwrap();
    Course::change(&paths, |course| course.settle(Some(OLD))).unwrap();
    assert!(Course::is_news(&paths, &found(&[], &[])), "that it is gone now is news");
    let asked = Course::read(&paths).unwrap().asked(FREE, at(1)).unwrap();
    let (course, actions) = Course::step(&paths, asked, None, at(1)).unwrap();
    assert_eq!((actions.len(), course.node.running.as_str()), (1, OLD));
    assert_eq!(Course::read(&paths).unwrap(), course);
    let (course, ()) = Course::change(&paths, |course| course.settle(Some(NEW))).unwrap();
    assert_eq!(course.node.running, OLD, "what it goes back to does not move while it is in a rollout");
    assert!(matches!(course.node.phase, Phase::Preparing { .. }) && !course.judges(OLD));
    std::fs::write(paths.rollout_states(), "{").unwrap();
    assert!(
        Course::step(&paths, Event::Fetched, None, at(2)).is_err(),
        "nothing is done about what is not kept"
    );
}

#[test]
fn a_record_that_cannot_be_read_for_a_while_counts_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let paths = Paths::new(dir.path());
    let known = record("web-42");
    let name = known.id.to_string();
    Course::take_over(&paths, found(&[known], &[]), &me()).unwrap();
    let before = Course::read(&paths).unwrap();
    assert_eq!(before.records.len(), 1);
    Course::take_over(&paths, found(&[], &[&name]), &me()).unwrap();
    assert_eq!(Course::read(&paths).unwrap(), before);
    Course::take_over(&paths, found(&[], &[]), &me()).unwrap();
    assert!(Course::read(&paths).unwrap().records.is_empty(), "gone is gone");
}
