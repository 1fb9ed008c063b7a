//! What records ask of nodes, by tables; and a whole node by the clock.

use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::phase;
use crate::record::{Canary, Component, Profile, Progress, SCHEMA};
use crate::report::Doing;
use crate::{BatchSize, PROTOCOL, Span};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn id(text: &str) -> NodeId {
    text.parse().unwrap()
}

/// Two batches of two; the first under way.
fn record(state: State, phase: BatchPhase) -> Record {
    Record {
        schema: SCHEMA,
        id: "r".parse().unwrap(),
        component: Component::Agent,
        to: "2.0".into(),
        from: None,
        target: "*".into(),
        batch_size: BatchSize::Nodes(2),
        canary: Canary::default(),
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
        batches: vec![vec![id("a"), id("b")], vec![id("c"), id("d")]],
        current_batch: 0,
        phase,
        phase_since: None,
        nodes: Default::default(),
        failed: 0,
        state,
        reason: None,
        driver: None,
        created: at(0),
        by: None,
        started: Some(at(0)),
        finished: None,
        serial: 7,
        more: BTreeMap::new(),
    }
}

fn report(name: &str) -> Report {
    Report {
        id: id(name),
        component: Component::Agent,
        version: "1.0".into(),
        revision: None,
        state: Doing::Idle,
        taken: None,
        os: "linux".into(),
        arch: "x86_64".into(),
        facts: Default::default(),
        updated_at: at(0),
        child: None,
        degraded: None,
        protocol: PROTOCOL,
        hold: None,
        last_run: None,
    }
}

fn node(phase: Phase) -> Node {
    Node { phase, ..Node::on("1.0") }
}

/// Idle, preparing, staged, soaking.
fn nodes(record: &Record) -> [Node; 4] {
    let (order, since) = (order(record), at(0));
    [
        node(Phase::Idle),
        node(Phase::Preparing { order: order.clone(), since }),
        node(Phase::Staged { order: order.clone(), since }),
        node(Phase::Soaking { order, since, deadline: at(300), misses: 0, ready_since: Some(since) }),
    ]
}

fn word(event: Option<Event>) -> &'static str {
    match event {
        None => "-",
        Some(Event::Prepare(_)) => "prepare",
        Some(Event::Apply(_)) => "apply",
        Some(Event::Confirm(_)) => "confirm",
        Some(Event::Withdraw(..)) => "withdraw",
        Some(_) => "?",
    }
}

fn asks(record: &Record, name: &str) -> [&'static str; 4] {
    nodes(record).map(|node| word(asked(record, &report(name), &node, at(100))))
}

#[test]
fn what_a_record_asks_by_level() {
    use BatchPhase::{Apply, Confirm, Pause, Prepare, Soak};
    use State::{Aborted, Aborting, Completed, Created, Paused, Rolling};
    for (state, phase, expected) in [
        (Created, Prepare, ["-", "-", "-", "-"]),
        (Rolling, Prepare, ["prepare", "-", "-", "-"]),
        (Rolling, Apply, ["prepare", "-", "apply", "-"]),
        (Rolling, Soak, ["-", "-", "-", "-"]),
        (Rolling, Confirm, ["-", "-", "-", "confirm"]),
        (Rolling, Pause, ["-", "-", "-", "-"]),
        (Paused, Prepare, ["-", "-", "-", "-"]),
        (Paused, Apply, ["prepare", "-", "apply", "-"]),
        (Paused, Confirm, ["-", "-", "-", "confirm"]),
        (Aborting, Apply, ["-", "withdraw", "withdraw", "withdraw"]),
        (Aborted, Confirm, ["-", "withdraw", "withdraw", "withdraw"]),
        (Completed, Pause, ["-", "withdraw", "withdraw", "withdraw"]),
    ] {
        assert_eq!(asks(&record(state, phase), "a"), expected, "{state:?}, {phase:?}");
    }
}

