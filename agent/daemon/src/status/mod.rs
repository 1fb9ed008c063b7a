//! Agent state in, one value that answers "is this node where it should be, and why not" out.
//!
//! Law: this file gets all inputs as arguments, including the time, and opens no files; `files` reads them. It
//! holds no secrets (held by `pure_modules_do_not_touch_the_machine`).

pub mod files;
pub mod lines;

#[cfg(any(test, feature = "testing"))]
pub mod samples;

pub use files::read_offline;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::damage::OwnDamage;
use crate::health::HealthStatus;
use crate::operator::pin::PinTarget;
pub use crate::rollout_state::status::RolloutSummary;
use crate::space::MIN_FREE_BYTES;
use crate::trust_warnings::expiry_warning;
use crate::{AgentMemory, HeldRevision, HoldReason, LastRun, NewestRevision, RemoteHealth};

/// A run that should have started this long ago is overdue.
const OVERDUE_AFTER: SignedDuration = SignedDuration::from_mins(10);

/// Everything that `zagent status` prints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentStatus {
    /// The node.
    pub node: String,
    /// Version of the agent that responds.
    pub version: String,
    /// Time of this status.
    pub at: Timestamp,
    /// The daemon, when one runs.
    pub daemon: Option<DaemonStatus>,
    /// Current generation.
    pub current: Option<CurrentGeneration>,
    /// Newest revision offered by a remote.
    pub newest: Option<NewestRevision>,
    /// True when the newest revision is current.
    pub is_current: bool,
    /// Why the node does not have the newest revision.
    pub why_not: Option<HeldRevision>,
    /// The last run.
    pub last_run: Option<LastRun>,
    /// Time of the last successful run.
    pub last_success: Option<Timestamp>,
    /// Number of consecutive failed runs.
    pub failures: u32,
    /// States that the last run found changed on the host although they still ask for the same.
    pub drift: usize,
    /// True when runs check and report, and change nothing.
    #[serde(default)]
    pub audit: bool,
    /// In audit mode: states that ask for something that is not applied.
    #[serde(default)]
    pub pending: usize,
    /// Things that earlier revisions managed and the current states do not.
    #[serde(default)]
    pub orphans: usize,
    /// Upcoming events.
    pub next: UpcomingEvents,
    /// Active pause.
    pub paused: Option<PauseStatus>,
    /// Active pin.
    pub pinned: Option<PinStatus>,
    /// Current or last states rollout.
    #[serde(default)]
    pub rollout: Option<RolloutSummary>,
    /// The board and the rollout repository, when they do not respond.
    #[serde(default)]
    pub silent: Vec<UnreachableService>,
    /// Quarantined revisions.
    pub quarantined: Vec<QuarantineStatus>,
    /// Whether changes are allowed now.
    pub window: WindowStatus,
    /// Set when the host needs a reboot.
    pub reboot: Option<RebootStatus>,
    /// Remotes, in their order.
    pub remotes: Vec<RemoteHealth>,
    /// Last results of the health checks.
    pub health: Vec<HealthStatus>,
    /// Total number of rolled-back revisions.
    pub rollbacks: u64,
    /// Space used by the agent, and what is free.
    #[serde(default)]
    pub space: Option<SpaceStatus>,
    /// Files of the agent that are damaged.
    #[serde(default)]
    pub damaged: Vec<OwnDamage>,
    /// What nothing protects, and what to do about it.
    #[serde(default)]
    pub trust: Vec<String>,
    /// Damage that the watchdog found in its files, and what it did.
    #[serde(default)]
    pub watchdog: Vec<String>,
    /// What could not be read, and why: the rest may be incomplete.
    pub unread: Vec<String>,
}

/// Space for the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpaceStatus {
    /// Bytes below `root`, as last counted; none before the first time.
    pub used: Option<u64>,
    /// When they were counted.
    pub at: Option<Timestamp>,
    /// The limit: `keep_bytes`.
    pub limit: u64,
    /// Free bytes on that file system; none when it does not tell.
    pub free: Option<u64>,
}

