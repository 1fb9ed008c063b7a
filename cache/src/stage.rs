//! A commit or a directory in, a staged tree out: written by zagent, hashed while it is written, not trusted yet.
//!
//! Law: every file of the cache is staged here, and both sources follow the same rules. A directory is created
//! before its entries and symlinks are created last, so nothing is ever written through a symlink. A dropped tree
//! leaves nothing behind (held by `no_hostile_tree_is_published`, `no_hostile_directory_is_published`).

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use zagent_config::ids::Revision;
use zagent_config::manifest;
use zagent_config::paths::tree::MANIFEST;

use crate::commit_tree::BlobSink;
use crate::generation::TREE;
use crate::lock::CacheLock;
use crate::record::{self, FileRecord, TreeFileStamp};
use crate::tree_listing::{ListingEntry, TreeListing, join_path};
use crate::{
    Cache, CacheError, CommitTree, JudgedCommit, ObjectStore, Refusal, RepositoryError, disk, path_names,
};
use zagent_config::sorted::CollectSorted;

/// Maximum number of signatures per manifest.
const MAX_SIGNATURES: usize = 32;
/// Maximum bytes per signature.
const MAX_SIGNATURE: usize = 64 << 10;
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
    /// Held until it is published or dropped; the last field, so that the directory is removed before others may enter.
    pub(crate) _lock: CacheLock,
}

