//! Every event in every phase as a table, and the properties of [`step`] over random histories.

use proptest::prelude::*;

use super::*;

const NEW: &str = "2.0";
const OLD: &str = "1.0";
const OLDER: &str = "0.9";

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn id(text: &str) -> RolloutId {
    text.parse().unwrap()
}

fn order() -> RolloutOrder {
    RolloutOrder {
        rollout: Some(id("r")),
        to: NEW.into(),
        soak: Span::seconds(60),
        anyway: false,
        created: at(-9),
    }
}

/// One node in each phase, since the moment 0.
fn nodes() -> Vec<(&'static str, NodeState)> {
    let since = at(0);
    let soaking = |ready_since| NodePhase::Soaking {
        order: order(),
        since,
        deadline: at(300),
        misses: MAX_MISSES - 1,
        ready_since,
    };
    let back =
        NodePhase::RollingBack { order: order(), back: OLD.into(), why: "bad".into(), rejects: true, since };
    let node = |phase| NodeState { previous: Some(OLDER.into()), phase, ..NodeState::with_version(OLD) };
    vec![
        ("idle", node(NodePhase::Idle)),
        ("preparing", node(NodePhase::Preparing { order: order(), since })),
        ("staged", node(NodePhase::Staged { order: order(), since })),
        ("applying", node(NodePhase::Applying { order: order(), since })),
        ("soaking", node(soaking(None))),
        ("ready", node(soaking(Some(since)))),
        ("back", node(back)),
    ]
}

fn events() -> Vec<(&'static str, NodeEvent)> {
    let why = || "why".to_owned();
    vec![
        ("prepare", NodeEvent::Prepare(order())),
        ("apply", NodeEvent::Apply(id("r"))),
        ("confirm", NodeEvent::Confirm(id("r"))),
        ("withdraw", NodeEvent::Withdraw(id("r"), why())),
        ("fetched", NodeEvent::Fetched),
        ("unfetched", NodeEvent::FetchFailed(why())),
        ("applied", NodeEvent::Applied),
        ("unapplied", NodeEvent::ApplyFailed(why())),
        ("ready", NodeEvent::Ready),
        ("not ready", NodeEvent::NotReady(why())),
        ("rolled back", NodeEvent::RolledBack),
        ("not rolled back", NodeEvent::RollbackFailed(why())),
        ("roll back", NodeEvent::RollBack(why())),
        ("tick", NodeEvent::Tick),
        ("boot", NodeEvent::Boot),
        ("crash", NodeEvent::BootAfterCrash),
    ]
}

/// Its phase, its good version, its result, and the actions, in short form.
fn describe_step(node: &NodeState, actions: &[NodeAction]) -> String {
    let phase = match &node.phase {
        NodePhase::Idle => "idle",
        NodePhase::Preparing { .. } => "preparing",
        NodePhase::Staged { .. } => "staged",
        NodePhase::Applying { .. } => "applying",
        NodePhase::Soaking { ready_since: None, .. } => "soaking",
        NodePhase::Soaking { .. } => "ready",
        NodePhase::RollingBack { rejects: true, .. } => "back, rejects",
        NodePhase::RollingBack { .. } => "back",
    };
    let mut words = vec![format!("{phase} on {}", node.running)];
    words.extend(node.last.as_ref().map(|last| format!("{:?}", last.outcome).to_lowercase()));
    words.extend(node.rejected.keys().map(|version| format!("rejected {version}")));
    words.extend(actions.iter().map(|action| match action {
        NodeAction::Fetch(order) => format!("fetch {}", order.to),
        NodeAction::Discard(version) => format!("discard {version}"),
        NodeAction::Apply(version) => format!("apply {version}"),
        NodeAction::RollBack(version) => format!("roll back to {version}"),
        NodeAction::Settle(version) => format!("settle {version}"),
    }));
    words.join("; ")
}

