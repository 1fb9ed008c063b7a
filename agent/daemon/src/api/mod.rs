//! Requests on the agent's socket in, what the agent knows or a wish handed to it out.
//!
//! Law: everything about tokio stays in here, in one thread of its own. Whoever asks, however badly, never holds the agent: an
//! answer is taken from memory, and everything on the wire has a bound in bytes, in number and in time.
//!
//! Two doors: the unix socket answers everything, and the system decides by its mode who may knock. The TCP address, when one
//! is configured, answers `/healthz`, `/readyz` and `/metrics` and nothing else.

pub mod client;
pub mod metrics;
pub mod routes;
pub mod server;
pub mod socket;

#[cfg(any(test, feature = "testing"))]
pub mod fake;
#[cfg(test)]
pub mod tests;

pub use client::{ApiClient, ClientError};
pub use metrics::{Metrics, ProcessMetrics};
pub use server::{ApiConfig, ApiError, ApiLimits, ApiServer, serve};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::LastRun;
use crate::status::AgentStatus;

/// Who knows the answers: the daemon. Each call is answered from memory; none waits for a run, a disk or a remote.
pub trait ApiBackend: Send + Sync + 'static {
    /// What there is to know.
    fn status(&self) -> AgentStatus;

    /// The same in numbers, and what was counted since the start.
    fn metrics(&self) -> Metrics;

    /// True while the loop of the daemon turns.
    fn is_alive(&self) -> bool;

    /// Whether the configuration loads, and the current generation verifies and compiles; why not, in words.
    ///
    /// # Errors
    /// The reason not to be ready.
    fn readiness(&self) -> Result<(), String>;

    /// Asks for a run. It is queued, or joined with one that is; the ticket tells what became of it.
    ///
    /// # Errors
    /// The reason why there will be none.
    fn trigger(&self, request: RunRequest) -> Result<Ticket, RunRefused>;

    /// What became of a wish. The last few results are remembered.
    fn progress(&self, ticket: Ticket) -> RequestProgress;

    /// Pause, pin or quarantine were changed: look again.
    fn controls_changed(&self);
}

/// A run that somebody asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRequest {
    /// True when nothing may be changed.
    #[serde(default)]
    pub test: bool,
    /// What is run; what the top files select when empty.
    #[serde(default)]
    pub sls: Vec<String>,
    /// True when the remotes are asked first.
    #[serde(default = "default_true")]
    pub fetch: bool,
    /// True when somebody waits for the result.
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

/// The number of a wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Ticket(pub u64);

/// Why there will be no run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct RunRefused {
    /// The kind of reason.
    pub why: RunRefusedReason,
    /// The reason, in words that name a way out.
    pub message: String,
}

/// Kinds of reasons not to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunRefusedReason {
    /// The agent is paused.
    Paused,
    /// No maintenance window is open.
    Window,
    /// Too many wishes wait already.
    Busy,
    /// The daemon is about to end.
    Stopping,
    /// There is no such SLS, or the wish makes no sense.
    Invalid,
}

/// What became of a wish.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum RequestProgress {
    /// It waits for its turn.
    Waiting,
    /// It runs.
    Running {
        /// Since when.
        since: Timestamp,
    },
    /// It is over.
    Done {
        /// How it ended.
        end: Box<RequestResult>,
    },
    /// Nobody remembers it: the daemon was restarted, or it is long over.
    Unknown,
}

/// How a wish ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestResult {
    /// The exit code that `zagent run --once` would have ended with.
    pub exit: u8,
    /// The run, in short; none when there was nothing to run or no way to.
    pub run: Option<LastRun>,
    /// What there is to say without a run: that a revision was refused, that no remote answers.
    pub message: Option<String>,
}
