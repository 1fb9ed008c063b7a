//! States rollouts as one node knows them: records in, required action and constraint out.
//!
//! Law: decisions are pure; time is an argument. What was read is saved in one small file with the phase of the
//! node, so that a node without a connection still knows its orders. An order cannot be undone by an older version
//! of its record (held by `only_relevant_records_are_kept_and_older_versions_ignored`).

pub(crate) mod observe;
pub(crate) mod status;
pub(crate) mod stay;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use zagent_config::ids::{NodeId, Revision, RolloutId};
use zagent_config::paths::Paths;
use zagent_config::settings::FollowMode;
use zagent_rollout::phase::{
    self, NodeAction, NodeEvent, NodePhase, NodeState, RolloutOrder, saturating_after,
};
use zagent_rollout::record::{Component, RolloutMode, RolloutProfile, RolloutRecord, RolloutStatus};
use zagent_rollout::report::NodeReport;
use zagent_rollout::{node, targeting, waves};

pub(crate) use observe::read_records;
pub(crate) use stay::RolloutPlacement;

use super::decide::RolloutConstraint;
use zagent_config::json_file;
use zagent_config::json_file::JsonFileError;
use zagent_config::sorted::CollectSorted;

/// Maximum number of records; the oldest are dropped.
const MAX_RECORDS: usize = 8;
/// Maximum characters of a reason in a report.
const MAX_WAIT_CHARS: usize = 300;
/// Time after which a clock rollout is over, counted from the last node's soak: allows for slow polls and
/// runs.
const CLOCK_GRACE: Duration = Duration::from_secs(10 * 60);

/// What a node knows about states rollouts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RolloutState {
    /// Its state.
    pub node: NodeState,
    /// Records that include it, without the parts about other nodes.
    pub records: Vec<RolloutRecord>,
    /// The node's report when it read them: targets and waves depend on its grains.
    pub me: Option<NodeReport>,
    /// Where the last rollout put the node, and the head at that time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept: Option<RolloutPlacement>,
    /// Records that are addressed to this node and not accepted, and why.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub refused: BTreeMap<RolloutId, String>,
    /// Why the present phase makes no progress; it is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub obstacle: Option<String>,
}

/// What keeps a node from following an order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RolloutHold<'a> {
    /// Pin, as text.
    pub pinned: Option<&'a str>,
    /// True when no maintenance window is open.
    pub closed: bool,
    /// True while it is paused: nothing new starts; what has started is completed.
    pub paused: bool,
    /// What moves the node: a node that follows heads does not start a rollout that is over.
    pub follow: FollowMode,
}

impl RolloutHold<'_> {
    /// No hold, for a node that follows this.
    #[cfg(test)]
    #[must_use]
    pub(crate) const fn none(follow: FollowMode) -> Self {
        Self { pinned: None, closed: false, paused: false, follow }
    }
}

impl RolloutState {
    /// Reads it; a node without a file knows no rollout.
    ///
    /// # Errors
    /// Fails when the file is damaged or cannot be read.
    pub(crate) fn read(paths: &Paths) -> Result<Self, JsonFileError> {
        Ok(json_file::read(&paths.rollout_states())?.unwrap_or_default())
    }

    /// Changes it on disk; written only when it differs.
    ///
    /// # Errors
    /// Fails when it cannot be read or written: nothing that depends on it may be done then.
    pub(crate) fn update<R: Default>(
        paths: &Paths,
        change: impl FnOnce(&mut Self) -> R,
    ) -> Result<(Self, R), JsonFileError> {
        let mut after = (Self::default(), R::default());
        json_file::update(&paths.rollout_states(), |rollout_state: &mut Self| {
            let before = rollout_state.clone();
            let answer = change(rollout_state);
            after = (rollout_state.clone(), answer);
            (*rollout_state != before).then_some(())
        })?;
        Ok(after)
    }

    /// Applies one event and saves it before anything is done about it. `head` is the head of the followed
    /// branch, if known.
    ///
    /// # Errors
    /// As [`RolloutState::update`].
    pub(crate) fn step(
        paths: &Paths,
        event: NodeEvent,
        head: Option<&Revision>,
        now: Timestamp,
    ) -> Result<(Self, Vec<NodeAction>), JsonFileError> {
        Self::update(paths, |rollout_state| {
            if let NodeEvent::Prepare(order) = &event {
                rollout_state.kept = RolloutPlacement::from_order(order, head);
            }
            let (node, actions) = phase::step(&rollout_state.node, event, now);
            if node.phase != rollout_state.node.phase {
                rollout_state.obstacle = None;
            }
            rollout_state.node = node;
            actions
        })
    }

