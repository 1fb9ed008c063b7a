//! The repository for fetched objects; a commit in, its bytes and its tree out.
//!
//! Law: it is disposable. Every object is hashed when it is read, nothing in it is trusted, and a new store
//! replaces it completely or not at all (held by `a_damaged_or_locked_store_is_repaired`,
//! `changed_packs_are_never_accepted`).

#![expect(clippy::disallowed_methods, reason = "replaces the store as a whole and retries a locked one")]

use std::collections::HashSet;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use gix::ObjectId;
use gix::objs::Kind;
use jiff::Timestamp;
use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};
use zagent_config::ids::Revision;

use crate::deadline::Deadline;
use crate::pack::PackSet;
use crate::packed_blob::{MAX_OBJECT, copy_blob, open_packs};
use crate::{CacheLimits, CommitTree, RepositoryError};

/// How many packs (one per fetch) may accumulate before a new repository is created.
pub(crate) const MAX_PACKS: usize = 16;
/// How many commits are searched for an ancestor.
const MAX_COMMITS: usize = 200_000;
/// How often zagent retries a lock that another process holds.
const LOCK_RETRY: Duration = Duration::from_millis(20);

/// The bare repository of the cache.
#[derive(Clone, Debug)]
pub struct ObjectStore {
    dir: PathBuf,
}

/// A commit in the store.
#[derive(Clone, Debug)]
pub struct StoredCommit {
    /// The raw object; it hashes to its id.
    pub bytes: Vec<u8>,
    /// Its parent commits.
    pub parents: Vec<Revision>,
    /// The commit time that it records.
    pub committed: Timestamp,
    /// The first line of its message.
    pub summary: String,
}

