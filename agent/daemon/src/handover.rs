//! Poll and decision of the daemon in, the same for the turn that it starts out.
//!
//! Law: a hand-over saves a poll and a decision, and never a check: the revision is still fetched, verified and
//! compiled. One that is old, or does not fit what the turn knows, is ignored, and the turn polls (held by
//! `what_was_decided_is_taken_while_nothing_changed`, `a_revision_that_nobody_offers_is_not_taken`).

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use zagent_cache::source::{RemoteHeads, Remotes};
use zagent_config::ids::Revision;

use crate::decide::{NodeView, RevisionRole, RolloutConstraint, SyncDecision};
use crate::operator::pin::PinTarget;

/// Time after which the turn polls again: it may have waited for another run.
const MAX_AGE: SignedDuration = SignedDuration::from_secs(60);

/// What a remote answered, and what follows from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Handover {
    polled: Timestamp,
    remote: usize,
    url: String,
    branch: String,
    head: Option<Revision>,
    testing: Option<Revision>,
    decision: HandedDecision,
    /// Digest of what the decision was based on.
    basis: String,
    /// True when the rollout records on disk are those of this poll.
    records_read: bool,
}

/// A decision that leads to a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum HandedDecision {
    Take { revision: Revision, role: RevisionRole },
    CheckTesting { testing: Revision, head: Revision },
}

impl Handover {
    /// Hands over a poll and its decision; none when the turn must poll: a directory is polled without a
    /// server, and may change while it is read.
    #[must_use]
    pub fn new(
        found: &RemoteHeads,
        decision: &SyncDecision,
        view: &NodeView<'_>,
        now: Timestamp,
    ) -> Option<Self> {
        if found.directory {
            return None;
        }
        let decision = match decision.clone() {
            SyncDecision::Take(revision, role) => HandedDecision::Take { revision, role },
            SyncDecision::CheckTesting(testing, head) => HandedDecision::CheckTesting { testing, head },
            _ => return None,
        };
        Some(Self {
            polled: now,
            remote: found.remote,
            url: found.url.clone(),
            branch: found.branch.clone(),
            head: found.head.clone(),
            testing: found.testing.clone(),
            decision,
            basis: digest(view),
            records_read: false,
        })
    }

    /// Same, with whether the rollout records on disk are those of this poll.
    #[must_use]
    pub(crate) const fn with_records(mut self, records_read: bool) -> Self {
        self.records_read = records_read;
        self
    }

    /// True when the turn needs to read no rollout records.
    #[must_use]
    pub(crate) fn has_records(&self, now: Timestamp) -> bool {
        self.records_read && self.is_fresh(now)
    }

    /// The answer of the remote and the decision, when both still hold for these remotes and this node.
    #[must_use]
    pub fn accept(
        &self,
        remotes: &Remotes,
        branches: (&str, Option<&str>),
        view: &NodeView<'_>,
        now: Timestamp,
    ) -> Option<(RemoteHeads, SyncDecision)> {
        let (branch, testing) = branches;
        let is_followed = remotes.health().nth(self.remote).is_some_and(|health| health.url == self.url)
            && remotes.directory(self.remote).is_none()
            && branch == self.branch
            && (self.testing.is_none() || testing.is_some());
        if !is_followed || !self.is_fresh(now) || self.basis != digest(view) || !self.follows_from(view) {
            return None;
        }
        let found = RemoteHeads {
            remote: self.remote,
            url: self.url.clone(),
            branch: self.branch.clone(),
            head: self.head.clone(),
            testing: self.testing.clone(),
            prefixed: BTreeMap::new(),
            directory: false,
        };
        let decision = match self.decision.clone() {
            HandedDecision::Take { revision, role } => SyncDecision::Take(revision, role),
            HandedDecision::CheckTesting { testing, head } => SyncDecision::CheckTesting(testing, head),
        };
        Some((found, decision))
    }

    /// Position of the remote in the settings.
    #[must_use]
    pub const fn remote(&self) -> usize {
        self.remote
    }

    fn is_fresh(&self, now: Timestamp) -> bool {
        self.polled <= now && now.duration_since(self.polled) <= MAX_AGE
    }

