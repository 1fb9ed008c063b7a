//! A commit in, its objects in the store out.
//!
//! Law: the store is disposable, and a fetch that fails leaves the one before as it was; what is in it afterwards was
//! hashed, object by object.

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gix::ObjectId;
use gix::progress::Discard;
use gix_protocol::fetch::negotiate::{Action, Round, one_round};
use gix_protocol::fetch::{Arguments, Context, Negotiate, Options, Response, Shallow, Tags};
use zagent_config::ids::Revision;

use super::alarm::Alarm;
use super::error::Kind;
use super::poll::{greet, guarded};
use super::{AGENT, Client, Deadline, SourceError};
use crate::Store;
use crate::store::MAX_PACKS;

/// Threads that resolve a pack: the host has other work.
const THREADS: usize = 2;
/// Objects that are not files may always have so many bytes.
const MIN_OBJECT: u64 = 16 << 20;

/// What a fetch asks for.
pub(super) struct Ask {
    want: Vec<ObjectId>,
    have: Vec<ObjectId>,
    shallow: Shallow,
    /// Commits only, when the server can leave out the rest.
    commits: bool,
}

impl Ask {
    /// These commits, each with its tree and without what it stands on.
    pub(super) fn tips(want: Vec<ObjectId>) -> Self {
        Self { want, have: Vec::new(), shallow: Shallow::DepthAtRemote(NonZeroU32::MIN), commits: false }
    }
}

impl Client {
    /// Brings a commit and its tree into the store.
    ///
    /// # Errors
    /// Fails when the remote cannot be asked, does not have the commit, or sends what is no such commit.
    pub fn fetch(
        &mut self,
        store: &Store,
        branch: &str,
        revision: &Revision,
        deadline: Deadline,
    ) -> Result<(), SourceError> {
        self.name(branch)?;
        let id = self.id(revision)?;
        let _lock = store.lock(deadline).map_err(|error| self.local(error))?;
        store.sweep();
        if store.check(revision, deadline).is_ok() && store.remember(branch, revision).is_ok() {
            return Ok(());
        }
        if store.exists() && store.packs() < MAX_PACKS {
            let ask = Ask { have: store.tips(), ..Ask::tips(vec![id]) };
            match self
                .receive(store.dir(), &ask, deadline)
                .and_then(|()| self.keep(store, branch, revision, deadline))
            {
                Ok(()) => return Ok(()),
                // Both may be the fault of what lies in the store.
                Err(error) if matches!(error.kind, Kind::Protocol | Kind::Local) => {
                    tracing::debug!(remote = %self.shown, %error, "fetching anew");
                }
                Err(error) => return Err(error),
            }
        }
        let fresh = store.fresh().map_err(|error| self.local(error))?;
        let ask = Ask::tips(vec![id]);
        self.receive(fresh.dir(), &ask, deadline)
            .and_then(|()| self.keep(&fresh, branch, revision, deadline))?;
        store.replace(fresh).map_err(|error| self.local(error))
    }

    /// Brings more ancestors of a branch into the store: `by` commits beyond those that are there.
    ///
    /// # Errors
    /// Fails when the store has nothing of the branch, or as [`Client::fetch`] does.
    pub fn deepen(
        &mut self,
        store: &Store,
        branch: &str,
        by: u32,
        deadline: Deadline,
    ) -> Result<(), SourceError> {
        self.name(branch)?;
        let _lock = store.lock(deadline).map_err(|error| self.local(error))?;
        store.sweep();
        let Some(tip) = store.tip(branch) else {
            return Err(self.fail(Kind::Local, format!("the store has nothing of the branch `{branch}` yet")));
        };
        let ask = Ask { want: vec![tip], have: vec![tip], shallow: Shallow::Deepen(by), commits: true };
        self.receive(store.dir(), &ask, deadline)
    }

