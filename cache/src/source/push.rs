//! One ref, what it is and what it shall be in, what the server did out.
//!
//! Law: the server compares and swaps: a ref is moved only from the id that the caller knows, whoever else pushes at the
//! time. When the answer is lost, nobody claims to know.
//!
//! Why the greeting is left out: a server that is about to receive lists every ref it has, which is seven megabytes for
//! a hundred thousand. Over HTTP nothing but the request itself is needed once the server is known to be one of Git.

use std::io::Write;

use gix::ObjectId;

use super::child::Service;
use super::error::{Failure, Kind, tame};
use super::report::{Advert, Report, advert, report};
use super::sheet::Sheet;
use super::wire::{Request, Wire};
use super::{AGENT, Client, Deadline, MAX_REFS, SourceError};

/// Bytes of the answer to a push.
const MAX_REPORT: u64 = 1 << 20;

/// What came of a push.
#[derive(Debug)]
pub enum Pushed {
    /// The ref is moved.
    Done,
    /// The ref is not what the caller knows; nothing was changed.
    Stale,
    /// The server does not let history be rewritten there; nothing was changed.
    NotForward {
        /// What it said.
        message: String,
    },
    /// The server, or a hook on it, says no; nothing was changed.
    Denied {
        /// What it said.
        message: String,
    },
    /// The answer was lost: it may have happened or not.
    Unknown(SourceError),
}

/// What a server that receives offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Offer {
    sideband: bool,
    format: bool,
    agent: bool,
}

impl Offer {
    /// What every server offers that speaks the second version to those who fetch.
    const USUAL: Self = Self { sideband: true, format: false, agent: false };

    fn read(capabilities: &str) -> Result<Self, &'static str> {
        let has = |word: &str| capabilities.split(' ').any(|found| found == word);
        let begins = |word: &str| capabilities.split(' ').any(|found| found.starts_with(word));
        if !has("report-status") {
            return Err("does not tell what comes of a push");
        }
        if has("object-format=sha256") {
            return Err("is a repository with SHA-256, which cannot be written yet");
        }
        Ok(Self {
            sideband: has("side-band-64k"),
            format: has("object-format=sha1"),
            agent: begins("agent="),
        })
    }

    fn words(self) -> String {
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

/// What a ref is, and what it shall be.
struct Move<'a> {
    name: &'a str,
    old: Option<ObjectId>,
    new: Option<&'a Sheet>,
}

impl Move<'_> {
    /// The request: the command, and the objects that the server does not have.
    fn request(&self, offer: Offer) -> std::io::Result<Vec<u8>> {
        let zero = ObjectId::null(gix::hash::Kind::Sha1);
        let old = self.old.unwrap_or(zero);
        let new = self.new.map_or_else(|| zero.to_string(), |sheet| sheet.revision().to_string());
        let line = format!("{old} {new} {}\0 {}\n", self.name, offer.words());
        let mut body = format!("{:04x}{line}0000", line.len() + 4).into_bytes();
        if let Some(sheet) = self.new {
            body.extend_from_slice(&sheet.pack()?);
        }
        Ok(body)
    }

    /// True when the server says that the ref is something else already.
    fn is_stale(&self, advert: &Advert) -> bool {
        advert.id != self.old.map(|id| id.to_string())
    }
}

impl Client {
    /// Moves a ref from `old` to a new commit, or takes it away.
    pub(super) fn push(
        &mut self,
        name: &str,
        old: Option<ObjectId>,
        new: Option<&Sheet>,
        deadline: Deadline,
    ) -> Result<Pushed, SourceError> {
        let wanted = Move { name, old, new };
        match self.wire.clone() {
            Some(wire) => self.push_http(&wire, &wanted, deadline),
            None => self.push_pipes(&wanted, deadline),
        }
    }

    fn offer(&self, advert: &Advert) -> Result<Offer, SourceError> {
        let refuse = |why| self.fail(Kind::Protocol, format!("{} {why}", self.shown));
        Offer::read(&advert.capabilities).map_err(refuse)
    }

    fn body(&self, wanted: &Move<'_>, offer: Offer) -> Result<Vec<u8>, SourceError> {
        let failed = |error| self.fail(Kind::Local, format!("cannot pack what is to be pushed: {error}"));
        wanted.request(offer).map_err(failed)
    }

