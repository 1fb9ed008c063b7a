//! Several remotes in, the first one that answers out.
//!
//! Law: the order is that of the settings; a failed remote is skipped for a while, longer each time; the current
//! time and the random seed are arguments (held by `remotes_are_polled_in_order_and_failed_ones_back_off`,
//! `pauses_grow_with_a_limit_and_differ`).

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use zagent_config::backoff::Backoff;
use zagent_config::ids::Revision;
use zagent_config::settings::SourceSettings;

use super::error::SourceErrorKind;
use super::{Deadline, DirSource, FetchError, RemoteClient, SourceError};
use crate::{CommitTrust, JudgedCommit, ObjectStore, SignedCommit};

/// The longest pause between two requests to a failing remote.
const MAX_BACKOFF: Duration = Duration::from_secs(10 * 60);
/// One of several remotes gets at least this share of the remaining time.
const MIN_SHARE: Duration = Duration::from_secs(1);

/// The remotes of the settings.
pub struct Remotes {
    slots: Vec<RemoteSlot>,
    source: SourceSettings,
    seed: u64,
    prefix: Option<String>,
}

struct RemoteSlot {
    client: Option<RemoteClient>,
    dir: Option<DirSource>,
    health: SourceHealth,
}

/// The health of a remote.
#[derive(Clone, Debug, Default)]
pub struct SourceHealth {
    /// The address, without a password.
    pub url: String,
    /// How many times it failed in a row.
    pub failures: u32,
    /// Its last error since it last answered.
    pub error: Option<(SourceErrorKind, String)>,
    /// When it last answered.
    pub last_answer: Option<Instant>,
    /// The earliest time of the next request.
    pub not_before: Option<Instant>,
}

/// The result of a poll.
#[derive(Debug, Default)]
pub struct RemotePoll {
    /// The answer of the first remote that has the branch, or else of the first that answered.
    pub heads: Option<RemoteHeads>,
    /// The remotes that failed before it.
    pub failed: Vec<SourceError>,
}

/// The answer of a remote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteHeads {
    /// The position of the remote in the settings.
    pub remote: usize,
    /// Its address, without a password.
    pub url: String,
    /// The requested branch.
    pub branch: String,
    /// The commit of the branch; for a directory, the digest of its files. `None` when the branch does not exist.
    pub head: Option<Revision>,
    /// The commit of the testing branch, if it was requested and exists.
    pub testing: Option<Revision>,
    /// All branches with the prefix of [`Remotes::with_prefix`], and their commits.
    pub prefixed: BTreeMap<String, Revision>,
    /// True when the remote is a plain directory, which is staged as it is.
    pub directory: bool,
}

/// What to fetch.
#[derive(Clone, Copy, Debug)]
pub struct FetchTarget<'a> {
    /// The position of the remote in the settings.
    pub remote: usize,
    /// The branch.
    pub branch: &'a str,
    /// The commit.
    pub revision: &'a Revision,
}

impl Remotes {
    /// The remotes of the settings; `seed` differs between nodes.
    #[must_use]
    pub fn new(source: &SourceSettings, seed: u64) -> Self {
        let slot = |remote: &zagent_config::settings::RemoteSettings| RemoteSlot {
            client: None,
            dir: None,
            health: SourceHealth {
                url: zagent_config::mask::bare_url(&remote.url),
                ..SourceHealth::default()
            },
        };
        Self { slots: source.remotes.iter().map(slot).collect(), source: source.clone(), seed, prefix: None }
    }

    /// From now on every poll also returns, in the same request, all branches with this prefix.
    #[must_use]
    pub fn with_prefix(self, prefix: &str) -> Self {
        Self { prefix: Some(prefix.to_owned()), ..self }
    }

    /// The health of each remote, in order.
    pub fn health(&self) -> impl Iterator<Item = &SourceHealth> {
        self.slots.iter().map(|slot| &slot.health)
    }

    /// When a remote may be polled again, if none may be polled now.
    #[must_use]
    pub fn next_attempt(&self, now: Instant) -> Option<Instant> {
        let times = self.slots.iter().map(|slot| slot.health.not_before.filter(|at| *at > now));
        times.min().flatten()
    }

