//! A node's state and an event in, its next state and the actions out.
//!
//! Law: total and pure. Every event has a result in every phase; an event that does not belong to the phase changes
//! nothing. The result of [`step`] is saved before the actions run, and every action is safe to repeat, so a crash
//! between the two loses nothing. A node always has a version that it can run: [`NodeState::running`] changes only when
//! the new version is confirmed (held by `every_event_in_every_phase`, `laws_of_one_step`, `boot_is_safe_to_repeat`).

use jiff::Timestamp;
use zagent_config::ids::RolloutId;

use super::{
    MAX_CRASHES, MAX_MISSES, NodeAction, NodeEvent, NodeOutcome, NodePhase, NodeState, RolloutOrder,
    saturating_after,
};
use crate::Span;
use crate::version::compare;

/// The result of an event, and the actions to run.
#[must_use]
pub fn step(node: &NodeState, event: NodeEvent, now: Timestamp) -> (NodeState, Vec<NodeAction>) {
    let mut next = node.clone();
    let event = match event {
        NodeEvent::BootAfterCrash if !node.is_unconfirmed() => NodeEvent::Boot,
        other => other,
    };
    let actions = match std::mem::take(&mut next.phase) {
        NodePhase::Idle => step_idle(&mut next, event, now),
        NodePhase::Preparing { order, since } => step_preparing(&mut next, order, since, event, now),
        NodePhase::Staged { order, since } => step_staged(&mut next, order, since, event, now),
        NodePhase::Applying { order, since } => step_applying(&mut next, order, since, event, now),
        NodePhase::Soaking { order, since, deadline, misses, ready_since } => {
            step_soaking(&mut next, SoakState { order, since, deadline, misses, ready_since }, event, now)
        }
        NodePhase::RollingBack { order, back, why, rejects, since } => {
            step_rolling_back(&mut next, RollbackState { order, back, why, rejects, since }, event, now)
        }
    };
    (next, actions)
}

fn step_idle(node: &mut NodeState, event: NodeEvent, now: Timestamp) -> Vec<NodeAction> {
    match event {
        // No driver would ever send apply or confirm.
        NodeEvent::Prepare(order) if order.rollout.is_none() => vec![],
        NodeEvent::Prepare(order) if order.to == node.running => {
            node.end_rollout(&order, NodeOutcome::Confirmed, None, now);
            vec![]
        }
        NodeEvent::Prepare(order) => {
            if let Some(why) = node.rejected.get(&order.to).filter(|_| !order.anyway) {
                let why = format!("{} was already rejected on this node: {why}", order.to);
                node.end_rollout(&order, NodeOutcome::Failed, Some(why), now);
                return vec![];
            }
            // Another rollout installed something newer after this one was planned.
            if compare(&order.to, &node.running) == Some(std::cmp::Ordering::Less) && !order.anyway {
                let why = format!("{} is older than {}, which runs on this node", order.to, node.running);
                node.end_rollout(&order, NodeOutcome::Failed, Some(why), now);
                return vec![];
            }
            node.newest = node.newest.max(Some(order.created));
            node.phase = NodePhase::Preparing { order: order.clone(), since: now };
            vec![NodeAction::Fetch(order)]
        }
        NodeEvent::RollBack(why) => match node.previous.take() {
            Some(previous) => {
                let bad = std::mem::replace(&mut node.running, previous);
                let soak = Span::default();
                let order = RolloutOrder { rollout: None, to: bad, soak, anyway: false, created: now };
                node.start_rollback(order, why, true, now)
            }
            None => vec![],
        },
        _ => vec![],
    }
}

