//! A commit in, its objects in the store out: first the commit alone, then, when it was judged, its files.
//!
//! Law: the store is disposable, and a failed fetch leaves the previous one unchanged; every object in it
//! afterwards was hashed. Trees and blobs are fetched only for a [`JudgedCommit`] (held by
//! `fetches_from_bad_remotes_end_in_time_and_leave_the_store_as_it_was`, `JudgedCommit`).

use std::num::NonZeroU32;
use std::path::Path;

use gix::ObjectId;
use gix_protocol::fetch::Shallow;
use zagent_config::ids::Revision;

use super::error::SourceErrorKind;
use super::exchange::stop_at;
use super::{Deadline, RemoteClient, SourceError};
use crate::object_store::{MAX_PACKS, open_or_init};
use crate::pack::{self, CommitGate, ScannedPack};
use crate::{CommitTrust, JudgedCommit, ObjectStore, Refusal, RepositoryError, SignedCommit};

/// Objects that are not files may always have this many bytes.
const MIN_OBJECT: u64 = 16 << 20;
/// The most commits of a history.
const MAX_HISTORY: u64 = 200_000;

/// What a fetch asks for.
pub(super) struct FetchRequest {
    pub(super) want: Vec<ObjectId>,
    pub(super) have: Vec<ObjectId>,
    pub(super) shallow: Shallow,
    /// This many commits without trees and files, if the server supports filters.
    pub(super) commits_only: Option<u64>,
    /// The most objects otherwise.
    pub(super) objects: u64,
}

impl FetchRequest {
    /// These commits, each with its tree and without its parents.
    pub(super) fn for_tips(want: Vec<ObjectId>) -> Self {
        let shallow = Shallow::DepthAtRemote(NonZeroU32::MIN);
        Self { want, have: Vec::new(), shallow, commits_only: None, objects: u64::MAX }
    }
}

/// Why a commit was not fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The remote failed.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The commit is refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

impl RemoteClient {
    /// Fetches a commit object alone and checks its signature. A server that cannot send it alone sends its files too:
    /// they are received up to a limit, but not read before the signature is right.
    ///
    /// # Errors
    /// Fails when the remote cannot be reached, does not have the commit or sends something else, and when the commit is
    /// refused.
    pub fn fetch_commit(
        &mut self,
        store: &ObjectStore,
        revision: &Revision,
        trust: &CommitTrust<'_>,
        deadline: Deadline,
    ) -> Result<SignedCommit, FetchError> {
        let _lock = store.lock(deadline).map_err(|error| self.local_error(error))?;
        store.remove_leftovers();
        if let Ok(commit) = store.commit(revision) {
            return Ok(SignedCommit::check(revision, commit.bytes, trust, None)?);
        }
        let have = if store.exists() { store.tips() } else { Vec::new() };
        match self.request_commit(store, revision, trust, have.clone(), deadline) {
            // A commit before one that was fetched: the server takes for granted that the store has it.
            Err(FetchError::Source(error)) if error.kind == SourceErrorKind::Protocol && !have.is_empty() => {
                self.request_commit(store, revision, trust, Vec::new(), deadline)
            }
            done => done,
        }
    }

    /// The same, for a client that has these commits.
    fn request_commit(
        &mut self,
        store: &ObjectStore,
        revision: &Revision,
        trust: &CommitTrust<'_>,
        have: Vec<ObjectId>,
        deadline: Deadline,
    ) -> Result<SignedCommit, FetchError> {
        let id = self.object_id(revision)?;
        let request = FetchRequest {
            have,
            commits_only: Some(1),
            objects: self.max_objects(),
            ..FetchRequest::for_tips(vec![id])
        };
        // What arrives is not part of the store yet, nor is the end of its history.
        let place = store.create_fresh().map_err(|error| self.local_error(error))?;
        let mut found = None;
        let mut judge = |bytes: &[u8]| {
            trust.check(bytes)?;
            found = Some(bytes.to_vec());
            Ok(())
        };
        let gate = CommitGate::Judge(id, &mut judge);
        let received = self.exchange(place.dir(), &request, gate, deadline)?;
        let pack = (!received.is_filtered).then_some(received.pack).flatten();
        let Some(bytes) = found else {
            let message = format!("{} does not send commit {}", self.display_url, revision.short());
            return Err(self.new_error(SourceErrorKind::Protocol, message).into());
        };
        Ok(SignedCommit::check(revision, bytes, trust, pack)?)
    }

    /// Fetches the files of a commit into the store.
    ///
    /// # Errors
    /// Fails when the remote cannot be reached, does not have the commit, or sends something else.
    pub fn fetch(
        &mut self,
        store: &ObjectStore,
        branch: &str,
        commit: &mut JudgedCommit,
        deadline: Deadline,
    ) -> Result<(), SourceError> {
        self.ref_name(branch)?;
        let id = self.object_id(commit.revision())?;
        let pack = commit.take_pack();
        let revision = commit.revision();
        let _lock = store.lock(deadline).map_err(|error| self.local_error(error))?;
        store.remove_leftovers();
        if store.check_complete(revision, deadline).is_ok() && store.set_tip(branch, revision).is_ok() {
            return Ok(());
        }
        // All of it is there, so the server would send nothing: some of it is damaged.
        let is_damaged = store.has_commit(revision);
        let request =
            |have| FetchRequest { have, objects: self.max_objects(), ..FetchRequest::for_tips(vec![id]) };
        if let Some(pack) = pack
            && self.add_pack(store, pack, (branch, revision), deadline).is_ok()
        {
            return Ok(());
        }
        if store.exists() && !is_damaged && store.pack_count() < MAX_PACKS {
            match self
                .receive_pack(store.dir(), request(store.tips()), deadline)
                .and_then(|()| self.check_received(store, branch, revision, deadline))
            {
                Ok(()) => return Ok(()),
                // Both errors may be caused by the existing store.
                Err(error) if matches!(error.kind, SourceErrorKind::Protocol | SourceErrorKind::Local) => {
                    tracing::debug!(remote = %self.display_url, %error, "fetching again");
                }
                Err(error) => return Err(error),
            }
        }
        let fresh = store.create_fresh().map_err(|error| self.local_error(error))?;
        self.receive_pack(fresh.dir(), request(Vec::new()), deadline)
            .and_then(|()| self.check_received(&fresh, branch, revision, deadline))?;
        store.replace_with(fresh).map_err(|error| self.local_error(error))
    }

