//! Two addresses and somebody who knows the answers in, a thread that answers out.
//!
//! Law: the thread ends when its handle is dropped, whatever clients do. A connection carries one request and has a fixed
//! time for all of it.
//!
//! ## Why not `axum::serve`
//! It waits for ever for a client that sends half a header.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use nix::unistd::geteuid;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::Answers;
use super::door::Door;
use super::routes::{self, Desk, Peer};

/// Threads that may ask for answers; an answer comes from memory, so two are plenty.
const ASKING: usize = 2;
/// Their stacks.
const STACK: usize = 256 << 10;
/// How long a thread that has nothing to ask stays.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// How long threads that still ask may take when all ends.
const LAST_WORD: Duration = Duration::from_millis(500);
/// How long to wait when the system has no descriptor left for a connection.
const SHORTAGE: Duration = Duration::from_millis(100);

/// Where to answer, and whom.
#[derive(Clone, Debug)]
pub struct Config {
    /// The unix socket.
    pub socket: PathBuf,
    /// The group that may use it, beside root and the daemon's own user.
    pub group: Option<String>,
    /// The TCP address of health and metrics.
    pub listen: Option<SocketAddr>,
    /// What clients may cost.
    pub limits: Limits,
}

/// What clients may cost.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at one door at a time; more wait outside.
    pub connections: usize,
    /// How long the header of a request may take.
    pub header: Duration,
    /// How long a connection may take from the first byte to the last.
    pub connection: Duration,
    /// How long an answer may take.
    pub answer: Duration,
    /// How long somebody who asks what became of a wish is kept waiting for news.
    pub news: Duration,
    /// Bytes of a header.
    pub header_bytes: usize,
    /// Bytes of a body.
    pub body_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 32,
            header: Duration::from_secs(5),
            connection: Duration::from_secs(30),
            answer: Duration::from_secs(5),
            news: Duration::from_secs(10),
            header_bytes: 16 << 10,
            body_bytes: 64 << 10,
        }
    }
}

