//! A crontab field in, whether a cron accepts it out.
//!
//! Law: what any cron accepts passes, and also what zagent resolves before cron sees it: `random`, and `5:10` for a
//! value in that range (held by `fields_accept_what_a_cron_accepts`).

/// What a field may contain.
#[derive(Clone, Copy, Debug)]
pub(super) struct CrontabField {
    low: u32,
    high: u32,
    /// The names of the numbers, from the lowest.
    names: &'static [&'static str],
}

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// Minute, hour, day of the month, month and day of the week, in their order.
pub(super) const FIELDS: [CrontabField; 5] = [
    CrontabField { low: 0, high: 59, names: &[] },
    CrontabField { low: 0, high: 23, names: &[] },
    CrontabField { low: 1, high: 31, names: &[] },
    CrontabField { low: 1, high: 12, names: &MONTHS },
    CrontabField { low: 0, high: 7, names: &DAYS },
];

impl CrontabField {
    /// True when the text is valid in it.
    pub(super) fn accepts(self, text: &str) -> bool {
        let text = text.trim().to_ascii_lowercase();
        if text == "random" {
            return true;
        }
        if let Some((from, to)) = text.split_once(':') {
            return self.is_number(from) && self.is_number(to);
        }
        text.split(',').all(|part| self.is_part(part))
    }

    /// One of a list: all, a number or a range, each with an optional step.
    fn is_part(self, part: &str) -> bool {
        let (range, step) = part.split_once('/').map_or((part, None), |(range, step)| (range, Some(step)));
        let is_range = match range.split_once(['-', '~']) {
            Some((from, to)) => self.is_value(from) && self.is_value(to),
            None => range == "*" || self.is_value(range),
        };
        is_range && step.is_none_or(|step| step.parse::<u32>().is_ok_and(|step| step > 0))
    }

    fn is_value(self, text: &str) -> bool {
        self.is_number(text) || self.names.contains(&text)
    }

    fn is_number(self, text: &str) -> bool {
        text.bytes().all(|b| b.is_ascii_digit())
            && text.parse().is_ok_and(|number: u32| (self.low..=self.high).contains(&number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_accept_what_a_cron_accepts() {
        let [minute, hour, daymonth, month, dayweek] = FIELDS;
        for (field, good, bad) in [
            (
                minute,
                "* 0 59 */5 1-5 1-30/2 0,15,30 random 5:10 RANDOM 10~20",
                "60 99 abc 5- -5 */0 */x 1,,2 @daily +5",
            ),
            (hour, "23 0-7 08", "24 abc 1:24"),
            (daymonth, "1 31 */2", "0 32"),
            (month, "12 jan JAN-mar dec,jun", "0 13 january mon"),
            (dayweek, "0 7 mon-fri SUN", "8 monday jan"),
        ] {
            for (texts, fits) in [(good, true), (bad, false)] {
                for text in texts.split(' ') {
                    assert_eq!(field.accepts(text), fits, "{text}");
                }
            }
        }
    }
}
