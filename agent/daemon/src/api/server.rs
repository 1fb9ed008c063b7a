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

use super::ApiBackend;
use super::routes::{self, ApiState, SocketPeer};
use super::socket::SocketGuard;

/// Threads that may ask for answers; an answer comes from memory, so two are plenty.
const BACKEND_THREADS: usize = 2;
/// Their stacks.
const THREAD_STACK: usize = 256 << 10;
/// How long a thread that has nothing to ask stays.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// How long threads that still ask may take when all ends.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(500);
/// How long to wait when the system has no descriptor left for a connection.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

/// Where to answer, and whom.
#[derive(Clone, Debug)]
pub struct ApiConfig {
    /// The unix socket.
    pub socket: PathBuf,
    /// The group that may use it, beside root and the daemon's own user.
    pub group: Option<String>,
    /// The TCP address of health and metrics.
    pub listen: Option<SocketAddr>,
    /// What clients may cost.
    pub limits: ApiLimits,
}

/// What clients may cost.
#[derive(Clone, Copy, Debug)]
pub struct ApiLimits {
    /// Connections at one door at a time; more wait outside.
    pub connections: usize,
    /// How long the header of a request may take.
    pub header_timeout: Duration,
    /// How long a connection may take from the first byte to the last.
    pub connection_timeout: Duration,
    /// How long an answer may take.
    pub answer_timeout: Duration,
    /// How long somebody who asks what became of a wish is kept waiting for news.
    pub progress_wait: Duration,
    /// Bytes of a header.
    pub header_bytes: usize,
    /// Bytes of a body.
    pub body_bytes: usize,
}

impl Default for ApiLimits {
    fn default() -> Self {
        Self {
            connections: 32,
            header_timeout: Duration::from_secs(5),
            connection_timeout: Duration::from_secs(30),
            answer_timeout: Duration::from_secs(5),
            progress_wait: Duration::from_secs(10),
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
pub struct ApiServer {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    listen: Option<SocketAddr>,
    _socket_guard: SocketGuard,
}

impl ApiServer {
    /// The TCP address that is served; with a port of 0 in the configuration, the one that the system chose.
    #[must_use]
    pub const fn listen(&self) -> Option<SocketAddr> {
        self.listen
    }
}

impl Drop for ApiServer {
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
pub fn serve(config: ApiConfig, backend: Arc<dyn ApiBackend>) -> Result<ApiServer, ApiError> {
    let (socket_guard, unix) = SocketGuard::open(&config.socket, config.group.as_deref())?;
    let tcp = config.listen.map(bind_tcp).transpose()?;
    let listen = tcp.as_ref().and_then(|tcp| tcp.local_addr().ok());
    let runtime = Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BACKEND_THREADS)
        .thread_stack_size(THREAD_STACK)
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
    let all = ApiListeners {
        unix,
        tcp,
        state: ApiState::new(backend, config.limits, BACKEND_THREADS),
        open_to_group: config.group.is_some(),
    };
    let thread = std::thread::Builder::new().name("api".into()).stack_size(2 * THREAD_STACK);
    let thread = thread.spawn(move || run_server(runtime, all, stopped)).map_err(ApiError::Thread)?;
    Ok(ApiServer { stop: Some(stop), thread: Some(thread), listen, _socket_guard: socket_guard })
}

fn bind_tcp(address: SocketAddr) -> Result<TcpListener, ApiError> {
    let bound = TcpListener::bind(address).and_then(|tcp| tcp.set_nonblocking(true).map(|()| tcp));
    bound.map_err(|source| ApiError::Listen { address, source })
}

struct ApiListeners {
    unix: tokio::net::UnixListener,
    tcp: Option<tokio::net::TcpListener>,
    state: ApiState,
    open_to_group: bool,
}

fn run_server(runtime: Runtime, all: ApiListeners, stopped: oneshot::Receiver<()>) {
    let ApiListeners { unix, tcp, state, open_to_group } = all;
    runtime.spawn(serve_unix(unix, state.clone(), open_to_group));
    if let Some(tcp) = tcp {
        runtime.spawn(serve_tcp(tcp, state));
    }
    // The sender says nothing; it goes away.
    let _ = runtime.block_on(stopped);
    runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
}

async fn serve_unix(unix: tokio::net::UnixListener, state: ApiState, open_to_group: bool) {
    let (seats, router, limits) =
        (connection_permits(&state.limits), routes::socket_router(state.clone()), state.limits);
    let own = geteuid().as_raw();
    while let Ok(seat) = Arc::clone(&seats).acquire_owned().await {
        let Some((stream, _)) = accept_or_wait(unix.accept().await).await else { continue };
        let Ok(peer) = stream.peer_cred() else { continue };
        // With a group the system has already let in nobody but its members.
        if !open_to_group && peer.uid() != own && peer.uid() != 0 {
            tracing::warn!(uid = peer.uid(), "turned away from the socket");
            continue;
        }
        let router = router.clone().layer(Extension(SocketPeer { uid: peer.uid(), pid: peer.pid() }));
        tokio::spawn(serve_connection(stream, router, limits, seat));
    }
}

async fn serve_tcp(tcp: tokio::net::TcpListener, state: ApiState) {
    let (seats, router, limits) =
        (connection_permits(&state.limits), routes::public_router(state.clone()), state.limits);
    while let Ok(seat) = Arc::clone(&seats).acquire_owned().await {
        let Some((stream, _)) = accept_or_wait(tcp.accept().await).await else { continue };
        tokio::spawn(serve_connection(stream, router.clone(), limits, seat));
    }
}

fn connection_permits(limits: &ApiLimits) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(limits.connections.max(1)))
}

async fn accept_or_wait<T>(accepted: io::Result<T>) -> Option<T> {
    match accepted {
        Ok(stream) => Some(stream),
        Err(e) => {
            tracing::debug!(error = %e, "cannot accept a connection");
            tokio::time::sleep(ACCEPT_BACKOFF).await;
            None
        }
    }
}

/// One request and its answer; whoever takes too long is cut off.
async fn serve_connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    limits: ApiLimits,
    _seat: OwnedSemaphorePermit,
) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_timeout)
        .max_buf_size(limits.header_bytes.max(8 << 10))
        .max_headers(64)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    match tokio::time::timeout(limits.connection_timeout, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(e)) => tracing::debug!(error = %e, "a client of the socket went away or made no sense"),
        Err(_) => tracing::debug!("a client of the socket took too long"),
    }
}