/// Every pair that is not in this table changes nothing.
const TABLE: &[(&str, &str, &str)] = &[
    ("idle", "prepare", "preparing on 1.0; fetch 2.0"),
    ("idle", "roll back", "back, rejects on 0.9; roll back to 0.9"),
    ("preparing", "withdraw", "idle on 1.0; withdrawn; discard 2.0"),
    ("preparing", "fetched", "staged on 1.0"),
    ("preparing", "unfetched", "idle on 1.0; failed; discard 2.0"),
    ("preparing", "roll back", "idle on 1.0; withdrawn; discard 2.0"),
    ("preparing", "boot", "preparing on 1.0; fetch 2.0"),
    ("preparing", "crash", "preparing on 1.0; fetch 2.0"),
    ("staged", "apply", "applying on 1.0; apply 2.0"),
    ("staged", "withdraw", "idle on 1.0; withdrawn; discard 2.0"),
    ("staged", "roll back", "idle on 1.0; withdrawn; discard 2.0"),
    ("applying", "withdraw", "back on 1.0; roll back to 1.0"),
    ("applying", "applied", "soaking on 1.0"),
    ("applying", "unapplied", "back on 1.0; roll back to 1.0"),
    ("applying", "roll back", "back, rejects on 1.0; roll back to 1.0"),
    ("applying", "boot", "applying on 1.0; apply 2.0"),
    ("applying", "crash", "applying on 1.0; apply 2.0"),
    ("soaking", "withdraw", "back on 1.0; roll back to 1.0"),
    ("soaking", "ready", "ready on 1.0"),
    ("soaking", "not ready", "back, rejects on 1.0; roll back to 1.0"),
    ("soaking", "roll back", "back, rejects on 1.0; roll back to 1.0"),
    ("soaking", "crash", "soaking on 1.0"),
    ("ready", "confirm", "idle on 2.0; confirmed; settle 2.0"),
    ("ready", "withdraw", "back on 1.0; roll back to 1.0"),
    ("ready", "ready", "ready on 1.0"),
    ("ready", "not ready", "back, rejects on 1.0; roll back to 1.0"),
    ("ready", "roll back", "back, rejects on 1.0; roll back to 1.0"),
    ("ready", "boot", "soaking on 1.0"),
    ("ready", "crash", "soaking on 1.0"),
    ("back", "rolled back", "idle on 1.0; failed; rejected 2.0; discard 2.0"),
    ("back", "not rolled back", "back, rejects on 1.0; roll back to 1.0"),
    ("back", "tick", "back, rejects on 1.0; roll back to 1.0"),
    ("back", "boot", "back, rejects on 1.0; roll back to 1.0"),
    ("back", "crash", "back, rejects on 1.0; roll back to 1.0"),
];

#[test]
fn every_event_in_every_phase() {
    let mut used = 0;
    for (phase, node) in nodes() {
        for (name, event) in events() {
            let (next, actions) = step(&node, event, at(61));
            if let Some((_, _, expected)) = TABLE.iter().find(|(p, e, _)| (*p, *e) == (phase, name)) {
                assert_eq!(describe_step(&next, &actions), *expected, "{phase}, {name}");
                used += 1;
            } else {
                assert_eq!((&next, actions), (&node, vec![]), "{phase}, {name}");
            }
        }
    }
    assert_eq!(used, TABLE.len());
}

#[test]
fn events_of_another_rollout_change_nothing() {
    for (phase, node) in nodes().into_iter().filter(|(phase, _)| *phase != "idle") {
        for event in [
            NodeEvent::Apply(id("other")),
            NodeEvent::Confirm(id("other")),
            NodeEvent::Withdraw(id("other"), String::new()),
            NodeEvent::Prepare(RolloutOrder { rollout: Some(id("other")), ..order() }),
        ] {
            assert_eq!(step(&node, event, at(61)), (node.clone(), vec![]), "{phase}");
        }
    }
}

