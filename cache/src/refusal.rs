//! Why a revision is refused, and why a cache operation failed.
//!
//! One variant per cause; each names what it is about and, if possible, how to fix it. A refusal is a verdict on
//! data from outside; a [`CacheError`] is a local problem of the node.

use std::path::PathBuf;

use jiff::Timestamp;
use zagent_config::diagnostic::Diagnostics;

use crate::RepositoryError;
use crate::trust::SignatureError;

/// A refused revision; the last good one stays current.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The tree itself is refused: a name, a symlink, a size.
    #[error(transparent)]
    Tree(RepositoryError),
    /// The revision has no files.
    #[error("{revision} contains no files")]
    Empty {
        /// The revision.
        revision: String,
    },
    /// No signature where one is required.
    #[error("{revision} is not signed: {why}")]
    Unsigned {
        /// The revision.
        revision: String,
        /// What is missing.
        why: &'static str,
    },
    /// A signature that is not accepted.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// A manifest that cannot be read.
    #[error("the manifest cannot be used: {0}")]
    Manifest(Box<Diagnostics>),
    /// A manifest that lists no files.
    #[error("the manifest lists no files, so it protects none; run `zagent manifest write` to list them")]
    Unlisted,
    /// No manifest where one is required.
    #[error(
        "{revision} has no manifest.yaml, which `trust` requires; run `zagent manifest write` to create it"
    )]
    NoManifest {
        /// The revision.
        revision: String,
    },
    /// A signed manifest that does not say what it is for.
    #[error(
        "the manifest does not say which repository and branch it is for, so it could be shown to any node; run \
         `zagent manifest write` and sign it again"
    )]
    Unbound,
    /// A manifest of another repository.
    #[error(
        "the manifest is for the repository `{found}`, and this node follows `{wanted}` (if that is the same \
         repository, set `trust.repository: {found}` on the node)"
    )]
    OtherRepository {
        /// The repository in the manifest.
        found: String,
        /// The repository of this node.
        wanted: String,
    },
    /// A manifest of another branch.
    #[error(
        "the manifest is for the branch `{found}`, and it was offered as `{wanted}` (to release it there: `zagent \
         manifest write --branch {wanted}`, and sign it again)"
    )]
    OtherBranch {
        /// The branch in the manifest.
        found: String,
        /// The branch it was found on.
        wanted: String,
    },
    /// The first revision is not the pinned one.
    #[error(
        "{revision} is the first revision of this node, and it does not descend from {wanted}, which \
         `trust.first.commit` requires (to accept it anyway: `zagent source sync --allow-rewind`)"
    )]
    FirstCommit {
        /// The revision.
        revision: String,
        /// The pinned commit.
        wanted: String,
    },
    /// The first manifest is older than the pinned one.
    #[error(
        "the first revision of this node has {found}, and `trust.first.serial` requires {wanted} or more (to accept \
         it anyway: `zagent source sync --allow-rewind`)"
    )]
    FirstSerial {
        /// Its serial, in words.
        found: String,
        /// The lowest that is accepted.
        wanted: u64,
    },
    /// A serial below the configured minimum.
    #[error("the revision has {found}, and `trust.min_serial` requires {minimum} or more")]
    BelowMinimum {
        /// Its serial, in words.
        found: String,
        /// The minimum.
        minimum: u64,
    },
    /// Too many signatures of the manifest, or one that is too large.
    #[error("`{path}`: more than 32 signatures, or one of more than 64 KiB")]
    Signatures {
        /// The file.
        path: String,
    },
    /// The manifest has expired.
    #[error("the manifest expired at {at}; write and sign a new one, or check why no newer one arrives")]
    Expired {
        /// When.
        at: Timestamp,
    },
    /// The states need a newer agent.
    #[error("the manifest requires agent {wanted} or newer, and this agent is {own}")]
    OldAgent {
        /// The oldest accepted version.
        wanted: String,
        /// The version of this agent.
        own: &'static str,
    },
    /// A serial lower than one that was accepted before.
    #[error(
        "the manifest has serial {serial}, but {floor} was accepted before: an older revision is being offered again \
         (to accept it anyway: `zagent source sync --allow-rewind`)"
    )]
    SerialReplayed {
        /// Its serial.
        serial: u64,
        /// The lowest that is accepted.
        floor: u64,
    },
    /// A serial that was accepted with different content.
    #[error(
        "the manifest has serial {serial}, which was accepted with different content; a new manifest needs a new serial"
    )]
    SerialReused {
        /// Its serial.
        serial: u64,
    },
    /// A manifest that existed before and is missing now.
    #[error(
        "{revision} has no manifest, but serial {floor} was accepted before \
         (to accept it anyway: `zagent source sync --allow-rewind`)"
    )]
    ManifestGone {
        /// The revision.
        revision: String,
        /// The lowest serial that is accepted.
        floor: u64,
    },
    /// A revision that a newer one replaced.
    #[error(
        "{revision} is older than {newest}, which was accepted before: the branch was moved back \
         (to follow it: `zagent source sync --allow-rewind`)"
    )]
    Rewound {
        /// The revision.
        revision: String,
        /// The newest that was accepted.
        newest: String,
    },
    /// A revision that does not descend from the newest accepted one.
    #[error(
        "{revision} does not descend from {newest}, which was accepted before: history was rewritten \
         (to follow it: `zagent source sync --allow-rewind`)"
    )]
    Rewritten {
        /// The revision.
        revision: String,
        /// The newest that was accepted.
        newest: String,
    },
    /// A file that does not match the manifest.
    #[error("`{path}` does not match the manifest: its digest differs")]
    Digest {
        /// The path in the tree.
        path: String,
    },
    /// A file whose mode does not match the manifest.
    #[error("`{path}` does not match the manifest: its mode is {found}, not {wanted}")]
    Mode {
        /// The path in the tree.
        path: String,
        /// The mode in the tree.
        found: &'static str,
        /// The mode in the manifest.
        wanted: &'static str,
    },
    /// A file that the manifest does not list.
    #[error("`{path}` is not in the manifest")]
    Extra {
        /// The path in the tree.
        path: String,
    },
    /// A file that is in the manifest but not in the tree.
    #[error("the manifest lists `{path}`, which does not exist")]
    Missing {
        /// The path in the tree.
        path: String,
    },
    /// A local problem of the node.
    #[error(transparent)]
    Local(Box<CacheError>),
}

