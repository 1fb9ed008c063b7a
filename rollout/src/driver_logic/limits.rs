//! The time limits of a batch for each phase.
//!
//! Law: a node that has switched must be confirmed before its own deadline: the driver waits for a slow node only as
//! long as that leaves time for the others (held by `a_slow_node_does_not_use_up_the_deadline_of_the_others`,
//! `other_nodes_do_not_wait_forever_for_a_held_one`).

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::node;
use crate::phase::saturating_after;
use crate::record::{BatchPhase, Component, NodeStatus, RolloutRecord};

/// How long nodes have to fetch and verify.
pub const PREPARE_LIMIT: Duration = Duration::from_secs(10 * 60);
/// How long nodes have to switch to a binary.
pub const APPLY_LIMIT: Duration = Duration::from_secs(5 * 60);
/// How long nodes have to run states.
pub const RUN_LIMIT: Duration = Duration::from_secs(30 * 60);
/// How much longer than the soak nodes have to become ready.
pub const SOAK_EXTRA: Duration = Duration::from_secs(2 * 60);
/// How long a node may run states while its reports say that it still does. After the usual limit it no longer delays
/// the other nodes of its batch: it gets a batch of its own.
pub const SLOW_LIMIT: Duration = Duration::from_secs(2 * 60 * 60);
/// How long nodes have to report that they confirmed.
pub const CONFIRM_LIMIT: Duration = Duration::from_secs(3 * 60);
/// The last part of each limit: a node that is not done at its start is late, and a node that is still late at its end
/// is dropped. A node without a report in between is silent, and so is one that was told to confirm and did not report
/// it. A driver that returns after a while gives every node this much time.
pub const LATE_GRACE: Duration = Duration::from_secs(60);
/// How long a change by the driver may take to reach a node.
const DELIVERY_SLACK: Duration = Duration::from_secs(60);

/// The limit of a phase: its length, and its end.
pub(super) struct PhaseLimit {
    /// How long.
    pub(super) time: Duration,
    /// When a late node is dropped.
    pub(super) until: Timestamp,
    /// When a node that is not done is late.
    pub(super) late: Timestamp,
}

/// The limit of the present phase; `None` between two batches.
pub(super) fn phase_limit(record: &RolloutRecord, since: Timestamp) -> Option<PhaseLimit> {
    let soak = record.soak_time.0;
    let earliest = match record.phase {
        BatchPhase::Soak => saturating_after(since, soak),
        BatchPhase::Prepare | BatchPhase::Apply | BatchPhase::Confirm | BatchPhase::Pause => since,
    };
    let time = match (record.phase, record.component) {
        (BatchPhase::Prepare, _) => PREPARE_LIMIT,
        (BatchPhase::Apply, Component::Agent) => APPLY_LIMIT,
        (BatchPhase::Apply, Component::States) => RUN_LIMIT,
        (BatchPhase::Soak, _) => soak.saturating_add(SOAK_EXTRA),
        (BatchPhase::Confirm, _) => CONFIRM_LIMIT,
        (BatchPhase::Pause, _) => return None,
    };
    let until = saturating_after(since, time);
    let until = match (record.phase, confirm_by(record)) {
        (BatchPhase::Apply, Some(by)) => until.min(saturating_before(by, soak)),
        (BatchPhase::Soak, Some(by)) => until.min(by).max(earliest),
        _ => until,
    };
    let late = saturating_before(until, LATE_GRACE).max(earliest);
    let time = until.duration_since(since).try_into().unwrap_or(Duration::ZERO);
    Some(PhaseLimit { time, until, late })
}

/// The latest time to confirm the first node that has switched.
fn confirm_by(record: &RolloutRecord) -> Option<Timestamp> {
    let batch = record.batches.get(record.current_batch)?;
    let applied =
        batch.iter().filter_map(|id| record.nodes.get(id)).filter(|node| node.status == NodeStatus::Applied);
    let first = applied.filter_map(|node| node.at).min()?;
    Some(saturating_before(
        saturating_after(first, node::order_from_record(record).confirm_timeout()),
        DELIVERY_SLACK,
    ))
}

/// An earlier moment, or the minimum.
fn saturating_before(moment: Timestamp, time: Duration) -> Timestamp {
    let time = SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
    moment.checked_sub(time).unwrap_or(Timestamp::MIN)
}