    /// The directory of a remote that is one.
    #[must_use]
    pub fn directory(&self, remote: usize) -> Option<&Path> {
        self.slots.get(remote)?.dir.as_ref().map(DirSource::path)
    }

    /// Polls the remotes in order until one has its branch.
    pub fn poll(&mut self, testing: Option<&str>, now: Instant, deadline: Deadline) -> RemotePoll {
        let mut polled = RemotePoll::default();
        for remote in 0..self.slots.len() {
            if self.slots[remote].health.not_before.is_some_and(|at| at > now) {
                continue;
            }
            let share = self.deadline_share(remote, deadline);
            match self.poll_remote(remote, testing, share) {
                Ok(found) => {
                    let there = found.head.is_some();
                    if polled.heads.is_none() || there {
                        polled.heads = Some(found);
                    }
                    self.record_success(remote, now);
                    if there {
                        return polled;
                    }
                    let error = self.no_branch_error(remote, share);
                    self.slots[remote].health.error = Some((error.kind, error.message.clone()));
                    polled.failed.push(error);
                }
                Err(error) => {
                    self.record_failure(remote, &error, now);
                    polled.failed.push(error);
                }
            }
        }
        polled
    }

    /// Fetches a commit object from one remote, and checks its signature.
    ///
    /// # Errors
    /// As [`RemoteClient::fetch_commit`].
    pub fn fetch_commit(
        &mut self,
        want: FetchTarget<'_>,
        store: &ObjectStore,
        trust: &CommitTrust<'_>,
        now: Instant,
        deadline: Deadline,
    ) -> Result<SignedCommit, FetchError> {
        let fetched = match self.client(want.remote) {
            Ok(client) => client.fetch_commit(store, want.revision, trust, deadline),
            Err(error) => Err(error.into()),
        };
        match &fetched {
            Err(FetchError::Source(error)) => self.record_failure(want.remote, error, now),
            // A refused commit says nothing against the remote.
            Ok(_) | Err(FetchError::Refused(_)) => self.record_success(want.remote, now),
        }
        fetched
    }

    /// Fetches the files of a commit from one remote.
    ///
    /// # Errors
    /// As [`RemoteClient::fetch`].
    pub fn fetch(
        &mut self,
        want: FetchTarget<'_>,
        commit: &mut JudgedCommit,
        store: &ObjectStore,
        now: Instant,
        deadline: Deadline,
    ) -> Result<(), SourceError> {
        let fetched =
            self.client(want.remote).and_then(|client| client.fetch(store, want.branch, commit, deadline));
        match &fetched {
            Ok(()) => self.record_success(want.remote, now),
            Err(error) => self.record_failure(want.remote, error, now),
        }
        fetched
    }

    /// Fetches the history of the commit of `want`: so many commits.
    ///
    /// # Errors
    /// As [`RemoteClient::fetch_history`].
    pub fn fetch_history(
        &mut self,
        want: FetchTarget<'_>,
        store: &ObjectStore,
        depth: u32,
        deadline: Deadline,
    ) -> Result<(), SourceError> {
        self.client(want.remote)?.fetch_history(store, want.revision, depth, deadline)
    }

    fn poll_remote(
        &mut self,
        remote: usize,
        testing: Option<&str>,
        deadline: Deadline,
    ) -> Result<RemoteHeads, SourceError> {
        let branch = self.source.remotes[remote].branch.clone();
        let source = self.source.clone();
        self.client(remote)?;
        let slot = &mut self.slots[remote];
        let url = slot.health.url.clone();
        let path =
            slot.client.as_ref().and_then(RemoteClient::path).filter(|path| DirSource::is_plain_dir(path));
        if let Some(path) = path {
            let dir = slot.dir.get_or_insert_with(|| DirSource::new(path, &source));
            let head = Some(dir.fingerprint(deadline)?);
            let below = BTreeMap::new();
            return Ok(RemoteHeads {
                remote,
                url,
                branch,
                head,
                testing: None,
                prefixed: below,
                directory: true,
            });
        }
        slot.dir = None;
        let branches: Vec<&str> = [branch.as_str()].into_iter().chain(testing).collect();
        let asked = self.prefix.clone();
        let (ids, below) = self.client(remote)?.poll_with_prefix(&branches, asked.as_deref(), deadline)?;
        let mut ids = ids.into_iter();
        let (head, testing) = (ids.next().flatten(), ids.next().flatten());
        Ok(RemoteHeads { remote, url, branch, head, testing, prefixed: below, directory: false })
    }

