//! Settings, a seed and what happened in, what is due next out: polls, runs without news, retries, entries of `schedule:`.
//!
//! Law: pure. Time and seed are arguments, nothing is waited for, nothing is written here but [`Saved`]. Whatever happens to
//! the clock on the wall, set back or forward by years, something is always due within one interval, and each thing once.
//!
//! A fleet that boots at once spreads: the first poll comes at a part of the interval that the machine's id decides, every
//! further one after half to one and a half intervals, by chance. Runs without news stand on a grid whose offset is the machine's
//! own; a run that came shortly before its place on the grid takes that place.

mod chance;
mod entry;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use zagent_config::settings::Settings;

use self::chance::Chance;
use self::entry::Entry;
use crate::operate::kept::{self, KeptError};

pub use self::entry::Appointment;

/// The longest wait that failures lead to, unless polls are rarer anyhow.
const LONGEST_BACK_OFF: Duration = Duration::from_secs(15 * 60);
/// The longest wait that a remote may ask for.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(60 * 60);
/// How long after the first failed run the next one comes.
const FIRST_RETRY: Duration = Duration::from_secs(60);

/// Something to do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Due {
    /// Ask the remotes.
    Poll,
    /// Run again what failed.
    Retry,
    /// Run without news.
    Converge,
    /// Run an entry of the schedule, by its name.
    Entry(String),
}

/// What a poll gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polled {
    /// Nothing new.
    Nothing,
    /// A new revision.
    News,
    /// No answer.
    Failed {
        /// How long the remote asked to be left alone.
        retry_after: Option<Duration>,
    },
}

/// What outlives the process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Saved {
    /// When a run last ended.
    pub last_run: Option<Timestamp>,
    /// How many runs failed since the last that did not.
    pub failures: u32,
    /// The entries of the schedule, by name.
    pub entries: BTreeMap<String, Appointment>,
}

impl Saved {
    /// Reads it; nothing when there is none.
    ///
    /// # Errors
    /// Fails when the file is damaged or cannot be read. It is safe to go on with nothing: then entries are reckoned anew.
    pub fn read(path: &Path) -> Result<Self, KeptError> {
        Ok(kept::read(path)?.unwrap_or_default())
    }
}

/// A time, and how long before it was set: a clock that goes back cannot move it further away than that.
#[derive(Clone, Copy, Debug)]
struct Alarm {
    at: Timestamp,
    wait: Duration,
}

impl Alarm {
    fn after(now: Timestamp, wait: Duration) -> Self {
        Self { at: later(now, wait), wait }
    }

    fn heed(&mut self, now: Timestamp) {
        self.at = self.at.min(later(now, self.wait));
    }
}

/// What is due, and when.
#[derive(Clone, Debug)]
pub struct Clock {
    poll_every: Duration,
    run_every: Duration,
    seed: u64,
    chance: Chance,
    zone: TimeZone,
    /// None without remotes.
    poll: Option<Alarm>,
    poll_failures: u32,
    converge: Alarm,
    retry: Option<Alarm>,
    last_run: Option<Timestamp>,
    failures: u32,
    entries: Vec<Entry>,
    /// What the file holds.
    on_disk: Saved,
}

impl Clock {
    /// Starts a clock; `seed` is the machine's own and stays the same, `zone` is where cron expressions are read.
    #[must_use]
    pub fn new(settings: &Settings, seed: u64, zone: TimeZone, saved: Saved, now: Timestamp) -> Self {
        let (poll_every, run_every) = (settings.source.poll, settings.run.every);
        let first = chance::part(poll_every, chance::of(seed, "poll"));
        let grace = settings.run.timeout.max(Duration::from_secs(60));
        let mut left = saved.entries.clone();
        let entries = settings.schedule.iter();
        let entries =
            entries.map(|e| Entry::new(e, seed, grace, left.remove(&e.name), (now, &zone))).collect();
        let mut clock = Self {
            poll_every,
            run_every,
            seed,
            chance: Chance::new(chance::mix(seed ^ now.as_second().cast_unsigned())),
            poll: (!settings.source.remotes.is_empty()).then(|| Alarm::after(now, first)),
            poll_failures: 0,
            converge: Alarm::after(now, first.min(run_every)),
            retry: None,
            last_run: saved.last_run.filter(|last| *last <= now),
            failures: saved.failures,
            entries,
            on_disk: saved,
            zone,
        };
        // Without a run for longer than ever happens by plan, the next one comes with the first poll.
        let is_recent = |last: &Timestamp| later(*last, run_every + run_every / 2) > now;
        if let Some(last) = clock.last_run.filter(is_recent) {
            clock.converge = clock.next_converge(last, now);
        }
        if clock.failures > 0 {
            clock.retry = Some(clock.next_retry(now));
        }
        clock
    }

