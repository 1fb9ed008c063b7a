//! Several remotes in, the first that answers out.
//!
//! Law: the order is that of the settings; a remote that failed is left alone for a while, longer each time, and the
//! time and the seed of that are arguments.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use zagent_config::ids::Revision;
use zagent_config::settings::Source;

use super::error::Kind;
use super::{Client, Deadline, Dir, SourceError};
use crate::Store;

/// The longest pause between two questions to a remote that fails.
const MAX_PAUSE: Duration = Duration::from_secs(10 * 60);
/// The share of the time that is left for one of several remotes is at least this.
const MIN_SHARE: Duration = Duration::from_secs(1);

/// The remotes of the settings.
pub struct Remotes {
    all: Vec<One>,
    source: Source,
    seed: u64,
    below: Option<String>,
}

struct One {
    client: Option<Client>,
    dir: Option<Dir>,
    health: Health,
}

/// How a remote does.
#[derive(Clone, Debug, Default)]
pub struct Health {
    /// The address, without a password.
    pub url: String,
    /// How many times it failed in a row.
    pub failures: u32,
    /// What it failed with last, since it last answered.
    pub error: Option<(Kind, String)>,
    /// When it last answered.
    pub answered: Option<Instant>,
    /// When it is asked again at the earliest.
    pub not_before: Option<Instant>,
}

/// What came of a poll.
#[derive(Debug, Default)]
pub struct Polled {
    /// The answer of the first remote that has the branch, or else of the first that answered.
    pub found: Option<Found>,
    /// The remotes that failed on the way.
    pub failed: Vec<SourceError>,
}

/// The answer of a remote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The place of the remote in the settings.
    pub remote: usize,
    /// Its address, without a password.
    pub url: String,
    /// The branch that was asked for.
    pub branch: String,
    /// The commit of the branch; for a directory, the digest of its files. `None` when there is no such branch.
    pub head: Option<Revision>,
    /// The commit of the testing branch, when that was asked for and is there.
    pub testing: Option<Revision>,
    /// All branches whose names begin as [`Remotes::below`] says, with their commits.
    pub below: BTreeMap<String, Revision>,
    /// True when the remote is a plain directory, which is staged as it is.
    pub directory: bool,
}

/// What is to be fetched.
#[derive(Clone, Copy, Debug)]
pub struct Want<'a> {
    /// The place of the remote in the settings.
    pub remote: usize,
    /// The branch.
    pub branch: &'a str,
    /// The commit.
    pub revision: &'a Revision,
}

impl Remotes {
    /// The remotes of the settings; `seed` tells this node from others.
    #[must_use]
    pub fn new(source: &Source, seed: u64) -> Self {
        let one = |remote: &zagent_config::settings::Remote| One {
            client: None,
            dir: None,
            health: Health { url: super::address::redact(&remote.url), ..Health::default() },
        };
        Self { all: source.remotes.iter().map(one).collect(), source: source.clone(), seed, below: None }
    }

    /// From now on every poll also tells, by the same question, all branches whose names begin so.
    #[must_use]
    pub fn below(self, prefix: &str) -> Self {
        Self { below: Some(prefix.to_owned()), ..self }
    }

    /// How each remote does, in order.
    pub fn health(&self) -> impl Iterator<Item = &Health> {
        self.all.iter().map(|one| &one.health)
    }

    /// The moment at which some remote may be asked again, when none may now.
    #[must_use]
    pub fn next(&self, now: Instant) -> Option<Instant> {
        let times = self.all.iter().map(|one| one.health.not_before.filter(|at| *at > now));
        times.min().flatten()
    }

    /// The directory of a remote that is one.
    #[must_use]
    pub fn directory(&self, remote: usize) -> Option<&Path> {
        self.all.get(remote)?.dir.as_ref().map(Dir::path)
    }

    /// Asks the remotes in order until one has its branch.
    pub fn poll(&mut self, testing: Option<&str>, now: Instant, deadline: Deadline) -> Polled {
        let mut polled = Polled::default();
        for remote in 0..self.all.len() {
            if self.all[remote].health.not_before.is_some_and(|at| at > now) {
                continue;
            }
            let share = self.share(remote, deadline);
            match self.ask(remote, testing, share) {
                Ok(found) => {
                    let there = found.head.is_some();
                    if polled.found.is_none() || there {
                        polled.found = Some(found);
                    }
                    self.answered(remote, now);
                    if there {
                        return polled;
                    }
                    let error = self.no_branch(remote, share);
                    self.all[remote].health.error = Some((error.kind, error.message.clone()));
                    polled.failed.push(error);
                }
                Err(error) => {
                    self.failed(remote, &error, now);
                    polled.failed.push(error);
                }
            }
        }
        polled
    }

    /// Fetches a commit from one remote.
    ///
    /// # Errors
    /// As [`Client::fetch`].
    pub fn fetch(
        &mut self,
        want: Want<'_>,
        store: &Store,
        now: Instant,
        deadline: Deadline,
    ) -> Result<(), SourceError> {
        let fetched = self
            .client(want.remote)
            .and_then(|client| client.fetch(store, want.branch, want.revision, deadline));
        match &fetched {
            Ok(()) => self.answered(want.remote, now),
            Err(error) => self.failed(want.remote, error, now),
        }
        fetched
    }

