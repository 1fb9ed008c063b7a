//! The part that a node takes in rollouts of states: records and the clock in, turns and reports out.
//!
//! Law: the loop only looks at what is on the disk and asks for a turn; the turn does what the phase asks for. So a daemon that is
//! killed anywhere goes on where the phase is.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use zagent_cache::source::Found;
use zagent_config::ids::Revision;
use zagent_config::settings::BoardKind;
use zagent_rollout::phase::{LOOK_EVERY, Phase, after};
use zagent_rollout::report::Report;

use super::Daemon;
use super::drive::Drives;
use super::errand::{Errand, What};
use super::rollouts::{Heard, Rollouts};
use crate::cycle::course::{Course, Hold};
use crate::cycle::memory::Why;
use crate::cycle::{me, sync};
use crate::output::local_zone;
use crate::run::Trigger;
use crate::status;

/// How often records are read while no rollout speaks of this node.
const IDLE: Duration = Duration::from_secs(60);
/// The longest that a board or a place of records which does not answer is left alone: while a rollout waits for this node, and
/// else.
const REST: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(5 * 60));
/// The longest between two turns that lead nowhere: while somebody waits for the node, and when it only goes back.
const STUCK: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(10 * 60));
/// So many turns in a row that lead nowhere are worth a word in the status.
const WORTH_A_WORD: u32 = 3;

/// Where the loop stands with rollouts.
#[derive(Debug, Default)]
pub(super) struct Part {
    rollouts: Option<Rollouts>,
    /// The thread that drives rollouts, on a node that may.
    drives: Option<Drives>,
    /// Who this node is, once that is known.
    me: Option<Box<Report>>,
    /// When the records are read next, unless polls of the source tell when they changed.
    read_at: Timestamp,
    /// The branches of the records when they were last asked for; none when polls do not tell.
    branches: Option<BTreeMap<String, Revision>>,
    /// When a turn comes next at the earliest.
    turn_at: Timestamp,
    /// Where the node stood after the last turn, and how many turns have led nowhere since.
    stuck: (Phase, u32),
    /// What the board was told last, and when.
    told: Option<(Report, Timestamp)>,
    /// When the board is told next at the earliest.
    tell_at: Timestamp,
    /// How often in a row the records and the board did not answer.
    failures: [u32; 2],
    /// Why the records or the board do not answer, or the rollout does not go on here, and since when.
    pub(super) silent: [Option<status::Silent>; 3],
}

