//! A record in, what it requires from one node out.
//!
//! Law: pure and level-triggered: the answer depends only on the present record and the state of the node, so a node
//! that missed ten writes does the same as one that saw them all (held by `what_a_record_requires_is_level_triggered`,
//! `pure_modules_do_not_touch_the_machine`).

use jiff::Timestamp;
use zagent_config::ids::NodeId;

use crate::phase::{AcceptedSerial, NodeEvent, NodePhase, NodeState, RolloutOrder};
use crate::record::{BatchPhase, Component, NodeStatus, RolloutMode, RolloutRecord, RolloutStatus};
use crate::report::NodeReport;
use crate::version::compare;
use crate::{targeting, waves};

/// Maximum number of rollouts whose newest serial a node remembers.
const MAX_REMEMBERED_SERIALS: usize = 64;

/// What a record requires from the node with this report, in either mode; `None` when it is not targeted or must wait.
#[must_use]
pub fn desired_action(
    record: &RolloutRecord,
    report: &NodeReport,
    node: &NodeState,
    now: Timestamp,
) -> Option<NodeEvent> {
    match record.mode {
        RolloutMode::Driver => driven_action(record, &report.id, node, now),
        RolloutMode::Clock => clocked_action(record, report, node, now),
    }
}

/// Why a record that is addressed to a node starts nothing there; `None` when it may.
#[must_use]
pub fn expiry_text(record: &RolloutRecord, now: Timestamp) -> Option<String> {
    let is_open = !record.state.is_final() && !record.dry_run;
    (is_open && record.is_expired(now)).then(|| {
        format!(
            "the rollout expired at {:.0}: start a new one with `zagent rollout start`",
            record.expires_at()
        )
    })
}

/// What remains of an event after the order has expired: nothing starts and nothing switches, but what has switched is
/// still kept or rolled back.
fn unless_expired(event: Option<NodeEvent>, record: &RolloutRecord, now: Timestamp) -> Option<NodeEvent> {
    let starts = matches!(event, Some(NodeEvent::Prepare(_) | NodeEvent::Apply(_)));
    event.filter(|_| !(starts && record.is_expired(now)))
}

/// What a record with a driver requires from a node.
#[must_use]
pub fn driven_action(
    record: &RolloutRecord,
    id: &NodeId,
    node: &NodeState,
    now: Timestamp,
) -> Option<NodeEvent> {
    unless_expired(driven_event(record, id, node), record, now)
}

fn driven_event(record: &RolloutRecord, id: &NodeId, node: &NodeState) -> Option<NodeEvent> {
    if record.dry_run || record.mode != RolloutMode::Driver || is_stale_record(record, node) {
        return None;
    }
    let is_in = node.current_rollout() == Some(&record.id);
    let over = |why: &str| is_in.then(|| NodeEvent::Withdraw(record.id.clone(), why.to_owned()));
    match (record.state, record.node_status(id)) {
        (RolloutStatus::Created, _) => None,
        (_, NodeStatus::Confirmed) => is_in.then(|| NodeEvent::Confirm(record.id.clone())),
        (RolloutStatus::Aborting | RolloutStatus::Aborted, _) => {
            over(record.reason.as_deref().unwrap_or("the rollout was aborted"))
        }
        (_, NodeStatus::Failed) => over("the driver marked this node as failed"),
        (_, NodeStatus::Silent) => over("the driver did not hear from this node"),
        (RolloutStatus::Completed, _) => over("the rollout is over"),
        (RolloutStatus::Rolling | RolloutStatus::Paused, _) => {
            let batch = record.batches.get(record.current_batch)?;
            if batch.contains(id) { batch_action(record, node, is_in) } else { None }
        }
    }
}

fn batch_action(record: &RolloutRecord, node: &NodeState, is_in: bool) -> Option<NodeEvent> {
    let has_ended = node.has_ended(&record.id, record.created);
    // A batch that was told to switch is finished even when the rollout is paused; a batch that was not does not start.
    if record.state == RolloutStatus::Paused && record.phase == BatchPhase::Prepare {
        return None;
    }
    match (&node.phase, record.phase) {
        (NodePhase::Idle, BatchPhase::Prepare | BatchPhase::Apply) if !has_ended => {
            Some(NodeEvent::Prepare(order_from_record(record)))
        }
        (NodePhase::Staged { .. }, BatchPhase::Apply) if is_in => Some(NodeEvent::Apply(record.id.clone())),
        (NodePhase::Soaking { .. }, BatchPhase::Confirm) if is_in => {
            Some(NodeEvent::Confirm(record.id.clone()))
        }
        _ => None,
    }
}

