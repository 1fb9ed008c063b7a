//! HTTP request in, call to the backend and its result as JSON or text out.
//!
//! Law: requests that change something are logged with the user; a late response becomes 503 and delays no other
//! request for longer than that (held by `a_blocked_daemon_gets_503_and_recovers`).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::rejection::JsonRejection;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};

use super::server::ApiLimits;
use super::socket::SocketWriters;
use super::{ApiBackend, ProcessMetrics, RequestProgress, RunRefused, RunRefusedReason, RunRequest, Ticket};
use crate::pages::PageDetail;
use zagent_config::settings::ListenPages;

/// Content type that Prometheus expects.
const METRICS_CONTENT_TYPE: HeaderValue =
    HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
/// Poll interval for the progress of a request.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Peer of the socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SocketPeer {
    pub uid: u32,
    pub gid: u32,
    pub pid: Option<i32>,
}

/// State of the routes.
#[derive(Clone)]
pub(crate) struct ApiState {
    backend: Arc<dyn ApiBackend>,
    /// Limits waiting calls: without it, calls of disconnected clients would queue up behind one that is
    /// blocked.
    permits: Arc<Semaphore>,
    pub limits: ApiLimits,
    writers: SocketWriters,
}

impl ApiState {
    pub(crate) fn new(
        backend: Arc<dyn ApiBackend>,
        limits: ApiLimits,
        asking: usize,
        writers: SocketWriters,
    ) -> Self {
        Self { backend, permits: Arc::new(Semaphore::new(asking)), limits, writers }
    }

    /// Refuses a request that changes something to a peer that may only read.
    async fn require_writer(&self, peer: SocketPeer) -> Result<(), Response> {
        let writers = self.writers;
        // The database of groups may be on the network: it is asked like the backend, on another thread and with a limit.
        if writers == SocketWriters::Everyone
            || self.query(move |_| writers.include(peer.uid, peer.gid)).await?
        {
            return Ok(());
        }
        tracing::warn!(uid = peer.uid, pid = peer.pid, "refused a request: this user may only read");
        let words =
            format!("user {} may only read: members of `socket_readers` cannot change anything", peer.uid);
        Err(error_response(StatusCode::FORBIDDEN, &words))
    }

    /// Runs a call on another thread: a lock may block that thread, never this one.
    async fn query<T: Send + 'static>(
        &self,
        question: impl FnOnce(&dyn ApiBackend) -> T + Send + 'static,
    ) -> Result<T, Response> {
        let backend = Arc::clone(&self.backend);
        let asked = async {
            let turn = Arc::clone(&self.permits).acquire_owned().await.ok()?;
            let question = move || {
                let _turn = turn;
                question(&*backend)
            };
            tokio::task::spawn_blocking(question).await.ok()
        };
        match timeout(self.limits.answer_timeout, asked).await {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => {
                Err(error_response(StatusCode::INTERNAL_SERVER_ERROR, "the daemon crashed on this request"))
            }
            Err(_) => {
                Err(error_response(StatusCode::SERVICE_UNAVAILABLE, "the daemon did not respond in time"))
            }
        }
    }
}

/// Routes for everyone.
pub(crate) fn public_router(state: ApiState, pages: ListenPages) -> Router {
    let routes = match pages {
        ListenPages::Off => common_routes(),
        ListenPages::Summary => common_routes().route("/", get(summary_page)),
        ListenPages::Full => common_routes().route("/", get(public_page)),
    };
    routes.layer(DefaultBodyLimit::max(state.limits.body_bytes)).with_state(state)
}

/// Routes for clients that can open the socket.
pub(crate) fn socket_router(state: ApiState) -> Router {
    common_routes()
        .route("/", get(full_page))
        .route("/v1/status", get(status))
        .route("/v1/runs/last", get(last_run))
        .route("/v1/trigger", post(trigger))
        .route("/v1/trigger/{ticket}", get(progress))
        .route("/v1/changed", post(changed))
        .layer(DefaultBodyLimit::max(state.limits.body_bytes))
        .with_state(state)
}

fn common_routes() -> Router<ApiState> {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
}

fn error_response(code: StatusCode, message: &str) -> Response {
    (code, Json(serde_json::json!({"error": message}))).into_response()
}

