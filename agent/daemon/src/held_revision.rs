//! Why a node does not run a revision that it was offered: kind, text and since when.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use zagent_config::ids::Revision;

/// Why a revision is not current.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldRevision {
    /// The revision.
    pub revision: Revision,
    /// Kind of reason.
    pub why: HoldReason,
    /// Reason, with what to do.
    pub message: String,
    /// Since when.
    pub since: Timestamp,
    /// Number of attempts since.
    #[serde(default)]
    pub tries: u32,
}

/// Kinds of reasons to hold back a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldReason {
    /// It failed verification.
    Refused,
    /// It failed its health checks.
    Quarantined,
    /// The agent is paused.
    Paused,
    /// The node is pinned to another revision.
    Pinned,
    /// A rollout keeps the node on another revision.
    Rollout,
    /// No maintenance window is open.
    Window,
    /// It could not be fetched.
    Unfetched,
    /// It does not compile for this node.
    Broken,
}

impl HoldReason {
    /// Label of the reason.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Quarantined => "quarantined",
            Self::Paused => "paused",
            Self::Pinned => "pinned",
            Self::Rollout => "rollout",
            Self::Window => "window",
            Self::Unfetched => "unfetched",
            Self::Broken => "broken",
        }
    }
}
