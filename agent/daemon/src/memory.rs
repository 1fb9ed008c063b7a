//! Saved state of remotes and runs: the part of the status that must survive the process.
//!
//! Law: written only when it changed; a poll without a new revision writes nothing. It can be lost: the next turn
//! fills it again (held by `an_idle_poll_writes_nothing`).

use std::collections::BTreeMap;
use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use zagent_cache::source::{RemoteHeads, Remotes, SourceError};
use zagent_config::ids::Revision;
use zagent_config::settings::RemoteSettings;

use crate::decide::{RemoteOffer, RevisionRole, SyncDecision, TestingAncestry};
use crate::health::HealthStatus;
use crate::held_revision::{HeldRevision, HoldReason};
use crate::operator_orders::OperatorOrders;
use zagent_config::error_chain;
use zagent_config::json_file;
use zagent_config::json_file::JsonFileError;
use zagent_config::sorted::CollectSorted;
use zagent_host::timezone::local_zone;
use zagent_run::{ChangeCause, RunMode, RunReport, StateOutcome, StateStatus};

/// Maximum number of failed states to name.
const MAX_ERRORS: usize = 5;
/// How often webhooks are told that a manifest expires.
const EXPIRY_REPEAT: SignedDuration = SignedDuration::from_hours(24);

/// Saved state of the agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AgentMemory {
    /// Newest revision offered by a remote.
    pub newest: Option<NewestRevision>,
    /// Why the node does not have it.
    pub held: Option<HeldRevision>,
    /// Remotes, in their order.
    pub remotes: Vec<RemoteHealth>,
    /// Last run that changed the host or could have.
    pub last_run: Option<LastRun>,
    /// Time of the last successful run.
    pub last_success: Option<Timestamp>,
    /// States that the last run found changed on the host although they still ask for the same: the host was modified
    /// outside zagent.
    pub drift: usize,
    /// States that ask for something that is not applied, on a node in audit mode.
    #[serde(skip_serializing_if = "is_zero")]
    pub pending: usize,
    /// Number of consecutive failed runs.
    pub failures: u32,
    /// Total number of rolled-back revisions.
    pub rollbacks: u64,
    /// Last results of the health checks.
    pub health: Vec<HealthStatus>,
    /// What is wrong with the states in the cache, while they cannot be fetched again.
    pub tampered: Option<String>,
    /// When every file of the current generation was last hashed.
    pub verified: Option<Timestamp>,
    /// What is known about the testing branch.
    pub weighed: Option<TestingAncestry>,
    /// When webhooks were last told that the manifest expires.
    pub expiry_told: Option<Timestamp>,
    /// Why the last turn ended without a run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_run: Option<TurnError>,
}

/// Why a turn ended without a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnError {
    /// When it ended.
    pub at: Timestamp,
    /// The reason, and what to do.
    pub message: String,
}

impl AgentMemory {
    /// Reads it. A missing or invalid file counts as empty.
    #[must_use]
    pub fn load(path: &Path) -> Self {
        json_file::read(path).ok().flatten().unwrap_or_default()
    }