impl ObjectStore {
    /// Opens the store in a directory, which may not exist yet.
    ///
    /// # Errors
    /// Fails when the parent directory cannot be created.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self, RepositoryError> {
        let store = Self { dir: dir.into() };
        if let Some(above) = store.dir.parent().filter(|above| !above.as_os_str().is_empty()) {
            DirBuilder::new().recursive(true).mode(0o700).create(above).map_err(|e| store.store_error(e))?;
        }
        Ok(store)
    }

    /// Where it is.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// True when the store has the commit and its whole tree, and the commit matches its id.
    ///
    /// File content is not hashed here, but each time it is read.
    #[must_use]
    pub fn has_commit(&self, revision: &Revision) -> bool {
        self.check_present(revision).is_ok()
    }

    /// The files of a commit.
    ///
    /// # Errors
    /// Fails when it is missing, or its tree is refused.
    pub fn read_tree(&self, revision: &Revision, limits: CacheLimits) -> Result<CommitTree, RepositoryError> {
        let repo = self.open_repo()?;
        read_object(&repo, object_id(revision)?, Kind::Commit, revision)?;
        let tree = CommitTree::open(&repo.into_sync(), revision.as_str(), "", limits)?;
        Ok(tree.with_packs(self.dir.clone()))
    }

    /// A commit.
    ///
    /// # Errors
    /// Fails when it is missing or damaged.
    pub fn commit(&self, revision: &Revision) -> Result<StoredCommit, RepositoryError> {
        let repo = self.open_repo()?;
        read_commit(&repo, object_id(revision)?, revision)
    }

    /// Whether `new` descends from `old`; `None` when the stored history is too short to know.
    ///
    /// # Errors
    /// Fails when the store cannot be opened.
    pub fn is_ancestor(&self, old: &Revision, new: &Revision) -> Result<Option<bool>, RepositoryError> {
        if old == new {
            return Ok(Some(true));
        }
        let repo = self.open_repo()?;
        let old_id = object_id(old)?;
        let mut complete = true;
        let (mut todo, mut seen) = (vec![object_id(new)?], HashSet::new());
        while let Some(id) = todo.pop() {
            if id == old_id {
                return Ok(Some(true));
            }
            if !seen.insert(id) {
                continue;
            }
            match read_object(&repo, id, Kind::Commit, new).ok().and_then(|data| commit_parents(&data)) {
                Some(found) if seen.len() < MAX_COMMITS => todo.extend(found),
                _ => complete = false,
            }
        }
        Ok(complete.then_some(false))
    }

    /// Removes the store: the next fetch creates a new one.
    ///
    /// # Errors
    /// Fails when a file cannot be removed.
    pub fn discard(&self) -> Result<(), RepositoryError> {
        remove_dir(&self.dir).map_err(|e| self.store_error(e))
    }

    /// True when the store exists.
    pub(crate) fn exists(&self) -> bool {
        self.dir.join("HEAD").is_file()
    }

    /// How many packs the store has.
    pub(crate) fn pack_count(&self) -> usize {
        let packs = std::fs::read_dir(self.dir.join("objects/pack")).into_iter().flatten().flatten();
        packs.filter(|entry| entry.path().extension().is_some_and(|end| end == "pack")).count()
    }

    /// Hashes a commit and its directories, and checks that every file is there.
    pub(crate) fn check_present(&self, revision: &Revision) -> Result<(), RepositoryError> {
        self.walk_objects(revision, None)
    }

    /// Hashes a commit and every object of its tree.
    pub(crate) fn check_complete(
        &self,
        revision: &Revision,
        deadline: Deadline,
    ) -> Result<(), RepositoryError> {
        self.walk_objects(revision, Some(deadline))
    }

    /// Checks a commit and every object of its tree; with a deadline, files are hashed too.
    fn walk_objects(&self, revision: &Revision, deadline: Option<Deadline>) -> Result<(), RepositoryError> {
        let repo = self.open_repo()?;
        let id = object_id(revision)?;
        let data = read_object(&repo, id, Kind::Commit, revision)?;
        let broken = |why: &str| RepositoryError::Commit { revision: revision.to_string(), why: why.into() };
        let root = gix::objs::CommitRefIter::from_bytes(&data, id.kind()).tree_id();
        let mut todo = vec![(root.map_err(|_| broken("it has no tree"))?, Kind::Tree)];
        let mut seen = HashSet::new();
        let mut packs = self.packs()?;
        while let Some((id, kind)) = todo.pop() {
            if (deadline.is_some() || kind != Kind::Blob) && !seen.insert(id) {
                continue;
            }
            if deadline.is_some_and(|deadline| deadline.remaining().is_none()) {
                return Err(broken("the time limit ended before it was fully checked"));
            }
            if deadline.is_none() && kind == Kind::Blob {
                if repo.has_object(id) {
                    continue;
                }
                return Err(broken("one of its files is missing"));
            }
            if kind == Kind::Blob {
                copy_blob(&mut packs, id, revision.as_str(), u64::MAX, &mut |_| Ok(()))?;
                continue;
            }
            let data = read_object(&repo, id, kind, revision)?;
            let entries = tree_entries(&data).ok_or_else(|| broken("one of its trees cannot be read"))?;
            todo.extend(entries);
        }
        Ok(())
    }

    /// The packs of the store.
    fn packs(&self) -> Result<PackSet, RepositoryError> {
        open_packs(&self.dir)
    }

    /// Blocks other processes that want to fetch.
    pub(crate) fn lock(&self, deadline: Deadline) -> Result<File, RepositoryError> {
        let path = self.sibling_path("lock");
        let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let file = file.map_err(|e| self.store_error(e))?;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(file),
                Err(rustix::io::Errno::WOULDBLOCK) if deadline.remaining().is_some() => {
                    std::thread::sleep(LOCK_RETRY);
                }
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    return Err(self.store_error(io::Error::other("another process is fetching into it")));
                }
                Err(error) => return Err(self.store_error(error.into())),
            }
        }
    }

    /// Removes what a killed process left: locks and incomplete packs. Only call it with the lock held.
    pub(crate) fn remove_leftovers(&self) {
        for left in [self.sibling_path("fresh"), self.sibling_path("old")] {
            let _ = remove_dir(&left);
        }
        let mut todo = vec![self.dir.clone()];
        while let Some(dir) = todo.pop() {
            for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
                let path = entry.path();
                let name = entry.file_name();
                let name = name.to_string_lossy();
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    todo.push(path);
                } else if name.ends_with(".lock") || name.starts_with(".tmp") || name.starts_with("tmp_") {
                    let _ = std::fs::remove_file(path);
                }
            }
        }
    }

    /// An empty store beside this one, which can replace it.
    pub(crate) fn create_fresh(&self) -> Result<FreshStore, RepositoryError> {
        let fresh = Self { dir: self.sibling_path("fresh") };
        remove_dir(&fresh.dir).map_err(|e| fresh.store_error(e))?;
        Ok(FreshStore(fresh))
    }

    /// Replaces this store with a new one.
    pub(crate) fn replace_with(&self, fresh: FreshStore) -> Result<(), RepositoryError> {
        let swap = renameat_with(CWD, fresh.dir(), CWD, &self.dir, RenameFlags::EXCHANGE);
        if swap.is_err() {
            // There is nothing to exchange, or the file system cannot exchange in one step.
            let old = self.sibling_path("old");
            remove_dir(&old).map_err(|e| self.store_error(e))?;
            if self.dir.exists() {
                std::fs::rename(&self.dir, &old).map_err(|e| self.store_error(e))?;
            }
            std::fs::rename(fresh.dir(), &self.dir).map_err(|e| self.store_error(e))?;
            remove_dir(&old).map_err(|e| self.store_error(e))?;
        }
        drop(fresh);
        Ok(())
    }

    /// Records the head of a branch.
    pub(crate) fn set_tip(&self, branch: &str, revision: &Revision) -> Result<(), RepositoryError> {
        let repo = self.open_repo()?;
        let any = gix::refs::transaction::PreviousValue::Any;
        let noted = repo.reference(tip_ref(branch), object_id(revision)?, any, "fetch");
        noted.map(drop).map_err(|source| self.store_error(io::Error::other(source)))
    }

    /// The recorded heads of all branches.
    pub(crate) fn tips(&self) -> Vec<ObjectId> {
        let Ok(repo) = self.open_repo() else {
            return Vec::new();
        };
        let Ok(all) = repo.references() else {
            return Vec::new();
        };
        let Ok(heads) = all.prefixed(TIP_REFS) else {
            return Vec::new();
        };
        let ids = heads.flatten().filter_map(|found| found.try_id().map(gix::Id::detach));
        ids.filter(|id| repo.has_object(*id)).collect()
    }

    fn open_repo(&self) -> Result<gix::Repository, RepositoryError> {
        gix::open_opts(&self.dir, open_options(MAX_OBJECT)).map_err(|source| RepositoryError::NoRepository {
            dir: self.dir.clone(),
            source: Box::new(source),
        })
    }

    fn sibling_path(&self, end: &str) -> PathBuf {
        let mut name = self.dir.file_name().unwrap_or_default().to_owned();
        name.push(".");
        name.push(end);
        self.dir.with_file_name(name)
    }

    fn store_error(&self, source: io::Error) -> RepositoryError {
        RepositoryError::Store { dir: self.dir.clone(), source }
    }
}

