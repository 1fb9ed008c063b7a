//! What remotes answer, and what others wrote into the node's files, in; what the daemon knows and queues out.

use jiff::Timestamp;
use zagent_cache::source::{Polled, Watch};

use super::errand::{Errand, What};
use super::marks::Marks;
use super::poller::{Asked, Poller};
use super::{Daemon, Event, Running};
use crate::cycle::course::Course;
use crate::cycle::memory::Memory;
use crate::cycle::orders::Orders;
use crate::cycle::want::{Offer, Standing, Wanted, want};
use crate::cycle::{clock, sync};
use crate::operate::reboot::Host;
use crate::output::local_zone;
use crate::report::chain;
use crate::run::Trigger;
use crate::status;

/// The branches that records of rollouts are on.
const BRANCHES: &str = "rollout/";

impl Daemon<'_> {
    /// The remotes have answered, or not.
    pub(super) fn polled(&mut self, polled: Polled, now: Timestamp) {
        if let Some(poller) = &mut self.poller {
            poller.answered();
        }
        let Polled { found, failed } = polled;
        tracing::debug!(answered = found.is_some(), failed = failed.len(), "the remotes were asked");
        for error in &failed {
            tracing::warn!(kind = error.kind.word(), "{}", chain(error));
        }
        let before = self.memory.clone();
        self.memory.note(&failed, found.as_ref(), now);
        let Some(found) = found else {
            let retry_after = failed.iter().filter_map(|error| error.retry_after).max();
            self.clock.polled(now, clock::Polled::Failed { retry_after });
            return self.keep_memory(&before);
        };
        self.told_of(&found, now);
        let offer = Offer { head: found.head.clone(), testing: found.testing.clone() };
        let quarantined = self.orders.quarantined();
        if let Err(error) = self.orders.course.see(&self.settings.paths(), offer.head.as_ref()) {
            tracing::warn!("{}", chain(&error));
        }
        let ruling = self.orders.course.ruling(&self.settings.id, self.settings.rollout.follow, now);
        let standing = Standing {
            ruling: ruling.as_ref(),
            current: self.seen.current.as_ref().map(|current| sync::plain(&current.revision)),
            pin: self.orders.pin.as_ref(),
            held: self.memory.held.as_ref(),
            quarantined: &quarantined,
            weighed: self.memory.weighed.as_ref(),
            insists: false,
        };
        let wanted = want(&offer, &standing, now);
        let news = matches!(wanted, Wanted::Take(..) | Wanted::Weigh(..));
        self.clock.polled(now, if news { clock::Polled::News } else { clock::Polled::Nothing });
        self.memory.heed(&wanted, &offer, &found, &self.orders, now);
        match (wanted, self.obstacle(now)) {
            (Wanted::Take(revision, _), Some((why, message))) => {
                self.memory.hold(revision, why, message, now);
            }
            // The turn under way asks the remotes itself; what it missed is there at the next poll. Whether a testing
            // branch counts is found out by a turn.
            (Wanted::Take(..) | Wanted::Weigh(..), None) if !self.is_fetching() => {
                self.push(Errand::new(What::Turn { trigger: Trigger::Git, fetch: true }), now);
            }
            _ => {}
        }
        self.keep_memory(&before);
    }

    pub(super) fn is_fetching(&self) -> bool {
        let fetches = |running: &Running| {
            matches!(running.errand.what, What::Turn { fetch: true, .. }) && !running.errand.test
        };
        self.running.as_ref().is_some_and(fetches)
    }

    /// Reads again what others may have changed.
    pub(super) fn look(&mut self) {
        let now = Timestamp::now();
        Course::mend(&self.settings.paths());
        self.marks = Marks::of(&self.settings.paths());
        let orders = Orders::read(&self.settings.paths(), now);
        let old = std::mem::replace(&mut self.orders, orders);
        self.seen = status::look(&self.settings, &Host::default(), now, &local_zone()).pieces;
        if self.poller.is_some()
            && old.pin.map(|pin| pin.to) != self.orders.pin.as_ref().map(|pin| pin.to.clone())
        {
            self.follow();
        }
    }

    /// Reads again what others have changed: a run by hand, a rollback, a pause that nobody told us of.
    pub(super) fn refresh(&mut self, now: Timestamp) {
        let paths = self.settings.paths();
        if self.running.is_none() && Marks::of(&paths) != self.marks {
            self.memory = Memory::load(&paths.memory());
            self.look();
        }
        let nothing = self.has_nothing();
        let had_nothing = std::mem::replace(&mut self.nothing, nothing);
        if had_nothing && !self.nothing && self.running.is_none() {
            self.queue.push(Errand::new(What::Probe));
            self.clock.triggered(now);
        }
    }

    /// Follows the remotes of the settings and the pin.
    pub(super) fn follow(&mut self) {
        let source = &self.settings.source;
        self.watches.clear();
        for dir in source.remotes.iter().filter_map(|remote| sync::directory(&remote.url)) {
            let events = self.events.clone();
            match Watch::new(&dir, move || drop(events.send(Event::Touched))) {
                Ok(watch) => self.watches.push(watch),
                Err(error) => tracing::warn!("{}", chain(&error)),
            }
        }
        if source.remotes.is_empty() {
            self.poller = None;
            return;
        }
        let asked = Asked {
            remotes: sync::remotes(&self.settings, self.orders.pin.as_ref(), self.setup.seed).below(BRANCHES),
            testing: sync::testing_branch(&self.settings),
            timeout: source.timeout,
        };
        self.memory.keep_remotes(&asked.remotes);
        match &self.poller {
            Some(poller) => poller.change(asked),
            None => {
                self.poller = Poller::start(asked, self.events.clone())
                    .inspect_err(|error| tracing::error!(%error, "cannot ask remotes"))
                    .ok();
            }
        }
    }
}
