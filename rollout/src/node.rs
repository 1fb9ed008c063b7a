//! A record in, what it asks of one node out.
//!
//! Law: pure, and by level, not by edge: the answer depends on the record as it is and on where the node stands, so that
//! a node that missed ten writes does the same as one that saw them all.

use jiff::Timestamp;
use zagent_config::ids::NodeId;

use crate::phase::{Event, Heard, Node, Order, Phase};
use crate::record::{BatchPhase, Component, Mode, NodeStatus, Record, State};
use crate::report::Report;
use crate::version::compare;
use crate::{meant, waves};

/// Rollouts whose newest serial a node remembers.
const HEARD: usize = 64;

/// What a record asks of the node that would report so, by whatever mode it goes; nothing when it is not meant, or has to wait.
#[must_use]
pub fn asked(record: &Record, report: &Report, node: &Node, now: Timestamp) -> Option<Event> {
    match record.mode {
        Mode::Driver => ordered(record, &report.id, node),
        Mode::Clock => clocked(record, report, node, now),
    }
}

/// What a record with a driver asks of a node.
#[must_use]
pub fn ordered(record: &Record, id: &NodeId, node: &Node) -> Option<Event> {
    if record.dry_run || record.mode != Mode::Driver || is_old(record, node) {
        return None;
    }
    let is_in = node.rollout() == Some(&record.id);
    let over = |why: &str| is_in.then(|| Event::Withdraw(record.id.clone(), why.to_owned()));
    match (record.state, record.status(id)) {
        (State::Created, _) => None,
        (_, NodeStatus::Confirmed) => is_in.then(|| Event::Confirm(record.id.clone())),
        (State::Aborting | State::Aborted, _) => {
            over(record.reason.as_deref().unwrap_or("the rollout was aborted"))
        }
        (_, NodeStatus::Failed) => over("the driver counts this node as failed"),
        (_, NodeStatus::Silent) => over("the driver did not hear from this node"),
        (State::Completed, _) => over("the rollout is over"),
        (State::Rolling | State::Paused, _) => {
            let batch = record.batches.get(record.current_batch)?;
            if batch.contains(id) { current(record, node, is_in) } else { None }
        }
    }
}

fn current(record: &Record, node: &Node, is_in: bool) -> Option<Event> {
    let has_ended = node.has_ended(&record.id, record.created);
    // A batch that was told to switch is finished also when it is paused; one that was not begins nothing.
    if record.state == State::Paused && record.phase == BatchPhase::Prepare {
        return None;
    }
    match (&node.phase, record.phase) {
        (Phase::Idle, BatchPhase::Prepare | BatchPhase::Apply) if !has_ended => {
            Some(Event::Prepare(order(record)))
        }
        (Phase::Staged { .. }, BatchPhase::Apply) if is_in => Some(Event::Apply(record.id.clone())),
        (Phase::Soaking { .. }, BatchPhase::Confirm) if is_in => Some(Event::Confirm(record.id.clone())),
        _ => None,
    }
}

/// What a record of clock mode asks of a node: nobody says apply or confirm, so it goes on by itself once its moment has come, and
/// keeps what has proved itself. A push that aborts the record takes it back; one that pauses it keeps others from beginning.
#[must_use]
pub fn clocked(record: &Record, report: &Report, node: &Node, now: Timestamp) -> Option<Event> {
    if record.dry_run || record.mode != Mode::Clock || is_old(record, node) {
        return None;
    }
    let id = || record.id.clone();
    if node.rollout() != Some(&record.id) {
        // Nobody ends such a record: one that is older than what the node took since has had its time.
        let is_outdated = node.newest.is_some_and(|newest| newest > record.created);
        let has_ended = node.has_ended(&record.id, record.created) || is_outdated;
        let is_fit = report.protocol >= record.min_protocol && report.degraded.is_none();
        let may_begin = node.phase == Phase::Idle && !has_ended && is_fit && !is_step_back(record, node);
        if !may_begin || !meant::is_meant(&record.target, report).unwrap_or(false) {
            return None;
        }
        let moment = waves::release_at(record, &report.id, &meant::stratum(report, &record.canary.by))?;
        return (now >= moment).then(|| Event::Prepare(order(record)));
    }
    if matches!(record.state, State::Aborting | State::Aborted) {
        let why = record.reason.as_deref().unwrap_or("the rollout was aborted");
        return Some(Event::Withdraw(id(), why.to_owned()));
    }
    match node.phase {
        Phase::Staged { .. } if record.state != State::Paused => Some(Event::Apply(id())),
        Phase::Soaking { .. } => Some(Event::Confirm(id())),
        _ => None,
    }
}

/// True when a binary is older than the one that runs, and nobody said that this is meant: no plan was made with this node.
fn is_step_back(record: &Record, node: &Node) -> bool {
    let is_older = || compare(&record.to, &node.running) == Some(std::cmp::Ordering::Less);
    record.component == Component::Agent && !record.anyway && is_older()
}

/// What follows when the record of the rollout that a node is in is not there any more: nobody will ever confirm it.
#[must_use]
pub fn orphaned(node: &Node) -> Option<Event> {
    let rollout = node.rollout()?.clone();
    Some(Event::Withdraw(rollout, "the record of the rollout is gone".to_owned()))
}

/// The order of a record.
#[must_use]
pub fn order(record: &Record) -> Order {
    Order {
        rollout: Some(record.id.clone()),
        to: record.to.clone(),
        soak: record.soak_time,
        anyway: record.anyway,
        created: record.created,
    }
}

const fn heard(record: &Record) -> Heard {
    Heard { created: record.created, serial: record.serial }
}

/// True when a newer record of that rollout was heeded before: somebody shows an old one again.
#[must_use]
pub fn is_old(record: &Record, node: &Node) -> bool {
    node.heard.get(&record.id).is_some_and(|before| *before > heard(record))
}

/// Remembers that a record was heeded, so that no older one is; an older one is not remembered.
pub fn heed(record: &Record, node: &mut Node) {
    let before = node.heard.entry(record.id.clone()).or_insert(heard(record));
    *before = heard(record).max(*before);
    if node.heard.len() > HEARD {
        let others = node.heard.iter().filter(|(id, _)| Some(*id) != node.rollout());
        let oldest = others.min_by_key(|(_, heard)| heard.created).map(|(id, _)| id.clone());
        oldest.map(|id| node.heard.remove(&id));
    }
}

#[cfg(test)]
mod tests;
