//! Flags that name resources in, a target out; and the run of a command on that target.

use zagent_compiler::FunctionCall;
use zagent_config::target::MatchKind;

use super::run_args::ReportArgs;
use super::run_printer::RunPrinter;
use crate::exit_code;
use crate::output::Ui;
use zagent_daemon::compile_job::{CompileJob, PlanCacheUse};
use zagent_daemon::error::{AgentError, ExitStatus};
use zagent_daemon::resource_run::{
    self, FunctionReply, ManualRun, PlanRequest, ResourceSet, Selection, TargetText,
};
use zagent_daemon::run_output::Messages;
use zagent_resources::grains::GrainsUse;
use zagent_run::RunOptions;

/// Which of the node and its resources to run on
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Resources")]
pub(super) struct ResourceArgs {
    /// Run on the resources of this node too, or on those that `--target` names; without it, on this node alone
    #[arg(short = 'r', long)]
    resources: bool,

    /// Node and resources to run on, such as `web-01`, `T@ssh` or `T@ssh and G@os:Debian`; default: all
    #[arg(long, visible_alias = "tgt", value_name = "EXPR")]
    target: Option<String>,

    /// How the target is read; default: compound, which a glob and an id are too
    #[arg(long, visible_alias = "tgt-type", value_enum, value_name = "TYPE")]
    target_type: Option<TargetTypeArg>,
}

/// How a target is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum TargetTypeArg {
    /// Shell pattern on the id
    Glob,
    /// Ids between commas
    List,
    /// Grain and shell pattern: os:Deb*
    Grain,
    /// Grain and regular expression
    #[value(name = "grain_pcre", alias = "grain-pcre")]
    GrainPcre,
    /// Words with and, or, not and parentheses
    Compound,
}

impl From<TargetTypeArg> for MatchKind {
    fn from(kind: TargetTypeArg) -> Self {
        match kind {
            TargetTypeArg::Glob => Self::Glob,
            TargetTypeArg::List => Self::List,
            TargetTypeArg::Grain => Self::Grain,
            TargetTypeArg::GrainPcre => Self::GrainPcre,
            TargetTypeArg::Compound => Self::Compound,
        }
    }
}

impl ResourceArgs {
    /// True when any of the flags was given.
    pub(super) const fn is_given(&self) -> bool {
        self.resources || self.target.is_some() || self.target_type.is_some()
    }

    /// Takes over flags that stood before the command.
    pub(super) fn add_earlier(&mut self, earlier: Self) {
        self.resources |= earlier.resources;
        self.target = self.target.take().or(earlier.target);
        self.target_type = self.target_type.or(earlier.target_type);
    }

    /// The target; none when the node alone runs.
    pub(super) fn target(&self) -> Result<Option<TargetText>, AgentError> {
        if !self.resources {
            return match self.is_given() {
                false => Ok(None),
                true => Err(AgentError::usage_hint(
                    "`--target` is about resources, and without `-r` the node alone runs",
                    "add `-r`",
                )),
            };
        }
        let kind = self.target_type.map_or(MatchKind::Compound, MatchKind::from);
        Ok(Some(TargetText { text: self.target.clone().unwrap_or_else(|| "*".into()), kind }))
    }

    /// Rejects the flags where the node alone can run.
    pub(super) fn reject(&self, command: &str) -> Result<(), AgentError> {
        match self.is_given() {
            false => Ok(()),
            true => Err(AgentError::usage(format!(
                "`{command}` runs on this node alone: omit `-r` and `--target`"
            ))),
        }
    }
}

/// What is selected; says so when that is nothing.
fn select(
    job: &CompileJob,
    target: &TargetText,
    ui: &mut Ui<'_>,
) -> Result<(ResourceSet, Selection), AgentError> {
    let set = ResourceSet::discover(job, GrainsUse::Kept, ui)?;
    let selection = set.select(job, target)?;
    if selection.count() == 0 {
        let words = format!("the target `{}` matches neither this node nor a resource of it", target.text);
        ui.warn(&format!("{words}; list them with `zagent resource list`"));
    }
    Ok((set, selection))
}

/// Runs states on a target, prints one report and saves it in the history.
pub(super) fn run_on_target(
    job: &CompileJob,
    (target, request): (&TargetText, &PlanRequest),
    (order, fresh): (&RunOptions, bool),
    args: &ReportArgs,
    ui: &mut Ui<'_>,
) -> Result<ExitStatus, AgentError> {
    let (set, selection) = select(job, target, ui)?;
    let cache = PlanCacheUse { save: !order.test, fresh };
    let planned = match request {
        PlanRequest::Tree if selection.node => Some(job.plan(cache, ui)?),
        _ => None,
    };
    let run = ManualRun { job, set: &set, selection: &selection, request, order };
    let mut printer = RunPrinter { ui, format: args.out };
    let report = resource_run::run_manually(&run, planned, &mut printer)?;
    Ok(exit_code::run_exit(&report, args.detailed_exitcodes))
}

/// Calls an execution function on a target.
pub(super) fn call_on_target(
    job: &CompileJob,
    target: &TargetText,
    call: &FunctionCall,
    ui: &mut Ui<'_>,
) -> Result<FunctionReply, AgentError> {
    let (set, selection) = select(job, target, ui)?;
    Ok(resource_run::call_on_targets(job, &set, &selection, call))
}
