//! `zagent run`: one turn over the states of this node, a run of a directory, or the daemon.

use std::path::{Path, PathBuf};

use zagent_compiler::Plan;
use zagent_config::Value;

use super::checkout::ApplyChoice;
use super::local_run_args::LocalRunArgs;
use super::prune_args::PruneArgs;
use super::resource_args::{ResourceArgs, run_on_target};
use super::revert;
use super::run_args::{ReportArgs, RunOptionArgs};
use super::salt_args::SaltArgs;
use super::settings;
use super::tree_args::TreeArgs;
use crate::cli::run_printer::RunPrinter;
use crate::exit_code;
use crate::output::{ReportFormat, Ui};
use zagent_daemon::DaemonSetup;
use zagent_daemon::compile_job::{CompileJob, PlanCacheUse, PlanWithPillar};
use zagent_daemon::compile_request::CompileRequest;
use zagent_daemon::error::{AgentError, ExitStatus};
use zagent_daemon::plan_file::{PlanFileUse, SavedPlan};
use zagent_daemon::plan_run;
use zagent_daemon::resource_run::{PlanRequest, TargetText};
use zagent_daemon::turn_options::{TurnOptions, TurnTarget};
use zagent_run::{RunOptions, RunReport, RunTrigger};

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

    /// Undo the changes of the given run, or of the `last` one; without a run it asks on a terminal. With `--test` it
    /// shows what would be undone
    #[arg(long, value_name = "RUN", num_args = 0..=1, help_heading = "Undo")]
    revert: Option<Option<String>>,

    /// Undo also what has been modified outside zagent since
    #[arg(long, requires = "revert", help_heading = "Undo")]
    force: bool,

    /// Undo only the state with this ID
    #[arg(long, value_name = "ID", visible_alias = "only-state", requires = "revert", help_heading = "Undo")]
    state: Option<String>,

    #[command(flatten)]
    prune: PruneArgs,

    #[command(flatten)]
    local: LocalRunArgs,

    #[command(flatten)]
    order: RunOptionArgs,

    #[command(flatten)]
    tree: TreeArgs,

    #[command(flatten)]
    resources: ResourceArgs,

    #[command(flatten)]
    report: ReportArgs,
}

impl RunArgs {
    pub(super) const fn format(&self) -> ReportFormat {
        self.report.out
    }

    /// Takes over flags that stood before the command.
    pub(super) fn add_resources(&mut self, resources: ResourceArgs) {
        self.resources.add_earlier(resources);
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let target = self.resources.target()?;
        let (mut tree, mut flags, mut words) =
            (self.tree.clone(), self.order.clone(), SaltArgs::new(&self.words));
        words.take_run_keys(&mut tree, &mut flags)?;
        words.reject_named(&[])?;
        words.reject_positional("select SLS files with `--sls a,b`")?;
        let (revert, state) = (self.revert.clone(), self.state.clone());
        let prune = self.prune.flags()?;
        let order = RunOptions { revert, force: self.force, state, prune, ..flags.to_order() };
        if order.revert.is_some() {
            return self.run_revert((&tree, &flags), order, target.as_ref(), ui);
        }
        if !self.once {
            self.reject_daemon_target()?;
            return self.run_daemon(&tree, &order);
        }
        self.local.reject_misuse(order.test, target.is_some())?;
        if let Some(path) = &self.local.plan {
            return self.apply_plan(path, &tree, order, ui);
        }
        // An unattended run has a source, and starts also with a configuration that is invalid now.
        let is_attended = self.trigger == TriggerArg::Manual;
        if is_attended && self.local.locate(&mut tree, order.test, ui)? == ApplyChoice::Leave {
            ui.message("Nothing was changed.");
            return Ok(ExitStatus::Success);
        }
        let request = tree.request()?;
        let plan_file = self.local.plan_file_to_save(&request);
        if tree.states.is_some() {
            let job = tree.job()?;
            if let Some(target) = &target {
                let how = (&order, self.order.fresh);
                return run_on_target(&job, (target, &PlanRequest::Tree), how, &self.report, ui);
            }
            let cache = PlanCacheUse { save: !order.test, fresh: self.order.fresh };
            return self.run_tree(job, cache, (&order, plan_file.as_ref()), ui);
        }
        let target = target.map_or(TurnTarget::Node, TurnTarget::Named);
        self.run_turn(request, order, (target, plan_file), ui)
    }

    /// Runs the states of a directory.
    fn run_tree(
        &self,
        mut job: CompileJob,
        cache: PlanCacheUse,
        (order, plan_file): (&RunOptions, Option<&PlanFileUse>),
        ui: &mut Ui<'_>,
    ) -> Result<ExitStatus, AgentError> {
        if plan_file.is_some() {
            job.trace_run();
        }
        let cache = PlanCacheUse { fresh: cache.fresh || plan_file.is_some(), ..cache };
        let planned = job.plan(cache, ui)?;
        let mut printer = RunPrinter { ui: &mut *ui, format: self.report.out };
        let report = plan_run::run_manually(&job, &planned, (order, plan_file), &mut printer)?;
        self.local.announce_saved(report.is_success(), ui);
        Ok(exit_code::run_exit(&report, self.report.detailed_exitcodes))
    }

