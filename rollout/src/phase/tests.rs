//! Every event in every phase by a table, and the laws of [`step`] over histories drawn by lot.

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

fn order() -> Order {
    Order { rollout: Some(id("r")), to: NEW.into(), soak: Span::seconds(60), anyway: false, created: at(-9) }
}

/// One node in each phase, since the moment 0.
fn nodes() -> Vec<(&'static str, Node)> {
    let since = at(0);
    let soaking = |ready_since| Phase::Soaking {
        order: order(),
        since,
        deadline: at(300),
        misses: MISSES - 1,
        ready_since,
    };
    let back =
        Phase::RollingBack { order: order(), back: OLD.into(), why: "bad".into(), rejects: true, since };
    let node = |phase| Node { previous: Some(OLDER.into()), phase, ..Node::on(OLD) };
    vec![
        ("idle", node(Phase::Idle)),
        ("preparing", node(Phase::Preparing { order: order(), since })),
        ("staged", node(Phase::Staged { order: order(), since })),
        ("applying", node(Phase::Applying { order: order(), since })),
        ("soaking", node(soaking(None))),
        ("ready", node(soaking(Some(since)))),
        ("back", node(back)),
    ]
}

fn events() -> Vec<(&'static str, Event)> {
    let why = || "why".to_owned();
    vec![
        ("prepare", Event::Prepare(order())),
        ("apply", Event::Apply(id("r"))),
        ("confirm", Event::Confirm(id("r"))),
        ("withdraw", Event::Withdraw(id("r"), why())),
        ("fetched", Event::Fetched),
        ("unfetched", Event::Unfetched(why())),
        ("applied", Event::Applied),
        ("unapplied", Event::Unapplied(why())),
        ("ready", Event::Ready),
        ("not ready", Event::NotReady(why())),
        ("rolled back", Event::RolledBack),
        ("not rolled back", Event::NotRolledBack(why())),
        ("go back", Event::GoBack(why())),
        ("tick", Event::Tick),
        ("boot", Event::Boot),
    ]
}

/// Where it stands, what it counts as good, how it ended, and what is done: in a few words.
fn told(node: &Node, actions: &[Action]) -> String {
    let phase = match &node.phase {
        Phase::Idle => "idle",
        Phase::Preparing { .. } => "preparing",
        Phase::Staged { .. } => "staged",
        Phase::Applying { .. } => "applying",
        Phase::Soaking { ready_since: None, .. } => "soaking",
        Phase::Soaking { .. } => "ready",
        Phase::RollingBack { rejects: true, .. } => "back, rejects",
        Phase::RollingBack { .. } => "back",
    };
    let mut words = vec![format!("{phase} on {}", node.running)];
    words.extend(node.last.as_ref().map(|last| format!("{:?}", last.outcome).to_lowercase()));
    words.extend(node.rejected.keys().map(|version| format!("rejected {version}")));
    words.extend(actions.iter().map(|action| match action {
        Action::Fetch(order) => format!("fetch {}", order.to),
        Action::Discard(version) => format!("discard {version}"),
        Action::Apply(version) => format!("apply {version}"),
        Action::GoBack(version) => format!("go back to {version}"),
        Action::Settle(version) => format!("settle {version}"),
    }));
    words.join("; ")
}

/// Everything that is not in this table changes nothing at all.
const TABLE: &[(&str, &str, &str)] = &[
    ("idle", "prepare", "preparing on 1.0; fetch 2.0"),
    ("idle", "go back", "back, rejects on 0.9; go back to 0.9"),
    ("preparing", "withdraw", "idle on 1.0; withdrawn; discard 2.0"),
    ("preparing", "fetched", "staged on 1.0"),
    ("preparing", "unfetched", "idle on 1.0; failed; discard 2.0"),
    ("preparing", "go back", "idle on 1.0; withdrawn; discard 2.0"),
    ("preparing", "boot", "preparing on 1.0; fetch 2.0"),
    ("staged", "apply", "applying on 1.0; apply 2.0"),
    ("staged", "withdraw", "idle on 1.0; withdrawn; discard 2.0"),
    ("staged", "go back", "idle on 1.0; withdrawn; discard 2.0"),
    ("applying", "withdraw", "back on 1.0; go back to 1.0"),
    ("applying", "applied", "soaking on 1.0"),
    ("applying", "unapplied", "back on 1.0; go back to 1.0"),
    ("applying", "go back", "back, rejects on 1.0; go back to 1.0"),
    ("applying", "boot", "applying on 1.0; apply 2.0"),
    ("soaking", "withdraw", "back on 1.0; go back to 1.0"),
    ("soaking", "ready", "ready on 1.0"),
    ("soaking", "not ready", "back, rejects on 1.0; go back to 1.0"),
    ("soaking", "go back", "back, rejects on 1.0; go back to 1.0"),
    ("ready", "confirm", "idle on 2.0; confirmed; settle 2.0"),
    ("ready", "withdraw", "back on 1.0; go back to 1.0"),
    ("ready", "ready", "ready on 1.0"),
    ("ready", "not ready", "back, rejects on 1.0; go back to 1.0"),
    ("ready", "go back", "back, rejects on 1.0; go back to 1.0"),
    ("ready", "boot", "soaking on 1.0"),
    ("back", "rolled back", "idle on 1.0; failed; rejected 2.0; discard 2.0"),
    ("back", "not rolled back", "back, rejects on 1.0; go back to 1.0"),
    ("back", "tick", "back, rejects on 1.0; go back to 1.0"),
    ("back", "boot", "back, rejects on 1.0; go back to 1.0"),
];

