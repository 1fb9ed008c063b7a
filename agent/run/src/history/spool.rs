//! Directory of small files, one per run, that wait for the store.
//!
//! Law: a file is complete or absent, and only its owner can read it (held by
//! `a_run_pays_for_one_file_that_only_its_owner_reads`, `partial_and_damaged_records_are_harmless`).

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;

use super::HistoryError;

/// Suffix of a complete record.
const RECORD_SUFFIX: &str = ".json";
/// Age after which an unfinished file is removed.
const STALE_AFTER: Duration = Duration::from_secs(60 * 60);

/// The directory.
#[derive(Clone, Debug)]
pub(crate) struct RunSpool {
    dir: PathBuf,
}

impl RunSpool {
    pub(crate) const fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// Writes a record to a temporary file, then renames it.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<(), HistoryError> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if name.is_empty() || name.len() > 100 || !name.chars().all(is_plain) {
            return Err(HistoryError::Name(name.to_owned()));
        }
        let part = self.dir.join(format!("{name}.part"));
        let file = match self.create(&part) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.dir);
                made.map_err(|e| HistoryError::from_io("create directory", &self.dir, e))?;
                self.create(&part)
            }
            file => file,
        };
        let written = file.and_then(|mut file| file.write_all(bytes));
        written.map_err(|e| HistoryError::from_io("write", &part, e))?;
        let whole = self.dir.join(format!("{name}{RECORD_SUFFIX}"));
        fs::rename(&part, &whole).map_err(|e| HistoryError::from_io("write", &whole, e))
    }

    fn create(&self, part: &std::path::Path) -> io::Result<File> {
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(part)
    }

    /// IDs of all records, oldest first.
    pub(crate) fn names(&self) -> Result<Vec<String>, HistoryError> {
        let mut names: Vec<String> = self
            .files()?
            .into_iter()
            .filter_map(|f| Some(f.strip_suffix(RECORD_SUFFIX)?.to_owned()))
            .collect();
        names.sort_unstable();
        Ok(names)
    }

    fn files(&self) -> Result<Vec<String>, HistoryError> {
        let entries = match fs::read_dir(&self.dir) {
            Ok(entries) => entries,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(HistoryError::from_io("read", &self.dir, e)),
        };
        Ok(entries.filter_map(|e| e.ok()?.file_name().into_string().ok()).collect())
    }

    /// One record; none when another process has moved it meanwhile.
    pub(crate) fn get(&self, name: &str) -> Result<Option<Vec<u8>>, HistoryError> {
        let path = self.dir.join(format!("{name}{RECORD_SUFFIX}"));
        match fs::read(&path) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(HistoryError::from_io("read", &path, e)),
        }
    }

    /// Removes a record. One that stays is moved once more.
    pub(crate) fn remove(&self, name: &str) {
        let _ = fs::remove_file(self.dir.join(format!("{name}{RECORD_SUFFIX}")));
    }

    /// Removes unfinished files of a killed process.
    pub(crate) fn remove_stale(&self, now: Timestamp) {
        for file in self.files().unwrap_or_default().iter().filter(|f| f.ends_with(".part")) {
            let path = self.dir.join(file);
            let modified = fs::metadata(&path).and_then(|m| m.modified()).ok();
            let age = modified.and_then(|m| std::time::SystemTime::from(now).duration_since(m).ok());
            if age.is_some_and(|age| age > STALE_AFTER) {
                let _ = fs::remove_file(path);
            }
        }
    }
}
