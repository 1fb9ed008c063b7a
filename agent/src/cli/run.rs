//! `zagent run`: one cycle over the states of this node. Every command that runs states ends in [`run_plan`].

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;
use zagent_compiler::functions::Functions;
use zagent_compiler::{
    CallError, Cipher, Compat, CompileInputs, CompileTarget, Compiler, FunctionCall, Plan, TemplateHost,
};
use zagent_config::settings::{RunSchedule, Settings};
use zagent_config::suggest::nearest;
use zagent_config::{Map, Value};

use super::compile_job::{CompileJob, PlanWithPillar, TreeArgs};
use super::run_args::{ReportArgs, RunOptionArgs};
use super::salt_args::SaltArgs;
use super::settings;
use crate::output::report::ReportView;
use crate::output::{ReportFormat, Ui};
use zagent_daemon::error::{CliError, ExitStatus};
use zagent_daemon::operator::pause::Pause;
use zagent_daemon::{CompletedRun, DaemonSetup, StatesSource, SyncOptions, TurnHooks};
use zagent_host::timezone::local_zone;
use zagent_host::{CancelToken, Machine};
use zagent_run::RunProgress;
use zagent_run::history;
use zagent_run::history::History;
use zagent_run::{
    LockError, RunMode, RunOptions, RunReport, RunTrigger, SignalWatcher, StateOutcome, StateRun,
    StateRunError, StateStatus,
};
use zagent_states::file_tree::CachedFiles;
use zagent_states::functions;
use zagent_states::{FileTemplate, RenderTemplate};

/// Apply the states of this node, or predict the changes with `--test`
#[derive(Debug, clap::Args)]
pub(super) struct RunArgs {
    /// `test=True`, `pillar='{…}'`, `saltenv=NAME`, as in Salt
    #[arg(value_name = "KEY=VALUE")]
    words: Vec<String>,

    /// Run once and exit; without it, the agent runs as a daemon and follows its remotes
    #[arg(long)]
    once: bool,

    /// Do not contact the remotes: run the current generation
    #[arg(long, visible_alias = "offline")]
    no_fetch: bool,

    /// What triggered this run
    #[arg(long, value_enum, value_name = "WHAT", default_value_t, hide = true)]
    trigger: TriggerArg,

    /// Location of the last good configuration, used when the current one is invalid
    #[arg(long, value_name = "FILE", hide = true)]
    last_config: Option<PathBuf>,

    /// Undo the changes of a run: the last one, or the given run
    #[arg(long, value_name = "RUN", num_args = 0..=1, help_heading = "Undo")]
    revert: Option<Option<String>>,

    /// Undo also what has been modified outside zagent since
    #[arg(long, requires = "revert", help_heading = "Undo")]
    force: bool,

    /// Undo only the state with this ID
    #[arg(long, value_name = "ID", visible_alias = "only-state", requires = "revert", help_heading = "Undo")]
    state: Option<String>,

    #[command(flatten)]
    order: RunOptionArgs,

    #[command(flatten)]
    tree: TreeArgs,

    #[command(flatten)]
    report: ReportArgs,
}

