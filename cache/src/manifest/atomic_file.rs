//! A text in, a file in a directory out, written completely or not at all.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::ManifestError;

/// Readable by everyone: a manifest is not a secret.
const MODE: u32 = 0o644;

/// Writes a file in a directory; readers see the old text or the new one.
///
/// # Errors
/// Fails when it cannot be written; the old file then stays.
pub fn write_atomic(dir: &Path, name: &str, text: &str) -> Result<PathBuf, ManifestError> {
    let path = dir.join(name);
    let write = || -> io::Result<()> {
        let mut file = tempfile::Builder::new().prefix(".manifest-").tempfile_in(dir)?;
        file.write_all(text.as_bytes())?;
        file.as_file().set_permissions(Permissions::from_mode(MODE))?;
        file.as_file().sync_all()?;
        file.persist(&path).map_err(|error| error.error)?;
        File::open(dir)?.sync_all()
    };
    match write() {
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