    fn no_branch_error(&mut self, remote: usize, deadline: Deadline) -> SourceError {
        let branch = self.source.remotes[remote].branch.clone();
        match self.client(remote) {
            Ok(client) => client.no_branch_error(&branch, deadline),
            Err(error) => error,
        }
    }

    /// The client of a remote, created at first use: a file that it needs may appear later.
    fn client(&mut self, remote: usize) -> Result<&mut RemoteClient, SourceError> {
        let Some(slot) = self.slots.get_mut(remote) else {
            let message = format!("the settings have no remote {remote}");
            return Err(super::error::SourceFailure::new(SourceErrorKind::Local, message).with_remote(""));
        };
        if slot.client.is_none() {
            slot.client = Some(RemoteClient::new(&self.source.remotes[remote], &self.source)?);
        }
        slot.client.as_mut().ok_or_else(|| {
            super::error::SourceFailure::new(SourceErrorKind::Local, "no client")
                .with_remote(&slot.health.url)
        })
    }

    /// The share of the time for one remote, so that the remotes after it get their share.
    fn deadline_share(&self, remote: usize, deadline: Deadline) -> Deadline {
        let rest = u32::try_from(self.slots.len() - remote).unwrap_or(u32::MAX);
        let left = deadline.remaining().unwrap_or_default();
        Deadline::after((left / rest.max(1)).max(MIN_SHARE.min(left)))
    }

    fn record_success(&mut self, remote: usize, now: Instant) {
        if let Some(slot) = self.slots.get_mut(remote) {
            let url = std::mem::take(&mut slot.health.url);
            slot.health = SourceHealth { url, last_answer: Some(now), ..SourceHealth::default() };
        }
    }

    fn record_failure(&mut self, remote: usize, error: &SourceError, now: Instant) {
        let (seed, poll) = (self.seed, self.source.poll);
        let Some(slot) = self.slots.get_mut(remote) else {
            return;
        };
        let health = &mut slot.health;
        health.failures = health.failures.saturating_add(1);
        health.error = Some((error.kind, error.message.clone()));
        let backoff = backoff(poll, health.failures, seed.wrapping_add(remote as u64));
        health.not_before = now.checked_add(backoff.max(error.retry_after.unwrap_or_default()));
    }
}

/// The pause after this number of failures: random, up to twice the previous limit, at most ten minutes.
fn backoff(poll: Duration, failures: u32, seed: u64) -> Duration {
    let random = hash_seed(seed ^ u64::from(failures).rotate_left(32));
    Backoff::new(poll, MAX_BACKOFF).full_jitter(failures, random)
}

/// A pseudo-random number from the seed.
fn hash_seed(seed: u64) -> u64 {
    let digest = blake3::hash(&seed.to_le_bytes());
    let mut first = [0; 8];
    first.copy_from_slice(&digest.as_bytes()[..8]);
    u64::from_le_bytes(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_with_a_limit_and_differ() {
        let poll = Duration::from_secs(60);
        for failures in 1..40 {
            let all: Vec<Duration> = (0..200).map(|seed| backoff(poll, failures, seed)).collect();
            let bound = (poll * 2u32.pow(failures.min(10))).min(MAX_BACKOFF);
            assert!(all.iter().all(|slot| *slot < bound), "{failures}");
            assert!(all.iter().any(|slot| *slot > bound / 2) && all.iter().any(|slot| *slot < bound / 2));
            assert_eq!(backoff(poll, failures, 7), backoff(poll, failures, 7));
        }
    }
}
