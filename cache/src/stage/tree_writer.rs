//! A listing in, its files on the disk out: written, or shared with the current generation.
//!
//! A file of the current generation that the commit names with the same Git object is given a second name instead of
//! being read and written again. Its stamp says that nobody touched it since its content was compared; else its content
//! is compared now. What differs is written from the repository, so that damage of one generation does not spread to the
//! next. In the tree of a removed generation, which serves as a spare, most names are right already: such a name is one of
//! the very file that would be linked, as the number of its inode shows, and is left alone.
//!
//! Why not a reflink: its inode is a new one, which costs as much as a small file, and the spare tree could not be
//! compared by inode. What a shared inode costs is that damage of a file is damage of all generations with that file.
//! The check before a run finds it, and the file is then written again from the repository.
//!
//! Law: a name in the spare tree is kept only if it is the checked file itself; everything else in it is removed
//! (held by `a_spare_tree_is_believed_in_nothing`, `damage_does_not_spread_to_the_next_generation`).

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use gix::ObjectId;
use rustix::fs::{AtFlags, FileType, fstat, linkat};
use rustix::io::Errno;
use zagent_config::manifest;
use zagent_config::paths::tree::MANIFEST;

use super::StagedFiles;
use crate::commit_tree::BlobSink;
use crate::dir_entries::{EntriesByDir, each_name, open_dir, open_dir_at, stat_at};
use crate::integrity::{KnownFile, check_owner};
use crate::record::{FileRecord, TreeFileStamp};
use crate::tree_listing::{ListingEntry, TreeListing, join_path};
use crate::{CacheError, CheckDepth, Generation, RepositoryError, disk, stamps};
use std::fs;

/// What a file of a listing becomes.
pub(super) struct WantedFile {
    pub(super) executable: bool,
    /// The Git object with its content; without one it is always written.
    pub(super) blob: Option<ObjectId>,
}

/// Gives the content of a file, piece by piece.
type CopyFile<'w, F> = &'w mut dyn FnMut(&str, &F, BlobSink<'_>) -> Result<(), CacheError>;

/// A tree that is being written.
pub(super) struct TreeWriter<'w, F> {
    root: &'w Path,
    listing: &'w TreeListing<F>,
    known: EntriesByDir<'w, WantedEntry<'w, F>>,
    describe: &'w dyn Fn(&F) -> WantedFile,
    copy: CopyFile<'w, F>,
    /// The tree of the current generation.
    shared: Option<&'w Path>,
    written: StagedFiles,
    /// Symlinks are created last.
    links: Vec<(&'w str, &'w str)>,
}

/// An entry of the listing, and the file of the current generation with the same path.
struct WantedEntry<'w, F> {
    path: &'w str,
    entry: &'w ListingEntry<F>,
    shared: Option<SharedFile<'w>>,
}

impl<F> Clone for WantedEntry<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for WantedEntry<'_, F> {}

/// A file of the current generation.
#[derive(Clone, Copy)]
struct SharedFile<'w> {
    record: &'w FileRecord,
    stamp: TreeFileStamp,
}

/// The files of the current generation that are still to come, sorted by path.
struct SharedFiles<'w> {
    files: std::iter::Peekable<std::collections::btree_map::Iter<'w, String, FileRecord>>,
    stamps: std::vec::IntoIter<TreeFileStamp>,
}

/// The names of a directory of the spare tree: their types and inodes.
type SpareNames = HashMap<OsString, (FileType, u64)>;

impl<'w, F> TreeWriter<'w, F> {
    pub(super) fn new(
        root: &'w Path,
        listing: &'w TreeListing<F>,
        shared: Option<&'w Generation>,
        describe: &'w dyn Fn(&F) -> WantedFile,
        copy: CopyFile<'w, F>,
    ) -> Self {
        let mut files = shared.map(SharedFiles::new);
        let known = listing.nodes().map(|(path, entry)| {
            let shared = files.as_mut().and_then(|files| files.find(path));
            (path, WantedEntry { path, entry, shared })
        });
        let known = EntriesByDir::group(known);
        Self {
            root,
            listing,
            known,
            describe,
            copy,
            shared: shared.map(Generation::tree_dir),
            written: StagedFiles::default(),
            links: Vec::new(),
        }
    }

