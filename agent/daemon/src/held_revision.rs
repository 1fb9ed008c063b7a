//! Why a node does not run a revision that it was offered: kind, text and since when.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use zagent_config::disk_space::says_full;
use zagent_config::ids::Revision;

use crate::error::ExitStatus;

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

impl HeldRevision {
    /// The exit status of a command that needs this revision. A full disk says nothing against the revision.
    #[must_use]
    pub fn exit(&self) -> ExitStatus {
        match self.why {
            HoldReason::Broken => ExitStatus::NotCompiled,
            HoldReason::Unfetched if says_full(&self.message) => ExitStatus::Failed,
            HoldReason::Unfetched => ExitStatus::Unreachable,
            HoldReason::Refused
            | HoldReason::Quarantined
            | HoldReason::Paused
            | HoldReason::Pinned
            | HoldReason::Rollout
            | HoldReason::Window => ExitStatus::Refused,
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_no_refusal() {
        let held = |why, message: &str| HeldRevision {
            revision: "a".repeat(40).parse().unwrap(),
            why,
            message: message.into(),
            since: Timestamp::UNIX_EPOCH,
            tries: 0,
        };
        for (why, message, want) in [
            (
                HoldReason::Unfetched,
                "cannot write `/x`: No space left on device (os error 28)",
                ExitStatus::Failed,
            ),
            (HoldReason::Unfetched, "connection refused", ExitStatus::Unreachable),
            (HoldReason::Refused, "not signed", ExitStatus::Refused),
            (HoldReason::Broken, "x.sls:3", ExitStatus::NotCompiled),
        ] {
            assert_eq!(held(why, message).exit(), want, "{message}");
        }
    }
}
