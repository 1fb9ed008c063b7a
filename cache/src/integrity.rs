//! A generation on disk in, a verdict out: is it still what was published?
//!
//! Law: everything is checked. The quick check reads only files whose metadata changed; changed files are hashed,
//! and a full check hashes every file. An extra or a missing file fails the check like a modified one (held by
//! `every_modification_is_detected`, `an_unmodified_copy_is_accepted`).

use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::generation::{RECORD, TREE};
use crate::record::{FileRecord, TreeFileStamp};
use crate::tree_listing::join_path;
use crate::{Generation, TamperError, disk};

/// How thorough the check is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckDepth {
    /// Checks metadata, and content only where the metadata changed.
    Quick,
    /// Checks every byte.
    Full,
}

impl Generation {
    /// Compares the tree with its record.
    ///
    /// # Errors
    /// Fails with the first file that differs, is missing, or is one too many.
    pub fn check(&self, depth: CheckDepth) -> Result<(), TamperError> {
        let mut look = IntegrityCheck {
            generation: self,
            depth,
            user: rustix::process::geteuid().as_raw(),
            files: 0,
            dirs: 0,
        };
        look.check_root()?;
        look.check_dir(self.tree_dir(), "", &self.record().dirs.iter().map(String::as_str).collect())?;
        look.check_missing()
    }
}

struct IntegrityCheck<'g> {
    generation: &'g Generation,
    depth: CheckDepth,
    user: u32,
    files: usize,
    dirs: usize,
}

impl IntegrityCheck<'_> {
    fn tamper_error(&self, path: &str, what: &'static str) -> TamperError {
        TamperError { generation: self.generation.name().into(), path: path.into(), what }
    }

    /// The directory contains the tree, its record, and nothing else.
    fn check_root(&self) -> Result<(), TamperError> {
        let names = disk::list_names(self.generation.root_dir())
            .map_err(|_| self.tamper_error(".", "cannot be read"))?;
        match names.iter().find(|name| *name != TREE && *name != RECORD) {
            Some(extra) => Err(self.tamper_error(extra, "is an unexpected file")),
            None => Ok(()),
        }
    }

    fn check_dir(&mut self, dir: &Path, below: &str, known: &BTreeSet<&str>) -> Result<(), TamperError> {
        let shown = if below.is_empty() { "." } else { below };
        let meta = fs::symlink_metadata(dir).map_err(|e| self.tamper_error(shown, io_problem(&e)))?;
        if !meta.is_dir() {
            return Err(self.tamper_error(shown, "is no longer a directory"));
        }
        self.check_owner(shown, &meta)?;
        if meta.mode() & 0o777 != 0o700 {
            return Err(self.tamper_error(shown, "has a different mode"));
        }
        let entries = fs::read_dir(dir).map_err(|e| self.tamper_error(shown, io_problem(&e)))?;
        for entry in entries {
            let entry = entry.map_err(|e| self.tamper_error(shown, io_problem(&e)))?;
            let name = entry.file_name();
            let path = join_path(below, &name.to_string_lossy());
            if let Some(file_record) = self.generation.record().files.get(&path) {
                self.files += 1;
                self.check_file(&entry.path(), &path, file_record)?;
            } else if known.contains(path.as_str()) {
                self.dirs += 1;
                self.check_dir(&entry.path(), &path, known)?;
            } else {
                return Err(self.tamper_error(&path, "is an unexpected file"));
            }
        }
        Ok(())
    }

    fn check_file(&self, place: &Path, path: &str, file_record: &FileRecord) -> Result<(), TamperError> {
        let meta = fs::symlink_metadata(place).map_err(|e| self.tamper_error(path, io_problem(&e)))?;
        let untouched = meta.size() == file_record.size
            && meta.mode() == file_record.mode
            && TreeFileStamp::from_metadata(&meta) == file_record.stamp;
        if untouched && self.depth == CheckDepth::Quick {
            return Ok(());
        }
        self.check_owner(path, &meta)?;
        if meta.mode() != file_record.mode {
            return Err(self.tamper_error(path, "has a different type or mode"));
        }
        if meta.size() != file_record.size {
            return Err(self.tamper_error(path, "has a different size"));
        }
        let digest = if file_record.is_link() { digest_link(place) } else { digest_file(place) };
        match digest {
            Ok(digest) if digest.to_hex().as_str() == file_record.blake3 => Ok(()),
            Ok(_) => Err(self.tamper_error(path, "has different content")),
            Err(error) => Err(self.tamper_error(path, io_problem(&error))),
        }
    }

    fn check_owner(&self, path: &str, meta: &Metadata) -> Result<(), TamperError> {
        if meta.uid() == self.user { Ok(()) } else { Err(self.tamper_error(path, "belongs to another user")) }
    }

    /// There is no extra file; this finds missing ones.
    fn check_missing(&self) -> Result<(), TamperError> {
        let record = self.generation.record();
        if self.files == record.files.len() && self.dirs == record.dirs.len() {
            return Ok(());
        }
        let mut paths = record.dirs.iter().chain(record.files.keys());
        let gone = paths.find(|path| fs::symlink_metadata(self.generation.tree_dir().join(path)).is_err());
        Err(self.tamper_error(gone.map_or(".", String::as_str), "is missing"))
    }
}

fn digest_link(place: &Path) -> io::Result<blake3::Hash> {
    fs::read_link(place).map(|target| blake3::hash(target.as_os_str().as_bytes()))
}

fn digest_file(place: &Path) -> io::Result<blake3::Hash> {
    let (file, _) = disk::open_nofollow(place)?;
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(file)?;
    Ok(hasher.finalize())
}

fn io_problem(error: &io::Error) -> &'static str {
    if error.kind() == io::ErrorKind::NotFound { "is missing" } else { "cannot be read" }
}
