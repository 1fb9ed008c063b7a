//! The agent's socket in, whether the agent reports ready out.
//!
//! Law: it never waits longer than its limit and never reads more than its limit (held by
//! `every_answer_is_understood_and_waiting_has_a_limit`).

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::net::Readiness;

/// Maximum bytes of an answer that are read.
const MAX_RESPONSE_BYTES: u64 = 4 << 10;
/// The shortest timeout for a socket; zero would mean no limit.
const MIN_SOCKET_TIMEOUT: Duration = Duration::from_millis(1);
/// The request.
const READYZ_REQUEST: &[u8] = b"GET /readyz HTTP/1.1\r\nhost: zagent\r\nconnection: close\r\n\r\n";

/// Sends the request on a unix socket.
#[derive(Clone, Debug)]
pub struct SocketReadiness {
    /// Which.
    pub socket: PathBuf,
    /// The time limit for an answer.
    pub timeout: Duration,
}

impl Readiness for SocketReadiness {
    fn ready(&self) -> Result<(), String> {
        let answer = self.query_readyz().map_err(|error| format!("the agent does not answer: {error}"))?;
        let text = String::from_utf8_lossy(&answer);
        let code = text.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
        let said = text.split_once("\r\n\r\n").map_or("", |(_, body)| body.lines().next().unwrap_or(""));
        match code {
            Some("200") => Ok(()),
            Some(_) if !said.is_empty() => Err(said.to_owned()),
            Some(code) => Err(format!("the agent answered {code}")),
            None => Err("the agent gave an invalid answer".into()),
        }
    }
}

impl SocketReadiness {
    fn query_readyz(&self) -> std::io::Result<Vec<u8>> {
        let until = Instant::now() + self.timeout;
        let mut stream = connect_with_timeout(&self.socket, self.timeout)?;
        stream.write_all(READYZ_REQUEST)?;
        let mut answer = Vec::new();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left < MIN_SOCKET_TIMEOUT {
                return Err(std::io::ErrorKind::TimedOut.into());
            }
            stream.set_read_timeout(Some(left))?;
            let mut part = [0; 1 << 10];
            match stream.read(&mut part) {
                Ok(0) => return Ok(answer),
                Ok(_) if answer.len() as u64 > MAX_RESPONSE_BYTES => return Ok(answer),
                Ok(n) => answer.extend_from_slice(&part[..n]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

/// Connects with a time limit, which the standard library does not support: a full queue would block forever.
pub(super) fn connect_with_timeout(
    path: &std::path::Path,
    patience: Duration,
) -> std::io::Result<UnixStream> {
    let address = SocketAddrUnix::new(path)?;
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(patience.max(MIN_SOCKET_TIMEOUT)))?;
    rustix::net::connect(&socket, &address)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    fn asked(answer: Option<&'static str>) -> Result<(), String> {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("agent.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut question = [0; 512];
            let n = stream.read(&mut question).unwrap();
            assert!(question[..n].starts_with(b"GET /readyz HTTP/1.1\r\n"));
            match answer {
                Some(answer) => stream.write_all(answer.as_bytes()).unwrap(),
                // Until the other end closes.
                None => drop(stream.read(&mut question)),
            }
        });
        let patience = Duration::from_millis(if answer.is_some() { 30_000 } else { 50 });
        let said = SocketReadiness { socket, timeout: patience }.ready();
        server.join().unwrap();
        said
    }

    #[test]
    fn every_answer_is_understood_and_waiting_has_a_limit() {
        assert_eq!(asked(Some("HTTP/1.1 200 OK\r\n\r\nready\n")), Ok(()));
        let not = asked(Some("HTTP/1.1 503 Service Unavailable\r\n\r\nit does not compile\nmore\n"));
        assert_eq!(not, Err("it does not compile".into()));
        assert_eq!(asked(Some("HTTP/1.1 500 x\r\n\r\n")), Err("the agent answered 500".into()));
        assert_eq!(asked(Some("hello")), Err("the agent gave an invalid answer".into()));
        assert!(asked(None).unwrap_err().starts_with("the agent does not answer: "));
        let nobody = SocketReadiness { socket: "/nonexistent/socket".into(), timeout: Duration::ZERO };
        assert!(nobody.ready().is_err());
    }
}
