//! A date in common notations in, a date and a time of day out.
//!
//! Law: the time of day is the written one. A time zone is read and ignored, as in Salt; a day that a month does
//! not have carries over into the next month (held by `dates_are_read_as_salt_reads_them`,
//! `odd_dates_are_read_as_salt_reads_them`).

use jiff::civil::{Date, DateTime, Time, Weekday};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ToSpan as _};

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const FULL_MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const WEEKDAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
const ZONES: [&str; 24] = [
    "z", "utc", "gmt", "est", "edt", "cst", "cdt", "mst", "mdt", "pst", "pdt", "wet", "west", "cet", "cest",
    "eet", "eest", "msk", "bst", "ist", "jst", "kst", "aest", "nzst",
];

/// Reads a date; `now` gives what the text leaves out. None when it is not a date.
pub(super) fn parse_date<E>(
    text: &str,
    now: impl FnOnce() -> Result<DateTime, E>,
) -> Result<Option<DateTime>, E> {
    let lower = text.trim().to_ascii_lowercase();
    if let Some(seconds) = lower.strip_prefix('@') {
        let at = seconds.parse().ok().and_then(|s| Timestamp::from_second(s).ok());
        return Ok(at.map(|at| TimeZone::UTC.to_datetime(at)));
    }
    let mut found = DateParts::default();
    if lower.is_empty() || !(DateReader { rest: &lower }).read(&mut found) {
        return Ok(None);
    }
    let needs_now = found.day.is_none() || found.year.is_none() || found.time.is_none() && !found.has_date();
    let now = if needs_now { Some(now()?) } else { None };
    Ok(found.resolve(now))
}

/// The parts of a date found in a text.
#[derive(Default)]
struct DateParts {
    year: Option<i16>,
    month: Option<i8>,
    day: Option<i8>,
    time: Option<Time>,
    weekday: Option<Weekday>,
    is_midnight: bool,
    /// Months, days and seconds to add.
    shift: [i64; 3],
}

impl DateParts {
    const fn has_date(&self) -> bool {
        self.day.is_some() || self.weekday.is_some()
    }

    /// Sets the date; false when it is already set.
    const fn date(&mut self, year: Option<i16>, month: i8, day: i8) -> bool {
        if self.day.is_some() || month < 1 || month > 12 || day < 1 || day > 31 {
            return false;
        }
        self.year = year;
        self.month = Some(month);
        self.day = Some(day);
        true
    }

    const fn time(&mut self, time: Option<Time>) -> bool {
        let is_new = self.time.is_none() && time.is_some();
        if is_new {
            self.time = time;
        }
        is_new
    }

    const fn add(&mut self, shift: [i64; 3]) -> bool {
        let [months, days, seconds] = shift;
        self.shift = [self.shift[0] + months, self.shift[1] + days, self.shift[2] + seconds];
        true
    }

    fn resolve(&self, now: Option<DateTime>) -> Option<DateTime> {
        let base = match (self.month, self.day) {
            (Some(month), Some(day)) => {
                let year = self.year.or_else(|| now.map(|n| n.year()))?;
                let first = Date::new(year, month, 1).ok()?;
                first.checked_add(i32::from(day - 1).days()).ok()?
            }
            _ => now?.date(),
        };
        let time = match self.time {
            Some(time) => time,
            None if self.has_date() || self.is_midnight => Time::midnight(),
            None => now?.time(),
        };
        let [months, days, seconds] = self.shift;
        let mut date = base.checked_add(Span::new().try_months(months).ok()?).ok()?;
        if let Some(weekday) = self.weekday {
            let ahead =
                (weekday.to_monday_zero_offset() - date.weekday().to_monday_zero_offset()).rem_euclid(7);
            date = date.checked_add(i32::from(ahead).days()).ok()?;
        }
        let rest = Span::new().try_days(days).ok()?.try_seconds(seconds).ok()?;
        date.to_datetime(time).checked_add(rest).ok()
    }
}

/// The remaining text, in lower case.
#[derive(Clone, Copy)]
struct DateReader<'t> {
    rest: &'t str,
}

