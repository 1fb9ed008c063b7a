//! Turns the arguments that select trees and node into a compiler.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use zagent_cache::Cache;
use zagent_compiler::{
    Compat, CompileInputs, CompileOptions, CompileOutput, CompileTarget, Compiler, FileTree, Plan,
    TemplateHost, TreeLimits,
};
use zagent_config::manifest::Manifest;
use zagent_config::paths::tree::MODULES;
use zagent_config::settings::{EnvironmentSettings, Settings, TemplatePermission};
use zagent_config::{Map, Value};

use super::{empty_plan, settings};
use crate::draw::diagnostic::{Severity, render_diagnostic};
use crate::output::Ui;
use zagent_compiler::BASE_ENV;
use zagent_config::SecretMask;
use zagent_config::error_chain;
use zagent_daemon::error::CliError;
use zagent_daemon::repo_layout::{RepoLayout, RepoSource, read_manifest};
use zagent_daemon::{NO_STATES, StatesSource};
use zagent_host::Machine;
use zagent_host::facts::{FactSources, Facts, Grains};
use zagent_run::plan_cache;
use zagent_run::plan_cache::{CachedPlan, CompileTrace, PlanKey};
use zagent_states::file_tree::DirFiles;
use zagent_states::template_host::live_host::{LiveHost, LiveHostSettings};
use zagent_states::template_host::recorded_facts::RecordedFacts;
use zagent_states::template_host::recorded_facts::parse_facts;

/// What to compile, and for which node
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Tree")]
pub(super) struct TreeArgs {
    /// States directory (environment `base`)
    #[arg(long, value_name = "DIR")]
    pub(super) states: Option<PathBuf>,

    /// Pillar directory (environment `base`)
    #[arg(long, value_name = "DIR")]
    pub(super) pillar: Option<PathBuf>,

    /// States directory of another environment; can be repeated
    #[arg(long, value_name = "NAME=DIR", value_parser = parse_env)]
    pub(super) env: Vec<(String, PathBuf)>,

    /// Pillar directory of another environment; can be repeated
    #[arg(long, value_name = "NAME=DIR", value_parser = parse_env)]
    pub(super) pillar_env: Vec<(String, PathBuf)>,

    /// Compile these SLS files instead of what the top file selects
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub(super) sls: Vec<String>,

    /// Environment for `--sls`; default: the only environment that the top files use
    #[arg(long, value_name = "NAME")]
    pub(super) saltenv: Option<String>,

    /// Compile for this node ID; default: the configured id, otherwise the host name
    #[arg(long, value_name = "ID", help_heading = "Node")]
    pub(super) id: Option<String>,

    /// Read grains from a JSON or YAML file instead of this host
    #[arg(long, value_name = "FILE", help_heading = "Node")]
    pub(super) grains: Option<PathBuf>,

    /// Pillar data as JSON; overrides the pillar tree
    #[arg(long, value_name = "JSON", help_heading = "Node")]
    pub(super) pillar_data: Option<String>,

    /// Configuration file; default: /etc/zagent/zagent.yaml when it exists
    #[arg(long, value_name = "FILE", help_heading = "Configuration")]
    pub(super) config: Option<PathBuf>,

    /// Salt minion configuration (JSON or YAML) to read compile options from
    #[arg(long, value_name = "FILE", help_heading = "Configuration")]
    pub(super) salt_config: Option<PathBuf>,

    /// Follow Salt's behaviour where zagent is stricter
    #[arg(long, value_name = "MODE", value_enum, help_heading = "Configuration")]
    pub(super) compat: Option<CompatArg>,

    /// Set `opts.test` for templates.
    #[arg(skip)]
    pub(super) test: bool,
}

/// Which behaviour to follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum CompatArg {
    /// Salt's behaviour
    Salt,
}

/// Trees of one compile.
pub(super) struct StateTrees {
    states: Arc<dyn FileTree>,
    pillar: Arc<dyn FileTree>,
    revision: String,
    /// Manifest of the repository.
    manifest: Option<Manifest>,
}