    /// Writes everything below the root, which exists.
    pub(super) fn write(mut self) -> Result<StagedFiles, CacheError> {
        let root = open_dir(self.root).map_err(disk::io_error("open the directory", self.root))?;
        let shared = self.shared.and_then(|shared| open_dir(shared).ok());
        self.write_dir("", &root, shared.as_ref())?;
        for (path, target) in std::mem::take(&mut self.links) {
            let place = self.root.join(path);
            if !fs::read_link(&place).is_ok_and(|found| found.as_os_str() == target) {
                disk::make_link(target, &place)?;
                self.written.note_name(path);
            }
            let meta = fs::symlink_metadata(&place).map_err(disk::io_error("stat", &place))?;
            let record = FileRecord::new(&blake3::hash(target.as_bytes()), &meta);
            self.written.files.insert(path.to_owned(), record);
        }
        self.written.dirs.sort_unstable();
        Ok(self.written)
    }

    fn write_dir(&mut self, dir: &str, place: &OwnedFd, shared: Option<&OwnedFd>) -> Result<(), CacheError> {
        let at = self.root.join(dir);
        let mut spare = spare_names(place).map_err(disk::io_error("read the directory", &at))?;
        let wanted = self.known.children(dir).to_vec();
        for (name, wanted) in wanted {
            let (found, path) = (spare.remove(OsStr::new(name)), wanted.path);
            match wanted.entry {
                ListingEntry::Dir => {
                    let inner = self.enter_dir(path, (place, name), found)?;
                    self.written.dirs.push(path.to_owned());
                    let below = shared.and_then(|shared| open_dir_at(shared.as_fd(), name).ok());
                    self.write_dir(path, &inner, below.as_ref())?;
                }
                ListingEntry::File(file) => {
                    let shared = shared.zip(wanted.shared);
                    self.add_file((path, file), (place, name), shared, found)?;
                }
                ListingEntry::Link(target) => self.note_link(path, target, found)?,
            }
        }
        for name in spare.keys() {
            self.written.note_name(&join_path(dir, &name.to_string_lossy()));
            disk::remove_all(&at.join(name))?;
        }
        Ok(())
    }

    /// A directory of the spare tree if it is one that zagent could have made, else a new one.
    fn enter_dir(
        &mut self,
        path: &str,
        (place, name): (&OwnedFd, &str),
        found: Option<(FileType, u64)>,
    ) -> Result<OwnedFd, CacheError> {
        let at = self.root.join(path);
        if found.is_some() {
            if let Ok(inner) = open_dir_at(place.as_fd(), name)
                && fstat(&inner)
                    .is_ok_and(|meta| meta.st_mode & 0o7777 == 0o700 && check_owner(&meta).is_ok())
            {
                return Ok(inner);
            }
            disk::remove_all(&at)?;
        }
        disk::make_dir(&at)?;
        self.written.note_name(path);
        self.written.changed_dirs.insert(path.to_owned());
        open_dir_at(place.as_fd(), name).map_err(disk::io_error("open the directory", &at))
    }

