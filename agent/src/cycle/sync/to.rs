//! One revision that a rollout orders in, a generation or a verified tree out.

use std::collections::BTreeMap;

use jiff::Timestamp;
use zagent_cache::CacheError;
use zagent_cache::source::{Deadline, Found};
use zagent_config::ids::Revision;

use super::{Offered, Sync, Synced, Untaken, Wish, directory, plain, remotes};
use crate::cycle::memory::Why;
use crate::cycle::want::{Offer, Role, Ruling, Standing, Wanted, want};

impl Sync<'_> {
    /// Takes one revision that a rollout orders. No remote is asked for anything that is here already: what was fetched
    /// and verified can be published while nobody answers.
    ///
    /// # Errors
    /// Fails when the cache cannot be used.
    pub fn go_to(&mut self, ruling: &Ruling, wish: Wish, now: Timestamp) -> Result<Synced, CacheError> {
        let current = self.cache.current()?;
        let quarantined = self.orders.quarantined();
        let standing = Standing {
            current: current.as_ref().map(|generation| plain(&generation.record().revision)),
            ruling: Some(ruling),
            held: self.memory.held.as_ref(),
            quarantined: &quarantined,
            // What was refused as the head of a branch is looked at again when somebody orders it: that is what a fleet
            // waits for, and it is tried once, not with every poll.
            insists: true,
            ..Standing::default()
        };
        match want(&Offer::default(), &standing, now) {
            Wanted::Take(revision, role) => Ok(self.ordered(&revision, role, wish, now)),
            Wanted::Held(held) => Ok(Synced::Held(held)),
            Wanted::Quarantined(revision) => {
                let message = self.orders.quarantine_words(&revision);
                Ok(Synced::Held(self.memory.hold(revision, Why::Quarantined, message, now)))
            }
            Wanted::Nothing | Wanted::Current(..) | Wanted::Weigh(..) | Wanted::Stay(..) => {
                Ok(Synced::Current)
            }
        }
    }

    /// The same from the first remote that has it.
    fn ordered(&mut self, revision: &Revision, role: Role, wish: Wish, now: Timestamp) -> Synced {
        let deadline = Deadline::after(self.settings.source.timeout);
        let mut remotes = remotes(self.settings, None, self.seed);
        let urls: Vec<String> = remotes.health().map(|health| health.url.clone()).collect();
        let mut untaken = Untaken(Why::Refused, "no Git remote of `source.remotes` could have it".into());
        for (remote, (one, url)) in self.settings.source.remotes.iter().zip(urls).enumerate() {
            if directory(&one.url).is_some() {
                continue;
            }
            let (branch, below) = (one.branch.clone(), BTreeMap::new());
            let found = Found { remote, url, branch, head: None, testing: None, below, directory: false };
            let offered = Offered { found: &found, revision, role };
            match self.take(&mut remotes, &offered, wish, (deadline, now)) {
                Ok(synced) => {
                    self.memory.held = self.memory.held.take().filter(|held| held.revision != *revision);
                    return synced;
                }
                Err(Untaken(Why::Unfetched, words)) => untaken = Untaken(Why::Unfetched, words),
                Err(other) => {
                    untaken = other;
                    break;
                }
            }
        }
        let Untaken(why, message) = untaken;
        Synced::Held(self.memory.hold(revision.clone(), why, message, now))
    }
}

#[cfg(test)]
mod tests {
    use zagent_cache::Cache;
    use zagent_config::settings::{Fragment, Merged};

    use super::*;
    use crate::cycle::memory::Memory;
    use crate::cycle::orders::Orders;

    #[test]
    fn what_was_refused_as_a_head_is_tried_when_it_is_ordered() {
        let dir = tempfile::tempdir().unwrap();
        let text = format!("root: {}\n", dir.path().display());
        let fragment = Fragment::read("zagent.yaml", &text).unwrap();
        let settings = Merged::new(vec![fragment], [], &[]).settings(Some("web-01")).unwrap();
        let cache = Cache::open(&settings.paths(), &settings.source).unwrap();
        let (now, orders) = (Timestamp::now(), Orders::default());
        let revision: Revision = "a".repeat(40).parse().unwrap();
        let mut memory = Memory::default();
        memory.hold(revision.clone(), Why::Refused, "its key was not known then".into(), now);
        let mut sync = Sync {
            settings: &settings,
            cache: &cache,
            memory: &mut memory,
            orders: &orders,
            seed: 7,
            notes: Vec::new(),
            compiles: &mut |_| Ok(()),
        };
        let ruling = Ruling::Take { revision, anyway: false };
        let Synced::Held(held) = sync.go_to(&ruling, Wish::default(), now).unwrap() else {
            panic!("there is no remote that has it")
        };
        assert!(held.message.contains("no Git remote"), "{}", held.message);
    }
}
