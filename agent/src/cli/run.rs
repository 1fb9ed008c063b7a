//! `zagent run`: one turn over the states of this node. Every verb that runs states ends in [`carry_out`].

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;
use zagent_compiler::functions::Functions;
use zagent_compiler::{Call, CallError, Cipher, Compat, Compiler, Host, Inputs, Plan, Want};
use zagent_config::settings::{RunSchedule, Settings};
use zagent_config::suggest::nearest;
use zagent_config::{Map, Value};

use super::order::{OrderArgs, ReportArgs};
use super::settings;
use super::tree::{Job, Planned, TreeArgs};
use super::words::Words;
use crate::cycle::{self, Ground, Ran, Setup, Stage, Wish};
use crate::files::RememberedFiles;
use crate::history::{self, History};
use crate::host::{Cancel, functions};
use crate::operate::pause::Pause;
use crate::output::report::Sheet;
use crate::output::{Progress, ReportFormat, Ui, local_zone};
use crate::report::{Exit, Trouble};
use crate::run::{LockError, Mode, Order, Outcome, Report, Signals, Standing, Trigger, Turn, TurnError};
use crate::states::{Render, Template};

/// Apply the states of this node, or see what they would do
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// `test=True`, `pillar='{…}'`, `saltenv=NAME`: as Salt's commands take them
    #[arg(value_name = "KEY=VALUE")]
    words: Vec<String>,

    /// One turn, then end; without it the agent stays and follows its remotes
    #[arg(long)]
    once: bool,

    /// Do not ask the remotes: run what is there
    #[arg(long, visible_alias = "offline")]
    no_fetch: bool,

    /// What started this run
    #[arg(long, value_enum, value_name = "WHAT", default_value_t, hide = true)]
    trigger: TriggerArg,

    /// Where the last good configuration lies, for the day when the present one is wrong
    #[arg(long, value_name = "FILE", hide = true)]
    last_config: Option<PathBuf>,

    /// Undo what a run did: the last one, or the one named
    #[arg(long, value_name = "RUN", num_args = 0..=1, help_heading = "Undo")]
    revert: Option<Option<String>>,

    /// Undo also what other hands have changed since
    #[arg(long, requires = "revert", help_heading = "Undo")]
    force: bool,

    /// Undo only the state of this id
    #[arg(long, value_name = "ID", visible_alias = "only-state", requires = "revert", help_heading = "Undo")]
    state: Option<String>,

    #[command(flatten)]
    order: OrderArgs,

    #[command(flatten)]
    tree: TreeArgs,

    #[command(flatten)]
    report: ReportArgs,
}

