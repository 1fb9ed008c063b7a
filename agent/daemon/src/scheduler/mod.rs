//! Settings, seed and events in, next due action out: polls, runs without a new revision, retries, entries of
//! `schedule:`.
//!
//! Law: pure. Time and seed are arguments, nothing waits, and only [`SchedulerState`] is written. Even when the
//! wall clock jumps by years, something is always due within one interval, and each action once (held by
//! `pure_modules_do_not_touch_the_machine`, `clocks_that_are_set_neither_stop_nor_storm_it`).
//!
//! A fleet that boots at once spreads out: the machine ID decides the offset of the first poll, and each
//! further poll comes after a random half to one and a half intervals. Runs without a new revision are on a
//! grid with an offset per machine; a run shortly before its grid time replaces that one.

pub(crate) mod entry;
pub(crate) mod jitter;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use zagent_config::backoff::Backoff;
use zagent_config::settings::Settings;

use self::entry::ScheduleEntry;
use self::jitter::Jitter;
use zagent_config::json_file;
use zagent_config::json_file::JsonFileError;
use zagent_config::sorted::CollectSorted;

pub(crate) use self::entry::ScheduledTime;

/// Maximum backoff after failures, unless the poll interval is longer.
const MAX_BACKOFF: Duration = Duration::from_secs(15 * 60);
/// Maximum delay that a remote can request.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60 * 60);
/// Delay between the first failed run and its retry.
const RETRY_BASE_DELAY: Duration = Duration::from_secs(60);

/// A due action.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DueAction {
    /// Poll the remotes.
    Poll,
    /// Retry a failed run.
    Retry,
    /// Run without a new revision.
    Converge,
    /// Run a schedule entry, by name.
    Entry(String),
}

/// Result of a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PollResult {
    /// Nothing new.
    Nothing,
    /// A new revision.
    NewRevision,
    /// No answer.
    Failed {
        /// Delay requested by the remote.
        retry_after: Option<Duration>,
    },
}

/// State that survives the process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SchedulerState {
    /// End of the last run.
    pub last_run: Option<Timestamp>,
    /// Number of consecutive failed runs.
    pub failures: u32,
    /// Schedule entries, by name.
    pub entries: BTreeMap<String, ScheduledTime>,
}

impl SchedulerState {
    /// Reads it; empty when there is none.
    ///
    /// # Errors
    /// Fails when the file is damaged or cannot be read. It is safe to continue with an empty state: entries
    /// are then computed again.
    pub(crate) fn read(path: &Path) -> Result<Self, JsonFileError> {
        Ok(json_file::read(path)?.unwrap_or_default())
    }
}

/// A time, and the delay with which it was set: a clock set back cannot move it further away than that.
#[derive(Clone, Copy, Debug)]
struct Timer {
    at: Timestamp,
    wait: Duration,
}

impl Timer {
    fn start_after(now: Timestamp, wait: Duration) -> Self {
        Self { at: saturating_later(now, wait), wait }
    }

    fn clamp_clock_jump(&mut self, now: Timestamp) {
        self.at = self.at.min(saturating_later(now, self.wait));
    }
}

/// What is due, and when.
#[derive(Clone, Debug)]
pub(crate) struct Scheduler {
    poll_every: Duration,
    run_every: Duration,
    seed: u64,
    jitter: Jitter,
    zone: TimeZone,
    /// None without remotes.
    poll: Option<Timer>,
    poll_failures: u32,
    converge: Timer,
    retry: Option<Timer>,
    last_run: Option<Timestamp>,
    failures: u32,
    entries: Vec<ScheduleEntry>,
    /// Content of the file.
    saved: SchedulerState,
}

