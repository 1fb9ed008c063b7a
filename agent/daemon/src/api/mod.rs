//! Requests on the agent's socket in, agent status or a queued run request out.
//!
//! Law: all tokio code of the agent stays here, in its own thread. No client can block the agent: responses come
//! from memory (the page of the node reads a limited part of the history), and everything on the wire is limited in bytes, number and time (held by `each_act_has_its_owners`,
//! `a_header_and_a_body_have_a_size_limit`, `a_client_that_stops_sending_is_disconnected`).
//!
//! Two listeners: the unix socket serves everything, its file mode decides who can connect, and `socket_readers` who of
//! them may only read. The TCP
//! address, when configured, serves only `/healthz`, `/readyz`, `/metrics` and, as `listen_pages` says, the page of the
//! node.

#![expect(clippy::disallowed_methods, reason = "requests and clients have deadlines")]

pub mod client;
pub mod metrics;
pub mod routes;
pub mod server;
pub mod site;
pub mod socket;

#[cfg(any(test, feature = "testing"))]
pub mod fake;
#[cfg(test)]
pub mod tests;

pub use client::{ApiClient, ClientError};
pub(crate) use metrics::{Metrics, ProcessMetrics};
pub use server::{ApiConfig, ApiLimits, ApiServer, serve};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::LastRun;
use crate::pages::PageDetail;
use crate::status::AgentStatus;

/// Source of the responses: the daemon. Each call but `node_page` is served from memory; none waits for a run or a
/// remote.
pub trait ApiBackend: Send + Sync + 'static {
    /// Agent status.
    fn status(&self) -> AgentStatus;

    /// Status in numbers, and counters since the start.
    fn metrics(&self) -> Metrics;

    /// The page of the node; reads the newest part of the history.
    fn node_page(&self, detail: PageDetail) -> String;

    /// True while the daemon's event loop is running.
    fn is_alive(&self) -> bool;

    /// Whether the configuration loads, and the current generation verifies and compiles; otherwise the
    /// reason.
    ///
    /// # Errors
    /// The reason for not being ready.
    fn readiness(&self) -> Result<(), String>;

    /// Requests a run. It is queued, or merged with a queued one; the ticket identifies it.
    ///
    /// # Errors
    /// The reason why it is refused.
    fn trigger(&self, request: RunRequest) -> Result<Ticket, RunRefused>;

    /// Progress of a request. The last few results are kept.
    fn progress(&self, ticket: Ticket) -> RequestProgress;

    /// Pause, pin or quarantine changed: read them again.
    fn controls_changed(&self);
}

/// A requested run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRequest {
    /// True for a dry run.
    #[serde(default)]
    pub test: bool,
    /// SLS files to run; what the top files select when empty.
    #[serde(default)]
    pub sls: Vec<String>,
    /// True to contact the remotes first.
    #[serde(default = "default_true")]
    pub fetch: bool,
    /// True when a client waits for the result.
    #[serde(default)]
    pub wait: bool,
}

const fn default_true() -> bool {
    true
}

impl Default for RunRequest {
    fn default() -> Self {
        Self { test: false, sls: Vec::new(), fetch: true, wait: false }
    }
}

/// Number of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Ticket(pub u64);

/// Why a run is refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct RunRefused {
    /// Kind of reason.
    pub why: RunRefusedReason,
    /// Message, with what to do.
    pub message: String,
}

/// Kinds of reasons for a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunRefusedReason {
    /// The agent is paused.
    Paused,
    /// No maintenance window is open.
    Window,
    /// Too many requests are waiting.
    Busy,
    /// The daemon is stopping.
    Stopping,
    /// There is no such SLS, or the request is invalid.
    Invalid,
}

/// Progress of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum RequestProgress {
    /// Waiting in the queue.
    Waiting,
    /// Running.
    Running {
        /// Start time.
        since: Timestamp,
    },
    /// Finished.
    Done {
        /// Result.
        end: Box<RequestResult>,
    },
    /// Unknown: the daemon restarted, or the request finished long ago.
    Unknown,
}

/// Result of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestResult {
    /// Exit code that `zagent run --once` would return.
    pub exit: u8,
    /// Summary of the run; none when there was nothing to run or it could not start.
    pub run: Option<LastRun>,
    /// Message when there was no run: a revision was refused, no remote answers.
    pub message: Option<String>,
}
