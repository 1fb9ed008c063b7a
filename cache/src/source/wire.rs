//! One HTTP request in, the reader of its answer out: redirects, credentials, limits and the deadline are kept here.
//!
//! Law: a redirect never leaves http and https, never falls back from https to http, and never takes credentials to
//! another host; credentials cross a plain connection only to this machine; an answer is believed to be Git's only by
//! its status and its type.

use std::io::Read;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ureq::http::{Response, StatusCode};
use zagent_config::settings::Remote;

use super::address::{HttpAddress, is_loopback, origin, redact};
use super::credentials::{Credentials, Login, Scheme};
use super::error::{Failure, Kind, tame};
use super::{Deadline, agent};

/// How many redirects are followed.
const MAX_REDIRECTS: usize = 5;

/// Connections to one remote, and what was learnt about it.
#[derive(Clone)]
pub(super) struct Wire(Arc<Shared>);

struct Shared {
    agent: ureq::Agent,
    remote: String,
    base: String,
    credentials: Credentials,
    known: Mutex<Known>,
}

/// What was learnt on the way.
#[derive(Default)]
struct Known {
    /// Where a redirect led to.
    moved: Option<String>,
    /// The login that worked, or is about to be tried.
    login: Option<(Login, Scheme)>,
    /// The cause of a failure, for whoever gets the Git library's error.
    failure: Option<Failure>,
    /// True when the server has spoken protocol version 2.
    proven: bool,
}

/// A request, complete.
pub(super) struct Request {
    pub(super) url: String,
    pub(super) headers: Vec<(String, String)>,
    /// The body of a POST; a GET when none.
    pub(super) body: Option<Vec<u8>>,
    /// Bytes that the answer may have.
    pub(super) limit: u64,
}

/// The answer: its headers as lines, and its body.
pub(super) struct Answer {
    pub(super) headers: Vec<u8>,
    pub(super) body: Body,
}

impl Wire {
    pub(super) fn new(remote: &Remote, address: &HttpAddress) -> Result<Self, Failure> {
        let agent = agent::new(remote)?;
        let credentials = Credentials::new(remote, address);
        let shown = redact(&remote.url);
        let known = Mutex::default();
        Ok(Self(Arc::new(Shared { agent, remote: shown, base: address.base.clone(), credentials, known })))
    }

    /// The address for messages.
    pub(super) fn remote(&self) -> &str {
        &self.0.remote
    }

    /// The URL as it was configured, without a login.
    pub(super) fn base(&self) -> &str {
        &self.0.base
    }

    /// Where the repository was found last.
    pub(super) fn found_at(&self) -> String {
        self.known().moved.clone().unwrap_or_else(|| self.0.base.clone())
    }

    /// Where a redirect led to, if one did.
    pub(super) fn moved(&self) -> Option<String> {
        self.known().moved.clone()
    }

    /// Begins anew at the configured address.
    pub(super) fn forget(&self) {
        let mut known = self.known();
        known.moved = None;
        known.proven = false;
        known.failure = None;
    }

    pub(super) fn proven(&self) -> bool {
        self.known().proven
    }

    pub(super) fn prove(&self) {
        self.known().proven = true;
    }

    /// Notes why something failed; the first cause counts.
    pub(super) fn note(&self, failure: &Failure) {
        self.known().failure.get_or_insert_with(|| failure.clone());
    }

