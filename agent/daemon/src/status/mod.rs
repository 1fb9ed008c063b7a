//! What the agent knows about itself in, one value that answers "is this node where it should be, and why not" out.
//!
//! Law: it is told everything, the time too; it opens nothing and holds no secret.

pub mod files;

#[cfg(any(test, feature = "testing"))]
pub mod samples;

pub use files::read_offline;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use zagent_config::ids::RolloutId;
use zagent_rollout::record::RolloutStatus;

use crate::operator::pin::PinTarget;
use crate::{AgentMemory, HeldRevision, HoldReason, LastRun, NewestRevision, RemoteHealth};

/// A run that should have begun so long ago is late.
const OVERDUE_AFTER: SignedDuration = SignedDuration::from_mins(10);

/// Everything that `zagent status` tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentStatus {
    /// The node.
    pub node: String,
    /// The version of the agent that answers.
    pub version: String,
    /// When this was true.
    pub at: Timestamp,
    /// The daemon, when one runs.
    pub daemon: Option<DaemonStatus>,
    /// The generation that runs read.
    pub current: Option<CurrentGeneration>,
    /// The newest revision that a remote offered.
    pub newest: Option<NewestRevision>,
    /// True when the newest is the current one.
    pub is_current: bool,
    /// Why the node is not on the newest.
    pub why_not: Option<HeldRevision>,
    /// The last run.
    pub last_run: Option<LastRun>,
    /// When a run last succeeded.
    pub last_success: Option<Timestamp>,
    /// Runs that failed in a row.
    pub failures: u32,
    /// States that the last run without news had to put right.
    pub drift: usize,
    /// What comes next.
    pub next: UpcomingEvents,
    /// The pause, while there is one.
    pub paused: Option<PauseStatus>,
    /// The pin, while there is one.
    pub pinned: Option<PinStatus>,
    /// The rollout of states that it is in, or was in last.
    #[serde(default)]
    pub rollout: Option<RolloutSummary>,
    /// The board and the place of rollouts, as far as they do not answer.
    #[serde(default)]
    pub silent: Vec<UnreachableService>,
    /// Revisions that are not tried again.
    pub quarantined: Vec<QuarantineStatus>,
    /// Whether changes are allowed now.
    pub window: WindowStatus,
    /// That the host should be rebooted.
    pub reboot: Option<RebootStatus>,
    /// The remotes, in their order.
    pub remotes: Vec<RemoteHealth>,
    /// The health checks, as they last went.
    pub health: Vec<HealthStatus>,
    /// Revisions that were rolled back, ever.
    pub rollbacks: u64,
    /// What could not be read, and why: the rest may be incomplete.
    pub unread: Vec<String>,
}

/// The process that answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonStatus {
    /// Its number.
    pub pid: u32,
    /// When it started.
    pub since: Timestamp,
    /// What it is doing, in words: `idle`, `applying 3f2a1b9c0d1e`.
    pub doing: String,
}

/// The generation that runs read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CurrentGeneration {
    /// The revision, or the fingerprint of a directory.
    pub revision: String,
    /// The name of the generation.
    pub generation: String,
    /// Who signed it; nobody when no signature was asked for.
    pub signed_by: Vec<String>,
    /// The serial of its manifest.
    pub serial: Option<u64>,
    /// When it was committed.
    pub committed: Option<Timestamp>,
    /// When it was published on this node.
    pub published: Timestamp,
    /// Where it came from, without a password.
    pub source: String,
    /// The branch that it was the head of.
    pub branch: Option<String>,
    /// When its manifest ends to be valid.
    pub expires: Option<Timestamp>,
}

/// What comes next; nothing without a daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpcomingEvents {
    /// When the remotes are asked.
    pub poll: Option<Timestamp>,
    /// When the host is converged without news.
    pub run: Option<Timestamp>,
    /// The next entry of the schedule.
    pub entry: Option<ScheduledEntry>,
}

/// An entry of the schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduledEntry {
    /// Its name.
    pub name: String,
    /// When it runs.
    pub at: Timestamp,
}

/// That the agent takes nothing new and changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PauseStatus {
    /// Why.
    pub reason: Option<String>,
    /// Who said so.
    pub by: Option<String>,
    /// Since when.
    pub since: Timestamp,
    /// Until when; until somebody resumes it when none.
    pub until: Option<Timestamp>,
}

/// That the node stays on one branch or commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinStatus {
    /// The branch or the commit.
    pub to: PinTarget,
    /// Why.
    pub reason: Option<String>,
    /// Who said so.
    pub by: Option<String>,
    /// Since when.
    pub since: Timestamp,
}

/// A rollout of states, as this node stands in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RolloutSummary {
    /// Its name.
    pub id: RolloutId,
    /// To which commit.
    pub to: String,
    /// Where the whole of it stands; none when its record is gone.
    pub state: Option<RolloutStatus>,
    /// The batch of this node, from 1.
    pub batch: Option<usize>,
    /// How many there are.
    pub batches: usize,
    /// What this node does in it: `waiting`, `preparing`, `staged`, `applying`, `soaking`, `rolling-back`, `confirmed`,
    /// `failed` or `withdrawn`.
    pub phase: String,
    /// Since when.
    pub since: Option<Timestamp>,
    /// By when it must be confirmed.
    pub deadline: Option<Timestamp>,
    /// The same in words.
    pub message: String,
}

/// Somebody who should answer and does not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreachableService {
    /// Since when.
    pub since: Timestamp,
    /// When it was last tried.
    pub tried: Timestamp,
    /// What, and why.
    pub message: String,
}

