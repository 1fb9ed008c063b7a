//! `zagent demo`: the starter states, dry-run on this host.

use std::sync::Arc;
use std::time::Instant;

use super::run::{ReportArgs, report};
use super::tree::TreeArgs;
use crate::files::{starter_pillar, starter_states};
use crate::output::{Format, Ui};
use crate::report::{Exit, Trouble};

/// Dry-run the starter states inside this program
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    report: ReportArgs,
}

impl Args {
    pub(super) const fn format(&self) -> Format {
        self.report.out
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<Exit, Trouble> {
        let start = Instant::now();
        let tree = TreeArgs { test: true, ..TreeArgs::default() };
        let options = tree.options()?;
        let host = tree.host(&options)?;
        let job = tree.job_of(Arc::new(starter_states()), Arc::new(starter_pillar()), host, options)?;
        let compiled = job.compile(ui)?;
        let exit = report(&job, &compiled.plan, "starter", start, &self.report, ui)?;
        if self.report.out == Format::Text {
            ui.say("\nThese states are inside the program; nothing was changed. With states of your own:");
            ui.say("  zagent run --once --test --states DIR --pillar DIR");
        }
        Ok(exit)
    }
}
