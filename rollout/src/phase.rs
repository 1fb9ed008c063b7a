//! One node in a rollout: its state and an event in, its next state and the actions out.
//!
//! Law: total and pure. Every event has a result in every phase; an event that does not belong to the phase changes
//! nothing. The result of [`step`] is saved before the actions run, and every action is safe to repeat, so a crash
//! between the two loses nothing. A node always has a version that it can run: [`NodeState::running`] changes only when
//! the new version is confirmed (held by `every_event_in_every_phase`, `laws_of_one_step`, `boot_is_safe_to_repeat`).

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use zagent_config::ids::RolloutId;

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

/// The result of an event, and the actions to run.
#[must_use]
pub fn step(node: &NodeState, event: NodeEvent, now: Timestamp) -> (NodeState, Vec<NodeAction>) {
    let mut next = node.clone();
    let event = match event {
        NodeEvent::BootAfterCrash if !node.is_unconfirmed() => NodeEvent::Boot,
        other => other,
    };
    let actions = match std::mem::take(&mut next.phase) {
        NodePhase::Idle => step_idle(&mut next, event, now),
        NodePhase::Preparing { order, since } => step_preparing(&mut next, order, since, event, now),
        NodePhase::Staged { order, since } => step_staged(&mut next, order, since, event, now),
        NodePhase::Applying { order, since } => step_applying(&mut next, order, since, event, now),
        NodePhase::Soaking { order, since, deadline, misses, ready_since } => {
            step_soaking(&mut next, SoakState { order, since, deadline, misses, ready_since }, event, now)
        }
        NodePhase::RollingBack { order, back, why, rejects, since } => {
            step_rolling_back(&mut next, RollbackState { order, back, why, rejects, since }, event, now)
        }
    };
    (next, actions)
}

fn step_idle(node: &mut NodeState, event: NodeEvent, now: Timestamp) -> Vec<NodeAction> {
    match event {
        // No driver would ever send apply or confirm.
        NodeEvent::Prepare(order) if order.rollout.is_none() => vec![],
        NodeEvent::Prepare(order) if order.to == node.running => {
            node.end_rollout(&order, NodeOutcome::Confirmed, None, now);
            vec![]
        }
        NodeEvent::Prepare(order) => {
            if let Some(why) = node.rejected.get(&order.to).filter(|_| !order.anyway) {
                let why = format!("{} was already rejected on this node: {why}", order.to);
                node.end_rollout(&order, NodeOutcome::Failed, Some(why), now);
                return vec![];
            }
            // Another rollout installed something newer after this one was planned.
            if compare(&order.to, &node.running) == Some(std::cmp::Ordering::Less) && !order.anyway {
                let why = format!("{} is older than {}, which runs on this node", order.to, node.running);
                node.end_rollout(&order, NodeOutcome::Failed, Some(why), now);
                return vec![];
            }
            node.newest = node.newest.max(Some(order.created));
            node.phase = NodePhase::Preparing { order: order.clone(), since: now };
            vec![NodeAction::Fetch(order)]
        }
        NodeEvent::RollBack(why) => match node.previous.take() {
            Some(previous) => {
                let bad = std::mem::replace(&mut node.running, previous);
                let soak = Span::default();
                let order = RolloutOrder { rollout: None, to: bad, soak, anyway: false, created: now };
                node.start_rollback(order, why, true, now)
            }
            None => vec![],
        },
        _ => vec![],
    }
}

fn step_preparing(
    node: &mut NodeState,
    order: RolloutOrder,
    since: Timestamp,
    event: NodeEvent,
    now: Timestamp,
) -> Vec<NodeAction> {
    match event {
        NodeEvent::Fetched => {
            node.phase = NodePhase::Staged { order, since: now };
            vec![]
        }
        NodeEvent::FetchFailed(why) => {
            node.end_rollout(&order, NodeOutcome::Failed, Some(why), now);
            node.discard_version(order.to)
        }
        NodeEvent::Boot => {
            node.phase = NodePhase::Preparing { order: order.clone(), since };
            vec![NodeAction::Fetch(order)]
        }
        other => step_withdrawable(node, order, other, now, |order| NodePhase::Preparing { order, since }),
    }
}

fn step_staged(
    node: &mut NodeState,
    order: RolloutOrder,
    since: Timestamp,
    event: NodeEvent,
    now: Timestamp,
) -> Vec<NodeAction> {
    match event {
        NodeEvent::Apply(rollout) if order.rollout.as_ref() == Some(&rollout) => {
            let to = order.to.clone();
            (node.phase, node.crashes) = (NodePhase::Applying { order, since: now }, 0);
            vec![NodeAction::Apply(to)]
        }
        other => step_withdrawable(node, order, other, now, |order| NodePhase::Staged { order, since }),
    }
}

/// Discards what was only fetched when it is no longer needed.
fn step_withdrawable(
    node: &mut NodeState,
    order: RolloutOrder,
    event: NodeEvent,
    now: Timestamp,
    stay: impl FnOnce(RolloutOrder) -> NodePhase,
) -> Vec<NodeAction> {
    let why = match event {
        NodeEvent::Withdraw(rollout, why) if order.rollout.as_ref() == Some(&rollout) => why,
        NodeEvent::RollBack(why) => why,
        _ => {
            node.phase = stay(order);
            return vec![];
        }
    };
    node.end_rollout(&order, NodeOutcome::Withdrawn, Some(why), now);
    node.discard_version(order.to)
}

