//! A repository as a store for small values: refs by prefix, the files of their commits, and new commits for them.
//!
//! Fetched objects are in a directory that is removed with the value that reads it; every object is hashed when it
//! is read.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use gix::objs::Kind as Object;
use tempfile::TempDir;
use zagent_config::ids::Revision;
use zagent_config::settings;

use super::error::{SourceErrorKind, sanitize_line};
use super::fetch::FetchRequest;
use super::{Deadline, PreparedCommit, PushOutcome, RemoteClient, SourceError};
use crate::{RepositoryError, StoredCommit, object_store};

/// The name prefix of fetch directories.
const FETCH_PREFIX: &str = "fetch-";
/// A fetch directory older than this was left by a killed process.
const ABANDONED_AFTER: Duration = Duration::from_secs(60 * 60);

/// A repository whose refs are read and written one by one.
pub struct RefStore {
    client: RemoteClient,
    dir: PathBuf,
}

/// Fetched commits.
pub struct FetchedCommits {
    repo: gix::Repository,
    remote: String,
    _dir: TempDir,
}

impl RefStore {
    /// The ref store on a remote; fetched objects are below `dir` temporarily. It does not connect yet.
    ///
    /// # Errors
    /// As [`RemoteClient::new`].
    pub fn new(
        remote: &settings::RemoteSettings,
        source: &settings::SourceSettings,
        dir: PathBuf,
    ) -> Result<Self, SourceError> {
        let client = RemoteClient::new(remote, source)?;
        remove_abandoned(&dir);
        Ok(Self { client, dir })
    }

    /// The address, without a password.
    #[must_use]
    pub fn url(&self) -> &str {
        self.client.url()
    }

    /// All refs with one of these prefixes, and the commits that they point to.
    ///
    /// # Errors
    /// Fails when the remote cannot be reached.
    pub fn list(
        &mut self,
        prefixes: &[String],
        deadline: Deadline,
    ) -> Result<BTreeMap<String, Revision>, SourceError> {
        let refs = self.client.list_refs(prefixes, deadline)?;
        let ours =
            refs.into_iter().filter(|(name, _)| prefixes.iter().any(|prefix| name.starts_with(prefix)));
        ours.map(|(name, id)| Ok((name, self.client.parse_revision(&id)?))).collect()
    }

    /// Fetches commits with their files.
    ///
    /// # Errors
    /// Fails when the remote cannot be reached, or does not have one of them.
    pub fn fetch(
        &mut self,
        revisions: &[Revision],
        deadline: Deadline,
    ) -> Result<FetchedCommits, SourceError> {
        let want =
            revisions.iter().map(|revision| self.client.object_id(revision)).collect::<Result<_, _>>()?;
        let failed = |source| {
            let error = RepositoryError::Store { dir: self.dir.clone(), source };
            self.client.local_error(error)
        };
        std::fs::create_dir_all(&self.dir).map_err(failed)?;
        let dir = tempfile::Builder::new().prefix(FETCH_PREFIX).tempdir_in(&self.dir).map_err(failed)?;
        let at = dir.path().join("repository.git");
        self.client.receive_pack(&at, FetchRequest::for_tips(want), deadline)?;
        let repo = object_store::open_or_init(&at, self.client.max_object_bytes())
            .map_err(|error| self.client.local_error(error))?;
        Ok(FetchedCommits { repo, remote: self.url().to_owned(), _dir: dir })
    }

    /// Moves a ref from the known commit, or from nothing, to a new commit.
    ///
    /// # Errors
    /// Fails when the remote cannot be reached; then nothing was changed.
    pub fn update(
        &mut self,
        name: &str,
        old: Option<&Revision>,
        commit: &PreparedCommit,
        deadline: Deadline,
    ) -> Result<PushOutcome, SourceError> {
        self.push(name, old, Some(commit), deadline)
    }

    /// Deletes a ref that points to the known commit.
    ///
    /// # Errors
    /// As [`RefStore::update`].
    pub fn remove(
        &mut self,
        name: &str,
        old: &Revision,
        deadline: Deadline,
    ) -> Result<PushOutcome, SourceError> {
        self.push(name, Some(old), None, deadline)
    }