fn step_preparing(
    node: &mut NodeState,
    order: RolloutOrder,
    since: Timestamp,
    event: NodeEvent,
    now: Timestamp,
) -> Vec<NodeAction> {
    match event {
        NodeEvent::Fetched => {
            node.phase = NodePhase::Staged { order, since: now };
            vec![]
        }
        NodeEvent::FetchFailed(why) => {
            node.end_rollout(&order, NodeOutcome::Failed, Some(why), now);
            node.discard_version(order.to)
        }
        NodeEvent::Boot => {
            node.phase = NodePhase::Preparing { order: order.clone(), since };
            vec![NodeAction::Fetch(order)]
        }
        other => step_withdrawable(node, order, other, now, |order| NodePhase::Preparing { order, since }),
    }
}

fn step_staged(
    node: &mut NodeState,
    order: RolloutOrder,
    since: Timestamp,
    event: NodeEvent,
    now: Timestamp,
) -> Vec<NodeAction> {
    match event {
        NodeEvent::Apply(rollout) if order.rollout.as_ref() == Some(&rollout) => {
            let to = order.to.clone();
            (node.phase, node.crashes) = (NodePhase::Applying { order, since: now }, 0);
            vec![NodeAction::Apply(to)]
        }
        other => step_withdrawable(node, order, other, now, |order| NodePhase::Staged { order, since }),
    }
}

/// Discards what was only fetched when it is no longer needed.
fn step_withdrawable(
    node: &mut NodeState,
    order: RolloutOrder,
    event: NodeEvent,
    now: Timestamp,
    stay: impl FnOnce(RolloutOrder) -> NodePhase,
) -> Vec<NodeAction> {
    let why = match event {
        NodeEvent::Withdraw(rollout, why) if order.rollout.as_ref() == Some(&rollout) => why,
        NodeEvent::RollBack(why) => why,
        _ => {
            node.phase = stay(order);
            return vec![];
        }
    };
    node.end_rollout(&order, NodeOutcome::Withdrawn, Some(why), now);
    node.discard_version(order.to)
}

fn step_applying(
    node: &mut NodeState,
    order: RolloutOrder,
    since: Timestamp,
    event: NodeEvent,
    now: Timestamp,
) -> Vec<NodeAction> {
    // If the clock was set back, the time left must not be longer than after a fresh start.
    let since = since.min(now);
    if event == NodeEvent::BootAfterCrash {
        node.crashes = node.crashes.saturating_add(1);
        if let Some(why) = node.crash_reason(&order.to, MAX_CRASHES) {
            return node.start_rollback(order, why, true, now);
        }
    }
    match event {
        NodeEvent::Applied => {
            let deadline = saturating_after(now, order.confirm_timeout());
            node.phase = NodePhase::Soaking { order, since: now, deadline, misses: 0, ready_since: None };
            vec![]
        }
        NodeEvent::ApplyFailed(why) => node.start_rollback(order, why, false, now),
        NodeEvent::RollBack(why) => node.start_rollback(order, why, true, now),
        NodeEvent::Withdraw(rollout, why) if order.rollout.as_ref() == Some(&rollout) => {
            node.start_rollback(order, why, false, now)
        }
        // A version that crashes the whole host when it is applied would be applied again at every boot.
        _ if now >= saturating_after(since, order.confirm_timeout()) => {
            let crashed = node.crash_reason(&order.to, MAX_CRASHES - 1);
            let rejects = crashed.is_some();
            let late = || format!("it was not applied within {}", Span(order.confirm_timeout()));
            let why = crashed.unwrap_or_else(late);
            node.start_rollback(order, why, rejects, now)
        }
        NodeEvent::Boot | NodeEvent::BootAfterCrash => {
            let to = order.to.clone();
            node.phase = NodePhase::Applying { order, since };
            vec![NodeAction::Apply(to)]
        }
        _ => {
            node.phase = NodePhase::Applying { order, since };
            vec![]
        }
    }
}

struct SoakState {
    order: RolloutOrder,
    since: Timestamp,
    deadline: Timestamp,
    misses: u32,
    ready_since: Option<Timestamp>,
}