#[test]
fn an_order_without_a_rollout_does_not_start() {
    let node = NodeState::with_version(OLD);
    let order = RolloutOrder { rollout: None, ..order() };
    assert_eq!(step(&node, NodeEvent::Prepare(order), at(0)), (node, vec![]));
}

#[test]
fn a_running_version_is_confirmed_at_once() {
    let (next, actions) = step(&NodeState::with_version(NEW), NodeEvent::Prepare(order()), at(0));
    assert_eq!(describe_step(&next, &actions), "idle on 2.0; confirmed");
}

#[test]
fn a_rejected_version_is_not_tried_without_anyway() {
    let mut node = NodeState::with_version(OLD);
    node.reject_version(NEW, "it exits");
    let (next, actions) = step(&node, NodeEvent::Prepare(order()), at(0));
    assert_eq!(describe_step(&next, &actions), "idle on 1.0; failed; rejected 2.0");
    assert_eq!(next.last.unwrap().why.unwrap(), "2.0 was already rejected on this node: it exits");
    let meant = RolloutOrder { anyway: true, ..order() };
    let (next, actions) = step(&node, NodeEvent::Prepare(meant), at(0));
    assert_eq!(describe_step(&next, &actions), "preparing on 1.0; rejected 2.0; fetch 2.0");
}

#[test]
fn an_older_version_is_not_accepted_without_anyway() {
    let node = NodeState::with_version("2.1");
    let (next, actions) = step(&node, NodeEvent::Prepare(order()), at(0));
    assert_eq!(describe_step(&next, &actions), "idle on 2.1; failed");
    assert_eq!(next.last.unwrap().why.unwrap(), "2.0 is older than 2.1, which runs on this node");
    let meant = RolloutOrder { anyway: true, ..order() };
    let (next, actions) = step(&node, NodeEvent::Prepare(meant), at(0));
    assert_eq!(describe_step(&next, &actions), "preparing on 2.1; fetch 2.0");
}

#[test]
fn reasons_and_remembered_rollouts_have_a_limit() {
    let mut node = NodeState::with_version(OLD);
    for n in 0..400 {
        let rollout: RolloutId = id(&format!("r{n:03}"));
        let order = RolloutOrder { rollout: Some(rollout.clone()), created: at(n), ..order() };
        node = step(&node, NodeEvent::Prepare(order), at(n)).0;
        node = step(&node, NodeEvent::Withdraw(rollout, "ä".repeat(2_000_000)), at(n)).0;
        node.reject_version(&format!("1.{n}.0"), &"ö".repeat(2_000_000));
    }
    assert!(serde_json::to_vec(&node).unwrap().len() < 512 << 10);
    assert!(node.has_ended(&id("r399"), at(399)) && !node.has_ended(&id("r399"), at(398)));
    assert_eq!(
        (node.ended.len(), node.rejected.len(), node.newest),
        (MAX_ENDED, MAX_REJECTED, Some(at(399)))
    );
    assert!(node.rejected.contains_key("1.399.0") && !node.rejected.contains_key("1.9.0"), "the oldest go");
}

#[test]
fn confirmed_only_after_its_time_while_ready_and_before_the_deadline() {
    let confirm = |node: &NodeState, seconds| step(node, NodeEvent::Confirm(id("r")), at(seconds)).0;
    let all = nodes();
    let of = |name| &all.iter().find(|(phase, _)| *phase == name).unwrap().1;
    for (phase, seconds, running, is_back) in [
        ("ready", 59, OLD, false),
        ("ready", 60, NEW, false),
        ("ready", 299, NEW, false),
        ("ready", 300, OLD, true),
        ("soaking", 61, OLD, false),
        ("soaking", 300, OLD, true),
    ] {
        let next = confirm(of(phase), seconds);
        let went_back = matches!(next.phase, NodePhase::RollingBack { rejects: false, .. });
        assert_eq!((next.running.as_str(), went_back), (running, is_back), "{phase} at {seconds}");
    }
}

