//! Rollouts of states as one node knows them: records in, what the node is to do and what holds it where it is out.
//!
//! Law: decisions are pure; time is an argument. What was heard is kept in one small file beside the phase of the node, so that a
//! node that cannot reach anybody still knows what it was told. An order that was heard once is not undone by showing an
//! older version of it.

mod edge;
mod hear;
mod keep;
mod tell;
#[cfg(test)]
mod tests;

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use zagent_config::ids::{NodeId, Revision};
use zagent_config::paths::Paths;
use zagent_config::settings::Follow;
use zagent_rollout::phase::{self, Action, Event, Node, Order, Phase, after};
use zagent_rollout::record::{Component, Mode, Profile, Record, State};
use zagent_rollout::report::Report;
use zagent_rollout::{meant, node, waves};

pub(super) use edge::Work;
pub(in crate::cycle) use keep::Kept;

use super::want::Ruling;
use crate::operate::{KeptError, kept};

/// Records that are kept; of more than these the oldest are forgotten.
const RECORDS: usize = 8;
/// How long after its last node should have proved itself a rollout by the clock is over: for looks and runs that took longer.
const CLOCK_GRACE: Duration = Duration::from_secs(10 * 60);

/// What a node knows of rollouts of states.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Course {
    /// Where it stands.
    pub node: Node,
    /// The records that speak of it, each without what it says of others.
    pub records: Vec<Record>,
    /// Who the node was when it read them: targets and waves go by its facts.
    pub me: Option<Report>,
    /// Where the last rollout that it took part in led it, and what it could have had instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::cycle) kept: Option<Kept>,
}

/// What keeps a node from following an order.
#[derive(Clone, Copy, Debug)]
pub struct Hold<'a> {
    /// What it is pinned to, in words.
    pub pinned: Option<&'a str>,
    /// True when no maintenance window is open.
    pub closed: bool,
    /// True while it is paused: nothing is begun, what is begun is brought to its end.
    pub paused: bool,
    /// What moves it: a node that takes heads does not begin what is over.
    pub follow: Follow,
}

impl Hold<'_> {
    /// Nothing holds a node that follows this.
    #[must_use]
    pub const fn none(follow: Follow) -> Self {
        Self { pinned: None, closed: false, paused: false, follow }
    }
}

impl Course {
    /// Reads it; a node that never heard of a rollout knows of none.
    ///
    /// # Errors
    /// Fails when the file is damaged or cannot be read.
    pub fn read(paths: &Paths) -> Result<Self, KeptError> {
        Ok(kept::read(&paths.rollout_states())?.unwrap_or_default())
    }

    /// Changes it on the disk; written only when it is another then.
    ///
    /// # Errors
    /// Fails when it cannot be read or written: then nothing that follows from it may be done.
    pub fn change<R: Default>(
        paths: &Paths,
        change: impl FnOnce(&mut Self) -> R,
    ) -> Result<(Self, R), KeptError> {
        let mut after = (Self::default(), R::default());
        kept::change(&paths.rollout_states(), |course: &mut Self| {
            let before = course.clone();
            let answer = change(course);
            after = (course.clone(), answer);
            (*course != before).then_some(())
        })?;
        Ok(after)
    }

    /// One event further, on the disk before anything is done about it. `head` is that of the followed branch, as far as it
    /// is known.
    ///
    /// # Errors
    /// As [`Course::change`].
    pub fn step(
        paths: &Paths,
        event: Event,
        head: Option<&Revision>,
        now: Timestamp,
    ) -> Result<(Self, Vec<Action>), KeptError> {
        Self::change(paths, |course| {
            if let Event::Prepare(order) = &event {
                course.kept = Kept::begun(order, head);
            }
            let (node, actions) = phase::step(&course.node, event, now);
            course.node = node;
            actions
        })
    }

    /// Takes over all records that there are, as far as they mean this node. One that is not there any more is forgotten, one
    /// that is older than what was heard is not believed.
    pub fn hear(&mut self, read: &[Record], me: &Report) {
        let me = Report { updated_at: Timestamp::UNIX_EPOCH, ..me.clone() };
        let names = |record: &Record| match record.mode {
            Mode::Driver => record.batch_of(&me.id).is_some(),
            Mode::Clock => meant::is_meant(&record.target, &me).unwrap_or(false),
        };
        let mut next: Vec<Record> = Vec::new();
        for record in read.iter().filter(|record| record.component == Component::States && !record.dry_run) {
            if node::is_old(record, &self.node) {
                next.extend(self.records.iter().find(|known| known.id == record.id).cloned());
            } else if names(record) {
                node::heed(record, &mut self.node);
                next.push(slim(record, &me.id));
            }
        }
        next.sort_by_key(|record| (Some(&record.id) == self.node.rollout(), record.created));
        next.drain(..next.len().saturating_sub(RECORDS));
        self.let_go(read);
        (self.records, self.me) = (next, Some(me));
    }

    /// The node is on this, and on no rollout: whatever it takes by itself is what it goes back to.
    pub fn settle(&mut self, current: Option<&str>) {
        if self.node.phase == Phase::Idle {
            let running = current.unwrap_or_default();
            if self.node.running != running {
                self.node.previous = Some(std::mem::replace(&mut self.node.running, running.to_owned()))
                    .filter(|previous| !previous.is_empty());
            }
            // Whoever moved it elsewhere has ended that.
            self.kept.take_if(|kept| kept.to != running);
        }
    }

