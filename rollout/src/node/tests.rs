//! What records require from nodes, as tables; and a complete node in clock mode.

use std::collections::BTreeMap;
use std::time::Duration;

use super::*;
use crate::phase;
use crate::record::{Canary, Component, NodeProgress, RECORD_SCHEMA, RolloutProfile};
use crate::report::NodeActivity;
use crate::{BatchSize, PROTOCOL, Span};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn id(text: &str) -> NodeId {
    text.parse().unwrap()
}

/// Two batches of two; the first one is running.
fn record(state: RolloutStatus, phase: BatchPhase) -> RolloutRecord {
    RolloutRecord {
        schema: RECORD_SCHEMA,
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
        mode: RolloutMode::Driver,
        profile: RolloutProfile::Normal,
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
        unknown_fields: BTreeMap::new(),
        fleet: None,
        expires: None,
        postponed: vec![],
        sealed: None,
    }
}

fn report(name: &str) -> NodeReport {
    NodeReport {
        id: id(name),
        component: Component::Agent,
        version: "1.0".into(),
        revision: None,
        state: NodeActivity::Idle,
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
        stopped: None,
        rejected: Default::default(),
        failing_checks: Vec::new(),
        waits: Default::default(),
    }
}

fn node(phase: NodePhase) -> NodeState {
    NodeState { phase, ..NodeState::with_version("1.0") }
}

/// Idle, preparing, staged, soaking.
fn nodes(record: &RolloutRecord) -> [NodeState; 4] {
    let (order, since) = (order_from_record(record), at(0));
    [
        node(NodePhase::Idle),
        node(NodePhase::Preparing { order: order.clone(), since }),
        node(NodePhase::Staged { order: order.clone(), since }),
        node(NodePhase::Soaking { order, since, deadline: at(300), misses: 0, ready_since: Some(since) }),
    ]
}

fn word(event: Option<NodeEvent>) -> &'static str {
    match event {
        None => "-",
        Some(NodeEvent::Prepare(_)) => "prepare",
        Some(NodeEvent::Apply(_)) => "apply",
        Some(NodeEvent::Confirm(_)) => "confirm",
        Some(NodeEvent::Withdraw(..)) => "withdraw",
        Some(_) => "?",
    }
}

fn asks(record: &RolloutRecord, name: &str) -> [&'static str; 4] {
    nodes(record).map(|node| word(desired_action(record, &report(name), &node, at(100))))
}