    /// Fetches commits into the store, without their files if the server can: a commit, and its ancestors up to a depth.
    /// The server is not told what the store has: it would take the ancestors of those commits for known, too.
    ///
    /// # Errors
    /// As [`RemoteClient::fetch`].
    pub fn fetch_history(
        &mut self,
        store: &ObjectStore,
        revision: &Revision,
        depth: u32,
        deadline: Deadline,
    ) -> Result<(), SourceError> {
        let id = self.object_id(revision)?;
        let _lock = store.lock(deadline).map_err(|error| self.local_error(error))?;
        store.remove_leftovers();
        let request = FetchRequest {
            shallow: Shallow::DepthAtRemote(NonZeroU32::new(depth).unwrap_or(NonZeroU32::MIN)),
            commits_only: Some(MAX_HISTORY),
            ..FetchRequest::for_tips(vec![id])
        };
        self.receive_pack(store.dir(), request, deadline)
    }

    /// Adds what came with the commit before it was judged.
    fn add_pack(
        &self,
        store: &ObjectStore,
        pack: ScannedPack,
        (branch, revision): (&str, &Revision),
        deadline: Deadline,
    ) -> Result<(), SourceError> {
        let fresh = store.create_fresh().map_err(|error| self.local_error(error))?;
        let target = if store.exists() { store } else { &fresh };
        self.open_repository(target.dir())?;
        self.install(pack, target.dir(), deadline)?;
        self.check_received(target, branch, revision, deadline)?;
        if store.exists() {
            Ok(())
        } else {
            store.replace_with(fresh).map_err(|error| self.local_error(error))
        }
    }

    /// Checks that everything was received, and records it as the head of the branch. The files of the new pack were hashed
    /// when it was installed, those of older packs with these; all are hashed again when they are read.
    fn check_received(
        &self,
        store: &ObjectStore,
        branch: &str,
        revision: &Revision,
        deadline: Deadline,
    ) -> Result<(), SourceError> {
        let wrong = |error: RepositoryError| SourceError {
            remote: self.display_url.clone(),
            kind: if deadline.remaining().is_none() {
                SourceErrorKind::Timeout
            } else {
                SourceErrorKind::Protocol
            },
            retry_after: None,
            message: format!("{} does not send all of commit {}", self.display_url, revision.short()),
            source: Some(Box::new(error)),
        };
        store.check_present(revision).map_err(wrong)?;
        store.set_tip(branch, revision).map_err(|error| self.local_error(error))
    }

    pub(super) fn object_id(&self, revision: &Revision) -> Result<ObjectId, SourceError> {
        ObjectId::from_hex(revision.as_str().as_bytes()).map_err(|_| {
            let what = format!("{revision} is a SHA-256 commit: zagent cannot read SHA-256 repositories yet");
            self.new_error(SourceErrorKind::Protocol, what)
        })
    }

    pub(super) fn local_error(&self, error: RepositoryError) -> SourceError {
        let message = format!("cannot store the objects from {}", self.display_url);
        let source = Some(Box::new(error) as Box<_>);
        SourceError {
            remote: self.display_url.clone(),
            kind: SourceErrorKind::Local,
            retry_after: None,
            message,
            source,
        }
    }

    /// Maximum bytes of an object.
    pub(super) fn max_object_bytes(&self) -> u64 {
        self.max_file.max(MIN_OBJECT)
    }

    /// Maximum number of objects of a commit: its files, its directories, and itself.
    fn max_objects(&self) -> u64 {
        2 * self.max_files as u64 + 16
    }

    fn open_repository(&self, dir: &Path) -> Result<gix::Repository, SourceError> {
        open_or_init(dir, self.max_object_bytes()).map_err(|error| self.local_error(error))
    }

    /// Receives a pack into the repository in `dir`.
    pub(super) fn receive_pack(
        &self,
        dir: &Path,
        request: FetchRequest,
        deadline: Deadline,
    ) -> Result<(), SourceError> {
        self.open_repository(dir)?;
        match self.exchange(dir, &request, CommitGate::Open, deadline) {
            Ok(received) => received.pack.map_or(Ok(()), |pack| self.install(pack, dir, deadline)),
            Err(FetchError::Source(error)) => Err(error),
            Err(FetchError::Refused(refusal)) => {
                Err(self.new_error(SourceErrorKind::Protocol, refusal.to_string()))
            }
        }
    }

    /// Resolves a pack and adds it to the repository in `dir`.
    fn install(&self, pack: ScannedPack, dir: &Path, deadline: Deadline) -> Result<(), SourceError> {
        let (stop, _timer) = stop_at(deadline);
        pack::install(pack, dir, &stop).map_err(|error| self.pack_error(error, dir))
    }
}
