//! What the phases and the supervision decide in, files, links and processes out.
//!
//! Law: written down first, then done. The one exception is the way back: a disk that takes no more must not keep a node on a
//! version that nobody confirmed, and whoever reads the old phase after a crash goes back all the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rustix::process::Signal;

use super::net::{Errand, Unfetched};
use super::state::Held;
use super::{Awaited, Event, Fetching, Wanted, Watchdog, child, words};
use crate::drive::PREPARE_LIMIT;
use crate::phase::{self, Action, Node, Phase};
use crate::slots::Program;
use crate::supervise::{self, Act, Happening, Moment};
use crate::{kept, point};

/// The note about a binary that does not come.
const FETCH: &str = "fetch";

impl Watchdog<'_> {
    pub(super) fn moment(&self) -> Moment {
        self.began.elapsed()
    }

    /// Something happened to this node.
    pub(super) fn happen(&mut self, event: phase::Event, now: Timestamp) {
        self.happen_to(&self.node.clone(), event, now);
    }

    /// The same, when the node has learnt something with it.
    pub(super) fn happen_to(&mut self, node: &Node, event: phase::Event, now: Timestamp) {
        let (next, actions) = phase::step(node, event.clone(), now);
        if next != self.node {
            self.tell_step(&next);
            let goes_back = matches!(next.phase, Phase::RollingBack { .. });
            if !self.write_node(next) && !goes_back {
                // Nobody else will say it again.
                if is_answer(&event) && !self.again.contains(&event) {
                    self.again.push(event);
                }
                return;
            }
        }
        for action in actions {
            // Here a power cut finds what was decided and not done.
            let _ = point("watchdog::decided");
            self.act(action, now);
            let _ = point("watchdog::done");
        }
    }

    /// Writes where the node stands; true when that will be found again.
    pub(super) fn write_node(&mut self, node: Node) -> bool {
        let written = kept::write(&self.setup.paths.phase(), &node);
        let is_written = self.told_disk(written.map_err(|error| words(&error)));
        if is_written || matches!(node.phase, Phase::RollingBack { .. }) {
            self.node = node;
        }
        let _ = point("watchdog::written");
        is_written
    }

    /// Writes what else must be found again.
    pub(super) fn keep(&mut self) -> bool {
        let written = kept::write(&self.setup.paths.watchdog(), &self.kept);
        self.told_disk(written.map_err(|error| words(&error)))
    }

    fn told_disk(&mut self, written: Result<(), String>) -> bool {
        match &written {
            Ok(()) => self.told.disk = false,
            Err(why) if !std::mem::replace(&mut self.told.disk, true) => {
                tracing::error!(why, "where this node stands cannot be written down; nothing new is begun");
            }
            Err(_) => {}
        }
        written.is_ok()
    }

    fn act(&mut self, action: Action, now: Timestamp) {
        match action {
            Action::Fetch(order) => {
                self.wanted = Some(Wanted { order, since: now, tries: 0, next: Instant::now() });
                self.fetch(now);
            }
            Action::Discard(to) => {
                if self.wanted.as_ref().is_some_and(|wanted| wanted.order.to == to) {
                    self.want_nothing();
                    if let Some(fetching) = &self.fetching {
                        fetching.stop.store(true, Ordering::Relaxed);
                    }
                }
                self.prune = true;
            }
            Action::Apply(to) => self.apply(&to, now),
            Action::GoBack(back) => self.go_back(&back),
            Action::Settle(_) => self.prune = true,
        }
    }

    /// Begins the fetch that is wanted, as soon as the record that tells where from is there and no other is under way.
    pub(super) fn fetch(&mut self, now: Timestamp) {
        let due = |wanted: &&Wanted| self.fetching.is_none() && Instant::now() >= wanted.next;
        let Some(Wanted { order, .. }) = self.wanted.as_ref().filter(due).cloned() else { return };
        let record = self.records.iter().find(|record| Some(&record.id) == order.rollout.as_ref());
        let Some(record) = record.cloned() else { return };
        let stop = Arc::new(AtomicBool::new(false));
        let errand = Errand {
            stop: Arc::clone(&stop),
            to: order.to,
            record,
            machine: self.setup.machine.clone(),
            slots: self.slots.clone(),
            fetch: Arc::clone(&self.setup.fetch),
        };
        match errand.start(self.events.clone()) {
            Ok(()) => self.fetching = Some(Fetching { stop }),
            Err(error) => {
                self.want_nothing();
                self.happen(phase::Event::Unfetched(format!("cannot start a thread: {error}")), now);
            }
        }
    }

    /// A fetch has ended.
    pub(super) fn fetched(&mut self, fetched: Result<(), Unfetched>, now: Timestamp) {
        let is_wanted = self.fetching.take().is_some_and(|fetching| !fetching.stop.load(Ordering::Relaxed));
        if !is_wanted {
            self.prune = true;
            return self.fetch(now);
        }
        let event = match fetched {
            Ok(()) => phase::Event::Fetched,
            Err(Unfetched { why, passing: true }) if self.ask_again(&why, now) => return,
            Err(Unfetched { why, .. }) => phase::Event::Unfetched(why),
        };
        self.want_nothing();
        self.happen(event, now);
    }

    /// Nobody answered: asks again later, as long as the driver waits. False when that is over.
    fn ask_again(&mut self, why: &str, now: Timestamp) -> bool {
        let Some(wanted) = &mut self.wanted else { return false };
        let Some(wait) = wait_before(wanted.tries, wanted.since, now, &self.setup.pace.rules) else {
            return false;
        };
        wanted.tries = wanted.tries.saturating_add(1);
        wanted.next = Instant::now() + wait;
        let note = format!("cannot fetch {} yet, and tries again: {why}", wanted.order.to);
        if self.notes.insert(FETCH, note).is_none() {
            tracing::warn!(why, to = wanted.order.to, "cannot be fetched yet; it is tried again");
        }
        true
    }

    fn want_nothing(&mut self) {
        self.wanted = None;
        self.notes.remove(FETCH);
    }

    fn apply(&mut self, to: &str, now: Timestamp) {
        let promoted = self.slots.verify(to).and_then(|program| self.slots.promote(&program));
        match promoted {
            Ok(()) => self.switch(Awaited::Apply),
            Err(error) => self.happen(phase::Event::Unapplied(words(&error)), now),
        }
    }

    fn go_back(&mut self, back: &str) {
        // It is under way, or done and only not written down yet.
        if self.awaited == Some(Awaited::Back) || self.again.contains(&phase::Event::RolledBack) {
            return;
        }
        let (program, _) = self.slots.pick([back]);
        if let Err(error) = self.slots.promote(&program) {
            // The link is for whoever looks; what is started does not follow from it.
            tracing::warn!("{}", words(&error));
        }
        self.switch(Awaited::Back);
    }

    /// Starts the version that should run in the place of the one that does.
    fn switch(&mut self, awaited: Awaited) {
        self.awaited = Some(awaited);
        self.supervise(Happening::Restart);
    }

    /// Something happened to the process.
    pub(super) fn supervise(&mut self, happened: Happening) {
        let (next, act) = supervise::step(&self.life, happened, self.moment(), &self.setup.pace.rules);
        let was_degraded = self.life.is_degraded(&self.setup.pace.rules);
        self.life = next;
        if !was_degraded && self.life.is_degraded(&self.setup.pace.rules) {
            tracing::error!(
                failures = self.life.failures,
                "the agent does not stay up: this node is degraded"
            );
        }
        match (act, &self.held) {
            (Some(Act::Start), _) => self.start(),
            (Some(Act::Terminate), Some(held)) => held.process.signal(Signal::TERM),
            (Some(Act::Kill), Some(held)) => {
                tracing::warn!(pid = held.process.pid, "the agent does not end by itself and is ended");
                held.process.signal(Signal::KILL);
            }
            _ => {}
        }
    }

    fn start(&mut self) {
        let started = self.choose().and_then(|program| self.start_program(&program));
        let now = Timestamp::now();
        match started {
            Ok(()) => {
                self.supervise(Happening::Started);
                match self.awaited.take() {
                    Some(Awaited::Apply) => self.happen(phase::Event::Applied, now),
                    Some(Awaited::Back) => self.happen(phase::Event::RolledBack, now),
                    None => {}
                }
            }
            Err(why) => {
                tracing::error!(why, "the agent cannot be started");
                self.ended = Some(why.clone());
                self.supervise(Happening::NotStarted);
                if self.awaited == Some(Awaited::Apply) {
                    self.awaited = None;
                    self.happen(phase::Event::Unapplied(why), now);
                }
            }
        }
    }

    fn start_program(&mut self, program: &Program) -> Result<(), String> {
        self.admit(&program.version);
        self.kept.starting = Some(program.clone());
        self.keep();
        let process = child::start(&program.path, &self.setup.agent_args)
            .map_err(|error| format!("`{}` cannot be started: {error}", program.path.display()))?;
        let _ = point("watchdog::started");
        tracing::info!(pid = process.pid, version = program.version, "the agent is started");
        // The first look is not at once: it has to come up.
        self.due.look = std::time::Instant::now() + self.setup.pace.look;
        self.hold(Held { process, version: program.version.clone(), since: Timestamp::now() });
        Ok(())
    }

    /// From now on this is the agent.
    pub(super) fn hold(&mut self, held: Held) {
        let (process, events, pid) = (held.process.clone(), self.events.clone(), held.process.pid);
        if self.kept.child.as_ref() != Some(&held) {
            (self.kept.child, self.kept.starting) = (Some(held.clone()), None);
            self.keep();
        }
        self.held = Some(held);
        let watched = child::watch(process, move |how| drop(events.send(Event::Ended(pid, how))));
        if let Err(error) = watched {
            tracing::error!(%error, "cannot wait for the agent");
            // As if it had ended: it is ended, and another one is started after a while.
            if let Some(held) = &self.held {
                held.process.signal(Signal::KILL);
            }
            let _ = self.events.send(Event::Ended(pid, "nobody could wait for it".into()));
        }
    }

    /// A process ended.
    pub(super) fn child_ended(&mut self, pid: i32, how: String, now: Timestamp) {
        if self.held.as_ref().is_none_or(|held| held.process.pid != pid) {
            return;
        }
        let was_up = self.life.is_up();
        self.held = None;
        if was_up {
            tracing::warn!(pid, "the agent: {how}");
            self.ended = Some(how.clone());
        }
        self.supervise(Happening::Ended);
        if was_up {
            self.happen(phase::Event::NotReady(format!("the agent does not stay up: {how}")), now);
        }
    }

    /// Removes what nobody needs, unless a fetch is under way, whose files have no name yet.
    pub(super) fn prune(&mut self) {
        if !self.prune || self.fetching.is_some() {
            return;
        }
        self.prune = false;
        let node = &self.node;
        let ordered = match &node.phase {
            Phase::Idle => None,
            Phase::Preparing { order, .. }
            | Phase::Staged { order, .. }
            | Phase::Applying { order, .. }
            | Phase::Soaking { order, .. }
            | Phase::RollingBack { order, .. } => Some(order.to.as_str()),
        };
        let held = self.held.as_ref().map(|held| held.version.as_str());
        let keep = [Some(node.running.as_str()), node.previous.as_deref(), ordered, held, Some(&self.own)];
        match self.slots.prune(&keep.into_iter().flatten().collect()) {
            Ok(gone) if !gone.is_empty() => tracing::info!(slots = gone.join(", "), "removed"),
            Ok(_) => {}
            Err(error) => {
                tracing::warn!("{}", words(&error));
                self.prune = true;
            }
        }
    }
}

/// True for what is said once; everything else comes again by itself.
const fn is_answer(event: &phase::Event) -> bool {
    use phase::Event::{Applied, Fetched, RolledBack, Unapplied, Unfetched};
    matches!(event, Fetched | Unfetched(_) | Applied | Unapplied(_) | RolledBack)
}

/// How long to wait before a binary that nobody gives is asked for again; nothing once the driver has given up.
fn wait_before(tries: u32, since: Timestamp, now: Timestamp, rules: &supervise::Rules) -> Option<Duration> {
    let wait = rules.unit.saturating_mul(1 << tries.min(16)).min(rules.most);
    (now < phase::after(since, PREPARE_LIMIT)).then_some(wait)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binary_is_asked_for_ever_more_seldom_until_the_driver_gives_up() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let wait = |tries, seconds| {
            wait_before(tries, at(0), at(seconds), &supervise::Rules::REAL).map(|wait| wait.as_secs())
        };
        let limit = i64::try_from(PREPARE_LIMIT.as_secs()).unwrap();
        assert_eq!((wait(0, 0), wait(3, 9), wait(40, 99)), (Some(1), Some(8), Some(60)));
        assert_eq!((wait(0, limit - 1), wait(0, limit)), (Some(1), None));
    }
}
