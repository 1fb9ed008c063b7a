//! Directory of files, one per run that does not fit into the index.
//!
//! Law: a file is complete or absent, only its owner can read it, and there are at most as many as runs are kept.
//! The caller of everything that writes holds the lock (held by
//! `the_newest_runs_are_kept_and_nothing_is_written_again`, `what_a_killed_process_left_is_swept`).

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use zagent_config::atomic_file::AtomicFile;
use zagent_config::durable::create_dirs;

use super::HistoryError;

/// Suffix of a complete record.
const SUFFIX: &str = ".json";

/// The directory.
#[derive(Clone, Debug)]
pub(crate) struct RunFiles {
    dir: PathBuf,
}

impl RunFiles {
    pub(crate) const fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    pub(crate) fn path(&self, run: &str) -> PathBuf {
        self.dir.join(format!("{run}{SUFFIX}"))
    }

    /// Writes the record of a run; it is on the disk when this returns.
    pub(crate) fn write(&self, run: &str, bytes: &[u8]) -> Result<(), HistoryError> {
        let (path, file) = (self.path(run), AtomicFile::durable(0o600).single_writer());
        let written = match file.write(&path, bytes) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                self.make_dir()?;
                file.write(&path, bytes)
            }
            written => written,
        };
        written.map_err(|e| HistoryError::from_io("write", &path, e))
    }

    fn make_dir(&self) -> Result<(), HistoryError> {
        let made = create_dirs(&self.dir, 0o700);
        made.map_err(|e| HistoryError::from_io("create directory", &self.dir, e))
    }

    /// Moves a file of another directory here, unless it is here.
    pub(crate) fn take_in(&self, from: &Path, name: &str) -> Result<(), HistoryError> {
        self.make_dir()?;
        fs::rename(from, self.dir.join(name)).map_err(|e| HistoryError::from_io("move", from, e))
    }

    /// IDs of all runs here, sorted.
    pub(crate) fn names(&self) -> Result<Vec<String>, HistoryError> {
        let names = file_names(&self.dir)?;
        Ok(names.into_iter().filter_map(|name| Some(name.strip_suffix(SUFFIX)?.to_owned())).collect())
    }

    /// The record of a run; none when there is none.
    pub(crate) fn read(&self, run: &str) -> Result<Option<Vec<u8>>, HistoryError> {
        let path = self.path(run);
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(HistoryError::from_io("read", &path, e)),
        }
    }

    /// Removes all files but those of the given runs: also what a killed process left half-written, and files of runs
    /// that never got their line.
    pub(crate) fn retain(&self, runs: &HashSet<&str>) -> Result<(), HistoryError> {
        for name in file_names(&self.dir)? {
            if name.strip_suffix(SUFFIX).is_some_and(|run| runs.contains(run)) {
                continue;
            }
            let path = self.dir.join(name);
            match fs::remove_file(&path) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    return Err(HistoryError::from_io("remove", &path, e));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Names of the files in a directory, sorted; none when it does not exist.
pub(crate) fn file_names(dir: &Path) -> Result<Vec<String>, HistoryError> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(HistoryError::from_io("read", dir, e)),
    };
    let mut names: Vec<String> = entries.filter_map(|e| e.ok()?.file_name().into_string().ok()).collect();
    names.sort_unstable();
    Ok(names)
}