impl SpaceStatus {
    /// True when hardly anything can be written.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.free.is_some_and(|free| free < MIN_FREE_BYTES)
    }

    /// True when the agent uses more than it may.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.used.is_some_and(|used| used > self.limit)
    }
}

/// The daemon process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DaemonStatus {
    /// Process ID.
    pub pid: u32,
    /// When it started.
    pub since: Timestamp,
    /// Current activity: `idle`, `applying 3f2a1b9c0d1e`.
    pub doing: String,
}

/// Current generation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CurrentGeneration {
    /// The revision, or the fingerprint of a directory.
    pub revision: String,
    /// Generation name.
    pub generation: String,
    /// Signers; empty when no signature was required.
    pub signed_by: Vec<String>,
    /// Serial of its manifest.
    pub serial: Option<u64>,
    /// Commit time.
    pub committed: Option<Timestamp>,
    /// When it was published on this node.
    pub published: Timestamp,
    /// Its source, without a password.
    pub source: String,
    /// Branch that it was the head of.
    pub branch: Option<String>,
    /// Expiry time of its manifest.
    pub expires: Option<Timestamp>,
}

/// Upcoming events; empty without a daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpcomingEvents {
    /// Next poll of the remotes.
    pub poll: Option<Timestamp>,
    /// Next run without a new revision.
    pub run: Option<Timestamp>,
    /// Next schedule entry.
    pub entry: Option<ScheduledEntry>,
}

/// A schedule entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduledEntry {
    /// Its name.
    pub name: String,
    /// When it runs.
    pub at: Timestamp,
}

/// A pause: the agent accepts no new revision and changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PauseStatus {
    /// Why.
    pub reason: Option<String>,
    /// User who set it.
    pub by: Option<String>,
    /// Since when.
    pub since: Timestamp,
    /// End time; until `zagent resume` when none.
    pub until: Option<Timestamp>,
}

/// A pin: the node stays on one branch or commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinStatus {
    /// The branch or the commit.
    pub to: PinTarget,
    /// Why.
    pub reason: Option<String>,
    /// User who set it.
    pub by: Option<String>,
    /// Since when.
    pub since: Timestamp,
}

/// A service that should respond and does not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreachableService {
    /// Since when.
    pub since: Timestamp,
    /// When it was last tried.
    pub tried: Timestamp,
    /// What failed, and why.
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

/// A needed reboot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RebootStatus {
    /// Why.
    pub reason: String,
    /// Since when it is known; unknown when the system reports it.
    pub since: Option<Timestamp>,
    /// When the agent reboots; none when someone else must do it.
    pub at: Option<Timestamp>,
}

/// Inputs of a status.
#[derive(Clone, Debug, Default)]
pub struct StatusInputs {
    /// Node ID.
    pub node: String,
    /// The time.
    pub now: Timestamp,
    /// Saved state of remotes and runs.
    pub memory: AgentMemory,
    /// True when runs check and report, and change nothing.
    pub audit: bool,
    /// The daemon, when one runs.
    pub daemon: Option<DaemonStatus>,
    /// Current generation.
    pub current: Option<CurrentGeneration>,
    /// Upcoming events.
    pub next: UpcomingEvents,
    /// The pause; one that is over is ignored.
    pub paused: Option<PauseStatus>,
    /// The pin.
    pub pinned: Option<PinStatus>,
    /// Current or last states rollout.
    pub rollout: Option<RolloutSummary>,
    /// The board and the rollout repository, when they do not respond.
    pub silent: Vec<UnreachableService>,
    /// Quarantined revisions.
    pub quarantined: Vec<QuarantineStatus>,
    /// Whether changes are allowed now.
    pub window: WindowStatus,
    /// Set when the host needs a reboot.
    pub reboot: Option<RebootStatus>,
    /// Last results of the health checks.
    pub health: Vec<HealthStatus>,
    /// Space used by the agent, and what is free.
    pub space: Option<SpaceStatus>,
    /// Files of the agent that are damaged.
    pub damaged: Vec<OwnDamage>,
    /// What nothing protects.
    pub trust: Vec<String>,
    /// Damage that the watchdog found in its files, and what it did.
    pub watchdog: Vec<String>,
    /// What could not be read, and why.
    pub unread: Vec<String>,
    /// The newest run, when its process was killed.
    pub killed: Option<LastRun>,
    /// Things that no state manages any more.
    pub orphans: usize,
}