fn step_soaking(
    node: &mut NodeState,
    mut soak: SoakState,
    event: NodeEvent,
    now: Timestamp,
) -> Vec<NodeAction> {
    // If the clock was set back, the time left must not be longer than after a fresh start.
    if now < soak.since {
        soak.since = now;
        soak.deadline = saturating_after(now, soak.order.confirm_timeout());
        soak.ready_since = soak.ready_since.map(|_| now);
    }
    let is_ours = |rollout: &RolloutId| soak.order.rollout.as_ref() == Some(rollout);
    match event {
        NodeEvent::Confirm(rollout) if is_ours(&rollout) && soak.is_proven(now) => {
            let to = soak.order.to.clone();
            node.rejected.remove(&to);
            node.previous = Some(std::mem::replace(&mut node.running, to.clone()));
            node.end_rollout(&soak.order, NodeOutcome::Confirmed, None, now);
            return vec![NodeAction::Settle(to)];
        }
        NodeEvent::Withdraw(rollout, why) if is_ours(&rollout) => {
            return node.start_rollback(soak.order, why, false, now);
        }
        NodeEvent::RollBack(why) => return node.start_rollback(soak.order, why, true, now),
        NodeEvent::Ready => {
            soak.misses = 0;
            soak.ready_since.get_or_insert(now);
        }
        NodeEvent::BootAfterCrash => {
            soak.ready_since = None;
            node.crashes = node.crashes.saturating_add(1);
            if let Some(why) = node.crash_reason(&soak.order.to, MAX_CRASHES) {
                return node.start_rollback(soak.order, why, true, now);
            }
        }
        // A version that was ready before a reboot must become ready again after it.
        NodeEvent::Boot => soak.ready_since = None,
        NodeEvent::NotReady(why) => {
            (soak.misses, soak.ready_since) = (soak.misses + 1, None);
            if soak.misses >= MAX_MISSES {
                return node.start_rollback(soak.order, why, true, now);
            }
        }
        _ => {}
    }
    if now >= soak.deadline {
        let crashed = node.crash_reason(&soak.order.to, MAX_CRASHES - 1);
        let rejects = crashed.is_some();
        let late = || format!("the driver did not confirm it within {}", Span(soak.order.confirm_timeout()));
        let why = crashed.unwrap_or_else(late);
        return node.start_rollback(soak.order, why, rejects, now);
    }
    let SoakState { order, since, deadline, misses, ready_since } = soak;
    node.phase = NodePhase::Soaking { order, since, deadline, misses, ready_since };
    vec![]
}

impl SoakState {
    /// True when it ran long enough, was ready at the last check, and its time is not over. Fewer than [`MAX_MISSES`]
    /// failed checks in a row do not restart the time.
    fn is_proven(&self, now: Timestamp) -> bool {
        self.ready_since.is_some()
            && now >= saturating_after(self.since, self.order.soak.0)
            && now < self.deadline
    }
}

struct RollbackState {
    order: RolloutOrder,
    back: String,
    why: String,
    rejects: bool,
    since: Timestamp,
}

fn step_rolling_back(
    node: &mut NodeState,
    went: RollbackState,
    event: NodeEvent,
    now: Timestamp,
) -> Vec<NodeAction> {
    match event {
        NodeEvent::RolledBack => {
            if went.rejects {
                node.reject_version(&went.order.to, &went.why);
            }
            node.end_rollout(&went.order, NodeOutcome::Failed, Some(went.why), now);
            node.discard_version(went.order.to)
        }
        other => {
            let again = matches!(other, NodeEvent::Boot | NodeEvent::RollbackFailed(_) | NodeEvent::Tick);
            let actions = if again { vec![NodeAction::RollBack(went.back.clone())] } else { vec![] };
            let RollbackState { order, back, why, rejects, since } = went;
            node.phase = NodePhase::RollingBack { order, back, why, rejects, since };
            actions
        }
    }
}