    /// Fetches `by` more ancestors of the branch of `want`.
    ///
    /// # Errors
    /// As [`Client::deepen`].
    pub fn deepen(
        &mut self,
        want: Want<'_>,
        store: &Store,
        by: u32,
        deadline: Deadline,
    ) -> Result<(), SourceError> {
        self.client(want.remote)?.deepen(store, want.branch, by, deadline)
    }

    fn ask(
        &mut self,
        remote: usize,
        testing: Option<&str>,
        deadline: Deadline,
    ) -> Result<Found, SourceError> {
        let branch = self.source.remotes[remote].branch.clone();
        let source = self.source.clone();
        self.client(remote)?;
        let one = &mut self.all[remote];
        let url = one.health.url.clone();
        let path = one.client.as_ref().and_then(Client::path).filter(|path| Dir::is_plain(path));
        if let Some(path) = path {
            let dir = one.dir.get_or_insert_with(|| Dir::new(path, &source));
            let head = Some(dir.fingerprint(deadline)?);
            let below = BTreeMap::new();
            return Ok(Found { remote, url, branch, head, testing: None, below, directory: true });
        }
        one.dir = None;
        let branches: Vec<&str> = [branch.as_str()].into_iter().chain(testing).collect();
        let asked = self.below.clone();
        let (ids, below) = self.client(remote)?.poll_below(&branches, asked.as_deref(), deadline)?;
        let mut ids = ids.into_iter();
        let (head, testing) = (ids.next().flatten(), ids.next().flatten());
        Ok(Found { remote, url, branch, head, testing, below, directory: false })
    }

    fn no_branch(&mut self, remote: usize, deadline: Deadline) -> SourceError {
        let branch = self.source.remotes[remote].branch.clone();
        match self.client(remote) {
            Ok(client) => client.no_branch(&branch, deadline),
            Err(error) => error,
        }
    }

    /// The client of a remote, made when it is first needed: a file that it needs may come later.
    fn client(&mut self, remote: usize) -> Result<&mut Client, SourceError> {
        let Some(one) = self.all.get_mut(remote) else {
            let message = format!("there is no remote {remote} in the settings");
            return Err(super::error::Failure::new(Kind::Local, message).at(""));
        };
        if one.client.is_none() {
            one.client = Some(Client::new(&self.source.remotes[remote], &self.source)?);
        }
        one.client
            .as_mut()
            .ok_or_else(|| super::error::Failure::new(Kind::Local, "no client").at(&one.health.url))
    }

    /// The part of the time that one remote may take, so that those after it get theirs.
    fn share(&self, remote: usize, deadline: Deadline) -> Deadline {
        let rest = u32::try_from(self.all.len() - remote).unwrap_or(u32::MAX);
        let left = deadline.remaining().unwrap_or_default();
        Deadline::after((left / rest.max(1)).max(MIN_SHARE.min(left)))
    }

    fn answered(&mut self, remote: usize, now: Instant) {
        if let Some(one) = self.all.get_mut(remote) {
            let url = std::mem::take(&mut one.health.url);
            one.health = Health { url, answered: Some(now), ..Health::default() };
        }
    }

    fn failed(&mut self, remote: usize, error: &SourceError, now: Instant) {
        let (seed, poll) = (self.seed, self.source.poll);
        let Some(one) = self.all.get_mut(remote) else {
            return;
        };
        let health = &mut one.health;
        health.failures = health.failures.saturating_add(1);
        health.error = Some((error.kind, error.message.clone()));
        let pause = pause(poll, health.failures, seed.wrapping_add(remote as u64));
        health.not_before = now.checked_add(pause.max(error.retry_after.unwrap_or_default()));
    }
}

/// A pause after so many failures: anything up to twice the one before, at most ten minutes.
fn pause(poll: Duration, failures: u32, seed: u64) -> Duration {
    let most = poll.saturating_mul(1u32.checked_shl(failures.min(20)).unwrap_or(u32::MAX)).min(MAX_PAUSE);
    let nanos = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(mix(seed ^ u64::from(failures).rotate_left(32)) % nanos.max(1))
}

/// A number that looks like chance and is not.
fn mix(seed: u64) -> u64 {
    let digest = blake3::hash(&seed.to_le_bytes());
    let mut first = [0; 8];
    first.copy_from_slice(&digest.as_bytes()[..8]);
    u64::from_le_bytes(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_are_bounded_and_differ() {
        let poll = Duration::from_secs(60);
        for failures in 1..40 {
            let all: Vec<Duration> = (0..200).map(|seed| pause(poll, failures, seed)).collect();
            let bound = (poll * 2u32.pow(failures.min(10))).min(MAX_PAUSE);
            assert!(all.iter().all(|one| *one < bound), "{failures}");
            assert!(all.iter().any(|one| *one > bound / 2) && all.iter().any(|one| *one < bound / 2));
            assert_eq!(pause(poll, failures, 7), pause(poll, failures, 7));
        }
    }
}
