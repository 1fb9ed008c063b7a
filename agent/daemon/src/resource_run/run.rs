//! A selection in, one report out: the states of the node, then those of each resource under its id.

#![expect(clippy::disallowed_methods, reason = "a run starts at the current time")]

use std::sync::Arc;
use std::time::Instant;

use jiff::Timestamp;
use zagent_compiler::{Chunk, CompileTarget, Plan};
use zagent_config::suggest::nearest;
use zagent_config::{Diagnostic, Value};
use zagent_host::CancelToken;
use zagent_resources::{ResourceOutcome, fold};
use zagent_run::{
    ManagingNode, RunMode, RunOptions, RunProgress, RunReport, RunTrigger, SignalWatcher, StateOutcome,
};

use super::parallel;
use super::remote::RemoteRun;
use super::resource_job::NodeContext;
use super::selection::{ResourceSet, Selection};
use crate::compile_job::{CompileJob, PlanWithPillar};
use crate::error::AgentError;
use crate::plan_run::{FullTemplateHost, PlanRun, RunPlace, refuse_in_audit_mode, warn_if_paused};
use crate::run_output::RunOutput;
use crate::space;

/// What runs, on the node and on each resource.
#[derive(Clone, Debug)]
pub enum PlanRequest {
    /// What the compile job wants: the highstate or SLS files.
    Tree,
    /// One id of SLS files, and what it requires.
    SlsId(String),
    /// One chunk.
    Single(Box<Chunk>),
    /// Nothing: a run is reverted.
    Revert,
}

/// A plan with the warnings of its compile.
type Planned = (PlanWithPillar, Vec<Diagnostic>);

impl PlanRequest {
    /// The plan for one job.
    ///
    /// # Errors
    /// The compile errors, or that there is no such id.
    pub fn plan(&self, job: &CompileJob) -> Result<Planned, AgentError> {
        let (plan, warnings) = match self {
            Self::Tree => {
                let compiled = job.compile_quietly()?;
                (compiled.plan, compiled.warnings)
            }
            Self::SlsId(id) => {
                let compiled = job.compile_quietly()?;
                let part = compiled.plan.with_dependencies(|chunk| *chunk.id == **id);
                if part.chunks.is_empty() {
                    return Err(no_such_id(id, &compiled.plan));
                }
                (part, compiled.warnings)
            }
            Self::Single(chunk) => (job.compiler.plan_for_chunks(vec![(**chunk).clone()])?, Vec::new()),
            Self::Revert => {
                let nothing =
                    PlanWithPillar { plan: Plan::default(), pillar: Value::Null, is_complete: false };
                return Ok((nothing, Vec::new()));
            }
        };
        let is_complete = matches!(self, Self::Tree);
        Ok((PlanWithPillar { plan, pillar: job.compiler.pillar()?, is_complete }, warnings))
    }
}

fn no_such_id(id: &str, plan: &Plan) -> AgentError {
    let near = nearest(id, plan.chunks.iter().map(|chunk| &*chunk.id));
    let hint = near.map_or_else(
        || "list the states with `zagent show lowstate`".into(),
        |near| format!("did you mean `{near}`?"),
    );
    AgentError::usage_hint(format!("no state in these SLS files has the ID `{id}`"), hint)
}

/// A run of a selection.
pub struct TargetRun<'a> {
    /// The compile job of the node.
    pub job: &'a CompileJob,
    /// The resources of the node.
    pub set: &'a ResourceSet,
    /// Which of them run.
    pub selection: &'a Selection,
    /// What runs.
    pub request: &'a PlanRequest,
    /// The plan of the node, when it was compiled already.
    pub planned: Option<PlanWithPillar>,
    /// Options of the run.
    pub order: &'a RunOptions,
    /// What triggered it.
    pub trigger: RunTrigger,
    /// Stop signal.
    pub cancel: &'a Arc<CancelToken>,
}

/// A run of a selection by order of a person.
#[derive(Clone, Copy)]
pub struct ManualRun<'a> {
    /// The compile job of the node.
    pub job: &'a CompileJob,
    /// The resources of the node.
    pub set: &'a ResourceSet,
    /// Which of them run.
    pub selection: &'a Selection,
    /// What runs.
    pub request: &'a PlanRequest,
    /// Options of the run.
    pub order: &'a RunOptions,
}