/// Why nobody answers.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// Another daemon listens there.
    #[error("another daemon answers on `{}`: stop it, or give this one another `root`", .0.display())]
    Taken(PathBuf),
    /// There is something else.
    #[error("`{}` is no socket: move it away", .0.display())]
    NoSocket(PathBuf),
    /// The socket cannot be made.
    #[error("cannot {act} the socket `{}`", path.display())]
    Socket {
        /// What failed.
        act: &'static str,
        /// The socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// There is no such group.
    #[error("there is no group `{0}`: make it with groupadd, or correct `socket_group`")]
    NoGroup(String),
    /// The group cannot be looked up.
    #[error("cannot look up the group `{name}` of `socket_group`")]
    Group {
        /// The group.
        name: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The address cannot be used.
    #[error("cannot listen on `{address}`, which `listen` names")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The thread cannot be started.
    #[error("cannot start the thread that answers")]
    Thread(#[source] io::Error),
}

/// Answers until it is dropped.
#[derive(Debug)]
pub struct Serving {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    listen: Option<SocketAddr>,
    _door: Door,
}

impl Serving {
    /// The TCP address that is served; with a port of 0 in the configuration, the one that the system chose.
    #[must_use]
    pub const fn listen(&self) -> Option<SocketAddr> {
        self.listen
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A thread that fell over answers no more, which is what is wanted.
            let _ = thread.join();
        }
    }
}

/// Starts to answer.
///
/// # Errors
/// Fails when an address cannot be had or the thread cannot be started.
pub fn serve(config: Config, answers: Arc<dyn Answers>) -> Result<Serving, ApiError> {
    let (door, unix) = Door::open(&config.socket, config.group.as_deref())?;
    let tcp = config.listen.map(bind).transpose()?;
    let listen = tcp.as_ref().and_then(|tcp| tcp.local_addr().ok());
    let runtime = Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(ASKING)
        .thread_stack_size(STACK)
        .thread_keep_alive(KEEP_ALIVE)
        .thread_name("api-ask")
        .build()
        .map_err(ApiError::Thread)?;
    let (unix, tcp) = {
        let _inside = runtime.enter();
        let unix = tokio::net::UnixListener::from_std(unix).map_err(ApiError::Thread)?;
        (unix, tcp.map(tokio::net::TcpListener::from_std).transpose().map_err(ApiError::Thread)?)
    };
    let (stop, stopped) = oneshot::channel();
    let all = All {
        unix,
        tcp,
        desk: Desk::new(answers, config.limits, ASKING),
        open_to_group: config.group.is_some(),
    };
    let thread = std::thread::Builder::new().name("api".into()).stack_size(2 * STACK);
    let thread = thread.spawn(move || answer(runtime, all, stopped)).map_err(ApiError::Thread)?;
    Ok(Serving { stop: Some(stop), thread: Some(thread), listen, _door: door })
}

fn bind(address: SocketAddr) -> Result<TcpListener, ApiError> {
    let bound = TcpListener::bind(address).and_then(|tcp| tcp.set_nonblocking(true).map(|()| tcp));
    bound.map_err(|source| ApiError::Listen { address, source })
}

struct All {
    unix: tokio::net::UnixListener,
    tcp: Option<tokio::net::TcpListener>,
    desk: Desk,
    open_to_group: bool,
}

fn answer(runtime: Runtime, all: All, stopped: oneshot::Receiver<()>) {
    let All { unix, tcp, desk, open_to_group } = all;
    runtime.spawn(at_socket(unix, desk.clone(), open_to_group));
    if let Some(tcp) = tcp {
        runtime.spawn(at_address(tcp, desk));
    }
    // The sender says nothing; it goes away.
    let _ = runtime.block_on(stopped);
    runtime.shutdown_timeout(LAST_WORD);
}

async fn at_socket(unix: tokio::net::UnixListener, desk: Desk, open_to_group: bool) {
    let (seats, router, limits) = (seats(&desk.limits), routes::all(desk.clone()), desk.limits);
    let own = geteuid().as_raw();
    while let Ok(seat) = Arc::clone(&seats).acquire_owned().await {
        let Some((stream, _)) = accepted(unix.accept().await).await else { continue };
        let Ok(peer) = stream.peer_cred() else { continue };
        // With a group the system has already let in nobody but its members.
        if !open_to_group && peer.uid() != own && peer.uid() != 0 {
            tracing::warn!(uid = peer.uid(), "turned away from the socket");
            continue;
        }
        let router = router.clone().layer(Extension(Peer { uid: peer.uid(), pid: peer.pid() }));
        tokio::spawn(converse(stream, router, limits, seat));
    }
}

async fn at_address(tcp: tokio::net::TcpListener, desk: Desk) {
    let (seats, router, limits) = (seats(&desk.limits), routes::public(desk.clone()), desk.limits);
    while let Ok(seat) = Arc::clone(&seats).acquire_owned().await {
        let Some((stream, _)) = accepted(tcp.accept().await).await else { continue };
        tokio::spawn(converse(stream, router.clone(), limits, seat));
    }
}

fn seats(limits: &Limits) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(limits.connections.max(1)))
}

async fn accepted<T>(accepted: io::Result<T>) -> Option<T> {
    match accepted {
        Ok(stream) => Some(stream),
        Err(e) => {
            tracing::debug!(error = %e, "cannot accept a connection");
            tokio::time::sleep(SHORTAGE).await;
            None
        }
    }
}

/// One request and its answer; whoever takes too long is cut off.
async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    limits: Limits,
    _seat: OwnedSemaphorePermit,
) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header)
        .max_buf_size(limits.header_bytes.max(8 << 10))
        .max_headers(64)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    match tokio::time::timeout(limits.connection, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(e)) => tracing::debug!(error = %e, "a client of the socket went away or made no sense"),
        Err(_) => tracing::debug!("a client of the socket took too long"),
    }
}
