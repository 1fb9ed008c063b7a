//! One node in a rollout: its phase, what it remembers of versions and rollouts, the events and the actions. `step` has the
//! transitions.

mod step;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use zagent_config::ids::RolloutId;

pub use self::step::step;
use crate::Span;
use crate::version::compare;

/// This many failed checks in a row roll back.
pub const MAX_MISSES: u32 = 3;
/// This many crashes of the host or the watchdog while a version is on trial roll back and reject it. One is forgiven: it
/// may be a power cut. When the time of the trial is over, two are enough.
pub const MAX_CRASHES: u32 = 3;
/// How often a soaking node is checked.
pub const SOAK_CHECK_INTERVAL: Duration = Duration::from_secs(10);
/// The shortest time limit for the confirmation of a new version.
const MIN_CONFIRM_TIME: Duration = Duration::from_secs(5 * 60);
/// Maximum number of rejected versions that are remembered.
const MAX_REJECTED: usize = 256;
/// Maximum number of ended rollouts that are remembered.
const MAX_ENDED: usize = 64;
/// Maximum characters of a reason: it is saved in a small file.
const MAX_REASON_CHARS: usize = 500;

/// The target of a node in a rollout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RolloutOrder {
    /// The rollout; `None` when someone on the host rolls back, which is the only action without a rollout.
    pub rollout: Option<RolloutId>,
    /// The version or commit.
    pub to: String,
    /// How long it soaks.
    pub soak: Span,
    /// True to accept a version that was rejected before.
    pub anyway: bool,
    /// When the rollout was ordered: together with its name, this identifies it.
    #[serde(default)]
    pub created: Timestamp,
}

impl RolloutOrder {
    /// The time limit for the confirmation after it was applied.
    #[must_use]
    pub fn confirm_timeout(&self) -> Duration {
        self.soak.0.saturating_mul(3).max(MIN_CONFIRM_TIME)
    }
}

/// The phase of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum NodePhase {
    /// It runs the expected version.
    #[default]
    Idle,
    /// It fetches and verifies.
    Preparing {
        /// What.
        order: RolloutOrder,
        /// Since when.
        since: Timestamp,
    },
    /// Everything is fetched and verified.
    Staged {
        /// What.
        order: RolloutOrder,
        /// Since when.
        since: Timestamp,
    },
    /// It switches to the new version.
    Applying {
        /// To what.
        order: RolloutOrder,
        /// Since when.
        since: Timestamp,
    },
    /// It runs the new version, which must pass its soak and be confirmed.
    Soaking {
        /// What.
        order: RolloutOrder,
        /// Since when.
        since: Timestamp,
        /// The deadline for the confirmation.
        deadline: Timestamp,
        /// Failed checks in a row.
        misses: u32,
        /// Since when it has been ready; `None` when the last check failed.
        ready_since: Option<Timestamp>,
    },
    /// It rolls back.
    RollingBack {
        /// The version it rolls back from.
        order: RolloutOrder,
        /// The version it rolls back to.
        back: String,
        /// Why.
        why: String,
        /// True when the version is the cause.
        rejects: bool,
        /// Since when.
        since: Timestamp,
    },
}

/// The result of a rollout on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeOutcome {
    /// It keeps the new version.
    Confirmed,
    /// It is back on the old version, or never left it.
    Failed,
    /// The rollout was withdrawn before anything was applied.
    Withdrawn,
}

/// The last rollout of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastRollout {
    /// Which.
    pub rollout: RolloutId,
    /// To what.
    pub to: String,
    /// How it ended.
    pub outcome: NodeOutcome,
    /// Why it failed.
    pub why: Option<String>,
    /// When.
    pub at: Timestamp,
    /// When the rollout was ordered.
    #[serde(default)]
    pub created: Timestamp,
}

/// The state of a node, saved on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeState {
    /// The version that is known to be good.
    pub running: String,
    /// The good version before it.
    pub previous: Option<String>,
    /// The phase.
    pub phase: NodePhase,
    /// Versions that failed on this node, and why.
    pub rejected: BTreeMap<String, String>,
    /// The result of the last rollout.
    pub last: Option<LastRollout>,
    /// The rollouts that ended on this node, the last one at the end: each runs once.
    pub ended: Vec<(RolloutId, Timestamp)>,
    /// When the newest rollout that this node ever started was ordered.
    pub newest: Option<Timestamp>,
    /// The newest accepted serial per rollout: older records are refused.
    pub heard: BTreeMap<RolloutId, AcceptedSerial>,
    /// How often the host or the watchdog crashed while the present version was on trial.
    #[serde(skip_serializing_if = "is_zero")]
    pub crashes: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// The newest accepted serial of a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AcceptedSerial {
    /// When the rollout was ordered; a later one with the same name is another rollout.
    pub created: Timestamp,
    /// The serial of the record.
    pub serial: u64,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeEvent {
    /// Fetch and verify.
    Prepare(RolloutOrder),
    /// Switch to the new version.
    Apply(RolloutId),
    /// Keep the new version.
    Confirm(RolloutId),
    /// The rollout has ended for this node.
    Withdraw(RolloutId, String),
    /// The fetch succeeded.
    Fetched,
    /// Fetch or verification failed.
    FetchFailed(String),
    /// The new version runs.
    Applied,
    /// The switch failed.
    ApplyFailed(String),
    /// A check found it ready.
    Ready,
    /// A check found it not ready; or it exited.
    NotReady(String),
    /// It is back on the old version.
    RolledBack,
    /// The rollback failed.
    RollbackFailed(String),
    /// Someone on the host requests a rollback.
    RollBack(String),
    /// Time passes.
    Tick,
    /// The process that runs the actions has started, after it was stopped.
    Boot,
    /// It has started, and the last one was not stopped: it was killed, or the host crashed.
    BootAfterCrash,
}

