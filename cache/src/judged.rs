//! A commit object from a remote in, the permission to fetch its files out.
//!
//! Law: the commit is judged alone, before its trees and blobs cost anything: first its signature, then its place in the
//! history. Only [`SignedCommit::judge`] makes a [`JudgedCommit`], and nothing but a judged commit is fetched or staged
//! (held by `SignedCommit`, `JudgedCommit`, `rewritten_history_is_refused`).

use std::fmt;

use jiff::Timestamp;
use zagent_config::ids::Revision;
use zagent_config::settings::{RequiredSignatures, TrustSettings};

use crate::commit_history::{
    CommitIdentity, VerifyContext, check_first_commit, check_history, history_counts,
};
use crate::object_store::parse_commit;
use crate::pack::ScannedPack;
use crate::replay_floor::ReplayFloor;
use crate::trust::AllowedSigners;
use crate::{Cache, CacheError, ObjectStore, Refusal};

/// What a commit must be signed with.
#[derive(Clone, Copy, Debug)]
pub struct CommitTrust<'a> {
    /// The required proofs.
    pub trust: &'a TrustSettings,
    /// The current time.
    pub now: Timestamp,
}

impl CommitTrust<'_> {
    /// Checks the signature of a commit, when one is required.
    ///
    /// # Errors
    /// Fails when it is missing or not accepted.
    pub(crate) fn check(&self, commit: &[u8]) -> Result<(), Refusal> {
        match self.trust.require {
            RequiredSignatures::None | RequiredSignatures::Manifest => Ok(()),
            RequiredSignatures::Commit | RequiredSignatures::Both => {
                Ok(AllowedSigners::read(self.trust)?.verify_commit(commit, self.now).map(drop)?)
            }
        }
    }
}

/// A commit whose signature is right, as far as one is required.
#[must_use = "nothing was fetched but the commit"]
pub struct SignedCommit {
    revision: Revision,
    parents: Vec<String>,
    committed: Timestamp,
    /// What the remote sent with the commit, if it cannot send the commit alone; not hashed yet.
    pack: Option<ScannedPack>,
}

impl fmt::Debug for SignedCommit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SignedCommit({})", self.revision)
    }
}

impl SignedCommit {
    /// Checks the signature of a commit whose bytes hash to its id.
    pub(crate) fn check(
        revision: &Revision,
        bytes: Vec<u8>,
        trust: &CommitTrust<'_>,
        pack: Option<ScannedPack>,
    ) -> Result<Self, Refusal> {
        trust.check(&bytes)?;
        let commit = parse_commit(bytes, revision).map_err(CacheError::from)?;
        let parents = commit.parents.iter().map(ToString::to_string).collect();
        Ok(Self { revision: revision.clone(), parents, committed: commit.committed, pack })
    }

    /// Checks the signature of a commit in the store.
    ///
    /// # Errors
    /// Fails when the store does not have it, or its signature is refused.
    pub fn from_store(
        store: &ObjectStore,
        revision: &Revision,
        trust: &CommitTrust<'_>,
    ) -> Result<Self, Refusal> {
        let commit = store.commit(revision).map_err(CacheError::from)?;
        Self::check(revision, commit.bytes, trust, None)
    }

    /// The commit.
    #[must_use]
    pub const fn revision(&self) -> &Revision {
        &self.revision
    }

    fn identity(&self) -> CommitIdentity<'_> {
        CommitIdentity {
            revision: self.revision.as_str(),
            parents: &self.parents,
            committed: Some(self.committed),
        }
    }

    /// The revision whose ancestry matters: the caller finds out whether this commit descends from it and sets
    /// [`VerifyContext::ancestry`]. It is the newest accepted one, or `trust.first.commit` when there was none. `None`
    /// when the history does not count, when the commit names it as its parent, or when it is the same revision.
    ///
    /// # Errors
    /// Fails when the replay protection records cannot be read.
    pub fn unproven_ancestor(
        &self,
        cache: &Cache,
        line: &str,
        trust: &TrustSettings,
    ) -> Result<Option<String>, CacheError> {
        let (floor, _) = ReplayFloor::read(cache)?;
        let wanted = match floor.branch(line) {
            Some(newest) => history_counts(trust).then(|| newest.revision.clone()),
            None if floor.is_empty() => trust.first.commit.as_ref().map(ToString::to_string),
            None => None,
        };
        Ok(wanted.filter(|wanted| !self.identity().descends_from(wanted)))
    }

    /// Judges the place of the commit in the history.
    ///
    /// # Errors
    /// Fails when it is older than what was accepted, or history was rewritten.
    pub fn judge(self, cache: &Cache, context: &VerifyContext<'_>) -> Result<JudgedCommit, Refusal> {
        let current = cache.current().ok().flatten();
        let is_current = current.is_some_and(|current| {
            let record = current.record();
            record.revision == self.revision.as_str() && record.line == context.branch
        });
        if !is_current && !context.allow_rewind {
            // A refusal ends here, so a record that was lost is replaced here.
            let floor = ReplayFloor::repair(cache)?;
            match floor.branch(context.branch) {
                Some(line) => check_history(&self.identity(), line, context)?,
                None if floor.is_empty() => check_first_commit(&self.identity(), context)?,
                None => {}
            }
        }
        Ok(JudgedCommit { revision: self.revision, pack: self.pack })
    }
}

/// A commit whose files may be fetched and staged.
#[must_use = "a judged commit allows to fetch its files"]
pub struct JudgedCommit {
    revision: Revision,
    pack: Option<ScannedPack>,
}

impl fmt::Debug for JudgedCommit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JudgedCommit({})", self.revision)
    }
}

impl JudgedCommit {
    /// The commit.
    #[must_use]
    pub const fn revision(&self) -> &Revision {
        &self.revision
    }

    /// What was received with the commit.
    pub(crate) fn take_pack(&mut self) -> Option<ScannedPack> {
        self.pack.take()
    }

    #[cfg(feature = "testing")]
    pub(crate) fn unjudged(revision: &Revision) -> Self {
        Self { revision: revision.clone(), pack: None }
    }
}
