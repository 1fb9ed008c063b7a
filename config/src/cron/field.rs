//! One field of a cron expression in, the set of its numbers out.

use super::CronError;

/// What one of the five fields accepts.
pub(super) struct CronFieldSpec {
    name: &'static str,
    min: u8,
    max: u8,
    /// Names for numbers, the first for `min`.
    names: &'static [&'static str],
}

pub(super) const MINUTE: CronFieldSpec = CronFieldSpec { name: "minute", min: 0, max: 59, names: &[] };
pub(super) const HOUR: CronFieldSpec = CronFieldSpec { name: "hour", min: 0, max: 23, names: &[] };
pub(super) const DAY: CronFieldSpec = CronFieldSpec { name: "day of the month", min: 1, max: 31, names: &[] };
pub(super) const MONTH: CronFieldSpec = CronFieldSpec {
    name: "month",
    min: 1,
    max: 12,
    names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
};
/// Sunday is 0, and 7 too.
pub(super) const WEEKDAY: CronFieldSpec = CronFieldSpec {
    name: "day of the week",
    min: 0,
    max: 7,
    names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"],
};

/// Numbers below 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CronField {
    bits: u64,
    /// True when it was written with a star: it does not restrict anything.
    pub(super) is_star: bool,
}

impl CronField {
    pub(super) fn contains(self, number: u8) -> bool {
        number < 64 && self.bits & (1 << number) != 0
    }

    /// All of them, the smallest first.
    pub(super) fn values(self) -> impl Iterator<Item = u8> {
        (0..64).filter(move |n| self.contains(*n))
    }
}

impl CronFieldSpec {
    pub(super) fn parse(&self, (at, word): (usize, &str)) -> Result<CronField, CronError> {
        let mut field = CronField { bits: 0, is_star: word.starts_with('*') };
        let mut begin = at;
        for part in word.split(',') {
            field.bits |= self.parse_part(begin, part)?;
            begin += part.chars().count() + 1;
        }
        if self.max == 7 && field.contains(7) {
            field.bits = (field.bits & !(1 << 7)) | 1;
        }
        Ok(field)
    }

    /// `*`, `5`, `1-5`, each with `/2` or without.
    fn parse_part(&self, at: usize, part: &str) -> Result<u64, CronError> {
        let (range, step) = part.split_once('/').map_or((part, None), |(range, step)| (range, Some(step)));
        let (first, last) = match range.split_once('-') {
            None if range == "*" => (self.min, if self.max == 7 { 6 } else { self.max }),
            Some((first, last)) => (self.parse_number(at, first, false)?, self.parse_number(at, last, true)?),
            // `5/15` runs to the end of the range, as in other cron implementations that accept it.
            None if step.is_some() => (self.parse_number(at, range, false)?, self.max),
            None => {
                let only = self.parse_number(at, range, false)?;
                (only, only)
            }
        };
        if first > last {
            let message = format!("the {} range `{range}` ends before it starts", self.name);
            return Err(CronError::new(at, message, "write it as two ranges with a comma between them"));
        }
        let step = match step {
            None => 1,
            Some(text) => text.parse::<u8>().ok().filter(|n| *n > 0).ok_or_else(|| {
                let message = format!("`{text}` is not a valid step for the {}", self.name);
                CronError::new(at, message, "write a step such as `*/15`")
            })?,
        };
        Ok((first..=last).step_by(step.into()).fold(0, |bits, n| bits | 1 << n))
    }

    fn parse_number(&self, at: usize, text: &str, is_end: bool) -> Result<u8, CronError> {
        let name = self.names.iter().position(|name| text.eq_ignore_ascii_case(name));
        if let Some(number) = name.and_then(|i| u8::try_from(i).ok()) {
            // In `fri-sun`, Sunday is the end of the week.
            let is_last_sunday = is_end && self.max == 7 && number == 0;
            return Ok(if is_last_sunday { 7 } else { self.min + number });
        }
        let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let number = if digits { text.parse::<u8>().ok() } else { None };
        number.filter(|n| (self.min..=self.max).contains(n)).ok_or_else(|| {
            let names = match self.names {
                [] => String::new(),
                names => format!(", or a name such as `{}`", names[0]),
            };
            let message = format!("`{text}` is not a valid {}", self.name);
            CronError::new(at, message, format!("use {} to {}{names}", self.min, self.max))
        })
    }
}
