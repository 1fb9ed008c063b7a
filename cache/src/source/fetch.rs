//! A commit in, its objects in the store out.
//!
//! Law: the store is disposable, and a failed fetch leaves the previous one unchanged; every object in it afterwards
//! was hashed.

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gix::ObjectId;
use gix::progress::Discard;
use gix_protocol::fetch::negotiate::{Action, Round, one_round};
use gix_protocol::fetch::{Arguments, Context, Negotiate, Options, Response, Shallow, Tags};
use zagent_config::ids::Revision;

use super::deadline_timer::DeadlineTimer;
use super::error::SourceErrorKind;
use super::poll::{catch_panics, handshake};
use super::{AGENT, Deadline, RemoteClient, SourceError};
use crate::ObjectStore;
use crate::object_store::MAX_PACKS;

/// Threads that resolve a pack: few, because the host has other work.
const THREADS: usize = 2;
/// Objects that are not files may always have this many bytes.
const MIN_OBJECT: u64 = 16 << 20;

/// What a fetch asks for.
pub(super) struct FetchRequest {
    want: Vec<ObjectId>,
    have: Vec<ObjectId>,
    shallow: Shallow,
    /// Commits only, if the server supports filters.
    commits: bool,
}

impl FetchRequest {
    /// These commits, each with its tree and without its parents.
    pub(super) fn for_tips(want: Vec<ObjectId>) -> Self {
        Self { want, have: Vec::new(), shallow: Shallow::DepthAtRemote(NonZeroU32::MIN), commits: false }
    }
}