/// A new store that is not in use yet; removed unless it replaces another.
pub(crate) struct FreshStore(ObjectStore);

impl std::ops::Deref for FreshStore {
    type Target = ObjectStore;

    fn deref(&self) -> &ObjectStore {
        &self.0
    }
}

impl Drop for FreshStore {
    fn drop(&mut self) {
        let _ = remove_dir(&self.0.dir);
    }
}

/// Where branch heads are recorded.
const TIP_REFS: &str = "refs/zagent/";

/// The ref of a branch; by digest, because one branch may have the name of another branch's directory.
fn tip_ref(branch: &str) -> String {
    format!("{TIP_REFS}{}", &blake3::hash(branch.as_bytes()).to_hex()[..32])
}

fn remove_dir(dir: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

fn open_options(most: u64) -> gix::open::Options {
    gix::open::Options::isolated()
        .open_path_as_is(true)
        .bail_if_untrusted(false)
        .config_overrides([format!("gitoxide.objects.allocLimit={most}")])
}

/// Opens the bare repository in a directory, or creates it.
pub(crate) fn open_or_init(dir: &Path, most: u64) -> Result<gix::Repository, RepositoryError> {
    if let Ok(repo) = gix::open_opts(dir, open_options(most)) {
        return Ok(repo);
    }
    let failed = |source| RepositoryError::Store { dir: dir.into(), source };
    remove_dir(dir).map_err(failed)?;
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed)?;
    let bare = gix::create::Options { destination_must_be_empty: Some(true), ..Default::default() };
    let made = gix::ThreadSafeRepository::init_opts(dir, gix::create::Kind::Bare, bare, open_options(most));
    made.map(|repo| repo.to_thread_local()).map_err(|source| failed(io::Error::other(source)))
}

