//! What the agent last saw of its remotes and its runs: the part of the status that must outlive the process.
//!
//! Law: written only when it changed; a poll without news writes nothing. It may be lost: then the next turn fills it.

use std::collections::BTreeMap;
use std::path::Path;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use zagent_cache::source::{RemoteHeads, Remotes, SourceError};
use zagent_config::ids::Revision;

use super::decide::{RemoteOffer, RevisionRole, SyncDecision};
use super::operator_orders::OperatorOrders;
use crate::status::HealthStatus;
use zagent_config::error_chain;
use zagent_config::json_file;
use zagent_config::json_file::JsonFileError;
use zagent_host::timezone::local_zone;
use zagent_run::{RunReport, StateOutcome, StateStatus};

/// How many failed states are named.
const MAX_ERRORS: usize = 5;

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentMemory {
    /// The newest revision that a remote offered.
    pub newest: Option<NewestRevision>,
    /// Why the node is not on it.
    pub held: Option<HeldRevision>,
    /// The remotes, in their order.
    pub remotes: Vec<RemoteHealth>,
    /// The last run that changed the host or could have.
    pub last_run: Option<LastRun>,
    /// When a run last succeeded.
    pub last_success: Option<Timestamp>,
    /// States that a run without news had to put right: somebody else had changed the host.
    pub drift: usize,
    /// Runs that failed in a row.
    pub failures: u32,
    /// Revisions that were rolled back, ever.
    pub rollbacks: u64,
    /// The health checks, as they last went.
    pub health: Vec<HealthStatus>,
    /// When every file of the current generation was last hashed.
    pub verified: Option<Timestamp>,
    /// What was found out about the testing branch.
    pub weighed: Option<TestingAncestry>,
}

/// Whether a testing branch stands on the followed one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestingAncestry {
    /// The head of the testing branch.
    pub testing: Revision,
    /// The head of the followed one.
    pub head: Revision,
    /// True when it does.
    pub counts: bool,
}

impl AgentMemory {
    /// Reads it. Nothing there, and what cannot be understood, is an empty one.
    #[must_use]
    pub fn load(path: &Path) -> Self {
        json_file::read(path).ok().flatten().unwrap_or_default()
    }

    /// Writes it, unless what is there says the same.
    ///
    /// # Errors
    /// Fails when the system does not let it.
    pub fn save(&self, path: &Path) -> Result<(), JsonFileError> {
        match json_file::read::<Self>(path) {
            Ok(Some(same)) if same == *self => Ok(()),
            _ => json_file::write(path, self),
        }
    }

    /// Notes which remotes did not answer, and which one did.
    pub fn note_remotes(&mut self, failed: &[SourceError], found: Option<&RemoteHeads>, now: Timestamp) {
        for error in failed {
            let remote = self.remote_entry(&error.remote);
            remote.failing_since.get_or_insert(now);
            remote.message = Some(error_chain(error));
            *remote.failures.entry(error.kind.as_str().to_owned()).or_default() += 1;
        }
        // One that answers and does not have the branch is no help.
        if let Some(found) = found.filter(|found| found.head.is_some()) {
            let remote = self.remote_entry(&found.url);
            (remote.failing_since, remote.message) = (None, None);
        }
    }

    /// Forgets remotes that nobody follows any more.
    pub fn retain_remotes(&mut self, remotes: &Remotes) {
        self.remotes.retain(|seen| remotes.health().any(|health| health.url == seen.url));
    }

    fn remote_entry(&mut self, url: &str) -> &mut RemoteHealth {
        let at = self.remotes.iter().position(|remote| remote.url == url).unwrap_or_else(|| {
            self.remotes.push(RemoteHealth { url: url.to_owned(), ..RemoteHealth::default() });
            self.remotes.len() - 1
        });
        &mut self.remotes[at]
    }

    /// Notes the revision that the node should be on. Since when it is known stays as it is.
    pub fn set_newest(
        &mut self,
        revision: Revision,
        role: RevisionRole,
        found: &RemoteHeads,
        now: Timestamp,
    ) {
        let branch = match role {
            _ if found.directory => String::new(),
            RevisionRole::Testing => "testing".to_owned(),
            RevisionRole::Followed | RevisionRole::Pinned | RevisionRole::Rollout => found.branch.clone(),
        };
        let since =
            self.newest.as_ref().filter(|newest| newest.revision == revision).map_or(now, |n| n.since);
        self.newest = Some(NewestRevision { revision, branch, remote: found.url.clone(), since });
    }

    /// Notes why a revision is not taken. A reason that goes on counts from its start; one that was found again by
    /// looking counts from now, which is when it was looked at.
    pub fn hold_revision(
        &mut self,
        revision: Revision,
        why: HoldReason,
        message: String,
        now: Timestamp,
    ) -> HeldRevision {
        let same = self.held.as_ref().filter(|old| old.revision == revision && old.why == why);
        let goes_on = !matches!(why, HoldReason::Refused | HoldReason::Broken | HoldReason::Unfetched);
        let since = same.filter(|_| goes_on).map_or(now, |old| old.since);
        let tries = same.map_or(0, |old| old.tries.saturating_add(1));
        let held = HeldRevision { revision, why, message, since, tries: if goes_on { 0 } else { tries } };
        self.held = Some(held.clone());
        held
    }

