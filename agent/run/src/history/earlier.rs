//! The history of an earlier version in, the first index out.
//!
//! Earlier versions wrote one file per run (the spool) and moved those into a sled store. The files are taken over. The
//! store is set aside: reading it could block, and needs a crate that nothing else here uses.

use std::fs;
use std::io;
use std::path::PathBuf;

use zagent_config::paths::Paths;

use super::files::{RunFiles, file_names};
use super::index::{IndexLine, RunIndex};
use super::record::StoredRun;
use super::{HistoryError, RunSummary};

/// The files of an earlier version.
#[derive(Clone, Debug)]
pub(crate) struct EarlierHistory {
    spool: PathBuf,
    store: PathBuf,
    aside: PathBuf,
}

impl EarlierHistory {
    pub(crate) fn new(paths: &Paths) -> Self {
        Self { spool: paths.history_spool(), store: paths.history_store(), aside: paths.history_store_old() }
    }

    /// True when there is something to take over or to set aside.
    pub(crate) fn exists(&self) -> bool {
        self.spool.exists() || self.store.exists()
    }

    /// Builds the index from the spool and from the files of runs that are already in place; the caller holds the lock,
    /// and there is no index. Every step can be repeated after a crash: the index comes last.
    pub(crate) fn take_over(
        &self,
        files: &RunFiles,
        index: &RunIndex,
        keep: usize,
    ) -> Result<Vec<HistoryError>, HistoryError> {
        let mut warnings = Vec::new();
        if self.store.exists() {
            self.set_aside().map_err(|e| HistoryError::from_io("move", &self.store, e))?;
            warnings.push(HistoryError::OldStore { path: self.aside.clone() });
        }
        for name in file_names(&self.spool)?.iter().filter(|name| name.ends_with(".json")) {
            files.take_in(&self.spool.join(name), name)?;
        }
        let names = files.names()?;
        let newest = &names[names.len().saturating_sub(keep)..];
        let head = |name: &String| Some(StoredRun::from_bytes(&files.read(name).ok()??)?.head);
        let line = |head| IndexLine::new(StoredRun::summary_only(head), true);
        let lines: Vec<IndexLine> =
            newest.iter().filter_map(head).filter(RunSummary::is_readable).map(line).collect();
        if !lines.is_empty() {
            index.write_new(&lines)?;
        }
        if self.spool.exists() {
            let gone = fs::remove_dir_all(&self.spool);
            gone.map_err(|e| HistoryError::from_io("remove", &self.spool, e))?;
        }
        Ok(warnings)
    }

    fn set_aside(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.aside) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => fs::rename(&self.store, &self.aside),
        }
    }
}