type DatePart<'t> = fn(&mut DateReader<'t>, &mut DateParts) -> bool;

impl<'t> DateReader<'t> {
    /// Reads all parts; false when a part is not valid.
    fn read(mut self, found: &mut DateParts) -> bool {
        let parts: [DatePart<'t>; 9] = [
            Self::year_first,
            Self::week,
            Self::day_first,
            Self::month_first,
            Self::clock,
            Self::late_year,
            Self::relative,
            Self::zone,
            Self::word,
        ];
        loop {
            self.rest = self.rest.trim_start_matches([' ', '\t', ',']);
            if self.rest.is_empty() {
                return true;
            }
            let taken = parts.iter().any(|part| {
                let mut attempt = self;
                let taken = part(&mut attempt, found);
                if taken {
                    self = attempt;
                }
                taken
            });
            if !taken {
                return false;
            }
        }
    }

    /// All digits at this position, when their number is in the range.
    fn number(&mut self, digits: std::ops::RangeInclusive<usize>) -> Option<i32> {
        let end = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        if !digits.contains(&end) {
            return None;
        }
        let number = self.rest[..end].parse().ok();
        self.rest = &self.rest[end..];
        number
    }

    fn small_number(&mut self, digits: std::ops::RangeInclusive<usize>) -> Option<i8> {
        self.number(digits).and_then(|n| i8::try_from(n).ok())
    }

