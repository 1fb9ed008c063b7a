//! Two revisions in, whether one descends from the other out; fetches as much history as that takes.

use zagent_cache::source::{Deadline, FetchTarget, RemoteHeads, Remotes};
use zagent_cache::{Ancestry, CacheError, ObjectStore, SignedCommit};
use zagent_config::error_chain;
use zagent_config::ids::Revision;

use super::{NotTaken, StatesSync, SyncOptions, testing_branch};
use crate::decide::{NodeView, RemoteOffer, TestingAncestry};
use crate::held_revision::HoldReason;

/// Depths to which a history is fetched to find out whether one commit descends from another.
const DEEPEN_STEPS: [u32; 4] = [32, 512, 8192, WHOLE_HISTORY];
/// The whole history.
const WHOLE_HISTORY: u32 = i32::MAX.unsigned_abs();

impl StatesSync<'_> {
    /// Whether a commit descends from the last accepted one; computed only when it matters.
    pub(super) fn ancestry(
        &self,
        signed: &SignedCommit,
        branch: &str,
        options: SyncOptions,
        line: &mut BranchHistory<'_>,
    ) -> Result<Ancestry, NotTaken> {
        if options.allow_rewind {
            return Ok(Ancestry::Unknown);
        }
        let doubted = signed.unproven_ancestor(self.cache, branch, &self.settings.trust)?;
        let doubted = doubted.and_then(|revision| revision.parse::<Revision>().ok());
        let Some(old) = doubted else { return Ok(Ancestry::Unknown) };
        match line.ancestry(&old) {
            // In doubt it is refused: the server could hide the history that proves the rewrite.
            Ancestry::Unknown => Err(NotTaken(
                HoldReason::Unfetched,
                format!(
                    "cannot trace its history back to {}, which was accepted before or is `trust.first.commit`; \
                     to accept it anyway: `zagent source sync --allow-rewind`",
                    old.short()
                ),
            )),
            known => Ok(known),
        }
    }

    /// Reports a testing branch that does not count.
    pub(super) fn note_testing(&mut self, offer: &RemoteOffer, found: &RemoteHeads) {
        let standing = NodeView { weighed: self.memory.weighed.as_ref(), ..NodeView::default() };
        if self.orders.pin.is_none() && standing.testing_counts(offer) == Some(false) {
            self.notes.push(format!(
                "the branch `{}` is not based on `{}` and is ignored: rebase it, or delete it",
                testing_branch(self.settings).unwrap_or_default(),
                found.branch
            ));
        }
    }

    /// Finds out whether a testing branch counts: it is based on the followed branch, as offered and as
    /// accepted. When unknown it does not count, and is checked again with the next head.
    pub(super) fn check_testing(
        &mut self,
        remotes: &mut Remotes,
        found: &RemoteHeads,
        (testing, head): (Revision, Revision),
        deadline: Deadline,
    ) -> Result<(), CacheError> {
        let branch = testing_branch(self.settings).unwrap_or_default();
        let store = ObjectStore::open(self.settings.paths().repository())?;
        let want = FetchTarget { remote: found.remote, branch: &branch, revision: &testing };
        let accepted = self.cache.newest_accepted(&found.branch)?;
        let accepted = accepted.and_then(|newest| newest.revision.parse().ok());
        let mut line = BranchHistory { remotes, store: &store, want, deadline };
        let mut below = [Some(head.clone()), accepted].into_iter().flatten();
        let counts = below.all(|old| line.ancestry(&old) == Ancestry::Descendant);
        self.memory.weighed = Some(TestingAncestry { testing, head, counts });
        Ok(())
    }
}

/// A branch with a history that can be fetched further.
pub(super) struct BranchHistory<'a> {
    pub(super) remotes: &'a mut Remotes,
    pub(super) store: &'a ObjectStore,
    pub(super) want: FetchTarget<'a>,
    pub(super) deadline: Deadline,
}

impl BranchHistory<'_> {
    /// Whether the wanted commit descends from another. Unknown when it cannot be decided within the
    /// deadline.
    fn ancestry(&mut self, old: &Revision) -> Ancestry {
        let mut steps = DEEPEN_STEPS.into_iter();
        loop {
            match self.store.is_ancestor(old, self.want.revision) {
                Ok(Some(true)) => return Ancestry::Descendant,
                Ok(Some(false)) => return Ancestry::NotDescendant,
                Ok(None) => {}
                // Nothing was fetched yet.
                Err(error) => tracing::debug!(error = error_chain(&error), "cannot read the history"),
            }
            let Some(depth) = steps.next() else { return Ancestry::Unknown };
            if let Err(error) = self.remotes.fetch_history(self.want, self.store, depth, self.deadline) {
                tracing::warn!(error = error_chain(&error), "cannot fetch more of the history");
                return Ancestry::Unknown;
            }
        }
    }
}