/// Runs a selection by order of a person, and can be stopped by a signal.
///
/// # Errors
/// Why there was no run.
pub fn run_manually(
    run: &ManualRun<'_>,
    planned: Option<PlanWithPillar>,
    output: &mut dyn RunOutput,
) -> Result<RunReport, AgentError> {
    let ManualRun { job, set, selection, request, order } = *run;
    refuse_in_audit_mode(job, order)?;
    if !order.test {
        warn_if_paused(job, output);
    }
    let cancel = Arc::new(CancelToken::new());
    // Held until everything is printed and saved: a stop signal at the very end does not lose the report.
    let _signals = SignalWatcher::watch(&cancel);
    let trigger = RunTrigger::Manual;
    let run = TargetRun { job, set, selection, request, planned, order, trigger, cancel: &cancel };
    run_on_targets(run, output)
}

/// Runs a selection, prints the report, and saves it in the history unless it is a dry run.
///
/// # Errors
/// Why there was no run.
pub fn run_on_targets(run: TargetRun<'_>, output: &mut dyn RunOutput) -> Result<RunReport, AgentError> {
    let TargetRun { job, order, .. } = run;
    if !order.test {
        space::make_room(&job.settings).iter().for_each(|warning| output.warn(warning));
    }
    let node_plan = match run.planned {
        Some(planned) if run.selection.node => planned,
        _ if run.selection.node => {
            let (planned, warnings) = run.request.plan(job)?;
            warnings.iter().for_each(|warning| output.compile_warning(warning));
            planned
        }
        _ => PlanWithPillar { plan: Plan::default(), pillar: run.set.pillar.clone(), is_complete: false },
    };
    let context = NodeContext::new(job, run.set);
    let run = TargetRun { planned: None, ..run };
    let states = match run.selection.node {
        true => node_plan.plan.chunks.len() + run.selection.resources().len(),
        false => run.selection.resources().len(),
    };
    let mut ended = None;
    let mut converge =
        |progress: &dyn RunProgress| ended = Some(run.converge(&context, &node_plan, progress));
    output.show_progress(states, &mut converge);
    let (report, warnings) = ended.unwrap_or_else(|| Err(AgentError::failed("the run was not started")))?;
    warnings.iter().for_each(|warning| output.compile_warning(warning));
    output.report(&report);
    if !order.test || order.audit {
        let plan_run = PlanRun { job, planned: &node_plan, order, trigger: run.trigger, cancel: run.cancel };
        plan_run.record_history(&report, output);
        if space::has_written(&report) {
            space::limit(&job.settings).iter().for_each(|warning| output.warn(warning));
        }
    }
    Ok(report)
}

impl TargetRun<'_> {
    fn converge(
        &self,
        context: &NodeContext,
        node_plan: &PlanWithPillar,
        progress: &dyn RunProgress,
    ) -> Result<(RunReport, Vec<Diagnostic>), AgentError> {
        let (start, clock) = (Timestamp::now(), Instant::now());
        let place = RunPlace::node(self.job.run_mask(node_plan));
        let plan_run = PlanRun {
            job: self.job,
            planned: node_plan,
            order: self.order,
            trigger: self.trigger,
            cancel: self.cancel,
        };
        let mut report = match self.selection.node {
            true => self.converge_node(&plan_run, progress, &place)?,
            false => RunReport {
                run: place.run.clone(),
                node: self.job.node.clone(),
                revision: self.job.revision.clone(),
                mode: self.order.mode(),
                reverts: self.order.revert.clone().flatten(),
                schedule: self.order.schedule.unwrap_or(self.job.settings.run.schedule),
                trigger: self.trigger,
                canceled: false,
                start,
                duration: clock.elapsed(),
                states: Vec::new(),
            },
        };
        let jobs = context.settings.resources.jobs;
        let worker = ResourceWorker {
            context,
            set: self.set,
            request: self.request,
            order: self.order,
            trigger: self.trigger,
            cancel: self.cancel,
            run: &place.run,
            progress,
        };
        let ran = parallel::for_each(self.selection.resources(), jobs, |index| {
            let ran = worker.run(*index);
            progress.resource_moved(&self.set.resources()[*index].name().id, None);
            ran
        });
        let (mut outcomes, mut warnings) = (Vec::new(), Vec::new());
        for (name, ran) in self.set.names(self.selection.resources()).into_iter().zip(ran) {
            let states = ran.map(|(states, more)| {
                warnings.extend(more);
                states
            });
            outcomes.push(ResourceOutcome { name, states, start });
        }
        if self.order.audit {
            report.mode = RunMode::Audit;
        }
        let told = report.states.len();
        report.states = fold(std::mem::take(&mut report.states), outcomes, &context.mask);
        report.states[told..].iter().for_each(|outcome| progress.finished(outcome));
        report.canceled |= self.cancel.is_cancelled();
        report.duration = clock.elapsed();
        Ok((report, warnings))
    }

    /// Runs the node's own states; an automatic run tells drift from intended change.
    fn converge_node(
        &self,
        plan_run: &PlanRun<'_>,
        progress: &dyn RunProgress,
        place: &RunPlace<'_>,
    ) -> Result<RunReport, AgentError> {
        let mut report = plan_run.converge(progress, place)?;
        let is_whole = matches!(self.request, PlanRequest::Tree) && self.job.want == CompileTarget::Highstate;
        let is_automatic = self.trigger != RunTrigger::Manual && (!self.order.test || self.order.audit);
        if is_whole
            && is_automatic
            && let Err(words) = plan_run.find_causes(&mut report)
        {
            tracing::warn!("{words}");
        }
        Ok(report)
    }
}

