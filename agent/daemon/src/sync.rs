//! Remotes in, generation out: poll, decide, fetch and judge the commit, fetch its files, stage, verify, compile, publish.
//!
//! Law: a failure changes nothing; the last good generation stays, and the reason is saved (held by
//! `the_last_good_revision_stays_when_a_bad_one_is_pushed`, `offline_the_last_good_revision_converges`).

#![expect(clippy::disallowed_methods, reason = "remotes back off by the clock")]

mod ancestry;
mod offer;
pub mod ordered;

use std::path::{Path, PathBuf};
use std::time::Instant;

use jiff::Timestamp;
use zagent_cache::source::{
    Deadline, DirSource, FetchError, FetchTarget, RemoteHeads, RemotePoll, Remotes, SourceError,
    SourceErrorKind,
};
use zagent_cache::{
    Ancestry, Cache, CacheError, CommitTrust, DIR_PREFIX, Generation, GenerationRecord, ManifestAudience,
    ObjectStore, Refusal, RepositoryError, SignedCommit, StagedRevision, VerifiedTree, VerifyContext,
};
use zagent_config::ids::Revision;
use zagent_config::settings::{RemoteSettings, Settings, UnsignedRef};

use super::decide::{NodeView, RemoteOffer, RevisionRole, SyncDecision, decide_revision};
use super::handover::Handover;
use super::held_revision::{HeldRevision, HoldReason};
use super::memory::AgentMemory;
use super::operator_orders::OperatorOrders;
use super::trial::GenerationTrial;
use crate::error::AgentError;
use crate::operator::pin::{NodePin, PinTarget};
use zagent_config::error_chain;

/// Options of a sync.
#[derive(Clone, Copy, Debug, Default)]
pub struct SyncOptions {
    /// Accept a rewritten history or an older revision, this time.
    pub allow_rewind: bool,
    /// Check a recently refused revision again.
    pub retry_refused: bool,
    /// Hold back a new revision for this reason, even when it is valid.
    pub hold: Option<HoldReason>,
    /// Verify and compile, but do not publish.
    pub preview: bool,
    /// Verify the current generation again: keys may have been revoked.
    pub reverify: bool,
}

/// Result of a sync.
#[derive(Debug)]
pub enum SyncOutcome {
    /// There is no remote.
    NoRemote,
    /// The node has the right revision.
    Current,
    /// A new generation was published.
    Published(Box<Generation>),
    /// A new generation would be published.
    Preview(Box<VerifiedTree>),
    /// A revision is held back.
    Held(HeldRevision),
    /// No remote answered with a revision.
    Offline(Vec<SourceError>),
}

/// Inputs of a sync.
pub struct StatesSync<'a> {
    /// The settings.
    pub settings: &'a Settings,
    /// The generations.
    pub cache: &'a Cache,
    /// Saved state.
    pub memory: &'a mut AgentMemory,
    /// Orders of operators.
    pub orders: &'a OperatorOrders,
    /// Seed of this node.
    pub seed: u64,
    /// Additional messages.
    pub notes: Vec<String>,
    /// What the daemon polled and decided.
    pub handover: Option<&'a Handover>,
    /// Checks whether the states of a directory, which belong to a revision, compile for this node.
    pub check_compiles: &'a mut dyn FnMut(&Path, &str) -> Result<(), AgentError>,
}

