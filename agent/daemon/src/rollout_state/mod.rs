//! Rollouts of states as one node knows them: records in, what the node is to do and what holds it where it is out.
//!
//! Law: decisions are pure; time is an argument. What was heard is kept in one small file beside the phase of the node, so that a
//! node that cannot reach anybody still knows what it was told. An order that was heard once is not undone by showing an
//! older version of it.

pub mod follow;
pub mod observe;
pub mod status;
pub mod stay;
#[cfg(test)]
pub mod tests;

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use zagent_config::ids::{NodeId, Revision};
use zagent_config::paths::Paths;
use zagent_config::settings::FollowMode;
use zagent_rollout::phase::{
    self, NodeAction, NodeEvent, NodePhase, NodeState, RolloutOrder, saturating_after,
};
use zagent_rollout::record::{Component, RolloutMode, RolloutProfile, RolloutRecord, RolloutStatus};
use zagent_rollout::report::NodeReport;
use zagent_rollout::{node, targeting, waves};

pub use follow::TurnWork;
pub use stay::RolloutPlacement;

use super::decide::RolloutConstraint;
use zagent_config::json_file;
use zagent_config::json_file::JsonFileError;

/// Records that are kept; of more than these the oldest are forgotten.
const MAX_RECORDS: usize = 8;
/// How long after its last node should have proved itself a rollout by the clock is over: for looks and runs that took longer.
const CLOCK_GRACE: Duration = Duration::from_secs(10 * 60);

/// What a node knows of rollouts of states.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RolloutState {
    /// Where it stands.
    pub node: NodeState,
    /// The records that speak of it, each without what it says of others.
    pub records: Vec<RolloutRecord>,
    /// Who the node was when it read them: targets and waves go by its facts.
    pub me: Option<NodeReport>,
    /// Where the last rollout that it took part in led it, and what it could have had instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept: Option<RolloutPlacement>,
}

/// What keeps a node from following an order.
#[derive(Clone, Copy, Debug)]
pub struct RolloutHold<'a> {
    /// What it is pinned to, in words.
    pub pinned: Option<&'a str>,
    /// True when no maintenance window is open.
    pub closed: bool,
    /// True while it is paused: nothing is begun, what is begun is brought to its end.
    pub paused: bool,
    /// What moves it: a node that takes heads does not begin what is over.
    pub follow: FollowMode,
}

impl RolloutHold<'_> {
    /// Nothing holds a node that follows this.
    #[must_use]
    pub const fn none(follow: FollowMode) -> Self {
        Self { pinned: None, closed: false, paused: false, follow }
    }
}

impl RolloutState {
    /// Reads it; a node that never heard of a rollout knows of none.
    ///
    /// # Errors
    /// Fails when the file is damaged or cannot be read.
    pub fn read(paths: &Paths) -> Result<Self, JsonFileError> {
        Ok(json_file::read(&paths.rollout_states())?.unwrap_or_default())
    }

