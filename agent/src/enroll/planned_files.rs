//! Files to write in, files on disk out: nothing that exists is replaced unless that was asked for.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use zagent_config::atomic_file::AtomicFile;
use zagent_daemon::error::AgentError;

use super::file_error;

/// Files that an enrolment writes.
#[derive(Debug, Default)]
pub(crate) struct PlannedFiles {
    files: Vec<PlannedFile>,
}

#[derive(Debug)]
struct PlannedFile {
    path: PathBuf,
    text: String,
    /// None when there is no file yet.
    old: Option<String>,
    is_extended: bool,
}

impl PlannedFiles {
    /// Adds a file.
    ///
    /// # Errors
    /// Fails when the existing one cannot be read.
    pub(crate) fn add(&mut self, path: PathBuf, text: String) -> Result<(), AgentError> {
        let old = read_existing(&path)?;
        self.files.push(PlannedFile { path, text, old, is_extended: false });
        Ok(())
    }

    /// Adds a file that only gets more lines, which is no conflict.
    ///
    /// # Errors
    /// Fails when the existing one cannot be read.
    pub(crate) fn add_extended(&mut self, path: PathBuf, text: String) -> Result<(), AgentError> {
        self.add(path, text)?;
        if let Some(file) = self.files.last_mut() {
            file.is_extended = true;
        }
        Ok(())
    }

    /// True when every file is already there.
    pub(crate) fn is_done(&self) -> bool {
        self.files.iter().all(|file| file.old.as_deref() == Some(&file.text))
    }

    /// What would be replaced: the paths, and their differences as text.
    pub(crate) fn conflicts(&self) -> Option<(Vec<&Path>, String)> {
        let differs =
            |file: &&PlannedFile| !file.is_extended && file.old.as_ref().is_some_and(|old| *old != file.text);
        let mut diff = String::new();
        let paths: Vec<&Path> = self
            .files
            .iter()
            .filter(differs)
            .map(|file| {
                let name = file.path.display().to_string();
                let old = file.old.as_deref().unwrap_or_default();
                let changes = similar::TextDiff::from_lines(old, &file.text);
                let _ = write!(diff, "{}", changes.unified_diff().header(&name, &name));
                file.path.as_path()
            })
            .collect();
        (!paths.is_empty()).then_some((paths, diff))
    }

    /// Writes what is not there yet; returns the paths.
    ///
    /// # Errors
    /// Fails when a file cannot be written.
    pub(crate) fn write(&self) -> Result<Vec<&Path>, AgentError> {
        let mut written = Vec::new();
        for file in self.files.iter().filter(|file| file.old.as_deref() != Some(&file.text)) {
            let failed = |error: std::io::Error| file_error("write", &file.path, &error);
            let parent = file.path.parent().unwrap_or(&file.path);
            zagent_config::durable::create_dirs(parent, 0o755).map_err(failed)?;
            AtomicFile::durable(0o644).write(&file.path, file.text.as_bytes()).map_err(failed)?;
            written.push(file.path.as_path());
        }
        Ok(written)
    }
}

/// The text of a file, when there is one.
pub(crate) fn read_existing(path: &Path) -> Result<Option<String>, AgentError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(file_error("read", path, &error)),
    }
}