#[test]
fn three_failed_checks_in_a_row_roll_back_and_two_do_not() {
    let applied = step(&nodes()[3].1, NodeEvent::Applied, at(0)).0;
    let play = |looks: &str| {
        looks.chars().enumerate().fold(applied.clone(), |node, (n, look)| {
            let event = if look == '+' { NodeEvent::Ready } else { NodeEvent::NotReady("no".into()) };
            step(&node, event, at(10 * n as i64)).0
        })
    };
    for (looks, soaks) in [("--", true), ("---", false), ("--+--+--", true), ("+++---", false)] {
        assert_eq!(matches!(play(looks).phase, NodePhase::Soaking { .. }), soaks, "{looks}");
    }
}

#[test]
fn a_version_that_cannot_be_applied_at_any_boot_is_given_up() {
    let mut node = nodes()[3].1.clone();
    for seconds in (0..300).step_by(20) {
        let (next, actions) = step(&node, NodeEvent::Boot, at(seconds));
        assert_eq!(actions, [NodeAction::Apply(NEW.into())], "at {seconds}");
        node = next;
    }
    let (_, actions) = step(&node, NodeEvent::Boot, at(300));
    assert_eq!(actions, [NodeAction::RollBack(OLD.into())]);
}

/// The node after starts of the watchdog at these seconds: `c` after a crash, `b` after a stop.
fn booted(node: &NodeState, boots: &[(char, i64)]) -> NodeState {
    boots.iter().fold(node.clone(), |node, (kind, seconds)| {
        let event = if *kind == 'c' { NodeEvent::BootAfterCrash } else { NodeEvent::Boot };
        step(&node, event, at(*seconds)).0
    })
}

#[test]
fn a_version_under_which_the_host_keeps_crashing_is_rejected() {
    let all = nodes();
    for name in ["applying", "soaking", "ready"] {
        let node = &all.iter().find(|(phase, _)| *phase == name).unwrap().1;
        for (boots, rejects) in [
            // Two crashes are not enough, and reboots by a person never are.
            (vec![('c', 1), ('c', 2)], None),
            (vec![('b', 1), ('c', 2), ('b', 3), ('c', 4), ('b', 5)], None),
            (vec![('c', 1), ('b', 2), ('c', 3), ('c', 4)], Some(true)),
            // When the time is over, the cause is named: one crash may be a power cut, two are the version.
            (vec![('b', 301)], Some(false)),
            (vec![('c', 301)], Some(false)),
            (vec![('c', 1), ('c', 301)], Some(true)),
            (vec![('c', 1), ('c', 2), ('b', 301)], Some(true)),
        ] {
            let next = booted(node, &boots);
            let found = match &next.phase {
                NodePhase::RollingBack { rejects, why, .. } => {
                    assert_eq!(*rejects, why.contains("times while 2.0 was on trial"), "{why}");
                    Some(*rejects)
                }
                _ => None,
            };
            assert_eq!(found, rejects, "{name}: {boots:?}");
            let ended = step(&next, NodeEvent::RolledBack, at(400)).0;
            assert_eq!(ended.rejected.contains_key(NEW), rejects == Some(true), "{name}: {boots:?}");
            assert!(found.is_none() || ended.crashes == 0, "the next trial starts from zero");
        }
    }
}

#[test]
fn crashes_of_another_trial_do_not_count() {
    let all = nodes();
    let staged = NodeState { crashes: 2, ..all[2].1.clone() };
    let (applying, _) = step(&staged, NodeEvent::Apply(id("r")), at(0));
    assert_eq!(applying.crashes, 0);
    let confirmed =
        step(&NodeState { crashes: 2, ..all[5].1.clone() }, NodeEvent::Confirm(id("r")), at(61)).0;
    assert_eq!((confirmed.running.as_str(), confirmed.crashes), (NEW, 0));
}

