//! `zagent demo`: dry run of the starter states on this host.

use std::sync::Arc;

use super::compile_job::{StateTrees, TreeArgs};
use super::run::{exit_status, run_and_print};
use super::run_args::ReportArgs;
use super::settings;
use crate::embedded::{starter_pillar, starter_states};
use crate::output::{ReportFormat, Ui};
use zagent_daemon::error::{CliError, ExitStatus};
use zagent_host::CancelToken;
use zagent_run::{RunOptions, RunTrigger};

/// Dry-run the starter states built into zagent
#[derive(Debug, clap::Args)]
pub(super) struct DemoArgs {
    #[command(flatten)]
    report: ReportArgs,
}

impl DemoArgs {
    pub(super) const fn format(&self) -> ReportFormat {
        self.report.out
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, CliError> {
        let tree = TreeArgs { test: true, ..TreeArgs::default() };
        let trees = StateTrees::new(Arc::new(starter_states()), Arc::new(starter_pillar()), "starter");
        let job = tree.build_job(trees, settings::load(None)?)?;
        let planned = job.plan(false, true, ui)?;
        let order = RunOptions { test: true, ..RunOptions::default() };
        let report = run_and_print(
            &job,
            &planned,
            (&order, RunTrigger::Manual, &Arc::new(CancelToken::new())),
            &self.report,
            ui,
        )?;
        if self.report.out == ReportFormat::Text {
            ui.message("\nThese states are built into zagent; nothing was changed. To test your own states:");
            ui.message("  zagent run --once --test --states DIR --pillar DIR");
        }
        Ok(exit_status(&report, self.report.detailed_exitcodes))
    }
}