/// A revision that failed its health checks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuarantineStatus {
    /// The revision.
    pub revision: String,
    /// Since when.
    pub since: Timestamp,
    /// What failed.
    pub message: String,
}

/// Whether changes are allowed now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum WindowStatus {
    /// No windows are configured.
    #[default]
    Always,
    /// One is open.
    Open {
        /// When it closes; never when none.
        until: Option<Timestamp>,
    },
    /// None is open.
    Closed {
        /// When the next opens; never when none.
        until: Option<Timestamp>,
    },
}

/// That the host should be rebooted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RebootStatus {
    /// Why.
    pub reason: String,
    /// Since when it is known; unknown when the system says so by itself.
    pub since: Option<Timestamp>,
    /// When the agent will do it; somebody else has to when none.
    pub at: Option<Timestamp>,
}

/// How a health check last went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HealthStatus {
    /// Its name.
    pub name: String,
    /// True when its failure rolls back.
    pub required: bool,
    /// Whether it went well.
    pub healthy: bool,
    /// What it saw.
    pub message: String,
    /// When.
    pub at: Timestamp,
}

/// What a status is made of.
#[derive(Clone, Debug, Default)]
pub struct StatusInputs {
    /// The node.
    pub node: String,
    /// The time.
    pub now: Timestamp,
    /// What was remembered of remotes and runs.
    pub memory: AgentMemory,
    /// The daemon, when one runs.
    pub daemon: Option<DaemonStatus>,
    /// The generation that runs read.
    pub current: Option<CurrentGeneration>,
    /// What comes next.
    pub next: UpcomingEvents,
    /// The pause; one that is over is left out.
    pub paused: Option<PauseStatus>,
    /// The pin.
    pub pinned: Option<PinStatus>,
    /// The rollout of states that it is in, or was in last.
    pub rollout: Option<RolloutSummary>,
    /// The board and the place of rollouts, as far as they do not answer.
    pub silent: Vec<UnreachableService>,
    /// Revisions that are not tried again.
    pub quarantined: Vec<QuarantineStatus>,
    /// Whether changes are allowed now.
    pub window: WindowStatus,
    /// That the host should be rebooted.
    pub reboot: Option<RebootStatus>,
    /// The health checks, as they last went.
    pub health: Vec<HealthStatus>,
    /// What could not be read, and why.
    pub unread: Vec<String>,
}

impl AgentStatus {
    /// Puts the pieces together.
    #[must_use]
    pub fn from_inputs(inputs: StatusInputs) -> Self {
        let StatusInputs { memory, now, .. } = inputs;
        let newest = memory.newest;
        let on = inputs.current.as_ref().map(|c| crate::plain_revision(&c.revision));
        let is_current = newest.as_ref().is_some_and(|n| Some(n.revision.as_str()) == on);
        // A reason that was noted about another revision explains nothing about this one.
        let concerns =
            |held: &HeldRevision| !is_current && newest.as_ref().is_some_and(|n| n.revision == held.revision);
        Self {
            node: inputs.node,
            version: env!("CARGO_PKG_VERSION").into(),
            at: now,
            daemon: inputs.daemon,
            current: inputs.current,
            is_current,
            why_not: memory.held.filter(concerns),
            newest,
            last_run: memory.last_run,
            last_success: memory.last_success,
            failures: memory.failures,
            drift: memory.drift,
            next: inputs.next,
            paused: inputs.paused.filter(|p| p.until.is_none_or(|until| until > now)),
            pinned: inputs.pinned,
            rollout: inputs.rollout,
            silent: inputs.silent,
            quarantined: inputs.quarantined,
            window: inputs.window,
            reboot: inputs.reboot,
            remotes: memory.remotes,
            health: inputs.health,
            rollbacks: memory.rollbacks,
            unread: inputs.unread,
        }
    }

    /// For how long a newer revision is known that the node is not on.
    #[must_use]
    pub fn behind_duration(&self) -> Option<SignedDuration> {
        let newest = self.newest.as_ref().filter(|_| !self.is_current)?;
        Some(self.at.duration_since(newest.since).max(SignedDuration::ZERO))
    }

    /// True when the manifest of the current generation ended to be valid.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.current.as_ref().and_then(|c| c.expires).is_some_and(|expires| expires <= self.at)
    }

    /// What somebody should look at, in words; a pause, a pin and a closed window are somebody's will and not listed.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        if self.last_run.as_ref().is_some_and(|run| !run.success && !run.canceled) {
            wrong.push("the last run failed".into());
        }
        match self.why_not.as_ref().map(|held| held.why) {
            Some(HoldReason::Refused) => wrong.push("the newest revision was refused".into()),
            Some(HoldReason::Quarantined) => wrong.push("the newest revision is quarantined".into()),
            Some(HoldReason::Unfetched) => wrong.push("the newest revision cannot be fetched".into()),
            Some(HoldReason::Broken) => wrong.push("the newest revision does not compile".into()),
            Some(HoldReason::Paused | HoldReason::Pinned | HoldReason::Rollout | HoldReason::Window)
            | None => {}
        }
        if self.is_expired() {
            wrong.push("the manifest of the current generation expired".into());
        }
        if !self.remotes.is_empty() && self.remotes.iter().all(|r| r.failing_since.is_some()) {
            wrong.push("no remote answers with its branch".into());
        }
        let sick = self.health.iter().filter(|v| v.required && !v.healthy);
        wrong.extend(sick.map(|v| format!("health check {} fails", v.name)));
        if self.paused.is_none()
            && self.next.run.is_some_and(|run| self.at.duration_since(run) > OVERDUE_AFTER)
        {
            wrong.push("a run is overdue".into());
        }
        wrong
    }
}