impl RunArgs {
    pub(super) const fn format(&self) -> ReportFormat {
        self.report.out
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, CliError> {
        let (mut tree, mut flags, mut words) =
            (self.tree.clone(), self.order.clone(), SaltArgs::new(&self.words));
        words.take_run_keys(&mut tree, &mut flags)?;
        words.reject_named(&[])?;
        words.reject_positional("select SLS files with `--sls a,b`")?;
        let (revert, state) = (self.revert.clone(), self.state.clone());
        let mut order = RunOptions { revert, force: self.force, state, ..flags.to_order() };
        if order.revert.is_some() {
            let job = tree.job_without_states()?;
            if order.force && order.revert == Some(None) {
                order.revert = Some(last_reverted_run(&job)?);
            }
            let nothing = PlanWithPillar { plan: Plan::default(), pillar: Value::Null };
            return run_plan(&job, &nothing, &order, &self.report, ui);
        }
        if !self.once {
            return self.run_daemon(&tree, &order);
        }
        if tree.states.is_some() {
            let job = tree.job()?;
            let planned = job.plan(!order.test, self.order.fresh, ui)?;
            return run_plan(&job, &planned, &order, &self.report, ui);
        }
        self.run_turn(&tree, &order, ui)
    }

    /// One cycle over the revision that the node follows.
    fn run_turn(&self, tree: &TreeArgs, order: &RunOptions, ui: &mut Ui<'_>) -> Result<ExitStatus, CliError> {
        let settings = if self.trigger == TriggerArg::Manual {
            settings::load(tree.config.as_deref())?
        } else {
            let mut warn = |words: &str| super::warn(words, ui);
            settings::load_or_last_good(tree.config.as_deref(), self.last_config.as_deref(), &mut warn)?
        };
        if !order.test {
            settings::save_last_good(&settings);
        }
        let cancel = Arc::new(CancelToken::new());
        // Held until everything is printed and saved: a stop signal at the very end does not lose the report.
        let _signals = SignalWatcher::watch(&cancel);
        let machine = Machine::this_host();
        let turn = zagent_daemon::Turn {
            settings: &settings,
            machine: &machine,
            sync_options: self.should_fetch(tree, &settings).then(|| SyncOptions {
                retry_refused: self.trigger == TriggerArg::Manual,
                ..SyncOptions::default()
            }),
            partial: !tree.sls.is_empty(),
            test: order.test,
            trigger: self.trigger.into(),
            seed: zagent_daemon::machine_seed(settings.id.as_str()),
            cancel: &cancel,
        };
        let mut hooks = CliTurnHooks { args: self, tree, order, settings: &settings, cancel: &cancel, ui };
        let ended = turn.run(&mut hooks)?;
        let of_run = ended
            .report
            .as_ref()
            .map_or(ExitStatus::Success, |r| exit_status(r, self.report.detailed_exitcodes));
        Ok(ended.exit_status(of_run))
    }

    /// Whether to contact the remotes first. A run of selected SLS files takes no new revision: a new
    /// revision must pass its health checks as a whole.
    fn should_fetch(&self, tree: &TreeArgs, settings: &Settings) -> bool {
        let is_there = || settings.paths().current().exists();
        !self.no_fetch && (tree.sls.is_empty() || !is_there())
    }

    /// Runs as a daemon.
    fn run_daemon(&self, tree: &TreeArgs, order: &RunOptions) -> Result<ExitStatus, CliError> {
        if order.test || tree.states.is_some() || !tree.sls.is_empty() || tree.grains.is_some() {
            let hint =
                "add --once for a single run; to follow a directory permanently, add it to `source.remotes`";
            return Err(CliError::usage_hint("the daemon runs with the configuration, not with flags", hint));
        }
        let settings = || settings::load(tree.config.as_deref());
        let program = std::env::current_exe().map_err(|error| {
            CliError::failed(format!("cannot find the path of the zagent binary: {error}"))
        })?;
        let mut args = Vec::new();
        if let Some(config) = &tree.config {
            args.extend(["--config".into(), config.clone().into_os_string()]);
        }
        let now = settings()?;
        settings::save_last_good(&now);
        let turn_args = vec![format!("--last-config={}", now.paths().last_config().display()).into()];
        let seed = zagent_daemon::machine_seed(now.id.as_str());
        zagent_daemon::stay(DaemonSetup { program, args, turn_args, settings: &settings, seed })
            .map(|()| ExitStatus::Success)
    }
}

/// What triggered a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum TriggerArg {
    Timer,
    Git,
    #[default]
    Manual,
    Drift,
    Rollout,
}

impl From<TriggerArg> for RunTrigger {
    fn from(trigger: TriggerArg) -> Self {
        match trigger {
            TriggerArg::Timer => Self::Timer,
            TriggerArg::Git => Self::Git,
            TriggerArg::Manual => Self::Manual,
            TriggerArg::Drift => Self::Drift,
            TriggerArg::Rollout => Self::Rollout,
        }
    }
}

/// What a cycle needs from the command line: compile, run, report.
struct CliTurnHooks<'a, 'u> {
    args: &'a RunArgs,
    tree: &'a TreeArgs,
    order: &'a RunOptions,
    settings: &'a Settings,
    cancel: &'a Arc<CancelToken>,
    ui: &'a mut Ui<'u>,
}

impl TurnHooks for CliTurnHooks<'_, '_> {
    fn check_compiles(&mut self, top: &Path) -> Result<(), CliError> {
        // All states of this node, not only those of this run.
        let tree = TreeArgs { sls: Vec::new(), ..self.tree.clone() };
        let job = tree.job_for_dir(top, "", self.settings.clone())?;
        Ok(job.compiler.compile(&job.want).map(drop)?)
    }

    fn run(&mut self, states_source: &StatesSource, trigger: RunTrigger) -> Result<CompletedRun, CliError> {
        let job =
            self.tree.job_for_dir(&states_source.top, &states_source.revision, self.settings.clone())?;
        let planned = job.plan(!self.order.test, self.args.order.fresh, self.ui)?;
        let by = (self.order, trigger, self.cancel);
        let report = run_and_print(&job, &planned, by, &self.args.report, self.ui)?;
        if report.mode != RunMode::Test {
            record_history(&job, &report, self.ui);
        }
        Ok(CompletedRun { report, mask: job.mask(false) })
    }

