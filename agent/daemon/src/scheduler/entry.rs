//! One entry of `schedule:` in, its due time out.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use zagent_config::settings::{ScheduleTrigger, ScheduledRun, format_duration};

use super::{jitter, saturating_later};

/// A clock set back by more than this was wrong before; by less, it is corrected now and then.
const MAX_CLOCK_SKEW: Duration = Duration::from_secs(60 * 60);

/// Saved state of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ScheduledTime {
    /// Text of the entry when this was computed.
    pub when: String,
    /// Due time.
    pub at: Timestamp,
    /// Last start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Timestamp>,
}

/// An entry and its state.
#[derive(Clone, Debug)]
pub(crate) struct ScheduleEntry {
    pub name: String,
    when: ScheduleTrigger,
    splay: Duration,
    max_running: usize,
    catch_up: bool,
    /// How late it may be before it counts as missed.
    grace: Duration,
    seed: u64,
    running: usize,
    pub scheduled: ScheduledTime,
}

impl ScheduleEntry {
    pub(crate) fn new(
        settings: &ScheduledRun,
        seed: u64,
        grace: Duration,
        saved: Option<ScheduledTime>,
        (now, zone): (Timestamp, &TimeZone),
    ) -> Self {
        let written = match &settings.when {
            ScheduleTrigger::Every(time) => format_duration(*time),
            ScheduleTrigger::Cron(cron) => cron.to_string(),
        };
        let is_known = saved.as_ref().is_some_and(|s| s.when == written);
        let last = saved.as_ref().and_then(|s| s.last);
        let noted = saved.filter(|_| is_known).unwrap_or(ScheduledTime { when: written, at: now, last });
        let mut entry = Self {
            name: settings.name.clone(),
            when: settings.when.clone(),
            splay: settings.splay,
            max_running: settings.maxrunning,
            catch_up: settings.catch_up,
            grace,
            seed: jitter::hash_text(seed, &settings.name),
            running: 0,
            scheduled: noted,
        };
        if !is_known || (!entry.catch_up && entry.is_missed(now, Duration::from_secs(60))) {
            entry.advance(now, zone);
        }
        entry
    }

    /// First occurrence after this time, before its splay.
    fn next_occurrence(&self, after: Timestamp, zone: &TimeZone) -> Timestamp {
        match &self.when {
            ScheduleTrigger::Every(every) => super::next_grid_time(*every, self.seed, after),
            ScheduleTrigger::Cron(cron) => cron.next_after(after, zone).unwrap_or(Timestamp::MAX),
        }
    }

    /// The same occurrence always has the same splay.
    fn add_splay(&self, at: Timestamp) -> Timestamp {
        let number = jitter::mix_bits(self.seed ^ at.as_second().cast_unsigned());
        saturating_later(at, jitter::fraction_of(self.splay, number))
    }

    fn advance(&mut self, now: Timestamp, zone: &TimeZone) {
        // An occurrence whose splay is in the future has already run, or was skipped on purpose.
        self.scheduled.at = self.add_splay(self.next_occurrence(now, zone));
    }

    fn is_missed(&self, now: Timestamp, grace: Duration) -> bool {
        now > saturating_later(self.scheduled.at, grace)
    }

    /// Due time, unless enough instances are running.
    pub(crate) fn due_at(&self) -> Option<Timestamp> {
        (self.running < self.max_running).then_some(self.scheduled.at)
    }

    /// Reads the wall clock, which may have been changed.
    pub(crate) fn adjust_to_clock(&mut self, now: Timestamp, zone: &TimeZone) {
        let last = self.scheduled.last.filter(|last| *last <= saturating_later(now, MAX_CLOCK_SKEW));
        let base = last.map_or(now, |last| last.max(now));
        let latest = saturating_later(self.next_occurrence(base, zone), self.splay);
        if self.scheduled.at > latest || (!self.catch_up && self.is_missed(now, self.grace)) {
            self.advance(base, zone);
        }
    }

    pub(crate) fn mark_started(&mut self, now: Timestamp, zone: &TimeZone) {
        self.running += 1;
        self.scheduled.last = Some(now);
        self.advance(now, zone);
    }

    pub(crate) fn mark_ended(&mut self, now: Timestamp, zone: &TimeZone) {
        match self.running.checked_sub(1) {
            None => {
                self.scheduled.last = Some(now);
                self.advance(now, zone);
            }
            Some(running) => {
                self.running = running;
                if !self.catch_up && self.scheduled.at <= now {
                    self.advance(now, zone);
                }
            }
        }
    }

    pub(crate) fn skip(&mut self, now: Timestamp, zone: &TimeZone) {
        self.advance(now, zone);
    }
}