impl Daemon<'_> {
    /// Listens to the places that the settings name.
    pub(super) fn take_part(&mut self) {
        self.part.drives = None;
        if self.settings.driver {
            self.part.drives = Drives::start(self.settings.clone())
                .inspect_err(|error| tracing::error!(%error, "cannot drive rollouts"))
                .ok();
        }
        match &self.part.rollouts {
            Some(rollouts) => rollouts.change(self.settings.clone()),
            None => {
                self.part.rollouts = Rollouts::start(self.settings.clone(), self.events.clone())
                    .inspect_err(|error| tracing::error!(%error, "cannot listen to rollouts"))
                    .ok();
            }
        }
        (self.part.branches, self.part.told) = (None, None);
        // The first poll of the source tells whether there is anything to read at all.
        let wait = if self.settings.rollout.url.is_some() { Duration::ZERO } else { IDLE };
        self.part.read_at = after(Timestamp::now(), wait);
        if let Some(rollouts) =
            self.part.rollouts.as_ref().filter(|_| self.settings.board.kind != BoardKind::None)
        {
            rollouts.meet();
        }
    }

    /// The daemon is about to end: nothing more is driven.
    pub(super) fn leave(&mut self) {
        self.part.drives = None;
    }

    /// Does what is due.
    pub(super) fn roll(&mut self, now: Timestamp) {
        if self.stopping {
            return;
        }
        self.read_records(now);
        if self.needs_turn(now) && now >= self.part.turn_at {
            self.part.turn_at = after(now, LOOK_EVERY);
            self.queue.push(Errand::new(What::Turn { trigger: Trigger::Rollout, fetch: true }));
        }
        self.tell_board(now);
    }

    fn read_records(&mut self, now: Timestamp) {
        let hurry = hurry(&self.orders.course, self.settings.rollout.poll, now);
        if self.part.branches.is_some() {
            if let Some(within) = hurry {
                self.clock.hasten(now, within);
            }
            return;
        }
        let every = hurry.unwrap_or(IDLE);
        let Some(rollouts) = &mut self.part.rollouts else { return };
        // A clock that was set back must not make the node deaf.
        let longest = if self.part.failures[0] == 0 { every } else { REST.1 };
        self.part.read_at = self.part.read_at.min(after(now, longest));
        if now >= self.part.read_at {
            self.part.read_at = after(now, every);
            rollouts.read();
        }
    }

    /// A poll of the source says which records there are, when that is where they are: only what changed is read.
    pub(super) fn told_of(&mut self, found: &Found, now: Timestamp) {
        let first =
            self.settings.source.remotes.iter().position(|remote| sync::directory(&remote.url).is_none());
        if self.settings.rollout.url.is_some() || first != Some(found.remote) {
            self.part.branches = None;
            return;
        }
        if self.part.branches.as_ref() != Some(&found.below)
            && let Some(rollouts) = &mut self.part.rollouts
            && !rollouts.reading
        {
            self.part.branches = Some(found.below.clone());
            self.part.read_at = after(now, IDLE);
            if !(found.below.is_empty() && self.orders.course.records.is_empty()) {
                rollouts.read();
            }
        }
    }

    /// Whether the phase, the record or the time asks for something.
    fn needs_turn(&self, now: Timestamp) -> bool {
        if self.running.is_some() {
            return false;
        }
        let obstacle = self.obstacle(now).map(|(why, _)| why);
        let pinned = self.orders.pin.as_ref().map(|pin| pin.words(now, &local_zone()));
        let hold = Hold {
            pinned: pinned.as_deref(),
            closed: obstacle.is_some(),
            paused: obstacle == Some(Why::Paused),
            follow: self.settings.rollout.follow,
        };
        is_due(&self.orders.course, hold, now)
    }

    /// Tells the board when there is something new, or it is time.
    fn tell_board(&mut self, now: Timestamp) {
        if self.settings.board.kind == BoardKind::None {
            return;
        }
        let revision = self.seen.current.as_ref().map(|current| sync::plain(&current.revision));
        let part = &mut self.part;
        let (Some(base), Some(rollouts)) = (&part.me, &mut part.rollouts) else { return };
        let moment = me::Moment {
            revision,
            memory: &self.memory,
            orders: &self.orders,
            windows: &self.settings.windows,
            since: Some(self.since),
            now,
        };
        let report = me::told(base, &moment);
        let every = me::pace(&self.settings, self.orders.course.is_under_way(now));
        let is_due = match &part.told {
            None => true,
            Some((told, at)) => !me::is_same(told, &report) || now >= after(*at, every) || now < *at,
        };
        // A clock that was set back must not make the node mute.
        part.tell_at = part.tell_at.min(after(now, REST.1));
        if is_due && now >= part.tell_at && !rollouts.telling {
            part.told = Some((report.clone(), now));
            rollouts.tell(report);
        }
    }

    /// The thread has something to say.
    pub(super) fn heard(&mut self, heard: Heard, now: Timestamp) {
        match heard {
            Heard::Me(me) => self.part.me = Some(me),
            Heard::Read(read) => {
                if let Some(rollouts) = &mut self.part.rollouts {
                    rollouts.reading = false;
                }
                let before = self.orders.course.clone();
                if read.is_ok() {
                    self.look();
                }
                // A heartbeat of the driver changes nothing about what does not work here.
                if self.orders.course != before && self.part.stuck.1 == 0 {
                    self.part.turn_at = now;
                }
                if read.is_err() {
                    // Asked again at the next poll, or by the clock.
                    self.part.branches = None;
                }
                if let Some(wait) = self.rest(0, read.is_ok(), now) {
                    self.part.read_at = after(now, wait);
                }
                self.silent(0, read, "the records of rollouts cannot be read", now);
            }
            Heard::Told(told) => {
                if let Some(rollouts) = &mut self.part.rollouts {
                    rollouts.telling = false;
                }
                if told.is_err() {
                    self.part.told = None;
                }
                self.part.tell_at = after(now, self.rest(1, told.is_ok(), now).unwrap_or_default());
                self.silent(1, told, "the board is not told how this node does", now);
            }
        }
    }

    /// How long whoever did not answer is left alone.
    fn rest(&mut self, which: usize, answered: bool, now: Timestamp) -> Option<Duration> {
        let failures = &mut self.part.failures[which];
        *failures = if answered { 0 } else { failures.saturating_add(1) };
        let most = if self.orders.course.is_under_way(now) { REST.0 } else { REST.1 };
        (*failures > 0).then(|| self.clock.back_off(self.settings.rollout.poll, *failures, most))
    }

    /// Notes who does not answer; said once.
    fn silent(&mut self, which: usize, answer: Result<(), String>, what: &str, now: Timestamp) {
        let seen = &mut self.part.silent[which];
        match answer {
            Ok(()) => {
                if seen.take().is_some() {
                    tracing::info!(what, "that is over");
                }
            }
            Err(message) => {
                let since = seen.as_ref().map_or(now, |silent| silent.since);
                if seen.is_none() {
                    tracing::warn!("{what}: {message}");
                }
                *seen = Some(status::Silent { since, tried: now, message: format!("{what}: {message}") });
            }
        }
    }

    /// A turn ended: the next look at what it left comes in a while, later when it led nowhere.
    pub(super) fn rolled(&mut self, now: Timestamp) {
        let phase = &self.orders.course.node.phase;
        let (last, turns) = &mut self.part.stuck;
        *turns = if is_stuck(last, phase) { turns.saturating_add(1) } else { 0 };
        let turns = *turns;
        last.clone_from(phase);
        let goes_back = match phase {
            Phase::RollingBack { why, .. } => Some(why.clone()),
            _ => None,
        };
        let most = if goes_back.is_some() { STUCK.1 } else { STUCK.0 };
        let wait = if turns > 0 { self.clock.back_off(LOOK_EVERY * 2, turns, most) } else { LOOK_EVERY };
        self.part.turn_at = after(now, wait.max(LOOK_EVERY));
        let stands = match goes_back {
            Some(why) if turns >= WORTH_A_WORD => Err(format!(
                "{turns} turns did not bring the node back ({why}); the next comes in {}: the log says why, and `zagent \
                 cache rollback` moves the node by hand",
                zagent_rollout::Span(Duration::from_secs(wait.as_secs()))
            )),
            _ => Ok(()),
        };
        self.silent(2, stands, "going back does not work", now);
    }

    /// How long until something of this is due.
    pub(super) fn rollout_nap(&self, now: Timestamp) -> Duration {
        let until = |at: Timestamp| Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO);
        let reads = self.part.rollouts.is_some() && self.part.branches.is_none();
        let read = if reads { until(self.part.read_at) } else { IDLE };
        let turn = if self.needs_turn(now) { until(self.part.turn_at) } else { IDLE };
        read.min(turn).max(Duration::from_millis(10))
    }
}

/// How often the records are asked for while a rollout speaks of this node; with none it is not in a hurry.
fn hurry(course: &Course, poll: Duration, now: Timestamp) -> Option<Duration> {
    course.is_under_way(now).then(|| poll.min(IDLE))
}

/// Whether the phase, the record or the time asks for a turn.
fn is_due(course: &Course, hold: Hold<'_>, now: Timestamp) -> bool {
    match course.node.phase {
        // How it does, and that its time is over, does not wait for anybody.
        Phase::Applying { .. } | Phase::Soaking { .. } | Phase::RollingBack { .. } => true,
        Phase::Preparing { .. } if !hold.paused => true,
        Phase::Idle | Phase::Preparing { .. } | Phase::Staged { .. } => course.asked(hold, now).is_some(),
    }
}

/// True when a turn should have left the node elsewhere. One that soaks is looked at again and again.
fn is_stuck(before: &Phase, after: &Phase) -> bool {
    let is_act =
        matches!(after, Phase::Preparing { .. } | Phase::Applying { .. } | Phase::RollingBack { .. });
    is_act && before == after
}

#[cfg(test)]
mod tests;
