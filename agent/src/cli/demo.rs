//! `zagent demo`: the starter states, dry-run on this host.

use std::sync::Arc;

use super::order::ReportArgs;
use super::run::{exit, perform};
use super::settings;
use super::tree::{TreeArgs, Trees};
use crate::files::{starter_pillar, starter_states};
use crate::host::Cancel;
use crate::output::{ReportFormat, Ui};
use crate::report::{Exit, Trouble};
use crate::run::{Order, Trigger};

/// Dry-run the starter states inside this program
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    report: ReportArgs,
}

impl Args {
    pub(super) const fn format(&self) -> ReportFormat {
        self.report.out
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<Exit, Trouble> {
        let tree = TreeArgs { test: true, ..TreeArgs::default() };
        let trees = Trees::new(Arc::new(starter_states()), Arc::new(starter_pillar()), "starter");
        let job = tree.job_of(trees, settings::load(None)?)?;
        let planned = job.plan(false, true, ui)?;
        let order = Order { test: true, ..Order::default() };
        let report =
            perform(&job, &planned, (&order, Trigger::Manual, &Arc::new(Cancel::new())), &self.report, ui)?;
        if self.report.out == ReportFormat::Text {
            ui.say("\nThese states are inside the program; nothing was changed. With states of your own:");
            ui.say("  zagent run --once --test --states DIR --pillar DIR");
        }
        Ok(exit(&report, self.report.detailed_exitcodes))
    }
}
