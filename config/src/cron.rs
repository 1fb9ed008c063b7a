//! Five words of cron to times: `0 3 * * mon-fri` and `@daily` in, the next minute that they name out.
//!
//! Law: a value of [`CronSchedule`] always comes again, and the search for it ends. An hour that a change of clocks skips runs once, at
//! the first minute after it; one that it repeats runs once. What runs in every hour goes by elapsed time instead: nothing is
//! made up for, and the repeated hour is an hour like any other.

mod field;

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use jiff::civil::{Date, Time};
use jiff::tz::{AmbiguousOffset, TimeZone};

use self::field::{CronField, DAY, HOUR, MINUTE, MONTH, WEEKDAY};

/// After so many days every date has met every weekday, also around a year without a leap day.
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

/// Why a text is no cron expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CronError {
    /// What is wrong.
    pub message: String,
    /// Where in the text, in characters from zero.
    pub at: usize,
    /// A way out.
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
        // From a fixed day, so that what is accepted does not depend on when it is read.
        if cron.next_after(Timestamp::UNIX_EPOCH, &TimeZone::UTC).is_none() {
            let message = format!("`{text}` never comes: no month it names has such a day");
            return Err(CronError::new(0, message, "look at the day of the month and the month"));
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
                let unknown =
                    || CronError::new(0, format!("there is no `{trimmed}`"), format!("there is {names}"));
                found.ok_or_else(unknown)?.1
            }
        };
        let words = split_fields(long);
        let [minutes, hours, days, months, weekdays] = words[..] else {
            let message = format!("`{trimmed}` has {} fields instead of five", words.len());
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

    /// True on a date that it names. As ever with cron, when both a day of the month and a day of the week are given, either
    /// will do.
    fn matches_date(&self, date: Date) -> bool {
        let day = self.days.contains(date.day().unsigned_abs());
        let weekday = self.weekdays.contains(date.weekday().to_sunday_zero_offset().unsigned_abs());
        let both = !self.days.is_star && !self.weekdays.is_star;
        self.months.contains(date.month().unsigned_abs())
            && if both { day || weekday } else { day && weekday }
    }

    /// The first time after this one; none only where the calendar itself ends.
    #[must_use]
    pub fn next_after(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        // A day earlier, for clocks that are set back over midnight.
        let today = zone.to_datetime(after).date();
        let mut date = today.yesterday().unwrap_or(today);
        for _ in 0..HORIZON_DAYS {
            if let Some(found) = self.first_on_date(date, after, zone) {
                // Clocks set back over midnight mix two days.
                let other = date.tomorrow().ok().and_then(|next| self.first_on_date(next, after, zone));
                return Some(other.map_or(found, |other| other.min(found)));
            }
            date = date.tomorrow().ok()?;
        }
        None
    }

    /// The first time of one date that is after this.
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

    /// When a time on the wall is after this, if it ever is.
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
