//! Run report in, printed report out: text, JSON, YAML, JSON lines, or Salt's layout.
//!
//! Law: every format is made from one [`ReportView`], and no text of it controls the terminal (held by
//! `control_characters_stay_out_of_every_format`). Secrets were masked before.

mod highstate;
mod json;
mod skip_groups;
mod text;

pub use highstate::{render_compile_errors, render_nested};
pub use text::format_millis;
pub use zagent_run::tally::Tally;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use zagent_config::Value;

use super::{Paint, ReportFormat, pprint, yaml};
use zagent_run::{RunReport, StateOutcome};

/// A report and what is needed to print it.
#[derive(Clone, Debug)]
pub struct ReportView<'a> {
    /// What the run did.
    pub report: &'a RunReport,
    /// Number of states per result. It may exceed the listed states: a history omits unchanged states.
    pub tally: Tally,
    /// Time zone of printed times.
    pub zone: TimeZone,
}

impl<'a> ReportView<'a> {
    /// A view of a report that lists all its states.
    #[must_use]
    pub fn new(report: &'a RunReport, zone: TimeZone) -> Self {
        Self { report, tally: Tally::from_report(report), zone }
    }

    /// Prints it; `all` also lists unchanged states, where a format omits them.
    #[must_use]
    pub fn render(&self, format: ReportFormat, all: bool, paint: Paint) -> String {
        match format {
            ReportFormat::Text => text::render_text(self, all, paint),
            ReportFormat::Json => json::render_json(self),
            ReportFormat::Yaml => yaml(&Value::from_json_str(&json::render_json(self)).unwrap_or_default()),
            ReportFormat::Ndjson => self.render_ndjson(),
            ReportFormat::Highstate => highstate::render_highstate(self, paint),
            ReportFormat::Pprint => {
                pprint(&Value::from_json_str(&json::render_json(self)).unwrap_or_default())
            }
        }
    }

    /// Every state as a line of JSON, then the summary.
    fn render_ndjson(&self) -> String {
        let mut out: String = self.report.states.iter().map(|s| state_line(s, &self.zone)).collect();
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
pub fn state_line(outcome: &StateOutcome, zone: &TimeZone) -> String {
    json::state_line(outcome, zone)
}

/// `HH:MM:SS.ffffff`, Salt's format for the start of a state.
fn salt_time(time: Timestamp, zone: &TimeZone) -> String {
    let time = zone.to_datetime(time).time();
    let micros = time.subsec_nanosecond() / 1000;
    format!("{:02}:{:02}:{:02}.{micros:06}", time.hour(), time.minute(), time.second())
}

/// Milliseconds with three decimals, Salt's format for the duration of a state.
fn salt_millis(duration: std::time::Duration) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a run of 2^53 microseconds would take 285 years")]
    let micros = duration.as_micros() as f64;
    micros / 1000.0
}

#[cfg(test)]
mod tests;
