//! The watchdog's own socket: one request per connection, one line of JSON each way.
//!
//! Only root and the watchdog's own user can open it. A request has a time limit, so that no client blocks the loop or
//! the next client for more than a few seconds.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use jiff::Timestamp;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use serde::{Deserialize, Serialize};

use super::WatchdogEvent;
use super::life::LifeHistory;
use super::readiness::connect_with_timeout;
use crate::phase::NodeState;
use crate::report::AgentProcess;

/// How many connections may wait.
const BACKLOG: i32 = 16;
/// The time limit to transfer a request or an answer.
const WIRE_TIMEOUT: Duration = Duration::from_secs(5);
/// The time limit for the loop to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum bytes of a request.
const MAX_REQUEST_BYTES: u64 = 16 << 10;
/// Maximum bytes of an answer.
const MAX_RESPONSE_BYTES: u64 = 4 << 20;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "ask", deny_unknown_fields)]
pub enum WatchdogRequest {
    /// The status.
    Status,
    /// What happened to the agent.
    History,
    /// Roll back to the version before.
    GoBack {
        /// Why.
        reason: String,
    },
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "answer")]
pub enum WatchdogResponse {
    /// The status.
    Status(Box<WatchdogStatus>),
    /// What happened to the agent.
    History(Box<LifeHistory>),
    /// It is done, or in progress.
    Done {
        /// What was done, as a message.
        words: String,
    },
    /// It was refused.
    Refused {
        /// Why, and how to fix it.
        why: String,
    },
}

/// The status of a node and its watchdog.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchdogStatus {
    /// The watchdog; `None` when the status was read from the files.
    pub watchdog: Option<RunningWatchdog>,
    /// The version that runs, or should run.
    pub version: String,
    /// The saved state of the node.
    pub node: NodeState,
    /// The agent.
    pub child: Option<AgentProcess>,
    /// Failures of the agent in a row.
    pub failures: u32,
    /// Why the node is degraded; `None` when it is not.
    pub degraded: Option<String>,
    /// When the agent is started again; `None` when it runs.
    pub next_retry: Option<Timestamp>,
    /// Other notes for people.
    pub notes: Vec<String>,
    /// The last heartbeat, when no watchdog runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_seen: Option<Timestamp>,
    /// The version of the package: a rollback without a previous version ends there.
    #[serde(default)]
    pub built_in: Option<String>,
}

/// A running watchdog.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningWatchdog {
    /// Its process.
    pub pid: u32,
    /// Its version.
    pub version: String,
    /// Since when.
    pub since: Timestamp,
}

/// Listens, and passes requests to the loop.
pub(super) fn serve_socket(path: &Path, events: Sender<WatchdogEvent>) -> io::Result<()> {
    let listener = bind_socket(path)?;
    let thread = std::thread::Builder::new().name("socket".into()).stack_size(256 << 10);
    thread.spawn(move || {
        for stream in listener.incoming().flatten() {
            if let Err(error) = answer_connection(stream, &events) {
                tracing::debug!(%error, "cannot answer a request");
            }
        }
    })?;
    Ok(())
}

/// The caller is the only watchdog, so an existing socket was left by a dead one.
fn bind_socket(path: &Path) -> io::Result<UnixListener> {
    let dir = path.parent().unwrap_or(Path::new("/"));
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    // A socket that does not listen yet refuses all connections, so none is accepted before the mode is set.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

fn answer_connection(mut stream: UnixStream, events: &Sender<WatchdogEvent>) -> io::Result<()> {
    stream.set_read_timeout(Some(WIRE_TIMEOUT))?;
    stream.set_write_timeout(Some(WIRE_TIMEOUT))?;
    let mut line = String::new();
    BufReader::new(stream.try_clone()?.take(MAX_REQUEST_BYTES)).read_line(&mut line)?;
    let refused = |why: String| WatchdogResponse::Refused { why };
    let answer = match serde_json::from_str::<WatchdogRequest>(&line) {
        Err(error) => refused(format!("invalid request: {error}")),
        Ok(ask) => {
            let peer = rustix::net::sockopt::socket_peercred(&stream).ok();
            if ask != WatchdogRequest::Status {
                tracing::info!(uid = peer.map(|p| p.uid.as_raw()), ?ask, "request on the socket");
            }
            let (told, heard) = channel();
            events.send(WatchdogEvent::Request(ask, told)).map_err(io::Error::other)?;
            let late = || refused("the watchdog is stopping or busy; try again".into());
            heard.recv_timeout(ANSWER_TIMEOUT).unwrap_or_else(|_| late())
        }
    };
    let mut bytes = serde_json::to_vec(&answer)?;
    bytes.push(b'\n');
    stream.write_all(&bytes)
}

/// Sends a request to the watchdog of a node.
///
/// # Errors
/// Fails when none runs (`NotFound`, `ConnectionRefused`), when permission is denied, and when the answer is lost.
pub fn send_request(socket: &Path, ask: &WatchdogRequest) -> io::Result<WatchdogResponse> {
    let mut stream = connect_with_timeout(socket, WIRE_TIMEOUT)?;
    stream.set_read_timeout(Some(ANSWER_TIMEOUT + WIRE_TIMEOUT))?;
    let mut bytes = serde_json::to_vec(ask)?;
    bytes.push(b'\n');
    stream.write_all(&bytes)?;
    let mut line = String::new();
    BufReader::new(stream.take(MAX_RESPONSE_BYTES)).read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loop_answers_requests_and_the_socket_refuses_invalid_ones() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run/watchdog.sock");
        let (events, heard) = channel();
        serve_socket(&path, events).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let loop_ = std::thread::spawn(move || {
            let WatchdogEvent::Request(ask, reply) = heard.recv().unwrap() else { panic!() };
            assert_eq!(ask, WatchdogRequest::GoBack { reason: "it is slow".into() });
            reply.send(WatchdogResponse::Done { words: "rolling back".into() }).unwrap();
        });
        let answer =
            super::send_request(&path, &WatchdogRequest::GoBack { reason: "it is slow".into() }).unwrap();
        assert_eq!(answer, WatchdogResponse::Done { words: "rolling back".into() });
        loop_.join().unwrap();
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(b"{\"ask\": \"nonsense\"}\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(text.contains("invalid request"), "{text}");
        // A second watchdog replaces a dead one.
        bind_socket(&path).unwrap();
        let nobody = super::send_request(&dir.path().join("none"), &WatchdogRequest::Status).unwrap_err();
        assert_eq!(nobody.kind(), io::ErrorKind::NotFound);
    }
}
