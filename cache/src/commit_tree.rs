//! A revision in, its files out: names at once, content on request.
//!
//! Law: every name is checked, every symlink is resolved inside the tree, and content is returned only if its hash
//! matches the id in the commit. This holds for the commit, for directories and for files (held by
//! `hostile_trees_are_refused_completely`, `a_damaged_object_is_refused`).

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;

use gix::ObjectId;
use jiff::Timestamp;

use crate::tree_listing::{CacheLimits, ListingEntry, TreeListing, join_path};
use crate::{RepositoryError, packed_blob, path_names};
use zagent_config::sorted::CollectSorted;

/// The maximum size of one directory object: more than a hundred thousand names.
const MAX_DIRECTORY: u64 = 16 << 20;

/// A file, as the tree names it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TreeBlob {
    pub(crate) id: ObjectId,
    pub(crate) executable: bool,
}

/// The files of one commit.
pub struct CommitTree {
    repo: gix::ThreadSafeRepository,
    commit: CommitObject,
    listing: TreeListing<TreeBlob>,
    submodules: Vec<String>,
    /// Where the listed paths begin.
    prefix: String,
    /// The listed files; without symlinks they are found when one is asked for.
    files: OnceLock<BTreeMap<String, TreeBlob>>,
    /// The store whose packs hold everything: its files are read piece by piece.
    store: Option<PathBuf>,
}

/// A commit, read and checked against its id.
struct CommitObject {
    id: String,
    bytes: Vec<u8>,
    parents: Vec<String>,
    committed: Option<Timestamp>,
}

impl CommitTree {
    pub(crate) fn open(
        repo: &gix::ThreadSafeRepository,
        revision: &str,
        prefix: &str,
        limits: CacheLimits,
    ) -> Result<Self, RepositoryError> {
        let local = repo.to_thread_local();
        let unknown =
            |source| RepositoryError::Revision { revision: revision.into(), source: Box::new(source) };
        let id = local.rev_parse_single(revision).map_err(unknown)?;
        let object = id.object().map_err(unknown)?.peel_to_commit().map_err(unknown)?;
        let commit = CommitObject {
            id: object.id().to_string(),
            bytes: object.data.clone(),
            parents: object.parent_ids().map(|id| id.to_string()).collect(),
            committed: object.time().ok().and_then(|time| Timestamp::from_second(time.seconds).ok()),
        };
        check_hash(object.id().detach(), gix::object::Kind::Commit, &object.data, "", &commit.id)?;
        let root = object.tree_id().map_err(unknown)?.detach();
        let mut walk = CommitWalk {
            repo: &local,
            commit: &commit.id,
            listing: TreeListing::new(limits),
            submodules: Vec::new(),
        };
        walk.walk_dir(root, "", 0)?;
        let CommitWalk { listing, submodules, .. } = walk;
        listing.check_links()?;
        let (files, prefix) = (OnceLock::new(), prefix.to_owned());
        if listing.has_links() {
            let found = listing.files_below(&prefix)?.into_iter();
            let _first = files.set(found.map(|(path, (_, blob))| (path, *blob)).into_map());
        }
        Ok(Self { repo: repo.clone(), commit, listing, submodules, prefix, files, store: None })
    }

    /// The same, from the packs of the store in this directory.
    pub(crate) fn with_packs(self, store: PathBuf) -> Self {
        Self { store: Some(store), ..self }
    }

    /// The full id of the commit.
    #[must_use]
    pub fn commit_id(&self) -> &str {
        &self.commit.id
    }

    /// The raw bytes of the commit, which hash to its id.
    #[must_use]
    pub fn commit_bytes(&self) -> &[u8] {
        &self.commit.bytes
    }

    /// The ids of its parent commits.
    #[must_use]
    pub fn parents(&self) -> &[String] {
        &self.commit.parents
    }

    /// The commit time, as the author's machine recorded it.
    #[must_use]
    pub fn commit_time(&self) -> Option<Timestamp> {
        self.commit.committed
    }

    /// Submodules: their files are not in this repository.
    #[must_use]
    pub fn submodules(&self) -> &[String] {
        &self.submodules
    }

    fn files(&self) -> &BTreeMap<String, TreeBlob> {
        self.files.get_or_init(|| {
            let found = self.listing.plain_files_below(&self.prefix).into_iter();
            found.map(|(path, (_, blob))| (path, *blob)).into_map()
        })
    }

    /// Every file, sorted by path.
    pub fn list(&self) -> impl Iterator<Item = &str> {
        self.files().keys().map(String::as_str)
    }

    /// True when a file with that path exists.
    #[must_use]
    pub fn contains(&self, path: &str) -> bool {
        self.files().contains_key(path)
    }

    /// The id of a file's content: equal ids mean equal bytes.
    #[must_use]
    pub fn blob_id(&self, path: &str) -> Option<String> {
        self.files().get(path).map(|blob| blob.id.to_string())
    }

    /// The bytes of a file; `None` when the path does not exist.
    ///
    /// # Errors
    /// Fails when the object is missing, damaged or too large.
    pub fn read(&self, path: &str) -> Result<Option<Vec<u8>>, RepositoryError> {
        let Some(file) = self.files().get(path) else {
            return Ok(None);
        };
        let limit = self.listing.limits().bytes;
        read_blob(&self.repo.to_thread_local(), file.id, path, &self.commit.id, limit).map(Some)
    }