#[test]
fn who_is_not_meant_or_not_yet_is_asked_nothing() {
    let rolling = record(State::Rolling, BatchPhase::Apply);
    for name in ["c", "stranger"] {
        assert_eq!(asks(&rolling, name), ["-"; 4], "{name}");
    }
    let dry = Record { dry_run: true, ..rolling.clone() };
    assert_eq!(asks(&dry, "a"), ["-"; 4]);
    let next = Record { current_batch: 1, ..rolling };
    assert_eq!(asks(&next, "c"), ["prepare", "-", "apply", "-"]);
}

#[test]
fn what_the_driver_noted_of_a_node_counts_also_after_the_end() {
    for state in [State::Rolling, State::Aborted, State::Completed] {
        for (status, expected) in [
            (NodeStatus::Confirmed, "confirm"),
            (NodeStatus::Failed, "withdraw"),
            (NodeStatus::Silent, "withdraw"),
        ] {
            let mut record = record(state, BatchPhase::Soak);
            record.nodes.insert(id("a"), Progress { status, ..Progress::default() });
            assert_eq!(asks(&record, "a")[3], expected, "{state:?}, {status:?}");
        }
    }
}

#[test]
fn nobody_takes_part_twice_or_in_two_at_once() {
    let record = record(State::Rolling, BatchPhase::Apply);
    let begun = phase::step(&node(Phase::Idle), Event::Prepare(order(&record)), at(1)).0;
    let been = phase::step(&begun, Event::Unfetched("no".into()), at(2)).0;
    assert_eq!(ordered(&record, &id("a"), &been), None);
    // Also after another one came in between.
    let next = Record { id: "next".parse().unwrap(), ..record.clone() };
    let begun = phase::step(&been, Event::Prepare(order(&next)), at(3)).0;
    let been = phase::step(&begun, Event::Unfetched("no".into()), at(4)).0;
    assert_eq!(ordered(&record, &id("a"), &been), None);
    // One of the same name that was ordered later is another.
    let anew = Record { created: at(9), ..record.clone() };
    assert!(ordered(&anew, &id("a"), &been).is_some());
    let other = Record { id: "other".parse().unwrap(), ..record.clone() };
    for busy in &nodes(&other)[1..] {
        assert_eq!(ordered(&record, &id("a"), busy), None);
    }
}

#[test]
fn an_old_record_is_not_heeded() {
    let new = record(State::Aborted, BatchPhase::Apply);
    let old = Record { serial: 6, ..record(State::Rolling, BatchPhase::Apply) };
    let mut node = node(Phase::Idle);
    assert!(ordered(&old, &id("a"), &node).is_some());
    heed(&new, &mut node);
    heed(&old, &mut node);
    assert_eq!(node.heard[&new.id].serial, 7);
    assert_eq!(ordered(&old, &id("a"), &node), None);
    assert!(ordered(&Record { serial: 7, ..old }, &id("a"), &node).is_some());
}

#[test]
fn serials_are_remembered_up_to_a_bound_and_never_lost_while_they_matter() {
    let mut record = record(State::Rolling, BatchPhase::Apply);
    let [_, _, mut node, _] = nodes(&record);
    heed(&record, &mut node);
    let first = record.id.clone();
    for n in 0..2 * HEARD {
        record.id = format!("s{n:04}").parse().unwrap();
        record.created = at(i64::try_from(n).unwrap());
        heed(&record, &mut node);
    }
    // What is older than all that is remembered is not written down again and again.
    let before = node.clone();
    heed(&Record { id: "a".parse().unwrap(), created: at(-5), ..record.clone() }, &mut node);
    assert_eq!(node, before);
    assert_eq!(node.heard.len(), HEARD);
    assert!(node.heard.contains_key(&first) && node.heard.contains_key(&record.id));
}

#[test]
fn a_node_whose_record_is_gone_takes_it_back() {
    let record = record(State::Rolling, BatchPhase::Apply);
    assert_eq!(nodes(&record).map(|node| word(orphaned(&node))), ["-", "withdraw", "withdraw", "withdraw"]);
}

