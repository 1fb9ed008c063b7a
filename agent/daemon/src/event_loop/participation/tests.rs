//! When a node polls faster, and when a turn is due.

use zagent_config::settings::FollowMode;
use zagent_rollout::Span;
use zagent_rollout::phase::{NodeEvent, NodeState, RolloutOrder, step};

use super::*;

const FREE: RolloutHold<'static> = RolloutHold::none(FollowMode::Head);
const PAUSED: RolloutHold<'static> = RolloutHold { paused: true, ..FREE };

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

/// A node after these events.
fn led(events: &[NodeEvent]) -> RolloutState {
    let order = RolloutOrder {
        rollout: Some("r1".parse().unwrap()),
        to: "b".into(),
        soak: Span::seconds(60),
        anyway: false,
        created: Timestamp::UNIX_EPOCH,
    };
    let begun = [NodeEvent::Prepare(order)];
    let node = begun
        .iter()
        .chain(events)
        .fold(NodeState::with_version("a"), |node, event| step(&node, event.clone(), at(0)).0);
    RolloutState { node, ..RolloutState::default() }
}

#[test]
fn a_paused_node_still_runs_its_checks() {
    let apply = NodeEvent::Apply("r1".parse().unwrap());
    let bad = NodeEvent::RollBack("it broke".into());
    for (events, free, paused) in [
        (vec![], true, true),
        (vec![NodeEvent::Fetched, apply.clone()], true, true),
        (vec![NodeEvent::Fetched, apply.clone(), NodeEvent::Applied], true, true),
        (vec![NodeEvent::Fetched, apply.clone(), NodeEvent::Applied, bad], true, true),
    ] {
        let rollout_state = led(&events);
        // Without its record a rollout is withdrawn, which a pause does not prevent.
        assert_eq!(
            (is_turn_due(&rollout_state, FREE, at(1)), is_turn_due(&rollout_state, PAUSED, at(1))),
            (free, paused),
            "{events:?}"
        );
    }
    assert!(!is_turn_due(&RolloutState::default(), FREE, at(1)));
}

#[test]
fn only_a_rollout_makes_a_node_poll_faster() {
    let poll = Duration::from_secs(10);
    assert_eq!(
        rollout_poll_interval(&RolloutState::default(), poll, at(0)),
        None,
        "an interval of an hour stays one"
    );
    assert_eq!(rollout_poll_interval(&led(&[]), poll, at(0)), Some(poll));
    assert_eq!(rollout_poll_interval(&led(&[]), Duration::from_secs(600), at(0)), Some(IDLE_POLL_INTERVAL));
}

#[test]
fn turns_without_progress_are_detected() {
    let back = led(&[
        NodeEvent::Fetched,
        NodeEvent::Apply("r1".parse().unwrap()),
        NodeEvent::Applied,
        NodeEvent::RollBack("it broke".into()),
    ]);
    let phase = back.node.phase;
    assert!(is_stuck(&phase, &phase), "the run that goes back fails and fails");
    let soaking =
        led(&[NodeEvent::Fetched, NodeEvent::Apply("r1".parse().unwrap()), NodeEvent::Applied]).node.phase;
    assert!(!is_stuck(&soaking, &soaking), "that is what soaking is");
    assert!(!is_stuck(&soaking, &phase));
    assert!(!is_stuck(&NodePhase::Idle, &NodePhase::Idle));
}
