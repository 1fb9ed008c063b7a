//! Plan in, report out: runs it with everything that its compile job provides, prints and records the report.

#![expect(clippy::disallowed_methods, reason = "a run starts at the current time")]

mod orphans;

use std::sync::{Arc, OnceLock};

use jiff::Timestamp;
use zagent_compiler::functions::Functions;
use zagent_compiler::{
    CallError, Cipher, Compat, CompileInputs, CompileTarget, FileTree, FunctionCall, TemplateHost,
};
use zagent_config::mask::Secret;
use zagent_config::paths::Paths;
use zagent_config::settings::{ApplyMode, RunSchedule};
use zagent_config::suggest::nearest;
use zagent_config::{Map, SecretMask, Value};

use crate::compile_job::{CompileJob, PlanWithPillar};
use crate::error::AgentError;
use crate::local_key::LocalKey;
use crate::managed_templates::ManagedTemplates;
use crate::memory::AgentMemory;
use crate::operator::pause::Pause;
use crate::plan_file::{self, DryRun, PlanFileUse, SavedPlan};
use crate::run_output::RunOutput;
use crate::space;
use crate::synced_states::{DesiredStates, SyncedStates};
use zagent_host::CancelToken;
use zagent_host::timezone::local_zone;
use zagent_host::undo::UndoableRun;
use zagent_run::history::{self, History};
use zagent_run::{
    GlobalConditions, LockError, ManagingNode, NoProgress, RunMode, RunOptions, RunProgress, RunReport,
    RunTrigger, SignalWatcher, StateOutcome, StateRun, StateRunError,
};
use zagent_states::RenderTemplate;
use zagent_states::file_tree::CachedFiles;
use zagent_states::functions;

/// A run of a plan.
pub struct PlanRun<'a> {
    /// What it was compiled from.
    pub job: &'a CompileJob,
    /// The plan.
    pub planned: &'a PlanWithPillar,
    /// Options of the run.
    pub order: &'a RunOptions,
    /// What triggered it.
    pub trigger: RunTrigger,
    /// Stop signal.
    pub cancel: &'a Arc<CancelToken>,
}

/// Runs a plan by order of a person: prints its report and saves it in the history.
///
/// # Errors
/// Why there was no run.
pub fn run_manually(
    job: &CompileJob,
    planned: &PlanWithPillar,
    (order, plan_file): (&RunOptions, Option<&PlanFileUse>),
    output: &mut dyn RunOutput,
) -> Result<RunReport, AgentError> {
    refuse_in_audit_mode(job, order)?;
    if !order.test {
        warn_if_paused(job, output);
    }
    let cancel = Arc::new(CancelToken::new());
    // Held until everything is printed and saved: a stop signal at the very end does not lose the report.
    let _signals = SignalWatcher::watch(&cancel);
    let run = PlanRun { job, planned, order, trigger: RunTrigger::Manual, cancel: &cancel };
    let report = run.run_and_record(RunExtras { plan_file, find_causes: false }, output)?;
    if report.mode == RunMode::Apply {
        note_for_status(job, &report, output);
    }
    Ok(report)
}

/// A node in audit mode changes nothing for any request.
pub(crate) fn refuse_in_audit_mode(job: &CompileJob, order: &RunOptions) -> Result<(), AgentError> {
    if order.test || job.settings.run.mode == ApplyMode::Apply {
        return Ok(());
    }
    Err(AgentError::usage_hint(
        "this node is in audit mode (`run.mode: audit`): runs change nothing",
        "add `--test`; to change this host once, run it with ZAGENT_RUN_MODE=apply",
    ))
}

/// What a run of the node itself does beside running.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RunExtras<'a> {
    /// Saves or applies a plan file.
    pub(crate) plan_file: Option<&'a PlanFileUse>,
    /// Tells drift from intended change; only for a run of all states that the node follows.
    pub(crate) find_causes: bool,
}

/// The status names this run too. It says nothing about the whole host: what the daemon follows is another tree.
fn note_for_status(job: &CompileJob, report: &RunReport, output: &mut dyn RunOutput) {
    let path = job.settings.paths().memory();
    let mut memory = AgentMemory::load(&path);
    let applied = memory.last_run.as_ref().map(|run| run.applied_revision().to_owned());
    memory.note_run(report, true);
    if let Some(run) = &mut memory.last_run {
        run.applied = Some(applied.unwrap_or_default());
    }
    if let Err(error) = memory.save(&path) {
        output.warn(&format!("cannot save state: {}", zagent_config::error_chain(&error)));
    }
}