/// An action.
///
/// Actions run one after the other, and an action reports a result only while no later action replaced it: a fetch that
/// is still running when a [`NodeAction::Discard`] arrives reports nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeAction {
    /// Fetch and verify; answer with [`NodeEvent::Fetched`] or [`NodeEvent::FetchFailed`].
    Fetch(RolloutOrder),
    /// Delete what was fetched; no answer.
    Discard(String),
    /// Verify again, switch, start; answer with [`NodeEvent::Applied`] or [`NodeEvent::ApplyFailed`].
    Apply(String),
    /// Switch back, start; answer with [`NodeEvent::RolledBack`] or [`NodeEvent::RollbackFailed`].
    RollBack(String),
    /// The version is good: versions older than the previous one may be deleted, and the watchdog updates itself; no
    /// answer.
    Settle(String),
}

impl NodeState {
    /// A node that runs a version.
    #[must_use]
    pub fn with_version(running: impl Into<String>) -> Self {
        Self { running: running.into(), ..Self::default() }
    }

    /// The version that should be running now, confirmed or not.
    #[must_use]
    pub fn current_version(&self) -> &str {
        match &self.phase {
            NodePhase::Applying { order, .. } | NodePhase::Soaking { order, .. } => &order.to,
            NodePhase::RollingBack { back, .. } => back,
            NodePhase::Idle | NodePhase::Preparing { .. } | NodePhase::Staged { .. } => &self.running,
        }
    }

    /// The rollout that it takes part in.
    #[must_use]
    pub const fn current_rollout(&self) -> Option<&RolloutId> {
        match &self.phase {
            NodePhase::Idle => None,
            NodePhase::Preparing { order, .. }
            | NodePhase::Staged { order, .. }
            | NodePhase::Applying { order, .. }
            | NodePhase::Soaking { order, .. }
            | NodePhase::RollingBack { order, .. } => order.rollout.as_ref(),
        }
    }

    /// True while it runs an unconfirmed version.
    #[must_use]
    pub const fn is_unconfirmed(&self) -> bool {
        matches!(self.phase, NodePhase::Applying { .. } | NodePhase::Soaking { .. })
    }

    /// True when a rollout has ended on this node, with any result.
    #[must_use]
    pub fn has_ended(&self, rollout: &RolloutId, created: Timestamp) -> bool {
        self.ended.iter().any(|(id, at)| id == rollout && *at == created)
    }

    fn end_rollout(
        &mut self,
        order: &RolloutOrder,
        outcome: NodeOutcome,
        why: Option<String>,
        now: Timestamp,
    ) {
        (self.phase, self.crashes) = (NodePhase::Idle, 0);
        if let Some(rollout) = order.rollout.clone() {
            if !self.has_ended(&rollout, order.created) {
                self.ended.drain(..(self.ended.len() + 1).saturating_sub(MAX_ENDED));
                self.ended.push((rollout.clone(), order.created));
            }
            self.newest = self.newest.max(Some(order.created));
            let (to, why, created) = (order.to.clone(), why.as_deref().map(truncate_reason), order.created);
            self.last = Some(LastRollout { rollout, to, outcome, why, at: now, created });
        }
    }

    fn start_rollback(
        &mut self,
        order: RolloutOrder,
        why: String,
        rejects: bool,
        now: Timestamp,
    ) -> Vec<NodeAction> {
        let (back, why) = (self.running.clone(), truncate_reason(&why));
        self.phase = NodePhase::RollingBack { order, back: back.clone(), why, rejects, since: now };
        vec![NodeAction::RollBack(back)]
    }

    fn reject_version(&mut self, version: &str, why: &str) {
        if self.rejected.len() >= MAX_REJECTED && !self.rejected.contains_key(version) {
            // The oldest one is the least likely to be ordered again.
            let oldest = self.rejected.keys().min_by(|a, b| compare(a, b).unwrap_or_else(|| a.cmp(b)));
            if let Some(oldest) = oldest.cloned() {
                self.rejected.remove(&oldest);
            }
        }
        self.rejected.insert(version.to_owned(), truncate_reason(why));
        // Never roll back to a bad version.
        self.previous.take_if(|previous| previous == version);
    }

    /// Why a version is rolled back that was on trial during too many crashes; `None` as long as they are too few.
    pub(crate) fn crash_reason(&self, version: &str, limit: u32) -> Option<String> {
        let times = self.crashes;
        let why = || format!("the host or the watchdog crashed {times} times while {version} was on trial");
        (times >= limit).then(why)
    }

    /// Deletes a version, unless it is needed: a rollout may target the previous one.
    fn discard_version(&self, version: String) -> Vec<NodeAction> {
        let needed = version == self.running || self.previous.as_ref() == Some(&version);
        if needed { vec![] } else { vec![NodeAction::Discard(version)] }
    }
}

/// A reason, cut to the maximum length.
fn truncate_reason(why: &str) -> String {
    match why.char_indices().nth(MAX_REASON_CHARS) {
        Some((end, _)) => format!("{}…", &why[..end]),
        None => why.to_owned(),
    }
}

/// A later moment, or the maximum.
#[must_use]
pub fn saturating_after(moment: Timestamp, time: Duration) -> Timestamp {
    let time = SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
    moment.checked_add(time).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
