//! The loop: what is due and what was heard in, events for the phases and the supervision out.
//!
//! Law: what a record asks is judged anew at every turn, by level; so it does not matter which of its writes was seen.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use zagent_config::ids::RolloutId;

use super::net::Found;
use super::{Answer, Ask, Event, Signal, Watchdog, words};
use crate::node;
use crate::phase::{self, Phase};
use crate::record::{Component, Record};
use crate::supervise::{Happening, Life};

/// The longest the loop sleeps: a clock that was set is noticed by then.
const NAP: Duration = Duration::from_secs(10);
/// The longest while something counts by the clock.
const SHORT_NAP: Duration = Duration::from_secs(1);
/// So many polls in a row without its record tell a node that its rollout is gone.
const GONE: u32 = 2;
/// The shortest: nothing here is worth a loop that spins.
const TICK: Duration = Duration::from_millis(1);

impl Watchdog<'_> {
    pub(super) fn turn_round(&mut self, heard: &Receiver<Event>) {
        self.setup.voice.ready(&self.words());
        loop {
            self.turn(Timestamp::now());
            if self.stopping && self.life.life == Life::Off {
                return;
            }
            match heard.recv_timeout(self.nap()) {
                Ok(event) => self.hear(event, Timestamp::now()),
                Err(RecvTimeoutError::Timeout) => {}
                // The sender is part of the watchdog itself.
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.setup.voice.alive();
        }
    }

    /// Does what is due.
    fn turn(&mut self, now: Timestamp) {
        self.supervise(Happening::Tick);
        if self.stopping {
            return self.show();
        }
        for answer in std::mem::take(&mut self.again) {
            self.happen(answer, now);
        }
        self.happen(phase::Event::Tick, now);
        self.heed(now);
        self.fetch(now);
        self.look(now);
        self.beat(now);
        self.publish(now);
        self.poll();
        self.prune();
        self.prove();
        self.renew();
        self.show();
    }

    fn nap(&self) -> Duration {
        let now = Instant::now();
        let until = |at: Instant| at.saturating_duration_since(now);
        let mut nap = NAP.min(self.setup.voice.alive_every().unwrap_or(NAP));
        if let Some(due) = self.life.due(&self.setup.pace.rules) {
            nap = nap.min(due.saturating_sub(self.moment()));
        }
        if self.stopping {
            return nap.max(TICK);
        }
        nap = nap.min(until(self.due.beat));
        if !self.net.is_busy() {
            nap = nap.min(until(self.poll_due())).min(until(self.publish_due()));
        }
        if self.node.phase != Phase::Idle || !self.again.is_empty() {
            nap = nap.min(SHORT_NAP);
        }
        if let Some(wanted) = self.wanted.as_ref().filter(|_| self.fetching.is_none()) {
            nap = nap.min(until(wanted.next));
        }
        if matches!(self.node.phase, Phase::Soaking { .. }) && !self.looking {
            nap = nap.min(until(self.due.look));
        }
        nap.max(TICK)
    }

    fn hear(&mut self, event: Event, now: Timestamp) {
        match event {
            Event::Ended(pid, how) => self.child_ended(pid, how, now),
            Event::Looked(pid, ready) => {
                self.looking = false;
                if self.held.as_ref().is_some_and(|held| held.process.pid == pid) && self.life.is_up() {
                    self.happen(ready.map_or_else(phase::Event::NotReady, |()| phase::Event::Ready), now);
                }
            }
            Event::Polled(polled) => self.polled(polled, now),
            Event::Published(published) => self.was_published(published),
            Event::Fetched(fetched) => self.fetched(fetched, now),
            Event::Probed(answer) => self.probed(answer),
            Event::Asked(ask, reply) => self.asked(ask, &reply, now),
            Event::Signal(Signal::Reload) => {
                self.net.reconnect();
                if let Some(held) = self.held.as_ref().filter(|_| self.life.is_up()) {
                    held.process.signal(rustix::process::Signal::HUP);
                }
            }
            Event::Signal(Signal::Stop) => {
                self.stopping = true;
                self.setup.voice.stopping("stopping: the agent is told to end");
                self.supervise(Happening::Stop);
            }
        }
    }

    /// Asks for the records.
    fn poll(&mut self) {
        if Instant::now() >= self.poll_due() && !self.net.is_busy() {
            self.due.polled = Some(Instant::now());
            self.net.poll();
        }
    }

    fn poll_due(&self) -> Instant {
        let every = if self.takes_part() { self.setup.pace.poll } else { self.setup.pace.idle };
        self.due.polled.map_or(self.due.first, |last| last + every)
    }

    /// True while a rollout that is under way means this node.
    pub(super) fn takes_part(&self) -> bool {
        let means = |record: &Record| {
            !record.state.is_final() && !record.dry_run && record.batch_of(&self.setup.id).is_some()
        };
        self.node.phase != Phase::Idle || self.records.iter().any(means)
    }

    fn polled(&mut self, polled: Result<Found, String>, now: Timestamp) {
        self.net.answered();
        self.lived.polled = true;
        match polled {
            Ok(found) => {
                if self.told.records.take().is_some() {
                    tracing::info!("the records of rollouts can be read again");
                }
                self.take_over(found, now);
            }
            Err(why) => {
                if self.told.records.as_ref() != Some(&why) {
                    tracing::warn!(why, "the records of rollouts cannot be read; all else goes on");
                    self.told.records = Some(why);
                }
            }
        }
    }

    /// Takes over the records that there are, the newest first. What cannot be read now was read before, and counts as it was.
    fn take_over(&mut self, found: Found, now: Timestamp) {
        let Found { mut records, unread } = found;
        let known = std::mem::take(&mut self.records);
        records.extend(known.into_iter().filter(|record| unread.contains(&record.id)));
        records.retain(|record| record.component == Component::Agent);
        records.sort_by(|a, b| (b.created, &b.id).cmp(&(a.created, &a.id)));
        self.records = records;
        let there =
            |id: &RolloutId| unread.contains(id) || self.records.iter().any(|record| record.id == *id);
        self.missing = if self.node.rollout().is_some_and(|id| !there(id)) { self.missing + 1 } else { 0 };
        if self.missing >= GONE
            && let Some(event) = node::orphaned(&self.node)
        {
            self.missing = 0;
            self.happen(event, now);
        }
        // Who has read that it is over does not believe an older record that says otherwise.
        let mut node = self.node.clone();
        self.records.iter().filter(|record| record.state.is_final()).for_each(|it| node::heed(it, &mut node));
        if node != self.node {
            self.write_node(node);
        }
    }

    /// Does what the records ask.
    fn heed(&mut self, now: Timestamp) {
        let current = self.node.rollout().cloned();
        let asked = self.records.iter().filter(|record| current.as_ref().is_none_or(|id| record.id == *id));
        let report = self.report(now);
        let mut asked =
            asked.filter_map(|record| Some((record, node::asked(record, &report, &self.node, now)?)));
        let Some((record, event)) = asked.next() else {
            self.held_up = None;
            return;
        };
        let is_switch = matches!(event, phase::Event::Apply(_));
        self.held_up = is_switch.then(|| (self.setup.hold)(record, now)).flatten();
        if self.held_up.is_some() {
            return;
        }
        let mut node = self.node.clone();
        node::heed(record, &mut node);
        self.happen_to(&node, event, now);
    }

    /// Looks whether an agent that has to prove itself is ready.
    fn look(&mut self, now: Timestamp) {
        let is_soaking = matches!(self.node.phase, Phase::Soaking { .. });
        if !is_soaking || self.looking || Instant::now() < self.due.look {
            return;
        }
        self.due.look = Instant::now() + self.setup.pace.look;
        let pid = match (&self.held, self.life.life) {
            (Some(held), Life::Up { .. }) => held.process.pid,
            (_, Life::Resting { .. }) => {
                let why = self.ended.clone().unwrap_or_else(|| "it does not run".into());
                return self.happen(phase::Event::NotReady(format!("the agent is down: {why}")), now);
            }
            _ => return,
        };
        let (ready, events) = (std::sync::Arc::clone(&self.setup.ready), self.events.clone());
        let thread = std::thread::Builder::new().name("look".into());
        match thread.spawn(move || drop(events.send(Event::Looked(pid, ready.ready())))) {
            Ok(_) => self.looking = true,
            Err(error) => tracing::warn!(%error, "cannot start a thread to look at the agent"),
        }
    }

    fn asked(&mut self, ask: Ask, reply: &Sender<Answer>, now: Timestamp) {
        let answer = match ask {
            Ask::Status => Answer::Status(Box::new(self.status(now))),
            Ask::GoBack { reason } => self.asked_back(reason, now),
        };
        // Whoever asked may have gone.
        let _ = reply.send(answer);
    }

    fn asked_back(&mut self, reason: String, now: Timestamp) -> Answer {
        let refused = |why: String| Answer::Refused { why };
        let from = self.node.current().to_owned();
        match &self.node.phase {
            _ if self.stopping => return refused("the watchdog is about to end".into()),
            Phase::RollingBack { back, .. } => {
                return Answer::Done { words: format!("already going back to {back}") };
            }
            Phase::Idle => {
                let Some(previous) = &self.node.previous else {
                    let why = format!("there is no version before {from} to go back to");
                    return refused(format!("{why}: roll an older one out (zagent rollout start --anyway)"));
                };
                if let Err(error) = self.slots.verify(previous) {
                    return refused(format!("cannot go back: {}", words(&error)));
                }
            }
            _ => {}
        }
        self.happen(phase::Event::GoBack(reason), now);
        match &self.node.phase {
            Phase::RollingBack { back, .. } => {
                Answer::Done { words: format!("going back from {from} to {back}") }
            }
            Phase::Idle if self.node.current() != from => {
                Answer::Done { words: format!("went back from {from} to {}", self.node.current()) }
            }
            Phase::Idle => Answer::Done { words: format!("what was fetched is thrown away; {from} stays") },
            _ => refused("where this node stands cannot be written down: look at the disk".into()),
        }
    }

    pub(super) fn end(&mut self) {
        self.end_in_peace();
        self.setup.voice.stopping("stopped");
        tracing::info!("the watchdog ends");
    }
}