impl Scheduler {
    /// Creates a scheduler; `seed` is fixed per machine, `zone` applies to cron expressions.
    #[must_use]
    pub(crate) fn new(
        settings: &Settings,
        seed: u64,
        zone: TimeZone,
        saved: SchedulerState,
        now: Timestamp,
    ) -> Self {
        let (poll_every, run_every) = (settings.source.poll, settings.run.every);
        let first = jitter::fraction_of(poll_every, jitter::hash_text(seed, "poll"));
        let grace = settings.run.timeout.max(Duration::from_secs(60));
        let mut left = saved.entries.clone();
        let entries = settings.schedule.iter();
        let entries =
            entries.map(|e| ScheduleEntry::new(e, seed, grace, left.remove(&e.name), (now, &zone))).collect();
        let mut clock = Self {
            poll_every,
            run_every,
            seed,
            jitter: Jitter::new(jitter::mix_bits(seed ^ now.as_second().cast_unsigned())),
            poll: (!settings.source.remotes.is_empty()).then(|| Timer::start_after(now, first)),
            poll_failures: 0,
            converge: Timer::start_after(now, first.min(run_every)),
            retry: None,
            last_run: saved.last_run.filter(|last| *last <= now),
            failures: saved.failures,
            entries,
            saved,
            zone,
        };
        // After a longer gap than normal, the next run comes with the first poll.
        let is_recent = |last: &Timestamp| saturating_later(*last, run_every + run_every / 2) > now;
        if let Some(last) = clock.last_run.filter(is_recent) {
            clock.converge = clock.next_converge(last, now);
        }
        if clock.failures > 0 {
            clock.retry = Some(clock.next_retry(now));
        }
        clock
    }

    /// Next due action and its time; in the past when overdue. Actions due at the same time are ordered:
    /// poll, retry, converge, entries by name.
    pub(crate) fn next(&mut self, now: Timestamp) -> (Timestamp, DueAction) {
        self.clamp_clock_jumps(now);
        let poll = self.poll.map(|alarm| (alarm.at, DueAction::Poll));
        let retry = self.retry.map(|alarm| (alarm.at, DueAction::Retry));
        let converge = (self.converge.at, DueAction::Converge);
        let entries =
            self.entries.iter().filter_map(|e| Some((e.due_at()?, DueAction::Entry(e.name.clone()))));
        // Everything overdue is due now: the order of actions decides, not how long each has waited.
        let place = |(at, due): &(Timestamp, DueAction)| ((*at).max(now), due.clone());
        entries
            .chain(poll)
            .chain(retry)
            .min_by_key(place)
            .filter(|e| place(e) < place(&converge))
            .unwrap_or(converge)
    }

    /// Brings back into range everything that a clock set back has moved far away.
    fn clamp_clock_jumps(&mut self, now: Timestamp) {
        let alarms = self.poll.iter_mut().chain(self.retry.iter_mut()).chain([&mut self.converge]);
        alarms.for_each(|alarm| alarm.clamp_clock_jump(now));
        let zone = &self.zone;
        self.entries.iter_mut().for_each(|entry| entry.adjust_to_clock(now, zone));
    }

    /// Handles the end of a poll.
    pub(crate) fn poll_ended(&mut self, now: Timestamp, polled: PollResult) {
        if self.poll.is_none() {
            return;
        }
        let wait = match polled {
            PollResult::Nothing | PollResult::NewRevision => {
                self.poll_failures = 0;
                self.jitter.scale_randomly(self.poll_every, 500, 1500)
            }
            PollResult::Failed { retry_after } => {
                self.poll_failures = self.poll_failures.saturating_add(1);
                let most = MAX_BACKOFF.max(self.poll_every);
                let backoff = Backoff::new(self.poll_every, most);
                let own = backoff.half_jitter(self.poll_failures, self.jitter.next_number());
                // A whole fleet gets the same delay: it must not come back at the same moment.
                let asked = retry_after.map(|time| time.min(MAX_RETRY_AFTER));
                asked.map_or(own, |asked| own.max(self.jitter.scale_randomly(asked, 1000, 1100)))
            }
        };
        self.poll = Some(Timer::start_after(now, wait));
    }

    /// Handles the end of a run, whatever triggered it; `news` for the first run of a new revision.
    pub(crate) fn run_ended(&mut self, now: Timestamp, ok: bool, news: bool) {
        self.last_run = Some(now);
        self.converge = self.next_converge(now, now);
        self.failures = match (ok, news) {
            (true, _) => 0,
            (false, true) => 1,
            (false, false) => self.failures.saturating_add(1),
        };
        self.retry = (!ok).then(|| self.next_retry(now));
    }

    /// An entry is about to run. Saved before it starts: an entry that kills the agent is not started again.
    pub(crate) fn entry_started(&mut self, name: &str, now: Timestamp) {
        let zone = &self.zone;
        self.entries.iter_mut().filter(|e| e.name == name).for_each(|e| e.mark_started(now, zone));
    }

    /// Handles the end of an entry.
    pub(crate) fn entry_ended(&mut self, name: &str, now: Timestamp) {
        let zone = &self.zone;
        self.entries.iter_mut().filter(|e| e.name == name).for_each(|e| e.mark_ended(now, zone));
    }

