//! Bytes and a path in, a file with exactly these bytes out, or the old one.
//!
//! Law: a reader sees the old content or the new one, also after a crash. The bytes are written to a file beside,
//! synced, and renamed; then the directory is synced. The states have a way of their own for files of a host
//! (`zagent_host::fs::atomic_write`): those keep owner and attributes, are noted for undo, and are reached by
//! descriptor (held by `the_file_is_whole_and_has_its_mode`, `a_failure_keeps_the_old_file_and_leaves_nothing`,
//! `a_leftover_of_a_crash_is_replaced`).

#![expect(clippy::disallowed_methods, reason = "the owner of durable file writes")]

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::durable;

/// How a file is replaced.
#[derive(Clone, Copy, Debug)]
pub struct AtomicFile {
    mode: u32,
    is_synced: bool,
    has_single_writer: bool,
}

/// What is about to be done, for tests that make it fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteStep {
    /// The file beside is created.
    Create,
    /// The bytes are written to it.
    Write,
    /// It is synced.
    Sync,
    /// It gets its name.
    Rename,
    /// The directory is synced.
    SyncDir,
}

impl AtomicFile {
    /// A file that is on the disk when the write returns.
    #[must_use]
    pub const fn durable(mode: u32) -> Self {
        Self { mode, is_synced: true, has_single_writer: false }
    }

    /// A file that may be lost in a power cut, because it can be made again.
    #[must_use]
    pub const fn cached(mode: u32) -> Self {
        Self { mode, is_synced: false, has_single_writer: false }
    }

    /// The same for a caller that holds a lock against other writers: the file beside always has the same name, so that a
    /// crash leaves at most one, and the next write replaces it.
    #[must_use]
    pub const fn single_writer(mut self) -> Self {
        self.has_single_writer = true;
        self
    }

    /// Replaces a file; its directory must be there.
    ///
    /// # Errors
    /// Fails when it cannot be written; the old file then stays.
    pub fn write(self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        self.write_with(path, bytes, &mut |_| Ok(()))
    }

    /// The same, and `before` is called before each step and may fail in its place.
    ///
    /// # Errors
    /// Fails when it cannot be written; the old file then stays.
    pub fn write_with(
        self,
        path: &Path,
        bytes: &[u8],
        before: &mut dyn FnMut(WriteStep) -> io::Result<()>,
    ) -> io::Result<()> {
        let beside = self.path_beside(path);
        if self.has_single_writer {
            remove_leftover(&beside)?;
        }
        before(WriteStep::Create)?;
        let mut file = OpenOptions::new().write(true).create_new(true).mode(self.mode).open(&beside)?;
        let written = self.fill((&mut file, &beside), bytes, before).and_then(|()| {
            before(WriteStep::Rename)?;
            std::fs::rename(&beside, path)
        });
        if written.is_err() {
            // The rest of a failed write is useless.
            let _ = std::fs::remove_file(&beside);
            return written;
        }
        if self.is_synced {
            before(WriteStep::SyncDir)?;
            durable::sync_parent(path)?;
        }
        Ok(())
    }

    fn fill(
        self,
        (file, path): (&mut File, &Path),
        bytes: &[u8],
        before: &mut dyn FnMut(WriteStep) -> io::Result<()>,
    ) -> io::Result<()> {
        before(WriteStep::Write)?;
        file.write_all(bytes)?;
        // What was asked for may be more than the mask of the process leaves.
        file.set_permissions(Permissions::from_mode(self.mode))?;
        if self.is_synced {
            before(WriteStep::Sync)?;
            durable::sync_file(file, path)?;
        }
        Ok(())
    }

    fn path_beside(self, path: &Path) -> PathBuf {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let mut name = path.file_name().unwrap_or_default().to_owned();
        if !self.has_single_writer {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            name.push(format!(".{}-{count}", std::process::id()));
        }
        name.push(".new");
        path.with_file_name(name)
    }
}

fn remove_leftover(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(dir).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn the_file_is_whole_and_has_its_mode() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        for kind in [
            AtomicFile::durable(0o644),
            AtomicFile::cached(0o644),
            AtomicFile::durable(0o644).single_writer(),
        ] {
            std::fs::write(&path, "old").unwrap();
            kind.write(&path, b"new").unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), b"new");
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o644);
            assert_eq!(names(dir.path()), ["a"]);
        }
    }

    #[test]
    fn a_failure_keeps_the_old_file_and_leaves_nothing() {
        use WriteStep::{Create, Rename, Sync, SyncDir, Write};
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        for failing in [Create, Write, Sync, Rename, SyncDir] {
            std::fs::write(&path, "old").unwrap();
            let mut fail = |step| if step == failing { Err(io::Error::other("full")) } else { Ok(()) };
            AtomicFile::durable(0o600).write_with(&path, b"new", &mut fail).unwrap_err();
            // Once it has its name it is the new one, durable or not.
            let expected: &[u8] = if failing == SyncDir { b"new" } else { b"old" };
            assert_eq!(std::fs::read(&path).unwrap(), expected, "{failing:?}");
            assert_eq!(names(dir.path()), ["a"], "{failing:?}");
        }
    }

    #[test]
    fn a_leftover_of_a_crash_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(dir.path().join("a.new"), "half").unwrap();
        AtomicFile::durable(0o600).single_writer().write(&path, b"new").unwrap();
        assert_eq!(names(dir.path()), ["a"]);
    }
}