    fn one_of(&mut self, chars: &[char]) -> Option<char> {
        let c = self.rest.chars().next().filter(|c| chars.contains(c))?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    fn letters(&mut self) -> &'t str {
        let end = self.rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    fn month(&mut self) -> Option<i8> {
        let word = self.letters();
        let is = |name: &&str| *name == word || word == "sept" && *name == "sep";
        let at = MONTHS.iter().position(is).or_else(|| FULL_MONTHS.iter().position(is))?;
        i8::try_from(at + 1).ok()
    }

    /// A year of two or four digits.
    fn year(&mut self) -> Option<i16> {
        let is_short = self.rest.bytes().take_while(u8::is_ascii_digit).count() == 2;
        let year = i16::try_from(self.number(2..=4)?).ok()?;
        Some(match year {
            0..70 if is_short => year + 2000,
            70..100 if is_short => year + 1900,
            _ => year,
        })
    }

    /// `2020-01-05`, `2020/1/5`, `2020-Jan-05`, `2020-01`, `20200105`.
    fn year_first(&mut self, found: &mut DateParts) -> bool {
        let mut eight = *self;
        if let Some(number) = eight.number(8..=8) {
            self.rest = eight.rest;
            let part = |n: i32| i8::try_from(n % 100).unwrap_or(0);
            return found.date(i16::try_from(number / 10_000).ok(), part(number / 100), part(number));
        }
        let Some(year) = self.number(4..=4).and_then(|y| i16::try_from(y).ok()) else { return false };
        let Some(separator) = self.one_of(&['-', '/']) else { return false };
        let is_name = self.rest.starts_with(|c: char| c.is_ascii_alphabetic());
        let Some(month) = (if is_name { self.month() } else { self.small_number(1..=2) }) else {
            return false;
        };
        let day = if self.one_of(&[separator]).is_some() { self.small_number(1..=2) } else { Some(1) };
        day.is_some_and(|day| found.date(Some(year), month, day))
    }

    /// `2020-W02-3` and `2020.005`.
    fn week(&mut self, found: &mut DateParts) -> bool {
        let Some(year) = self.number(4..=4).and_then(|y| i16::try_from(y).ok()) else { return false };
        let date = if self.one_of(&['.']).is_some() {
            let day = self.number(3..=3);
            day.and_then(|d| Date::new(year, 1, 1).ok()?.checked_add((d - 1).days()).ok())
        } else {
            self.one_of(&['-']);
            let Some(week) = self.one_of(&['w']).and_then(|_| self.small_number(2..=2)) else { return false };
            let day = if self.one_of(&['-']).is_some() { self.small_number(1..=1) } else { Some(1) };
            let day = day.and_then(|d| Weekday::from_monday_one_offset(d).ok());
            day.and_then(|d| jiff::civil::ISOWeekDate::new(year, week, d).ok()).map(|d| d.date())
        };
        date.is_some_and(|d| found.date(Some(d.year()), d.month(), d.day()))
    }

    /// `5 Jan 2020`, `05-Jan-2020`, `05/Jan/2020:`, `01/05/2020`, `5.1.2020`, `05-01-2020`, `1/5`.
    fn day_first(&mut self, found: &mut DateParts) -> bool {
        let Some(first) = self.small_number(1..=2) else { return false };
        self.ordinal();
        let separator = self.one_of(&['-', '/', '.', ' ']);
        self.rest = self.rest.trim_start();
        if self.rest.starts_with(|c: char| c.is_ascii_alphabetic()) {
            let Some(month) = self.month() else { return false };
            let mut after = *self;
            after.rest = after.rest.trim_start_matches(['-', '/', '.', ',', ' ']);
            let year = after.year().filter(|_| !after.rest.starts_with(':') || separator == Some('/'));
            if year.is_some() {
                self.rest = after.rest.strip_prefix(':').unwrap_or(after.rest);
            }
            return found.date(year, month, first);
        }
        let Some(separator) = separator.filter(|s| *s != ' ') else { return false };
        let Some(second) = self.small_number(1..=2) else { return false };
        let mut after = *self;
        let digits = |r: &Self| r.rest.bytes().take_while(u8::is_ascii_digit).count();
        if separator == '-' && after.one_of(&['-']).is_some() && digits(&after) == 2 {
            // Three groups of two digits start with the year.
            let year = i16::from(first) + if first < 70 { 2000 } else { 1900 };
            let Some(third) = after.small_number(2..=2) else { return false };
            self.rest = after.rest;
            return found.date(Some(year), second, third);
        }
        after = *self;
        let year = after.one_of(&[separator]).and_then(|_| after.year());
        if year.is_some() {
            self.rest = after.rest;
        }
        match (separator, year) {
            ('/', _) => found.date(year, first, second),
            (_, Some(_)) => found.date(year, second, first),
            _ => false,
        }
    }

    fn ordinal(&mut self) {
        for ending in ["st", "nd", "rd", "th"] {
            if let Some(rest) = self.rest.strip_prefix(ending) {
                self.rest = rest;
                return;
            }
        }
    }

    /// `Jan 5, 2020`, `January 5th`, `Jan 2020`.
    fn month_first(&mut self, found: &mut DateParts) -> bool {
        let Some(month) = self.month() else { return false };
        self.rest = self.rest.trim_start_matches([' ', '-', '.']);
        let mut four = *self;
        if let Some(year) = four.number(4..=4) {
            self.rest = four.rest;
            return found.date(i16::try_from(year).ok(), month, 1);
        }
        let Some(day) = self.small_number(1..=2) else { return false };
        self.ordinal();
        let mut after = *self;
        after.rest = after.rest.trim_start_matches([' ', ',', '-', '.']);
        let year = after.number(4..=4).filter(|_| !after.rest.starts_with(':'));
        if year.is_some() {
            self.rest = after.rest;
        }
        found.date(year.and_then(|y| i16::try_from(y).ok()), month, day)
    }

    /// The year after the time: `Sun Jan  5 10:00:00 2020`.
    fn late_year(&mut self, found: &mut DateParts) -> bool {
        if found.day.is_none() || found.year.is_some() {
            return false;
        }
        found.year = self.number(4..=4).and_then(|y| i16::try_from(y).ok());
        found.year.is_some()
    }

    /// `10:00`, `10:00:00.5`, `3pm`, `10:00 p.m.`, `t10:11`, `t101112`.
    fn clock(&mut self, found: &mut DateParts) -> bool {
        let is_marked = self.one_of(&['t']).is_some();
        let mut plain = *self;
        if let Some(digits) = plain.number(4..=6).filter(|_| is_marked && found.day.is_some()) {
            let is_long = self.rest.len() - plain.rest.len() == 6;
            self.rest = plain.rest;
            let (h, m, s) = if is_long {
                (digits / 10_000, digits / 100 % 100, digits % 100)
            } else {
                (digits / 100, digits % 100, 0)
            };
            return found.time(clock_time(h, m, s));
        }
        let Some(mut hour) = self.number(1..=2) else { return false };
        let (mut minute, mut second) = (0, 0);
        let has_minutes = self.one_of(&[':']).is_some();
        if has_minutes {
            let Some(m) = self.number(2..=2) else { return false };
            minute = m;
            if self.one_of(&[':']).is_some() {
                let Some(s) = self.number(2..=2) else { return false };
                second = s;
                if self.one_of(&['.']).is_some() && self.number(1..=9).is_none() {
                    return false;
                }
            }
        }
        match self.am_pm() {
            Some(_) if !(1..=12).contains(&hour) => return false,
            Some(is_afternoon) => hour = hour % 12 + if is_afternoon { 12 } else { 0 },
            None if !has_minutes => return false,
            None => {}
        }
        found.time(clock_time(hour, minute, second))
    }

    /// `am` and `pm`: true for the afternoon.
    fn am_pm(&mut self) -> Option<bool> {
        let mut after = *self;
        after.rest = after.rest.trim_start();
        let is_afternoon = after.one_of(&['a', 'p'])? == 'p';
        after.one_of(&['.']);
        after.one_of(&['m'])?;
        after.one_of(&['.']);
        if after.rest.starts_with(|c: char| c.is_ascii_alphanumeric()) {
            return None;
        }
        *self = after;
        Some(is_afternoon)
    }

    /// `+1 day`, `-2 weeks`.
    fn relative(&mut self, found: &mut DateParts) -> bool {
        let Some(sign) = self.one_of(&['+', '-']) else { return false };
        self.rest = self.rest.trim_start();
        let Some(amount) = self.number(1..=6) else { return false };
        let amount = i64::from(if sign == '-' { -amount } else { amount });
        self.rest = self.rest.trim_start();
        let unit = self.letters();
        found.add(match unit.strip_suffix('s').unwrap_or(unit) {
            "sec" | "second" => [0, 0, amount],
            "min" | "minute" => [0, 0, amount * 60],
            "hour" => [0, 0, amount * 3600],
            "day" => [0, amount, 0],
            "week" => [0, amount * 7, 0],
            "fortnight" => [0, amount * 14, 0],
            "month" => [amount, 0, 0],
            "year" => [amount * 12, 0, 0],
            _ => return false,
        })
    }

    /// `Z`, `+02:00`, `-0530`, `GMT+2`, `EST`.
    fn zone(&mut self, found: &mut DateParts) -> bool {
        if found.day.is_none() && found.time.is_none() {
            return false;
        }
        let named = ZONES.contains(&self.letters());
        if self.one_of(&['+', '-']).is_none() {
            return named;
        }
        let Some(_) = self.number(1..=4) else { return false };
        self.one_of(&[':']).is_none() || self.number(2..=2).is_some()
    }

    /// Weekdays, and words for days.
    fn word(&mut self, found: &mut DateParts) -> bool {
        let word = self.letters();
        self.one_of(&['.']);
        match word {
            "now" => true,
            "today" | "midnight" => {
                found.is_midnight = true;
                true
            }
            "noon" => found.time(clock_time(12, 0, 0)),
            "tomorrow" | "yesterday" => {
                found.is_midnight = true;
                found.add([0, if word == "tomorrow" { 1 } else { -1 }, 0])
            }
            _ if word.len() < 3 => false,
            _ => {
                let is = |day: &&str| {
                    **day == *word || day[..3] == *word || word == "tues" && day.starts_with("tue")
                };
                let Some(at) = WEEKDAYS.iter().position(is) else { return false };
                found.weekday = i8::try_from(at).ok().and_then(|d| Weekday::from_monday_zero_offset(d).ok());
                found.weekday.is_some()
            }
        }
    }
}

fn clock_time(hour: i32, minute: i32, second: i32) -> Option<Time> {
    let small = |n| i8::try_from(n).ok();
    Time::new(small(hour)?, small(minute)?, small(second)?, 0).ok()
}

#[cfg(test)]
mod tests;