impl StatesSync<'_> {
    /// Polls the remotes, and takes what they offer.
    ///
    /// # Errors
    /// Fails when the cache cannot be used. Bad remotes and revisions are not errors here.
    pub fn sync_head(&mut self, options: SyncOptions, now: Timestamp) -> Result<SyncOutcome, CacheError> {
        let source = &self.settings.source;
        if source.remotes.is_empty() {
            return Ok(SyncOutcome::NoRemote);
        }
        let deadline = Deadline::after(source.timeout);
        let mut remotes = followed_remotes(self.settings, self.orders.pin.as_ref(), self.seed);
        self.memory.retain_remotes(&remotes);
        let given = self.accept_handover(&remotes, options, now)?;
        let (found, decided) = match given {
            Some((found, decided)) => {
                self.memory.note_remotes(&[], Some(&found), now);
                (found, Some(decided))
            }
            None => match self.poll_remotes(&mut remotes, deadline, now) {
                Ok(found) => (found, None),
                Err(failed) => return Ok(SyncOutcome::Offline(failed)),
            },
        };
        let offer = RemoteOffer { head: found.head.clone(), testing: found.testing.clone() };
        if !options.preview
            && let Err(error) =
                self.orders.rollout_state.note_head(&self.settings.paths(), offer.head.as_ref())
        {
            self.notes.push(error_chain(&error));
        }
        let mut wanted = decided.map_or_else(|| self.decide(&offer, options, now), Ok)?;
        if let SyncDecision::CheckTesting(testing, head) = wanted {
            self.check_testing(&mut remotes, &found, (testing, head), deadline)?;
            wanted = self.decide(&offer, options, now)?;
        }
        self.note_testing(&offer, &found);
        self.memory.note_offer(&wanted, &offer, &found, self.orders, now);
        self.apply_decision(wanted, &mut remotes, &found, options, (deadline, now))
    }

    /// Does what was decided.
    fn apply_decision(
        &mut self,
        wanted: SyncDecision,
        remotes: &mut Remotes,
        found: &RemoteHeads,
        options: SyncOptions,
        (deadline, now): (Deadline, Timestamp),
    ) -> Result<SyncOutcome, CacheError> {
        match wanted {
            SyncDecision::Nothing => Ok(SyncOutcome::Offline(vec![no_branch_error(found)])),
            SyncDecision::Current(revision, role) if options.reverify => {
                let offered = OfferedRevision { found, revision: &revision, role };
                let taken = self.take_revision(remotes, &offered, options, (deadline, now));
                let held = |NotTaken(why, message)| HeldRevision {
                    revision: revision.clone(),
                    why,
                    message,
                    since: now,
                    tries: 0,
                };
                Ok(taken.unwrap_or_else(|untaken| SyncOutcome::Held(held(untaken))))
            }
            SyncDecision::Stay(revision, words) => {
                Ok(SyncOutcome::Held(self.memory.hold_revision(revision, HoldReason::Rollout, words, now)))
            }
            // When the answer is unknown, the node stays where it is.
            SyncDecision::CheckTesting(..) | SyncDecision::Current(..) => Ok(SyncOutcome::Current),
            SyncDecision::Held(held) => Ok(SyncOutcome::Held(held)),
            SyncDecision::Quarantined(revision) => {
                let message = self.orders.quarantine_reason(&revision);
                Ok(SyncOutcome::Held(self.memory.hold_revision(
                    revision,
                    HoldReason::Quarantined,
                    message,
                    now,
                )))
            }
            SyncDecision::Take(revision, role) => {
                if let Some(why) = options.hold {
                    return Ok(SyncOutcome::Held(self.memory.hold_revision(
                        revision,
                        why,
                        waiting_for(why).to_owned(),
                        now,
                    )));
                }
                let offered = OfferedRevision { found, revision: &revision, role };
                match self.take_revision(remotes, &offered, options, (deadline, now)) {
                    Ok(synced) => {
                        self.memory.held = None;
                        Ok(synced)
                    }
                    Err(NotTaken(why, message)) => {
                        Ok(SyncOutcome::Held(self.memory.hold_revision(revision, why, message, now)))
                    }
                }
            }
        }
    }
}

/// A revision that a remote offers.
struct OfferedRevision<'a> {
    found: &'a RemoteHeads,
    revision: &'a Revision,
    role: RevisionRole,
}

/// Why a revision was not accepted.
struct NotTaken(HoldReason, String);

impl From<CacheError> for NotTaken {
    fn from(error: CacheError) -> Self {
        match error {
            CacheError::Refused(refusal) => Self::from(*refusal),
            error if error.is_refusal() => Self(HoldReason::Refused, error_chain(&error)),
            // A local problem says nothing against the revision, nor against the current one.
            error => Self(HoldReason::Unfetched, error_chain(&error)),
        }
    }
}