    fn warn(&mut self, words: &str) {
        super::warn(words, self.ui);
    }
}

/// The run that the last run reverted, if it was a revert: `--force` repeats that revert and does not revert
/// the revert.
fn last_reverted_run(job: &CompileJob) -> Result<Option<String>, CliError> {
    let history = History::new(&job.settings.paths(), job.settings.run.keep);
    match history.last(Timestamp::now()) {
        Ok(last) => Ok(last.and_then(|head| head.reverts)),
        Err(error) => {
            let message = format!("which run? {}", zagent_config::error_chain(&error));
            Err(CliError::usage_hint(message, "name it: zagent run --revert RUN --force"))
        }
    }
}

/// Runs a plan, prints its report and saves it in the history.
pub(super) fn run_plan(
    job: &CompileJob,
    planned: &PlanWithPillar,
    order: &RunOptions,
    args: &ReportArgs,
    ui: &mut Ui<'_>,
) -> Result<ExitStatus, CliError> {
    if !order.test {
        warn_if_paused(job, ui);
    }
    let cancel = Arc::new(CancelToken::new());
    // Held until everything is printed and saved: a stop signal at the very end does not lose the report.
    let _signals = SignalWatcher::watch(&cancel);
    let report = run_and_print(job, planned, (order, RunTrigger::Manual, &cancel), args, ui)?;
    // A dry run is not recorded.
    if report.mode != RunMode::Test {
        record_history(job, &report, ui);
    }
    Ok(exit_status(&report, args.detailed_exitcodes))
}

/// A pause stops only automatic runs; a person who starts a run may not know about it.
fn warn_if_paused(job: &CompileJob, ui: &mut Ui<'_>) {
    let now = Timestamp::now();
    if let Ok(Some(pause)) = Pause::read(&job.settings.paths(), now) {
        let words = pause.summary(now, &local_zone());
        super::warn(&format!("the agent is {words}; continuing, because this run was started manually"), ui);
    }
}

/// Runs a plan and prints its report.
pub(super) fn run_and_print(
    job: &CompileJob,
    planned: &PlanWithPillar,
    by: (&RunOptions, RunTrigger, &Arc<CancelToken>),
    args: &ReportArgs,
    ui: &mut Ui<'_>,
) -> Result<RunReport, CliError> {
    let zone = local_zone();
    let watcher = ui.progress_reporter(args.out, planned.plan.chunks.len(), &job.mask(false), zone.clone());
    let report = converge(job, planned, by, watcher.progress());
    // Remove the progress line from the terminal before printing anything else.
    drop(watcher);
    let report = report?;
    let mask = job.mask(false);
    let view = ReportView::new(&report, &mask, zone);
    ui.print(&match args.out {
        ReportFormat::Ndjson => view.summary_line(),
        format => view.render(format, ui.verbose > 0, ui.paint),
    });
    Ok(report)
}

/// Saves a report. A failure to write the history is a warning and stops nothing.
fn record_history(job: &CompileJob, report: &RunReport, ui: &mut Ui<'_>) {
    let history = History::new(&job.settings.paths(), job.settings.run.keep);
    let kept = history.record(report, &job.mask(false)).and_then(|()| history.drain_if_full(report.start));
    let troubles = kept.unwrap_or_else(|cli_error| vec![cli_error]);
    for cli_error in troubles {
        super::warn(&zagent_config::error_chain(&cli_error), ui);
    }
}

/// Exit status after a run.
pub(super) fn exit_status(report: &RunReport, detailed: bool) -> ExitStatus {
    let changed = report.count(StateStatus::Changed) + report.count(StateStatus::WouldChange) > 0;
    match (detailed, changed, report.is_success()) {
        (true, true, true) => ExitStatus::Changes,
        (true, false, false) => ExitStatus::Failures,
        (true, true, false) => ExitStatus::ChangesAndFailures,
        (_, _, true) => ExitStatus::Success,
        (false, _, false) => ExitStatus::Failed,
    }
}