    /// Changes it on the disk; written only when it is another then.
    ///
    /// # Errors
    /// Fails when it cannot be read or written: then nothing that follows from it may be done.
    pub fn update<R: Default>(
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

    /// One event further, on the disk before anything is done about it. `head` is that of the followed branch, as far as it
    /// is known.
    ///
    /// # Errors
    /// As [`RolloutState::update`].
    pub fn step(
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
            rollout_state.node = node;
            actions
        })
    }

    /// Takes over all records that there are, as far as they mean this node. One that is not there any more is forgotten, one
    /// that is older than what was heard is not believed.
    pub fn observe(&mut self, read: &[RolloutRecord], me: &NodeReport) {
        let me = NodeReport { updated_at: Timestamp::UNIX_EPOCH, ..me.clone() };
        let names = |record: &RolloutRecord| match record.mode {
            RolloutMode::Driver => record.batch_of(&me.id).is_some(),
            RolloutMode::Clock => targeting::is_targeted(&record.target, &me).unwrap_or(false),
        };
        let mut next: Vec<RolloutRecord> = Vec::new();
        for record in read.iter().filter(|record| record.component == Component::States && !record.dry_run) {
            if node::is_stale_record(record, &self.node) {
                next.extend(self.records.iter().find(|known| known.id == record.id).cloned());
            } else if names(record) {
                node::accept_record(record, &mut self.node);
                next.push(record_for_node(record, &me.id));
            }
        }
        next.sort_by_key(|record| (Some(&record.id) == self.node.current_rollout(), record.created));
        next.drain(..next.len().saturating_sub(MAX_RECORDS));
        self.release_deleted(read);
        (self.records, self.me) = (next, Some(me));
    }

    /// The node is on this, and on no rollout: whatever it takes by itself is what it goes back to.
    pub fn set_settled(&mut self, current: Option<&str>) {
        if self.node.phase == NodePhase::Idle {
            let running = current.unwrap_or_default();
            if self.node.running != running {
                self.node.previous = Some(std::mem::replace(&mut self.node.running, running.to_owned()))
                    .filter(|previous| !previous.is_empty());
            }
            // Whoever moved it elsewhere has ended that.
            self.kept.take_if(|kept| kept.to != running);
        }
    }

    /// The record that counts: that of the rollout the node is in, else the newest. The last word that was said about a node
    /// is the one that is meant, whatever became of those before.
    #[must_use]
    pub fn leading_record(&self) -> Option<&RolloutRecord> {
        if let Some(rollout) = self.node.current_rollout() {
            return self.records.iter().find(|record| record.id == *rollout);
        }
        self.records.iter().max_by_key(|record| (record.created, &record.id))
    }

    /// What is asked of the node now.
    #[must_use]
    pub fn desired_action(&self, hold: RolloutHold<'_>, now: Timestamp) -> Option<NodeEvent> {
        if let (Some(rollout), Some(pinned)) = (self.node.current_rollout(), hold.pinned) {
            return Some(NodeEvent::Withdraw(rollout.clone(), format!("the node was {pinned}")));
        }
        let Some(record) = self.leading_record() else { return node::orphaned_action(&self.node) };
        let event = node::desired_action(record, self.me.as_ref()?, &self.node, now)?;
        let by_clock = record.mode == RolloutMode::Clock;
        let waits = match event {
            // By the clock nobody counts who comes when: one that cannot begin now does so later, or takes the head.
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

    /// What rollouts say about heads of branches; nothing when these count as always.
    #[must_use]
    pub fn constraint(&self, id: &NodeId, follow: FollowMode, now: Timestamp) -> Option<RolloutConstraint> {
        let is_free = |record: &&RolloutRecord| {
            let is_over = match record.mode {
                RolloutMode::Driver => record.state == RolloutStatus::Completed,
                // A node that waits for rollouts takes one that it missed; one that takes heads goes on with these.
                RolloutMode::Clock => {
                    is_over(record, now)
                        && record.state != RolloutStatus::Aborted
                        && (follow == FollowMode::Head || self.has_finished(record))
                }
            };
            is_over && self.node.phase == NodePhase::Idle
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

    /// True when a rollout has ended on this node, however.
    fn has_finished(&self, record: &RolloutRecord) -> bool {
        self.node.last.as_ref().is_some_and(|last| last.rollout == record.id)
    }

    /// True while the node runs something that nobody has confirmed: the rollout judges it, and nobody else.
    #[must_use]
    pub fn is_judging(&self, revision: &str) -> bool {
        self.node.is_unconfirmed() && self.node.current_version() == revision
    }

    /// The order that the node follows.
    #[must_use]
    pub const fn current_order(&self) -> Option<&RolloutOrder> {
        match &self.node.phase {
            NodePhase::Idle => None,
            NodePhase::Preparing { order, .. }
            | NodePhase::Staged { order, .. }
            | NodePhase::Applying { order, .. }
            | NodePhase::Soaking { order, .. }
            | NodePhase::RollingBack { order, .. } => Some(order),
        }
    }

    /// True when a rollout that is under way speaks of this node: it listens closely then. Nobody has anything more to say
    /// to one that a rollout by the clock has ended on.
    #[must_use]
    pub fn is_under_way(&self, now: Timestamp) -> bool {
        let goes_on = |record: &RolloutRecord| {
            !(is_over(record, now) || record.mode == RolloutMode::Clock && self.has_finished(record))
        };
        self.node.phase != NodePhase::Idle || self.leading_record().is_some_and(goes_on)
    }

    /// True when the rollout that the node waits for, or is in, does not wait for windows.
    #[must_use]
    pub fn is_emergency(&self, now: Timestamp) -> bool {
        self.leading_record()
            .is_some_and(|record| record.profile == RolloutProfile::Emergency && !is_over(record, now))
    }
}

/// True when nothing follows from a record any more. Nobody writes down that one by the clock is over: the time says it.
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

/// A record without what it says of others.
fn record_for_node(record: &RolloutRecord, id: &NodeId) -> RolloutRecord {
    let mut slim = record.clone();
    slim.batches.iter_mut().for_each(|batch| batch.retain(|node| node == id));
    slim.nodes.retain(|node, _| node == id);
    slim.artifacts.clear();
    slim
}