impl From<Refusal> for NotTaken {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Local(error) => Self::from(*error),
            refusal => Self(HoldReason::Refused, refusal_text(&refusal)),
        }
    }
}

/// Why a revision is refused, with what to do, when known.
fn refusal_text(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Signature(error) => format!("{}; {}", error_chain(error), error.hint()),
        other => error_chain(other),
    }
}

impl From<FetchError> for NotTaken {
    fn from(error: FetchError) -> Self {
        match error {
            FetchError::Source(error) => Self::from(error),
            FetchError::Refused(refusal) => Self::from(refusal),
        }
    }
}

impl From<SourceError> for NotTaken {
    fn from(error: SourceError) -> Self {
        Self(HoldReason::Unfetched, error_chain(&error))
    }
}

impl StatesSync<'_> {
    /// Fetches, judges, stages, verifies, compiles and publishes one revision.
    fn take_revision(
        &mut self,
        remotes: &mut Remotes,
        offered: &OfferedRevision<'_>,
        options: SyncOptions,
        (deadline, now): (Deadline, Timestamp),
    ) -> Result<SyncOutcome, NotTaken> {
        let OfferedRevision { found, revision, role } = *offered;
        let branch = self.branch_name(found, role);
        // A pin to a commit is an explicit order: it is verified alone and does not change the replay
        // protection record.
        let line_name = match role {
            RevisionRole::Pinned if found.head.as_ref() != Some(revision) => {
                format!("pin:{}", revision.short())
            }
            _ => branch.clone(),
        };
        let repositories = self.settings.repository_names();
        // A directory has no branch, and an operator who pins a commit names it without one.
        let from_branch = line_name == branch && remotes.directory(found.remote).is_none();
        let mut proof = VerifyContext {
            trust: &self.settings.trust,
            now,
            branch: &line_name,
            source: &found.url,
            ancestry: Ancestry::Unknown,
            audience: ManifestAudience {
                repositories: &repositories,
                branch: from_branch.then_some(branch.as_str()),
            },
            base_branch: (role == RevisionRole::Testing).then_some(found.branch.as_str()),
            allow_rewind: options.allow_rewind,
        };
        let staged = match remotes.directory(found.remote) {
            Some(dir) => self.cache.stage_dir(dir)?.with_fingerprint(revision),
            None => {
                let want = FetchTarget { remote: found.remote, branch: &branch, revision };
                self.stage_from_remote(remotes, want, &mut proof, options, deadline)?
            }
        };
        let mut verified = staged.verify(&proof)?;
        if verified.is_first_use() {
            self.notes.push(first_use_text(verified.record()));
        }
        // A plan holds paths of its tree: it is compiled where the tree stays, and then run as it is.
        if !options.preview {
            verified.place()?;
        }
        let compiled = (self.check_compiles)(&verified.dir(), &verified.record().revision);
        if let Err(trouble) = compiled {
            // The directory means nothing to the author.
            let words = trouble.summary().replace(&format!("{}/", verified.dir().display()), "");
            return Err(NotTaken(HoldReason::Broken, format!("it does not compile: {words}")));
        }
        if options.preview {
            return Ok(SyncOutcome::Preview(Box::new(verified)));
        }
        let generation = verified.publish()?;
        GenerationTrial::begin(&self.settings.paths(), generation.name())
            .map_err(|error| NotTaken(HoldReason::Unfetched, error_chain(&error)))?;
        if let Err(error) = self.cache.gc() {
            tracing::warn!(error = error_chain(&error), "cannot remove old generations");
        }
        Ok(SyncOutcome::Published(Box::new(generation)))
    }

    /// Fetches the commit alone and judges it, then fetches its files and stages them.
    fn stage_from_remote(
        &self,
        remotes: &mut Remotes,
        want: FetchTarget<'_>,
        proof: &mut VerifyContext<'_>,
        options: SyncOptions,
        deadline: Deadline,
    ) -> Result<StagedRevision, NotTaken> {
        let store = ObjectStore::open(self.settings.paths().repository()).map_err(CacheError::from)?;
        let trust = CommitTrust { trust: &self.settings.trust, now: proof.now };
        let signed = remotes.fetch_commit(want, &store, &trust, Instant::now(), deadline)?;
        let mut line = ancestry::BranchHistory { remotes: &mut *remotes, store: &store, want, deadline };
        proof.ancestry = self.ancestry(&signed, proof.branch, options, &mut line)?;
        let mut judged = signed.judge(self.cache, proof)?;
        remotes.fetch(want, &mut judged, &store, Instant::now(), deadline)?;
        match self.cache.stage_commit(&store, &judged) {
            // A file that was fetched earlier. The next fetch finds it, and replaces the store.
            Err(CacheError::Repository(RepositoryError::Damaged { .. })) => {}
            staged => return Ok(staged?),
        }
        remotes.fetch(want, &mut judged, &store, Instant::now(), deadline)?;
        Ok(self.cache.stage_commit(&store, &judged)?)
    }

    /// Revision that the node should have.
    fn decide(
        &self,
        offer: &RemoteOffer,
        options: SyncOptions,
        now: Timestamp,
    ) -> Result<SyncDecision, CacheError> {
        self.with_view(options, now, |view| decide_revision(offer, view, now))
    }

    /// Calls `decide` with what the node knows about itself.
    fn with_view<T>(
        &self,
        options: SyncOptions,
        now: Timestamp,
        decide: impl FnOnce(&NodeView<'_>) -> T,
    ) -> Result<T, CacheError> {
        let current = self.cache.current()?;
        let quarantined = self.orders.quarantined_revisions();
        let constraint =
            self.orders.rollout_state.constraint(&self.settings.id, self.settings.rollout.follow, now);
        let standing = NodeView {
            current: current.as_ref().map(|generation| plain_revision(&generation.record().revision)),
            pin: self.orders.pin.as_ref(),
            constraint: constraint.as_ref(),
            held: self.memory.held.as_ref(),
            quarantined: &quarantined,
            weighed: self.memory.weighed.as_ref(),
            retry_refused: options.retry_refused || options.allow_rewind,
        };
        Ok(decide(&standing))
    }

    fn branch_name(&self, found: &RemoteHeads, role: RevisionRole) -> String {
        match role {
            RevisionRole::Testing => testing_branch(self.settings).unwrap_or_else(|| found.branch.clone()),
            _ => found.branch.clone(),
        }
    }
}

