//! Status and time in, eleven lines for the on-call engineer out.
//!
//! Law: a line that needs attention is not green (held by `colours_mark_what_needs_attention`).

use std::fmt::Write;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use zagent_config::sanitize;
use zagent_daemon::LastRun;
use zagent_daemon::status::AgentStatus;
pub use zagent_daemon::status::lines::counts_text;
use zagent_daemon::status::lines::{StatusLines, StatusTone, short_line};

use super::Paint;

/// Maximum number of failures listed of the last run.
const MAX_ERRORS: usize = 3;

/// A status to be printed.
#[derive(Clone, Debug)]
pub struct StatusView<'s> {
    /// Agent status.
    pub status: &'s AgentStatus,
    /// Current time, for ages.
    pub now: Timestamp,
    /// Time zone for times of day.
    pub zone: TimeZone,
    /// The colours.
    pub paint: Paint,
}

impl StatusView<'_> {
    /// Renders the lines, with what failed below the last run.
    #[must_use]
    pub fn render(&self) -> String {
        let (paint, mut out) = (self.paint, String::new());
        let lines = StatusLines { status: self.status, now: self.now, zone: self.zone.clone() };
        for line in lines.all() {
            let name = format!("{:9}", line.name);
            let (name, words) = match (is_warning(line.name), line.tone) {
                (true, StatusTone::Bad) => (paint.red(name), line.words),
                (true, _) => (paint.yellow(name), line.words),
                (false, tone) => (paint.bold(name), self.paint_tone(tone, line.words)),
            };
            let _ = writeln!(out, "{name} {words}");
            if let ("last run", Some(run)) = (line.name, &self.status.last_run) {
                self.errors(&mut out, run);
            }
        }
        out
    }

    fn paint_tone(&self, tone: StatusTone, words: String) -> String {
        match tone {
            StatusTone::Fine => self.paint.green(words),
            StatusTone::Plain => words,
            StatusTone::Attention => self.paint.yellow(words),
            StatusTone::Bad => self.paint.red(words),
        }
    }

    fn errors(&self, out: &mut String, run: &LastRun) {
        for error in run.errors.iter().take(MAX_ERRORS) {
            let _ = writeln!(out, "{:9} {}", "", self.paint.red(short_line(error)));
        }
        if !run.errors.is_empty() {
            let _ = writeln!(
                out,
                "{:9} {}",
                "",
                self.paint.dim(format!("full report: zagent history {}", sanitize(&run.run)))
            );
        }
    }
}

/// True for a line that is there only when something is wrong: its name has the colour.
fn is_warning(name: &str) -> bool {
    ["board", "damaged", "trust", "watchdog", "unread"].contains(&name)
}

#[cfg(test)]
mod tests;