/// The run that the last run reverted, if it was a revert: `--force` repeats that revert and does not revert
/// the revert.
///
/// # Errors
/// Fails when the history cannot be read.
pub fn last_reverted_run(job: &CompileJob) -> Result<Option<String>, AgentError> {
    let history = History::new(&job.settings.paths(), job.settings.run.keep);
    match history.last() {
        Ok(last) => Ok(last.and_then(|head| head.reverts)),
        Err(error) => {
            let message = format!("which run? {}", zagent_config::error_chain(&error));
            Err(AgentError::usage_hint(message, "name it: zagent run --revert RUN --force"))
        }
    }
}

/// The run that a revert would undo: the one that begins with this name, or the last; nothing when there is none.
///
/// # Errors
/// Fails when the undo notes cannot be read.
pub fn undoable_run(job: &CompileJob, name: Option<&str>) -> Result<Option<UndoableRun>, AgentError> {
    let runs = zagent_run::undoable_runs(&job.settings.paths()).map_err(|error| to_agent_error(&error))?;
    Ok(runs.into_iter().rfind(|run| name.is_none_or(|name| run.run.starts_with(name))))
}

/// A pause stops only automatic runs; a person who starts a run may not know about it.
pub(crate) fn warn_if_paused(job: &CompileJob, output: &mut dyn RunOutput) {
    let now = Timestamp::now();
    if let Ok(Some(pause)) = Pause::read(&job.settings.paths(), now) {
        let words = pause.summary(now, &local_zone());
        output.warn(&format!("the agent is {words}; continuing, because this run was started manually"));
    }
}

/// What a run is called, what it hides, and which node manages its machine.
pub(crate) struct RunPlace<'a> {
    pub(crate) run: String,
    pub(crate) mask: SecretMask,
    pub(crate) manager: Option<ManagingNode<'a>>,
}

impl RunPlace<'_> {
    /// A new run on the node itself.
    pub(crate) fn node(mask: SecretMask) -> Self {
        let run = history::run_name(Timestamp::now(), history::random_suffix());
        Self { run, mask, manager: None }
    }
}

