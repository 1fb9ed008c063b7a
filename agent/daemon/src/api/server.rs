//! Two addresses and a backend in, a serving thread out.
//!
//! Law: the thread ends when its handle is dropped, whatever clients do. A connection carries one request within a
//! fixed time. On TCP, where anyone may connect, a new connection never waits for an old one (held by
//! `shutdown_does_not_wait_for_a_client_or_a_lock`, `a_client_that_stops_sending_is_disconnected`,
//! `half_open_connections_do_not_block_a_health_check`).
//!
//! ## Why not `axum::serve`
//! It waits forever for a client that sends half a header.

use std::collections::VecDeque;
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
use tokio::sync::{Semaphore, oneshot};
use tokio::task::AbortHandle;

use super::ApiBackend;
use super::routes::{self, ApiState, SocketPeer};
use super::socket::{SocketGuard, SocketWriters};
use zagent_config::settings::ListenPages;

/// Threads that call the backend; responses come from memory, so two are enough.
const BACKEND_THREADS: usize = 2;
/// Their stack size.
const THREAD_STACK: usize = 256 << 10;
/// How long an idle thread is kept.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// Time for running calls to finish on shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(500);
/// Backoff when the system has no file descriptor left for a connection.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

/// Addresses and limits.
#[derive(Clone, Debug)]
pub struct ApiConfig {
    /// The unix socket.
    pub socket: PathBuf,
    /// Group that may use it, in addition to root and the daemon's user. Its members can run any SLS as root.
    pub group: Option<String>,
    /// Group that may only read from it.
    pub readers: Option<String>,
    /// TCP address for health, metrics and the node page.
    pub listen: Option<SocketAddr>,
    /// How much of the node page is served there.
    pub pages: ListenPages,
    /// Limits for clients.
    pub limits: ApiLimits,
}

/// Limits for clients.
#[derive(Clone, Copy, Debug)]
pub struct ApiLimits {
    /// Concurrent connections per listener. More must wait on the socket; on TCP, the oldest are closed.
    pub connections: usize,
    /// Timeout of the request header.
    pub(crate) header_timeout: Duration,
    /// Timeout of a connection, from the first byte to the last.
    pub connection_timeout: Duration,
    /// Timeout of a response.
    pub(crate) answer_timeout: Duration,
    /// How long a progress request waits for a change.
    pub(crate) progress_wait: Duration,
    /// Maximum size of a header.
    pub(crate) header_bytes: usize,
    /// Maximum size of a body.
    pub(crate) body_bytes: usize,
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

/// Why the API cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// Another daemon listens on the socket.
    #[error("another daemon is listening on `{}`: stop it, or set another `root` for this one", .0.display())]
    Taken(PathBuf),
    /// The path is not a socket.
    #[error("`{}` is not a socket: move it away", .0.display())]
    NoSocket(PathBuf),
    /// The socket cannot be created.
    #[error("cannot {act} the socket `{}`", path.display())]
    Socket {
        /// The operation that failed.
        act: &'static str,
        /// The socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The group does not exist.
    #[error("group `{name}` does not exist: create it with groupadd, or correct `{key}`")]
    NoGroup {
        /// The group.
        name: String,
        /// The key that names it.
        key: &'static str,
    },
    /// The group cannot be looked up.
    #[error("cannot look up the group `{name}` set in `{key}`")]
    Group {
        /// The group.
        name: String,
        /// The key that names it.
        key: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The address cannot be used.
    #[error("cannot listen on `{address}` (set in `listen`)")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The thread cannot be started.
    #[error("cannot start the API thread")]
    Thread(#[source] io::Error),
}

/// Serves until it is dropped.
#[derive(Debug)]
pub struct ApiServer {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    listen: Option<SocketAddr>,
    _socket_guard: SocketGuard,
}

impl ApiServer {
    /// TCP address in use; with port 0 in the configuration, the port that the system chose.
    #[must_use]
    pub const fn listen(&self) -> Option<SocketAddr> {
        self.listen
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A thread that panicked no longer serves, which is the goal here.
            let _ = thread.join();
        }
    }
}

/// Starts serving.
///
/// # Errors
/// Fails when an address is not available or the thread cannot be started.
pub fn serve(config: ApiConfig, backend: Arc<dyn ApiBackend>) -> Result<ApiServer, ApiError> {
    let (group, writers) = SocketWriters::from_groups(config.group.as_deref(), config.readers.as_deref())?;
    let (socket_guard, unix) = SocketGuard::open(&config.socket, group)?;
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
        state: ApiState::new(backend, config.limits, BACKEND_THREADS, writers),
        pages: config.pages,
        open_to_group: group.is_some(),
    };
    let thread = std::thread::Builder::new().name("api".into()).stack_size(2 * THREAD_STACK);
    let thread = thread.spawn(move || run_server(runtime, all, stopped)).map_err(ApiError::Thread)?;
    Ok(ApiServer { stop: Some(stop), thread: Some(thread), listen, _socket_guard: socket_guard })
}

pub(super) fn bind_tcp(address: SocketAddr) -> Result<TcpListener, ApiError> {
    let bound = TcpListener::bind(address).and_then(|tcp| tcp.set_nonblocking(true).map(|()| tcp));
    bound.map_err(|source| ApiError::Listen { address, source })
}

struct ApiListeners {
    unix: tokio::net::UnixListener,
    tcp: Option<tokio::net::TcpListener>,
    state: ApiState,
    pages: ListenPages,
    open_to_group: bool,
}

fn run_server(runtime: Runtime, all: ApiListeners, stopped: oneshot::Receiver<()>) {
    let ApiListeners { unix, tcp, state, pages, open_to_group } = all;
    runtime.spawn(serve_unix(unix, state.clone(), open_to_group));
    if let Some(tcp) = tcp {
        runtime.spawn(serve_tcp(tcp, routes::public_router(state.clone(), pages), state.limits));
    }
    // The sender sends nothing; dropping it is the signal.
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
        // With a group, the system has already admitted only its members.
        if !open_to_group && peer.uid() != own && peer.uid() != 0 {
            tracing::warn!(uid = peer.uid(), "rejected a client of the socket");
            continue;
        }
        let peer = SocketPeer { uid: peer.uid(), gid: peer.gid(), pid: peer.pid() };
        let router = router.clone().layer(Extension(peer));
        tokio::spawn(async move {
            serve_connection(stream, router, limits).await;
            drop(seat);
        });
    }
}

pub(super) async fn serve_tcp(tcp: tokio::net::TcpListener, router: Router, limits: ApiLimits) {
    let mut open = VecDeque::new();
    loop {
        let Some((stream, _)) = accept_or_wait(tcp.accept().await).await else { continue };
        make_room(&mut open, limits.connections.max(1));
        let served = tokio::spawn(serve_connection(stream, router.clone(), limits));
        open.push_back(served.abort_handle());
    }
}

/// Closes the oldest connections when there are too many. A client that opens connections and sends or reads nothing
/// loses them; it does not keep a health check waiting.
fn make_room(open: &mut VecDeque<AbortHandle>, most: usize) {
    open.retain(|connection| !connection.is_finished());
    while open.len() >= most
        && let Some(oldest) = open.pop_front()
    {
        oldest.abort();
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

/// Serves one request; a client that takes too long is disconnected.
async fn serve_connection(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    router: Router,
    limits: ApiLimits,
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
        Ok(Err(e)) => {
            tracing::debug!(error = %e, "a client of the socket disconnected or sent an invalid request");
        }
        Err(_) => tracing::debug!("a client of the socket took too long"),
    }
}
