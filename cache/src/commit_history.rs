//! A commit and what was accepted before it in, whether it moves forward out.
//!
//! Law: the commit alone decides here; neither its files nor the clock are read (held by `rewritten_history_is_refused`).

use jiff::Timestamp;
use zagent_config::settings::{RequiredSignatures, TrustSettings};

use crate::Refusal;
use crate::replay_floor::BranchFloor;

/// The criteria for a tree.
#[derive(Clone, Copy, Debug)]
pub struct VerifyContext<'a> {
    /// The required proofs.
    pub trust: &'a TrustSettings,
    /// The current time.
    pub now: Timestamp,
    /// The line of versions: the branch. Each line has its own floor.
    pub branch: &'a str,
    /// The URL it came from, without a password.
    pub source: &'a str,
    /// Whether it descends from the newest accepted revision; see [`SignedCommit::unproven_ancestor`](crate::SignedCommit::unproven_ancestor).
    pub ancestry: Ancestry,
    /// What the manifest must be for.
    pub audience: ManifestAudience<'a>,
    /// Another line whose serials this one must not fall behind: the one it is based on.
    pub base_branch: Option<&'a str>,
    /// True when an operator asked to accept it although it is older.
    pub allow_rewind: bool,
}

/// The repository and the branch that a manifest must name, where it names any.
#[derive(Clone, Copy, Debug, Default)]
pub struct ManifestAudience<'a> {
    /// The names of the repository; see [`zagent_config::repository_name`].
    pub repositories: &'a [String],
    /// The branch; any when the revision was not taken from a branch: a pinned commit, a directory.
    pub branch: Option<&'a str>,
}

/// Whether a revision descends from another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ancestry {
    /// Unknown: the fetched history is too short.
    #[default]
    Unknown,
    /// It does.
    Descendant,
    /// It does not.
    NotDescendant,
}

/// True when the history of commits says what is newer. With signed manifests alone it does not: anyone who can push
/// can wrap a signed tree in a commit, so only the serial counts.
pub(crate) fn history_counts(trust: &TrustSettings) -> bool {
    trust.fast_forward && trust.require != RequiredSignatures::Manifest
}

/// What the history says of a commit.
pub(crate) struct CommitIdentity<'a> {
    pub(crate) revision: &'a str,
    pub(crate) parents: &'a [String],
    pub(crate) committed: Option<Timestamp>,
}

impl CommitIdentity<'_> {
    /// True when it is that revision, or names it as its parent.
    pub(crate) fn descends_from(&self, newest: &str) -> bool {
        self.revision == newest || self.parents.iter().any(|parent| parent == newest)
    }

    /// Whether it descends from what was accepted last.
    pub(crate) fn ancestry(&self, line: &BranchFloor, context: &VerifyContext<'_>) -> Ancestry {
        if self.descends_from(&line.revision) { Ancestry::Descendant } else { context.ancestry }
    }
}

/// Fails when a commit is older than what was accepted for its line, as far as the commit alone shows it.
pub(crate) fn check_history(
    commit: &CommitIdentity<'_>,
    line: &BranchFloor,
    context: &VerifyContext<'_>,
) -> Result<(), Refusal> {
    if !history_counts(context.trust) {
        return Ok(());
    }
    let revision = || commit.revision.to_owned();
    let older = matches!((commit.committed, line.committed), (Some(new), Some(old)) if new < old);
    match commit.ancestry(line, context) {
        Ancestry::Descendant => Ok(()),
        Ancestry::NotDescendant if !line.has_superseded(commit.revision) => {
            Err(Refusal::Rewritten { revision: revision(), newest: line.revision.clone() })
        }
        Ancestry::Unknown if !older && !line.has_superseded(commit.revision) => Ok(()),
        _ => Err(Refusal::Rewound { revision: revision(), newest: line.revision.clone() }),
    }
}

/// Fails when the first revision of the node is not what `trust.first` announces, as far as the commit alone shows it.
pub(crate) fn check_first_commit(
    commit: &CommitIdentity<'_>,
    context: &VerifyContext<'_>,
) -> Result<(), Refusal> {
    match &context.trust.first.commit {
        Some(wanted)
            if context.ancestry != Ancestry::Descendant && !commit.descends_from(wanted.as_str()) =>
        {
            Err(Refusal::FirstCommit { revision: commit.revision.to_owned(), wanted: wanted.to_string() })
        }
        _ => Ok(()),
    }
}
