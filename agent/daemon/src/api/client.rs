//! Request in, the daemon's response out: one request per connection, with a minimal HTTP client.
//!
//! Law: it never waits past its timeout and never reads past its limit. "No daemon is running" is a result of its
//! own (held by `a_client_tolerates_any_server_on_the_socket`, `a_client_does_not_wait_for_a_silent_daemon`).
//!
//! ## Why a client of our own
//! The program's HTTP client does not support unix sockets, and an async runtime would cost `zagent status`
//! more than the request.

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

/// Timeout of a response. Longer than the daemon waits for progress of a request.
const REPLY_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum size of a response.
const MAX_REPLY_BYTES: u64 = 4 << 20;
/// Shortest timeout of a socket; zero would mean no limit.
const MIN_TIMEOUT: Duration = Duration::from_millis(1);

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No daemon is listening.
    #[error("no daemon is listening on `{}`", .0.display())]
    NoDaemon(PathBuf),
    /// Permission denied.
    #[error("permission denied on the socket `{}`", .0.display())]
    Denied(PathBuf),
    /// This user may only read.
    #[error("{0}")]
    ReadOnly(String),
    /// The connection failed.
    #[error("cannot communicate with the daemon on `{}`", path.display())]
    Io {
        /// The socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The response is invalid.
    #[error("the daemon on `{}` sent an invalid response: {what}", path.display())]
    InvalidReply {
        /// The socket.
        path: PathBuf,
        /// What.
        what: String,
    },
    /// The daemon refused the request.
    #[error("{0}")]
    Refused(RunRefused),
    /// The daemon failed.
    #[error("the daemon responded with {code}: {message}")]
    Failed {
        /// HTTP status code.
        code: u16,
        /// Its message.
        message: String,
    },
}

/// Client of the daemon.
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
    /// Uses this socket.
    #[must_use]
    pub fn new(socket: impl Into<PathBuf>) -> Self {
        Self { path: socket.into(), timeout: REPLY_TIMEOUT }
    }

    /// Waits at most this long for a response.
    #[must_use]
    pub fn with_timeout(self, patience: Duration) -> Self {
        Self { timeout: patience, ..self }
    }

    /// Reads the status.
    ///
    /// # Errors
    /// Fails when there is no response.
    pub fn status(&self) -> Result<AgentStatus, ClientError> {
        self.decode(self.send_request("GET", "/v1/status", &[])?)
    }

    /// The last run; `None` when there was none.
    ///
    /// # Errors
    /// Fails when there is no response.
    pub fn last_run(&self) -> Result<Option<LastRun>, ClientError> {
        match self.send_request("GET", "/v1/runs/last", &[])? {
            HttpReply { code: 404, .. } => Ok(None),
            reply => self.decode(reply).map(Some),
        }
    }

    /// Requests a run.
    ///
    /// # Errors
    /// Fails when there is no response, or when the daemon refuses.
    pub fn trigger(&self, request: &RunRequest) -> Result<Ticket, ClientError> {
        let body = serde_json::to_vec(request).map_err(|e| self.invalid_reply(e.to_string()))?;
        let reply = self.send_request("POST", "/v1/trigger", &body)?;
        if let (409 | 422, Ok(refused)) = (reply.code, serde_json::from_slice(&reply.body)) {
            return Err(ClientError::Refused(refused));
        }
        self.decode(reply)
    }

    /// Progress of a request. The daemon waits a few seconds for a change before it responds.
    ///
    /// # Errors
    /// Fails when there is no response.
    pub fn progress(&self, ticket: Ticket) -> Result<RequestProgress, ClientError> {
        self.decode(self.send_request("GET", &format!("/v1/trigger/{}", ticket.0), &[])?)
    }

    /// Waits until a request is done; `None` when the daemon does not know it.
    ///
    /// # Errors
    /// Fails when there is no response.
    pub fn wait(&self, ticket: Ticket) -> Result<Option<RequestResult>, ClientError> {
        loop {
            match self.progress(ticket)? {
                RequestProgress::Done { end } => return Ok(Some(*end)),
                RequestProgress::Unknown => return Ok(None),
                RequestProgress::Waiting | RequestProgress::Running { .. } => {}
            }
        }
    }

    /// Notifies the daemon that pause, pin or quarantine changed.
    ///
    /// # Errors
    /// Fails when there is no response.
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
        let message = message.unwrap_or_else(|| "no message".into());
        if reply.code == 403 {
            return ClientError::ReadOnly(message);
        }
        ClientError::Failed { code: reply.code, message }
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

/// Connects with a timeout, which the standard library does not support: a full backlog would block forever.
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
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the response is too large"));
        }
    }
}

fn parse_reply(answer: &[u8]) -> Result<HttpReply, String> {
    let end = answer.windows(4).position(|w| w == b"\r\n\r\n").ok_or("incomplete header")?;
    let head = std::str::from_utf8(&answer[..end]).map_err(|_| "the header is not text")?;
    let mut lines = head.split("\r\n");
    let first = lines.next().and_then(|line| line.strip_prefix("HTTP/1.1 ")).ok_or("not an HTTP response")?;
    let code = first.get(..3).and_then(|code| code.parse().ok()).ok_or("no status code")?;
    let body = answer[end + 4..].to_vec();
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let is = |wanted: &str| name.eq_ignore_ascii_case(wanted);
        if is("content-length") && value.trim().parse() != Ok(body.len()) {
            return Err("truncated".into());
        }
        if is("transfer-encoding") {
            return Err("chunked encoding is not supported".into());
        }
    }
    Ok(HttpReply { code, body })
}