fn step_applying(
    node: &mut NodeState,
    order: RolloutOrder,
    since: Timestamp,
    event: NodeEvent,
    now: Timestamp,
) -> Vec<NodeAction> {
    // If the clock was set back, the time left must not be longer than after a fresh start.
    let since = since.min(now);
    if event == NodeEvent::BootAfterCrash {
        node.crashes = node.crashes.saturating_add(1);
        if let Some(why) = node.crash_reason(&order.to, MAX_CRASHES) {
            return node.start_rollback(order, why, true, now);
        }
    }
    match event {
        NodeEvent::Applied => {
            let deadline = saturating_after(now, order.confirm_timeout());
            node.phase = NodePhase::Soaking { order, since: now, deadline, misses: 0, ready_since: None };
            vec![]
        }
        NodeEvent::ApplyFailed(why) => node.start_rollback(order, why, false, now),
        NodeEvent::RollBack(why) => node.start_rollback(order, why, true, now),
        NodeEvent::Withdraw(rollout, why) if order.rollout.as_ref() == Some(&rollout) => {
            node.start_rollback(order, why, false, now)
        }
        // A version that crashes the whole host when it is applied would be applied again at every boot.
        _ if now >= saturating_after(since, order.confirm_timeout()) => {
            let crashed = node.crash_reason(&order.to, MAX_CRASHES - 1);
            let rejects = crashed.is_some();
            let late = || format!("it was not applied within {}", Span(order.confirm_timeout()));
            let why = crashed.unwrap_or_else(late);
            node.start_rollback(order, why, rejects, now)
        }
        NodeEvent::Boot | NodeEvent::BootAfterCrash => {
            let to = order.to.clone();
            node.phase = NodePhase::Applying { order, since };
            vec![NodeAction::Apply(to)]
        }
        _ => {
            node.phase = NodePhase::Applying { order, since };
            vec![]
        }
    }
}

struct SoakState {
    order: RolloutOrder,
    since: Timestamp,
    deadline: Timestamp,
    misses: u32,
    ready_since: Option<Timestamp>,
}

fn step_soaking(
    node: &mut NodeState,
    mut soak: SoakState,
    event: NodeEvent,
    now: Timestamp,
) -> Vec<NodeAction> {
    // If the clock was set back, the time left must not be longer than after a fresh start.
    if now < soak.since {
        soak.since = now;
        soak.deadline = saturating_after(now, soak.order.confirm_timeout());
        soak.ready_since = soak.ready_since.map(|_| now);
    }
    let is_ours = |rollout: &RolloutId| soak.order.rollout.as_ref() == Some(rollout);
    match event {
        NodeEvent::Confirm(rollout) if is_ours(&rollout) && soak.is_proven(now) => {
            let to = soak.order.to.clone();
            node.rejected.remove(&to);
            node.previous = Some(std::mem::replace(&mut node.running, to.clone()));
            node.end_rollout(&soak.order, NodeOutcome::Confirmed, None, now);
            return vec![NodeAction::Settle(to)];
        }
        NodeEvent::Withdraw(rollout, why) if is_ours(&rollout) => {
            return node.start_rollback(soak.order, why, false, now);
        }
        NodeEvent::RollBack(why) => return node.start_rollback(soak.order, why, true, now),
        NodeEvent::Ready => {
            soak.misses = 0;
            soak.ready_since.get_or_insert(now);
        }
        NodeEvent::BootAfterCrash => {
            soak.ready_since = None;
            node.crashes = node.crashes.saturating_add(1);
            if let Some(why) = node.crash_reason(&soak.order.to, MAX_CRASHES) {
                return node.start_rollback(soak.order, why, true, now);
            }
        }
        // A version that was ready before a reboot must become ready again after it.
        NodeEvent::Boot => soak.ready_since = None,
        NodeEvent::NotReady(why) => {
            (soak.misses, soak.ready_since) = (soak.misses + 1, None);
            if soak.misses >= MAX_MISSES {
                return node.start_rollback(soak.order, why, true, now);
            }
        }
        _ => {}
    }
    if now >= soak.deadline {
        let crashed = node.crash_reason(&soak.order.to, MAX_CRASHES - 1);
        let rejects = crashed.is_some();
        let late = || format!("the driver did not confirm it within {}", Span(soak.order.confirm_timeout()));
        let why = crashed.unwrap_or_else(late);
        return node.start_rollback(soak.order, why, rejects, now);
    }
    let SoakState { order, since, deadline, misses, ready_since } = soak;
    node.phase = NodePhase::Soaking { order, since, deadline, misses, ready_since };
    vec![]
}

impl SoakState {
    /// True when it ran long enough, was ready at the last check, and its time is not over. Fewer than [`MAX_MISSES`]
    /// failed checks in a row do not restart the time.
    fn is_proven(&self, now: Timestamp) -> bool {
        self.ready_since.is_some()
            && now >= saturating_after(self.since, self.order.soak.0)
            && now < self.deadline
    }
}

struct RollbackState {
    order: RolloutOrder,
    back: String,
    why: String,
    rejects: bool,
    since: Timestamp,
}

fn step_rolling_back(
    node: &mut NodeState,
    went: RollbackState,
    event: NodeEvent,
    now: Timestamp,
) -> Vec<NodeAction> {
    match event {
        NodeEvent::RolledBack => {
            if went.rejects {
                node.reject_version(&went.order.to, &went.why);
            }
            node.end_rollout(&went.order, NodeOutcome::Failed, Some(went.why), now);
            node.discard_version(went.order.to)
        }
        other => {
            let again = matches!(other, NodeEvent::Boot | NodeEvent::RollbackFailed(_) | NodeEvent::Tick);
            let actions = if again { vec![NodeAction::RollBack(went.back.clone())] } else { vec![] };
            let RollbackState { order, back, why, rejects, since } = went;
            node.phase = NodePhase::RollingBack { order, back, why, rejects, since };
            actions
        }
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
