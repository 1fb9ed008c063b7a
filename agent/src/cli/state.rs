//! `zagent state.apply | state.highstate | state.sls | state.sls_id | state.single | state.low`: Salt's own
//! commands.

use std::sync::Arc;

use zagent_compiler::{Chunk, Compat, TreeLimits, yaml};
use zagent_config::{Map, Value};

use super::resource_args::{ResourceArgs, run_on_target};
use super::run::run_plan;
use super::run_args::{ReportArgs, RunOptionArgs};
use super::salt_args::SaltArgs;
use super::tree_args::TreeArgs;
use crate::output::{ReportFormat, Ui};
use zagent_daemon::compile_job::{CompileJob, PlanCacheUse, PlanWithPillar};
use zagent_daemon::error::{AgentError, ExitStatus};
use zagent_daemon::resource_run::PlanRequest;
use zagent_daemon::run_output::Messages;
use zagent_run::RunOptions;

/// Arguments of every command that runs states.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct StateCommonArgs {
    #[command(flatten)]
    pub(super) order: RunOptionArgs,

    #[command(flatten)]
    pub(super) tree: TreeArgs,

    #[command(flatten)]
    pub(super) resources: ResourceArgs,

    #[command(flatten)]
    pub(super) report: ReportArgs,
}

impl StateCommonArgs {
    /// Combines positional arguments and flags.
    pub(super) fn resolve_args(
        &self,
        words: &[String],
    ) -> Result<(SaltArgs, TreeArgs, RunOptions), AgentError> {
        let (mut tree, mut order, mut words) = (self.tree.clone(), self.order.clone(), SaltArgs::new(words));
        words.take_run_keys(&mut tree, &mut order)?;
        Ok((words, tree, order.to_order()))
    }
}

/// A command and its arguments.
#[derive(Debug, clap::Args)]
pub(super) struct StateCommandArgs {
    /// SLS names, IDs, functions and `key=value`, as Salt's command of the same name takes them
    #[arg(value_name = "WORD")]
    words: Vec<String>,

    #[command(flatten)]
    common: StateCommonArgs,
}

/// Which command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StateVerb {
    /// What the top files select, or the given SLS files.
    Apply,
    /// What the top files select.
    Highstate,
    /// The given SLS files.
    Sls,
    /// One ID of an SLS file, and what it waits for.
    SlsId,
    /// One state given on the command line.
    Single,
    /// Same, as low data.
    Low,
}

impl StateCommandArgs {
    pub(super) const fn format(&self) -> ReportFormat {
        self.common.report.out
    }

    /// Takes over flags that stood before the command.
    pub(super) fn add_resources(&mut self, resources: ResourceArgs) {
        self.common.resources.add_earlier(resources);
    }

    pub(super) fn run(&self, verb: StateVerb, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let (words, tree, order) = self.common.resolve_args(&self.words)?;
        match verb {
            StateVerb::Apply | StateVerb::Highstate | StateVerb::Sls => {
                self.apply_tree(verb, words, tree, &order, ui)
            }
            StateVerb::SlsId => self.run_sls_id(&words, tree, &order, ui),
            StateVerb::Single => {
                let (function, words) = take_function(words)?;
                run_single(&function, words, &tree, &order, &self.common, ui)
            }
            StateVerb::Low => {
                self.common.resources.reject("state.low")?;
                self.run_low(&words, &tree, &order, ui)
            }
        }
    }

    fn apply_tree(
        &self,
        verb: StateVerb,
        mut words: SaltArgs,
        tree: TreeArgs,
        order: &RunOptions,
        ui: &mut Ui<'_>,
    ) -> Result<ExitStatus, AgentError> {
        let mut sls = tree.sls.clone();
        match verb {
            StateVerb::Highstate => {
                words.reject_positional("`state.highstate` takes no SLS names; use `state.apply`")?;
            }
            _ => sls.extend(words.positional.iter().flat_map(|w| split_names(w))),
        }
        match words.named.remove("mods") {
            None | Some(Value::Null) => {}
            Some(Value::List(list)) => sls.extend(list.iter().map(zagent_config::value::python_str)),
            Some(mods) => sls.extend(split_names(&zagent_config::value::python_str(&mods))),
        }
        words.reject_named(&["mods"])?;
        if verb == StateVerb::Sls && sls.is_empty() {
            return Err(AgentError::usage_hint(
                "no SLS name given",
                "zagent state.sls a,b; to apply all: zagent state.highstate",
            ));
        }
        let job = TreeArgs { sls, ..tree }.job()?;
        if let Some(target) = self.common.resources.target()? {
            let how = (order, self.common.order.fresh);
            return run_on_target(&job, (&target, &PlanRequest::Tree), how, &self.common.report, ui);
        }
        let planned = job.plan(PlanCacheUse { save: !order.test, fresh: self.common.order.fresh }, ui)?;
        run_plan(&job, &planned, order, &self.common.report, ui)
    }