    /// Notes what an offer means for this node, as far as nothing has to be done about it.
    pub fn note_offer(
        &mut self,
        wanted: &SyncDecision,
        offer: &RemoteOffer,
        found: &RemoteHeads,
        orders: &OperatorOrders,
        now: Timestamp,
    ) {
        match wanted {
            SyncDecision::Nothing | SyncDecision::CheckTesting(..) | SyncDecision::Held(_) => {}
            SyncDecision::Take(revision, role) => self.set_newest(revision.clone(), *role, found, now),
            SyncDecision::Quarantined(revision) => {
                self.set_newest(revision.clone(), RevisionRole::Followed, found, now);
                self.hold_revision(
                    revision.clone(),
                    HoldReason::Quarantined,
                    orders.quarantine_reason(revision),
                    now,
                );
            }
            SyncDecision::Stay(head, words) => {
                self.set_newest(head.clone(), RevisionRole::Followed, found, now);
                self.hold_revision(head.clone(), HoldReason::Rollout, words.clone(), now);
            }
            SyncDecision::Current(revision, RevisionRole::Pinned) => match offer.head.clone() {
                Some(head) if head != *revision => {
                    let pin = orders.pin.as_ref().map(|pin| pin.summary(now, &local_zone()));
                    let message = format!("{}; `zagent unpin` ends that", pin.unwrap_or_default());
                    self.set_newest(head.clone(), RevisionRole::Followed, found, now);
                    self.hold_revision(head, HoldReason::Pinned, message, now);
                }
                _ => self.set_current(revision.clone(), RevisionRole::Pinned, offer, found, now),
            },
            SyncDecision::Current(revision, role) => {
                self.set_current(revision.clone(), *role, offer, found, now)
            }
        }
    }

    /// The node is where it should be. What was refused of another branch that is still offered stays noted.
    fn set_current(
        &mut self,
        revision: Revision,
        role: RevisionRole,
        offer: &RemoteOffer,
        found: &RemoteHeads,
        now: Timestamp,
    ) {
        let offered =
            |held: &HeldRevision| Some(&held.revision) == offer.testing.as_ref() && held.revision != revision;
        self.held = self.held.take().filter(offered);
        self.set_newest(revision, role, found, now);
    }

    /// Notes how a run ended. One of a few SLS only says nothing about how the whole host is.
    pub fn note_run(&mut self, report: &RunReport, news: bool, partial: bool) {
        let counts = [
            ("changed", StateStatus::Changed),
            ("failed", StateStatus::Failed),
            ("skipped", StateStatus::Skipped),
            ("unchanged", StateStatus::Unchanged),
        ];
        let counts: BTreeMap<String, usize> =
            counts.into_iter().map(|(word, standing)| (word.to_owned(), report.count(standing))).collect();
        let failed = report.states.iter().filter(|state| state.status() == StateStatus::Failed);
        let words = |state: &StateOutcome| {
            format!("{}: {}{}", state.id, first_line(&state.comment), state.exit_code_suffix())
        };
        let errors = failed.take(MAX_ERRORS).map(words);
        let success = report.is_success();
        if !partial {
            self.last_success = if success { Some(report.start) } else { self.last_success };
            self.failures = if success { 0 } else { self.failures.saturating_add(1) };
            self.drift = if news { 0 } else { counts["changed"] };
        }
        self.last_run = Some(LastRun {
            run: report.run.clone(),
            revision: report.revision.clone(),
            trigger: report.trigger.as_str().to_owned(),
            at: report.start,
            duration_ms: u64::try_from(report.duration.as_millis()).unwrap_or(u64::MAX),
            success,
            canceled: report.canceled,
            errors: errors.collect(),
            counts,
        });
    }
}

fn first_line(text: &str) -> &str {
    text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default()
}

/// A revision and where it was seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewestRevision {
    /// The commit.
    pub revision: Revision,
    /// The branch that it was the head of.
    pub branch: String,
    /// The remote's address, without a password.
    pub remote: String,
    /// When it was first seen.
    pub since: Timestamp,
}

/// Why a revision is not the current one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldRevision {
    /// The revision.
    pub revision: Revision,
    /// The kind of reason.
    pub why: HoldReason,
    /// The reason, in words that name a way out.
    pub message: String,
    /// Since when.
    pub since: Timestamp,
    /// How often it was tried since.
    #[serde(default)]
    pub tries: u32,
}

/// Kinds of reasons not to take a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldReason {
    /// It was not what it claims to be.
    Refused,
    /// It failed its health checks.
    Quarantined,
    /// The agent is paused.
    Paused,
    /// The node is pinned to another.
    Pinned,
    /// A rollout keeps it on another.
    Rollout,
    /// No maintenance window is open.
    Window,
    /// It could not be fetched.
    Unfetched,
    /// It does not compile for this node.
    Broken,
}

impl HoldReason {
    /// The reason in a word, for labels.
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

/// A remote, as it was last seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RemoteHealth {
    /// Its address, without a password.
    pub url: String,
    /// When it last failed to answer after it had answered; `None` while it is fine.
    pub failing_since: Option<Timestamp>,
    /// What it last failed with.
    pub message: Option<String>,
    /// How often it failed, by kind.
    pub failures: BTreeMap<String, u64>,
}

/// A run, in short.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastRun {
    /// Its name in the history.
    pub run: String,
    /// The revision, or the directory that it read.
    pub revision: String,
    /// What started it.
    pub trigger: String,
    /// When it started.
    pub at: Timestamp,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// True when nothing failed.
    pub success: bool,
    /// True when somebody stopped it.
    #[serde(default)]
    pub canceled: bool,
    /// How many states ended how: the words of the report's summary.
    pub counts: BTreeMap<String, usize>,
    /// What failed, in short: at most a few states, or why there was no run.
    pub errors: Vec<String>,
}
