//! Remotes in, a generation out: poll, decide, fetch, stage, verify, compile, publish.
//!
//! Law: what fails on the way changes nothing; the last good generation stays, and the reason is remembered.

mod to;

use std::path::{Path, PathBuf};
use std::time::Instant;

use jiff::Timestamp;
use zagent_cache::source::{Deadline, Dir, Found, Kind, Polled, Remotes, SourceError, Want};
use zagent_cache::{
    Ancestry, Cache, CacheError, DIRECTORY, Generation, Proof, Refusal, Staged, Store, Verified,
};
use zagent_config::ids::Revision;
use zagent_config::settings::{Remote, Settings};

use super::memory::{Held, Memory, Weighed, Why};
use super::orders::Orders;
use super::trial::Trial;
use super::want::{Offer, Role, Standing, Wanted, want};
use crate::operate::pin::{Pin, To};
use crate::report::{Trouble, chain};

/// How far a history is followed back, in steps, to see whether one commit stands on another.
const STEPS: [u32; 4] = [32, 512, 8192, WHOLE];
/// All of a history.
const WHOLE: u32 = i32::MAX.unsigned_abs();

/// How a sync is meant.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wish {
    /// History may be rewritten, and an older revision taken, this once.
    pub allow_rewind: bool,
    /// What was refused a moment ago is looked at again.
    pub insists: bool,
    /// A new revision is not taken for this reason, however good it is.
    pub hold: Option<Why>,
    /// Verified and compiled, but not published.
    pub preview: bool,
    /// What the node is on is verified once more: keys may have been revoked since.
    pub again: bool,
}

/// How a sync ended.
#[derive(Debug)]
pub enum Synced {
    /// There is no remote.
    NoRemote,
    /// The node is on what it should be on.
    Current,
    /// There is a new generation.
    Published(Box<Generation>),
    /// There would be a new generation.
    Ahead(Box<Verified>),
    /// Something is offered that is not taken.
    Held(Held),
    /// Nobody answered with a revision.
    Offline(Vec<SourceError>),
}

/// What a sync works on.
pub struct Sync<'a> {
    /// The settings.
    pub settings: &'a Settings,
    /// The generations.
    pub cache: &'a Cache,
    /// What is remembered.
    pub memory: &'a mut Memory,
    /// What operators ask of the node.
    pub orders: &'a Orders,
    /// What tells this node from others.
    pub seed: u64,
    /// What it has to say beside how it ended.
    pub notes: Vec<String>,
    /// Says whether the states of a directory compile for this node.
    pub compiles: &'a mut dyn FnMut(&Path) -> Result<(), Trouble>,
}

impl Sync<'_> {
    /// Asks the remotes, and takes what they offer.
    ///
    /// # Errors
    /// Fails when the cache cannot be used. Remotes and revisions that are no good are no error of this.
    pub fn go(&mut self, wish: Wish, now: Timestamp) -> Result<Synced, CacheError> {
        let source = &self.settings.source;
        if source.remotes.is_empty() {
            return Ok(Synced::NoRemote);
        }
        let deadline = Deadline::after(source.timeout);
        let mut remotes = remotes(self.settings, self.orders.pin.as_ref(), self.seed);
        self.memory.keep_remotes(&remotes);
        let testing = testing_branch(self.settings);
        let Polled { found, failed } = remotes.poll(testing.as_deref(), Instant::now(), deadline);
        self.memory.note(&failed, found.as_ref(), now);
        let Some(found) = found else { return Ok(Synced::Offline(failed)) };
        let offer = Offer { head: found.head.clone(), testing: found.testing.clone() };
        if !wish.preview
            && let Err(error) = self.orders.course.see(&self.settings.paths(), offer.head.as_ref())
        {
            self.notes.push(chain(&error));
        }
        let mut wanted = self.want(&offer, wish, now)?;
        if let Wanted::Weigh(testing, head) = wanted {
            self.weigh(&mut remotes, &found, (testing, head), deadline)?;
            wanted = self.want(&offer, wish, now)?;
        }
        self.tell_testing(&offer, &found);
        self.memory.heed(&wanted, &offer, &found, self.orders, now);
        match wanted {
            Wanted::Nothing => Ok(Synced::Offline(vec![no_branch(&found)])),
            Wanted::Current(revision, role) if wish.again => {
                let offered = Offered { found: &found, revision: &revision, role };
                let taken = self.take(&mut remotes, &offered, wish, (deadline, now));
                let held = |Untaken(why, message)| Held {
                    revision: revision.clone(),
                    why,
                    message,
                    since: now,
                    tries: 0,
                };
                Ok(taken.unwrap_or_else(|untaken| Synced::Held(held(untaken))))
            }
            Wanted::Stay(revision, words) => {
                Ok(Synced::Held(self.memory.hold(revision, Why::Rollout, words, now)))
            }
            // What cannot be told leaves the node where it is.
            Wanted::Weigh(..) | Wanted::Current(..) => Ok(Synced::Current),
            Wanted::Held(held) => Ok(Synced::Held(held)),
            Wanted::Quarantined(revision) => {
                let message = self.orders.quarantine_words(&revision);
                Ok(Synced::Held(self.memory.hold(revision, Why::Quarantined, message, now)))
            }
            Wanted::Take(revision, role) => {
                if let Some(why) = wish.hold {
                    return Ok(Synced::Held(self.memory.hold(revision, why, waits(why).to_owned(), now)));
                }
                let offered = Offered { found: &found, revision: &revision, role };
                match self.take(&mut remotes, &offered, wish, (deadline, now)) {
                    Ok(synced) => {
                        self.memory.held = None;
                        Ok(synced)
                    }
                    Err(Untaken(why, message)) => {
                        Ok(Synced::Held(self.memory.hold(revision, why, message, now)))
                    }
                }
            }
        }
    }
}

