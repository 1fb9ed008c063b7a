//! One request for objects in, the pack that answers it out, within every limit.

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gix::progress::Discard;
use gix_protocol::fetch::negotiate::{Action, Round, one_round};
use gix_protocol::fetch::{Arguments, Context, Negotiate, Options, Response, Tags};

use super::deadline_timer::DeadlineTimer;
use super::error::SourceErrorKind;
use super::fetch::{FetchError, FetchRequest};
use super::poll::{catch_panics, handshake};
use super::{AGENT, Deadline, RemoteClient, SourceError};
use crate::RepositoryError;
use crate::pack::{self, CommitGate, PackError, PackLimits, ScannedPack};

/// How many times the size limit of a pack its objects may have.
const MAX_UNPACKED_FACTOR: u64 = 4;

/// An answer.
pub(super) struct ReceivedPack {
    pub(super) pack: Option<ScannedPack>,
    /// True when the server sent commits alone.
    pub(super) is_filtered: bool,
}

impl RemoteClient {
    /// The limits of a pack.
    fn pack_limits(&self, request: &FetchRequest, is_filtered: bool) -> PackLimits {
        match request.commits_only.filter(|_| is_filtered) {
            Some(commits) => PackLimits::for_commits(commits),
            None => {
                let total = self.max_pack.saturating_mul(MAX_UNPACKED_FACTOR).max(self.max_file);
                PackLimits::new(request.objects, self.max_object_bytes(), total)
            }
        }
    }

    /// Sends a request; `dir` gets the file `shallow` and holds unnamed files.
    pub(super) fn exchange(
        &self,
        dir: &Path,
        request: &FetchRequest,
        gate: CommitGate<'_>,
        deadline: Deadline,
    ) -> Result<ReceivedPack, FetchError> {
        let made = std::fs::create_dir_all(dir);
        made.map_err(|source| self.local_error(RepositoryError::Store { dir: dir.into(), source }))?;
        let mut session = self.open_session(deadline)?;
        let (stop, _timer) = stop_at(deadline);
        let (mut pack, mut refused) = (None, None);
        let is_filtered = Cell::new(false);
        let sent = catch_panics(|| {
            let mut handshake = handshake(&mut session)?;
            let second = handshake.refs.is_none();
            session.set_byte_limit(self.max_pack);
            let context = Context {
                handshake: &mut handshake,
                transport: &mut session.transport,
                user_agent: ("agent", Some(AGENT.into())),
                trace_packetlines: false,
            };
            let options = Options {
                shallow_file: dir.join("shallow"),
                shallow: &request.shallow,
                tags: Tags::None,
                reject_shallow_remote: false,
            };
            let mut question = SingleRound { request, is_filtered: &is_filtered };
            let consume = |reader: &mut dyn std::io::BufRead,
                           _: &mut dyn gix::progress::DynNestedProgress,
                           stop: &AtomicBool| {
                let limits = self.pack_limits(request, is_filtered.get());
                match pack::receive(reader, dir, limits, gate, stop) {
                    Ok(received) => {
                        pack = Some(received);
                        Ok(true)
                    }
                    Err(error) => {
                        refused = Some(error);
                        Err(gix::Error::from_error(std::io::Error::other("the pack is refused")))
                    }
                }
            };
            gix_protocol::fetch(&mut question, consume, Discard, &stop, context, options)?;
            Ok(second)
        });
        match (sent, refused) {
            (Ok(second), _) => {
                session.close();
                if let Some(wire) = self.http.as_ref().filter(|_| second) {
                    // The next request need not begin with a greeting.
                    wire.mark_v2();
                }
                Ok(ReceivedPack { pack, is_filtered: is_filtered.get() })
            }
            (Err(_), Some(PackError::Refused(refusal))) => Err(FetchError::Refused(*refusal)),
            (Err(_), Some(error)) if !matches!(error, PackError::Receive(_)) => {
                Err(self.pack_error(error, dir).into())
            }
            (Err(error), _) => {
                let error = session.into_error(error, "does not send the requested objects");
                if stop.load(Ordering::SeqCst) && error.kind == SourceErrorKind::Protocol {
                    return Err(self.too_late().into());
                }
                Err(error.into())
            }
        }
    }

    fn too_late(&self) -> SourceError {
        let message = format!("{} did not send everything within the time limit", self.display_url);
        self.new_error(SourceErrorKind::Timeout, message)
    }

    /// Why a pack is refused, for people.
    pub(super) fn pack_error(&self, error: PackError, dir: &Path) -> SourceError {
        let remote = &self.display_url;
        match error {
            PackError::Store(source) => self.local_error(RepositoryError::Store { dir: dir.into(), source }),
            PackError::Stopped => self.too_late(),
            PackError::Limit { .. } => {
                let hint = "`source.max_pack`, `source.max_file` and `source.max_files` set the limits";
                self.new_error(SourceErrorKind::TooLarge, format!("{remote} is refused: {error}; {hint}"))
            }
            error => SourceError {
                remote: remote.clone(),
                kind: SourceErrorKind::Protocol,
                retry_after: None,
                message: format!("{remote} sends objects that cannot be used"),
                source: Some(Box::new(error)),
            },
        }
    }
}

/// A flag that is set at the deadline, as long as the timer lives.
pub(super) fn stop_at(deadline: Deadline) -> (Arc<AtomicBool>, DeadlineTimer) {
    let stop = Arc::new(AtomicBool::new(false));
    let ring = stop.clone();
    (stop, DeadlineTimer::start(deadline, move || ring.store(true, Ordering::SeqCst)))
}

/// One round: wants, haves, done.
struct SingleRound<'a> {
    request: &'a FetchRequest,
    /// Whether the server filters what it sends.
    is_filtered: &'a Cell<bool>,
}

impl Negotiate for SingleRound<'_> {
    fn mark_complete_and_common_ref(&mut self) -> gix::Result<Action> {
        Ok(Action::MustNegotiate { remote_ref_target_known: Vec::new() })
    }

    fn add_wants(&mut self, arguments: &mut Arguments, _known: &[bool]) -> bool {
        if self.request.commits_only.is_some() && arguments.can_use_filter() {
            arguments.filter("tree:0");
            self.is_filtered.set(true);
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
