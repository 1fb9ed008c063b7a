//! Where a rollout put a node in, whether it stays there against its branch out.
//!
//! Law: the end of a rollout does not undo it. A node that follows a branch continues with the next new commit; the
//! head at the start of the rollout was known to the person who ordered something else (held by
//! `a_rollout_back_lasts_until_something_new_is_pushed`).

use serde::{Deserialize, Serialize};
use zagent_config::ids::{Revision, RolloutId};
use zagent_config::paths::Paths;
use zagent_rollout::phase::{NodeOutcome, NodePhase, RolloutOrder};
use zagent_rollout::record::{RolloutRecord, RolloutStatus};

use super::RolloutState;
use crate::decide::RolloutConstraint;
use zagent_config::json_file::JsonFileError;

/// What a node was assigned, and the alternative.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RolloutPlacement {
    /// The rollout.
    pub rollout: RolloutId,
    /// Assigned revision.
    pub to: String,
    /// Head of the followed branch at the start; none when it was unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<Revision>,
}

impl RolloutPlacement {
    /// Created when a node starts an order.
    pub(crate) fn from_order(order: &RolloutOrder, head: Option<&Revision>) -> Option<Self> {
        Some(Self { rollout: order.rollout.clone()?, to: order.to.clone(), head: head.cloned() })
    }
}

impl RolloutState {
    /// What keeps the node where the last rollout put it.
    pub(crate) fn stay_constraint(&self) -> Option<RolloutConstraint> {
        let kept = self.kept.as_ref().filter(|_| self.node.phase == NodePhase::Idle)?;
        let last = self.node.last.as_ref()?;
        let is_there = last.outcome == NodeOutcome::Confirmed && last.rollout == kept.rollout;
        let words = format!(
            "rollout {} set the revision of this node, and its branch has nothing newer; to move it: \
             a new commit there, another rollout, or `zagent pin REVISION`",
            kept.rollout
        );
        is_there.then(|| RolloutConstraint::Keep { to: kept.to.clone(), head: kept.head.clone(), words })
    }

    /// An aborted rollout with a deleted record holds no node: deleting it is how an operator releases them.
    pub(crate) fn release_deleted(&mut self, read: &[RolloutRecord]) {
        let records = &self.records;
        self.kept.take_if(|kept| {
            let was_aborted =
                |record: &RolloutRecord| record.id == kept.rollout && record.state == RolloutStatus::Aborted;
            records.iter().any(was_aborted) && !read.iter().any(|record| record.id == kept.rollout)
        });
    }

    /// Records the head of the followed branch, for a node that did not know it at the start.
    ///
    /// # Errors
    /// As [`RolloutState::update`].
    pub(crate) fn note_head(&self, paths: &Paths, head: Option<&Revision>) -> Result<(), JsonFileError> {
        let is_blind = self.kept.as_ref().is_some_and(|kept| kept.head.is_none());
        let Some(head) = head.filter(|_| is_blind) else { return Ok(()) };
        Self::update(paths, |rollout_state| {
            if let Some(kept) = &mut rollout_state.kept {
                kept.head.get_or_insert_with(|| head.clone());
            }
        })
        .map(drop)
    }
}
