//! A commit or a directory in, a staged tree out: written by zagent, hashed while it is written, not trusted yet.
//!
//! Law: every file of the cache is staged here, and both sources follow the same rules. A directory is created
//! before its entries and symlinks are created last, so nothing is ever written through a symlink. A dropped tree
//! leaves nothing behind (held by `no_hostile_tree_is_published`, `no_hostile_directory_is_published`).

mod staged_files;
mod tree_writer;

use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use zagent_config::ids::Revision;

use crate::commit_tree::BlobSink;
use crate::generation::TREE;
use crate::lock::CacheLock;
use crate::record::{self, TreeFileStamp};
use crate::tree_listing::{ListingEntry, TreeListing, join_path};
use crate::{
    Cache, CacheError, CommitTree, Generation, JudgedCommit, ObjectStore, Refusal, RepositoryError, disk,
    path_names,
};
use zagent_config::sorted::CollectSorted;

pub(crate) use self::staged_files::StagedFiles;
use self::tree_writer::{TreeWriter, WantedFile};

/// Maximum number of warnings per kind and tree.
const MAX_WARNINGS: usize = 5;

/// A tree on its way into the cache: complete, but not verified.
#[derive(Debug)]
#[must_use = "a staged tree is deleted unless it is verified and published"]
pub struct StagedRevision(pub(crate) StagedTree);

/// A tree in the staging directory and its metadata.
#[derive(Debug)]
pub(crate) struct StagedTree {
    pub(crate) cache: Cache,
    pub(crate) staging_dir: StagingDir,
    pub(crate) revision: String,
    /// The raw bytes of the commit; `None` for a directory.
    pub(crate) commit: Option<Vec<u8>>,
    pub(crate) parents: Vec<String>,
    pub(crate) committed: Option<Timestamp>,
    pub(crate) written: StagedFiles,
    /// The current generation, which shares its files with the tree.
    pub(crate) current: Option<Generation>,
    /// Held until it is published or dropped; the last field, so that the directory is removed before others may enter.
    pub(crate) _lock: CacheLock,
}

/// A directory of a tree that is not published yet: below the staging directory, then at its final place. Removed when
/// dropped, unless it became a generation.
#[derive(Debug)]
pub(crate) struct StagingDir {
    path: PathBuf,
    /// The generation that it becomes, once it is at its final place.
    name: Option<String>,
    kept: bool,
}

impl StagingDir {
    /// A new one; with a tree in it that was spared, if there is one.
    fn new(staging: &Path, spare: Option<&Path>) -> Result<Self, CacheError> {
        disk::make_dirs(staging)?;
        let taken = |n: &u32| fs::symlink_metadata(staging.join(n.to_string())).is_ok();
        let n = (0..).find(|n| !taken(n)).unwrap_or(0);
        let place = Self { path: staging.join(n.to_string()), name: None, kept: false };
        disk::make_dir(&place.path)?;
        let tree = place.path.join(TREE);
        let is_spared = spare.is_some_and(|spare| spare.is_dir() && disk::rename(spare, &tree).is_ok());
        if !is_spared || !is_own_dir(&tree) {
            disk::remove_all(&tree)?;
            disk::make_dir(&tree)?;
        }
        Ok(place)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// True when it is at its final place.
    pub(crate) const fn is_placed(&self) -> bool {
        self.name.is_some()
    }

    /// It was moved to its final place, as the generation with this name.
    pub(crate) fn set_placed(&mut self, path: PathBuf, name: String) {
        (self.path, self.name) = (path, Some(name));
    }

    /// It is a generation now, with the returned name, and stays.
    pub(crate) fn keep(&mut self) -> String {
        self.kept = true;
        self.name.clone().unwrap_or_default()
    }
}

impl Drop for StagingDir {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        // The next repair removes what stays.
        if let Err(error) = disk::remove_all(&self.path) {
            tracing::warn!(%error, "cannot remove a staged tree");
        }
    }
}

/// True for a directory that only the agent's user can enter.
fn is_own_dir(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|meta| {
        meta.is_dir() && meta.mode() & 0o7777 == 0o700 && meta.uid() == rustix::process::geteuid().as_raw()
    })
}

pub use zagent_config::ids::DIR_PREFIX;

impl StagedRevision {
    /// The commit, or `dir:` and a digest.
    #[must_use]
    pub fn revision(&self) -> &str {
        &self.0.revision
    }

