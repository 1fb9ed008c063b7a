//! One HTTP request in, the reader of its answer out: handles redirects, credentials, limits and the deadline.
//!
//! Law: a redirect never leaves http and https, never changes from https to http, and never sends credentials to
//! another host; credentials use an unencrypted connection only to this machine; an answer counts as Git's only by
//! its status and its content type (held by `a_redirect_to_another_host_gets_no_login`,
//! `a_login_is_not_sent_in_clear_text`).

use std::io::Read;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ureq::http::{Response, StatusCode};
use zagent_config::redirect::{MAX_REDIRECTS, UrlOrigin, resolve_redirect};
use zagent_config::settings::RemoteSettings;

use super::address::HttpAddress;
use super::credentials::{AuthScheme, Credentials, RemoteLogin};
use super::error::{SourceErrorKind, SourceFailure, sanitize_line};
use super::{Deadline, http_agent};
use zagent_config::mask::bare_url;

/// Connections to one remote, and what is known about it.
#[derive(Clone)]
pub(super) struct HttpRemote(Arc<HttpRemoteInner>);

struct HttpRemoteInner {
    agent: ureq::Agent,
    remote: String,
    base: String,
    credentials: Credentials,
    learned: Mutex<LearnedState>,
}

/// What is known so far.
#[derive(Default)]
struct LearnedState {
    /// The target of a redirect.
    redirect: Option<String>,
    /// The login that worked, or the next one to try.
    login: Option<(RemoteLogin, AuthScheme)>,
    /// The cause of a failure, for the caller that gets the Git library's error.
    failure: Option<SourceFailure>,
    /// True when the server has used protocol version 2.
    speaks_v2: bool,
}

/// A complete request.
pub(super) struct RemoteRequest {
    pub(super) url: String,
    pub(super) headers: Vec<(String, String)>,
    /// The body of a POST; a GET when `None`.
    pub(super) body: Option<Vec<u8>>,
    /// Maximum bytes of the answer.
    pub(super) limit: u64,
}

/// The answer: its headers as lines, and its body.
pub(super) struct RemoteResponse {
    pub(super) headers: Vec<u8>,
    pub(super) body: BoundedBody,
}