#[test]
fn a_long_soak_has_a_longer_deadline() {
    for (soak, patience) in [(0, 300), (60, 300), (100, 300), (101, 303), (3600, 10800)] {
        let order = RolloutOrder { soak: Span::seconds(soak), ..order() };
        assert_eq!(order.confirm_timeout(), Duration::from_secs(patience));
    }
    let endless = RolloutOrder { soak: Span(Duration::MAX), ..order() };
    assert_eq!(saturating_after(at(0), endless.confirm_timeout()), Timestamp::MAX);
}

#[test]
fn rejected_versions_are_remembered_up_to_a_limit() {
    let mut node = NodeState::with_version(OLD);
    for n in 0..MAX_REJECTED + 10 {
        node.reject_version(&format!("v{n:03}"), "bad");
    }
    assert_eq!(node.rejected.len(), MAX_REJECTED);
    assert!(node.rejected.contains_key("v073") && !node.rejected.contains_key("v009"));
}

#[test]
fn a_node_survives_its_file() {
    for (phase, node) in nodes() {
        let text = serde_json::to_string(&node).unwrap();
        assert_eq!(serde_json::from_str::<NodeState>(&text).unwrap(), node, "{phase}");
    }
}

#[test]
fn the_previous_version_is_kept_when_a_rollout_to_it_fails() {
    let node = NodeState { previous: Some(NEW.into()), ..NodeState::with_version(OLD) };
    let run = |events: &[NodeEvent]| {
        let begun = step(&node, NodeEvent::Prepare(order()), at(0)).0;
        events.iter().fold((begun, vec![]), |(node, _), event| step(&node, event.clone(), at(0)))
    };
    for events in [
        vec![NodeEvent::FetchFailed("u".into())],
        vec![NodeEvent::Fetched, NodeEvent::Withdraw(id("r"), "w".into())],
        vec![
            NodeEvent::Fetched,
            NodeEvent::Apply(id("r")),
            NodeEvent::ApplyFailed("u".into()),
            NodeEvent::RolledBack,
        ],
    ] {
        let (next, actions) = run(&events);
        assert_eq!((next.previous.as_deref(), actions), (Some(NEW), vec![]), "{events:?}");
    }
    let bad = [
        NodeEvent::Fetched,
        NodeEvent::Apply(id("r")),
        NodeEvent::RollBack("bad".into()),
        NodeEvent::RolledBack,
    ];
    let (next, actions) = run(&bad);
    assert_eq!((next.previous.as_deref(), actions), (None, vec![NodeAction::Discard(NEW.into())]));
}

fn any_event() -> impl Strategy<Value = NodeEvent> {
    let rollout = prop_oneof![4 => Just(id("r")), 1 => Just(id("s"))];
    let to = prop_oneof![Just(NEW), Just(OLD), Just("3.0")];
    let order = (rollout.clone(), to, 0u64..200, any::<bool>()).prop_map(|(rollout, to, soak, anyway)| {
        RolloutOrder {
            rollout: Some(rollout),
            to: to.into(),
            soak: Span::seconds(soak),
            anyway,
            created: at(-9),
        }
    });
    prop_oneof![
        3 => order.prop_map(NodeEvent::Prepare),
        3 => rollout.clone().prop_map(NodeEvent::Apply),
        3 => rollout.clone().prop_map(NodeEvent::Confirm),
        1 => rollout.prop_map(|r| NodeEvent::Withdraw(r, "w".into())),
        3 => Just(NodeEvent::Fetched),
        1 => Just(NodeEvent::FetchFailed("u".into())),
        3 => Just(NodeEvent::Applied),
        1 => Just(NodeEvent::ApplyFailed("u".into())),
        6 => Just(NodeEvent::Ready),
        2 => Just(NodeEvent::NotReady("n".into())),
        2 => Just(NodeEvent::RolledBack),
        1 => Just(NodeEvent::RollbackFailed("n".into())),
        1 => Just(NodeEvent::RollBack("g".into())),
        3 => Just(NodeEvent::Tick),
        1 => Just(NodeEvent::Boot),
        1 => Just(NodeEvent::BootAfterCrash),
    ]
}