    /// Something due is skipped (the agent is paused, no window is open): it is due again at its next time.
    pub(crate) fn skip_due(&mut self, due: &DueAction, now: Timestamp) {
        match due {
            DueAction::Poll => self.poll_ended(now, PollResult::Nothing),
            DueAction::Retry => self.retry = Some(self.next_retry(now)),
            DueAction::Converge => self.converge = self.next_converge(now, now),
            DueAction::Entry(name) => {
                let zone = &self.zone;
                self.entries.iter_mut().filter(|e| e.name == *name).for_each(|e| e.skip(now, zone));
            }
        }
    }

    /// A request: everything except the schedule is due now.
    pub(crate) fn trigger_now(&mut self, now: Timestamp) {
        self.poll_failures = 0;
        self.poll = self.poll.map(|_| Timer::start_after(now, Duration::ZERO));
        self.converge = Timer::start_after(now, Duration::ZERO);
    }

    /// Polls within this time, whatever the interval is; failing remotes keep their backoff.
    pub(crate) fn poll_within(&mut self, now: Timestamp, within: Duration) {
        if self.poll_failures > 0 {
            return;
        }
        self.poll = self.poll.map(|poll| {
            if poll.at > saturating_later(now, within) { Timer::start_after(now, within) } else { poll }
        });
    }

    /// Backoff after consecutive failures: longer each time, and random, so that a fleet does not come back
    /// at once.
    pub(crate) fn backoff_delay(&mut self, first: Duration, failures: u32, most: Duration) -> Duration {
        Backoff::new(first, most).half_jitter(failures.saturating_sub(1), self.jitter.next_number())
    }

    /// Time of the next run without a new revision: a retry or a scheduled one.
    #[must_use]
    pub(crate) fn next_run(&self) -> Timestamp {
        self.retry.map_or(self.converge.at, |retry| retry.at.min(self.converge.at))
    }

    /// Time of the next poll.
    #[must_use]
    pub(crate) fn next_poll(&self) -> Option<Timestamp> {
        self.poll.map(|alarm| alarm.at)
    }

    /// Next schedule entry and its time.
    #[must_use]
    pub(crate) fn next_entry(&self) -> Option<(&str, Timestamp)> {
        self.entries.iter().filter_map(|e| Some((e.name.as_str(), e.due_at()?))).min_by_key(|(_, at)| *at)
    }

    /// State that must survive the process.
    #[must_use]
    pub(crate) fn state_to_save(&self) -> SchedulerState {
        let entries = self.entries.iter().map(|e| (e.name.clone(), e.scheduled.clone())).into_map();
        SchedulerState { last_run: self.last_run, failures: self.failures, entries }
    }

    /// Writes it, when it changed.
    ///
    /// # Errors
    /// Fails when the file cannot be written; the next call tries again.
    pub(crate) fn save(&mut self, path: &Path) -> Result<(), JsonFileError> {
        let saved = self.state_to_save();
        if saved != self.saved {
            json_file::write(path, &saved)?;
            self.saved = saved;
        }
        Ok(())
    }

    /// Next grid time that leaves half an interval after a run.
    fn next_converge(&self, last: Timestamp, now: Timestamp) -> Timer {
        let at = next_grid_time(self.run_every, self.seed, saturating_later(last, self.run_every / 2));
        Timer { at, wait: at.duration_since(now).unsigned_abs().min(self.run_every * 2) }
    }

    fn next_retry(&mut self, now: Timestamp) -> Timer {
        let first = RETRY_BASE_DELAY.min(self.run_every);
        let base = Backoff::new(first, self.run_every).delay(self.failures.saturating_sub(1));
        Timer::start_after(now, self.jitter.scale_randomly(base, 750, 1250).min(self.run_every))
    }
}

/// A later time, or the last possible one.
fn saturating_later(at: Timestamp, time: Duration) -> Timestamp {
    at.checked_add(time).unwrap_or(Timestamp::MAX)
}

/// First time after this on a grid with an offset from the seed.
fn next_grid_time(every: Duration, seed: u64, after: Timestamp) -> Timestamp {
    let every = i64::try_from(every.as_millis()).unwrap_or(i64::MAX).max(1);
    let offset = i64::try_from(jitter::mix_bits(seed) % every.unsigned_abs()).unwrap_or(0);
    let steps = (after.as_millisecond() - offset).div_euclid(every) + 1;
    let at = steps.checked_mul(every).and_then(|at| at.checked_add(offset));
    at.and_then(|at| Timestamp::from_millisecond(at).ok()).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
pub(crate) mod tests;