/// Stages the current generation again: from objects fetched earlier, or from a remote.
///
/// # Errors
/// The reason why that is not possible.
pub(crate) fn restage_current(
    settings: &Settings,
    cache: &Cache,
    damaged: &Generation,
    (seed, now): (u64, Timestamp),
) -> Result<Generation, String> {
    let record = damaged.record();
    let repositories = settings.repository_names();
    let proof = VerifyContext {
        trust: &settings.trust,
        now,
        branch: &record.line,
        source: &record.source,
        ancestry: Ancestry::Unknown,
        // The branch was checked when the generation was accepted.
        audience: ManifestAudience { repositories: &repositories, branch: None },
        base_branch: None,
        allow_rewind: false,
    };
    let staged = match record.revision.parse::<Revision>() {
        Ok(revision) => stage_known(settings, cache, (&revision, seed), &proof)?,
        Err(_) => {
            let dir = directory_remote(&record.source)
                .ok_or_else(|| format!("`{}` does not exist any more", record.source))?;
            cache.stage_dir(&dir).map_err(|error| error_chain(&error))?
        }
    };
    let verified = staged.verify(&proof).map_err(|error| error_chain(&error))?;
    verified.publish().map_err(|error| error_chain(&error))
}

/// Stages a commit that was accepted before: from the store, or else from a remote.
fn stage_known(
    settings: &Settings,
    cache: &Cache,
    (revision, seed): (&Revision, u64),
    proof: &VerifyContext<'_>,
) -> Result<StagedRevision, String> {
    let store = ObjectStore::open(settings.paths().repository()).map_err(|error| error_chain(&error))?;
    let trust = CommitTrust { trust: &settings.trust, now: proof.now };
    let judge = |signed: SignedCommit| signed.judge(cache, proof).map_err(|error| error_chain(&error));
    let judged = if store.has_commit(revision) {
        judge(SignedCommit::from_store(&store, revision, &trust).map_err(|error| error_chain(&error))?)?
    } else {
        let deadline = Deadline::after(settings.source.timeout);
        let mut remotes = followed_remotes(settings, None, seed);
        let RemotePoll { heads: found, failed } = remotes.poll(None, Instant::now(), deadline);
        let words = || failed.iter().map(|error| error_chain(error)).collect::<Vec<_>>().join("; ");
        let found = found.ok_or_else(|| format!("no remote answers: {}", words()))?;
        let want = FetchTarget { remote: found.remote, branch: proof.branch, revision };
        let signed = remotes.fetch_commit(want, &store, &trust, Instant::now(), deadline);
        let mut judged = judge(signed.map_err(|error| error_chain(&error))?)?;
        let fetched = remotes.fetch(want, &mut judged, &store, Instant::now(), deadline);
        fetched.map_err(|error| error_chain(&error))?;
        judged
    };
    cache.stage_commit(&store, &judged).map_err(|error| error_chain(&error))
}