    /// Runs one turn over the states that the node follows.
    fn run_turn(
        &self,
        request: CompileRequest,
        order: RunOptions,
        (target, plan_file): (TurnTarget, Option<PlanFileUse>),
        ui: &mut Ui<'_>,
    ) -> Result<ExitStatus, AgentError> {
        let turn = TurnOptions {
            trigger: self.trigger.into(),
            fetch: !self.no_fetch,
            request,
            order,
            fresh: self.order.fresh,
            last_config: self.last_config.clone(),
            handover: None,
            target,
            plan_file,
        };
        let ended = turn.run(&mut RunPrinter { ui: &mut *ui, format: self.report.out })?;
        let has_run = ended.report.as_ref().is_some_and(RunReport::is_success);
        self.local.announce_saved(has_run, ui);
        Ok(exit_code::turn_exit(&ended, self.report.detailed_exitcodes))
    }

    /// Applies a saved plan: with the flags of its dry run, and only when nothing changed since.
    fn apply_plan(
        &self,
        path: &Path,
        tree: &TreeArgs,
        order: RunOptions,
        ui: &mut Ui<'_>,
    ) -> Result<ExitStatus, AgentError> {
        let settings = settings::load(tree.config.as_deref())?;
        let saved = SavedPlan::load(path, &settings)?;
        if saved.needs_pillar_data() && tree.pillar_data.is_none() {
            return Err(AgentError::usage_hint(
                "the dry run had pillar data from the command line, which a plan file does not hold",
                "give the same `--pillar-data` again",
            ));
        }
        let (request, order) = (saved.request(tree.request()?), saved.options(order));
        ui.message(&saved.summary());
        let plan_file = PlanFileUse::Apply(Box::new(saved));
        if request.states.is_none() {
            return self.run_turn(request, order, (TurnTarget::Node, Some(plan_file)), ui);
        }
        let job = request.job(settings)?;
        self.run_tree(job, PlanCacheUse { save: true, fresh: true }, (&order, Some(&plan_file)), ui)
    }

    fn run_revert(
        &self,
        (tree, flags): (&TreeArgs, &RunOptionArgs),
        mut order: RunOptions,
        target: Option<&TargetText>,
        ui: &mut Ui<'_>,
    ) -> Result<ExitStatus, AgentError> {
        revert::reject_options(tree, flags)?;
        let job = tree.job_without_states()?;
        if let Some(target) = target {
            revert::reject_unnamed(&order)?;
            let what = (target, &PlanRequest::Revert);
            return run_on_target(&job, what, (&order, false), &self.report, ui);
        }
        if revert::choose_run(&job, &mut order, ui)? == revert::Choice::Leave {
            ui.message("Nothing was changed.");
            return Ok(ExitStatus::Success);
        }
        let nothing = PlanWithPillar { plan: Plan::default(), pillar: Value::Null, is_complete: false };
        run_plan(&job, &nothing, &order, &self.report, ui)
    }

    /// The daemon takes its target from the configuration.
    fn reject_daemon_target(&self) -> Result<(), AgentError> {
        match self.resources.is_given() {
            false => Ok(()),
            true => Err(AgentError::usage_hint(
                "the daemon runs with the configuration, not with flags",
                "set `resources.target`, or add --once for a single run",
            )),
        }
    }

    /// Runs as a daemon.
    fn run_daemon(&self, tree: &TreeArgs, order: &RunOptions) -> Result<ExitStatus, AgentError> {
        if order.test
            || self.local.is_given()
            || tree.states.is_some()
            || !tree.sls.is_empty()
            || tree.grains.is_some()
            || order.prune.is_some()
        {
            let hint =
                "add --once for a single run; to follow a directory permanently, add it to `source.remotes`";
            return Err(AgentError::usage_hint(
                "the daemon runs with the configuration, not with flags",
                hint,
            ));
        }
        let settings = || settings::load(tree.config.as_deref());
        let program = std::env::current_exe().map_err(|error| {
            AgentError::failed(format!("cannot find the path of the zagent binary: {error}"))
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

/// Runs a plan, prints its report and saves it in the history.
pub(super) fn run_plan(
    job: &CompileJob,
    planned: &PlanWithPillar,
    order: &RunOptions,
    args: &ReportArgs,
    ui: &mut Ui<'_>,
) -> Result<ExitStatus, AgentError> {
    let mut printer = RunPrinter { ui, format: args.out };
    let report = plan_run::run_manually(job, planned, (order, None), &mut printer)?;
    Ok(exit_code::run_exit(&report, args.detailed_exitcodes))
}
