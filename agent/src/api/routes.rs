//! A request in, a question to whoever knows and its answer as JSON or text out.
//!
//! Law: what changes something is logged with who asked for it; an answer that does not come in time is 503 and holds no
//! other request for longer than that.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::JsonRejection;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};

use super::serve::Limits;
use super::{Answers, Process, Progress, Refused, RefusedWhy, Ticket, Wish};

/// What a scraper of metrics expects.
const METRICS: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
/// How often news of a wish are looked for.
const LOOK: Duration = Duration::from_millis(100);

/// Who asks on the socket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer {
    pub(super) uid: u32,
    pub(super) pid: Option<i32>,
}

/// Where questions are put.
#[derive(Clone)]
pub(super) struct Desk {
    answers: Arc<dyn Answers>,
    /// Without it, questions of clients that left would wait behind one that is not answered, without end.
    asking: Arc<Semaphore>,
    pub(super) limits: Limits,
}

impl Desk {
    pub(super) fn new(answers: Arc<dyn Answers>, limits: Limits, asking: usize) -> Self {
        Self { answers, asking: Arc::new(Semaphore::new(asking)), limits }
    }

    /// Puts a question on another thread: a lock that is held may hold that one, never this.
    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&dyn Answers) -> T + Send + 'static,
    ) -> Result<T, Response> {
        let answers = Arc::clone(&self.answers);
        let asked = async {
            let turn = Arc::clone(&self.asking).acquire_owned().await.ok()?;
            let question = move || {
                let _turn = turn;
                question(&*answers)
            };
            tokio::task::spawn_blocking(question).await.ok()
        };
        match timeout(self.limits.answer, asked).await {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(error(StatusCode::INTERNAL_SERVER_ERROR, "the daemon fell over this question")),
            Err(_) => Err(error(StatusCode::SERVICE_UNAVAILABLE, "the daemon does not answer in time")),
        }
    }
}

/// What everybody may ask.
pub(super) fn public(desk: Desk) -> Router {
    routes().layer(DefaultBodyLimit::max(desk.limits.body_bytes)).with_state(desk)
}

/// What those may ask who may open the socket.
pub(super) fn all(desk: Desk) -> Router {
    routes()
        .route("/v1/status", get(status))
        .route("/v1/runs/last", get(last_run))
        .route("/v1/trigger", post(trigger))
        .route("/v1/trigger/{ticket}", get(progress))
        .route("/v1/changed", post(changed))
        .layer(DefaultBodyLimit::max(desk.limits.body_bytes))
        .with_state(desk)
}

fn routes() -> Router<Desk> {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
}

fn error(code: StatusCode, message: &str) -> Response {
    (code, Json(serde_json::json!({"error": message}))).into_response()
}

async fn healthz(State(desk): State<Desk>) -> Response {
    match desk.ask(|answers| answers.is_alive()).await {
        Ok(true) => "ok\n".into_response(),
        Ok(false) => (StatusCode::SERVICE_UNAVAILABLE, "the agent's loop stands still\n").into_response(),
        Err(response) => response,
    }
}

async fn readyz(State(desk): State<Desk>) -> Response {
    match desk.ask(|answers| answers.ready()).await {
        Ok(Ok(())) => "ready\n".into_response(),
        Ok(Err(reason)) => (StatusCode::SERVICE_UNAVAILABLE, format!("{reason}\n")).into_response(),
        Err(response) => response,
    }
}

async fn metrics(State(desk): State<Desk>) -> Response {
    match desk.ask(|answers| answers.metrics().text(Process::now())).await {
        Ok(text) => ([(header::CONTENT_TYPE, METRICS)], text).into_response(),
        Err(response) => response,
    }
}

async fn status(State(desk): State<Desk>) -> Result<Response, Response> {
    Ok(Json(desk.ask(|answers| answers.status()).await?).into_response())
}

async fn last_run(State(desk): State<Desk>) -> Result<Response, Response> {
    let run = desk.ask(|answers| answers.status().last_run).await?;
    Ok(run.map_or_else(
        || error(StatusCode::NOT_FOUND, "there was no run yet"),
        |run| Json(run).into_response(),
    ))
}

async fn trigger(
    State(desk): State<Desk>,
    Extension(peer): Extension<Peer>,
    wish: Result<Json<Wish>, JsonRejection>,
) -> Result<Response, Response> {
    let Json(wish) = wish.map_err(|e| error(e.status(), &e.body_text()))?;
    tracing::info!(
        uid = peer.uid,
        pid = peer.pid,
        test = wish.test,
        sls = wish.sls.join(","),
        "asked for a run"
    );
    let answer = desk.ask(move |answers| answers.trigger(wish)).await?;
    Ok(match answer {
        Ok(ticket) => (StatusCode::ACCEPTED, Json(ticket)).into_response(),
        Err(refused) => (code(&refused), Json(refused)).into_response(),
    })
}

fn code(refused: &Refused) -> StatusCode {
    match refused.why {
        RefusedWhy::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
        RefusedWhy::Paused | RefusedWhy::Window | RefusedWhy::Busy | RefusedWhy::Stopping => {
            StatusCode::CONFLICT
        }
    }
}

/// What became of a wish; while nothing did, the answer waits a while for news.
async fn progress(State(desk): State<Desk>, Path(ticket): Path<u64>) -> Result<Response, Response> {
    let until = Instant::now() + desk.limits.news;
    loop {
        let progress = desk.ask(move |answers| answers.progress(Ticket(ticket))).await?;
        let is_over = matches!(progress, Progress::Done { .. } | Progress::Unknown);
        if is_over || Instant::now() >= until {
            return Ok(Json(progress).into_response());
        }
        sleep(LOOK).await;
    }
}

async fn changed(State(desk): State<Desk>, Extension(peer): Extension<Peer>) -> Result<Response, Response> {
    tracing::info!(uid = peer.uid, pid = peer.pid, "told that pause, pin or quarantine changed");
    desk.ask(|answers| answers.changed()).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