/// What the first revision of a node means when nothing told the node what to expect.
fn first_use_text(record: &GenerationRecord) -> String {
    let serial =
        record.serial.map_or_else(String::new, |serial| format!(" or `trust.first: {{serial: {serial}}}`"));
    format!(
        "first contact: {} from {} is trusted on first use, because this node has accepted nothing before and \
         `trust.first` is not set; compare it with your repository, and pin it on new nodes with `trust.first: \
         {{commit: {}}}`{serial}",
        record.short_revision(),
        record.source,
        record.revision,
    )
}

/// The remotes as followed: on their branch, or on the branch that the node is pinned to.
#[must_use]
pub(crate) fn followed_remotes(settings: &Settings, pin: Option<&NodePin>, seed: u64) -> Remotes {
    let mut source = settings.source.clone();
    if let Some(PinTarget::Branch(branch)) = pin.map(|pin| &pin.to) {
        let pinned = |remote: &mut RemoteSettings| remote.branch.clone_from(branch);
        source.remotes.iter_mut().for_each(pinned);
    }
    Remotes::new(&source, seed)
}

/// Branch that a remote is followed on.
fn followed_branch<'a>(settings: &'a Settings, pin: Option<&'a NodePin>, remote: usize) -> Option<&'a str> {
    match pin.map(|pin| &pin.to) {
        Some(PinTarget::Branch(branch)) => Some(branch),
        _ => settings.source.remotes.get(remote).map(|remote| remote.branch.as_str()),
    }
}

/// Directory of a remote, when it is a plain directory.
#[must_use]
pub(crate) fn directory_remote(url: &str) -> Option<PathBuf> {
    let path = Path::new(url.strip_prefix("file://").unwrap_or(url));
    (path.is_absolute() && DirSource::is_plain_dir(path)).then(|| path.to_owned())
}

/// A revision as remotes name it: that of a directory has a prefix.
#[must_use]
pub fn plain_revision(revision: &str) -> &str {
    revision.strip_prefix(DIR_PREFIX).unwrap_or(revision)
}

/// The testing branch of this node; none when nothing signs it and the configuration does not name it.
#[must_use]
pub(crate) fn testing_branch(settings: &Settings) -> Option<String> {
    let used = settings.source.testing && settings.trust.uses(UnsignedRef::Testing);
    used.then(|| format!("testing/{}", settings.id))
}

fn no_branch_error(found: &RemoteHeads) -> SourceError {
    SourceError {
        remote: found.url.clone(),
        kind: SourceErrorKind::NoBranch,
        retry_after: None,
        message: format!(
            "the branch `{}` does not exist on {}: push it, or correct `branch` of the remote",
            found.branch, found.url
        ),
        source: None,
    }
}

/// What a revision waits for.
const fn waiting_for(why: HoldReason) -> &'static str {
    match why {
        HoldReason::Paused => "the agent is paused; resume with `zagent resume`",
        HoldReason::Window => "no maintenance window is open",
        _ => "it is held back",
    }
}
