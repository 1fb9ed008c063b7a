//! Errors of the history. None of them stops a run.

use std::io;
use std::path::{Path, PathBuf};

/// Errors of the history.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// A file could not be used.
    #[error("cannot {act} `{}`", path.display())]
    File {
        /// The operation.
        act: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The store could not be used.
    #[error("cannot {act} the history in `{}`", path.display())]
    Store {
        /// The operation.
        act: &'static str,
        /// Where.
        path: PathBuf,
        /// The cause.
        #[source]
        source: sled::Error,
    },
    /// Not a valid run ID.
    #[error("`{0}` is not a run ID")]
    Name(String),
    /// There are no runs.
    #[error("the history is empty")]
    Empty,
    /// There is no such run.
    #[error("the history has no run `{0}`")]
    NoRun(String),
    /// Several runs start with this text.
    #[error("{} runs start with `{beginning}`: {}", runs.len(), newest_names(runs))]
    Ambiguous {
        /// The given text.
        beginning: String,
        /// The matching runs.
        runs: Vec<String>,
    },
    /// Another process has opened the store.
    #[error("another process is using the history; only the latest runs are shown")]
    Busy,
    /// The store cannot be used now, but is not damaged.
    #[error("only the latest runs are shown")]
    StoreUnavailable(#[source] Box<Self>),
    /// The store could not be opened and was replaced.
    #[error("the history could not be opened and was replaced; the old one is `{}`", path.display())]
    Broken {
        /// Path of the old store.
        path: PathBuf,
    },
    /// The record of a run cannot be read.
    #[error("cannot read the record of run `{0}`: it is not shown")]
    UnreadableRecord(String),
}

/// The newest IDs of a sorted list, and the number of further ones.
fn newest_names(runs: &[String]) -> String {
    const NAMED: usize = 4;
    let named: Vec<&str> = runs.iter().rev().take(NAMED).map(String::as_str).collect();
    let more = runs.len().saturating_sub(NAMED);
    if more > 0 { format!("{} and {more} more", named.join(", ")) } else { named.join(", ") }
}

impl HistoryError {
    pub(crate) fn from_io(act: &'static str, path: &Path, source: io::Error) -> Self {
        Self::File { act, path: path.to_owned(), source }
    }

    /// True when the cause is a missing permission.
    #[must_use]
    pub fn is_permission(&self) -> bool {
        match self {
            Self::File { source, .. } => source.kind() == io::ErrorKind::PermissionDenied,
            Self::Store { source: sled::Error::Io(e), .. } => e.kind() == io::ErrorKind::PermissionDenied,
            _ => false,
        }
    }
}