    /// True when the revision is one that this node may take in this role.
    fn follows_from(&self, view: &NodeView<'_>) -> bool {
        match &self.decision {
            HandedDecision::CheckTesting { testing, head } => {
                self.testing.as_ref() == Some(testing) && self.head.as_ref() == Some(head)
            }
            HandedDecision::Take { revision, role } => match role {
                RevisionRole::Followed => self.head.as_ref() == Some(revision),
                RevisionRole::Testing => self.testing.as_ref() == Some(revision),
                RevisionRole::Pinned => match view.pin.map(|pin| &pin.to) {
                    Some(PinTarget::Commit(pinned)) => pinned == revision,
                    Some(PinTarget::Branch(_)) => self.head.as_ref() == Some(revision),
                    None => false,
                },
                RevisionRole::Rollout => match view.constraint {
                    Some(RolloutConstraint::Take { revision: ordered, .. }) => ordered == revision,
                    Some(RolloutConstraint::Stay { from, .. }) => from.as_ref() == Some(revision),
                    _ => false,
                },
            },
        }
    }
}

/// Digest of what a decision is based on.
fn digest(view: &NodeView<'_>) -> String {
    blake3::hash(format!("{view:?}").as_bytes()).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use zagent_config::settings::{ConfigFragment, MergedConfig};

    const URL: &str = "https://git.example/states.git";

    fn revision(c: char) -> Revision {
        c.to_string().repeat(40).parse().unwrap()
    }

    fn found() -> RemoteHeads {
        RemoteHeads {
            remote: 0,
            url: URL.into(),
            branch: "main".into(),
            head: Some(revision('b')),
            testing: None,
            prefixed: BTreeMap::new(),
            directory: false,
        }
    }

    fn remotes() -> Remotes {
        let text = format!("source: {{remotes: [{{url: '{URL}'}}]}}\n");
        let fragment = ConfigFragment::read("zagent.yaml", &text).unwrap();
        let settings = MergedConfig::new(vec![fragment], [], &[]).into_settings(Some("web-01")).unwrap();
        Remotes::new(&settings.source, 7)
    }

    fn take(c: char, role: RevisionRole) -> SyncDecision {
        SyncDecision::Take(revision(c), role)
    }

    #[test]
    fn what_was_decided_is_taken_while_nothing_changed() {
        let (now, old) = (Timestamp::now(), revision('a'));
        let view = NodeView { current: Some(old.as_str()), ..NodeView::default() };
        let decision = take('b', RevisionRole::Followed);
        let given = Handover::new(&found(), &decision, &view, now).unwrap();
        let sent: Handover = serde_json::from_slice(&serde_json::to_vec(&given).unwrap()).unwrap();
        let (remotes, branches) = (remotes(), ("main", None));
        assert_eq!(sent.accept(&remotes, branches, &view, now), Some((found(), decision)));
        // Another run, another branch, or a long wait: the turn polls.
        let moved = NodeView::default();
        assert_eq!(sent.accept(&remotes, branches, &moved, now), None);
        assert_eq!(sent.accept(&remotes, ("stable", None), &view, now), None);
        assert_eq!(sent.accept(&remotes, branches, &view, now + SignedDuration::from_secs(61)), None);
        assert_eq!(sent.accept(&remotes, branches, &view, now - SignedDuration::from_secs(1)), None);
    }

    #[test]
    fn a_revision_that_nobody_offers_is_not_taken() {
        let (now, view) = (Timestamp::now(), NodeView::default());
        for role in
            [RevisionRole::Followed, RevisionRole::Testing, RevisionRole::Pinned, RevisionRole::Rollout]
        {
            let given = Handover::new(&found(), &take('c', role), &view, now).unwrap();
            assert_eq!(given.accept(&remotes(), ("main", None), &view, now), None, "{role:?}");
        }
    }

    #[test]
    fn only_what_leads_to_a_turn_is_handed_over() {
        let (now, view) = (Timestamp::now(), NodeView::default());
        assert_eq!(Handover::new(&found(), &SyncDecision::Nothing, &view, now), None);
        let directory = RemoteHeads { directory: true, ..found() };
        assert_eq!(Handover::new(&directory, &take('b', RevisionRole::Followed), &view, now), None);
    }
}