    fn push_pipes(&self, wanted: &Move<'_>, deadline: Deadline) -> Result<Pushed, SourceError> {
        let (mut child, mut input, mut output) = self.spawn(Service::Receive, deadline)?;
        let advert = advert(&mut output, wanted.name).map_err(|error| {
            let seen = child.failure(&self.shown);
            seen.unwrap_or_else(|| self.odd(&error)).at(&self.shown)
        })?;
        let offer = self.offer(&advert)?;
        if wanted.is_stale(&advert) {
            // It ends by itself when nothing is asked of it.
            let _ = input.write_all(b"0000");
            return Ok(Pushed::Stale);
        }
        let body = self.body(wanted, offer)?;
        let sent = input.write_all(&body).and_then(|()| input.flush());
        let told = sent.and_then(|()| report(&mut output, offer.sideband));
        match told {
            Ok(report) => Ok(self.judge(report)),
            Err(error) => {
                let seen = child.failure(&self.shown);
                Ok(Pushed::Unknown(seen.unwrap_or_else(|| self.odd(&error)).at(&self.shown)))
            }
        }
    }

    fn push_http(
        &mut self,
        wire: &Wire,
        wanted: &Move<'_>,
        deadline: Deadline,
    ) -> Result<Pushed, SourceError> {
        let usual = wire.proven().then_some(Offer::USUAL);
        let offer = match self.offer.or(usual) {
            Some(offer) => offer,
            None => {
                let advert = self.advert(wire, wanted.name, deadline)?;
                let offer = self.offer(&advert)?;
                self.offer = Some(offer);
                if wanted.is_stale(&advert) {
                    return Ok(Pushed::Stale);
                }
                offer
            }
        };
        let url = format!("{}/git-receive-pack", wire.found_at());
        let body = Some(self.body(wanted, offer)?);
        let headers = [("Content-Type", "request"), ("Accept", "result")]
            .map(|(name, end)| (name.to_owned(), format!("application/x-git-receive-pack-{end}")));
        let request = Request { url, headers: headers.to_vec(), body, limit: MAX_REPORT };
        let told = wire.exchange(request, deadline).and_then(|mut answer| {
            report(&mut answer.body, offer.sideband)
                .map_err(|error| wire.failure().unwrap_or_else(|| self.odd(&error)))
        });
        // Whatever was noted on the way belongs to this exchange.
        drop(wire.failure());
        match told {
            Ok(report) => Ok(self.judge(report)),
            Err(failure) => {
                // The next one begins with a greeting.
                self.offer = None;
                wire.forget();
                match failure.kind {
                    Kind::Denied | Kind::NoRepository | Kind::Tls | Kind::Local => {
                        Err(failure.at(&self.shown))
                    }
                    _ => Ok(Pushed::Unknown(failure.at(&self.shown))),
                }
            }
        }
    }

    /// Asks what the server offers, which makes it list all its refs.
    fn advert(&self, wire: &Wire, name: &str, deadline: Deadline) -> Result<Advert, SourceError> {
        let url = format!("{}/info/refs?service=git-receive-pack", wire.found_at());
        let request = Request { url, headers: Vec::new(), body: None, limit: MAX_REFS };
        let read = wire.exchange(request, deadline).and_then(|mut answer| {
            advert(&mut answer.body, name).map_err(|error| wire.failure().unwrap_or_else(|| self.odd(&error)))
        });
        drop(wire.failure());
        read.map_err(|failure| failure.at(&self.shown))
    }

    fn odd(&self, error: &std::io::Error) -> Failure {
        let why = tame(&error.to_string());
        match error.kind() {
            std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::BrokenPipe => {
                Failure::new(Kind::Unreachable, format!("{} broke off in the middle", self.shown))
            }
            _ => Failure::new(
                Kind::Protocol,
                format!("{} does not answer as a Git server does: {why}", self.shown),
            ),
        }
    }

    fn judge(&self, report: Report) -> Pushed {
        let said = tame(&report.said);
        let words = |why: &str| match said.is_empty() {
            true => tame(why),
            false => format!("{}: {said}", tame(why)),
        };
        match (report.unpack.as_deref(), report.status) {
            (Some("ok"), Some(Ok(()))) => Pushed::Done,
            (Some("ok"), Some(Err(why))) if why.contains("non-fast-forward") => {
                Pushed::NotForward { message: words(&why) }
            }
            (Some("ok"), Some(Err(why))) if is_stale(&why, &report.said) => Pushed::Stale,
            (Some("ok"), Some(Err(why))) => Pushed::Denied { message: words(&why) },
            (Some(why), _) if why != "ok" => Pushed::Denied { message: words(why) },
            _ => {
                let message = format!("{} does not say what came of it {said}", self.shown);
                Pushed::Unknown(self.fail(Kind::Protocol, message.trim_end().to_owned()))
            }
        }
    }
}

/// True when a ref was refused because it is not what the writer knows. Servers say so in words only.
fn is_stale(why: &str, said: &str) -> bool {
    // One name is the directory of another: trying again would not help.
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
