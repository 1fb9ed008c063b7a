//! Revision ordered by a rollout in, generation or verified tree out.

use std::collections::BTreeMap;

use jiff::Timestamp;
use zagent_cache::CacheError;
use zagent_cache::source::{Deadline, RemoteHeads};
use zagent_config::ids::Revision;

use super::{
    NotTaken, OfferedRevision, StatesSync, SyncOptions, SyncOutcome, directory_remote, followed_remotes,
    plain_revision,
};
use crate::decide::{NodeView, RemoteOffer, RevisionRole, RolloutConstraint, SyncDecision, decide_revision};
use crate::held_revision::HoldReason;

impl StatesSync<'_> {
    /// Takes one revision ordered by a rollout. Remotes are contacted only for what is missing: a revision
    /// that was fetched and verified can be published while no remote answers.
    ///
    /// # Errors
    /// Fails when the cache cannot be used.
    pub(crate) fn sync_to(
        &mut self,
        constraint: &RolloutConstraint,
        options: SyncOptions,
        now: Timestamp,
    ) -> Result<SyncOutcome, CacheError> {
        let current = self.cache.current()?;
        let quarantined = self.orders.quarantined_revisions();
        let standing = NodeView {
            current: current.as_ref().map(|generation| plain_revision(&generation.record().revision)),
            constraint: Some(constraint),
            held: self.memory.held.as_ref(),
            quarantined: &quarantined,
            // A revision refused as a branch head is checked again when it is ordered: a fleet waits for it,
            // and it is tried once, not with every poll.
            retry_refused: true,
            ..NodeView::default()
        };
        match decide_revision(&RemoteOffer::default(), &standing, now) {
            SyncDecision::Take(revision, role) => Ok(self.fetch_ordered(&revision, role, options, now)),
            SyncDecision::Held(held) => Ok(SyncOutcome::Held(held)),
            SyncDecision::Quarantined(revision) => {
                let message = self.orders.quarantine_reason(&revision);
                Ok(SyncOutcome::Held(self.memory.hold_revision(
                    revision,
                    HoldReason::Quarantined,
                    message,
                    now,
                )))
            }
            SyncDecision::Nothing
            | SyncDecision::Current(..)
            | SyncDecision::CheckTesting(..)
            | SyncDecision::Stay(..) => Ok(SyncOutcome::Current),
        }
    }

    /// Same, from the first remote that has it.
    fn fetch_ordered(
        &mut self,
        revision: &Revision,
        role: RevisionRole,
        options: SyncOptions,
        now: Timestamp,
    ) -> SyncOutcome {
        let deadline = Deadline::after(self.settings.source.timeout);
        let mut remotes = followed_remotes(self.settings, None, self.seed);
        let urls: Vec<String> = remotes.health().map(|health| health.url.clone()).collect();
        let mut untaken =
            NotTaken(HoldReason::Refused, "no remote in `source.remotes` is a Git repository".into());
        for (remote, (one, url)) in self.settings.source.remotes.iter().zip(urls).enumerate() {
            if directory_remote(&one.url).is_some() {
                continue;
            }
            let (branch, below) = (one.branch.clone(), BTreeMap::new());
            let found = RemoteHeads {
                remote,
                url,
                branch,
                head: None,
                testing: None,
                prefixed: below,
                directory: false,
            };
            let offered = OfferedRevision { found: &found, revision, role };
            match self.take_revision(&mut remotes, &offered, options, (deadline, now)) {
                Ok(synced) => {
                    self.memory.held = self.memory.held.take().filter(|held| held.revision != *revision);
                    return synced;
                }
                Err(NotTaken(HoldReason::Unfetched, words)) => {
                    untaken = NotTaken(HoldReason::Unfetched, words);
                }
                Err(other) => {
                    untaken = other;
                    break;
                }
            }
        }
        let NotTaken(why, message) = untaken;
        SyncOutcome::Held(self.memory.hold_revision(revision.clone(), why, message, now))
    }
}

#[cfg(test)]
mod tests {
    use zagent_cache::Cache;
    use zagent_config::settings::{ConfigFragment, MergedConfig};

    use super::*;
    use crate::memory::AgentMemory;
    use crate::operator_orders::OperatorOrders;

    #[test]
    fn a_refused_head_is_tried_again_when_ordered() {
        let dir = tempfile::tempdir().unwrap();
        let text = format!("root: {}\n", dir.path().display());
        let fragment = ConfigFragment::read("zagent.yaml", &text).unwrap();
        let settings = MergedConfig::new(vec![fragment], [], &[]).into_settings(Some("web-01")).unwrap();
        let cache = Cache::open(&settings.paths(), &settings.source).unwrap();
        let (now, orders) = (Timestamp::now(), OperatorOrders::default());
        let revision: Revision = "a".repeat(40).parse().unwrap();
        let mut memory = AgentMemory::default();
        memory.hold_revision(revision.clone(), HoldReason::Refused, "its key was not known then".into(), now);
        let mut sync = StatesSync {
            settings: &settings,
            cache: &cache,
            memory: &mut memory,
            orders: &orders,
            seed: 7,
            notes: Vec::new(),
            handover: None,
            check_compiles: &mut |_, _| Ok(()),
        };
        let constraint = RolloutConstraint::Take { revision, anyway: false };
        let SyncOutcome::Held(held) = sync.sync_to(&constraint, SyncOptions::default(), now).unwrap() else {
            panic!("there is no remote that has it")
        };
        assert!(held.message.contains("is a Git repository"), "{}", held.message);
    }
}