/// A revision that a remote offers.
struct Offered<'a> {
    found: &'a Found,
    revision: &'a Revision,
    role: Role,
}

/// Why a revision was not taken.
struct Untaken(Why, String);

impl From<CacheError> for Untaken {
    fn from(error: CacheError) -> Self {
        match error {
            CacheError::Refused(refusal) => Self::from(*refusal),
            error if error.is_refusal() => Self(Why::Refused, chain(&error)),
            // The node's own trouble says nothing against the revision, nor against the one that is there.
            error => Self(Why::Unfetched, chain(&error)),
        }
    }
}

impl From<Refusal> for Untaken {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Local(error) => Self::from(*error),
            refusal => Self(Why::Refused, words(&refusal)),
        }
    }
}

/// Why a revision is refused, and a way out where there is one.
fn words(refusal: &Refusal) -> String {
    match refusal {
        Refusal::Signature(error) => format!("{}; {}", chain(error), error.hint()),
        other => chain(other),
    }
}

impl From<SourceError> for Untaken {
    fn from(error: SourceError) -> Self {
        Self(Why::Unfetched, chain(&error))
    }
}

impl Sync<'_> {
    /// Fetches, stages, verifies, compiles and publishes one revision.
    fn take(
        &mut self,
        remotes: &mut Remotes,
        offered: &Offered<'_>,
        wish: Wish,
        (deadline, now): (Deadline, Timestamp),
    ) -> Result<Synced, Untaken> {
        let Offered { found, revision, role } = *offered;
        let branch = self.branch(found, role);
        // A pin to a commit is somebody's word: it is judged by itself and moves no floor.
        let line_name = match role {
            Role::Pinned if found.head.as_ref() != Some(revision) => format!("pin:{}", revision.short()),
            _ => branch.clone(),
        };
        let (staged, ancestry) = match remotes.directory(found.remote) {
            Some(dir) => (self.cache.stage_dir(dir)?.known_as(revision), Ancestry::Unknown),
            None => {
                let store = Store::open(self.settings.paths().repository()).map_err(CacheError::from)?;
                let want = Want { remote: found.remote, branch: &branch, revision };
                remotes.fetch(want, &store, Instant::now(), deadline)?;
                let mut line = Line { remotes, store: &store, want, deadline };
                let staged = self.cache.stage_commit(&store, revision)?;
                let ancestry = self.ancestry(&staged, &line_name, wish, &mut line)?;
                (staged, ancestry)
            }
        };
        let proof = Proof {
            trust: &self.settings.trust,
            now,
            line: &line_name,
            source: &found.url,
            ancestry,
            below: (role == Role::Testing).then_some(found.branch.as_str()),
            allow_rewind: wish.allow_rewind,
        };
        let verified = staged.verify(&proof)?;
        if let Err(trouble) = (self.compiles)(&verified.dir()) {
            // Where it lies for the moment says nothing to whoever wrote it.
            let words = trouble.words().replace(&format!("{}/", verified.dir().display()), "");
            return Err(Untaken(Why::Broken, format!("it does not compile: {words}")));
        }
        if wish.preview {
            return Ok(Synced::Ahead(Box::new(verified)));
        }
        let generation = verified.publish()?;
        Trial::begin(&self.settings.paths(), generation.name())
            .map_err(|error| Untaken(Why::Unfetched, chain(&error)))?;
        if let Err(error) = self.cache.gc() {
            tracing::warn!(error = chain(&error), "old generations stay");
        }
        Ok(Synced::Published(Box::new(generation)))
    }

    /// Whether a tree stands on what was accepted last; only asked for when that decides something.
    fn ancestry(
        &self,
        staged: &Staged,
        branch: &str,
        wish: Wish,
        line: &mut Line<'_>,
    ) -> Result<Ancestry, Untaken> {
        if !self.settings.trust.fast_forward || wish.allow_rewind {
            return Ok(Ancestry::Unknown);
        }
        let doubted = staged.doubt(branch)?.and_then(|revision| revision.parse::<Revision>().ok());
        let Some(old) = doubted else { return Ok(Ancestry::Unknown) };
        match line.ancestry(&old) {
            // In doubt it is not taken: whoever serves it could hide the history that speaks against it.
            Ancestry::Unknown => Err(Untaken(
                Why::Unfetched,
                format!(
                    "its history cannot be followed back to {}, which was accepted before; \
                     `zagent source sync --allow-rewind` takes it all the same",
                    old.short()
                ),
            )),
            known => Ok(known),
        }
    }

    /// What the node should be on.
    fn want(&self, offer: &Offer, wish: Wish, now: Timestamp) -> Result<Wanted, CacheError> {
        let current = self.cache.current()?;
        let quarantined = self.orders.quarantined();
        let ruling = self.orders.course.ruling(&self.settings.id, self.settings.rollout.follow, now);
        let standing = Standing {
            current: current.as_ref().map(|generation| plain(&generation.record().revision)),
            pin: self.orders.pin.as_ref(),
            ruling: ruling.as_ref(),
            held: self.memory.held.as_ref(),
            quarantined: &quarantined,
            weighed: self.memory.weighed.as_ref(),
            insists: wish.insists || wish.allow_rewind,
        };
        Ok(want(offer, &standing, now))
    }

    /// Names a testing branch that does not count.
    fn tell_testing(&mut self, offer: &Offer, found: &Found) {
        let standing = Standing { weighed: self.memory.weighed.as_ref(), ..Standing::default() };
        if self.orders.pin.is_none() && standing.counts(offer) == Some(false) {
            self.notes.push(format!(
                "the branch `{}` does not stand on top of `{}` and does not count: rebase it, or delete it",
                testing_branch(self.settings).unwrap_or_default(),
                found.branch
            ));
        }
    }

    /// Finds out whether a testing branch counts: it stands on the followed one, as that is offered and as it was
    /// accepted. What cannot be told does not count, and is looked at again with the next head.
    fn weigh(
        &mut self,
        remotes: &mut Remotes,
        found: &Found,
        (testing, head): (Revision, Revision),
        deadline: Deadline,
    ) -> Result<(), CacheError> {
        let branch = testing_branch(self.settings).unwrap_or_default();
        let store = Store::open(self.settings.paths().repository())?;
        let want = Want { remote: found.remote, branch: &branch, revision: &testing };
        let fetched =
            if store.has(&testing) { Ok(()) } else { remotes.fetch(want, &store, Instant::now(), deadline) };
        let counts = match fetched {
            Err(error) => {
                self.notes.push(format!("the branch `{branch}` cannot be fetched: {}", chain(&error)));
                false
            }
            Ok(()) => {
                let accepted =
                    self.cache.newest(&found.branch)?.and_then(|newest| newest.revision.parse().ok());
                let mut line = Line { remotes, store: &store, want, deadline };
                let mut below = [Some(head.clone()), accepted].into_iter().flatten();
                below.all(|old| line.ancestry(&old) == Ancestry::Descendant)
            }
        };
        self.memory.weighed = Some(Weighed { testing, head, counts });
        Ok(())
    }

    fn branch(&self, found: &Found, role: Role) -> String {
        match role {
            Role::Testing => testing_branch(self.settings).unwrap_or_else(|| found.branch.clone()),
            _ => found.branch.clone(),
        }
    }
}

