//! Outcomes in, how many ended how out.

use serde::{Deserialize, Serialize};

use crate::{RunReport, StateStatus};

/// How many states ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// They changed something, or would.
    pub changed: usize,
    /// They failed, or would.
    pub failed: usize,
    /// They did not run.
    pub skipped: usize,
    /// They had nothing to do.
    pub unchanged: usize,
    /// Nobody can tell what they would do.
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

    /// All of them.
    #[must_use]
    pub const fn total(&self) -> usize {
        self.changed + self.failed + self.skipped + self.unchanged + self.unknown
    }
}