    /// The record that counts: that of the rollout the node is in, else the newest. The last word that was said about a node
    /// is the one that is meant, whatever became of those before.
    #[must_use]
    pub fn leading(&self) -> Option<&Record> {
        if let Some(rollout) = self.node.rollout() {
            return self.records.iter().find(|record| record.id == *rollout);
        }
        self.records.iter().max_by_key(|record| (record.created, &record.id))
    }

    /// What is asked of the node now.
    #[must_use]
    pub fn asked(&self, hold: Hold<'_>, now: Timestamp) -> Option<Event> {
        if let (Some(rollout), Some(pinned)) = (self.node.rollout(), hold.pinned) {
            return Some(Event::Withdraw(rollout.clone(), format!("the node was {pinned}")));
        }
        let Some(record) = self.leading() else { return node::orphaned(&self.node) };
        let event = node::asked(record, self.me.as_ref()?, &self.node, now)?;
        let by_clock = record.mode == Mode::Clock;
        let waits = match event {
            // By the clock nobody counts who comes when: one that cannot begin now does so later, or takes the head.
            Event::Prepare(_) if by_clock && (hold.pinned.is_some() || self.is_degraded()) => true,
            Event::Prepare(_) if by_clock && hold.follow == Follow::Head && is_over(record, now) => true,
            Event::Prepare(_) => hold.paused,
            Event::Apply(_) => hold.paused || hold.closed && record.profile != Profile::Emergency,
            _ => false,
        };
        (!waits).then_some(event)
    }

    fn is_degraded(&self) -> bool {
        self.me.as_ref().is_some_and(|me| me.degraded.is_some())
    }

    /// What rollouts say about heads of branches; nothing when these count as always.
    #[must_use]
    pub fn ruling(&self, id: &NodeId, follow: Follow, now: Timestamp) -> Option<Ruling> {
        let is_free = |record: &&Record| {
            let is_over = match record.mode {
                Mode::Driver => record.state == State::Completed,
                // A node that waits for rollouts takes one that it missed; one that takes heads goes on with these.
                Mode::Clock => {
                    is_over(record, now)
                        && record.state != State::Aborted
                        && (follow == Follow::Head || self.has_had(record))
                }
            };
            is_over && self.node.phase == Phase::Idle
        };
        match self.leading().filter(|record| !is_free(record)) {
            Some(record) => {
                let from = record.from.as_ref().and_then(|from| from.parse::<Revision>().ok());
                Some(Ruling::Stay { from, words: self.words(record, id) })
            }
            None if follow == Follow::Rollouts || self.node.rollout().is_some() => {
                Some(Ruling::Stay { from: None, words: tell::ONLY_ROLLOUTS.into() })
            }
            None => self.keeps(),
        }
    }

    /// True when a rollout has ended on this node, however.
    fn has_had(&self, record: &Record) -> bool {
        self.node.last.as_ref().is_some_and(|last| last.rollout == record.id)
    }

    /// True while the node runs something that nobody has confirmed: the rollout judges it, and nobody else.
    #[must_use]
    pub fn judges(&self, revision: &str) -> bool {
        self.node.is_unconfirmed() && self.node.current() == revision
    }

    /// The order that the node follows.
    #[must_use]
    pub const fn order(&self) -> Option<&Order> {
        match &self.node.phase {
            Phase::Idle => None,
            Phase::Preparing { order, .. }
            | Phase::Staged { order, .. }
            | Phase::Applying { order, .. }
            | Phase::Soaking { order, .. }
            | Phase::RollingBack { order, .. } => Some(order),
        }
    }

    /// True when a rollout that is under way speaks of this node: it listens closely then. Nobody has anything more to say
    /// to one that a rollout by the clock has ended on.
    #[must_use]
    pub fn is_under_way(&self, now: Timestamp) -> bool {
        let goes_on =
            |record: &Record| !(is_over(record, now) || record.mode == Mode::Clock && self.has_had(record));
        self.node.phase != Phase::Idle || self.leading().is_some_and(goes_on)
    }

    /// True when the rollout that the node waits for, or is in, does not wait for windows.
    #[must_use]
    pub fn is_emergency(&self, now: Timestamp) -> bool {
        self.leading().is_some_and(|record| record.profile == Profile::Emergency && !is_over(record, now))
    }
}

/// True when nothing follows from a record any more. Nobody writes down that one by the clock is over: the time says it.
fn is_over(record: &Record, now: Timestamp) -> bool {
    if record.state.is_final() {
        return true;
    }
    if record.mode != Mode::Clock || record.state != State::Rolling {
        return false;
    }
    let length = waves::spread(record).saturating_add(record.soak_time.0).saturating_add(CLOCK_GRACE);
    now >= after(record.started.unwrap_or(record.created), length)
}

/// A record without what it says of others.
fn slim(record: &Record, id: &NodeId) -> Record {
    let mut slim = record.clone();
    slim.batches.iter_mut().for_each(|batch| batch.retain(|node| node == id));
    slim.nodes.retain(|node, _| node == id);
    slim.artifacts.clear();
    slim
}