    /// Takes over all records that include this node. A deleted record is dropped, a record older than the
    /// known one is ignored.
    pub(crate) fn observe(&mut self, read: &[RolloutRecord], me: &NodeReport) {
        let me = NodeReport { updated_at: Timestamp::UNIX_EPOCH, ..me.clone() };
        let names = |record: &RolloutRecord| is_addressed(record, &me);
        let mut next: Vec<RolloutRecord> = Vec::new();
        for record in read.iter().filter(|record| record.component == Component::States && !record.dry_run) {
            if node::is_stale_record(record, &self.node) {
                next.extend(self.records.iter().find(|known| known.id == record.id).cloned());
            } else if names(record) {
                node::accept_record(record, &mut self.node);
                next.push(record_for_node(record, &me.id));
            }
        }
        zagent_config::sorted::sort_by_key(&mut next, |record| {
            (Some(&record.id) == self.node.current_rollout(), record.created)
        });
        next.drain(..next.len().saturating_sub(MAX_RECORDS));
        self.release_deleted(read);
        (self.records, self.me) = (next, Some(me));
    }

    /// The node has this revision and is in no rollout: this is what it rolls back to.
    pub(crate) fn set_settled(&mut self, current: Option<&str>) {
        if self.node.phase == NodePhase::Idle {
            let running = current.unwrap_or_default();
            if self.node.running != running {
                self.node.previous = Some(std::mem::replace(&mut self.node.running, running.to_owned()))
                    .filter(|previous| !previous.is_empty());
            }
            // Moving it elsewhere manually has ended that.
            self.kept.take_if(|kept| kept.to != running);
        }
    }

    /// The record that counts: that of the current rollout, otherwise the newest. The latest order for a node
    /// applies, whatever happened to earlier ones.
    #[must_use]
    pub(crate) fn leading_record(&self) -> Option<&RolloutRecord> {
        if let Some(rollout) = self.node.current_rollout() {
            return self.records.iter().find(|record| record.id == *rollout);
        }
        self.records.iter().max_by_key(|record| (record.created, &record.id))
    }

    /// Action that is required of the node now.
    #[must_use]
    pub(crate) fn desired_action(&self, hold: RolloutHold<'_>, now: Timestamp) -> Option<NodeEvent> {
        if let (Some(rollout), Some(pinned)) = (self.node.current_rollout(), hold.pinned) {
            return Some(NodeEvent::Withdraw(rollout.clone(), format!("the node is {pinned}")));
        }
        let Some(record) = self.leading_record() else { return node::orphaned_action(&self.node) };
        let event = node::desired_action(record, self.me.as_ref()?, &self.node, now)?;
        let by_clock = record.mode == RolloutMode::Clock;
        let waits = match event {
            // In a clock rollout the order of nodes does not matter: one that cannot start now starts later,
            // or takes the head.
            NodeEvent::Prepare(_) if by_clock && (hold.pinned.is_some() || self.is_degraded()) => true,
            NodeEvent::Prepare(_) if by_clock && hold.follow == FollowMode::Head && is_over(record, now) => {
                true
            }
            NodeEvent::Prepare(_) => hold.paused,
            NodeEvent::Apply(_) => hold.paused || hold.closed && record.profile != RolloutProfile::Emergency,
            _ => false,
        };
        (!waits).then_some(event)
    }

    fn is_degraded(&self) -> bool {
        self.me.as_ref().is_some_and(|me| me.degraded.is_some())
    }

    /// What rollouts require for heads of branches; none when heads count as usual.
    #[must_use]
    pub(crate) fn constraint(
        &self,
        id: &NodeId,
        follow: FollowMode,
        now: Timestamp,
    ) -> Option<RolloutConstraint> {
        let is_free = |record: &&RolloutRecord| {
            let is_over = match record.mode {
                RolloutMode::Driver => record.state == RolloutStatus::Completed,
                // A node that follows rollouts takes one that it missed; one that follows heads continues
                // with these.
                RolloutMode::Clock => {
                    is_over(record, now)
                        && record.state != RolloutStatus::Aborted
                        && (follow == FollowMode::Head || self.has_finished(record))
                }
            };
            // An order that expired on the way moves nobody any more, and holds nobody back.
            let has_lapsed = record.is_expired(now) && !record.state.is_final();
            (is_over || has_lapsed) && self.node.phase == NodePhase::Idle
        };
        match self.leading_record().filter(|record| !is_free(record)) {
            Some(record) => {
                let from = record.from.as_ref().and_then(|from| from.parse::<Revision>().ok());
                Some(RolloutConstraint::Stay { from, words: self.hold_text(record, id) })
            }
            None if follow == FollowMode::Rollouts || self.node.current_rollout().is_some() => {
                Some(RolloutConstraint::Stay { from: None, words: status::ONLY_ROLLOUTS.into() })
            }
            None => self.stay_constraint(),
        }
    }