fn object_id(revision: &Revision) -> Result<ObjectId, RepositoryError> {
    let unknown =
        |_| RepositoryError::Commit { revision: revision.to_string(), why: "it is not a SHA-1".into() };
    ObjectId::from_hex(revision.as_str().as_bytes()).map_err(unknown)
}

/// The bytes of an object, if they hash to its id and have its kind.
pub(crate) fn read_object(
    repo: &gix::Repository,
    id: ObjectId,
    kind: Kind,
    revision: &Revision,
) -> Result<Vec<u8>, RepositoryError> {
    let missing =
        |source| RepositoryError::Revision { revision: revision.to_string(), source: Box::new(source) };
    let found = repo.find_object(id).map_err(missing)?.detach();
    let hash = gix::objs::compute_hash(id.kind(), found.kind, &found.data);
    if found.kind != kind || hash.ok() != Some(id) {
        return Err(RepositoryError::Damaged { path: revision.to_string(), id: id.to_string() });
    }
    Ok(found.data)
}

/// The entries of a tree; submodules belong to other repositories.
fn tree_entries(tree: &[u8]) -> Option<Vec<(ObjectId, Kind)>> {
    let all = gix::objs::TreeRefIter::from_bytes(tree, gix::hash::Kind::Sha1);
    let ours = all.filter(|entry| entry.as_ref().map_or(true, |entry| !entry.mode.is_commit()));
    let kind = |is_tree| if is_tree { Kind::Tree } else { Kind::Blob };
    ours.map(|entry| entry.ok().map(|entry| (entry.oid.to_owned(), kind(entry.mode.is_tree())))).collect()
}

fn commit_parents(data: &[u8]) -> Option<Vec<ObjectId>> {
    let commit = gix::objs::CommitRef::from_bytes(data, gix::hash::Kind::Sha1).ok()?;
    Some(commit.parents().collect())
}

pub(crate) fn read_commit(
    repo: &gix::Repository,
    id: ObjectId,
    revision: &Revision,
) -> Result<StoredCommit, RepositoryError> {
    parse_commit(read_object(repo, id, Kind::Commit, revision)?, revision)
}

/// Reads the bytes of a commit.
pub(crate) fn parse_commit(bytes: Vec<u8>, revision: &Revision) -> Result<StoredCommit, RepositoryError> {
    let broken = |why: &str| RepositoryError::Commit { revision: revision.to_string(), why: why.into() };
    let read = gix::objs::CommitRef::from_bytes(&bytes, gix::hash::Kind::Sha1)
        .map_err(|_| broken("it cannot be read"))?;
    let seconds = read.time().map_err(|_| broken("its time cannot be read"))?.seconds;
    let committed = Timestamp::from_second(seconds).map_err(|_| broken("its time is out of range"))?;
    let summary =
        read.message().summary().to_string().chars().filter(|c| !c.is_control()).take(200).collect();
    let parents = read.parents().map(|id| id.to_string().parse());
    let parents = parents.collect::<Result<_, _>>().map_err(|_| broken("a parent has no id"))?;
    drop(read);
    Ok(StoredCommit { bytes, parents, committed, summary })
}