impl StateTrees {
    /// Trees plus a description of their origin.
    pub(super) fn new(
        states: Arc<dyn FileTree>,
        pillar: Arc<dyn FileTree>,
        revision: impl Into<String>,
    ) -> Self {
        Self { states, pillar, revision: revision.into(), manifest: None }
    }
}

/// Everything one compile needs.
pub(super) struct CompileJob {
    pub(super) compiler: Compiler,
    /// Inputs of the compiler, with what was read to build them.
    pub(super) inputs: CompileInputs,
    trace: Arc<CompileTrace>,
    pub(super) want: CompileTarget,
    pub(super) node: String,
    pub(super) states: Arc<dyn FileTree>,
    pub(super) compat: Compat,
    pub(super) settings: Settings,
    /// The machine that templates ask and states work on.
    pub(super) machine: Machine,
    /// Description of where the states come from.
    pub(super) revision: String,
}

fn parse_env(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, dir)) if !name.is_empty() && !dir.is_empty() => Ok((name.to_owned(), dir.into())),
        _ => Err("use NAME=DIR, such as dev=/srv/states-dev".into()),
    }
}

impl TreeArgs {
    /// Builds the compiler that these arguments and the configuration describe.
    pub(super) fn job(&self) -> Result<CompileJob, CliError> {
        let settings = settings::load(self.config.as_deref())?;
        let trees = self.open_trees(&settings)?;
        self.build_job(trees, settings)
    }

    /// Builds the compiler for the states of a source directory.
    pub(super) fn job_for_dir(
        &self,
        top: &Path,
        revision: &str,
        settings: Settings,
    ) -> Result<CompileJob, CliError> {
        let trees = self.trees_in_dir(top, revision, &settings)?;
        self.build_job(trees, settings)
    }

    /// Same, for commands that need no states: uses an empty tree when none is given.
    pub(super) fn job_without_states(&self) -> Result<CompileJob, CliError> {
        let settings = settings::load(self.config.as_deref())?;
        let trees = match self.open_trees(&settings) {
            Err(_) if self.states.is_none() => {
                let pillar = open_directories(self.pillar.clone(), self.pillar_env.iter().cloned())?;
                StateTrees::new(Arc::new(DirFiles::base("/nonexistent")), Arc::new(pillar), "")
            }
            trees => trees?,
        };
        self.build_job(trees, settings)
    }

    fn open_trees(&self, settings: &Settings) -> Result<StateTrees, CliError> {
        match &self.states {
            Some(states) => {
                let beside = states.parent().map(|top| top.join(MODULES));
                let named =
                    RepoPaths { states: states.clone(), pillar: self.pillar.clone(), modules: beside };
                self.trees_from_paths(named, &states.display().to_string(), settings)
            }
            None => {
                let states_source = installed_source(settings)?;
                self.trees_in_dir(&states_source.top, &states_source.revision, settings)
            }
        }
    }

    /// Trees of a repository, at the paths set by the manifest, the configuration or convention.
    fn trees_in_dir(&self, top: &Path, revision: &str, settings: &Settings) -> Result<StateTrees, CliError> {
        let mut found = RepoPaths::find(top, settings)?;
        found.pillar = self.pillar.clone().or(found.pillar);
        let manifest =
            read_manifest(&RepoSource::Dir(top.to_owned())).map_err(|e| CliError::usage(error_chain(&e)))?;
        Ok(StateTrees { manifest, ..self.trees_from_paths(found, revision, settings)? })
    }

    fn trees_from_paths(
        &self,
        found: RepoPaths,
        revision: &str,
        settings: &Settings,
    ) -> Result<StateTrees, CliError> {
        let more = |side: fn(&EnvironmentSettings) -> Option<&PathBuf>| {
            settings
                .environments
                .iter()
                .filter_map(move |e| Some((e.name.as_str().to_owned(), side(e)?.clone())))
        };
        let states_of = more(|e| e.states.as_ref()).chain(self.env.iter().cloned());
        let pillar_of = more(|e| e.pillar.as_ref()).chain(self.pillar_env.iter().cloned());
        let mut states = open_directories(Some(found.states), states_of)?;
        if let Some(modules) = found.modules.filter(|dir| dir.is_dir()) {
            states = states.with_modules(modules);
        }
        let pillar = open_directories(found.pillar, pillar_of)?;
        Ok(StateTrees::new(Arc::new(states), Arc::new(pillar), revision))
    }