/// What a record in clock mode requires from a node: no driver sends apply or confirm, so the node continues by itself
/// once its time has come, and keeps a version that passed its soak. A push that aborts the record rolls it back; one
/// that pauses it stops other nodes from starting.
#[must_use]
pub fn clocked_action(
    record: &RolloutRecord,
    report: &NodeReport,
    node: &NodeState,
    now: Timestamp,
) -> Option<NodeEvent> {
    unless_expired(clocked_event(record, report, node, now), record, now)
}

fn clocked_event(
    record: &RolloutRecord,
    report: &NodeReport,
    node: &NodeState,
    now: Timestamp,
) -> Option<NodeEvent> {
    if record.dry_run || record.mode != RolloutMode::Clock || is_stale_record(record, node) {
        return None;
    }
    let id = || record.id.clone();
    if node.current_rollout() != Some(&record.id) {
        // Nobody ends such a record: it is over if the node has accepted a newer one since.
        let is_outdated = node.newest.is_some_and(|newest| newest > record.created);
        let has_ended = node.has_ended(&record.id, record.created) || is_outdated;
        let is_fit = report.protocol >= record.min_protocol && report.degraded.is_none();
        let may_begin = node.phase == NodePhase::Idle && !has_ended && is_fit && !is_downgrade(record, node);
        if !may_begin || !targeting::is_targeted(&record.target, report).unwrap_or(false) {
            return None;
        }
        let moment = waves::release_at(record, &report.id, &targeting::stratum(report, &record.canary.by))?;
        return (now >= moment).then(|| NodeEvent::Prepare(order_from_record(record)));
    }
    if matches!(record.state, RolloutStatus::Aborting | RolloutStatus::Aborted) {
        let why = record.reason.as_deref().unwrap_or("the rollout was aborted");
        return Some(NodeEvent::Withdraw(id(), why.to_owned()));
    }
    match node.phase {
        NodePhase::Staged { .. } if record.state != RolloutStatus::Paused => Some(NodeEvent::Apply(id())),
        NodePhase::Soaking { .. } => Some(NodeEvent::Confirm(id())),
        _ => None,
    }
}

/// True when a binary is older than the running one, and no plan with this node allows the downgrade.
fn is_downgrade(record: &RolloutRecord, node: &NodeState) -> bool {
    let is_older = || compare(&record.to, &node.running) == Some(std::cmp::Ordering::Less);
    record.component == Component::Agent && !record.anyway && is_older()
}

/// What follows when the record of the node's rollout no longer exists: no driver will ever confirm it.
#[must_use]
pub fn orphaned_action(node: &NodeState) -> Option<NodeEvent> {
    let rollout = node.current_rollout()?.clone();
    Some(NodeEvent::Withdraw(rollout, "the rollout record was deleted".to_owned()))
}

/// The order of a record.
#[must_use]
pub fn order_from_record(record: &RolloutRecord) -> RolloutOrder {
    RolloutOrder {
        rollout: Some(record.id.clone()),
        to: record.to.clone(),
        soak: record.soak_time,
        anyway: record.anyway,
        created: record.created,
    }
}

const fn record_serial(record: &RolloutRecord) -> AcceptedSerial {
    AcceptedSerial { created: record.created, serial: record.serial }
}

/// True when the node already accepted a newer record of that rollout: this is a replay.
#[must_use]
pub fn is_stale_record(record: &RolloutRecord, node: &NodeState) -> bool {
    node.heard.get(&record.id).is_some_and(|before| *before > record_serial(record))
}

/// Remembers the serial of an accepted record, so that no older one is accepted; an older one is not remembered.
pub fn accept_record(record: &RolloutRecord, node: &mut NodeState) {
    let before = node.heard.entry(record.id.clone()).or_insert(record_serial(record));
    *before = record_serial(record).max(*before);
    if node.heard.len() > MAX_REMEMBERED_SERIALS {
        let others = node.heard.iter().filter(|(id, _)| Some(*id) != node.current_rollout());
        let oldest = others.min_by_key(|(_, heard)| heard.created).map(|(id, _)| id.clone());
        oldest.map(|id| node.heard.remove(&id));
    }
}

#[cfg(test)]
mod tests;