    /// True when a rollout has ended on this node, with any result.
    fn has_finished(&self, record: &RolloutRecord) -> bool {
        self.node.last.as_ref().is_some_and(|last| last.rollout == record.id)
    }

    /// True while the node runs a revision that is not confirmed: only the rollout judges it.
    #[must_use]
    pub(crate) fn is_judging(&self, revision: &str) -> bool {
        self.node.is_unconfirmed() && self.node.current_version() == revision
    }

    /// The order that the node follows.
    #[must_use]
    pub(crate) const fn current_order(&self) -> Option<&RolloutOrder> {
        match &self.node.phase {
            NodePhase::Idle => None,
            NodePhase::Preparing { order, .. }
            | NodePhase::Staged { order, .. }
            | NodePhase::Applying { order, .. }
            | NodePhase::Soaking { order, .. }
            | NodePhase::RollingBack { order, .. } => Some(order),
        }
    }

    /// True when an active rollout includes this node: it polls faster then. A node that has finished a clock
    /// rollout expects nothing more.
    #[must_use]
    pub(crate) fn is_under_way(&self, now: Timestamp) -> bool {
        let goes_on = |record: &RolloutRecord| {
            let is_done = record.mode == RolloutMode::Clock && self.has_finished(record);
            !(is_over(record, now) || record.is_expired(now) || is_done)
        };
        self.node.phase != NodePhase::Idle || self.leading_record().is_some_and(goes_on)
    }

    /// What this node waits for or refuses, by rollout: for its report.
    #[must_use]
    pub(crate) fn waits(&self, now: Timestamp) -> BTreeMap<RolloutId, String> {
        let short = |(id, why): (&RolloutId, &str)| (id.clone(), why.chars().take(MAX_WAIT_CHARS).collect());
        let refused = self.refused.iter().map(|(id, why)| (id, why.as_str()));
        let mut waits: BTreeMap<RolloutId, String> = refused.take(MAX_RECORDS).map(short).into_map();
        if let (Some(id), Some(why)) = (self.node.current_rollout(), &self.obstacle) {
            waits.extend([short((id, why))]);
        }
        let has_ended = |record: &RolloutRecord| self.node.has_ended(&record.id, record.created);
        if let Some(record) = self.leading_record().filter(|record| !has_ended(record)) {
            waits.extend(node::expiry_text(record, now).map(|why| (record.id.clone(), why)));
        }
        waits
    }

    /// True when the rollout that the node waits for, or is in, ignores windows.
    #[must_use]
    pub(crate) fn is_emergency(&self, now: Timestamp) -> bool {
        self.leading_record()
            .is_some_and(|record| record.profile == RolloutProfile::Emergency && !is_over(record, now))
    }
}

/// True when a record is about a node with this report.
fn is_addressed(record: &RolloutRecord, me: &NodeReport) -> bool {
    match record.mode {
        RolloutMode::Driver => record.batch_of(&me.id).is_some(),
        RolloutMode::Clock => targeting::is_targeted(&record.target, me).unwrap_or(false),
    }
}

/// True when a record has no further effect. A clock rollout is never marked as over: the time decides.
fn is_over(record: &RolloutRecord, now: Timestamp) -> bool {
    if record.state.is_final() {
        return true;
    }
    if record.mode != RolloutMode::Clock || record.state != RolloutStatus::Rolling {
        return false;
    }
    let length = waves::total_spread(record).saturating_add(record.soak_time.0).saturating_add(CLOCK_GRACE);
    now >= saturating_after(record.started.unwrap_or(record.created), length)
}

/// A record without the parts about other nodes.
fn record_for_node(record: &RolloutRecord, id: &NodeId) -> RolloutRecord {
    let mut slim = record.clone();
    slim.batches.iter_mut().for_each(|batch| batch.retain(|node| node == id));
    slim.nodes.retain(|node, _| node == id);
    slim.artifacts.clear();
    slim
}
