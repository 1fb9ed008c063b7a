//! When a node is in a hurry, and when a turn is due.

use zagent_config::settings::Follow;
use zagent_rollout::Span;
use zagent_rollout::phase::{Event, Node, Order, step};

use super::*;

const FREE: Hold<'static> = Hold::none(Follow::Head);
const PAUSED: Hold<'static> = Hold { paused: true, ..FREE };

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

/// A node that was led so far.
fn led(events: &[Event]) -> Course {
    let order = Order {
        rollout: Some("r1".parse().unwrap()),
        to: "b".into(),
        soak: Span::seconds(60),
        anyway: false,
        created: Timestamp::UNIX_EPOCH,
    };
    let begun = [Event::Prepare(order)];
    let node =
        begun.iter().chain(events).fold(Node::on("a"), |node, event| step(&node, event.clone(), at(0)).0);
    Course { node, ..Course::default() }
}

#[test]
fn a_paused_node_goes_on_judging_itself() {
    let apply = Event::Apply("r1".parse().unwrap());
    let bad = Event::GoBack("it broke".into());
    for (events, free, paused) in [
        (vec![], true, true),
        (vec![Event::Fetched, apply.clone()], true, true),
        (vec![Event::Fetched, apply.clone(), Event::Applied], true, true),
        (vec![Event::Fetched, apply.clone(), Event::Applied, bad], true, true),
    ] {
        let course = led(&events);
        // Without its record a rollout is withdrawn, which no pause forbids.
        assert_eq!(
            (is_due(&course, FREE, at(1)), is_due(&course, PAUSED, at(1))),
            (free, paused),
            "{events:?}"
        );
    }
    assert!(!is_due(&Course::default(), FREE, at(1)));
}

#[test]
fn only_a_rollout_makes_a_node_hurry() {
    let poll = Duration::from_secs(10);
    assert_eq!(hurry(&Course::default(), poll, at(0)), None, "an interval of an hour stays one");
    assert_eq!(hurry(&led(&[]), poll, at(0)), Some(poll));
    assert_eq!(hurry(&led(&[]), Duration::from_secs(600), at(0)), Some(IDLE));
}

#[test]
fn turns_that_lead_nowhere_are_known_as_such() {
    let back = led(&[
        Event::Fetched,
        Event::Apply("r1".parse().unwrap()),
        Event::Applied,
        Event::GoBack("it broke".into()),
    ]);
    let phase = back.node.phase;
    assert!(is_stuck(&phase, &phase), "the run that goes back fails and fails");
    let soaking = led(&[Event::Fetched, Event::Apply("r1".parse().unwrap()), Event::Applied]).node.phase;
    assert!(!is_stuck(&soaking, &soaking), "that is what soaking is");
    assert!(!is_stuck(&soaking, &phase));
    assert!(!is_stuck(&Phase::Idle, &Phase::Idle));
}