impl Args {
    pub(super) const fn format(&self) -> ReportFormat {
        self.report.out
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<Exit, Trouble> {
        let (mut tree, mut flags, mut words) =
            (self.tree.clone(), self.order.clone(), Words::new(&self.words));
        words.settle(&mut tree, &mut flags)?;
        words.refuse_named(&[])?;
        words.refuse_plain("SLS are named by `--sls a,b`")?;
        let (revert, state) = (self.revert.clone(), self.state.clone());
        let mut order = Order { revert, force: self.force, state, ..flags.order() };
        if order.revert.is_some() {
            let job = tree.job_anywhere()?;
            if order.force && order.revert == Some(None) {
                order.revert = Some(undone_last(&job)?);
            }
            let nothing = Planned { plan: Plan::default(), pillar: Value::Null };
            return carry_out(&job, &nothing, &order, &self.report, ui);
        }
        if !self.once {
            return self.stay(&tree, &order);
        }
        if tree.states.is_some() {
            let job = tree.job()?;
            let planned = job.plan(!order.test, self.order.fresh, ui)?;
            return carry_out(&job, &planned, &order, &self.report, ui);
        }
        self.turn(&tree, &order, ui)
    }

    /// One turn over what the node follows.
    fn turn(&self, tree: &TreeArgs, order: &Order, ui: &mut Ui<'_>) -> Result<Exit, Trouble> {
        let settings = if self.trigger == TriggerArg::Manual {
            settings::load(tree.config.as_deref())?
        } else {
            let mut warn = |words: &str| super::warn(words, ui);
            settings::load_or_last(tree.config.as_deref(), self.last_config.as_deref(), &mut warn)?
        };
        if !order.test {
            settings::keep(&settings);
        }
        let cancel = Arc::new(Cancel::new());
        // Until all is printed and kept: who is told to stop at the very end still says what was done.
        let _signals = Signals::watch(&cancel);
        let turn = cycle::Turn {
            settings: &settings,
            sync: self
                .asks(tree, &settings)
                .then(|| Wish { insists: self.trigger == TriggerArg::Manual, ..Wish::default() }),
            partial: !tree.sls.is_empty(),
            test: order.test,
            trigger: self.trigger.into(),
            seed: cycle::machine_seed(settings.id.as_str()),
            cancel: &cancel,
        };
        let mut stage = OnStage { args: self, tree, order, settings: &settings, cancel: &cancel, ui };
        let ended = turn.take(&mut stage)?;
        let of_run = ended.report.as_ref().map_or(Exit::Fine, |r| exit(r, self.report.detailed_exitcodes));
        Ok(ended.exit(of_run))
    }

    /// Whether the remotes are asked first. A run of a few SLS takes no new revision: that has to prove itself whole.
    fn asks(&self, tree: &TreeArgs, settings: &Settings) -> bool {
        let is_there = || settings.paths().current().exists();
        !self.no_fetch && (tree.sls.is_empty() || !is_there())
    }

    /// The loop.
    fn stay(&self, tree: &TreeArgs, order: &Order) -> Result<Exit, Trouble> {
        if order.test || tree.states.is_some() || !tree.sls.is_empty() || tree.grains.is_some() {
            let hint =
                "add --once for one turn; a directory that is followed for good is one of `source.remotes`";
            return Err(Trouble::usage_hint("the agent that stays runs what the configuration says", hint));
        }
        let settings = || settings::load(tree.config.as_deref());
        let program = std::env::current_exe()
            .map_err(|error| Trouble::failed(format!("cannot find this program: {error}")))?;
        let mut args = Vec::new();
        if let Some(config) = &tree.config {
            args.extend(["--config".into(), config.clone().into_os_string()]);
        }
        let now = settings()?;
        settings::keep(&now);
        let turn_args = vec![format!("--last-config={}", now.paths().last_config().display()).into()];
        let seed = cycle::machine_seed(now.id.as_str());
        cycle::stay(Setup { program, args, turn_args, settings: &settings, seed }).map(|()| Exit::Fine)
    }
}

/// What started a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum TriggerArg {
    Timer,
    Git,
    #[default]
    Manual,
    Drift,
    Rollout,
}

impl From<TriggerArg> for Trigger {
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

/// What a turn asks of the command line: to compile, to run and to tell.
struct OnStage<'a, 'u> {
    args: &'a Args,
    tree: &'a TreeArgs,
    order: &'a Order,
    settings: &'a Settings,
    cancel: &'a Arc<Cancel>,
    ui: &'a mut Ui<'u>,
}

impl Stage for OnStage<'_, '_> {
    fn compiles(&mut self, top: &Path) -> Result<(), Trouble> {
        // All that is meant for this node, not only what this run is about.
        let tree = TreeArgs { sls: Vec::new(), ..self.tree.clone() };
        let job = tree.job_on(top, "", self.settings.clone())?;
        Ok(job.compiler.compile(&job.want).map(drop)?)
    }

    fn run(&mut self, ground: &Ground, trigger: Trigger) -> Result<Ran, Trouble> {
        let job = self.tree.job_on(&ground.top, &ground.revision, self.settings.clone())?;
        let planned = job.plan(!self.order.test, self.args.order.fresh, self.ui)?;
        let by = (self.order, trigger, self.cancel);
        let report = perform(&job, &planned, by, &self.args.report, self.ui)?;
        if report.mode != Mode::Test {
            remember(&job, &report, self.ui);
        }
        Ok(Ran { report, mask: job.mask(false) })
    }

