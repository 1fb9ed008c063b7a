//! A site and an address in, a serving thread out: pages on request, and an event when the site changes.
//!
//! Law: only reads are served, and only to clients that name this host by an address, as `localhost` or by a name that
//! the operator allowed (held by `a_site_is_served_and_tells_of_changes`).

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::runtime::Builder;
use tokio::sync::{oneshot, watch};

use super::routes::{is_direct_host, page_response};
use super::server::{ApiError, ApiLimits, bind_tcp, serve_tcp};
use crate::pages::SITE_POLICY;

/// Concurrent connections; the oldest are closed first, and a browser opens its event stream again.
const CONNECTIONS: usize = 256;
/// How long an event stream stays open before the browser opens it again.
const STREAM_TIMEOUT: Duration = Duration::from_secs(600);
/// How often a stream without news says that it lives.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// A file of a site: its content type and its text.
pub type ServedFile = (&'static str, String);

/// Files by path.
pub trait SiteFiles: Send + Sync + 'static {
    /// The file at a path without the leading slash; none when there is none.
    fn file(&self, path: &str) -> Option<ServedFile>;
}

#[derive(Clone)]
struct SiteState {
    files: Arc<dyn SiteFiles>,
    version: watch::Receiver<u64>,
    names: Arc<[String]>,
}

/// Serves a site until it is dropped.
#[derive(Debug)]
pub struct SiteServer {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    version: watch::Sender<u64>,
    address: SocketAddr,
}

impl SiteServer {
    /// Address in use; with port 0, the port that the system chose.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Tells open pages that the site has changed.
    pub fn announce(&self, version: u64) {
        self.version.send_replace(version);
    }
}

impl Drop for SiteServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A thread that panicked no longer serves, which is the goal here.
            let _ = thread.join();
        }
    }
}

/// Starts serving; `names` are further host names that clients may use.
///
/// # Errors
/// Fails when the address is not available or the thread cannot be started.
pub fn serve_site(
    address: SocketAddr,
    names: &[String],
    version: u64,
    files: Arc<dyn SiteFiles>,
) -> Result<SiteServer, ApiError> {
    let tcp = bind_tcp(address)?;
    let address = tcp.local_addr().unwrap_or(address);
    let runtime = Builder::new_current_thread().enable_all().build().map_err(ApiError::Thread)?;
    let tcp = {
        let _inside = runtime.enter();
        tokio::net::TcpListener::from_std(tcp).map_err(ApiError::Thread)?
    };
    let (version, changes) = watch::channel(version);
    let state = SiteState { files, version: changes, names: names.into() };
    let router = Router::new().route("/events", get(events)).fallback(get(file)).with_state(state);
    let limits =
        ApiLimits { connections: CONNECTIONS, connection_timeout: STREAM_TIMEOUT, ..ApiLimits::default() };
    let (stop, stopped) = oneshot::channel::<()>();
    let thread = std::thread::Builder::new().name("site".into());
    let thread = thread.spawn(move || {
        runtime.spawn(serve_tcp(tcp, router, limits));
        // The sender sends nothing; dropping it is the signal.
        let _ = runtime.block_on(stopped);
        runtime.shutdown_timeout(Duration::from_millis(500));
    });
    Ok(SiteServer { stop: Some(stop), thread: Some(thread.map_err(ApiError::Thread)?), version, address })
}

fn require_host(state: &SiteState, headers: &HeaderMap) -> Result<(), Response> {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = host.split(':').next().unwrap_or_default();
    if is_direct_host(headers) || state.names.iter().any(|allowed| allowed == name) {
        return Ok(());
    }
    let words = "this host name is not allowed: start the server with --host NAME\n";
    Err((StatusCode::MISDIRECTED_REQUEST, words).into_response())
}

async fn file(State(state): State<SiteState>, headers: HeaderMap, uri: Uri) -> Result<Response, Response> {
    require_host(&state, &headers)?;
    let path = uri.path().trim_start_matches('/').to_owned();
    let files = Arc::clone(&state.files);
    let found = tokio::task::spawn_blocking(move || files.file(&path)).await.ok().flatten();
    match found {
        Some((kind, text)) => Ok(page_response(kind, SITE_POLICY, text)),
        None => Err((StatusCode::NOT_FOUND, "no such page\n").into_response()),
    }
}

/// One event with the number of the site now, and one per change.
async fn events(State(state): State<SiteState>, headers: HeaderMap) -> Result<Response, Response> {
    require_host(&state, &headers)?;
    let mut changes = state.version;
    changes.mark_changed();
    let stream = futures_util::stream::unfold(changes, |mut changes| async move {
        let text = match tokio::time::timeout(KEEP_ALIVE, changes.changed()).await {
            Ok(Ok(())) => format!("data: {}\n\n", *changes.borrow_and_update()),
            Ok(Err(_)) => return None,
            Err(_) => ": alive\n\n".to_owned(),
        };
        Some((Ok::<_, std::convert::Infallible>(Bytes::from(text)), changes))
    });
    Ok(page_response("text/event-stream", SITE_POLICY, Body::from_stream(stream)))
}