/// One resource of a run, as somebody who watches sees it.
struct ResourceProgress<'a> {
    all: &'a dyn RunProgress,
    resource: &'a str,
}

impl RunProgress for ResourceProgress<'_> {
    fn started(&self, _index: usize, tag: &str) {
        self.all.resource_moved(self.resource, Some(tag));
    }

    fn finished(&self, _outcome: &StateOutcome) {}
}

/// What the runs of all resources share; unlike the compile job of the node, threads may share it.
struct ResourceWorker<'a> {
    context: &'a NodeContext,
    set: &'a ResourceSet,
    request: &'a PlanRequest,
    order: &'a RunOptions,
    trigger: RunTrigger,
    cancel: &'a Arc<CancelToken>,
    run: &'a str,
    progress: &'a dyn RunProgress,
}

impl ResourceWorker<'_> {
    /// Runs one resource: its states, or why it has none.
    fn run(&self, index: usize) -> Result<(Vec<StateOutcome>, Vec<Diagnostic>), String> {
        let (start, context, run) = (Timestamp::now(), self.context, self.run);
        let resource = &self.set.resources()[index];
        if self.cancel.is_cancelled() {
            return Err("the run was stopped before it came to this resource".into());
        }
        if let Some(link) = &resource.link {
            link.stop_with(self.cancel);
            link.connect()?;
        }
        let grains = self.set.grains(index)?;
        let own = context.resource_job(resource, grains)?;
        let (planned, warnings) = self.request.plan(&own.job).map_err(|error| error.summary())?;
        if planned.plan.chunks.is_empty()
            && own.job.want == CompileTarget::Highstate
            && matches!(self.request, PlanRequest::Tree)
        {
            let id = &resource.name().id;
            return Ok((vec![StateOutcome::no_resource_states(id, start)], warnings));
        }
        let cancel = self.cancel.child();
        let limit = context.settings.resources.timeout;
        let order = RunOptions {
            timeout: Some(self.order.timeout.map_or(limit, |own| own.min(limit))),
            ..self.order.clone()
        };
        let host = FullTemplateHost::new(&context.inputs, &context.pillar);
        let paths = context.settings.paths();
        let journal = format!("{run}.{}.{}", resource.name().kind, resource.name().id);
        let manager =
            ManagingNode { machine: &context.machine, host: &host, paths: &paths, journal: &journal };
        let mask = own.job.run_mask_with(&planned, &context.secrets);
        let progress = ResourceProgress { all: self.progress, resource: &resource.name().id };
        if let Some(link) = &resource.link {
            let remote = RemoteRun {
                context,
                own: &own,
                link,
                planned: &planned,
                grains,
                order: &order,
                trigger: self.trigger,
                cancel: &cancel,
                run,
                mask: &mask,
                progress: &progress,
            };
            return Ok((remote.run()?, warnings));
        }
        let place = RunPlace { run: run.to_owned(), mask, manager: Some(manager) };
        let plan_run = PlanRun {
            job: &own.job,
            planned: &planned,
            order: &order,
            trigger: self.trigger,
            cancel: &cancel,
        };
        let report = plan_run.converge(&progress, &place).map_err(|error| error.summary())?;
        Ok((report.states, warnings))
    }
}