    fn warn(&mut self, words: &str) {
        super::warn(words, self.ui);
    }
}

/// The run that the last run undid, if it was a revert: to force is to insist on that, not to undo the revert.
fn undone_last(job: &Job) -> Result<Option<String>, Trouble> {
    let history = History::new(&job.settings.paths(), job.settings.run.keep);
    match history.last(Timestamp::now()) {
        Ok(last) => Ok(last.and_then(|head| head.reverts)),
        Err(error) => {
            let message = format!("which run? {}", crate::report::chain(&error));
            Err(Trouble::usage_hint(message, "name it: zagent run --revert RUN --force"))
        }
    }
}

/// Runs a plan, prints its report and keeps it in the history.
pub(super) fn carry_out(
    job: &Job,
    planned: &Planned,
    order: &Order,
    args: &ReportArgs,
    ui: &mut Ui<'_>,
) -> Result<Exit, Trouble> {
    if !order.test {
        mention_pause(job, ui);
    }
    let cancel = Arc::new(Cancel::new());
    // Until all is printed and kept: who is told to stop at the very end still says what was done.
    let _signals = Signals::watch(&cancel);
    let report = perform(job, planned, (order, Trigger::Manual, &cancel), args, ui)?;
    // A dry run leaves no trace.
    if report.mode != Mode::Test {
        remember(job, &report, ui);
    }
    Ok(exit(&report, args.detailed_exitcodes))
}

/// A pause holds what the agent does by itself; a person who asks for a run may know of it or not.
fn mention_pause(job: &Job, ui: &mut Ui<'_>) {
    let now = Timestamp::now();
    if let Ok(Some(pause)) = Pause::read(&job.settings.paths(), now) {
        let words = pause.words(now, &local_zone());
        super::warn(&format!("the agent is {words}; this run was asked for by hand and goes on"), ui);
    }
}

/// Runs a plan and prints its report.
pub(super) fn perform(
    job: &Job,
    planned: &Planned,
    by: (&Order, Trigger, &Arc<Cancel>),
    args: &ReportArgs,
    ui: &mut Ui<'_>,
) -> Result<Report, Trouble> {
    let zone = local_zone();
    let watcher = ui.watcher(args.out, planned.plan.chunks.len(), &job.mask(false), zone.clone());
    let report = converge(job, planned, by, watcher.progress());
    // The line on the terminal goes before anything else is printed.
    drop(watcher);
    let report = report?;
    let mask = job.mask(false);
    let sheet = Sheet::new(&report, &mask, zone);
    ui.data(&match args.out {
        ReportFormat::Ndjson => sheet.summary_line(),
        format => sheet.print(format, ui.verbose > 0, ui.paint),
    });
    Ok(report)
}

/// Keeps a report. A history that cannot be written is told and stops nothing.
fn remember(job: &Job, report: &Report, ui: &mut Ui<'_>) {
    let history = History::new(&job.settings.paths(), job.settings.run.keep);
    let kept = history.record(report, &job.mask(false)).and_then(|()| history.fold_when_due(report.start));
    let troubles = kept.unwrap_or_else(|trouble| vec![trouble]);
    for trouble in troubles {
        super::warn(&crate::report::chain(&trouble), ui);
    }
}

/// How the program ends after a run.
pub(super) fn exit(report: &Report, detailed: bool) -> Exit {
    let changed = report.count(Standing::Changed) + report.count(Standing::WouldChange) > 0;
    match (detailed, changed, report.success()) {
        (true, true, true) => Exit::Changes,
        (true, false, false) => Exit::Failures,
        (true, true, false) => Exit::Both,
        (_, _, true) => Exit::Fine,
        (false, _, false) => Exit::Failed,
    }
}

/// Brings the host to what the plan says, or looks how far it is from it.
fn converge(
    job: &Job,
    planned: &Planned,
    (order, trigger, cancel): (&Order, Trigger, &Arc<Cancel>),
    watcher: &dyn Progress,
) -> Result<Report, Trouble> {
    let failhard = job.inputs.options.opts.get("failhard").is_some_and(Value::is_truthy);
    let host = Whole::new(&job.inputs, &planned.pillar);
    let paths = job.settings.paths();
    let files = RememberedFiles::new(&*job.states);
    let turn = Turn {
        plan: &planned.plan,
        order,
        files: &files,
        host: &host,
        templates: &Renderer(&job.compiler),
        pillar: &planned.pillar,
        compat: job.compat,
        failhard,
        schedule: match job.compat {
            Compat::Salt => RunSchedule::Ordered,
            Compat::Strict => job.settings.run.schedule,
        },
        jobs: job.settings.run.jobs,
        timeout: Some(job.settings.run.timeout),
        keep: job.settings.run.keep,
        paths: &paths,
        run: history::run_name(Timestamp::now(), history::chance()),
        node: job.node.clone(),
        revision: job.revision.clone(),
        trigger,
        watcher,
        cancel,
    };
    let mut report = turn.take().map_err(|error| trouble(&error))?;
    if job.compat == Compat::Salt && planned.plan.chunks.is_empty() && order.revert.is_none() {
        report.states.extend(no_states(job, report.start)?);
    }
    Ok(report)
}

/// What Salt says, as if it were a state, when its top files give a node nothing at all.
fn no_states(job: &Job, start: Timestamp) -> Result<Option<Outcome>, Trouble> {
    let is_empty = |value: &Value| value.as_map().is_none_or(Map::is_empty);
    if job.want != Want::Highstate || !is_empty(&job.compiler.high(&job.want)?) {
        return Ok(None);
    }
    let comment = if is_empty(&job.compiler.top()?) {
        "No Top file or master_tops data matches found. Please see master log for details."
    } else {
        "No states found for this minion"
    };
    Ok(Some(Outcome {
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

/// Why there was no run, with a way out.
fn trouble(error: &TurnError) -> Trouble {
    let words = crate::report::chain(error);
    match error {
        TurnError::Lock(LockError::Held { .. }) => {
            Trouble::locked(words, "wait for it to end, or see `zagent history`")
        }
        TurnError::Root { source, .. } | TurnError::Lock(LockError::Broken { source, .. })
            if source.kind() == std::io::ErrorKind::PermissionDenied =>
        {
            Trouble::permission(words)
        }
        TurnError::NoState { id, ids, .. } => {
            let hint = match nearest(id, ids.iter().map(String::as_str)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("it did for: {}", ids.join(", ")),
            };
            Trouble::usage_hint(words, crate::output::harmless(&hint))
        }
        TurnError::Nothing(_) => Trouble::usage_hint(words, "`zagent history` lists the runs"),
        _ => Trouble::failed(words),
    }
}

/// Templates of managed files, rendered by the compiler that made the plan.
struct Renderer<'c>(&'c Compiler);

impl Render for Renderer<'_> {
    fn render(&self, template: &Template) -> Result<String, String> {
        let Template { env, path, source, variables } = template;
        self.0.render_file(env, path, source, variables).map_err(|fault| fault.to_string())
    }
}

/// All execution functions, those of the compiler and those of the host.
struct Whole<'j> {
    inputs: &'j Inputs,
    pillar: &'j Value,
    functions: OnceLock<Functions>,
}

impl<'j> Whole<'j> {
    const fn new(inputs: &'j Inputs, pillar: &'j Value) -> Self {
        Self { inputs, pillar, functions: OnceLock::new() }
    }
}

impl Host for Whole<'_> {
    fn grain(&self, name: &str) -> Option<Value> {
        self.inputs.host.grain(name)
    }

    fn grains(&self) -> Value {
        self.inputs.host.grains()
    }

    fn call(&self, call: &Call) -> Result<Value, CallError> {
        let all = self.functions.get_or_init(|| Functions::new(self.inputs.clone(), self.pillar.clone()));
        all.call(call)
    }

    fn act(&self, call: &Call) -> Result<Value, CallError> {
        if functions::acts(&call.function) { self.inputs.host.act(call) } else { self.call(call) }
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