impl PlanRun<'_> {
    /// Runs the plan, prints its report, and saves it in the history unless it is a dry run.
    ///
    /// # Errors
    /// Why there was no run.
    pub(crate) fn run_and_record(
        &self,
        extras: RunExtras<'_>,
        output: &mut dyn RunOutput,
    ) -> Result<RunReport, AgentError> {
        self.reject_prune_misuse()?;
        if let Some(PlanFileUse::Apply(saved)) = extras.plan_file {
            self.verify_saved(saved)?;
        }
        if !self.order.test || self.order.audit {
            space::make_room(&self.job.settings).iter().for_each(|warning| output.warn(warning));
        }
        let report = self.run_with(extras.find_causes, output)?;
        if let Some(PlanFileUse::Save { path, request }) = extras.plan_file {
            match report.is_success() {
                true => {
                    let mask = self.job.run_mask(self.planned);
                    let dry_run =
                        DryRun { job: self.job, planned: self.planned, report: &report, mask: &mask };
                    plan_file::save(&dry_run, path, request)?;
                }
                false => output.warn("the plan is not saved: a state would fail"),
            }
        }
        if report.mode == RunMode::Test {
            // Only for `history --all`: a dry run warns about nothing and fails for nothing.
            let _ = History::new(&self.job.settings.paths(), self.job.settings.run.keep).record(&report);
        } else {
            self.record_history(&report, output);
            if !report.mode.changes_nothing() && space::has_written(&report) {
                space::limit(&self.job.settings).iter().for_each(|warning| output.warn(warning));
            }
        }
        Ok(report)
    }

    /// Refuses a saved plan that does not fit any more: compares its dry run with a second one.
    fn verify_saved(&self, saved: &SavedPlan) -> Result<(), AgentError> {
        let order = RunOptions { test: true, ..self.order.clone() };
        let place = RunPlace::node(self.job.run_mask(self.planned));
        let report = PlanRun { order: &order, ..*self }.converge(&NoProgress, &place)?;
        saved.verify(&DryRun { job: self.job, planned: self.planned, report: &report, mask: &place.mask })
    }

    /// Runs the plan and prints its report.
    ///
    /// # Errors
    /// Why there was no run.
    pub fn run(&self, output: &mut dyn RunOutput) -> Result<RunReport, AgentError> {
        self.run_with(false, output)
    }

    fn run_with(&self, find_causes: bool, output: &mut dyn RunOutput) -> Result<RunReport, AgentError> {
        let mut report = None;
        let place = RunPlace::node(self.job.run_mask(self.planned));
        let mut run = |progress: &dyn RunProgress| report = Some(self.converge(progress, &place));
        output.show_progress(self.planned.plan.chunks.len(), &mut run);
        let mut report = report.unwrap_or_else(|| Err(AgentError::failed("the run was not started")))?;
        if self.order.audit {
            report.mode = RunMode::Audit;
        }
        if find_causes && let Err(words) = self.find_causes(&mut report) {
            output.warn(&words);
        }
        output.report(&report);
        Ok(report)
    }

    /// Tells drift from intended change. A failure costs the causes of this run.
    pub(crate) fn find_causes(&self, report: &mut RunReport) -> Result<(), String> {
        let paths = self.job.settings.paths();
        let failed = |error: &dyn std::error::Error| {
            format!("cannot tell drift from intended changes: {}", zagent_config::error_chain(error))
        };
        let key = LocalKey::read_or_create(&paths).map_err(|error| failed(&error))?;
        let before = SyncedStates::load(&paths);
        let mut synced = before.clone();
        let desired = DesiredStates::new(self.job, self.planned, &key);
        synced.note_run(&desired, report);
        synced.save(&paths, &before).map_err(|error| failed(&error))
    }

    /// Saves a report. A failure to write the history is a warning and stops nothing.
    pub(crate) fn record_history(&self, report: &RunReport, messages: &mut dyn RunOutput) {
        let job = self.job;
        let history = History::new(&job.settings.paths(), job.settings.run.keep);
        match history.record(report) {
            Ok(warnings) => {
                warnings.iter().for_each(|warning| messages.warn(&zagent_config::error_chain(warning)));
            }
            Err(error) => {
                let why = zagent_config::error_chain(&error);
                messages.warn(&format!("this run is not in the history: {why}"));
            }
        }
    }

    /// Applies the plan to the host, or predicts the changes.
    pub(crate) fn converge(
        &self,
        progress: &dyn RunProgress,
        place: &RunPlace<'_>,
    ) -> Result<RunReport, AgentError> {
        let opts = &self.job.inputs.options.opts;
        let host = FullTemplateHost::new(&self.job.inputs, &self.planned.pillar);
        let conditions = GlobalConditions::evaluate(opts, &host).map_err(AgentError::failed)?;
        let paths = self.job.settings.paths();
        let files = CachedFiles::new(&*self.job.states);
        let templates = ManagedTemplates::new(self.job, self.planned);
        let parts = RunParts {
            paths: &paths,
            files: &files,
            host: &host,
            templates: &templates,
            conditions: &conditions,
            progress,
        };
        let mut report = self.state_run(parts, place).run().map_err(|error| to_agent_error(&error))?;
        templates.keep_texts();
        if self.job.compat == Compat::Salt
            && self.planned.plan.chunks.is_empty()
            && self.order.revert.is_none()
        {
            report.states.extend(no_states_outcome(self.job, report.start)?);
        }
        Ok(report)
    }

    /// The run, with everything that outlives it.
    fn state_run<'r>(&'r self, parts: RunParts<'r>, place: &RunPlace<'r>) -> StateRun<'r> {
        let opts = &self.job.inputs.options.opts;
        let failhard = opts.get("failhard").is_some_and(Value::is_truthy);
        let max_parallel = opts.get("state_max_parallel").and_then(Value::as_int);
        StateRun {
            plan: &self.planned.plan,
            order: self.order,
            machine: &self.job.machine,
            files: parts.files,
            host: parts.host,
            templates: parts.templates,
            pillar: &self.planned.pillar,
            compat: self.job.compat,
            failhard,
            conditions: parts.conditions,
            max_parallel: max_parallel.and_then(|most| usize::try_from(most).ok()).filter(|most| *most > 0),
            schedule: match self.job.compat {
                Compat::Salt => RunSchedule::Ordered,
                Compat::Strict => self.job.settings.run.schedule,
            },
            jobs: self.job.settings.run.jobs,
            timeout: Some(self.job.settings.run.timeout),
            keep_journals: self.job.settings.run.keep,
            paths: parts.paths,
            run: place.run.clone(),
            node: self.job.node.clone(),
            revision: self.job.revision.clone(),
            trigger: self.trigger,
            progress: parts.progress,
            cancel: self.cancel,
            mask: place.mask.clone(),
            manager: place.manager,
            managed: self.managed_scope(place),
        }
    }
}