    /// Writes it, unless it is unchanged.
    ///
    /// # Errors
    /// Fails when the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), JsonFileError> {
        match json_file::read::<Self>(path) {
            Ok(Some(same)) if same == *self => Ok(()),
            _ => json_file::write(path, self),
        }
    }

    /// Records which remotes failed, and which one answered.
    pub(crate) fn note_remotes(
        &mut self,
        failed: &[SourceError],
        found: Option<&RemoteHeads>,
        now: Timestamp,
    ) {
        for error in failed {
            let remote = self.remote_entry(&error.remote);
            remote.failing_since.get_or_insert(now);
            remote.message = Some(error_chain(error));
            *remote.failures.entry(error.kind.as_str().to_owned()).or_default() += 1;
        }
        // A remote that answers without the branch does not help.
        if let Some(found) = found.filter(|found| found.head.is_some()) {
            let remote = self.remote_entry(&found.url);
            (remote.failing_since, remote.message) = (None, None);
        }
    }

    /// Removes remotes that are no longer followed.
    pub(crate) fn retain_remotes(&mut self, remotes: &Remotes) {
        self.remotes.retain(|seen| remotes.health().any(|health| health.url == seen.url));
    }

    fn remote_entry(&mut self, url: &str) -> &mut RemoteHealth {
        let at = self.remotes.iter().position(|remote| remote.url == url).unwrap_or_else(|| {
            self.remotes.push(RemoteHealth { url: url.to_owned(), ..RemoteHealth::default() });
            self.remotes.len() - 1
        });
        &mut self.remotes[at]
    }

    /// Records the revision that the node should have. The time it was first seen is kept.
    pub(crate) fn set_newest(
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

    /// The head of the followed branch, as it was last seen: not one of a testing branch.
    pub(crate) fn followed_head(&self, remotes: &[RemoteSettings]) -> Option<&Revision> {
        let is_followed = |branch: &str| remotes.iter().any(|remote| remote.branch == branch);
        self.newest.as_ref().filter(|newest| is_followed(&newest.branch)).map(|newest| &newest.revision)
    }

    /// Records why a revision is held back. A continuing reason keeps its start time; a reason found again by
    /// a check starts now.
    pub(crate) fn hold_revision(
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

    /// Records what an offer means for this node, when nothing has to be done about it.
    pub(crate) fn note_offer(
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
                    let message = format!("{}; unpin with `zagent unpin`", pin.unwrap_or_default());
                    self.set_newest(head.clone(), RevisionRole::Followed, found, now);
                    self.hold_revision(head, HoldReason::Pinned, message, now);
                }
                _ => self.set_current(revision.clone(), RevisionRole::Pinned, offer, found, now),
            },
            SyncDecision::Current(revision, role) => {
                self.set_current(revision.clone(), *role, offer, found, now);
            }
        }
    }

    /// The node has the right revision. A refused revision of another branch that is still offered stays
    /// recorded.
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

    /// True when webhooks should hear about the end of the manifest now; they then count as told.
    pub(crate) fn is_expiry_due(&mut self, now: Timestamp) -> bool {
        let due = self.expiry_told.is_none_or(|told| told > now || now.duration_since(told) >= EXPIRY_REPEAT);
        if due {
            self.expiry_told = Some(now);
        }
        due
    }

    /// Records the result of a run. A run of selected SLS files says nothing about the whole host.
    pub(crate) fn note_run(&mut self, report: &RunReport, partial: bool) {
        let counts = [
            (
                "changed",
                if report.mode.changes_nothing() { StateStatus::WouldChange } else { StateStatus::Changed },
            ),
            ("failed", StateStatus::Failed),
            ("skipped", StateStatus::Skipped),
            ("unchanged", StateStatus::Unchanged),
        ];
        let counts: BTreeMap<String, usize> =
            counts.into_iter().map(|(word, standing)| (word.to_owned(), report.count(standing))).into_map();
        let failed = report.states.iter().filter(|state| state.status() == StateStatus::Failed);
        let words = |state: &StateOutcome| {
            let place = state.declared_at().map(|place| format!(" ({place})")).unwrap_or_default();
            format!("{}{place}: {}{}", state.id, first_line(&state.comment), state.exit_code_suffix())
        };
        let errors = failed.take(MAX_ERRORS).map(words);
        let success = report.is_success();
        if !partial {
            self.last_success = if success { Some(report.start) } else { self.last_success };
            self.failures = if success { 0 } else { self.failures.saturating_add(1) };
            let is_audit = report.mode == RunMode::Audit;
            self.drift = report.count_cause(ChangeCause::Drift);
            self.pending = if is_audit { report.count_cause(ChangeCause::Change) } else { 0 };
        }
        // An audit applies nothing: what was applied before is still what is applied.
        let applied = Some(self.last_run.as_ref().map_or("", LastRun::applied_revision).to_owned());
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
            applied: applied.filter(|_| report.mode == RunMode::Audit),
        });
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde calls")]
const fn is_zero(number: &usize) -> bool {
    *number == 0
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
    /// Address of the remote, without a password.
    pub remote: String,
    /// When it was first seen.
    pub since: Timestamp,
}

/// Last known state of a remote.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RemoteHealth {
    /// Its address, without a password.
    pub url: String,
    /// Since when it fails; `None` while it works.
    pub failing_since: Option<Timestamp>,
    /// Its last error.
    pub message: Option<String>,
    /// Number of failures, by kind.
    pub failures: BTreeMap<String, u64>,
}

/// Summary of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastRun {
    /// Run ID in the history.
    pub run: String,
    /// Revision, or directory that it read.
    pub revision: String,
    /// What triggered it.
    pub trigger: String,
    /// When it started.
    pub at: Timestamp,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// True when nothing failed.
    pub success: bool,
    /// True when it was stopped.
    #[serde(default)]
    pub canceled: bool,
    /// Number of states per result, with the words of the report summary.
    pub counts: BTreeMap<String, usize>,
    /// What failed: a few states, or why there was no run.
    pub errors: Vec<String>,
    /// The followed revision that was applied last, when this run read another tree or did not end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<String>,
}

impl LastRun {
    /// The followed revision that was applied last.
    #[must_use]
    pub fn applied_revision(&self) -> &str {
        self.applied.as_deref().unwrap_or(&self.revision)
    }
}