    /// Checks what was received, and remembers it as the head of the branch.
    fn keep(
        &self,
        store: &Store,
        branch: &str,
        revision: &Revision,
        deadline: Deadline,
    ) -> Result<(), SourceError> {
        let wrong = |error: crate::Error| SourceError {
            remote: self.shown.clone(),
            kind: if deadline.remaining().is_none() { Kind::Timeout } else { Kind::Protocol },
            retry_after: None,
            message: format!("{} does not send all of commit {}", self.shown, revision.short()),
            source: Some(Box::new(error)),
        };
        store.check(revision, deadline).map_err(wrong)?;
        store.remember(branch, revision).map_err(|error| self.local(error))
    }

    pub(super) fn id(&self, revision: &Revision) -> Result<ObjectId, SourceError> {
        ObjectId::from_hex(revision.as_str().as_bytes()).map_err(|_| {
            let what =
                format!("{revision} is a SHA-256 commit: repositories with SHA-256 cannot be read yet");
            self.fail(Kind::Protocol, what)
        })
    }

    pub(super) fn local(&self, error: crate::Error) -> SourceError {
        let message = format!("cannot keep what {} sends", self.shown);
        let source = Some(Box::new(error) as Box<_>);
        SourceError { remote: self.shown.clone(), kind: Kind::Local, retry_after: None, message, source }
    }

    /// Bytes that an object may have.
    pub(super) fn most(&self) -> u64 {
        self.max_file.max(MIN_OBJECT)
    }

    /// Receives a pack into the repository in `dir`.
    pub(super) fn receive(&self, dir: &Path, ask: &Ask, deadline: Deadline) -> Result<(), SourceError> {
        let most = self.most();
        let repo = crate::store::open_or_init(dir, most).map_err(|error| self.local(error))?;
        let mut session = self.open(deadline)?;
        let stop = Arc::new(AtomicBool::new(false));
        let ring = stop.clone();
        let alarm = Alarm::set(deadline, move || ring.store(true, Ordering::SeqCst));
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let received = guarded(|| {
            let mut handshake = greet(&mut session)?;
            let second = handshake.refs.is_none();
            session.allow(self.max_pack);
            let context = Context {
                handshake: &mut handshake,
                transport: &mut session.transport,
                user_agent: ("agent", Some(AGENT.into())),
                trace_packetlines: false,
            };
            transfer(&repo, ask, context, &stop, most)?;
            Ok(second)
        });
        match received {
            Ok(second) => {
                session.end();
                if let Some(wire) = self.wire.as_ref().filter(|_| second) {
                    // What follows need not begin with a greeting.
                    wire.prove();
                }
                Ok(())
            }
            Err(error) => {
                let error = session.fail(error, "does not send what was asked for");
                if alarm.rang() && error.kind == Kind::Protocol {
                    return Err(self.fail(Kind::Timeout, format!("{} did not send all in time", self.shown)));
                }
                Err(error)
            }
        }
    }
}

/// Asks for a pack and writes it, with its index.
fn transfer<T: gix_transport::client::blocking_io::Transport>(
    repo: &gix::Repository,
    ask: &Ask,
    context: Context<'_, T>,
    stop: &AtomicBool,
    most: usize,
) -> gix::Result<()> {
    let options = Options {
        shallow_file: repo.shallow_file()?,
        shallow: &ask.shallow,
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
    let mut question = Question { ask };
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
                // It would only keep a collector away that never comes.
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

/// One round: what is wanted, what is there, done.
struct Question<'a> {
    ask: &'a Ask,
}

impl Negotiate for Question<'_> {
    fn mark_complete_and_common_ref(&mut self) -> gix::Result<Action> {
        Ok(Action::MustNegotiate { remote_ref_target_known: Vec::new() })
    }

    fn add_wants(&mut self, arguments: &mut Arguments, _known: &[bool]) -> bool {
        if self.ask.commits && arguments.can_use_filter() {
            arguments.filter("tree:0");
        }
        for id in &self.ask.want {
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
        for id in &self.ask.have {
            arguments.have(id);
        }
        let sent = self.ask.have.len();
        let round = Round {
            haves_sent: sent,
            in_vain: 0,
            haves_to_send: sent,
            previous_response_had_at_least_one_in_common: false,
        };
        Ok((round, true))
    }
}
