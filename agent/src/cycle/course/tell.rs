//! Where a node stands in rollouts in, words for whoever asks out.

use zagent_config::ids::{NodeId, Revision};
use zagent_rollout::phase::{Outcome, Phase};
use zagent_rollout::record::{Record, State};

use super::Course;
use crate::status::Rollout;

/// Why a node that waits for rollouts takes nothing by itself.
pub(super) const ONLY_ROLLOUTS: &str = "`rollout.follow` is `rollouts`: only a rollout moves this node; \
                                        `zagent rollout start --component states` begins one";

impl Course {
    /// Why the node does not take the head, with a way out.
    pub(super) fn words(&self, record: &Record, id: &NodeId) -> String {
        let name = &record.id;
        let more =
            format!("`zagent rollout status {name}` tells more, `zagent pin REVISION` moves this node");
        match record.state {
            State::Aborted | State::Aborting => {
                let why = record.reason.as_deref().map(|why| format!(": {why}")).unwrap_or_default();
                format!(
                    "rollout {name} was aborted{why}; the node stays until another rollout comes or the record \
                     of this one is deleted; {more}"
                )
            }
            _ => format!("held back by rollout {name}: {}; {more}", self.place(record, id)),
        }
    }

    /// `batch 3 of 5, waiting`.
    fn place(&self, record: &Record, id: &NodeId) -> String {
        let batch = match record.batch_of(id) {
            Some(batch) => format!("batch {} of {}, ", batch + 1, record.batches.len()),
            None => String::new(),
        };
        let paused = if record.state == State::Paused { " (the rollout is paused)" } else { "" };
        format!("{batch}{}{paused}", self.phase_words(record))
    }

    fn phase_words(&self, record: &Record) -> String {
        let short = |to: &str| to.parse::<Revision>().map_or_else(|_| to.to_owned(), |to| to.short().into());
        match &self.node.phase {
            Phase::Preparing { order, .. } => format!("fetching {}", short(&order.to)),
            Phase::Staged { order, .. } => format!("{} is fetched and verified", short(&order.to)),
            Phase::Applying { order, .. } => format!("applying {}", short(&order.to)),
            Phase::Soaking { order, .. } => format!("{} proves itself", short(&order.to)),
            Phase::RollingBack { order, why, .. } => format!("going back from {}: {why}", short(&order.to)),
            Phase::Idle => match self.node.last.as_ref().filter(|last| last.rollout == record.id) {
                None => "waiting".into(),
                Some(last) => match (last.outcome, &last.why) {
                    (Outcome::Confirmed, _) => format!("{} is confirmed", short(&last.to)),
                    (Outcome::Failed, why) => {
                        format!(
                            "{} failed here: {}",
                            short(&last.to),
                            why.as_deref().unwrap_or("no reason is known")
                        )
                    }
                    (Outcome::Withdrawn, why) => {
                        format!("withdrawn: {}", why.as_deref().unwrap_or("no reason is known"))
                    }
                },
            },
        }
    }

    /// The rollout that the node is in, or was in last, for the status; nothing when no record speaks of it.
    #[must_use]
    pub fn told(&self, id: &NodeId) -> Option<Rollout> {
        let Some(record) = self.leading() else {
            let order = self.order()?;
            let rollout = order.rollout.clone()?;
            let message = "its record cannot be found any more".to_owned();
            let (phase, since, deadline) = self.moments();
            let to = order.to.clone();
            return Some(Rollout {
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
        let (phase, since, deadline) = self.moments();
        let last = self.node.last.as_ref().filter(|last| last.rollout == record.id);
        let (phase, since) = match (&self.node.phase, last) {
            (Phase::Idle, Some(last)) => (ended(last.outcome), Some(last.at)),
            (Phase::Idle, None) => ("waiting", Some(record.created)),
            _ => (phase.as_str(), since),
        };
        Some(Rollout {
            id: record.id.clone(),
            to: record.to.clone(),
            state: Some(record.state),
            batch: record.batch_of(id).map(|batch| batch + 1),
            batches: record.batches.len(),
            phase: phase.to_owned(),
            since,
            deadline,
            message: match record.state {
                State::Aborted | State::Aborting => self.words(record, id),
                _ => self.place(record, id),
            },
        })
    }

    /// The phase in a word, since when, and until when.
    fn moments(&self) -> (String, Option<jiff::Timestamp>, Option<jiff::Timestamp>) {
        let (word, since, deadline) = match &self.node.phase {
            Phase::Idle => ("idle", None, None),
            Phase::Preparing { since, .. } => ("preparing", Some(*since), None),
            Phase::Staged { since, .. } => ("staged", Some(*since), None),
            Phase::Applying { since, .. } => ("applying", Some(*since), None),
            Phase::Soaking { since, deadline, .. } => ("soaking", Some(*since), Some(*deadline)),
            Phase::RollingBack { since, .. } => ("rolling-back", Some(*since), None),
        };
        (word.to_owned(), since, deadline)
    }
}

const fn ended(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Confirmed => "confirmed",
        Outcome::Failed => "failed",
        Outcome::Withdrawn => "withdrawn",
    }
}
