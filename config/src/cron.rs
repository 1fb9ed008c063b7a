//! A cron expression (`0 3 * * mon-fri`, `@daily`) in, the next minute it matches out.
//!
//! Law: a [`CronSchedule`] always has a next time, and the search for it ends. When a clock change skips an hour,
//! the run starts once, at the first minute after the gap; when it repeats an hour, the run starts once. A schedule
//! that runs every hour follows elapsed time instead: no run is made up for, and a repeated hour counts as a normal
//! hour (held by `a_skipped_hour_runs_once_after_it`, `a_repeated_hour_runs_once_unless_every_hour_does`,
//! `it_agrees_with_a_walk_over_the_minutes`).

mod field;

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use jiff::civil::{Date, Time};
use jiff::tz::{AmbiguousOffset, TimeZone};

use self::field::{CronField, DAY, HOUR, MINUTE, MONTH, WEEKDAY};

/// After this many days every date has fallen on every weekday, even around a century year without a leap day.
const HORIZON_DAYS: u32 = 41 * 366;

/// Short forms and what they stand for.
const NICKNAMES: [(&str, &str); 7] = [
    ("@hourly", "0 * * * *"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@weekly", "0 0 * * 0"),
    ("@monthly", "0 0 1 * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
];

/// Minutes of the calendar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronSchedule {
    text: String,
    minutes: CronField,
    hours: CronField,
    days: CronField,
    months: CronField,
    weekdays: CronField,
}

/// Why a text is not a valid cron expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CronError {
    /// What is wrong.
    pub message: String,
    /// Where in the text, in characters from zero.
    pub at: usize,
    /// How to fix it.
    pub hint: String,
}

impl CronError {
    fn new(at: usize, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), at, hint: hint.into() }
    }
}

impl FromStr for CronSchedule {
    type Err = CronError;

    fn from_str(text: &str) -> Result<Self, CronError> {
        let cron = Self::parse(text)?;
        // From a fixed day, so that validation does not depend on the current date.
        if cron.next_after(Timestamp::UNIX_EPOCH, &TimeZone::UTC).is_none() {
            let message = format!("`{text}` never runs: none of its months has such a day");
            return Err(CronError::new(0, message, "check the day of the month and the month"));
        }
        Ok(cron)
    }
}

impl fmt::Display for CronSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl CronSchedule {
    fn parse(text: &str) -> Result<Self, CronError> {
        const SHAPE: &str =
            "write minute, hour, day of the month, month and day of the week, such as `0 3 * * *`";
        let trimmed = text.trim();
        let long = match trimmed.strip_prefix('@') {
            None => text,
            Some(_) => {
                let found = NICKNAMES.iter().find(|(name, _)| trimmed.eq_ignore_ascii_case(name));
                let names = NICKNAMES.map(|(name, _)| format!("`{name}`")).join(", ");
                let unknown = || {
                    CronError::new(
                        0,
                        format!("unknown short form `{trimmed}`"),
                        format!("use one of {names}"),
                    )
                };
                found.ok_or_else(unknown)?.1
            }
        };
        let words = split_fields(long);
        let [minutes, hours, days, months, weekdays] = words[..] else {
            let message = format!("`{trimmed}` has {} fields, not five", words.len());
            return Err(CronError::new(0, message, SHAPE));
        };
        Ok(Self {
            text: trimmed.to_owned(),
            minutes: MINUTE.parse(minutes)?,
            hours: HOUR.parse(hours)?,
            days: DAY.parse(days)?,
            months: MONTH.parse(months)?,
            weekdays: WEEKDAY.parse(weekdays)?,
        })
    }

    /// True on a date that it matches. As in cron, when both a day of the month and a day of the week are given, a match of
    /// either is enough.
    fn matches_date(&self, date: Date) -> bool {
        let day = self.days.contains(date.day().unsigned_abs());
        let weekday = self.weekdays.contains(date.weekday().to_sunday_zero_offset().unsigned_abs());
        let both = !self.days.is_star && !self.weekdays.is_star;
        self.months.contains(date.month().unsigned_abs())
            && if both { day || weekday } else { day && weekday }
    }

    /// The first time after this one; `None` only at the end of the calendar.
    #[must_use]
    pub fn next_after(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        // One day earlier: clocks can be set back across midnight.
        let today = zone.to_datetime(after).date();
        let mut date = today.yesterday().unwrap_or(today);
        for _ in 0..HORIZON_DAYS {
            if let Some(found) = self.first_on_date(date, after, zone) {
                // Clocks set back across midnight mix two days.
                let other = date.tomorrow().ok().and_then(|next| self.first_on_date(next, after, zone));
                return Some(other.map_or(found, |other| other.min(found)));
            }
            date = date.tomorrow().ok()?;
        }
        None
    }

    /// The first time on one date that is after this.
    fn first_on_date(&self, date: Date, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        if !self.matches_date(date) {
            return None;
        }
        let minutes =
            self.hours.values().flat_map(|hour| self.minutes.values().map(move |minute| (hour, minute)));
        let times = minutes.filter_map(|(hour, minute)| {
            let time = Time::new(i8::try_from(hour).ok()?, i8::try_from(minute).ok()?, 0, 0).ok()?;
            self.wall_time_after(date, time, after, zone)
        });
        times.min()
    }

    /// The instant of a local time, when it is after this.
    fn wall_time_after(
        &self,
        date: Date,
        time: Time,
        after: Timestamp,
        zone: &TimeZone,
    ) -> Option<Timestamp> {
        let ambiguous = zone.to_ambiguous_timestamp(date.to_datetime(time));
        let first = match ambiguous.offset() {
            AmbiguousOffset::Gap { .. } if self.is_hourly() => return None,
            AmbiguousOffset::Gap { .. } => end_of_gap(ambiguous.compatible().ok()?, zone)?,
            AmbiguousOffset::Fold { .. } if self.is_hourly() => {
                let first = ambiguous.earlier().ok()?;
                if first > after { first } else { ambiguous.later().ok()? }
            }
            _ => ambiguous.earlier().ok()?,
        };
        (first > after).then_some(first)
    }

    fn is_hourly(&self) -> bool {
        self.hours.is_star
    }
}

/// The moment at which clocks were set forward: the last change at or before this.
pub fn end_of_gap(inside: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
    let next = inside.checked_add(jiff::SignedDuration::from_secs(1)).ok()?;
    let change = zone.preceding(next).next().map(|change| change.timestamp());
    Some(change.unwrap_or(inside))
}

/// The words of a text and where each begins, in characters.
fn split_fields(text: &str) -> Vec<(usize, &str)> {
    let mut out: Vec<(usize, &str)> = Vec::new();
    let mut rest = text;
    let mut at = 0;
    while let Some(begin) = rest.find(|c: char| !c.is_whitespace()) {
        at += rest[..begin].chars().count();
        rest = &rest[begin..];
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        out.push((at, &rest[..end]));
        at += rest[..end].chars().count();
        rest = &rest[end..];
    }
    out
}

#[cfg(test)]
mod tests;