#[test]
fn every_event_in_every_phase() {
    let mut used = 0;
    for (phase, node) in nodes() {
        for (name, event) in events() {
            let (next, actions) = step(&node, event, at(61));
            if let Some((_, _, expected)) = TABLE.iter().find(|(p, e, _)| (*p, *e) == (phase, name)) {
                assert_eq!(told(&next, &actions), *expected, "{phase}, {name}");
                used += 1;
            } else {
                assert_eq!((&next, actions), (&node, vec![]), "{phase}, {name}");
            }
        }
    }
    assert_eq!(used, TABLE.len());
}

#[test]
fn what_another_rollout_says_changes_nothing() {
    for (phase, node) in nodes().into_iter().filter(|(phase, _)| *phase != "idle") {
        for event in [
            Event::Apply(id("other")),
            Event::Confirm(id("other")),
            Event::Withdraw(id("other"), String::new()),
            Event::Prepare(Order { rollout: Some(id("other")), ..order() }),
        ] {
            assert_eq!(step(&node, event, at(61)), (node.clone(), vec![]), "{phase}");
        }
    }
}

#[test]
fn an_order_of_no_rollout_is_not_begun() {
    let node = Node::on(OLD);
    let order = Order { rollout: None, ..order() };
    assert_eq!(step(&node, Event::Prepare(order), at(0)), (node, vec![]));
}

#[test]
fn what_runs_already_is_confirmed_at_once() {
    let (next, actions) = step(&Node::on(NEW), Event::Prepare(order()), at(0));
    assert_eq!(told(&next, &actions), "idle on 2.0; confirmed");
}

#[test]
fn a_rejected_version_is_not_tried_unless_it_is_meant() {
    let mut node = Node::on(OLD);
    node.reject(NEW, "it exits");
    let (next, actions) = step(&node, Event::Prepare(order()), at(0));
    assert_eq!(told(&next, &actions), "idle on 1.0; failed; rejected 2.0");
    assert_eq!(next.last.unwrap().why.unwrap(), "2.0 was rejected here before: it exits");
    let meant = Order { anyway: true, ..order() };
    let (next, actions) = step(&node, Event::Prepare(meant), at(0));
    assert_eq!(told(&next, &actions), "preparing on 1.0; rejected 2.0; fetch 2.0");
}

#[test]
fn an_older_version_is_not_taken_unless_it_is_meant() {
    let node = Node::on("2.1");
    let (next, actions) = step(&node, Event::Prepare(order()), at(0));
    assert_eq!(told(&next, &actions), "idle on 2.1; failed");
    assert_eq!(next.last.unwrap().why.unwrap(), "2.0 is older than 2.1, which runs here");
    let meant = Order { anyway: true, ..order() };
    let (next, actions) = step(&node, Event::Prepare(meant), at(0));
    assert_eq!(told(&next, &actions), "preparing on 2.1; fetch 2.0");
}

#[test]
fn reasons_and_what_is_remembered_have_a_bound() {
    let mut node = Node::on(OLD);
    for n in 0..400 {
        let rollout: RolloutId = id(&format!("r{n:03}"));
        let order = Order { rollout: Some(rollout.clone()), created: at(n), ..order() };
        node = step(&node, Event::Prepare(order), at(n)).0;
        node = step(&node, Event::Withdraw(rollout, "ä".repeat(2_000_000)), at(n)).0;
        node.reject(&format!("1.{n}.0"), &"ö".repeat(2_000_000));
    }
    assert!(serde_json::to_vec(&node).unwrap().len() < 512 << 10);
    assert!(node.has_ended(&id("r399"), at(399)) && !node.has_ended(&id("r399"), at(398)));
    assert_eq!((node.ended.len(), node.rejected.len(), node.newest), (ENDED, REJECTED, Some(at(399))));
    assert!(node.rejected.contains_key("1.399.0") && !node.rejected.contains_key("1.9.0"), "the oldest go");
}