/// What was written.
#[derive(Debug, Default)]
pub(crate) struct StagedFiles {
    pub(crate) dirs: Vec<String>,
    pub(crate) files: BTreeMap<String, FileRecord>,
    pub(crate) manifest: Option<Vec<u8>>,
    pub(crate) signatures: Vec<(String, Vec<u8>)>,
    /// With a manifest: every file as seen through symlinks, and its real path.
    pub(crate) resolved_files: BTreeMap<String, String>,
    /// With a manifest: symlinks that point to nothing.
    pub(crate) broken_links: Vec<String>,
    total: u64,
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
    fn new(staging: &Path) -> Result<Self, CacheError> {
        disk::make_dirs(staging)?;
        let taken = |n: &u32| fs::symlink_metadata(staging.join(n.to_string())).is_ok();
        let n = (0..).find(|n| !taken(n)).unwrap_or(0);
        let place = Self { path: staging.join(n.to_string()), name: None, kept: false };
        disk::make_dir(&place.path)?;
        disk::make_dir(&place.path.join(TREE))?;
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
        let place = StagingDir::new(&self.paths().staging())?;
        let mut copy = tree.blob_copier()?;
        let written = write_tree(
            &place.path().join(TREE),
            tree.listing(),
            |file| file.executable,
            |path, file, sink| copy(path, file, sink).map_err(CacheError::from),
        )?;
        let staged = StagedTree {
            cache: self.clone(),
            staging_dir: place,
            revision: tree.commit_id().to_owned(),
            commit: Some(tree.commit_bytes().to_vec()),
            parents: tree.parents().to_vec(),
            committed: tree.commit_time(),
            written,
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
        let place = StagingDir::new(&self.paths().staging())?;
        let mut listing = TreeListing::new(self.limits());
        scan_dir(dir, "", &mut listing)?;
        listing.check_links()?;
        let limit = self.limits().bytes;
        let copy = |path: &str, file: &ListedFile, sink: BlobSink<'_>| {
            copy_listed(&dir.join(path), path, file, limit, sink)
        };
        let written = write_tree(&place.path().join(TREE), &listing, |file| file.executable, copy)?;
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
    executable: impl Fn(&F) -> bool,
    mut copy: impl FnMut(&str, &F, BlobSink<'_>) -> Result<(), CacheError>,
) -> Result<StagedFiles, CacheError> {
    let mut written = StagedFiles::default();
    for (one, other) in listing.case_collisions().into_iter().take(MAX_WARNINGS) {
        tracing::warn!(one, other, "two names differ only in case");
    }
    for (path, node) in listing.nodes() {
        match node {
            ListingEntry::Dir => {
                disk::make_dir(&root.join(path))?;
                written.dirs.push(path.to_owned());
            }
            ListingEntry::File(file) => {
                let mode = if executable(file) { 0o700 } else { 0o600 };
                let copy = |sink: BlobSink<'_>| copy(path, file, sink);
                written.write_file(&root.join(path), path, mode, listing.limits().total, copy)?;
            }
            ListingEntry::Link(_) => {}
        }
    }
    for (path, node) in listing.nodes() {
        if let ListingEntry::Link(target) = node {
            if path == MANIFEST || manifest::is_signature(path) {
                return Err(RepositoryError::Target {
                    path: path.into(),
                    why: "the manifest and its signatures must be regular files",
                }
                .into());
            }
            let place = root.join(path);
            disk::make_link(target, &place)?;
            let meta = fs::symlink_metadata(&place).map_err(disk::io_error("stat", &place))?;
            written.files.insert(path.to_owned(), FileRecord::new(&blake3::hash(target.as_bytes()), &meta));
        }
    }
    if written.manifest.is_some() {
        written.resolved_files =
            listing.files_below("")?.into_iter().map(|(path, (real, _))| (path, real)).into_map();
        written.broken_links = listing.broken_links()?;
    }
    Ok(written)
}

impl StagedFiles {
    /// Writes one file with the pieces that `copy` gives.
    fn write_file(
        &mut self,
        place: &Path,
        path: &str,
        mode: u32,
        limit: u64,
        copy: impl FnOnce(BlobSink<'_>) -> Result<(), CacheError>,
    ) -> Result<(), CacheError> {
        disk::failpoint("stage::file").map_err(disk::io_error("write", place))?;
        let file = disk::create_new(place, mode)?;
        let is_small = path == MANIFEST || manifest::is_signature(path);
        let mut new = StagedFile {
            file,
            hasher: blake3::Hasher::new(),
            start: Vec::new(),
            kept: is_small.then(Vec::new),
        };
        let mut total = self.total;
        let copied = copy(&mut |part| {
            total = total.saturating_add(part.len() as u64);
            if total > limit { Err(io::ErrorKind::FileTooLarge.into()) } else { new.write(part) }
        });
        self.total = total;
        match copied {
            _ if total > limit => return Err(RepositoryError::TooMuch { limit }.into()),
            Err(CacheError::Repository(RepositoryError::Copy { source, .. })) => {
                return Err(disk::io_error("write", place)(source));
            }
            copied => copied?,
        }
        if new.start == LFS_START {
            tracing::warn!(
                path,
                "this is a Git LFS pointer, not the file itself: zagent does not fetch LFS files"
            );
        }
        let meta = new.file.metadata().map_err(disk::io_error("stat", place))?;
        self.files.insert(path.to_owned(), FileRecord::new(&new.hasher.finalize(), &meta));
        let Some(bytes) = new.kept else { return Ok(()) };
        if path == MANIFEST {
            self.manifest = Some(bytes);
        } else {
            if self.signatures.len() >= MAX_SIGNATURES || bytes.len() > MAX_SIGNATURE {
                return Err(Refusal::Signatures { path: path.into() }.into());
            }
            self.signatures.push((path.to_owned(), bytes));
        }
        Ok(())
    }
}

/// How a Git LFS pointer starts.
const LFS_START: &[u8] = b"version https://git-lfs.github.com/spec/";

/// A file while it is written.
struct StagedFile {
    file: File,
    hasher: blake3::Hasher,
    /// Its first bytes.
    start: Vec<u8>,
    /// All its bytes, for a manifest or a signature.
    kept: Option<Vec<u8>>,
}

impl StagedFile {
    fn write(&mut self, part: &[u8]) -> io::Result<()> {
        if part.is_empty() {
            return Ok(());
        }
        let room = LFS_START.len() - self.start.len();
        self.start.extend_from_slice(&part[..part.len().min(room)]);
        if let Some(kept) = &mut self.kept {
            kept.extend_from_slice(part);
        }
        self.hasher.update(part);
        disk::failpoint("disk::write")?;
        self.file.write_all(part)
    }
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