    /// The whole tree, with symlinks kept as symlinks.
    pub(crate) fn listing(&self) -> &TreeListing<TreeBlob> {
        &self.listing
    }

    /// Copies files of the tree, one after the other; the content is right when a copy succeeds.
    pub(crate) fn blob_copier(
        &self,
    ) -> Result<impl FnMut(&str, &TreeBlob, BlobSink<'_>) -> CopyResult, RepositoryError> {
        let (repo, limit) = (self.repo.to_thread_local(), self.listing.limits().bytes);
        let mut packs = self.store.as_deref().map(packed_blob::open_packs).transpose()?;
        Ok(move |path: &str, file: &TreeBlob, sink: BlobSink<'_>| match &mut packs {
            Some(packs) => packed_blob::copy_blob(packs, file.id, path, limit, sink),
            None => {
                let bytes = read_blob(&repo, file.id, path, &self.commit.id, limit)?;
                sink(&bytes).map_err(|source| RepositoryError::Copy { path: path.into(), source })
            }
        })
    }
}

/// Takes the content of a file, piece by piece.
pub(crate) type BlobSink<'a> = &'a mut dyn FnMut(&[u8]) -> io::Result<()>;
type CopyResult = Result<(), RepositoryError>;

/// The bytes of an object, checked against its id.
fn read_blob(
    repo: &gix::Repository,
    id: ObjectId,
    path: &str,
    commit: &str,
    limit: u64,
) -> Result<Vec<u8>, RepositoryError> {
    let broken = |source| RepositoryError::Object {
        path: path.into(),
        commit: commit.into(),
        source: Box::new(source),
    };
    let size = repo.find_header(id).map_err(broken)?.size();
    if size > limit {
        return Err(RepositoryError::TooLarge { path: path.into(), size, limit });
    }
    let object = repo.find_object(id).map_err(broken)?.detach();
    if object.kind != gix::object::Kind::Blob {
        return Err(RepositoryError::Damaged { path: path.into(), id: id.to_string() });
    }
    check_hash(id, object.kind, &object.data, path, commit)?;
    Ok(object.data)
}

/// Fails unless the bytes hash to the id: the Git library does not check this.
fn check_hash(
    id: ObjectId,
    kind: gix::object::Kind,
    bytes: &[u8],
    path: &str,
    commit: &str,
) -> Result<(), RepositoryError> {
    let hash = gix::objs::compute_hash(id.kind(), kind, bytes).map_err(|source| RepositoryError::Object {
        path: path.into(),
        commit: commit.into(),
        source: Box::new(gix::Error::from_error(source)),
    })?;
    if hash == id { Ok(()) } else { Err(RepositoryError::Damaged { path: path.into(), id: id.to_string() }) }
}

/// A walk over the objects of one commit.
struct CommitWalk<'r> {
    repo: &'r gix::Repository,
    commit: &'r str,
    listing: TreeListing<TreeBlob>,
    submodules: Vec<String>,
}

impl CommitWalk<'_> {
    fn walk_dir(&mut self, id: ObjectId, dir: &str, depth: usize) -> Result<(), RepositoryError> {
        let limit = self.listing.limits().depth;
        if depth > limit {
            return Err(RepositoryError::TooDeep { path: dir.into(), limit });
        }
        for (name, mode, id) in self.read_entries(id, dir)? {
            let path = join_path(dir, &name);
            // The Git library maps some unknown modes to modes that it knows.
            match mode.value() & 0o170_000 {
                0o040_000 => {
                    self.listing.add(path.clone(), ListingEntry::Dir)?;
                    self.walk_dir(id, &path, depth + 1)?;
                }
                0o100_000 => {
                    let executable = mode.value() & 0o100 != 0;
                    self.listing.add(path, ListingEntry::File(TreeBlob { id, executable }))?;
                }
                0o120_000 => {
                    let raw = read_blob(self.repo, id, &path, self.commit, 4096)?;
                    let target = path_names::check_target(&raw, &path)?.to_owned();
                    self.listing.add(path, ListingEntry::Link(target))?;
                }
                0o160_000 => self.submodules.push(path),
                _ => return Err(RepositoryError::Special { path, kind: "pipe, socket or device" }),
            }
        }
        Ok(())
    }

    /// The entries of one directory, with checked names.
    fn read_entries(
        &self,
        id: ObjectId,
        dir: &str,
    ) -> Result<Vec<(String, gix::objs::tree::EntryMode, ObjectId)>, RepositoryError> {
        let broken = |source| RepositoryError::Object {
            path: dir.into(),
            commit: self.commit.into(),
            source: Box::new(source),
        };
        let size = self.repo.find_header(id).map_err(broken)?.size();
        if size > MAX_DIRECTORY {
            return Err(RepositoryError::TooLarge { path: dir.into(), size, limit: MAX_DIRECTORY });
        }
        let tree = self.repo.find_object(id).map_err(broken)?.peel_to_tree().map_err(broken)?;
        check_hash(id, gix::object::Kind::Tree, &tree.data, dir, self.commit)?;
        let mut entries = Vec::new();
        for entry in tree.iter() {
            let entry = entry.map_err(broken)?;
            entries.push((
                path_names::check_component(entry.filename(), dir)?,
                entry.mode(),
                entry.object_id(),
            ));
        }
        Ok(entries)
    }
}