    /// Names a directory by the digest that its source computed, so that a poll can detect a change.
    pub fn with_fingerprint(mut self, fingerprint: &Revision) -> Self {
        if self.0.commit.is_none() {
            self.0.revision = format!("{DIR_PREFIX}{fingerprint}");
        }
        self
    }

    /// When the commit was made.
    #[must_use]
    pub fn commit_time(&self) -> Option<Timestamp> {
        self.0.committed
    }
}

impl Cache {
    /// Writes the tree of a commit of the store into the staging directory.
    ///
    /// # Errors
    /// Fails when the tree is refused or cannot be read or written.
    pub fn stage_commit(
        &self,
        store: &ObjectStore,
        commit: &JudgedCommit,
    ) -> Result<StagedRevision, CacheError> {
        self.stage_tree(&store.read_tree(commit.revision(), self.limits())?)
    }

    /// Writes the tree of a commit into the staging directory.
    ///
    /// # Errors
    /// Fails when the tree is refused or cannot be read or written.
    pub fn stage_tree(&self, tree: &CommitTree) -> Result<StagedRevision, CacheError> {
        if let Some(path) = tree.submodules().first() {
            return Err(RepositoryError::Submodule { path: path.clone() }.into());
        }
        let lock = self.lock()?;
        let current = self.current().ok().flatten();
        let spare = current.as_ref().map(|_| self.paths().spare_tree());
        let place = StagingDir::new(&self.paths().staging(), spare.as_deref())?;
        let mut copy = tree.blob_copier()?;
        let written = write_tree(
            &place.path().join(TREE),
            tree.listing(),
            current.as_ref(),
            &|file| WantedFile { executable: file.executable, blob: Some(file.id) },
            &mut |path, file, sink| copy(path, file, sink).map_err(CacheError::from),
        )?;
        let staged = StagedTree {
            cache: self.clone(),
            staging_dir: place,
            revision: tree.commit_id().to_owned(),
            commit: Some(tree.commit_bytes().to_vec()),
            parents: tree.parents().to_vec(),
            committed: tree.commit_time(),
            written,
            current,
            _lock: lock,
        };
        finish_staging(staged)
    }

    /// Copies a plain directory into the staging directory, without `.git`.
    ///
    /// # Errors
    /// Fails when its content is refused, cannot be read or written, or changes during the copy.
    pub fn stage_dir(&self, dir: &Path) -> Result<StagedRevision, CacheError> {
        let lock = self.lock()?;
        let place = StagingDir::new(&self.paths().staging(), None)?;
        let mut listing = TreeListing::new(self.limits());
        scan_dir(dir, "", &mut listing)?;
        listing.check_links()?;
        let limit = self.limits().bytes;
        let written = write_tree(
            &place.path().join(TREE),
            &listing,
            None,
            &|file: &ListedFile| WantedFile { executable: file.executable, blob: None },
            &mut |path, file, sink| copy_listed(&dir.join(path), path, file, limit, sink),
        )?;
        check_unchanged(dir, &listing)?;
        let revision = format!("{DIR_PREFIX}{}", record::content_digest(&written.dirs, &written.files));
        let staged = StagedTree {
            cache: self.clone(),
            staging_dir: place,
            revision,
            commit: None,
            parents: Vec::new(),
            committed: None,
            written,
            current: self.current().ok().flatten(),
            _lock: lock,
        };
        finish_staging(staged)
    }
}

fn finish_staging(staged: StagedTree) -> Result<StagedRevision, CacheError> {
    if staged.written.files.is_empty() {
        return Err(Refusal::Empty { revision: staged.revision }.into());
    }
    disk::failpoint("stage::done").map_err(disk::io_error("stage", staged.staging_dir.path()))?;
    Ok(StagedRevision(staged))
}

