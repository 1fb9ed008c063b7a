//! A step that could not be saved -> what the node keeps of it in memory.
//!
//! A node acts only on what it saved, with two exceptions on a full disk: a rollback, and the progress of a soak (a deadline
//! that moved when the clock was set back, failed checks). Neither starts an unconfirmed version, and without them a full
//! disk would keep the node on one.

use crate::phase::{NodeEvent, NodePhase, NodeState};

/// True for events that come once; all others are repeated.
#[must_use]
pub const fn is_one_time_event(event: &NodeEvent) -> bool {
    use NodeEvent::{Applied, ApplyFailed, BootAfterCrash, FetchFailed, Fetched, RolledBack};
    matches!(event, Fetched | FetchFailed(_) | Applied | ApplyFailed(_) | RolledBack | BootAfterCrash)
}

/// The state that a node continues with when `next` could not be saved; `None` when it stays as it is.
#[must_use]
pub fn unsaved_step(before: &NodeState, next: &NodeState, event: &NodeEvent) -> Option<NodeState> {
    match (&before.phase, &next.phase) {
        (_, NodePhase::RollingBack { .. }) => Some(next.clone()),
        // An event that comes once is tried again, and would count twice.
        (NodePhase::Soaking { .. }, NodePhase::Soaking { .. }) if !is_one_time_event(event) => {
            Some(NodeState { phase: next.phase.clone(), ..before.clone() })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::Span;
    use crate::phase::RolloutOrder;
    use crate::phase::step;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// A node that soaks since this moment.
    fn soaking_node(since: Timestamp) -> NodeState {
        let order = RolloutOrder {
            rollout: Some("r".parse().unwrap()),
            to: "2.0".into(),
            soak: Span::seconds(60),
            anyway: false,
            created: since,
        };
        let deadline = since + order.confirm_timeout();
        let phase = NodePhase::Soaking { order, since, deadline, misses: 0, ready_since: None };
        NodeState { phase, ..NodeState::with_version("1.0") }
    }

    #[test]
    fn a_full_disk_does_not_move_the_deadline_of_a_soak() {
        let mut node = soaking_node(at(1000));
        let NodePhase::Soaking { order, .. } = &node.phase else { panic!("{node:?}") };
        let limit = order.confirm_timeout().as_secs() as i64;
        // The clock is set back by 900 seconds, and no step can be saved.
        for second in (100..=100 + limit).step_by(10) {
            let (next, _) = step(&node, NodeEvent::Tick, at(second));
            node = unsaved_step(&node, &next, &NodeEvent::Tick).unwrap_or(node);
        }
        assert!(matches!(node.phase, NodePhase::RollingBack { .. }), "{node:?}");
    }

    #[test]
    fn nothing_else_happens_that_could_not_be_saved() {
        let node = soaking_node(at(1000));
        let (next, _) = step(&node, NodeEvent::BootAfterCrash, at(1001));
        assert_ne!(next, node);
        assert_eq!(unsaved_step(&node, &next, &NodeEvent::BootAfterCrash), None);
        let rollout = node.current_rollout().unwrap().clone();
        let ready = step(&node, NodeEvent::Ready, at(1001)).0;
        let NodePhase::Soaking { order, .. } = &ready.phase else { panic!("{ready:?}") };
        let confirm = NodeEvent::Confirm(rollout);
        let (next, _) = step(&ready, confirm.clone(), at(1001) + order.soak.0);
        assert_eq!(next.phase, NodePhase::Idle);
        assert_eq!(unsaved_step(&ready, &next, &confirm), None);
    }
}
