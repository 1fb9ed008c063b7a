//! Rollout state of a node in, text out.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use zagent_config::ids::{NodeId, RolloutId, short_revision};
use zagent_rollout::phase::{NodeOutcome, NodePhase};
use zagent_rollout::record::{RolloutRecord, RolloutStatus};

use super::RolloutState;

/// Why a node that waits for rollouts takes nothing by itself.
pub(crate) const ONLY_ROLLOUTS: &str = "`rollout.follow` is `rollouts`: only a rollout moves this node; \
                                        `zagent rollout start --component states` begins one";

/// A states rollout, from the view of this node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RolloutSummary {
    /// Its name.
    pub id: RolloutId,
    /// Target commit.
    pub to: String,
    /// State of the whole rollout; none when its record is gone.
    pub state: Option<RolloutStatus>,
    /// The batch of this node, from 1.
    pub batch: Option<usize>,
    /// Total number of batches.
    pub batches: usize,
    /// Phase of this node: `waiting`, `preparing`, `staged`, `applying`, `soaking`, `rolling-back`,
    /// `confirmed`, `failed` or `withdrawn`.
    pub phase: String,
    /// Since when.
    pub since: Option<Timestamp>,
    /// Deadline for the confirmation.
    pub deadline: Option<Timestamp>,
    /// Message.
    pub message: String,
}

impl RolloutState {
    /// Why the node does not take the head, with a way out.
    pub(crate) fn hold_text(&self, record: &RolloutRecord, id: &NodeId) -> String {
        let name = &record.id;
        let more =
            format!("see `zagent rollout status {name}`, or move this node with `zagent pin REVISION`");
        match record.state {
            RolloutStatus::Aborted | RolloutStatus::Aborting => {
                let why = record.reason.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
                format!(
                    "rollout {name} was aborted{why}; the node stays until another rollout includes it or \
                     the record of this one is deleted; {more}"
                )
            }
            _ => format!("held back by rollout {name}: {}; {more}", self.batch_text(record, id)),
        }
    }

    /// `batch 3 of 5, waiting`.
    fn batch_text(&self, record: &RolloutRecord, id: &NodeId) -> String {
        let batch = match record.batch_of(id) {
            Some(batch) => format!("batch {} of {}, ", batch + 1, record.batches.len()),
            None => String::new(),
        };
        let paused = if record.state == RolloutStatus::Paused { " (the rollout is paused)" } else { "" };
        format!("{batch}{}{paused}", self.phase_text(record))
    }

    fn phase_text(&self, record: &RolloutRecord) -> String {
        let short = short_revision;
        match &self.node.phase {
            NodePhase::Preparing { order, .. } => format!("fetching {}", short(&order.to)),
            NodePhase::Staged { order, .. } => format!("{} is fetched and verified", short(&order.to)),
            NodePhase::Applying { order, .. } => format!("applying {}", short(&order.to)),
            NodePhase::Soaking { order, .. } => format!("{} is soaking", short(&order.to)),
            NodePhase::RollingBack { order, why, .. } => {
                format!("rolling back from {}: {why}", short(&order.to))
            }
            NodePhase::Idle => match self.node.last.as_ref().filter(|last| last.rollout == record.id) {
                None => "waiting".into(),
                Some(last) => match (last.outcome, &last.why) {
                    (NodeOutcome::Confirmed, _) => format!("{} is confirmed", short(&last.to)),
                    (NodeOutcome::Failed, why) => {
                        format!(
                            "{} failed here: {}",
                            short(&last.to),
                            why.as_deref().unwrap_or("reason unknown")
                        )
                    }
                    (NodeOutcome::Withdrawn, why) => {
                        format!("withdrawn: {}", why.as_deref().unwrap_or("reason unknown"))
                    }
                },
            },
        }
    }

    /// Current or last rollout of the node, for the status; none when no record includes it.
    #[must_use]
    pub(crate) fn rollout_status(&self, id: &NodeId) -> Option<RolloutSummary> {
        let Some(record) = self.leading_record() else {
            let order = self.current_order()?;
            let rollout = order.rollout.clone()?;
            let message = "its record no longer exists".to_owned();
            let (phase, since, deadline) = self.phase_times();
            let to = order.to.clone();
            return Some(RolloutSummary {
                id: rollout,
                to,
                state: None,
                batch: None,
                batches: 0,
                phase,
                since,
                deadline,
                message,
            });
        };
        let (phase, since, deadline) = self.phase_times();
        let last = self.node.last.as_ref().filter(|last| last.rollout == record.id);
        let (phase, since) = match (&self.node.phase, last) {
            (NodePhase::Idle, Some(last)) => (outcome_text(last.outcome), Some(last.at)),
            (NodePhase::Idle, None) => ("waiting", Some(record.created)),
            _ => (phase.as_str(), since),
        };
        Some(RolloutSummary {
            id: record.id.clone(),
            to: record.to.clone(),
            state: Some(record.state),
            batch: record.batch_of(id).map(|batch| batch + 1),
            batches: record.batches.len(),
            phase: phase.to_owned(),
            since,
            deadline,
            message: match record.state {
                RolloutStatus::Aborted | RolloutStatus::Aborting => self.hold_text(record, id),
                _ => self.batch_text(record, id),
            },
        })
    }

    /// Name of the phase, its start and its deadline.
    fn phase_times(&self) -> (String, Option<Timestamp>, Option<Timestamp>) {
        let (word, since, deadline) = match &self.node.phase {
            NodePhase::Idle => ("idle", None, None),
            NodePhase::Preparing { since, .. } => ("preparing", Some(*since), None),
            NodePhase::Staged { since, .. } => ("staged", Some(*since), None),
            NodePhase::Applying { since, .. } => ("applying", Some(*since), None),
            NodePhase::Soaking { since, deadline, .. } => ("soaking", Some(*since), Some(*deadline)),
            NodePhase::RollingBack { since, .. } => ("rolling-back", Some(*since), None),
        };
        (word.to_owned(), since, deadline)
    }
}

const fn outcome_text(outcome: NodeOutcome) -> &'static str {
    match outcome {
        NodeOutcome::Confirmed => "confirmed",
        NodeOutcome::Failed => "failed",
        NodeOutcome::Withdrawn => "withdrawn",
    }
}