    /// What is due next, and when; in the past when it is overdue. What is due at once comes as: poll, retry, converge, entries
    /// by name.
    pub fn next(&mut self, now: Timestamp) -> (Timestamp, Due) {
        self.heed(now);
        let poll = self.poll.map(|alarm| (alarm.at, Due::Poll));
        let retry = self.retry.map(|alarm| (alarm.at, Due::Retry));
        let converge = (self.converge.at, Due::Converge);
        let entries = self.entries.iter().filter_map(|e| Some((e.due()?, Due::Entry(e.name.clone()))));
        // What is overdue is all due now: the order of things decides, not how long each has waited.
        let place = |(at, due): &(Timestamp, Due)| ((*at).max(now), due.clone());
        entries
            .chain(poll)
            .chain(retry)
            .min_by_key(place)
            .filter(|e| place(e) < place(&converge))
            .unwrap_or(converge)
    }

    /// Brings everything that a clock set back moved out of sight back into reach.
    fn heed(&mut self, now: Timestamp) {
        let alarms = self.poll.iter_mut().chain(self.retry.iter_mut()).chain([&mut self.converge]);
        alarms.for_each(|alarm| alarm.heed(now));
        let zone = &self.zone;
        self.entries.iter_mut().for_each(|entry| entry.heed(now, zone));
    }

    /// A poll ended.
    pub fn polled(&mut self, now: Timestamp, polled: Polled) {
        if self.poll.is_none() {
            return;
        }
        let wait = match polled {
            Polled::Nothing | Polled::News => {
                self.poll_failures = 0;
                self.chance.stretch(self.poll_every, 500, 1500)
            }
            Polled::Failed { retry_after } => {
                self.poll_failures = self.poll_failures.saturating_add(1);
                let most = LONGEST_BACK_OFF.max(self.poll_every);
                let own = self.chance.stretch(doubled(self.poll_every, self.poll_failures, most), 500, 1000);
                // A whole fleet is told the same time: it must not come back at the same moment.
                let asked = retry_after.map(|time| time.min(LONGEST_RETRY_AFTER));
                asked.map_or(own, |asked| own.max(self.chance.stretch(asked, 1000, 1100)))
            }
        };
        self.poll = Some(Alarm::after(now, wait));
    }

    /// A run ended, whatever started it; `news` when it was the first of a new revision.
    pub fn ran(&mut self, now: Timestamp, ok: bool, news: bool) {
        self.last_run = Some(now);
        self.converge = self.next_converge(now, now);
        self.failures = match (ok, news) {
            (true, _) => 0,
            (false, true) => 1,
            (false, false) => self.failures.saturating_add(1),
        };
        self.retry = (!ok).then(|| self.next_retry(now));
    }

    /// An entry is about to run. To be saved before it does: one that takes the agent with it is not begun anew.
    pub fn entry_started(&mut self, name: &str, now: Timestamp) {
        let zone = &self.zone;
        self.entries.iter_mut().filter(|e| e.name == name).for_each(|e| e.started(now, zone));
    }

    /// An entry has run.
    pub fn entry_ran(&mut self, name: &str, now: Timestamp) {
        let zone = &self.zone;
        self.entries.iter_mut().filter(|e| e.name == name).for_each(|e| e.ended(now, zone));
    }

    /// Something was due and is left out (the agent is paused, no window is open): it comes again at its next time.
    pub fn passed(&mut self, due: &Due, now: Timestamp) {
        match due {
            Due::Poll => self.polled(now, Polled::Nothing),
            Due::Retry => self.retry = Some(self.next_retry(now)),
            Due::Converge => self.converge = self.next_converge(now, now),
            Due::Entry(name) => {
                let zone = &self.zone;
                self.entries.iter_mut().filter(|e| e.name == *name).for_each(|e| e.passed(now, zone));
            }
        }
    }