/// Events, and how far the clock moves before each: mostly forward, at times back or far ahead.
fn history() -> impl Strategy<Value = Vec<(NodeEvent, i64)>> {
    let moves = prop_oneof![12 => 0i64..30, 1 => -1000i64..0, 1 => 200i64..100_000];
    proptest::collection::vec((any_event(), moves), 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn laws_of_one_step(history in history()) {
        let mut node = NodeState::with_version(OLD);
        let mut now = 0;
        for (event, moved) in history {
            now += moved;
            let (next, actions) = step(&node, event.clone(), at(now));
            prop_assert!(!next.current_version().is_empty() && !next.running.is_empty());
            for action in &actions {
                if let NodeAction::Discard(version) = action {
                    prop_assert!(*version != next.running && Some(version) != next.previous.as_ref());
                }
            }
            if next.running != node.running {
                prop_assert!(matches!(event, NodeEvent::Confirm(_) | NodeEvent::RollBack(_)), "{:?}", event);
            }
            if let NodeEvent::Confirm(rollout) = &event && next.running != node.running {
                prop_assert_eq!(node.current_rollout(), Some(rollout));
                prop_assert_eq!(next.previous.as_ref(), Some(&node.running));
                prop_assert_eq!(&actions, &vec![NodeAction::Settle(next.running.clone())]);
            }
            for version in node.rejected.keys().filter(|version| !next.rejected.contains_key(*version)) {
                prop_assert_eq!(version, &next.running, "forgotten only by being confirmed");
            }
            // Whatever the clock does: no node has more time than after a fresh start, and none is past its limit.
            let left = |until: Timestamp| until.duration_since(at(now));
            match &next.phase {
                NodePhase::Soaking { order, deadline, .. } => {
                    prop_assert!(at(now) < *deadline || event == NodeEvent::Applied);
                    prop_assert!(left(*deadline) <= SignedDuration::try_from(order.confirm_timeout()).unwrap());
                }
                NodePhase::Applying { order, since } => {
                    prop_assert!(*since <= at(now));
                    prop_assert!(at(now) < saturating_after(*since, order.confirm_timeout()));
                }
                NodePhase::Preparing { order, .. } => {
                    prop_assert!(order.anyway || !next.rejected.contains_key(&order.to));
                }
                _ => {}
            }
            node = next;
        }
    }

    #[test]
    fn boot_is_safe_to_repeat(history in history()) {
        let mut node = NodeState::with_version(OLD);
        let mut now = 0;
        for (event, moved) in history {
            now += moved;
            node = step(&node, event, at(now)).0;
            let (once, first) = step(&node, NodeEvent::Boot, at(now));
            let (twice, second) = step(&once, NodeEvent::Boot, at(now));
            prop_assert_eq!((&once, &first), (&twice, &second));
            prop_assert_eq!(once.running, node.running.clone());
        }
    }

    /// A node that gets no more messages ends on the good version, from any phase.
    #[test]
    fn a_node_without_a_driver_ends_on_a_good_version(history in history()) {
        let mut node = NodeState::with_version(OLD);
        let mut now = 0;
        for (event, moved) in history {
            now += moved;
            node = step(&node, event, at(now)).0;
        }
        let good = node.running.clone();
        let patience = match &node.phase {
            NodePhase::Applying { order, .. } | NodePhase::Soaking { order, .. } => order.confirm_timeout(),
            _ => Duration::ZERO,
        };
        let mut event = NodeEvent::Boot;
        for _ in 0..=2 * patience.as_secs() / 10 {
            let (next, actions) = step(&node, event, at(now));
            event = match actions.first() {
                Some(NodeAction::RollBack(_)) => NodeEvent::RolledBack,
                _ => NodeEvent::Tick,
            };
            (node, now) = (next, now + 10);
        }
        node = step(&node, event, at(now)).0;
        prop_assert!(node.current_version() == node.running);
        prop_assert_eq!(node.running, good);
    }
}
