//! A generation on disk in, a verdict out: is it still what was published?
//!
//! Law: everything is checked. The quick check reads only files whose metadata changed; changed files are hashed,
//! and a full check hashes every file. An extra or a missing file fails the check like a modified one (held by
//! `every_modification_is_detected`, `an_unmodified_copy_is_accepted`).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, Stat, fstat, openat, readlinkat};
use rustix::io::Errno;

use crate::dir_entries::{EntriesByDir, each_name, open_dir, open_dir_at, stat_at};
use crate::generation::{RECORD, TREE};
use crate::record::{FileRecord, TreeFileStamp};
use crate::tree_listing::join_path;
use crate::{Generation, TamperError, disk, stamps};

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
        let record = self.record();
        let files = record.files.iter().enumerate();
        let files = files.map(|(number, (path, file))| (path.as_str(), Known::File(number, file)));
        let dirs = record.dirs.iter().map(|path| (path.as_str(), Known::Dir));
        let mut look = IntegrityCheck {
            generation: self,
            depth,
            known: &EntriesByDir::group(dirs.chain(files)),
            stamps: stamps::load(self),
            is_moved: false,
        };
        look.check_root()?;
        let tree = open_dir(self.tree_dir()).map_err(|error| look.dir_error(".", &error))?;
        look.check_dir(&tree, "")?;
        if look.is_moved && self.is_current() {
            stamps::save(self, &look.stamps);
        }
        Ok(())
    }
}

/// An entry of the record.
enum Known<'g> {
    Dir,
    /// With its place in the order of the record.
    File(usize, &'g FileRecord),
}

struct IntegrityCheck<'g> {
    generation: &'g Generation,
    depth: CheckDepth,
    known: &'g EntriesByDir<'g, Known<'g>>,
    /// By the order of the record.
    stamps: Vec<TreeFileStamp>,
    /// True when a stamp differed although the content is right.
    is_moved: bool,
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

    fn check_dir(&mut self, dir: &OwnedFd, below: &str) -> Result<(), TamperError> {
        let shown = if below.is_empty() { "." } else { below };
        let meta = fstat(dir).map_err(|error| self.tamper_error(shown, io_problem(&error.into())))?;
        check_owner(&meta).map_err(|what| self.tamper_error(shown, what))?;
        if meta.st_mode & 0o777 != 0o700 {
            return Err(self.tamper_error(shown, "has a different mode"));
        }
        let known = self.known;
        for (name, entry) in known.children(below) {
            let path = || join_path(below, name);
            match entry {
                Known::Dir => {
                    let inner = open_dir_at(dir.as_fd(), name);
                    let inner = inner.map_err(|error| self.dir_error(&path(), &error))?;
                    self.check_dir(&inner, &path())?;
                }
                Known::File(number, file) => {
                    let check = KnownFile { dir: dir.as_fd(), name, file, stamp: self.stamps[*number] };
                    let stamp = check.check(self.depth).map_err(|what| self.tamper_error(&path(), what))?;
                    self.is_moved |= stamp != self.stamps[*number];
                    self.stamps[*number] = stamp;
                }
            }
        }
        self.check_extra(dir, below)
    }

    /// Every known name is there: with the same number of names there is no other.
    fn check_extra(&self, dir: &OwnedFd, below: &str) -> Result<(), TamperError> {
        let known = self.known.children(below);
        let count = |found: &mut dyn FnMut(&str)| {
            each_name(dir, |name, _, _| found(&name.to_string_lossy()))
                .map_err(|error| self.tamper_error(below, io_problem(&error)))
        };
        let mut names = 0;
        count(&mut |_| names += 1)?;
        if names == known.len() {
            return Ok(());
        }
        let mut extra = None;
        rustix::fs::seek(dir, rustix::fs::SeekFrom::Start(0))
            .map_err(|error| self.tamper_error(below, io_problem(&error.into())))?;
        count(&mut |name| {
            if !known.iter().any(|(known, _)| *known == name) {
                extra = Some(join_path(below, name));
            }
        })?;
        match extra {
            Some(extra) => Err(self.tamper_error(&extra, "is an unexpected file")),
            None => Err(self.tamper_error(below, "changes while it is checked")),
        }
    }

    fn dir_error(&self, path: &str, error: &io::Error) -> TamperError {
        let is_other = error.kind() == io::ErrorKind::NotADirectory
            || error.raw_os_error() == Some(Errno::LOOP.raw_os_error());
        self.tamper_error(path, if is_other { "is no longer a directory" } else { io_problem(error) })
    }
}

/// A file or a symlink in an open directory, and what is known of it.
pub(crate) struct KnownFile<'k> {
    pub(crate) dir: BorrowedFd<'k>,
    pub(crate) name: &'k str,
    pub(crate) file: &'k FileRecord,
    pub(crate) stamp: TreeFileStamp,
}

impl KnownFile<'_> {
    /// Its stamp when it is as it was recorded, or what differs. The stamp was read before the content.
    pub(crate) fn check(&self, depth: CheckDepth) -> Result<TreeFileStamp, &'static str> {
        let meta = stat_at(self.dir, self.name).map_err(|error| io_problem(&error))?;
        let (stamp, size) =
            (TreeFileStamp::from_stat(&meta), u64::try_from(meta.st_size).unwrap_or_default());
        let same_size = size == self.file.size;
        if depth == CheckDepth::Quick && same_size && meta.st_mode == self.file.mode && stamp == self.stamp {
            return Ok(stamp);
        }
        check_owner(&meta)?;
        if meta.st_mode != self.file.mode {
            return Err("has a different type or mode");
        }
        if !same_size {
            return Err("has a different size");
        }
        let digest = if self.file.is_link() { self.digest_link() } else { self.digest_file() };
        match digest {
            Ok(digest) if digest.to_hex().as_str() == self.file.blake3 => Ok(stamp),
            Ok(_) => Err("has different content"),
            Err(error) => Err(io_problem(&error)),
        }
    }

    fn digest_link(&self) -> io::Result<blake3::Hash> {
        Ok(blake3::hash(readlinkat(self.dir, self.name, Vec::new())?.as_bytes()))
    }

    fn digest_file(&self) -> io::Result<blake3::Hash> {
        let how = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = std::fs::File::from(openat(self.dir, self.name, how, Mode::empty())?);
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(file)?;
        Ok(hasher.finalize())
    }
}

/// Fails when a file or directory belongs to somebody else.
pub(crate) fn check_owner(meta: &Stat) -> Result<(), &'static str> {
    let is_ours = meta.st_uid == rustix::process::geteuid().as_raw();
    if is_ours { Ok(()) } else { Err("belongs to another user") }
}

fn io_problem(error: &io::Error) -> &'static str {
    if error.kind() == io::ErrorKind::NotFound { "is missing" } else { "cannot be read" }
}
