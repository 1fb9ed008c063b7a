//! Why an artifact was not taken.

use std::path::{Path, PathBuf};

use zagent_cache::source::{SourceError, SourceErrorKind};
use zagent_cache::trust::{SignError, SignatureError};

/// Why an artifact was not taken.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactError {
    /// None is for this machine.
    #[error("the release has no artifact for {machine}; it {}", named(there))]
    NoArtifactForMachine {
        /// Kernel and machine.
        machine: String,
        /// What there is.
        there: Vec<String>,
    },
    /// The record does not say where it is.
    #[error("the artifact has neither `url` nor `ref`")]
    NoLocation,
    /// It is in a ref, and there is no repository.
    #[error("the artifact is in `{reference}`, and no rollout repository is configured: set `rollout.url`")]
    NoRepository {
        /// The ref.
        reference: String,
    },
    /// The record, or the file, is not what it should be.
    #[error("this is not an artifact: {why}")]
    Malformed {
        /// What is.
        why: String,
    },
    /// The server did not give it.
    #[error("cannot fetch `{url}`: {why}")]
    Http {
        /// From where, without a secret.
        url: String,
        /// What was seen.
        why: String,
        /// True when the same question may be answered later: no connection, a busy server.
        passing: bool,
    },
    /// The repository did not give it.
    #[error("cannot fetch `{reference}`")]
    Git {
        /// The ref.
        reference: String,
        /// What was seen.
        #[source]
        source: Box<SourceError>,
    },
    /// The ref does not hold a release.
    #[error("`{reference}` contains no release: {why}")]
    NoRelease {
        /// The ref.
        reference: String,
        /// What is wrong with it.
        why: String,
    },
    /// More came than was announced.
    #[error("the artifact has more than the {want} bytes in the record")]
    TooLong {
        /// As the record says.
        want: u64,
    },
    /// Less came than was announced.
    #[error("the artifact has {got} bytes, and the record has {want}")]
    Short {
        /// As the record says.
        want: u64,
        /// As it came.
        got: u64,
    },
    /// Something else came than was announced.
    #[error(
        "the artifact has the BLAKE3 digest {got}, and the record has {want}: the artifact was changed or replaced"
    )]
    Digest {
        /// As the record says.
        want: String,
        /// As it came.
        got: String,
    },
    /// Nobody signed it whose signature counts.
    #[error("the release is not trusted")]
    Signature(#[from] SignatureError),
    /// A key did not sign it.
    #[error("the release is not signed")]
    Sign(#[from] SignError),
    /// The version is taken.
    #[error(
        "version {version} is already published with different content in `{reference}`, and a published version never changes; give the \
         new content a new version"
    )]
    AlreadyPublished {
        /// Which.
        version: String,
        /// Where.
        reference: String,
    },
    /// The repository does not take it.
    #[error("`{reference}` was not published: {why}")]
    PushRejected {
        /// Where.
        reference: String,
        /// What it said.
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
    /// This machine does not let us.
    #[error("cannot write `{}`", path.display())]
    Local {
        /// What.
        path: PathBuf,
        /// The operating system error.
        #[source]
        source: std::io::Error,
    },
    /// Someone asked for an end.
    #[error("the fetch was stopped")]
    Stopped,
}

fn named(there: &[String]) -> String {
    if there.is_empty() { "has none".into() } else { format!("has: {}", there.join(", ")) }
}

impl ArtifactError {
    /// True when it may be there later: who has time asks again.
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

    /// What the system says about a file.
    pub(super) fn local_error(path: &Path) -> impl Fn(std::io::Error) -> Self {
        move |source| Self::Local { path: path.into(), source }
    }
}
