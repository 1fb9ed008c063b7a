//! What can go wrong with the history. Nothing of it stops a run.

use std::io;
use std::path::{Path, PathBuf};

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// A file could not be used.
    #[error("cannot {act} `{}`", path.display())]
    File {
        /// What was tried.
        act: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// The store could not be used.
    #[error("cannot {act} the history in `{}`", path.display())]
    Store {
        /// What was tried.
        act: &'static str,
        /// Where.
        path: PathBuf,
        /// Why it failed.
        #[source]
        source: sled::Error,
    },
    /// The name of a run is no file name.
    #[error("`{0}` is no name of a run")]
    Name(String),
    /// There are no runs.
    #[error("the history is empty")]
    Empty,
    /// There is no such run.
    #[error("the history has no run `{0}`")]
    NoRun(String),
    /// Several runs begin so.
    #[error("{} runs begin with `{beginning}`: {}", runs.len(), newest_names(runs))]
    Ambiguous {
        /// What was asked for.
        beginning: String,
        /// What it could be.
        runs: Vec<String>,
    },
    /// Another process has the store.
    #[error("another process is using the history; only the latest runs are seen")]
    Busy,
    /// The store cannot be used now, and nothing is wrong with it.
    #[error("only the latest runs are seen")]
    StoreUnavailable(#[source] Box<Self>),
    /// The store did not open, and there is a new one now.
    #[error("the history could not be opened and begins anew; the old one is `{}`", path.display())]
    Broken {
        /// Where the old one is.
        path: PathBuf,
    },
    /// The record of a run cannot be understood.
    #[error("the record of run `{0}` cannot be read and is left out")]
    UnreadableRecord(String),
}

/// The newest names of a sorted list, and how many more there are.
fn newest_names(runs: &[String]) -> String {
    const NAMED: usize = 4;
    let named: Vec<&str> = runs.iter().rev().take(NAMED).map(String::as_str).collect();
    let more = runs.len().saturating_sub(NAMED);
    if more > 0 { format!("{} and {more} more", named.join(", ")) } else { named.join(", ") }
}

impl HistoryError {
    pub fn from_io(act: &'static str, path: &Path, source: io::Error) -> Self {
        Self::File { act, path: path.to_owned(), source }
    }

    /// True when the system does not let us.
    #[must_use]
    pub fn is_permission(&self) -> bool {
        match self {
            Self::File { source, .. } => source.kind() == io::ErrorKind::PermissionDenied,
            Self::Store { source: sled::Error::Io(e), .. } => e.kind() == io::ErrorKind::PermissionDenied,
            _ => false,
        }
    }
}