    /// Same for trees from elsewhere.
    pub(super) fn build_job(&self, trees: StateTrees, settings: Settings) -> Result<CompileJob, CliError> {
        let StateTrees { states, pillar, revision, manifest } = trees;
        let mut settings = settings;
        if let Some(manifest) = manifest {
            // The node's own configuration takes precedence.
            let said = |key: &str| settings.is_set(key);
            let schedule = manifest.schedule.filter(|_| !said("run.schedule"));
            let compat = manifest.compat.filter(|_| !said("compat"));
            settings.run.schedule = schedule.unwrap_or(settings.run.schedule);
            settings.compat = compat.unwrap_or(settings.compat);
        }
        let mut options = self.options_from(&settings)?;
        let machine = Machine::this_host();
        let host = self.host_from(&machine, &settings, &options)?;
        options.opts =
            settings::salt_opts(&options, &[("file_roots", &*states), ("pillar_roots", &*pillar)], self.test);
        settings::add_dir_opts(&settings, self.config.as_deref(), &mut options.opts);
        let (node, compat) = (options.id.clone(), options.compat);
        let want = self.compile_target(&*states)?;
        let inputs = CompileInputs {
            states: Arc::clone(&states),
            pillar,
            host,
            schema: zagent_states::schema(),
            options: Arc::new(options),
        };
        let (traced, trace) = CompileTrace::trace_inputs(&inputs);
        let compiler = Compiler::new(traced);
        Ok(CompileJob { compiler, inputs, trace, want, node, states, compat, settings, machine, revision })
    }

    fn compile_target(&self, states: &dyn FileTree) -> Result<CompileTarget, CliError> {
        if self.sls.is_empty() {
            return Ok(CompileTarget::Highstate);
        }
        let env = self.saltenv.clone().unwrap_or_else(|| BASE_ENV.into());
        let envs = states.envs();
        if !envs.contains(&env) {
            let hint = format!("known environments: {}; add it with --env {env}=DIR", envs.join(", "));
            return Err(CliError::usage_hint(format!("unknown environment `{env}`"), hint));
        }
        Ok(CompileTarget::Sls { names: self.sls.clone(), env })
    }

    /// Compile options from the configuration and these arguments.
    pub(super) fn options(&self) -> Result<CompileOptions, CliError> {
        self.options_from(&settings::load(self.config.as_deref())?)
    }

    fn options_from(&self, settings: &Settings) -> Result<CompileOptions, CliError> {
        let mut options = settings::compile_options(settings);
        if let Some(path) = &self.salt_config {
            options = settings::apply_salt_config(path, options)?;
        }
        match &self.id {
            Some(id) if id.trim().is_empty() => return Err(CliError::usage("--id is empty")),
            Some(id) => options.id.clone_from(id),
            None => {}
        }
        if self.compat == Some(CompatArg::Salt) {
            options.compat = Compat::Salt;
        }
        if self.sls.is_empty() {
            options.state_env = self.saltenv.clone().or(options.state_env);
        }
        if let Some(text) = &self.pillar_data {
            options.pillar_override = parse_pillar_data(text)?;
        }
        Ok(options)
    }

    /// Host interface for templates.
    pub(super) fn host(&self, options: &CompileOptions) -> Result<Arc<dyn TemplateHost>, CliError> {
        self.host_from(&Machine::this_host(), &settings::load(self.config.as_deref())?, options)
    }

