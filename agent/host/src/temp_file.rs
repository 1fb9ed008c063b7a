//! Bytes in, a file of our own (a program, or a secret) out, gone when it is no longer held.
//!
//! Law: nobody else can have made the file, and nobody else may write to it (held by `it_is_ours_and_goes_away`).

use std::fs::{OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Machine;

static COUNT: AtomicU64 = AtomicU64::new(0);
/// Names that others took before we give up.
const MAX_NAME_TRIES: u32 = 64;

/// Where temporary files lie below another root; on this host the environment says.
const TEMP_DIR: &str = "/tmp";

/// Where temporary files of a machine lie.
#[must_use]
pub fn temp_dir(machine: &Machine) -> PathBuf {
    if machine.is_this_host() { std::env::temp_dir() } else { TEMP_DIR.into() }
}

/// A program file in the directory for temporary ones.
#[derive(Debug)]
pub struct PrivateTempFile {
    /// Where it is on its machine.
    path: PathBuf,
    /// Where it is for this process.
    host_path: PathBuf,
}

impl PrivateTempFile {
    /// Writes one that its owner (the user `owner`, or the agent itself) may read and run.
    pub fn new(machine: &Machine, content: &[u8], extension: &str, owner: Option<u32>) -> io::Result<Self> {
        Self::create(machine, content, extension, (owner, 0o500))
    }

    /// Writes one that its owner may read and write, and nobody else: a key, a configuration with passwords.
    pub fn new_secret(
        machine: &Machine,
        content: &[u8],
        extension: &str,
        owner: Option<u32>,
    ) -> io::Result<Self> {
        Self::create(machine, content, extension, (owner, 0o600))
    }

    fn create(
        machine: &Machine,
        content: &[u8],
        extension: &str,
        (owner, mode): (Option<u32>, u32),
    ) -> io::Result<Self> {
        let dir = temp_dir(machine);
        let host_dir = machine.to_host_path(&dir)?;
        let mut last = io::ErrorKind::AlreadyExists.into();
        for _ in 0..MAX_NAME_TRIES {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let name = format!("zagent-{}-{count}{extension}", std::process::id());
            let (path, host_path) = (dir.join(&name), host_dir.join(&name));
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&host_path) {
                Ok(mut file) => {
                    let temp_file = Self { path, host_path };
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

    /// Where it is on its machine.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// A directory that only the agent may enter, gone with all that is in it when it is no longer held.
#[derive(Debug)]
pub struct PrivateTempDir {
    dir: tempfile::TempDir,
    /// Where it is on its machine.
    path: PathBuf,
}

impl PrivateTempDir {
    /// Makes one among the temporary files of a machine.
    ///
    /// # Errors
    /// Fails when it cannot be made.
    pub fn new(machine: &Machine, prefix: &str) -> io::Result<Self> {
        let temp = temp_dir(machine);
        let dir = tempfile::Builder::new().prefix(prefix).tempdir_in(machine.to_host_path(&temp)?)?;
        let path = temp.join(dir.path().file_name().unwrap_or_default());
        Ok(Self { dir, path })
    }

    /// Makes one in a directory of the agent, or, as that is on this host, among the temporary files of another machine.
    ///
    /// # Errors
    /// Fails when it cannot be made.
    pub fn in_agent_dir(machine: &Machine, agent_dir: &Path, prefix: &str) -> io::Result<Self> {
        if !machine.is_this_host() {
            return Self::new(machine, prefix);
        }
        std::fs::create_dir_all(agent_dir)?;
        let dir = tempfile::Builder::new().prefix(prefix).tempdir_in(agent_dir)?;
        let path = dir.path().to_owned();
        Ok(Self { dir, path })
    }

    /// Where it is on its machine.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where it is for this process.
    #[must_use]
    pub fn host_path(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for PrivateTempFile {
    fn drop(&mut self) {
        // A file that is gone already is what we wanted.
        let _ = std::fs::remove_file(&self.host_path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_ours_and_goes_away() {
        let machine = Machine::this_host();
        let temp_file = PrivateTempFile::new(&machine, b"#!/bin/sh\n", ".sh", None).unwrap();
        let path = temp_file.path().to_owned();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o500);
        assert_eq!(path.extension().unwrap(), "sh");
        let secret = PrivateTempFile::new_secret(&machine, b"key", "", None).unwrap();
        assert_eq!(std::fs::metadata(secret.path()).unwrap().permissions().mode() & 0o7777, 0o600);
        let other = PrivateTempFile::new(&machine, b"", "", None).unwrap();
        assert_ne!(other.path(), path);
        drop(temp_file);
        assert!(!path.exists());
    }
}