    fn push(
        &mut self,
        name: &str,
        old: Option<&Revision>,
        commit: Option<&PreparedCommit>,
        deadline: Deadline,
    ) -> Result<PushOutcome, SourceError> {
        let valid = name.starts_with("refs/") && gix::validate::reference::name(name.into()).is_ok();
        if !valid {
            let message = format!("{:?} is not a valid ref name", sanitize_line(name));
            return Err(self.client.new_error(SourceErrorKind::Local, message));
        }
        let old = old.map(|revision| self.client.object_id(revision)).transpose()?;
        self.client.push(name, old, commit, deadline)
    }
}

impl FetchedCommits {
    /// A commit.
    ///
    /// # Errors
    /// Fails when it is missing or damaged.
    pub fn commit(&self, revision: &Revision) -> Result<StoredCommit, SourceError> {
        let id = gix::ObjectId::from_hex(revision.as_str().as_bytes());
        let id = id.map_err(|_| self.protocol_error(format!("{revision} is not a SHA-1"), None))?;
        object_store::read_commit(&self.repo, id, revision)
            .map_err(|error| self.damaged_error(revision, error))
    }

    /// The names of the files in a commit, in order; without directories.
    ///
    /// # Errors
    /// As [`FetchedCommits::read_commit`].
    pub fn file_names(&self, revision: &Revision) -> Result<Vec<String>, SourceError> {
        Ok(self.tree_entries(revision)?.into_keys().collect())
    }

    /// The content of a file; `None` when the commit does not have it.
    ///
    /// # Errors
    /// As [`FetchedCommits::read_commit`].
    pub fn read_file(&self, revision: &Revision, name: &str) -> Result<Option<Vec<u8>>, SourceError> {
        let Some(id) = self.tree_entries(revision)?.remove(name) else { return Ok(None) };
        let bytes = object_store::read_object(&self.repo, id, Object::Blob, revision);
        bytes.map(Some).map_err(|error| self.damaged_error(revision, error))
    }

    fn tree_entries(&self, revision: &Revision) -> Result<BTreeMap<String, gix::ObjectId>, SourceError> {
        let commit = self.commit(revision)?;
        let broken = |what: &str| {
            self.protocol_error(format!("{} sends {what} with {}", self.remote, revision.short()), None)
        };
        let sha1 = gix::hash::Kind::Sha1;
        let tree = gix::objs::CommitRefIter::from_bytes(&commit.bytes, sha1).tree_id();
        let tree = tree.map_err(|_| broken("no tree"))?;
        let bytes = object_store::read_object(&self.repo, tree, Object::Tree, revision);
        let bytes = bytes.map_err(|error| self.damaged_error(revision, error))?;
        let mut files = BTreeMap::new();
        for entry in gix::objs::TreeRefIter::from_bytes(&bytes, sha1) {
            let entry = entry.map_err(|_| broken("a broken tree"))?;
            if entry.mode.is_blob() {
                files.insert(entry.filename.to_string(), entry.oid.to_owned());
            }
        }
        Ok(files)
    }

    fn damaged_error(&self, revision: &Revision, error: RepositoryError) -> SourceError {
        self.protocol_error(
            format!("{} does not send all of commit {}", self.remote, revision.short()),
            Some(error),
        )
    }

    fn protocol_error(&self, message: String, error: Option<RepositoryError>) -> SourceError {
        let source = error.map(|error| Box::new(error) as Box<_>);
        SourceError {
            remote: self.remote.clone(),
            kind: SourceErrorKind::Protocol,
            retry_after: None,
            message,
            source,
        }
    }
}

/// Removes what killed processes left.
fn remove_abandoned(dir: &Path) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let old = entry.metadata().and_then(|meta| meta.modified()).ok();
        let age = old.and_then(|at| SystemTime::now().duration_since(at).ok());
        let ours = entry.file_name().to_string_lossy().starts_with(FETCH_PREFIX);
        if ours && age.is_some_and(|age| age > ABANDONED_AFTER) {
            // Another process may remove it too.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}
