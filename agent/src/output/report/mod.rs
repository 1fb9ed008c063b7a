//! The report of a run in, its print out: text for people, JSON, YAML, lines of JSON, or Salt's layout.
//!
//! Law: every print is made from one [`Sheet`], and no text leaves a sheet without its mask.

mod data;
mod highstate;
mod json;
mod skips;
mod tally;
mod text;

pub use highstate::{nested, refusal};
pub use tally::Tally;
pub use text::{seconds, short};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use zagent_config::Value;

use super::{Mask, Paint, ReportFormat, yaml};
use crate::run::{Outcome, Report};

/// A report and what printing it needs to know.
#[derive(Clone, Debug)]
pub struct Sheet<'a> {
    /// What the run did.
    pub report: &'a Report,
    /// How many states ended how. It may count more than the report lists: a history keeps no unchanged states.
    pub tally: Tally,
    /// What must not be shown.
    pub mask: &'a Mask,
    /// Whose clock times are told in.
    pub zone: TimeZone,
}

impl<'a> Sheet<'a> {
    /// A sheet of a report that lists all its states.
    #[must_use]
    pub fn new(report: &'a Report, mask: &'a Mask, zone: TimeZone) -> Self {
        Self { report, tally: Tally::of(report), mask, zone }
    }

    /// Prints it; `all` also lists what is as it should be, where a format leaves that out.
    #[must_use]
    pub fn print(&self, format: ReportFormat, all: bool, paint: Paint) -> String {
        match format {
            ReportFormat::Text => text::text(self, all, paint),
            ReportFormat::Json => json::document(self),
            ReportFormat::Yaml => yaml(&Value::from_json_str(&json::document(self)).unwrap_or_default()),
            ReportFormat::Ndjson => self.lines(),
            ReportFormat::Highstate => highstate::highstate(self, paint),
        }
    }

    /// Every state as a line of JSON, then the summary.
    fn lines(&self) -> String {
        let mut out: String =
            self.report.states.iter().map(|s| state_line(s, self.mask, &self.zone)).collect();
        out.push_str(&self.summary_line());
        out
    }

    /// The last line of NDJSON: everything but the states.
    #[must_use]
    pub fn summary_line(&self) -> String {
        json::summary_line(self)
    }
}

/// A state as one line of JSON.
#[must_use]
pub fn state_line(outcome: &Outcome, mask: &Mask, zone: &TimeZone) -> String {
    json::state_line(outcome, mask, zone)
}

/// `HH:MM:SS.ffffff`, as Salt tells when a state began.
fn clock(time: Timestamp, zone: &TimeZone) -> String {
    let time = zone.to_datetime(time).time();
    let micros = time.subsec_nanosecond() / 1000;
    format!("{:02}:{:02}:{:02}.{micros:06}", time.hour(), time.minute(), time.second())
}

/// Milliseconds with three digits behind the point, as Salt tells how long a state took.
fn millis(duration: std::time::Duration) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a run of 2^53 microseconds would take 285 years")]
    let micros = duration.as_micros() as f64;
    micros / 1000.0
}

#[cfg(test)]
pub(crate) mod samples;
#[cfg(test)]
mod tests;