/// Applies the plan to the host, or predicts the changes.
fn converge(
    job: &CompileJob,
    planned: &PlanWithPillar,
    (order, trigger, cancel): (&RunOptions, RunTrigger, &Arc<CancelToken>),
    watcher: &dyn RunProgress,
) -> Result<RunReport, CliError> {
    let failhard = job.inputs.options.opts.get("failhard").is_some_and(Value::is_truthy);
    let host = FullTemplateHost::new(&job.inputs, &planned.pillar);
    let paths = job.settings.paths();
    let files = CachedFiles::new(&*job.states);
    let turn = StateRun {
        plan: &planned.plan,
        order,
        machine: &job.machine,
        files: &files,
        host: &host,
        templates: &CompilerTemplates(&job.compiler),
        pillar: &planned.pillar,
        compat: job.compat,
        failhard,
        schedule: match job.compat {
            Compat::Salt => RunSchedule::Ordered,
            Compat::Strict => job.settings.run.schedule,
        },
        jobs: job.settings.run.jobs,
        timeout: Some(job.settings.run.timeout),
        keep_journals: job.settings.run.keep,
        paths: &paths,
        run: history::run_name(Timestamp::now(), history::random_suffix()),
        node: job.node.clone(),
        revision: job.revision.clone(),
        trigger,
        progress: watcher,
        cancel,
    };
    let mut report = turn.run().map_err(|error| to_cli_error(&error))?;
    if job.compat == Compat::Salt && planned.plan.chunks.is_empty() && order.revert.is_none() {
        report.states.extend(no_states_outcome(job, report.start)?);
    }
    Ok(report)
}

/// The outcome that Salt reports as a state when the top files match nothing for a node.
fn no_states_outcome(job: &CompileJob, start: Timestamp) -> Result<Option<StateOutcome>, CliError> {
    let is_empty = |value: &Value| value.as_map().is_none_or(Map::is_empty);
    if job.want != CompileTarget::Highstate || !is_empty(&job.compiler.high(&job.want)?) {
        return Ok(None);
    }
    let comment = if is_empty(&job.compiler.top()?) {
        "No Top file or master_tops data matches found. Please see master log for details."
    } else {
        "No states found for this minion"
    };
    Ok(Some(StateOutcome {
        tag: "no_|-states_|-states_|-None".into(),
        state: "no".into(),
        fun: "None".into(),
        id: "states".into(),
        sls: String::new(),
        name: "No States".into(),
        about: None,
        result: Some(false),
        unknown: false,
        skip: None,
        changes: Map::new(),
        comment: comment.into(),
        diff: String::new(),
        details: Map::new(),
        run_num: 0,
        level: 0,
        start,
        duration: Duration::ZERO,
    }))
}

/// Turns the reason why no run happened into an error with a hint.
fn to_cli_error(error: &StateRunError) -> CliError {
    let words = zagent_config::error_chain(error);
    match error {
        StateRunError::Lock(LockError::Held { .. }) => {
            CliError::locked(words, "wait until it ends; list past runs with `zagent history`")
        }
        StateRunError::Root { source, .. } | StateRunError::Lock(LockError::Broken { source, .. })
            if source.kind() == std::io::ErrorKind::PermissionDenied =>
        {
            CliError::permission(words)
        }
        StateRunError::NoState { id, ids, .. } => {
            let hint = match nearest(id, ids.iter().map(String::as_str)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("states of this run: {}", ids.join(", ")),
            };
            CliError::usage_hint(words, zagent_config::sanitize(&hint))
        }
        StateRunError::NothingToRevert(_) => {
            CliError::usage_hint(words, "list the runs with `zagent history`")
        }
        _ => CliError::failed(words),
    }
}

/// Renders templates of managed files with the compiler that built the plan.
struct CompilerTemplates<'c>(&'c Compiler);

impl RenderTemplate for CompilerTemplates<'_> {
    fn render(&self, template: &FileTemplate) -> Result<String, String> {
        let FileTemplate { env, path, source, variables } = template;
        self.0.render_file(env, path, source, variables).map_err(|fault| fault.to_string())
    }
}

/// All execution functions: those of the compiler and those of the host.
struct FullTemplateHost<'j> {
    inputs: &'j CompileInputs,
    pillar: &'j Value,
    functions: OnceLock<Functions>,
}

impl<'j> FullTemplateHost<'j> {
    const fn new(inputs: &'j CompileInputs, pillar: &'j Value) -> Self {
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

    fn functions(&self) -> Vec<&'static str> {
        self.functions.get_or_init(|| Functions::new(self.inputs.clone(), self.pillar.clone())).names()
    }

    fn decrypt(&self, cipher: Cipher, armoured: &str) -> Result<String, String> {
        self.inputs.host.decrypt(cipher, armoured)
    }

    fn external_pillar(&self, pillar: &Value) -> Result<Vec<Value>, String> {
        self.inputs.host.external_pillar(pillar)
    }

    fn external_tops(&self) -> Result<Vec<Value>, String> {
        self.inputs.host.external_tops()
    }
}
