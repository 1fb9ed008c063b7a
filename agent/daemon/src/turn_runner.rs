//! States source in, run out: compiles the states of a turn and runs them.
//!
//! Law: a revision is compiled once. What was compiled to check a new revision is what is run, as long as the tree
//! is the same one at the same place; it is kept in memory only, because a plan may hold secrets (held by
//! `a_new_revision_is_polled_once_and_compiled_once`).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use zagent_compiler::CompileOutput;
use zagent_config::settings::Settings;

use crate::compile_job::{CompileJob, PlanCacheUse, PlanWithPillar};
use crate::compile_request::CompileRequest;
use crate::error::AgentError;
use crate::plan_file::PlanFileUse;
use crate::plan_run::{PlanRun, RunExtras};
use crate::resource_run::{self, PlanRequest, ResourceSet, TargetRun, TargetText};
use crate::run_output::RunOutput;
use crate::states_source::StatesSource;
use crate::trust_warnings;
use zagent_host::CancelToken;
use zagent_resources::grains::GrainsUse;
use zagent_run::{RunOptions, RunReport, RunTrigger};

/// Compiles and runs for a turn.
pub struct TurnRunner<'a> {
    /// What to compile.
    pub request: &'a CompileRequest,
    /// Options of the run.
    pub order: &'a RunOptions,
    /// True to ignore the plan cache.
    pub fresh: bool,
    /// The settings.
    pub settings: &'a Settings,
    /// Stop signal.
    pub cancel: &'a Arc<CancelToken>,
    /// Receives messages and reports.
    pub output: &'a mut dyn RunOutput,
    /// The last revision that compiled, until it is run.
    pub checked: Option<CheckedRevision>,
    /// The warning about the end of the manifest of the last run, when it is near or over.
    pub expiry: Option<String>,
    /// The plan file that the first run saves or applies.
    pub plan_file: Option<&'a PlanFileUse>,
    /// What runs; the node alone when unset.
    pub target: Option<TargetText>,
}

/// A revision that compiled.
pub struct CheckedRevision {
    top: PathBuf,
    job: CompileJob,
    compiled: CompileOutput,
}

impl TurnRunner<'_> {
    /// Whether the states below a directory compile for this node; all of them, not only those of this run.
    ///
    /// # Errors
    /// The compile errors.
    pub fn check_compiles(&mut self, top: &Path, revision: &str) -> Result<(), AgentError> {
        self.checked = None;
        let request = CompileRequest { sls: Vec::new(), ..self.request.clone() };
        let job = request.job_for_dir(top, revision, self.settings.clone())?;
        let compiled = job.compile_quietly()?;
        self.checked = Some(CheckedRevision { top: top.to_owned(), job, compiled });
        Ok(())
    }

    /// Applies the states to the host, and reports the result.
    ///
    /// # Errors
    /// Why there was no run.
    pub fn run(&mut self, source: &StatesSource, trigger: RunTrigger) -> Result<RunReport, AgentError> {
        let plan_file = self.plan_file.take();
        let cache = PlanCacheUse {
            save: !self.order.test || self.order.audit,
            fresh: self.fresh || plan_file.is_some(),
        };
        let is_same = |checked: &CheckedRevision| {
            self.request.sls.is_empty()
                && checked.top == source.top
                && checked.job.revision == source.revision
        };
        let (mut job, planned) = match self.checked.take().filter(is_same) {
            Some(CheckedRevision { job, compiled, .. }) => {
                let planned = job.finish_plan(compiled, cache, self.output)?;
                (job, planned)
            }
            None => {
                let job = self.request.job_for_dir(&source.top, &source.revision, self.settings.clone())?;
                let planned = job.plan(cache, self.output)?;
                (job, planned)
            }
        };
        if plan_file.is_some() {
            job.trace_run();
        }
        let report = match self.target.clone() {
            None => {
                let (order, cancel) = (self.order, self.cancel);
                let is_whole = self.request.sls.is_empty() && (!order.test || order.audit);
                let extras = RunExtras { plan_file, find_causes: is_whole };
                PlanRun { job: &job, planned: &planned, order, trigger, cancel }
                    .run_and_record(extras, self.output)?
            }
            Some(target) => self.run_on_targets(&job, planned, &target, trigger)?,
        };
        self.expiry = trust_warnings::expiry_warning(source.expires(), report.start);
        if let Some(words) = self.expiry.clone() {
            self.warn(&words);
        }
        Ok(report)
    }

    /// The same on resources: the node runs when the target matches it.
    fn run_on_targets(
        &mut self,
        job: &CompileJob,
        planned: PlanWithPillar,
        target: &TargetText,
        trigger: RunTrigger,
    ) -> Result<RunReport, AgentError> {
        let set = ResourceSet::discover(job, GrainsUse::Kept, self.output)?;
        let selection = set.select(job, target)?;
        let run = TargetRun {
            job,
            set: &set,
            selection: &selection,
            request: &PlanRequest::Tree,
            planned: Some(planned),
            order: self.order,
            trigger,
            cancel: self.cancel,
        };
        resource_run::run_on_targets(run, self.output)
    }

    /// Prints a warning.
    pub fn warn(&mut self, words: &str) {
        self.output.warn(words);
    }
}