    fn run_sls_id(
        &self,
        words: &SaltArgs,
        tree: TreeArgs,
        order: &RunOptions,
        ui: &mut Ui<'_>,
    ) -> Result<ExitStatus, AgentError> {
        words.reject_named(&[])?;
        let [id, sls @ ..] = words.positional.as_slice() else {
            return Err(AgentError::usage_hint("no state ID given", "zagent state.sls_id ID SLS"));
        };
        let mut all = tree.sls.clone();
        all.extend(sls.iter().flat_map(|w| split_names(w)));
        if all.is_empty() {
            return Err(AgentError::usage_hint("no SLS name given", format!("zagent state.sls_id {id} SLS")));
        }
        let job = TreeArgs { sls: all, ..tree }.job()?;
        let request = PlanRequest::SlsId(id.clone());
        if let Some(target) = self.common.resources.target()? {
            return run_on_target(&job, (&target, &request), (order, false), &self.common.report, ui);
        }
        let (planned, warnings) = request.plan(&job)?;
        warnings.iter().for_each(|warning| ui.compile_warning(warning));
        run_plan(&job, &planned, order, &self.common.report, ui)
    }

    fn run_low(
        &self,
        words: &SaltArgs,
        tree: &TreeArgs,
        order: &RunOptions,
        ui: &mut Ui<'_>,
    ) -> Result<ExitStatus, AgentError> {
        const EXAMPLE: &str = r#"example: '{"state": "pkg", "fun": "installed", "name": "vim"}'"#;
        words.reject_named(&["data"])?;
        let [text] = words.positional.as_slice() else {
            return Err(AgentError::usage_hint("`state.low` takes one mapping", EXAMPLE));
        };
        let data = Value::from_json_str(text).or_else(|_| yaml::load(text, &TreeLimits::default()));
        let data = match data {
            Ok(Value::Map(map)) => Arc::unwrap_or_clone(map),
            Ok(other) => {
                let message = format!("the argument is {}, expected a mapping", other.kind());
                return Err(AgentError::usage_hint(message, EXAMPLE));
            }
            Err(e) => {
                return Err(AgentError::usage_hint(
                    format!("the argument is neither JSON nor YAML: {}", e.message),
                    EXAMPLE,
                ));
            }
        };
        let chunk =
            Chunk::from_low_data(&data).map_err(|message| AgentError::usage_hint(message, EXAMPLE))?;
        let job = tree.job_without_states()?;
        run_chunk(&job, chunk, order, &self.common.report, ui)
    }
}

/// The function that `state.single` runs, and its arguments.
fn take_function(mut words: SaltArgs) -> Result<(String, SaltArgs), AgentError> {
    let named = words.named.remove("fun").map(|f| zagent_config::value::python_str(&f));
    let function = match named {
        Some(function) => function,
        None if words.positional.is_empty() => {
            return Err(AgentError::usage_hint(
                "no function given",
                "zagent state.single pkg.installed name=vim",
            ));
        }
        None => words.positional.remove(0),
    };
    Ok((function, words))
}

/// Runs one state function on a name: `file.managed /etc/motd contents=hi`.
pub(super) fn run_single(
    function: &str,
    words: SaltArgs,
    tree: &TreeArgs,
    order: &RunOptions,
    common: &StateCommonArgs,
    ui: &mut Ui<'_>,
) -> Result<ExitStatus, AgentError> {
    let Some((state, fun)) = function.split_once('.') else {
        let message = format!("`{function}` is not a function");
        return Err(AgentError::usage_hint(message, "use MODULE.FUNCTION, such as pkg.installed"));
    };
    let job = tree.job_without_states()?;
    if job.compat == Compat::Strict {
        match zagent_states::schema().function(state, fun) {
            Some(function) => words.reject_unknown_keys(function, &format!("{state}.{fun}"))?,
            None => words.reject_mistyped_test(&format!("{state}.{fun}"))?,
        }
    }
    let chunk = build_chunk(state, fun, words)?;
    if let Some(target) = common.resources.target()? {
        let request = PlanRequest::Single(Box::new(chunk));
        return run_on_target(&job, (&target, &request), (order, false), &common.report, ui);
    }
    run_chunk(&job, chunk, order, &common.report, ui)
}

fn build_chunk(state: &str, fun: &str, mut words: SaltArgs) -> Result<Chunk, AgentError> {
    let like = || format!("zagent {state}.{fun} NAME [KEY=VALUE]…");
    let named = words.named.remove("name").map(|n| zagent_config::value::python_str(&n));
    let mut plain = std::mem::take(&mut words.positional).into_iter();
    let Some(name) = named.or_else(|| plain.next()).filter(|n| !n.is_empty()) else {
        return Err(AgentError::usage_hint(format!("`{state}.{fun}` needs a name"), like()));
    };
    if let Some(more) = plain.next() {
        return Err(AgentError::usage_hint(format!("argument `{more}` has no key"), like()));
    }
    let mut args: Map = words.named;
    let id = args.remove("__id__").map_or_else(|| name.clone(), |id| zagent_config::value::python_str(&id));
    let mut chunk = Chunk::single(state, fun, &name, args);
    chunk.id = id.into();
    Ok(chunk)
}

fn run_chunk(
    job: &CompileJob,
    chunk: Chunk,
    order: &RunOptions,
    args: &ReportArgs,
    ui: &mut Ui<'_>,
) -> Result<ExitStatus, AgentError> {
    let plan = job.compiler.plan_for_chunks(vec![chunk])?;
    let planned = PlanWithPillar { plan, pillar: job.compiler.pillar()?, is_complete: false };
    run_plan(job, &planned, order, args, ui)
}

/// Splits `a,b` into names.
pub(super) fn split_names(word: &str) -> impl Iterator<Item = String> + use<> {
    let names: Vec<String> =
        word.split(',').map(str::trim).filter(|n| !n.is_empty()).map(str::to_owned).collect();
    names.into_iter()
}