/// A branch whose history can be followed back.
struct Line<'a> {
    remotes: &'a mut Remotes,
    store: &'a Store,
    want: Want<'a>,
    deadline: Deadline,
}

impl Line<'_> {
    /// Whether the wanted commit stands on another. What cannot be told within the deadline is unknown.
    fn ancestry(&mut self, old: &Revision) -> Ancestry {
        let mut steps = STEPS.into_iter();
        loop {
            match self.store.is_ancestor(old, self.want.revision) {
                Ok(Some(true)) => return Ancestry::Descendant,
                Ok(Some(false)) => return Ancestry::NotDescendant,
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(error = chain(&error), "the history cannot be read");
                    return Ancestry::Unknown;
                }
            }
            let Some(by) = steps.next() else { return Ancestry::Unknown };
            if let Err(error) = self.remotes.deepen(self.want, self.store, by, self.deadline) {
                tracing::warn!(error = chain(&error), "the history cannot be followed back");
                return Ancestry::Unknown;
            }
        }
    }
}

/// Stages the current generation anew: from what was fetched before, or from a remote.
///
/// # Errors
/// Says in words why that is not possible.
pub(super) fn restage(
    settings: &Settings,
    cache: &Cache,
    damaged: &Generation,
    (seed, now): (u64, Timestamp),
) -> Result<Generation, String> {
    let record = damaged.record();
    let staged = match record.revision.parse::<Revision>() {
        Ok(revision) => {
            let store = Store::open(settings.paths().repository()).map_err(|error| chain(&error))?;
            if !store.has(&revision) {
                let deadline = Deadline::after(settings.source.timeout);
                let mut remotes = remotes(settings, None, seed);
                let Polled { found, failed } = remotes.poll(None, Instant::now(), deadline);
                let words = || failed.iter().map(|error| chain(error)).collect::<Vec<_>>().join("; ");
                let found = found.ok_or_else(|| format!("no remote answers: {}", words()))?;
                let want = Want { remote: found.remote, branch: &record.line, revision: &revision };
                remotes.fetch(want, &store, Instant::now(), deadline).map_err(|error| chain(&error))?;
            }
            cache.stage_commit(&store, &revision)
        }
        Err(_) => {
            let dir = directory(&record.source).ok_or_else(|| format!("`{}` is gone", record.source))?;
            cache.stage_dir(&dir)
        }
    };
    let proof = Proof {
        trust: &settings.trust,
        now,
        line: &record.line,
        source: &record.source,
        ancestry: Ancestry::Unknown,
        below: None,
        allow_rewind: false,
    };
    let verified = staged.map_err(|error| chain(&error))?.verify(&proof).map_err(|error| chain(&error))?;
    verified.publish().map_err(|error| chain(&error))
}

