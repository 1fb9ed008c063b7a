//! A question in, the daemon's answer out: one request a connection, by hand.
//!
//! Law: it never waits beyond its time nor reads beyond its bound. That no daemon runs is an answer of its own.
//!
//! ## Why by hand
//! The HTTP client of the program knows no unix sockets, and a runtime would cost `zagent status` more than the question.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use serde::de::DeserializeOwned;

use super::{RequestProgress, RequestResult, RunRefused, RunRequest, Ticket};
use crate::LastRun;
use crate::status::AgentStatus;

/// How long an answer may take. Longer than the daemon waits for news of a wish.
const REPLY_TIMEOUT: Duration = Duration::from_secs(20);
/// Bytes of an answer.
const MAX_REPLY_BYTES: u64 = 4 << 20;
/// Shortest time that is set on a socket; zero would mean no limit at all.
const MIN_TIMEOUT: Duration = Duration::from_millis(1);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens.
    #[error("no daemon answers on `{}`", .0.display())]
    NoDaemon(PathBuf),
    /// The system does not let us.
    #[error("not allowed to use the socket `{}`", .0.display())]
    Denied(PathBuf),
    /// It was lost on the way.
    #[error("cannot talk to the daemon on `{}`", path.display())]
    Io {
        /// The socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It makes no sense.
    #[error("the daemon on `{}` gave an answer that makes no sense: {what}", path.display())]
    InvalidReply {
        /// The socket.
        path: PathBuf,
        /// What.
        what: String,
    },
    /// The daemon says no.
    #[error("{0}")]
    Refused(RunRefused),
    /// The daemon cannot.
    #[error("the daemon answered {code}: {message}")]
    Failed {
        /// The code of HTTP.
        code: u16,
        /// Its words.
        message: String,
    },
}

/// Asks the daemon.
#[derive(Clone, Debug)]
pub struct ApiClient {
    path: PathBuf,
    timeout: Duration,
}

struct HttpReply {
    code: u16,
    body: Vec<u8>,
}