#[test]
fn what_a_record_requires_is_level_triggered() {
    use BatchPhase::{Apply, Confirm, Pause, Prepare, Soak};
    use RolloutStatus::{Aborted, Aborting, Completed, Created, Paused, Rolling};
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
fn nothing_is_required_from_a_node_outside_its_turn() {
    let rolling = record(RolloutStatus::Rolling, BatchPhase::Apply);
    for name in ["c", "stranger"] {
        assert_eq!(asks(&rolling, name), ["-"; 4], "{name}");
    }
    let dry = RolloutRecord { dry_run: true, ..rolling.clone() };
    assert_eq!(asks(&dry, "a"), ["-"; 4]);
    let next = RolloutRecord { current_batch: 1, ..rolling };
    assert_eq!(asks(&next, "c"), ["prepare", "-", "apply", "-"]);
}

#[test]
fn the_driver_status_of_a_node_counts_after_the_end() {
    for state in [RolloutStatus::Rolling, RolloutStatus::Aborted, RolloutStatus::Completed] {
        for (status, expected) in [
            (NodeStatus::Confirmed, "confirm"),
            (NodeStatus::Failed, "withdraw"),
            (NodeStatus::Silent, "withdraw"),
        ] {
            let mut record = record(state, BatchPhase::Soak);
            record.nodes.insert(id("a"), NodeProgress { status, ..NodeProgress::default() });
            assert_eq!(asks(&record, "a")[3], expected, "{state:?}, {status:?}");
        }
    }
}

#[test]
fn a_node_takes_part_once_and_in_one_rollout_at_a_time() {
    let record = record(RolloutStatus::Rolling, BatchPhase::Apply);
    let begun = phase::step(&node(NodePhase::Idle), NodeEvent::Prepare(order_from_record(&record)), at(1)).0;
    let been = phase::step(&begun, NodeEvent::FetchFailed("no".into()), at(2)).0;
    assert_eq!(driven_action(&record, &id("a"), &been, at(0)), None);
    // Also after another one came in between.
    let next = RolloutRecord { id: "next".parse().unwrap(), ..record.clone() };
    let begun = phase::step(&been, NodeEvent::Prepare(order_from_record(&next)), at(3)).0;
    let been = phase::step(&begun, NodeEvent::FetchFailed("no".into()), at(4)).0;
    assert_eq!(driven_action(&record, &id("a"), &been, at(0)), None);
    // A later order with the same name is another rollout.
    let anew = RolloutRecord { created: at(9), ..record.clone() };
    assert!(driven_action(&anew, &id("a"), &been, at(0)).is_some());
    let other = RolloutRecord { id: "other".parse().unwrap(), ..record.clone() };
    for busy in &nodes(&other)[1..] {
        assert_eq!(driven_action(&record, &id("a"), busy, at(0)), None);
    }
}

#[test]
fn an_old_record_is_ignored() {
    let new = record(RolloutStatus::Aborted, BatchPhase::Apply);
    let old = RolloutRecord { serial: 6, ..record(RolloutStatus::Rolling, BatchPhase::Apply) };
    let mut node = node(NodePhase::Idle);
    assert!(driven_action(&old, &id("a"), &node, at(0)).is_some());
    accept_record(&new, &mut node);
    accept_record(&old, &mut node);
    assert_eq!(node.heard[&new.id].serial, 7);
    assert_eq!(driven_action(&old, &id("a"), &node, at(0)), None);
    assert!(driven_action(&RolloutRecord { serial: 7, ..old }, &id("a"), &node, at(0)).is_some());
}

#[test]
fn serials_are_remembered_up_to_a_limit_and_never_lost_while_needed() {
    let mut record = record(RolloutStatus::Rolling, BatchPhase::Apply);
    let [_, _, mut node, _] = nodes(&record);
    accept_record(&record, &mut node);
    let first = record.id.clone();
    for n in 0..2 * MAX_REMEMBERED_SERIALS {
        record.id = format!("s{n:04}").parse().unwrap();
        record.created = at(i64::try_from(n).unwrap());
        accept_record(&record, &mut node);
    }
    // A record older than all remembered ones is not saved again and again.
    let before = node.clone();
    accept_record(&RolloutRecord { id: "a".parse().unwrap(), created: at(-5), ..record.clone() }, &mut node);
    assert_eq!(node, before);
    assert_eq!(node.heard.len(), MAX_REMEMBERED_SERIALS);
    assert!(node.heard.contains_key(&first) && node.heard.contains_key(&record.id));
}

#[test]
fn a_node_whose_record_was_deleted_rolls_back() {
    let record = record(RolloutStatus::Rolling, BatchPhase::Apply);
    assert_eq!(
        nodes(&record).map(|node| word(orphaned_action(&node))),
        ["-", "withdraw", "withdraw", "withdraw"]
    );
}

fn clock(state: RolloutStatus) -> RolloutRecord {
    RolloutRecord { mode: RolloutMode::Clock, batches: vec![], ..record(state, BatchPhase::Prepare) }
}

#[test]
fn in_clock_mode_a_node_continues_by_itself() {
    let spread = waves::total_spread(&clock(RolloutStatus::Rolling));
    let late = phase::saturating_after(at(0), spread);
    let asks = |record: &RolloutRecord, now| {
        nodes(record).map(|node| word(desired_action(record, &report("a"), &node, now)))
    };
    let rolling = clock(RolloutStatus::Rolling);
    assert_eq!(asks(&rolling, late), ["prepare", "-", "apply", "confirm"]);
    assert_eq!(asks(&rolling, at(-1))[0], "-", "its moment has not come");
    assert_eq!(asks(&clock(RolloutStatus::Paused), late), ["-", "-", "-", "confirm"]);
    assert_eq!(asks(&clock(RolloutStatus::Aborted), late), ["-", "withdraw", "withdraw", "withdraw"]);
    assert_eq!(asks(&clock(RolloutStatus::Completed), late), ["prepare", "-", "apply", "confirm"]);
    let others = RolloutRecord { target: "b*".into(), ..clock(RolloutStatus::Rolling) };
    assert_eq!(asks(&others, late)[0], "-");
    let newer = RolloutRecord { min_protocol: PROTOCOL + 1, ..clock(RolloutStatus::Rolling) };
    assert_eq!(asks(&newer, late)[0], "-");
    assert_eq!(driven_action(&rolling, &id("a"), &nodes(&rolling)[0], at(0)), None);
}

/// Nobody ends such a record: an older one must not move a node back and forth.
#[test]
fn in_clock_mode_an_older_record_is_ignored() {
    let late = phase::saturating_after(at(0), 10 * waves::total_spread(&clock(RolloutStatus::Rolling)));
    let first = clock(RolloutStatus::Rolling);
    let second =
        RolloutRecord { id: "s".parse().unwrap(), to: "3.0".into(), created: at(10), ..first.clone() };
    let may =
        |record: &RolloutRecord, node: &NodeState| desired_action(record, &report("a"), node, late).is_some();
    let mut node = NodeState::with_version("1.0");
    assert!(may(&first, &node) && may(&second, &node));
    for record in [&first, &second] {
        node = phase::step(&node, NodeEvent::Prepare(order_from_record(record)), late).0;
        node = phase::step(&node, NodeEvent::FetchFailed("no".into()), late).0;
        assert!(!may(&first, &node), "once is enough");
    }
    let fresh = NodeState { newest: Some(at(10)), ..NodeState::with_version("1.0") };
    assert!(!may(&first, &fresh), "older than a rollout that it accepted since");
    assert!(!may(&first, &NodeState::with_version("2.1")), "a downgrade without anyway");
    assert!(may(&RolloutRecord { anyway: true, ..first.clone() }, &NodeState::with_version("2.1")));
    let unwell = NodeReport { degraded: Some("a crash loop".into()), ..report("a") };
    assert_eq!(desired_action(&first, &unwell, &NodeState::with_version("1.0"), late), None);
}

/// A node without a driver and without a board, from one version to the next.
#[test]
fn in_clock_mode_a_node_updates_and_soaks_before_it_confirms() {
    let record = clock(RolloutStatus::Rolling);
    let (mut node, mut now, mut applied) = (NodeState::with_version("1.0"), at(0), None);
    for _ in 0..200 {
        let event = desired_action(&record, &report("a"), &node, now).unwrap_or(NodeEvent::Tick);
        let (next, actions) = phase::step(&node, event, now);
        let answer = actions.first().map_or(NodeEvent::Ready, |action| match action {
            phase::NodeAction::Fetch(_) => NodeEvent::Fetched,
            phase::NodeAction::Apply(_) => {
                applied = Some(now);
                NodeEvent::Applied
            }
            _ => NodeEvent::Tick,
        });
        node = phase::step(&next, answer, now).0;
        if node.running == "2.0" {
            break;
        }
        now = phase::saturating_after(now, Duration::from_secs(5));
    }
    assert_eq!((node.running.as_str(), &node.phase), ("2.0", &NodePhase::Idle));
    let soaked = now.duration_since(applied.unwrap()).as_secs();
    assert!((60..=70).contains(&soaked), "{soaked}");
    assert_eq!(desired_action(&record, &report("a"), &node, now), None);
}

#[test]
fn an_expired_order_starts_nothing_and_still_ends_what_it_started() {
    let expires = Some(at(100));
    let rolling = RolloutRecord { expires, ..record(RolloutStatus::Rolling, BatchPhase::Prepare) };
    let idle = NodeState::with_version("1.0.0");
    assert!(driven_action(&rolling, &id("a"), &idle, at(99)).is_some());
    assert_eq!(driven_action(&rolling, &id("a"), &idle, at(100)), None);
    let by_clock = RolloutRecord { expires, ..clock(RolloutStatus::Rolling) };
    assert_eq!(clocked_action(&by_clock, &report("a"), &idle, at(100)), None);
    assert!(expiry_text(&rolling, at(100)).unwrap().contains("expired"));
    // A record without an end ends after the usual time.
    let endless = RolloutRecord { expires: None, ..rolling.clone() };
    assert_eq!(driven_action(&endless, &id("a"), &idle, at(31 * 24 * 3600)), None);
    let (preparing, _) =
        crate::phase::step(&idle, driven_action(&rolling, &id("a"), &idle, at(0)).unwrap(), at(0));
    let aborted = RolloutRecord { state: RolloutStatus::Aborted, ..rolling };
    let event = driven_action(&aborted, &id("a"), &preparing, at(200));
    assert!(matches!(event, Some(NodeEvent::Withdraw(..))), "{event:?}");
}