#[test]
fn confirmed_only_after_its_time_while_ready_and_before_the_deadline() {
    let confirm = |node: &Node, seconds| step(node, Event::Confirm(id("r")), at(seconds)).0;
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
        let went_back = matches!(next.phase, Phase::RollingBack { rejects: false, .. });
        assert_eq!((next.running.as_str(), went_back), (running, is_back), "{phase} at {seconds}");
    }
}

#[test]
fn three_misses_in_a_row_go_back_and_two_do_not() {
    let applied = step(&nodes()[3].1, Event::Applied, at(0)).0;
    let play = |looks: &str| {
        looks.chars().enumerate().fold(applied.clone(), |node, (n, look)| {
            let event = if look == '+' { Event::Ready } else { Event::NotReady("no".into()) };
            step(&node, event, at(10 * n as i64)).0
        })
    };
    for (looks, soaks) in [("--", true), ("---", false), ("--+--+--", true), ("+++---", false)] {
        assert_eq!(matches!(play(looks).phase, Phase::Soaking { .. }), soaks, "{looks}");
    }
}

#[test]
fn a_version_that_cannot_be_applied_at_any_boot_is_given_up() {
    let mut node = nodes()[3].1.clone();
    for seconds in (0..300).step_by(20) {
        let (next, actions) = step(&node, Event::Boot, at(seconds));
        assert_eq!(actions, [Action::Apply(NEW.into())], "at {seconds}");
        node = next;
    }
    let (_, actions) = step(&node, Event::Boot, at(300));
    assert_eq!(actions, [Action::GoBack(OLD.into())]);
}

#[test]
fn a_long_soak_has_a_longer_deadline() {
    for (soak, patience) in [(0, 300), (60, 300), (100, 300), (101, 303), (3600, 10800)] {
        let order = Order { soak: Span::seconds(soak), ..order() };
        assert_eq!(order.patience(), Duration::from_secs(patience));
    }
    let endless = Order { soak: Span(Duration::MAX), ..order() };
    assert_eq!(after(at(0), endless.patience()), Timestamp::MAX);
}

#[test]
fn rejected_versions_are_remembered_up_to_a_bound() {
    let mut node = Node::on(OLD);
    for n in 0..REJECTED + 10 {
        node.reject(&format!("v{n:03}"), "bad");
    }
    assert_eq!(node.rejected.len(), REJECTED);
    assert!(node.rejected.contains_key("v073") && !node.rejected.contains_key("v009"));
}

#[test]
fn a_node_survives_its_file() {
    for (phase, node) in nodes() {
        let text = serde_json::to_string(&node).unwrap();
        assert_eq!(serde_json::from_str::<Node>(&text).unwrap(), node, "{phase}");
    }
}

#[test]
fn the_version_before_is_kept_when_a_rollout_leads_back_to_it_and_fails() {
    let node = Node { previous: Some(NEW.into()), ..Node::on(OLD) };
    let run = |events: &[Event]| {
        let begun = step(&node, Event::Prepare(order()), at(0)).0;
        events.iter().fold((begun, vec![]), |(node, _), event| step(&node, event.clone(), at(0)))
    };
    for events in [
        vec![Event::Unfetched("u".into())],
        vec![Event::Fetched, Event::Withdraw(id("r"), "w".into())],
        vec![Event::Fetched, Event::Apply(id("r")), Event::Unapplied("u".into()), Event::RolledBack],
    ] {
        let (next, actions) = run(&events);
        assert_eq!((next.previous.as_deref(), actions), (Some(NEW), vec![]), "{events:?}");
    }
    let bad = [Event::Fetched, Event::Apply(id("r")), Event::GoBack("bad".into()), Event::RolledBack];
    let (next, actions) = run(&bad);
    assert_eq!((next.previous.as_deref(), actions), (None, vec![Action::Discard(NEW.into())]));
}