impl AgentStatus {
    /// Builds the status.
    #[must_use]
    pub fn from_inputs(inputs: StatusInputs) -> Self {
        let StatusInputs { memory, now, .. } = inputs;
        let newest = memory.newest;
        let on = inputs.current.as_ref().map(|c| crate::plain_revision(&c.revision));
        let is_current = newest.as_ref().is_some_and(|n| Some(n.revision.as_str()) == on);
        // A reason recorded for another revision does not apply to this one.
        let concerns =
            |held: &HeldRevision| !is_current && newest.as_ref().is_some_and(|n| n.revision == held.revision);
        let expires = inputs.current.as_ref().and_then(|current| current.expires);
        let mut trust = inputs.trust;
        trust.extend(expiry_warning(expires, now));
        Self {
            node: inputs.node,
            version: env!("CARGO_PKG_VERSION").into(),
            at: now,
            daemon: inputs.daemon,
            current: inputs.current,
            is_current,
            why_not: memory.held.filter(concerns),
            newest,
            last_run: match (memory.last_run, inputs.killed) {
                (Some(last), Some(killed)) if killed.at <= last.at => Some(last),
                (last, killed) => killed.or(last),
            },
            last_success: memory.last_success,
            failures: memory.failures,
            drift: memory.drift,
            audit: inputs.audit,
            pending: memory.pending,
            orphans: inputs.orphans,
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
            space: inputs.space,
            damaged: inputs.damaged,
            trust,
            watchdog: inputs.watchdog,
            unread: inputs.unread,
        }
    }

    /// How long a newer revision has been known that the node does not have.
    #[must_use]
    pub fn behind_duration(&self) -> Option<SignedDuration> {
        let newest = self.newest.as_ref().filter(|_| !self.is_current)?;
        Some(self.at.duration_since(newest.since).max(SignedDuration::ZERO))
    }

    /// Since when no remote has answered, when none does: what the newest revision is cannot be told then.
    #[must_use]
    pub fn cut_off_since(&self) -> Option<Timestamp> {
        let since: Option<Vec<Timestamp>> = self.remotes.iter().map(|remote| remote.failing_since).collect();
        since?.into_iter().max()
    }

    /// True when the manifest of the current generation has expired.
    #[must_use]
    pub fn is_expired(&self) -> bool {
        self.current.as_ref().and_then(|c| c.expires).is_some_and(|expires| expires <= self.at)
    }

    /// Problems that need attention; a pause, a pin and a closed window are intended and not listed.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        if self.last_run.is_none() && self.unread.is_empty() {
            wrong.push("nothing was ever applied on this node".into());
        }
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
            wrong.push("the manifest of the current generation has expired".into());
        }
        if !self.remotes.is_empty() && self.remotes.iter().all(|r| r.failing_since.is_some()) {
            wrong.push("no remote answers with its branch".into());
        }
        if self.audit && self.drift > 0 {
            wrong.push("the host drifted from its states, and audit mode corrects nothing".into());
        }
        wrong.extend(self.watchdog.iter().cloned());
        let sick = self.health.iter().filter(|v| v.required && !v.healthy);
        wrong.extend(sick.map(|v| format!("health check {} fails", v.name)));
        if self.paused.is_none()
            && self.next.run.is_some_and(|run| self.at.duration_since(run) > OVERDUE_AFTER)
        {
            wrong.push("a run is overdue".into());
        }
        wrong.extend(self.damaged.iter().map(|damage| damage.message.clone()));
        if self.space.is_some_and(|space| space.is_short()) {
            wrong.push("the disk of the agent is almost full".into());
        }
        if self.space.is_some_and(|space| space.is_over()) {
            wrong.push("the agent uses more space than `keep_bytes`".into());
        }
        wrong
    }
}