/// What a run needs and what is made for it.
#[derive(Clone, Copy)]
struct RunParts<'r> {
    paths: &'r Paths,
    files: &'r dyn FileTree,
    host: &'r dyn TemplateHost,
    templates: &'r dyn RenderTemplate,
    conditions: &'r GlobalConditions,
    progress: &'r dyn RunProgress,
}

/// The outcome that Salt reports as a state when the top files match nothing for a node.
fn no_states_outcome(job: &CompileJob, start: Timestamp) -> Result<Option<StateOutcome>, AgentError> {
    let is_empty = |value: &Value| value.as_map().is_none_or(Map::is_empty);
    if job.want != CompileTarget::Highstate || !is_empty(&job.compiler.high(&job.want)?) {
        return Ok(None);
    }
    let comment = if is_empty(&job.compiler.top()?) {
        "No Top file or master_tops data matches found. Please see master log for details."
    } else {
        "No states found for this minion"
    };
    Ok(Some(StateOutcome::no_states(comment, start)))
}

/// Turns the reason why no run happened into an error with a hint.
fn to_agent_error(error: &StateRunError) -> AgentError {
    let words = zagent_config::error_chain(error);
    match error {
        StateRunError::Lock(LockError::Held { .. }) => {
            AgentError::locked(words, "wait until it ends; list past runs with `zagent history`")
        }
        StateRunError::Root { source, .. } | StateRunError::Lock(LockError::Broken { source, .. })
            if source.kind() == std::io::ErrorKind::PermissionDenied =>
        {
            AgentError::permission(words)
        }
        StateRunError::NoState { id, ids, .. } => {
            let hint = match nearest(id, ids.iter().map(String::as_str)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("states of this run: {}", ids.join(", ")),
            };
            AgentError::usage_hint(words, zagent_config::sanitize(&hint))
        }
        StateRunError::NothingToRevert(_) => {
            AgentError::usage_hint(words, "list the runs with `zagent history`")
        }
        _ => AgentError::failed(words),
    }
}

/// All execution functions: those of the compiler and those of the host.
pub(crate) struct FullTemplateHost<'j> {
    inputs: &'j CompileInputs,
    pillar: &'j Value,
    functions: OnceLock<Functions>,
}

impl<'j> FullTemplateHost<'j> {
    pub(crate) const fn new(inputs: &'j CompileInputs, pillar: &'j Value) -> Self {
        Self { inputs, pillar, functions: OnceLock::new() }
    }
}

impl TemplateHost for FullTemplateHost<'_> {
    fn grain(&self, name: &str) -> Option<Value> {
        self.inputs.host.grain(name)
    }

    fn grains(&self) -> Value {
        self.inputs.host.grains()
    }

    fn call(&self, call: &FunctionCall) -> Result<Value, CallError> {
        let all = self.functions.get_or_init(|| Functions::new(self.inputs.clone(), self.pillar.clone()));
        all.call(call)
    }

    fn call_mutating(&self, call: &FunctionCall) -> Result<Value, CallError> {
        if functions::changes_host(&call.function) {
            self.inputs.host.call_mutating(call)
        } else {
            self.call(call)
        }
    }

    fn manager(&self) -> Option<Arc<dyn TemplateHost>> {
        self.inputs.host.manager()
    }

    fn resource(&self) -> Option<Value> {
        self.inputs.host.resource()
    }

    fn functions(&self) -> Vec<&'static str> {
        self.functions.get_or_init(|| Functions::new(self.inputs.clone(), self.pillar.clone())).names()
    }

    fn decrypt(&self, cipher: Cipher, armoured: &str) -> Result<Secret, String> {
        self.inputs.host.decrypt(cipher, armoured)
    }

    fn external_pillar(&self, pillar: &Value) -> Result<Vec<Value>, String> {
        self.inputs.host.external_pillar(pillar)
    }

    fn external_tops(&self) -> Result<Vec<Value>, String> {
        self.inputs.host.external_tops()
    }
}