    fn host_from(
        &self,
        machine: &Machine,
        settings: &Settings,
        options: &CompileOptions,
    ) -> Result<Arc<dyn TemplateHost>, CliError> {
        let machine = machine
            .clone()
            .allow_commands(settings.cmd_run == TemplatePermission::Allow)
            .timeout(settings.limits.program_timeout);
        let live = LiveHostSettings {
            external_pillar: settings.ext_pillar.clone(),
            external_tops: settings.master_tops.clone(),
            ..LiveHostSettings::new(&*options.id, machine)
        };
        Ok(Arc::new(LiveHost::new(self.facts_from(settings, options)?, live)))
    }

    /// Grains of this host, or from a file.
    pub(super) fn facts(&self) -> Result<Arc<dyn Grains>, CliError> {
        let settings = settings::load(self.config.as_deref())?;
        self.facts_from(&settings, &self.options_from(&settings)?)
    }

    fn facts_from(&self, settings: &Settings, options: &CompileOptions) -> Result<Arc<dyn Grains>, CliError> {
        let Some(path) = &self.grains else {
            let facts_dir = Some(settings.facts_dir.clone());
            return Ok(Arc::new(Facts::new(FactSources {
                facts_dir,
                ..FactSources::new(&*options.id, parse_facts)
            })));
        };
        match read_value(path)? {
            Value::Map(facts) => Ok(Arc::new(RecordedFacts::new(Arc::unwrap_or_clone(facts)))),
            other => {
                let what =
                    format!("`{}` holds {}, expected a mapping of grains", path.display(), other.kind());
                Err(CliError::usage(what))
            }
        }
    }
}

/// Plan, and the pillar it was compiled with.
pub(super) struct PlanWithPillar {
    pub(super) plan: Plan,
    pub(super) pillar: Value,
}

impl CompileJob {
    /// Returns the plan and warns when it is empty. `keep` saves it to the plan cache, `fresh` ignores the
    /// plan cache.
    pub(super) fn plan(&self, keep: bool, fresh: bool, ui: &mut Ui<'_>) -> Result<PlanWithPillar, CliError> {
        let planned = self.load_or_compile(keep, fresh, ui)?;
        empty_plan::explain_empty_plan(self, &planned, ui)?;
        Ok(planned)
    }

    /// Loads the plan from the plan cache when no input changed, otherwise compiles it.
    fn load_or_compile(&self, keep: bool, fresh: bool, ui: &mut Ui<'_>) -> Result<PlanWithPillar, CliError> {
        let dir = self.settings.paths().plans();
        let programs = format!(
            "{:?} {:?} {:?}",
            self.settings.ext_pillar, self.settings.master_tops, self.settings.cmd_run
        );
        let key = PlanKey::new(&self.inputs, &self.want, &programs);
        let kept = if fresh { None } else { plan_cache::load(&dir, &key, &self.inputs) };
        if let Some(CachedPlan { plan, pillar }) = kept {
            return Ok(PlanWithPillar { plan, pillar });
        }
        let compiled = self.compile(ui)?;
        let pillar = self.compiler.pillar()?;
        // Plans with warnings or secrets are not cached: warnings must show every time, secrets must not
        // reach the disk.
        if keep && compiled.warnings.is_empty() && self.compiler.secrets().is_empty() {
            let kept =
                plan_cache::save(&dir, &key, &self.trace, (&compiled.plan, &pillar), SystemTime::now());
            if let Err(error) = kept {
                tracing::debug!(%error, dir = %dir.display(), "cannot write the plan cache");
            }
        }
        Ok(PlanWithPillar { plan: compiled.plan, pillar })
    }

    /// Compiles and prints warnings.
    pub(super) fn compile(&self, ui: &mut Ui<'_>) -> Result<CompileOutput, CliError> {
        let compiled = self.compiler.compile(&self.want)?;
        for warning in &compiled.warnings {
            let paint = ui.err_paint;
            ui.message(&render_diagnostic(warning, Severity::Warning, paint));
        }
        Ok(compiled)
    }

    /// Secret mask; empty with `--unmask`.
    pub(super) fn mask(&self, unmask: bool) -> SecretMask {
        if unmask { SecretMask::default() } else { SecretMask::new(&self.compiler.secrets()) }
    }
}

