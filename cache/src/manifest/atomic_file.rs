//! A text in, a file in a directory out, written completely or not at all.

use std::fs;
use std::path::{Path, PathBuf};

use zagent_config::atomic_file::AtomicFile;

use super::ManifestError;

/// Readable by everyone: a manifest is not a secret.
const MODE: u32 = 0o644;

/// Writes a file in a directory; readers see the old text or the new one.
///
/// # Errors
/// Fails when it cannot be written; the old file then stays.
pub fn write_atomic(dir: &Path, name: &str, text: &str) -> Result<PathBuf, ManifestError> {
    let path = dir.join(name);
    match AtomicFile::durable(MODE).write(&path, text.as_bytes()) {
        Ok(()) => Ok(path),
        Err(source) => Err(ManifestError::Write { path, source }),
    }
}

/// Removes a file from a directory.
///
/// # Errors
/// Fails when it cannot be removed.
pub fn remove_file(dir: &Path, name: &str) -> Result<(), ManifestError> {
    let path = dir.join(name);
    fs::remove_file(&path).map_err(|source| ManifestError::Write { path, source })
}
