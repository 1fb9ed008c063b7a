//! Bytes in, a file of our own (a program, or a secret) out, gone when it is no longer held.
//!
//! Law: nobody else can have made the file, and nobody else may write to it.

use std::fs::{OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

static COUNT: AtomicU64 = AtomicU64::new(0);
/// Names that others took before we give up.
const MAX_NAME_TRIES: u32 = 64;

/// A program file in the directory for temporary ones.
#[derive(Debug)]
pub struct PrivateTempFile(PathBuf);

impl PrivateTempFile {
    /// Writes one that its owner (the user `owner`, or the agent itself) may read and run.
    pub fn new(content: &[u8], extension: &str, owner: Option<u32>) -> io::Result<Self> {
        Self::create(content, extension, owner, 0o500)
    }

    /// Writes one that its owner may read and write, and nobody else: a key, a configuration with passwords.
    pub fn new_secret(content: &[u8], extension: &str, owner: Option<u32>) -> io::Result<Self> {
        Self::create(content, extension, owner, 0o600)
    }

    fn create(content: &[u8], extension: &str, owner: Option<u32>, mode: u32) -> io::Result<Self> {
        let mut last = io::ErrorKind::AlreadyExists.into();
        for _ in 0..MAX_NAME_TRIES {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = format!("zagent-{}-{count}{extension}", std::process::id());
            let path = std::env::temp_dir().join(name);
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
                Ok(mut file) => {
                    let temp_file = Self(path);
                    file.write_all(content)?;
                    if owner.is_some() {
                        std::os::unix::fs::fchown(&file, owner, None)?;
                    }
                    file.set_permissions(Permissions::from_mode(mode))?;
                    return Ok(temp_file);
                }
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => last = e,
                Err(e) => return Err(e),
            }
        }
        Err(last)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for PrivateTempFile {
    fn drop(&mut self) {
        // A file that is gone already is what we wanted.
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_ours_and_goes_away() {
        let temp_file = PrivateTempFile::new(b"#!/bin/sh\n", ".sh", None).unwrap();
        let path = temp_file.path().to_owned();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o500);
        assert_eq!(path.extension().unwrap(), "sh");
        let secret = PrivateTempFile::new_secret(b"key", "", None).unwrap();
        assert_eq!(std::fs::metadata(secret.path()).unwrap().permissions().mode() & 0o7777, 0o600);
        let other = PrivateTempFile::new(b"", "", None).unwrap();
        assert_ne!(other.path(), path);
        drop(temp_file);
        assert!(!path.exists());
    }
}
