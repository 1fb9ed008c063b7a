//! The journals on the disk in, their records out: for reverting, listing, pruning and clearing up.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::frame;
use super::journal::{JOURNAL_FILE, RETRIES_FILE};
use super::record::{ChangeNote, JournalRecord, SavedContent, SavedEntry};
use crate::fs::FsError;

/// What the journal of a run says.
#[derive(Debug)]
pub struct JournalReader {
    dir: PathBuf,
    file: File,
    records: Vec<JournalRecord>,
    end: u64,
}

/// A run that left a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UndoableRun {
    /// The run's name.
    pub run: String,
    /// When its first change was noted, in milliseconds since 1970.
    pub started: u64,
    /// Changes that it noted.
    pub changes: usize,
    /// False when it was killed, or is still under way.
    pub is_finished: bool,
}

impl JournalReader {
    /// Reads the journal of a run from its directory. A record that is cut off ends it.
    ///
    /// # Errors
    /// Fails when it cannot be read.
    pub fn open(dir: &Path) -> Result<Self, FsError> {
        let path = dir.join(JOURNAL_FILE);
        let read = || {
            let file = File::open(&path)?;
            let (records, end) = frame::decode_records(&mut BufReader::with_capacity(1 << 16, &file))?;
            Ok((file, records, end))
        };
        let (file, records, end) =
            read().map_err(|error: io::Error| FsError::new("read undo journal", &path, error))?;
        Ok(Self { dir: dir.to_owned(), file, records, end })
    }

    /// All records, in the order of the run.
    #[must_use]
    pub fn records(&self) -> &[JournalRecord] {
        &self.records
    }

    /// The `retry` of the states of the run, by tag; empty when none had one, or when it cannot be read.
    #[must_use]
    pub fn retries(&self) -> serde_json::Map<String, serde_json::Value> {
        let read = std::fs::read(self.dir.join(RETRIES_FILE)).ok();
        read.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
    }

    /// The same with the last so many records only: what a revert that was cut off has seen.
    #[cfg(test)]
    pub(crate) fn keep_last(mut self, count: usize) -> Self {
        self.records.drain(..self.records.len().saturating_sub(count));
        self
    }

    /// Where its whole records end.
    pub(crate) fn valid_end(&self) -> u64 {
        self.end
    }

    /// False when the run was killed, or is still under way.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        matches!(self.records.last(), Some(JournalRecord::End { .. }))
    }

    /// The content that a note kept.
    ///
    /// # Errors
    /// Fails when it cannot be read or is not what was kept.
    pub(crate) fn saved_content(&self, note: &ChangeNote, entry: &SavedEntry) -> Result<Vec<u8>, FsError> {
        let SavedEntry::File { content, digest, .. } = entry else { return Ok(Vec::new()) };
        let (path, bytes) = match content {
            SavedContent::Inline => {
                let mut bytes = vec![0; usize::try_from(note.body.len).unwrap_or(0)];
                let answer = self.file.read_exact_at(&mut bytes, note.body.start).map(|()| bytes);
                (self.dir.join(JOURNAL_FILE), answer)
            }
            SavedContent::Blob(name) => {
                let path = self.dir.join(Path::new(name).file_name().unwrap_or_default());
                let answer = File::open(&path).and_then(|mut file| {
                    let mut bytes = Vec::new();
                    file.read_to_end(&mut bytes).map(|_| bytes)
                });
                (path, answer)
            }
        };
        let checked = bytes.and_then(|bytes| match *blake3::hash(&bytes).to_hex() == **digest {
            true => Ok(bytes),
            false => Err(io::Error::new(io::ErrorKind::InvalidData, "the kept content is damaged")),
        });
        checked.map_err(|error| FsError::new("read kept content", path, error))
    }
}

/// The names of all runs that left a journal below `root`, oldest first: a run's name begins with its time.
pub(crate) fn run_names(root: &Path) -> Result<Vec<String>, FsError> {
    let listed = || -> io::Result<Vec<String>> {
        let entries = std::fs::read_dir(root)?;
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    };
    let mut names = match listed() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        names => names.map_err(|error| FsError::new("list", root, error))?,
    };
    names.sort_unstable();
    Ok(names)
}

/// All runs that left a journal below `root`, oldest first. A journal that cannot be read at all is left out.
///
/// # Errors
/// Fails when the directory cannot be listed.
pub fn list_runs(root: &Path) -> Result<Vec<UndoableRun>, FsError> {
    let mut all = Vec::new();
    for run in run_names(root)? {
        let Ok(notes) = JournalReader::open(&root.join(&run)) else { continue };
        let started = match notes.records.first() {
            Some(JournalRecord::Begin { started, .. }) => *started,
            _ => 0,
        };
        let changes = notes.records.iter().filter(|record| record.seq().is_some()).count();
        all.push(UndoableRun { run, started, changes, is_finished: notes.is_finished() });
    }
    zagent_config::sorted::sort_by(&mut all, |a, b| (a.started, &a.run).cmp(&(b.started, &b.run)));
    Ok(all)
}

fn remove_entry(path: &Path) -> Result<(), FsError> {
    let removed = match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => std::fs::remove_file(path),
        removed => removed,
    };
    removed.map_err(|error| FsError::new("remove", path, error))
}

/// Removes all journals but the youngest `keep`; gives the names of the runs that can no more be undone.
///
/// # Errors
/// Fails when they cannot be listed or one cannot be removed.
pub fn prune_runs(root: &Path, keep: usize) -> Result<Vec<String>, FsError> {
    let mut old = run_names(root)?;
    old.truncate(old.len().saturating_sub(keep));
    for run in &old {
        remove_entry(&root.join(run))?;
    }
    Ok(old)
}