impl HttpRemote {
    pub(super) fn new(remote: &RemoteSettings, address: &HttpAddress) -> Result<Self, SourceFailure> {
        let agent = http_agent::new_agent(remote)?;
        let credentials = Credentials::new(remote, address);
        let shown = bare_url(&remote.url);
        let known = Mutex::default();
        Ok(Self(Arc::new(HttpRemoteInner {
            agent,
            remote: shown,
            base: address.base.clone(),
            credentials,
            learned: known,
        })))
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
    pub(super) fn current_url(&self) -> String {
        self.lock_learned().redirect.clone().unwrap_or_else(|| self.0.base.clone())
    }

    /// The target of a redirect, if there was one.
    pub(super) fn redirected_to(&self) -> Option<String> {
        self.lock_learned().redirect.clone()
    }

    /// Starts again at the configured address.
    pub(super) fn reset(&self) {
        let mut known = self.lock_learned();
        known.redirect = None;
        known.speaks_v2 = false;
        known.failure = None;
    }

    pub(super) fn speaks_v2(&self) -> bool {
        self.lock_learned().speaks_v2
    }

    pub(super) fn mark_v2(&self) {
        self.lock_learned().speaks_v2 = true;
    }

    /// Records why something failed; the first cause wins.
    pub(super) fn note_failure(&self, failure: &SourceFailure) {
        self.lock_learned().failure.get_or_insert_with(|| failure.clone());
    }

    /// The recorded cause.
    pub(super) fn take_failure(&self) -> Option<SourceFailure> {
        self.lock_learned().failure.take()
    }

    fn lock_learned(&self) -> MutexGuard<'_, LearnedState> {
        self.0.learned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request and returns the answer, if it comes from a Git server.
    pub(super) fn send_request(
        &self,
        request: RemoteRequest,
        deadline: Deadline,
    ) -> Result<RemoteResponse, SourceFailure> {
        let result = self.send_with_redirects(request, deadline);
        if let Err(failure) = &result {
            self.note_failure(failure);
        }
        result
    }

    fn send_with_redirects(
        &self,
        mut request: RemoteRequest,
        deadline: Deadline,
    ) -> Result<RemoteResponse, SourceFailure> {
        let tail = request.url.strip_prefix(&self.current_url()).unwrap_or_default().to_owned();
        let mut asked = 0;
        let mut redirects = 0;
        loop {
            let response = self.send_once(&request, deadline)?;
            let status = response.status();
            if status == StatusCode::UNAUTHORIZED && asked < 2 {
                // The known login may have been replaced: read it again before giving up.
                asked += 1;
                self.log_in(&request.url, &response, asked, deadline)?;
            } else if status.is_redirection() && request.body.is_none() {
                redirects += 1;
                if redirects > MAX_REDIRECTS {
                    return Err(self.new_failure(
                        SourceErrorKind::Protocol,
                        format!("redirects more than {MAX_REDIRECTS} times"),
                    ));
                }
                request.url = self.redirect(&request.url, &response, &tail)?;
            } else {
                return self.check_response(response, &request);
            }
        }
    }

    fn send_once(
        &self,
        request: &RemoteRequest,
        deadline: Deadline,
    ) -> Result<Response<ureq::Body>, SourceFailure> {
        let Some(left) = deadline.remaining() else {
            return Err(self.timeout_failure());
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
        sent.map_err(|error| self.explain_error(&error))
    }

    /// The header of the login, if it may be sent to that address.
    fn authorization(&self, url: &str) -> Result<Option<(String, String)>, SourceFailure> {
        let known = self.lock_learned();
        let Some((login, scheme)) = &known.login else {
            return Ok(None);
        };
        let there = UrlOrigin::parse(url);
        if there.is_none() || there != UrlOrigin::parse(&self.0.base) {
            return Ok(None);
        }
        if there.is_some_and(|there| !there.is_encrypted() && !there.is_loopback()) {
            let why = "asks for credentials, and they would be sent unencrypted: use https";
            return Err(self.new_failure(SourceErrorKind::Denied, why));
        }
        Ok(Some(("Authorization".into(), login.header(*scheme))))
    }

    /// Reads a login after the server asked for one.
    fn log_in(
        &self,
        url: &str,
        response: &Response<ureq::Body>,
        asked: usize,
        deadline: Deadline,
    ) -> Result<(), SourceFailure> {
        if UrlOrigin::parse(url) != UrlOrigin::parse(&self.0.base) {
            let there = bare_url(url);
            let why = format!(
                "redirects to {there}, which asks for credentials: zagent sends none to \
                               another host; if that host is correct, set it as `url`"
            );
            return Err(self.new_failure(SourceErrorKind::Denied, why));
        }
        let offers = response.headers().get_all("www-authenticate").iter();
        let scheme = AuthScheme::from_challenges(offers.filter_map(|offer| offer.to_str().ok()));
        let before = self.lock_learned().login.take();
        let Some(login) = self.0.credentials.find(deadline)? else {
            let way = "set `token_file` (and `user`), or add the host to ~/.netrc";
            return Err(self.new_failure(SourceErrorKind::Denied, format!("asks for credentials: {way}")));
        };
        if before.is_some_and(|(old, used)| old == login && used == scheme) || asked > 1 {
            let from = login.origin();
            return Err(
                self.new_failure(SourceErrorKind::Denied, format!("refuses the credentials from {from}"))
            );
        }
        self.lock_learned().login = Some((login, scheme));
        Ok(())
    }

    /// The target of a redirect, if it may be followed.
    fn redirect(
        &self,
        from: &str,
        response: &Response<ureq::Body>,
        tail: &str,
    ) -> Result<String, SourceFailure> {
        let location =
            response.headers().get("location").and_then(|value| value.to_str().ok()).unwrap_or_default();
        let shown = sanitize_line(&bare_url(location));
        let refuse =
            |why: &str| self.new_failure(SourceErrorKind::Protocol, format!("redirects to `{shown}`: {why}"));
        let to = resolve_redirect(from, location).map_err(|error| refuse(&error.to_string()))?.url;
        let Some(base) = to.strip_suffix(tail).filter(|_| !tail.is_empty()) else {
            return Err(refuse("that is not a repository (a login page?); check the URL"));
        };
        self.lock_learned().redirect = Some(base.to_owned());
        Ok(to)
    }

    /// Accepts the answer if it comes from a Git server.
    fn check_response(
        &self,
        response: Response<ureq::Body>,
        request: &RemoteRequest,
    ) -> Result<RemoteResponse, SourceFailure> {
        let status = response.status();
        if status != StatusCode::OK {
            return Err(self.status_failure(&response));
        }
        let kind = if request.body.is_some() { "result" } else { "advertisement" };
        let service = if request.url.ends_with("git-receive-pack") { "receive" } else { "upload" };
        let want = format!("application/x-git-{service}-pack-{kind}");
        let got =
            response.headers().get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
        if got != want {
            let got = sanitize_line(got);
            let what = if got.starts_with("text/html") {
                format!(
                    "answers with a web page ({got}), not with Git: is it the URL of a repository, or a login page?"
                )
            } else {
                format!("answers with `{got}`, not with Git's smart protocol; check the URL")
            };
            return Err(self.new_failure(SourceErrorKind::Protocol, what));
        }
        let headers = format!("Content-Type: {want}\n").into_bytes();
        let inner = response.into_body().into_with_config().limit(u64::MAX).reader();
        let limit = request.limit;
        let body =
            BoundedBody { inner: Box::new(inner), left: limit, limit, open: true, remote: self.clone() };
        Ok(RemoteResponse { headers, body })
    }
}

/// The body of an answer, limited.
pub(super) struct BoundedBody {
    inner: Box<dyn Read + Send>,
    left: u64,
    limit: u64,
    open: bool,
    remote: HttpRemote,
}

impl Read for BoundedBody {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(buf).map_err(|error| self.remote.io_failure(&error));
        let counted = read.and_then(|n| match self.left.checked_sub(n as u64) {
            Some(left) => {
                self.left = left;
                Ok(n)
            }
            None => {
                let most = format!("sends more than the limit of {} bytes", self.limit);
                Err(self.remote.new_failure(SourceErrorKind::TooLarge, most))
            }
        });
        self.open = counted.as_ref().is_ok_and(|n| *n > 0);
        counted.map_err(|failure| {
            self.remote.note_failure(&failure);
            failure.into_io()
        })
    }
}

impl Drop for BoundedBody {
    /// Reads the rest that the Git library leaves; without it, the connection cannot be used again.
    fn drop(&mut self) {
        if self.open {
            let _ = self.inner.read(&mut [0; 64]);
        }
    }
}
