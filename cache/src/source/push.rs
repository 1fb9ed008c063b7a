//! One ref with its old and new value in, the result on the server out.
//!
//! Law: the server does a compare-and-swap: a ref moves only from the id that the caller knows, even if others push
//! at the same time. If the answer is lost, the result is unknown (held by `a_git_board_conforms_through_a_path`,
//! `a_lost_answer_is_resolved_or_reported`).
//!
//! Why zagent skips the greeting: a server that receives a push first lists all its refs, which is seven megabytes for
//! a hundred thousand. Over HTTP, only the request itself is needed once the server is known to be a Git server.

use std::io::Write;

use gix::ObjectId;

use super::commit_builder::PreparedCommit;
use super::error::{SourceErrorKind, SourceFailure, sanitize_line};
use super::git_process::GitService;
use super::http_remote::{HttpRemote, RemoteRequest};
use super::push_report::{PushReport, RefAdvertisement, read_advertisement, read_report};
use super::{AGENT, Deadline, MAX_REFS, RemoteClient, SourceError};

/// Maximum bytes of the answer to a push.
const MAX_REPORT: u64 = 1 << 20;

/// The result of a push.
#[derive(Debug)]
pub enum PushOutcome {
    /// The ref was moved.
    Done,
    /// The ref is not what the caller expects; nothing was changed.
    Stale,
    /// The server does not allow rewritten history there; nothing was changed.
    NotFastForward {
        /// What it said.
        message: String,
    },
    /// The server, or a hook on it, refused; nothing was changed.
    Denied {
        /// What it said.
        message: String,
    },
    /// The answer was lost: the push may have happened or not.
    Unknown(SourceError),
}

/// The capabilities of a server that receives a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ServerCapabilities {
    sideband: bool,
    format: bool,
    agent: bool,
}

impl ServerCapabilities {
    /// The capabilities of every server that supports protocol version 2 for fetches.
    const DEFAULT: Self = Self { sideband: true, format: false, agent: false };

    fn parse(capabilities: &str) -> Result<Self, &'static str> {
        let has = |word: &str| capabilities.split(' ').any(|found| found == word);
        let begins = |word: &str| capabilities.split(' ').any(|found| found.starts_with(word));
        if !has("report-status") {
            return Err("does not report the result of a push");
        }
        if has("object-format=sha256") {
            return Err("is a SHA-256 repository, and zagent cannot write those yet");
        }
        Ok(Self {
            sideband: has("side-band-64k"),
            format: has("object-format=sha1"),
            agent: begins("agent="),
        })
    }

    fn to_protocol(self) -> String {
        let mut words = "report-status".to_owned();
        if self.sideband {
            words.push_str(" side-band-64k");
        }
        if self.format {
            words.push_str(" object-format=sha1");
        }
        if self.agent {
            words.push_str(&format!(" agent={AGENT}"));
        }
        words
    }
}

/// The old and the new value of a ref.
struct RefUpdate<'a> {
    name: &'a str,
    old: Option<ObjectId>,
    new: Option<&'a PreparedCommit>,
}

impl RefUpdate<'_> {
    /// The request: the command, and the objects that the server does not have.
    fn to_request(&self, offer: ServerCapabilities) -> std::io::Result<Vec<u8>> {
        let zero = ObjectId::null(gix::hash::Kind::Sha1);
        let old = self.old.unwrap_or(zero);
        let new = self.new.map_or_else(|| zero.to_string(), |commit| commit.revision().to_string());
        let line = format!("{old} {new} {}\0 {}\n", self.name, offer.to_protocol());
        let mut body = format!("{:04x}{line}0000", line.len() + 4).into_bytes();
        if let Some(commit) = self.new {
            body.extend_from_slice(&commit.pack()?);
        }
        Ok(body)
    }

    /// True when the server reports that the ref already has another value.
    fn is_stale(&self, advert: &RefAdvertisement) -> bool {
        advert.id != self.old.map(|id| id.to_string())
    }
}

impl RemoteClient {
    /// Moves a ref from `old` to a new commit, or deletes it.
    pub(super) fn push(
        &mut self,
        name: &str,
        old: Option<ObjectId>,
        new: Option<&PreparedCommit>,
        deadline: Deadline,
    ) -> Result<PushOutcome, SourceError> {
        let wanted = RefUpdate { name, old, new };
        match self.http.clone() {
            Some(wire) => self.push_http(&wire, &wanted, deadline),
            None => self.push_pipes(&wanted, deadline),
        }
    }

    fn parse_capabilities(&self, advert: &RefAdvertisement) -> Result<ServerCapabilities, SourceError> {
        let refuse = |why| self.new_error(SourceErrorKind::Protocol, format!("{} {why}", self.display_url));
        ServerCapabilities::parse(&advert.capabilities).map_err(refuse)
    }

    fn encode_push(&self, wanted: &RefUpdate<'_>, offer: ServerCapabilities) -> Result<Vec<u8>, SourceError> {
        let failed = |error| {
            self.new_error(SourceErrorKind::Local, format!("cannot pack the objects to push: {error}"))
        };
        wanted.to_request(offer).map_err(failed)
    }