    /// Links a file of the current generation, or writes it.
    fn add_file(
        &mut self,
        (path, file): (&'w str, &'w F),
        (place, name): (&OwnedFd, &str),
        shared: Option<(&OwnedFd, SharedFile<'w>)>,
        found: Option<(FileType, u64)>,
    ) -> Result<(), CacheError> {
        let wanted = (self.describe)(file);
        let limits = self.listing.limits();
        let usable = shared.and_then(|(dir, SharedFile { record, stamp })| {
            if !can_share(path, record, &wanted) || record.size > limits.bytes {
                return None;
            }
            let check = KnownFile { dir: dir.as_fd(), name, file: record, stamp };
            Some((dir, record, check.check(CheckDepth::Quick).ok()?))
        });
        if let Some((dir, record, stamp)) = usable
            && self.written.total.saturating_add(record.size) <= limits.total
        {
            let kept = matches!(found, Some((kind, inode)) if inode == stamp.inode && !kind.is_dir());
            let shared =
                if kept { Some(stamp) } else { self.link_file(path, (dir, place, name), found, stamp)? };
            if let Some(stamp) = shared {
                self.written.total += record.size;
                self.written.files.insert(path.to_owned(), FileRecord { stamp, ..record.clone() });
                return Ok(());
            }
        } else if found.is_some() {
            disk::remove_all(&self.root.join(path))?;
        }
        self.written.note_name(path);
        let mode = if wanted.executable { 0o700 } else { 0o600 };
        let copy = &mut self.copy;
        let copy = |sink: BlobSink<'_>| copy(path, file, sink);
        self.written.write_file(&self.root.join(path), path, mode, limits.total, copy)?;
        if let Some(record) = self.written.files.get_mut(path) {
            record.blob = wanted.blob.map(|blob| blob.to_string());
        }
        Ok(())
    }

    /// Gives a checked file a name in the new tree; `None` when the file system refuses another one.
    fn link_file(
        &mut self,
        path: &str,
        (from, to, name): (&OwnedFd, &OwnedFd, &str),
        found: Option<(FileType, u64)>,
        known: TreeFileStamp,
    ) -> Result<Option<TreeFileStamp>, CacheError> {
        let at = self.root.join(path);
        if found.is_some() {
            disk::remove_all(&at)?;
        }
        disk::failpoint("disk::hardlink").map_err(disk::io_error("create the hard link", &at))?;
        match linkat(from, name, to, name, AtFlags::empty()) {
            Ok(()) => {}
            Err(Errno::MLINK | Errno::XDEV | Errno::PERM | Errno::OPNOTSUPP) => return Ok(None),
            Err(error) => return Err(disk::io_error("create the hard link", &at)(error.into())),
        }
        self.written.note_name(path);
        let meta = stat_at(to.as_fd(), name).map_err(disk::io_error("stat", &at))?;
        let stamp = TreeFileStamp::from_stat(&meta);
        // A new name moves the change time. Anything else is another file, or somebody wrote to it.
        if stamp == (TreeFileStamp { changed: stamp.changed, ..known }) {
            return Ok(Some(stamp));
        }
        disk::remove_file(&at)?;
        Ok(None)
    }

    fn note_link(
        &mut self,
        path: &'w str,
        target: &'w str,
        found: Option<(FileType, u64)>,
    ) -> Result<(), CacheError> {
        if path == MANIFEST || manifest::is_signature(path) {
            let why = "the manifest and its signatures must be regular files";
            return Err(RepositoryError::Target { path: path.into(), why }.into());
        }
        let at = self.root.join(path);
        if found.is_some() && !fs::read_link(&at).is_ok_and(|found| found.as_os_str() == target) {
            disk::remove_all(&at)?;
        }
        self.links.push((path, target));
        Ok(())
    }
}

impl<'w> SharedFiles<'w> {
    fn new(generation: &'w Generation) -> Self {
        let stamps = stamps::load(generation).into_iter();
        Self { files: generation.record().files.iter().peekable(), stamps }
    }

    /// The file with this path, which comes after all that were asked for before.
    fn find(&mut self, path: &str) -> Option<SharedFile<'w>> {
        while let Some((found, record)) = self.files.next_if(|(found, _)| found.as_str() <= path) {
            let stamp = self.stamps.next()?;
            if found == path {
                return Some(SharedFile { record, stamp });
            }
        }
        None
    }
}

/// True when a file of the current generation has the wanted content and mode.
fn can_share(path: &str, record: &FileRecord, wanted: &WantedFile) -> bool {
    let known = record.blob.as_ref().and_then(|blob| ObjectId::from_hex(blob.as_bytes()).ok());
    known.is_some()
        && known == wanted.blob
        && !record.is_link()
        && record.is_executable() == wanted.executable
        // What they say is read while they are written.
        && path != MANIFEST
        && !manifest::is_signature(path)
}

/// The names in a directory; none in a new one.
fn spare_names(dir: &OwnedFd) -> std::io::Result<SpareNames> {
    let mut names = SpareNames::new();
    each_name(dir, |name, kind, inode| {
        names.insert(OsStr::from_bytes(name.to_bytes()).to_owned(), (kind, inode));
    })?;
    Ok(names)
}