    /// The cause that was noted.
    pub(super) fn failure(&self) -> Option<Failure> {
        self.known().failure.take()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request and gives the answer, once it is known to be one of Git.
    pub(super) fn exchange(&self, request: Request, deadline: Deadline) -> Result<Answer, Failure> {
        let result = self.follow(request, deadline);
        if let Err(failure) = &result {
            self.note(failure);
        }
        result
    }

    fn follow(&self, mut request: Request, deadline: Deadline) -> Result<Answer, Failure> {
        let tail = request.url.strip_prefix(&self.found_at()).unwrap_or_default().to_owned();
        let mut asked = 0;
        let mut redirects = 0;
        loop {
            let response = self.send(&request, deadline)?;
            let status = response.status();
            if status == StatusCode::UNAUTHORIZED && asked < 2 {
                // The login that is known may have been replaced since: ask for it once more before giving up.
                asked += 1;
                self.log_in(&request.url, &response, asked, deadline)?;
            } else if status.is_redirection() && request.body.is_none() {
                redirects += 1;
                if redirects > MAX_REDIRECTS {
                    return Err(
                        self.fail(Kind::Protocol, format!("redirects more than {MAX_REDIRECTS} times"))
                    );
                }
                request.url = self.redirect(&request.url, &response, &tail)?;
            } else {
                return self.judge(response, &request);
            }
        }
    }

    fn send(&self, request: &Request, deadline: Deadline) -> Result<Response<ureq::Body>, Failure> {
        let Some(left) = deadline.remaining() else {
            return Err(self.timeout());
        };
        let login = self.authorization(&request.url)?;
        let sent = match &request.body {
            None => {
                let mut get = self.0.agent.get(&request.url);
                for (name, value) in request.headers.iter().chain(&login) {
                    get = get.header(name, value);
                }
                get.config().timeout_global(Some(left)).build().call()
            }
            Some(body) => {
                let mut post = self.0.agent.post(&request.url);
                for (name, value) in request.headers.iter().chain(&login) {
                    post = post.header(name, value);
                }
                post.config().timeout_global(Some(left)).build().send(&body[..])
            }
        };
        sent.map_err(|error| self.explain(&error))
    }

    /// The header of the login, when there is one that may be sent there.
    fn authorization(&self, url: &str) -> Result<Option<(String, String)>, Failure> {
        let known = self.known();
        let Some((login, scheme)) = &known.login else {
            return Ok(None);
        };
        let there = origin(url);
        if there.is_none() || there != origin(&self.0.base) {
            return Ok(None);
        }
        if there.is_some_and(|(scheme, host, _)| scheme != "https" && !is_loopback(&host)) {
            let why = "asks for credentials, and without encryption everybody on the way could read them: use https";
            return Err(self.fail(Kind::Denied, why));
        }
        Ok(Some(("Authorization".into(), login.header(*scheme))))
    }

    /// Takes up a login after the server asked for one.
    fn log_in(
        &self,
        url: &str,
        response: &Response<ureq::Body>,
        asked: usize,
        deadline: Deadline,
    ) -> Result<(), Failure> {
        if origin(url) != origin(&self.0.base) {
            let there = redact(url);
            let why = format!(
                "redirects to {there}, which asks for credentials: none are sent to \
                               another host; if that is the right one, set it as `url`"
            );
            return Err(self.fail(Kind::Denied, why));
        }
        let offers = response.headers().get_all("www-authenticate").iter();
        let scheme = Scheme::offered(offers.filter_map(|offer| offer.to_str().ok()));
        let before = self.known().login.take();
        let Some(login) = self.0.credentials.find(deadline)? else {
            let way = "set `token_file` (and `user`), or add the host to ~/.netrc";
            return Err(self.fail(Kind::Denied, format!("asks for credentials: {way}")));
        };
        if before.is_some_and(|(old, used)| old == login && used == scheme) || asked > 1 {
            let from = login.origin();
            return Err(self.fail(Kind::Denied, format!("refuses the credentials of {from}")));
        }
        self.known().login = Some((login, scheme));
        Ok(())
    }

    /// Where a redirect leads, when it may be followed.
    fn redirect(&self, from: &str, response: &Response<ureq::Body>, tail: &str) -> Result<String, Failure> {
        let location =
            response.headers().get("location").and_then(|value| value.to_str().ok()).unwrap_or_default();
        let shown = tame(&redact(location));
        let refuse = |why: &str| self.fail(Kind::Protocol, format!("redirects to `{shown}`: {why}"));
        let root =
            from.find("://").and_then(|at| from[at + 3..].find('/').map(|slash| &from[..at + 3 + slash]));
        let to = match location {
            absolute if absolute.contains("://") => absolute.to_owned(),
            path if path.starts_with('/') && !path.starts_with("//") => {
                format!("{}{path}", root.unwrap_or(from))
            }
            _ => return Err(refuse("that is no full address")),
        };
        let scheme = to.split("://").next().unwrap_or_default().to_ascii_lowercase();
        if scheme != "https" && scheme != "http" {
            return Err(refuse("only https and http are followed"));
        }
        if scheme == "http" && from.starts_with("https://") {
            return Err(refuse("that would give up encryption"));
        }
        let Some(base) = to.strip_suffix(tail).filter(|_| !tail.is_empty()) else {
            return Err(refuse("that is no repository (a login page?); check the URL"));
        };
        self.known().moved = Some(base.to_owned());
        Ok(to)
    }

    /// Takes the answer when it is one of Git.
    fn judge(&self, response: Response<ureq::Body>, request: &Request) -> Result<Answer, Failure> {
        let status = response.status();
        if status != StatusCode::OK {
            return Err(self.status(&response));
        }
        let kind = if request.body.is_some() { "result" } else { "advertisement" };
        let service = if request.url.ends_with("git-receive-pack") { "receive" } else { "upload" };
        let want = format!("application/x-git-{service}-pack-{kind}");
        let got =
            response.headers().get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
        if got != want {
            let got = tame(got);
            let what = if got.starts_with("text/html") {
                format!(
                    "answers with a web page ({got}), not with Git: is it the URL of a repository, or a login page?"
                )
            } else {
                format!("answers with `{got}`, not with Git's smart protocol; check the URL")
            };
            return Err(self.fail(Kind::Protocol, what));
        }
        let headers = format!("Content-Type: {want}\n").into_bytes();
        let inner = response.into_body().into_with_config().limit(u64::MAX).reader();
        let limit = request.limit;
        let body = Body { inner: Box::new(inner), left: limit, limit, open: true, wire: self.clone() };
        Ok(Answer { headers, body })
    }
}

/// The body of an answer, bounded.
pub(super) struct Body {
    inner: Box<dyn Read + Send>,
    left: u64,
    limit: u64,
    open: bool,
    wire: Wire,
}

impl Read for Body {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(buf).map_err(|error| self.wire.io(&error));
        let counted = read.and_then(|n| match self.left.checked_sub(n as u64) {
            Some(left) => {
                self.left = left;
                Ok(n)
            }
            None => {
                let most = format!("sends more than the {} bytes that are allowed", self.limit);
                Err(self.wire.fail(Kind::TooLarge, most))
            }
        });
        self.open = counted.as_ref().is_ok_and(|n| *n > 0);
        counted.map_err(|failure| {
            self.wire.note(&failure);
            failure.into_io()
        })
    }
}

impl Drop for Body {
    /// Reads the end that the Git library leaves, without which the connection could not be used again.
    fn drop(&mut self) {
        if self.open {
            let _ = self.inner.read(&mut [0; 64]);
        }
    }
}