/// Error for a missing states directory; the hint adapts when the current directory is a states tree.
fn no_states_error() -> CliError {
    let here = |path: &str| Path::new(path).is_file();
    let hint = if here("states/top.sls") {
        "this directory is a states repository: add `--states states --pillar pillar`"
    } else if here("top.sls") {
        "this directory is a states tree: add `--states .`"
    } else {
        "name one with `--states DIR` (and `--pillar DIR`), or try `zagent demo`"
    };
    CliError::usage_hint(NO_STATES, hint)
}

/// Source for a command without `--states`: the cache when it holds files, otherwise the baked directory.
fn installed_source(settings: &Settings) -> Result<StatesSource, CliError> {
    let cache =
        Cache::open(&settings.paths(), &settings.source).map_err(|error| CliError::from_cache(&error))?;
    let found = StatesSource::find(settings, &cache, |_| ()).map_err(|error| CliError::from_cache(&error))?;
    found.ok_or_else(no_states_error)
}

/// Paths of the trees in a repository.
struct RepoPaths {
    states: PathBuf,
    pillar: Option<PathBuf>,
    modules: Option<PathBuf>,
}

impl RepoPaths {
    fn find(top: &Path, settings: &Settings) -> Result<Self, CliError> {
        let said = (top.join(&settings.states_root), top.join(&settings.pillar_root));
        let (states, pillar) = match RepoLayout::find(&RepoSource::Dir(top.to_owned())) {
            _ if settings.is_set("roots.states") => said,
            Ok(layout) => (top.join(layout.states), top.join(layout.pillar)),
            Err(_) if said.0.is_dir() => said,
            Err(error) => return Err(CliError::usage(error_chain(&error))),
        };
        let modules = Some(top.join(MODULES));
        Ok(Self { states, pillar: Some(pillar).filter(|dir| dir.is_dir()), modules })
    }
}

/// Opens a directory for `base` and one per additional environment; each must exist.
fn open_directories(
    base: Option<PathBuf>,
    more: impl Iterator<Item = (String, PathBuf)>,
) -> Result<DirFiles, CliError> {
    let mut files = DirFiles::new();
    for (name, dir) in base.map(|dir| (BASE_ENV.to_owned(), dir)).into_iter().chain(more) {
        if !dir.is_dir() {
            let what = if dir.exists() { "is not a directory" } else { "does not exist" };
            return Err(CliError::usage(format!("`{}` {what}", dir.display())));
        }
        files = files.with_env(&name, dir);
    }
    Ok(files)
}

/// Reads a JSON or YAML file given with a flag.
pub(super) fn read_value(path: &Path) -> Result<Value, CliError> {
    let shown = path.display();
    let text =
        std::fs::read_to_string(path).map_err(|e| CliError::usage(format!("cannot read `{shown}`: {e}")))?;
    // JSON first: it is faster, and not every JSON document is valid YAML 1.1.
    let error = match Value::from_json_str(&text) {
        Ok(value) => return Ok(value),
        Err(e) => e,
    };
    if path.extension().is_some_and(|e| e == "json") {
        return Err(CliError::usage(format!("`{shown}` is not JSON: {error}")));
    }
    zagent_compiler::yaml::load(&text, &TreeLimits::default())
        .map_err(|e| CliError::usage(format!("`{shown}` is not YAML: line {}: {}", e.pos.line, e.message)))
}

fn parse_pillar_data(text: &str) -> Result<Map, CliError> {
    match Value::from_json_str(text) {
        Ok(Value::Map(map)) => Ok(Arc::unwrap_or_clone(map)),
        Ok(other) => Err(CliError::usage_hint(
            format!("--pillar-data is {}, expected a mapping", other.kind()),
            "example: --pillar-data '{\"nginx\": {\"workers\": 4}}'",
        )),
        Err(e) => Err(CliError::usage_hint(
            format!("--pillar-data is not JSON: {e}"),
            "example: --pillar-data '{\"nginx\": {\"workers\": 4}}'",
        )),
    }
}