/// The remotes as they are followed: on their branch, or on the one that the node is pinned to.
#[must_use]
pub fn remotes(settings: &Settings, pin: Option<&Pin>, seed: u64) -> Remotes {
    let mut source = settings.source.clone();
    if let Some(To::Branch(branch)) = pin.map(|pin| &pin.to) {
        let pinned = |remote: &mut Remote| remote.branch.clone_from(branch);
        source.remotes.iter_mut().for_each(pinned);
    }
    Remotes::new(&source, seed)
}

/// The directory that a remote is, when it is a plain one.
#[must_use]
pub fn directory(url: &str) -> Option<PathBuf> {
    let path = Path::new(url.strip_prefix("file://").unwrap_or(url));
    (path.is_absolute() && Dir::is_plain(path)).then(|| path.to_owned())
}

/// A revision as remotes name it: that of a directory has a word before it.
#[must_use]
pub fn plain(revision: &str) -> &str {
    revision.strip_prefix(DIRECTORY).unwrap_or(revision)
}

/// The branch that only this node follows.
#[must_use]
pub fn testing_branch(settings: &Settings) -> Option<String> {
    settings.source.testing.then(|| format!("testing/{}", settings.id))
}

fn no_branch(found: &Found) -> SourceError {
    SourceError {
        remote: found.url.clone(),
        kind: Kind::NoBranch,
        retry_after: None,
        message: format!(
            "the branch `{}` does not exist on {}: push it, or set `branch` of the remote",
            found.branch, found.url
        ),
        source: None,
    }
}

/// What a revision waits for.
const fn waits(why: Why) -> &'static str {
    match why {
        Why::Paused => "the agent is paused; `zagent resume` ends that",
        Why::Window => "no maintenance window is open",
        _ => "it is held back",
    }
}