impl RemoteClient {
    /// Fetches a commit and its tree into the store.
    ///
    /// # Errors
    /// Fails when the remote cannot be reached, does not have the commit, or sends something else.
    pub fn fetch(
        &mut self,
        store: &ObjectStore,
        branch: &str,
        revision: &Revision,
        deadline: Deadline,
    ) -> Result<(), SourceError> {
        self.ref_name(branch)?;
        let id = self.object_id(revision)?;
        let _lock = store.lock(deadline).map_err(|error| self.local_error(error))?;
        store.remove_leftovers();
        if store.check_complete(revision, deadline).is_ok() && store.set_tip(branch, revision).is_ok() {
            return Ok(());
        }
        if store.exists() && store.pack_count() < MAX_PACKS {
            let request = FetchRequest { have: store.tips(), ..FetchRequest::for_tips(vec![id]) };
            match self
                .receive_pack(store.dir(), &request, deadline)
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
        let request = FetchRequest::for_tips(vec![id]);
        self.receive_pack(fresh.dir(), &request, deadline)
            .and_then(|()| self.check_received(&fresh, branch, revision, deadline))?;
        store.replace_with(fresh).map_err(|error| self.local_error(error))
    }

    /// Fetches more ancestors of a branch into the store: `by` commits beyond the existing ones.
    ///
    /// # Errors
    /// Fails when the store has no commit of the branch, or as [`RemoteClient::fetch`] does.
    pub fn deepen(
        &mut self,
        store: &ObjectStore,
        branch: &str,
        by: u32,
        deadline: Deadline,
    ) -> Result<(), SourceError> {
        self.ref_name(branch)?;
        let _lock = store.lock(deadline).map_err(|error| self.local_error(error))?;
        store.remove_leftovers();
        let Some(tip) = store.tip(branch) else {
            return Err(self.new_error(
                SourceErrorKind::Local,
                format!("the store has no commit of branch `{branch}` yet"),
            ));
        };
        let request =
            FetchRequest { want: vec![tip], have: vec![tip], shallow: Shallow::Deepen(by), commits: true };
        self.receive_pack(store.dir(), &request, deadline)
    }

    /// Checks what was received, and records it as the head of the branch.
    fn check_received(
        &self,
        store: &ObjectStore,
        branch: &str,
        revision: &Revision,
        deadline: Deadline,
    ) -> Result<(), SourceError> {
        let wrong = |error: crate::RepositoryError| SourceError {
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
        store.check_complete(revision, deadline).map_err(wrong)?;
        store.set_tip(branch, revision).map_err(|error| self.local_error(error))
    }

    pub(super) fn object_id(&self, revision: &Revision) -> Result<ObjectId, SourceError> {
        ObjectId::from_hex(revision.as_str().as_bytes()).map_err(|_| {
            let what = format!("{revision} is a SHA-256 commit: zagent cannot read SHA-256 repositories yet");
            self.new_error(SourceErrorKind::Protocol, what)
        })
    }

    pub(super) fn local_error(&self, error: crate::RepositoryError) -> SourceError {
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

    /// Receives a pack into the repository in `dir`.
    pub(super) fn receive_pack(
        &self,
        dir: &Path,
        request: &FetchRequest,
        deadline: Deadline,
    ) -> Result<(), SourceError> {
        let most = self.max_object_bytes();
        let repo = crate::object_store::open_or_init(dir, most).map_err(|error| self.local_error(error))?;
        let mut session = self.open_session(deadline)?;
        let stop = Arc::new(AtomicBool::new(false));
        let ring = stop.clone();
        let alarm = DeadlineTimer::start(deadline, move || ring.store(true, Ordering::SeqCst));
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let received = catch_panics(|| {
            let mut handshake = handshake(&mut session)?;
            let second = handshake.refs.is_none();
            session.set_byte_limit(self.max_pack);
            let context = Context {
                handshake: &mut handshake,
                transport: &mut session.transport,
                user_agent: ("agent", Some(AGENT.into())),
                trace_packetlines: false,
            };
            transfer(&repo, request, context, &stop, most)?;
            Ok(second)
        });
        match received {
            Ok(second) => {
                session.close();
                if let Some(wire) = self.http.as_ref().filter(|_| second) {
                    // The next request need not begin with a greeting.
                    wire.mark_v2();
                }
                Ok(())
            }
            Err(error) => {
                let error = session.into_error(error, "does not send the requested objects");
                if alarm.has_fired() && error.kind == SourceErrorKind::Protocol {
                    return Err(self.new_error(
                        SourceErrorKind::Timeout,
                        format!("{} did not send everything within the time limit", self.display_url),
                    ));
                }
                Err(error)
            }
        }
    }
}

/// Requests a pack and writes it, with its index.
fn transfer<T: gix_transport::client::blocking_io::Transport>(
    repo: &gix::Repository,
    request: &FetchRequest,
    context: Context<'_, T>,
    stop: &AtomicBool,
    most: usize,
) -> gix::Result<()> {
    let options = Options {
        shallow_file: repo.shallow_file()?,
        shallow: &request.shallow,
        tags: Tags::None,
        reject_shallow_remote: false,
    };
    let packs = repo.objects.store_ref().path().join("pack");
    let write = gix_pack::bundle::write::Options {
        thread_limit: Some(THREADS),
        iteration_mode: gix_pack::data::input::Mode::Verify,
        alloc_limit_bytes: Some(most),
        ..Default::default()
    };
    let mut question = SingleRound { request };
    gix_protocol::fetch(
        &mut question,
        |reader, progress, stop| {
            let bases = Some(repo.objects.clone());
            let hash = repo.object_hash();
            let out = gix_pack::Bundle::write_to_directory(
                reader,
                Some(&packs),
                progress,
                stop,
                bases,
                hash,
                write,
            )?;
            if let Some(keep) = out.keep_path {
                // It would only block a garbage collection that never runs.
                let _ = std::fs::remove_file(keep);
            }
            Ok(true)
        },
        Discard,
        stop,
        context,
        options,
    )
    .map(drop)
}

/// One round: wants, haves, done.
struct SingleRound<'a> {
    request: &'a FetchRequest,
}

impl Negotiate for SingleRound<'_> {
    fn mark_complete_and_common_ref(&mut self) -> gix::Result<Action> {
        Ok(Action::MustNegotiate { remote_ref_target_known: Vec::new() })
    }

    fn add_wants(&mut self, arguments: &mut Arguments, _known: &[bool]) -> bool {
        if self.request.commits && arguments.can_use_filter() {
            arguments.filter("tree:0");
        }
        for id in &self.request.want {
            arguments.want(id);
        }
        true
    }

    fn one_round(
        &mut self,
        _state: &mut one_round::State,
        arguments: &mut Arguments,
        _previous: Option<&Response>,
    ) -> gix::Result<(Round, bool)> {
        for id in &self.request.have {
            arguments.have(id);
        }
        let sent = self.request.have.len();
        let round = Round {
            haves_sent: sent,
            in_vain: 0,
            haves_to_send: sent,
            previous_response_had_at_least_one_in_common: false,
        };
        Ok((round, true))
    }
}