fn any_event() -> impl Strategy<Value = Event> {
    let rollout = prop_oneof![4 => Just(id("r")), 1 => Just(id("s"))];
    let to = prop_oneof![Just(NEW), Just(OLD), Just("3.0")];
    let order = (rollout.clone(), to, 0u64..200, any::<bool>()).prop_map(|(rollout, to, soak, anyway)| {
        Order { rollout: Some(rollout), to: to.into(), soak: Span::seconds(soak), anyway, created: at(-9) }
    });
    prop_oneof![
        3 => order.prop_map(Event::Prepare),
        3 => rollout.clone().prop_map(Event::Apply),
        3 => rollout.clone().prop_map(Event::Confirm),
        1 => rollout.prop_map(|r| Event::Withdraw(r, "w".into())),
        3 => Just(Event::Fetched),
        1 => Just(Event::Unfetched("u".into())),
        3 => Just(Event::Applied),
        1 => Just(Event::Unapplied("u".into())),
        6 => Just(Event::Ready),
        2 => Just(Event::NotReady("n".into())),
        2 => Just(Event::RolledBack),
        1 => Just(Event::NotRolledBack("n".into())),
        1 => Just(Event::GoBack("g".into())),
        3 => Just(Event::Tick),
        1 => Just(Event::Boot),
    ]
}

/// Events, and how far the clock moves before each: mostly on, at times back or far ahead.
fn history() -> impl Strategy<Value = Vec<(Event, i64)>> {
    let moves = prop_oneof![12 => 0i64..30, 1 => -1000i64..0, 1 => 200i64..100_000];
    proptest::collection::vec((any_event(), moves), 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn laws_of_one_step(history in history()) {
        let mut node = Node::on(OLD);
        let mut now = 0;
        for (event, moved) in history {
            now += moved;
            let (next, actions) = step(&node, event.clone(), at(now));
            prop_assert!(!next.current().is_empty() && !next.running.is_empty());
            for action in &actions {
                if let Action::Discard(version) = action {
                    prop_assert!(*version != next.running && Some(version) != next.previous.as_ref());
                }
            }
            if next.running != node.running {
                prop_assert!(matches!(event, Event::Confirm(_) | Event::GoBack(_)), "{:?}", event);
            }
            if let Event::Confirm(rollout) = &event && next.running != node.running {
                prop_assert_eq!(node.rollout(), Some(rollout));
                prop_assert_eq!(next.previous.as_ref(), Some(&node.running));
                prop_assert_eq!(&actions, &vec![Action::Settle(next.running.clone())]);
            }
            for version in node.rejected.keys().filter(|version| !next.rejected.contains_key(*version)) {
                prop_assert_eq!(version, &next.running, "forgotten only by being confirmed");
            }
            // Whatever the clock does: nobody has more time than from a new start, or is past it.
            let left = |until: Timestamp| until.duration_since(at(now));
            match &next.phase {
                Phase::Soaking { order, deadline, .. } => {
                    prop_assert!(at(now) < *deadline || event == Event::Applied);
                    prop_assert!(left(*deadline) <= SignedDuration::try_from(order.patience()).unwrap());
                }
                Phase::Applying { order, since } => {
                    prop_assert!(*since <= at(now));
                    prop_assert!(at(now) < after(*since, order.patience()));
                }
                Phase::Preparing { order, .. } => {
                    prop_assert!(order.anyway || !next.rejected.contains_key(&order.to));
                }
                _ => {}
            }
            node = next;
        }
    }

    #[test]
    fn boot_twice_is_as_good_as_once(history in history()) {
        let mut node = Node::on(OLD);
        let mut now = 0;
        for (event, moved) in history {
            now += moved;
            node = step(&node, event, at(now)).0;
            let (once, first) = step(&node, Event::Boot, at(now));
            let (twice, second) = step(&once, Event::Boot, at(now));
            prop_assert_eq!((&once, &first), (&twice, &second));
            prop_assert_eq!(once.running, node.running.clone());
        }
    }

    /// A node that nobody speaks to any more comes to rest on what was good, whatever it was in the middle of.
    #[test]
    fn left_alone_it_comes_to_rest(history in history()) {
        let mut node = Node::on(OLD);
        let mut now = 0;
        for (event, moved) in history {
            now += moved;
            node = step(&node, event, at(now)).0;
        }
        let good = node.running.clone();
        let patience = match &node.phase {
            Phase::Applying { order, .. } | Phase::Soaking { order, .. } => order.patience(),
            _ => Duration::ZERO,
        };
        let mut event = Event::Boot;
        for _ in 0..=2 * patience.as_secs() / 10 {
            let (next, actions) = step(&node, event, at(now));
            event = match actions.first() {
                Some(Action::GoBack(_)) => Event::RolledBack,
                _ => Event::Tick,
            };
            (node, now) = (next, now + 10);
        }
        node = step(&node, event, at(now)).0;
        prop_assert!(node.current() == node.running);
        prop_assert_eq!(node.running, good);
    }
}
