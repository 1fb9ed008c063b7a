//! `zagent demo`: dry run of the starter states on this host.

use std::sync::Arc;

use super::run_args::ReportArgs;
use super::settings;
use crate::cli::run_printer::RunPrinter;
use crate::embedded::{starter_pillar, starter_states};
use crate::exit_code;
use crate::output::{ReportFormat, Ui};
use zagent_daemon::compile_job::PlanCacheUse;
use zagent_daemon::compile_request::{CompileRequest, StateTrees};
use zagent_daemon::error::{AgentError, ExitStatus};
use zagent_daemon::plan_run::PlanRun;
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

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let request = CompileRequest { test: true, ..CompileRequest::default() };
        let trees = StateTrees::new(Arc::new(starter_states()), Arc::new(starter_pillar()), "starter");
        let job = request.build_job(trees, settings::load(None)?)?;
        let planned = job.plan(PlanCacheUse { save: false, fresh: true }, ui)?;
        let order = RunOptions { test: true, ..RunOptions::default() };
        let cancel = Arc::new(CancelToken::new());
        let (planned, order, cancel) = (&planned, &order, &cancel);
        let run = PlanRun { job: &job, planned, order, trigger: RunTrigger::Manual, cancel };
        let report = run.run(&mut RunPrinter { ui, format: self.report.out })?;
        if self.report.out == ReportFormat::Text {
            ui.message("\nThese states are built into zagent; nothing was changed. To test your own states:");
            ui.message("  zagent run --once --test --states DIR --pillar DIR");
        }
        Ok(exit_code::run_exit(&report, self.report.detailed_exitcodes))
    }
}