fn clock(state: State) -> Record {
    Record { mode: Mode::Clock, batches: vec![], ..record(state, BatchPhase::Prepare) }
}

#[test]
fn by_the_clock_it_goes_on_by_itself() {
    let spread = waves::spread(&clock(State::Rolling));
    let late = phase::after(at(0), spread);
    let asks = |record: &Record, now| nodes(record).map(|node| word(asked(record, &report("a"), &node, now)));
    let rolling = clock(State::Rolling);
    assert_eq!(asks(&rolling, late), ["prepare", "-", "apply", "confirm"]);
    assert_eq!(asks(&rolling, at(-1))[0], "-", "its moment has not come");
    assert_eq!(asks(&clock(State::Paused), late), ["-", "-", "-", "confirm"]);
    assert_eq!(asks(&clock(State::Aborted), late), ["-", "withdraw", "withdraw", "withdraw"]);
    assert_eq!(asks(&clock(State::Completed), late), ["prepare", "-", "apply", "confirm"]);
    let others = Record { target: "b*".into(), ..clock(State::Rolling) };
    assert_eq!(asks(&others, late)[0], "-");
    let newer = Record { min_protocol: PROTOCOL + 1, ..clock(State::Rolling) };
    assert_eq!(asks(&newer, late)[0], "-");
    assert_eq!(ordered(&rolling, &id("a"), &nodes(&rolling)[0]), None);
}

/// Nobody ends such a record: an older one must not take a node back and forth.
#[test]
fn by_the_clock_an_older_record_does_not_come_back() {
    let late = phase::after(at(0), 10 * waves::spread(&clock(State::Rolling)));
    let first = clock(State::Rolling);
    let second = Record { id: "s".parse().unwrap(), to: "3.0".into(), created: at(10), ..first.clone() };
    let may = |record: &Record, node: &Node| asked(record, &report("a"), node, late).is_some();
    let mut node = Node::on("1.0");
    assert!(may(&first, &node) && may(&second, &node));
    for record in [&first, &second] {
        node = phase::step(&node, Event::Prepare(order(record)), late).0;
        node = phase::step(&node, Event::Unfetched("no".into()), late).0;
        assert!(!may(&first, &node), "once is enough");
    }
    let fresh = Node { newest: Some(at(10)), ..Node::on("1.0") };
    assert!(!may(&first, &fresh), "older than what it took since");
    assert!(!may(&first, &Node::on("2.1")), "a step back that nobody meant");
    assert!(may(&Record { anyway: true, ..first.clone() }, &Node::on("2.1")));
    let unwell = Report { degraded: Some("a crash loop".into()), ..report("a") };
    assert_eq!(asked(&first, &unwell, &Node::on("1.0"), late), None);
}

/// A node without a driver and without a board, from one version to the next.
#[test]
fn by_the_clock_a_whole_node_is_updated_and_soaks_before_it_keeps_it() {
    let record = clock(State::Rolling);
    let (mut node, mut now, mut applied) = (Node::on("1.0"), at(0), None);
    for _ in 0..200 {
        let event = asked(&record, &report("a"), &node, now).unwrap_or(Event::Tick);
        let (next, actions) = phase::step(&node, event, now);
        let answer = actions.first().map_or(Event::Ready, |action| match action {
            phase::Action::Fetch(_) => Event::Fetched,
            phase::Action::Apply(_) => {
                applied = Some(now);
                Event::Applied
            }
            _ => Event::Tick,
        });
        node = phase::step(&next, answer, now).0;
        if node.running == "2.0" {
            break;
        }
        now = phase::after(now, Duration::from_secs(5));
    }
    assert_eq!((node.running.as_str(), &node.phase), ("2.0", &Phase::Idle));
    let soaked = now.duration_since(applied.unwrap()).as_secs();
    assert!((60..=70).contains(&soaked), "{soaked}");
    assert_eq!(asked(&record, &report("a"), &node, now), None);
}