/// A value as JSON that cannot steer the terminal that prints it.
fn safe_json(value: &impl serde::Serialize) -> Response {
    match serde_json::to_string(value) {
        Ok(text) => {
            let kind = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
            (kind, zagent_config::escape_json(text)).into_response()
        }
        Err(error) => error_response(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

async fn healthz(State(state): State<ApiState>) -> Response {
    match state.query(|backend| backend.is_alive()).await {
        Ok(true) => "ok\n".into_response(),
        Ok(false) => (StatusCode::SERVICE_UNAVAILABLE, "the agent's event loop is stuck\n").into_response(),
        Err(response) => response,
    }
}

async fn readyz(State(state): State<ApiState>) -> Response {
    match state.query(|backend| backend.readiness()).await {
        Ok(Ok(())) => "ready\n".into_response(),
        Ok(Err(reason)) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")).into_response(),
        Err(response) => response,
    }
}

async fn metrics(State(state): State<ApiState>) -> Response {
    match state.query(|backend| backend.metrics().render(ProcessMetrics::measure())).await {
        Ok(text) => ([(header::CONTENT_TYPE, METRICS_CONTENT_TYPE)], text).into_response(),
        Err(response) => response,
    }
}

/// The page, for clients of the socket.
async fn full_page(State(state): State<ApiState>) -> Result<Response, Response> {
    node_page(&state, PageDetail::Full).await
}

/// The page without details.
async fn summary_page(State(state): State<ApiState>) -> Result<Response, Response> {
    node_page(&state, PageDetail::Summary).await
}

/// The whole page on TCP, for readers who typed an address of this host. A page of another site that has its name point
/// here would be allowed by the browser to read everything.
async fn public_page(State(state): State<ApiState>, headers: HeaderMap) -> Result<Response, Response> {
    if !is_direct_host(&headers) {
        let words = "open this page by an IP address or as localhost, or through a proxy that does so";
        return Err(error_response(StatusCode::MISDIRECTED_REQUEST, words));
    }
    node_page(&state, PageDetail::Full).await
}

async fn node_page(state: &ApiState, detail: PageDetail) -> Result<Response, Response> {
    let page = state.query(move |backend| backend.node_page(detail)).await?;
    Ok(page_response("text/html; charset=utf-8", &crate::pages::single_page_policy(), page))
}

/// A page or a file of a page, with the headers that keep a browser from doing anything else with it.
pub(super) fn page_response(kind: &str, policy: &str, body: impl Into<Body>) -> Response {
    let policy = format!("{policy}; frame-ancestors 'none'");
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, policy.as_str()),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    (headers.map(|(name, value)| (name, value.to_owned())), body.into()).into_response()
}

/// True when the client names the host by an address or as `localhost`.
pub(super) fn is_direct_host(headers: &HeaderMap) -> bool {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    name == "localhost" || bare.parse::<IpAddr>().is_ok()
}

async fn status(State(state): State<ApiState>) -> Result<Response, Response> {
    Ok(safe_json(&state.query(|backend| backend.status()).await?))
}

async fn last_run(State(state): State<ApiState>) -> Result<Response, Response> {
    let run = state.query(|backend| backend.status().last_run).await?;
    Ok(run.map_or_else(|| error_response(StatusCode::NOT_FOUND, "no run yet"), |run| safe_json(&run)))
}

async fn trigger(
    State(state): State<ApiState>,
    Extension(peer): Extension<SocketPeer>,
    request: Result<Json<RunRequest>, JsonRejection>,
) -> Result<Response, Response> {
    state.require_writer(peer).await?;
    let Json(request) = request.map_err(|e| error_response(e.status(), &e.body_text()))?;
    tracing::info!(
        uid = peer.uid,
        pid = peer.pid,
        test = request.test,
        sls = request.sls.join(","),
        "run requested"
    );
    let answer = state.query(move |backend| backend.trigger(request)).await?;
    Ok(match answer {
        Ok(ticket) => (StatusCode::ACCEPTED, Json(ticket)).into_response(),
        Err(refused) => (status_code(&refused), Json(refused)).into_response(),
    })
}

fn status_code(refused: &RunRefused) -> StatusCode {
    match refused.why {
        RunRefusedReason::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
        RunRefusedReason::Paused
        | RunRefusedReason::Window
        | RunRefusedReason::Busy
        | RunRefusedReason::Stopping => StatusCode::CONFLICT,
    }
}

/// Progress of a request; the response waits a while for a change.
async fn progress(State(state): State<ApiState>, Path(ticket): Path<u64>) -> Result<Response, Response> {
    let until = Instant::now() + state.limits.progress_wait;
    loop {
        let progress = state.query(move |backend| backend.progress(Ticket(ticket))).await?;
        let is_over = matches!(progress, RequestProgress::Done { .. } | RequestProgress::Unknown);
        if is_over || Instant::now() >= until {
            return Ok(safe_json(&progress));
        }
        sleep(POLL_INTERVAL).await;
    }
}

async fn changed(
    State(state): State<ApiState>,
    Extension(peer): Extension<SocketPeer>,
) -> Result<Response, Response> {
    state.require_writer(peer).await?;
    tracing::info!(uid = peer.uid, pid = peer.pid, "client reports a change of pause, pin or quarantine");
    state.query(|backend| backend.controls_changed()).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
