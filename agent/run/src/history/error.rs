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
    /// Another process writes the history and does not end.
    #[error("another process is using the history in `{}` and does not finish", path.display())]
    Busy {
        /// The directory.
        path: PathBuf,
    },
    /// There is not enough space for the changes of a run.
    #[error(
        "only {} are free for `{}`: run `{run}` is recorded without its changes",
        zagent_config::disk_space::readable_size(*free),
        path.display()
    )]
    NoSpace {
        /// The directory.
        path: PathBuf,
        /// The run.
        run: String,
        /// Free bytes.
        free: u64,
    },
    /// The runs of an earlier version are in a store that is not read.
    #[error(
        "runs recorded by an earlier version are not shown: their store is now `{}`; delete it when nobody needs it",
        path.display()
    )]
    OldStore {
        /// Path of the old store.
        path: PathBuf,
    },
    /// Lines of the index cannot be read.
    #[error("{count} damaged lines of `{}` are not shown", path.display())]
    DamagedLines {
        /// The index.
        path: PathBuf,
        /// Their number.
        count: usize,
    },
    /// The changes of a run are gone.
    #[error(
        "the changes of run `{run}` are not shown: `{}` is damaged, or was not kept because space was short",
        path.display()
    )]
    NoChanges {
        /// The run.
        run: String,
        /// Its file.
        path: PathBuf,
    },
    /// The process of a run ended before it.
    #[error(
        "run `{run}` was killed before it ended: what it changed is in its undo notes; `zagent run --revert {run} --test` shows it"
    )]
    Killed {
        /// The run.
        run: String,
    },
    /// Not all states of a run were stored.
    #[error("{omitted} states of run `{run}` are not shown: the record of a run has a size limit")]
    Omitted {
        /// The run.
        run: String,
        /// Their number.
        omitted: usize,
    },
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
        matches!(self, Self::File { source, .. } if source.kind() == io::ErrorKind::PermissionDenied)
    }
}