    fn push_pipes(&self, wanted: &RefUpdate<'_>, deadline: Deadline) -> Result<PushOutcome, SourceError> {
        let (mut child, mut input, mut output) = self.spawn_process(GitService::Receive, deadline)?;
        let advert = read_advertisement(&mut output, wanted.name).map_err(|error| {
            let seen = child.take_failure(&self.display_url);
            seen.unwrap_or_else(|| self.broken_failure(&error)).with_remote(&self.display_url)
        })?;
        let offer = self.parse_capabilities(&advert)?;
        if wanted.is_stale(&advert) {
            // It ends by itself when it gets no request.
            let _ = input.write_all(b"0000");
            return Ok(PushOutcome::Stale);
        }
        let body = self.encode_push(wanted, offer)?;
        let sent = input.write_all(&body).and_then(|()| input.flush());
        let told = sent.and_then(|()| read_report(&mut output, offer.sideband));
        match told {
            Ok(report) => Ok(self.outcome_of_report(report)),
            Err(error) => {
                let seen = child.take_failure(&self.display_url);
                Ok(PushOutcome::Unknown(
                    seen.unwrap_or_else(|| self.broken_failure(&error)).with_remote(&self.display_url),
                ))
            }
        }
    }

    fn push_http(
        &mut self,
        wire: &HttpRemote,
        wanted: &RefUpdate<'_>,
        deadline: Deadline,
    ) -> Result<PushOutcome, SourceError> {
        let usual = wire.speaks_v2().then_some(ServerCapabilities::DEFAULT);
        let offer = match self.capabilities.or(usual) {
            Some(offer) => offer,
            None => {
                let advert = self.fetch_advertisement(wire, wanted.name, deadline)?;
                let offer = self.parse_capabilities(&advert)?;
                self.capabilities = Some(offer);
                if wanted.is_stale(&advert) {
                    return Ok(PushOutcome::Stale);
                }
                offer
            }
        };
        let url = format!("{}/git-receive-pack", wire.current_url());
        let body = Some(self.encode_push(wanted, offer)?);
        let headers = [("Content-Type", "request"), ("Accept", "result")]
            .map(|(name, end)| (name.to_owned(), format!("application/x-git-receive-pack-{end}")));
        let request = RemoteRequest { url, headers: headers.to_vec(), body, limit: MAX_REPORT };
        let told = wire.send_request(request, deadline).and_then(|mut answer| {
            read_report(&mut answer.body, offer.sideband)
                .map_err(|error| wire.take_failure().unwrap_or_else(|| self.broken_failure(&error)))
        });
        // A cause that was recorded on the way belongs to this exchange.
        drop(wire.take_failure());
        match told {
            Ok(report) => Ok(self.outcome_of_report(report)),
            Err(failure) => {
                // The next one starts with a greeting.
                self.capabilities = None;
                wire.reset();
                match failure.kind {
                    SourceErrorKind::Denied
                    | SourceErrorKind::NoRepository
                    | SourceErrorKind::Tls
                    | SourceErrorKind::Local => Err(failure.with_remote(&self.display_url)),
                    _ => Ok(PushOutcome::Unknown(failure.with_remote(&self.display_url))),
                }
            }
        }
    }

    /// Requests the capabilities of the server, which makes it list all its refs.
    fn fetch_advertisement(
        &self,
        wire: &HttpRemote,
        name: &str,
        deadline: Deadline,
    ) -> Result<RefAdvertisement, SourceError> {
        let url = format!("{}/info/refs?service=git-receive-pack", wire.current_url());
        let request = RemoteRequest { url, headers: Vec::new(), body: None, limit: MAX_REFS };
        let read = wire.send_request(request, deadline).and_then(|mut answer| {
            read_advertisement(&mut answer.body, name)
                .map_err(|error| wire.take_failure().unwrap_or_else(|| self.broken_failure(&error)))
        });
        drop(wire.take_failure());
        read.map_err(|failure| failure.with_remote(&self.display_url))
    }

    fn broken_failure(&self, error: &std::io::Error) -> SourceFailure {
        let why = sanitize_line(&error.to_string());
        match error.kind() {
            std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::BrokenPipe => SourceFailure::new(
                SourceErrorKind::Unreachable,
                format!("{} ended the connection too early", self.display_url),
            ),
            _ => SourceFailure::new(
                SourceErrorKind::Protocol,
                format!("{} does not answer as a Git server does: {why}", self.display_url),
            ),
        }
    }

    fn outcome_of_report(&self, report: PushReport) -> PushOutcome {
        let said = sanitize_line(&report.messages);
        let words = |why: &str| match said.is_empty() {
            true => sanitize_line(why),
            false => format!("{}: {said}", sanitize_line(why)),
        };
        match (report.unpack.as_deref(), report.status) {
            (Some("ok"), Some(Ok(()))) => PushOutcome::Done,
            (Some("ok"), Some(Err(why))) if why.contains("non-fast-forward") => {
                PushOutcome::NotFastForward { message: words(&why) }
            }
            (Some("ok"), Some(Err(why))) if is_stale_refusal(&why, &report.messages) => PushOutcome::Stale,
            (Some("ok"), Some(Err(why))) => PushOutcome::Denied { message: words(&why) },
            (Some(why), _) if why != "ok" => PushOutcome::Denied { message: words(why) },
            _ => {
                let message = format!("{} does not report the result of the push {said}", self.display_url);
                PushOutcome::Unknown(self.new_error(SourceErrorKind::Protocol, message.trim_end().to_owned()))
            }
        }
    }
}

/// True when a ref was refused because it is not what the writer expects. Servers report this only as text.
fn is_stale_refusal(why: &str, said: &str) -> bool {
    // One name is the directory of another: a retry would not help.
    if why.contains("cannot create") || said.contains("; cannot create") {
        return false;
    }
    let told = [
        "incorrect old value",
        "already exists",
        "does not exist",
        "missing necessary objects",
        "stale info",
    ];
    let moved = ["failed to update ref", "failed to lock", "cannot lock ref", "failed to delete"];
    let has = |text: &str, words: &[&str]| words.iter().any(|word| text.contains(word));
    has(why, &told) || has(why, &moved)
}