impl Refusal {
    /// The cause as one word, for metrics and programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Tree(error) => error.refusal_code().unwrap_or("tree"),
            Self::Empty { .. } => "empty",
            Self::Unsigned { .. } => "unsigned",
            Self::Signature(error) => error.code(),
            Self::Manifest(_) => "manifest",
            Self::Unlisted => "unlisted",
            Self::NoManifest { .. } => "no-manifest",
            Self::Unbound => "unbound",
            Self::OtherRepository { .. } => "other-repository",
            Self::OtherBranch { .. } => "other-branch",
            Self::FirstCommit { .. } => "first-commit",
            Self::FirstSerial { .. } => "first-serial",
            Self::BelowMinimum { .. } => "below-minimum",
            Self::Signatures { .. } => "signatures",
            Self::Expired { .. } => "expired",
            Self::OldAgent { .. } => "old-agent",
            Self::SerialReplayed { .. } => "replayed",
            Self::SerialReused { .. } => "reused",
            Self::ManifestGone { .. } => "manifest-gone",
            Self::Rewound { .. } => "rewound",
            Self::Rewritten { .. } => "rewritten",
            Self::Digest { .. } => "digest",
            Self::Mode { .. } => "mode",
            Self::Extra { .. } => "extra",
            Self::Missing { .. } => "missing",
            Self::Local(_) => "local",
        }
    }
}

impl From<CacheError> for Refusal {
    fn from(error: CacheError) -> Self {
        match error {
            CacheError::Refused(refusal) => *refusal,
            error => Self::Local(Box::new(error)),
        }
    }
}

/// A failed cache operation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// A system call failed.
    #[error("cannot {act} `{path}`")]
    Io {
        /// The operation.
        act: &'static str,
        /// The path it was for.
        path: PathBuf,
        /// The operating system error.
        #[source]
        source: std::io::Error,
    },
    /// Data from outside was refused.
    #[error(transparent)]
    Refused(Box<Refusal>),
    /// The repository could not be read.
    #[error(transparent)]
    Repository(RepositoryError),
    /// Another process changes the cache.
    #[error("the cache is being changed by {holder} (`{path}`); try again when it is done")]
    Busy {
        /// The lock.
        path: PathBuf,
        /// Who holds it.
        holder: String,
    },
    /// A directory changed while it was read.
    #[error("`{path}` changed while zagent read it; zagent reads it again when it stops changing")]
    SourceChanged {
        /// The path.
        path: PathBuf,
    },
    /// Both replay protection records are damaged, or the only one.
    #[error(
        "cannot read the replay protection records: `{floor}` and `{copy}` are damaged or missing \
         (to accept the next revision and start new records: `zagent source sync --allow-rewind`)"
    )]
    FloorDamaged {
        /// The replay protection record.
        floor: PathBuf,
        /// Its copy.
        copy: PathBuf,
    },
    /// No generation by that name.
    #[error("there is no generation `{name}`; run `zagent cache list` to see the kept generations")]
    NoGeneration {
        /// The name.
        name: String,
    },
    /// There is no generation before the current one.
    #[error("there is no generation before the current one")]
    NoPrevious,
    /// A generation that was modified after it was published.
    #[error(transparent)]
    Tampered(#[from] TamperError),
}

impl CacheError {
    /// True when the system denied permission.
    #[must_use]
    pub fn is_permission(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied)
    }

    /// True when data is not what it claims to be.
    #[must_use]
    pub const fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::Tampered(_) | Self::FloorDamaged { .. })
    }
}

impl From<Refusal> for CacheError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Local(error) => *error,
            refusal => Self::Refused(Box::new(refusal)),
        }
    }
}

impl From<RepositoryError> for CacheError {
    fn from(error: RepositoryError) -> Self {
        match error.refusal_code() {
            Some(_) => Self::Refused(Box::new(Refusal::Tree(error))),
            None => Self::Repository(error),
        }
    }
}

/// A generation that was modified after it was published.
#[derive(Debug, thiserror::Error)]
#[error("generation {generation} was modified outside zagent: `{path}` {what}")]
pub struct TamperError {
    /// The generation.
    pub generation: String,
    /// The file.
    pub path: String,
    /// What is wrong with it.
    pub what: &'static str,
}