    /// Somebody asked: everything but the schedule is due now.
    pub fn triggered(&mut self, now: Timestamp) {
        self.poll_failures = 0;
        self.poll = self.poll.map(|_| Alarm::after(now, Duration::ZERO));
        self.converge = Alarm::after(now, Duration::ZERO);
    }

    /// The remotes are asked within this time, whatever the interval is; those that did not answer are left alone for as long
    /// as they always are.
    pub fn hasten(&mut self, now: Timestamp, within: Duration) {
        if self.poll_failures > 0 {
            return;
        }
        self.poll =
            self.poll.map(|poll| if poll.at > later(now, within) { Alarm::after(now, within) } else { poll });
    }

    /// How long something that failed so often in a row is left alone: longer each time, and by chance, so that a fleet does
    /// not come back at once.
    pub fn back_off(&mut self, first: Duration, failures: u32, most: Duration) -> Duration {
        self.chance.stretch(doubled(first, failures.saturating_sub(1), most), 500, 1000)
    }

    /// When the next run is due that needs no news: again after a failure, or just so.
    #[must_use]
    pub fn next_run(&self) -> Timestamp {
        self.retry.map_or(self.converge.at, |retry| retry.at.min(self.converge.at))
    }

    /// When the remotes are asked next.
    #[must_use]
    pub fn next_poll(&self) -> Option<Timestamp> {
        self.poll.map(|alarm| alarm.at)
    }

    /// The entry of the schedule that is due next, and when.
    #[must_use]
    pub fn next_entry(&self) -> Option<(&str, Timestamp)> {
        self.entries.iter().filter_map(|e| Some((e.name.as_str(), e.due()?))).min_by_key(|(_, at)| *at)
    }

    /// What must outlive the process.
    #[must_use]
    pub fn saved(&self) -> Saved {
        let entries = self.entries.iter().map(|e| (e.name.clone(), e.noted.clone())).collect();
        Saved { last_run: self.last_run, failures: self.failures, entries }
    }

    /// Writes it, when it changed.
    ///
    /// # Errors
    /// Fails when the file cannot be written; the next call tries again.
    pub fn save(&mut self, path: &Path) -> Result<(), KeptError> {
        let saved = self.saved();
        if saved != self.on_disk {
            kept::write(path, &saved)?;
            self.on_disk = saved;
        }
        Ok(())
    }

    /// The next place on the grid that leaves half an interval after a run.
    fn next_converge(&self, last: Timestamp, now: Timestamp) -> Alarm {
        let at = grid(self.run_every, self.seed, later(last, self.run_every / 2));
        Alarm { at, wait: at.duration_since(now).unsigned_abs().min(self.run_every * 2) }
    }

    fn next_retry(&mut self, now: Timestamp) -> Alarm {
        let first = FIRST_RETRY.min(self.run_every);
        let base = doubled(first, self.failures.saturating_sub(1), self.run_every);
        Alarm::after(now, self.chance.stretch(base, 750, 1250).min(self.run_every))
    }
}

/// A duration doubled so often, up to a bound.
fn doubled(time: Duration, times: u32, most: Duration) -> Duration {
    1_u32.checked_shl(times.min(31)).and_then(|factor| time.checked_mul(factor)).unwrap_or(most).min(most)
}

/// A time so much later, or the last there is.
fn later(at: Timestamp, time: Duration) -> Timestamp {
    at.checked_add(time).unwrap_or(Timestamp::MAX)
}

/// The first place after this on a grid whose offset is decided by the seed.
fn grid(every: Duration, seed: u64, after: Timestamp) -> Timestamp {
    let every = i64::try_from(every.as_millis()).unwrap_or(i64::MAX).max(1);
    let offset = i64::try_from(chance::mix(seed) % every.unsigned_abs()).unwrap_or(0);
    let steps = (after.as_millisecond() - offset).div_euclid(every) + 1;
    let at = steps.checked_mul(every).and_then(|at| at.checked_add(offset));
    at.and_then(|at| Timestamp::from_millisecond(at).ok()).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
