//! Where a rollout led a node in, whether it stays there although its branch says otherwise out.
//!
//! Law: what a rollout ordered is not undone by its end. A node that follows a branch goes on with it when something new
//! comes there; what was there already when the node took part was known to whoever ordered something else.

use serde::{Deserialize, Serialize};
use zagent_config::ids::{Revision, RolloutId};
use zagent_config::paths::Paths;
use zagent_rollout::phase::{NodeOutcome, NodePhase, RolloutOrder};
use zagent_rollout::record::{RolloutRecord, RolloutStatus};

use super::RolloutState;
use crate::decide::RolloutConstraint;
use zagent_config::json_file::JsonFileError;

/// What a node was given, and what it could have had.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RolloutPlacement {
    /// By which rollout.
    pub rollout: RolloutId,
    /// What it was given.
    pub to: String,
    /// The head of the followed branch when it began; none when that was not known then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<Revision>,
}

impl RolloutPlacement {
    /// A node begins with an order.
    pub fn from_order(order: &RolloutOrder, head: Option<&Revision>) -> Option<Self> {
        Some(Self { rollout: order.rollout.clone()?, to: order.to.clone(), head: head.cloned() })
    }
}

impl RolloutState {
    /// What keeps the node where the last rollout led it.
    pub fn stay_constraint(&self) -> Option<RolloutConstraint> {
        let kept = self.kept.as_ref().filter(|_| self.node.phase == NodePhase::Idle)?;
        let last = self.node.last.as_ref()?;
        let is_there = last.outcome == NodeOutcome::Confirmed && last.rollout == kept.rollout;
        let words = format!(
            "rollout {} led this node where it is, and its branch has nothing newer: a new commit there, another \
             rollout or `zagent pin REVISION` moves it",
            kept.rollout
        );
        is_there.then(|| RolloutConstraint::Keep { to: kept.to.clone(), head: kept.head.clone(), words })
    }

    /// An aborted rollout whose record is deleted keeps nobody: that is how an operator says so.
    pub fn release_deleted(&mut self, read: &[RolloutRecord]) {
        let records = &self.records;
        self.kept.take_if(|kept| {
            let was_aborted =
                |record: &RolloutRecord| record.id == kept.rollout && record.state == RolloutStatus::Aborted;
            records.iter().any(was_aborted) && !read.iter().any(|record| record.id == kept.rollout)
        });
    }

    /// The head of the followed branch, for a node that did not know it when it took part.
    ///
    /// # Errors
    /// As [`RolloutState::update`].
    pub fn note_head(&self, paths: &Paths, head: Option<&Revision>) -> Result<(), JsonFileError> {
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

/// The head of the followed branch, as it was last seen: not one of a testing branch.
pub fn followed_head<'m>(
    newest: Option<&'m crate::memory::NewestRevision>,
    remotes: &[zagent_config::settings::RemoteSettings],
) -> Option<&'m Revision> {
    let is_followed = |branch: &str| remotes.iter().any(|remote| remote.branch == branch);
    newest.filter(|newest| is_followed(&newest.branch)).map(|newest| &newest.revision)
}
