//! Why an artifact was refused.

use std::path::{Path, PathBuf};

use zagent_cache::source::{SourceError, SourceErrorKind};
use zagent_cache::trust::{SignError, SignatureError};

/// Why an artifact was refused.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    /// No artifact is for this machine.
    #[error("the release has no artifact for {machine}; it {}", named(there))]
    NoArtifactForMachine {
        /// Kernel and machine.
        machine: String,
        /// The available ones.
        there: Vec<String>,
    },
    /// The record has no location for it.
    #[error("the artifact has neither `url` nor `ref`")]
    NoLocation,
    /// It is in a ref, and there is no repository.
    #[error("the artifact is in `{reference}`, and no rollout repository is configured: set `rollout.url`")]
    NoRepository {
        /// The ref.
        reference: String,
    },
    /// The record, or the file, is not valid.
    #[error("this is not an artifact: {why}")]
    Malformed {
        /// The problem.
        why: String,
    },
    /// The server did not send it.
    #[error("cannot fetch `{url}`: {why}")]
    Http {
        /// The URL, without secrets.
        url: String,
        /// The cause.
        why: String,
        /// True when a later retry may work: no connection, a busy server.
        passing: bool,
    },
    /// The repository did not send it.
    #[error("cannot fetch `{reference}`")]
    Git {
        /// The ref.
        reference: String,
        /// The cause.
        #[source]
        source: Box<SourceError>,
    },
    /// The ref does not contain a release.
    #[error("`{reference}` contains no release: {why}")]
    NoRelease {
        /// The ref.
        reference: String,
        /// The problem.
        why: String,
    },
    /// The file is larger than announced.
    #[error("the artifact has more than the {want} bytes in the record")]
    TooLong {
        /// The size in the record.
        want: u64,
    },
    /// The file is smaller than announced.
    #[error("the artifact has {got} bytes, and the record has {want}")]
    Short {
        /// The size in the record.
        want: u64,
        /// The received size.
        got: u64,
    },
    /// The file has different content than announced.
    #[error(
        "the artifact has the BLAKE3 digest {got}, and the record has {want}: it was changed or replaced"
    )]
    Digest {
        /// The digest in the record.
        want: String,
        /// The received digest.
        got: String,
    },
    /// No accepted key signed it.
    #[error("the release is not trusted")]
    Signature(#[from] SignatureError),
    /// Signing failed.
    #[error("cannot sign the release")]
    Sign(#[from] SignError),
    /// The version exists already.
    #[error(
        "version {version} is already published with different content in `{reference}`, and a published version \
         never changes; give the new content a new version"
    )]
    AlreadyPublished {
        /// Which.
        version: String,
        /// Where.
        reference: String,
    },
    /// The repository refused it.
    #[error("`{reference}` was not published: {why}")]
    PushRejected {
        /// Where.
        reference: String,
        /// The message of the repository.
        why: String,
    },
    /// The binary cannot be read.
    #[error("cannot read `{}`", path.display())]
    Unreadable {
        /// The binary.
        path: PathBuf,
        /// The operating system error.
        #[source]
        source: std::io::Error,
    },
    /// A local file operation failed.
    #[error("cannot write `{}`", path.display())]
    Local {
        /// The path.
        path: PathBuf,
        /// The operating system error.
        #[source]
        source: std::io::Error,
    },
    /// A stop was requested.
    #[error("the fetch was stopped")]
    Stopped,
}

fn named(there: &[String]) -> String {
    if there.is_empty() { "has none".into() } else { format!("has: {}", there.join(", ")) }
}

impl ArtifactError {
    /// True when a later retry may work.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Http { passing, .. } => *passing,
            Self::Git { source, .. } => {
                matches!(source.kind, SourceErrorKind::Unreachable | SourceErrorKind::Timeout)
            }
            _ => false,
        }
    }

    /// A system error about a file.
    pub(super) fn local_error(path: &Path) -> impl Fn(std::io::Error) -> Self {
        move |source| Self::Local { path: path.into(), source }
    }
}
