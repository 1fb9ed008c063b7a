//! Outcomes in, number of states per result out.

use serde::{Deserialize, Serialize};

use crate::{RunReport, StateStatus};

/// Number of states per result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// States that changed something, or would.
    pub changed: usize,
    /// States that failed, or would.
    pub failed: usize,
    /// States that did not run.
    pub skipped: usize,
    /// States without changes.
    pub unchanged: usize,
    /// States whose result cannot be predicted.
    pub unknown: usize,
}

impl Tally {
    /// Counts the states of a report.
    #[must_use]
    pub fn from_report(report: &RunReport) -> Self {
        let mut tally = Self::default();
        for state in &report.states {
            let place = match state.status() {
                StateStatus::Unchanged => &mut tally.unchanged,
                StateStatus::Changed | StateStatus::WouldChange => &mut tally.changed,
                StateStatus::Unknown => &mut tally.unknown,
                StateStatus::Failed => &mut tally.failed,
                StateStatus::Skipped => &mut tally.skipped,
            };
            *place += 1;
        }
        tally
    }

    /// Total.
    #[must_use]
    pub const fn total(&self) -> usize {
        self.changed + self.failed + self.skipped + self.unchanged + self.unknown
    }
}