/// Writes every entry of a listing below `root`.
fn write_tree<F>(
    root: &Path,
    listing: &TreeListing<F>,
    shared: Option<&Generation>,
    describe: &dyn Fn(&F) -> WantedFile,
    copy: &mut dyn FnMut(&str, &F, BlobSink<'_>) -> Result<(), CacheError>,
) -> Result<StagedFiles, CacheError> {
    for (one, other) in listing.case_collisions().into_iter().take(MAX_WARNINGS) {
        tracing::warn!(one, other, "two names differ only in case");
    }
    let mut written = TreeWriter::new(root, listing, shared, describe, copy).write()?;
    if written.manifest.is_some() {
        written.resolved_files =
            listing.files_below("")?.into_iter().map(|(path, (real, _))| (path, real)).into_map();
        written.broken_links = listing.broken_links()?;
    }
    Ok(written)
}

/// A file of a plain directory, as it was when it was listed.
struct ListedFile {
    executable: bool,
    stamp: TreeFileStamp,
}

/// Lists a directory; names and kinds are checked before anything is opened.
fn scan_dir(root: &Path, below: &str, listing: &mut TreeListing<ListedFile>) -> Result<(), CacheError> {
    let dir = root.join(below);
    let failed = |error| disk::io_error("read the directory", &dir)(error);
    let mut entries = fs::read_dir(&dir).map_err(failed)?.collect::<io::Result<Vec<_>>>().map_err(failed)?;
    zagent_config::sorted::sort_by_key(&mut entries, fs::DirEntry::file_name);
    for entry in entries {
        if entry.file_name() == ".git" {
            continue;
        }
        let name = path_names::check_component(entry.file_name().as_bytes(), below)?;
        let (path, place) = (join_path(below, &name), entry.path());
        let meta = fs::symlink_metadata(&place).map_err(disk::io_error("stat", &place))?;
        let kind = meta.file_type();
        if kind.is_dir() {
            listing.add(path.clone(), ListingEntry::Dir)?;
            scan_dir(root, &path, listing)?;
        } else if kind.is_symlink() {
            let target = fs::read_link(&place).map_err(disk::io_error("read the symlink", &place))?;
            let target = path_names::check_target(target.as_os_str().as_bytes(), &path)?.to_owned();
            listing.add(path, ListingEntry::Link(target))?;
        } else if kind.is_file() {
            let limit = listing.limits().bytes;
            if meta.len() > limit {
                return Err(RepositoryError::TooLarge { path, size: meta.len(), limit }.into());
            }
            let executable = meta.mode() & 0o111 != 0;
            listing.add(
                path,
                ListingEntry::File(ListedFile { executable, stamp: TreeFileStamp::from_metadata(&meta) }),
            )?;
        } else {
            return Err(RepositoryError::Special { path, kind: special_kind(kind) }.into());
        }
    }
    Ok(())
}

fn special_kind(kind: fs::FileType) -> &'static str {
    match kind {
        kind if kind.is_fifo() => "pipe",
        kind if kind.is_socket() => "socket",
        _ => "device",
    }
}

/// Copies one file, which must be the same file that was listed.
fn copy_listed(
    place: &Path,
    path: &str,
    file: &ListedFile,
    limit: u64,
    sink: BlobSink<'_>,
) -> Result<(), CacheError> {
    let failed = |error| disk::io_error("read", place)(error);
    let (open, meta) = disk::open_nofollow(place).map_err(failed)?;
    if TreeFileStamp::from_metadata(&meta) != file.stamp {
        return Err(CacheError::SourceChanged { path: place.into() });
    }
    let (mut from, mut chunk, mut size) = (open.take(limit + 1), vec![0; 64 << 10], 0);
    loop {
        let read = from.read(&mut chunk).map_err(failed)?;
        size += read as u64;
        match read {
            _ if size > limit => {
                return Err(RepositoryError::TooLarge { path: path.into(), size, limit }.into());
            }
            0 => return Ok(()),
            n => sink(&chunk[..n]).map_err(|source| RepositoryError::Copy { path: path.into(), source })?,
        }
    }
}

/// Fails when a file changed after it was listed: half of an edit must not be published.
fn check_unchanged(root: &Path, listing: &TreeListing<ListedFile>) -> Result<(), CacheError> {
    let mut now = TreeListing::new(listing.limits());
    scan_dir(root, "", &mut now)?;
    let differs = |one: &ListingEntry<ListedFile>, other: &ListingEntry<ListedFile>| match (one, other) {
        (ListingEntry::File(one), ListingEntry::File(other)) => one.stamp != other.stamp,
        (ListingEntry::Link(one), ListingEntry::Link(other)) => one != other,
        (ListingEntry::Dir, ListingEntry::Dir) => false,
        _ => true,
    };
    let mut pairs = listing.nodes().zip(now.nodes());
    let moved = pairs.find(|((path, one), (other_path, other))| path != other_path || differs(one, other));
    let same_count = listing.nodes().count() == now.nodes().count();
    match moved {
        Some(((path, _), _)) => Err(CacheError::SourceChanged { path: root.join(path) }),
        None if !same_count => Err(CacheError::SourceChanged { path: root.into() }),
        None => Ok(()),
    }
}