impl ApiClient {
    /// Asks on a socket.
    #[must_use]
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Self { path: socket.into(), timeout: REPLY_TIMEOUT }
    }

    /// Waits at most so long for an answer.
    #[must_use]
    pub fn with_timeout(self, patience: Duration) -> Self {
        Self { timeout: patience, ..self }
    }

    /// What there is to know.
    ///
    /// # Errors
    /// Fails when there is no answer.
    pub fn status(&self) -> Result<AgentStatus, ClientError> {
        self.decode(self.send_request("GET", "/v1/status", &[])?)
    }

    /// The last run; none when there was none.
    ///
    /// # Errors
    /// Fails when there is no answer.
    pub fn last_run(&self) -> Result<Option<LastRun>, ClientError> {
        match self.send_request("GET", "/v1/runs/last", &[])? {
            HttpReply { code: 404, .. } => Ok(None),
            reply => self.decode(reply).map(Some),
        }
    }

    /// Asks for a run.
    ///
    /// # Errors
    /// Fails when there is no answer, or the daemon says no.
    pub fn trigger(&self, request: &RunRequest) -> Result<Ticket, ClientError> {
        let body = serde_json::to_vec(request).map_err(|e| self.invalid_reply(e.to_string()))?;
        let reply = self.send_request("POST", "/v1/trigger", &body)?;
        if let (409 | 422, Ok(refused)) = (reply.code, serde_json::from_slice(&reply.body)) {
            return Err(ClientError::Refused(refused));
        }
        self.decode(reply)
    }

    /// What became of a wish. The daemon waits a few seconds for news before it answers that there are none.
    ///
    /// # Errors
    /// Fails when there is no answer.
    pub fn progress(&self, ticket: Ticket) -> Result<RequestProgress, ClientError> {
        self.decode(self.send_request("GET", &format!("/v1/trigger/{}", ticket.0), &[])?)
    }

    /// Waits for the end of a wish; none when the daemon knows nothing of it.
    ///
    /// # Errors
    /// Fails when there is no answer.
    pub fn wait(&self, ticket: Ticket) -> Result<Option<RequestResult>, ClientError> {
        loop {
            match self.progress(ticket)? {
                RequestProgress::Done { end } => return Ok(Some(*end)),
                RequestProgress::Unknown => return Ok(None),
                RequestProgress::Waiting | RequestProgress::Running { .. } => {}
            }
        }
    }

    /// Says that pause, pin or quarantine were changed.
    ///
    /// # Errors
    /// Fails when there is no answer.
    pub fn notify_changed(&self) -> Result<(), ClientError> {
        let reply = self.send_request("POST", "/v1/changed", &[])?;
        if reply.code == 204 { Ok(()) } else { Err(self.failed_error(&reply)) }
    }

    fn decode<T: DeserializeOwned>(&self, reply: HttpReply) -> Result<T, ClientError> {
        if !matches!(reply.code, 200 | 202) {
            return Err(self.failed_error(&reply));
        }
        serde_json::from_slice(&reply.body).map_err(|e| self.invalid_reply(e.to_string()))
    }

    fn failed_error(&self, reply: &HttpReply) -> ClientError {
        let message = serde_json::from_slice::<serde_json::Value>(&reply.body).ok();
        let message = message.and_then(|v| Some(v.get("error")?.as_str()?.to_owned()));
        ClientError::Failed { code: reply.code, message: message.unwrap_or_else(|| "no words".into()) }
    }

    fn invalid_reply(&self, what: impl Into<String>) -> ClientError {
        ClientError::InvalidReply { path: self.path.clone(), what: what.into() }
    }

    fn send_request(&self, method: &str, target: &str, body: &[u8]) -> Result<HttpReply, ClientError> {
        let until = Instant::now() + self.timeout;
        let mut stream = self.connect()?;
        let lost = |source| ClientError::Io { path: self.path.clone(), source };
        let head = format!(
            "{method} {target} HTTP/1.1\r\nhost: zagent\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body)).map_err(lost)?;
        let answer = read_reply(&mut stream, until).map_err(lost)?;
        parse_reply(&answer).map_err(|what| self.invalid_reply(what))
    }

    fn connect(&self) -> Result<UnixStream, ClientError> {
        connect_with_timeout(&self.path, self.timeout).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
                ClientError::NoDaemon(self.path.clone())
            }
            io::ErrorKind::PermissionDenied => ClientError::Denied(self.path.clone()),
            _ => ClientError::Io { path: self.path.clone(), source },
        })
    }
}

/// Connects with a time limit, which the standard library has no way to say: a full queue would hold us for ever.
fn connect_with_timeout(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(path)?;
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(patience.max(MIN_TIMEOUT)))?;
    rustix::net::connect(&socket, &address)?;
    Ok(socket.into())
}

fn read_reply(stream: &mut UnixStream, until: Instant) -> io::Result<Vec<u8>> {
    let (mut answer, mut part) = (Vec::new(), [0; 8 << 10]);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left < MIN_TIMEOUT {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut part) {
            Ok(0) => return Ok(answer),
            Ok(n) => answer.extend_from_slice(&part[..n]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Err(io::ErrorKind::TimedOut.into()),
            Err(e) => return Err(e),
        }
        if answer.len() as u64 > MAX_REPLY_BYTES {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the answer is too large"));
        }
    }
}

fn parse_reply(answer: &[u8]) -> Result<HttpReply, String> {
    let end = answer.windows(4).position(|w| w == b"\r\n\r\n").ok_or("it ends in its header")?;
    let head = std::str::from_utf8(&answer[..end]).map_err(|_| "its header is no text")?;
    let mut lines = head.split("\r\n");
    let first = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 ")).ok_or("it is no HTTP")?;
    let code = first.get(..3).and_then(|code| code.parse().ok()).ok_or("it has no code")?;
    let body = answer[end + 4..].to_vec();
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let is = |wanted: &str| name.eq_ignore_ascii_case(wanted);
        if is("content-length") && value.trim().parse() != Ok(body.len()) {
            return Err("it was cut off".into());
        }
        if is("transfer-encoding") {
            return Err("it comes in chunks".into());
        }
    }
    Ok(HttpReply { code, body })
}
