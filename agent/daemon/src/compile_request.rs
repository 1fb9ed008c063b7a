//! Compile request and settings in, compile job out: which trees, which options, which host.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use zagent_cache::Cache;
use zagent_compiler::{
    BASE_ENV, Compat, CompileInputs, CompileOptions, CompileTarget, Compiler, FileTree, TemplateHost,
    TreeLimits,
};
use zagent_config::manifest::Manifest;
use zagent_config::paths::tree::{MODULES, RESOURCE_TYPES};
use zagent_config::settings::{EnvironmentSettings, Settings, TemplatePermission};
use zagent_config::{Map, Value, error_chain};

use crate::compile_job::CompileJob;
use crate::error::AgentError;
use crate::node_settings as settings;
use crate::repo_layout::{RepoLayout, RepoSource, enclosing_repository, is_repository, read_manifest};
use crate::states_source::{NO_STATES, StatesSource, has_files};
use zagent_host::Machine;
use zagent_host::facts::{FactSources, Facts, Grains};
use zagent_run::plan_cache::{CompileTrace, RenderedTexts};
use zagent_states::file_tree::DirFiles;
use zagent_states::template_host::live_host::{LiveHost, LiveHostSettings};
use zagent_states::template_host::recorded_facts::{RecordedFacts, parse_facts};
use zagent_states::template_host::recorded_host::RecordedHost;

/// What to compile, for which node, and what overrides the configuration.
#[derive(Clone, Debug, Default)]
pub struct CompileRequest {
    /// States directory of `base`, or the top of a repository; none for the source of this node.
    pub states: Option<PathBuf>,
    /// Pillar directory of `base`.
    pub pillar: Option<PathBuf>,
    /// States directories of other environments.
    pub env: Vec<(String, PathBuf)>,
    /// Pillar directories of other environments.
    pub pillar_env: Vec<(String, PathBuf)>,
    /// SLS files to compile; what the top files select when empty.
    pub sls: Vec<String>,
    /// Environment of these SLS files.
    pub saltenv: Option<String>,
    /// Node ID; none for the configured one.
    pub id: Option<String>,
    /// File with grains, instead of those of this host.
    pub grains: Option<PathBuf>,
    /// A host recorded in an inventory: its grains and its answers to functions, instead of this host.
    pub recorded: Option<Arc<Value>>,
    /// Pillar data that overrides the pillar tree.
    pub pillar_data: Option<Map>,
    /// Configuration file that the settings come from.
    pub config: Option<PathBuf>,
    /// Salt minion configuration to read compile options from.
    pub salt_config: Option<PathBuf>,
    /// Whose behaviour to follow, when not as configured.
    pub compat: Option<Compat>,
    /// Value of `opts.test` for templates.
    pub test: bool,
    /// True when templates, pillars, tops and facts start no program.
    pub no_commands: bool,
}

/// Why a template cannot start a program.
const NO_COMMANDS: &str = "`--no-commands` starts none";

/// Trees of one compile.
pub struct StateTrees {
    states: Arc<dyn FileTree>,
    pillar: Arc<dyn FileTree>,
    revision: String,
    /// Manifest of the repository.
    manifest: Option<Manifest>,
}

impl StateTrees {
    /// Trees plus a description of their origin.
    pub fn new(states: Arc<dyn FileTree>, pillar: Arc<dyn FileTree>, revision: impl Into<String>) -> Self {
        Self { states, pillar, revision: revision.into(), manifest: None }
    }
}

impl CompileRequest {
    /// Builds the compiler that the request and the settings describe.
    ///
    /// # Errors
    /// Fails when there are no states, or a file or environment of the request does not exist.
    pub fn job(&self, settings: Settings) -> Result<CompileJob, AgentError> {
        let trees = self.open_trees(&settings)?;
        self.build_job(trees, settings)
    }

    /// Builds the compiler for the states of a source directory.
    ///
    /// # Errors
    /// As [`CompileRequest::job`].
    pub fn job_for_dir(
        &self,
        top: &Path,
        revision: &str,
        settings: Settings,
    ) -> Result<CompileJob, AgentError> {
        let trees = self.trees_in_dir(top, revision, &settings)?;
        self.build_job(trees, settings)
    }

    /// Same, for what needs no states: uses an empty tree when none is given.
    ///
    /// # Errors
    /// As [`CompileRequest::job`].
    pub fn job_without_states(&self, settings: Settings) -> Result<CompileJob, AgentError> {
        let trees = match self.open_trees(&settings) {
            Err(_) if self.states.is_none() => {
                let pillar = open_directories(self.pillar.clone(), self.pillar_env.iter().cloned())?;
                StateTrees::new(Arc::new(DirFiles::base("/nonexistent")), Arc::new(pillar), "")
            }
            trees => trees?,
        };
        self.build_job(trees, settings)
    }

    fn open_trees(&self, settings: &Settings) -> Result<StateTrees, AgentError> {
        match &self.states {
            Some(top) if is_repository(top) => self.trees_in_dir(top, &top.display().to_string(), settings),
            Some(states) => {
                let top = states.parent().map(Path::to_owned);
                let named = RepoPaths { states: states.clone(), pillar: self.pillar.clone(), top };
                self.trees_from_paths(named, &states.display().to_string(), settings)
            }
            None => {
                let states_source = installed_source(settings)?;
                self.trees_in_dir(&states_source.top, &states_source.revision, settings)
            }
        }
    }

    /// Trees of a repository, at the paths set by the manifest, the configuration or convention.
    fn trees_in_dir(
        &self,
        top: &Path,
        revision: &str,
        settings: &Settings,
    ) -> Result<StateTrees, AgentError> {
        let mut found = RepoPaths::find(top, settings)?;
        found.pillar = self.pillar.clone().or(found.pillar);
        let manifest = read_manifest(&RepoSource::Dir(top.to_owned()))
            .map_err(|e| AgentError::usage(error_chain(&e)))?;
        Ok(StateTrees { manifest, ..self.trees_from_paths(found, revision, settings)? })
    }

    fn trees_from_paths(
        &self,
        found: RepoPaths,
        revision: &str,
        settings: &Settings,
    ) -> Result<StateTrees, AgentError> {
        let more = |side: fn(&EnvironmentSettings) -> Option<&PathBuf>| {
            settings
                .environments
                .iter()
                .filter_map(move |e| Some((e.name.as_str().to_owned(), side(e)?.clone())))
        };
        let states_of = more(|e| e.states.as_ref()).chain(self.env.iter().cloned());
        let pillar_of = more(|e| e.pillar.as_ref()).chain(self.pillar_env.iter().cloned());
        let mut states = open_directories(Some(found.states), states_of)?;
        let beside = |name: &str| found.top.as_ref().map(|top| top.join(name)).filter(|dir| dir.is_dir());
        if let Some(modules) = beside(MODULES) {
            states = states.with_modules(modules);
        }
        if let Some(types) = beside(RESOURCE_TYPES) {
            states = states.with_resource_types(types);
        }
        let pillar = open_directories(found.pillar, pillar_of)?;
        Ok(StateTrees::new(Arc::new(states), Arc::new(pillar), revision))
    }

    /// Same for trees from elsewhere.
    ///
    /// # Errors
    /// As [`CompileRequest::job`].
    pub fn build_job(&self, trees: StateTrees, settings: Settings) -> Result<CompileJob, AgentError> {
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
        let mut options = self.options(&settings)?;
        let machine = Machine::this_host();
        let host = self.host(&machine, &settings, &options)?;
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
        let traced_states = Arc::clone(&traced.states);
        let (file_inputs, file_trace) = CompileTrace::trace_inputs(&inputs);
        let compiler = Compiler::with_file_inputs(traced, file_inputs);
        Ok(CompileJob {
            compiler,
            inputs,
            trace,
            file_trace,
            rendered: RenderedTexts::default(),
            traced_states,
            want,
            node,
            states,
            compat,
            settings,
            machine,
            revision,
            source: Some(self.states.as_deref().map(absolute_text).unwrap_or_default()),
            is_own_node: self.id.is_none()
                && self.grains.is_none()
                && self.recorded.is_none()
                && self.pillar_data.is_none(),
        })
    }

    fn compile_target(&self, states: &dyn FileTree) -> Result<CompileTarget, AgentError> {
        if self.sls.is_empty() {
            return Ok(CompileTarget::Highstate);
        }
        let env = self.saltenv.clone().unwrap_or_else(|| BASE_ENV.into());
        let envs = states.envs();
        if !envs.contains(&env) {
            let hint = format!("known environments: {}; add it with --env {env}=DIR", envs.join(", "));
            return Err(AgentError::usage_hint(format!("unknown environment `{env}`"), hint));
        }
        Ok(CompileTarget::Sls { names: self.sls.clone(), env })
    }

    /// Compile options from the settings and the request.
    ///
    /// # Errors
    /// Fails when the Salt configuration cannot be read.
    pub fn options(&self, settings: &Settings) -> Result<CompileOptions, AgentError> {
        let mut options = settings::compile_options(settings);
        if let Some(path) = &self.salt_config {
            options = settings::apply_salt_config(path, options)?;
        }
        if let Some(id) = &self.id {
            options.id.clone_from(id);
        }
        options.compat = self.compat.unwrap_or(options.compat);
        if self.sls.is_empty() {
            options.state_env = self.saltenv.clone().or(options.state_env);
        }
        if let Some(data) = &self.pillar_data {
            options.pillar_override.clone_from(data);
        }
        Ok(options)
    }

    /// Host interface for templates.
    ///
    /// # Errors
    /// As [`CompileRequest::facts`].
    pub fn host(
        &self,
        machine: &Machine,
        settings: &Settings,
        options: &CompileOptions,
    ) -> Result<Arc<dyn TemplateHost>, AgentError> {
        if let Some(recorded) = &self.recorded {
            return Ok(Arc::new(RecordedHost::from_inventory(recorded)));
        }
        let machine = self
            .restrict(machine.clone())
            .allow_commands(settings.cmd_run == TemplatePermission::Allow)
            .timeout(settings.limits.program_timeout);
        let live = LiveHostSettings {
            age_identities: vec![settings.age_identity.clone()],
            external_pillar: settings.ext_pillar.clone(),
            external_tops: settings.master_tops.clone(),
            ..LiveHostSettings::new(&*options.id, machine)
        };
        Ok(Arc::new(LiveHost::new(self.facts(&live.machine, settings, options)?, live)))
    }

    /// The machine as templates may use it.
    fn restrict(&self, machine: Machine) -> Machine {
        if self.no_commands { machine.without_programs(NO_COMMANDS) } else { machine }
    }

    /// Grains of a machine, or from a file.
    ///
    /// # Errors
    /// Fails when the file cannot be read.
    pub fn facts(
        &self,
        machine: &Machine,
        settings: &Settings,
        options: &CompileOptions,
    ) -> Result<Arc<dyn Grains>, AgentError> {
        if let Some(recorded) = &self.recorded {
            return Ok(RecordedHost::inventory_facts(recorded).0);
        }
        let Some(path) = &self.grains else {
            let facts_dir = Some(settings.facts_dir.clone());
            return Ok(Arc::new(Facts::new(FactSources {
                facts_dir,
                ..FactSources::new(&self.restrict(machine.clone()), &*options.id, parse_facts)
            })));
        };
        match read_value(path)? {
            Value::Map(facts) => Ok(Arc::new(RecordedFacts::new(Arc::unwrap_or_clone(facts)))),
            other => {
                let what =
                    format!("`{}` holds {}, expected a mapping of grains", path.display(), other.kind());
                Err(AgentError::usage(what))
            }
        }
    }
}

/// The same text for one directory, however it is written.
fn absolute_text(dir: &Path) -> String {
    std::fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned()).display().to_string()
}

/// Error for a missing states directory; the hint adapts when the current directory is in a states repository.
fn no_states_error() -> AgentError {
    let here = std::env::current_dir().unwrap_or_default();
    let hint = match enclosing_repository(&here) {
        Some(top) => format!("`{}` is a states repository: add `--states {}`", top.display(), top.display()),
        None if here.join("top.sls").is_file() => "this directory is a states tree: add `--states .`".into(),
        None => "name one with `--states DIR` (and `--pillar DIR`), or try `zagent demo`".into(),
    };
    AgentError::usage_hint(NO_STATES, hint)
}

/// True when this node has a source of its own: a remote, states in its cache, or a baked directory.
#[must_use]
pub fn has_source(settings: &Settings) -> bool {
    !settings.source.remotes.is_empty()
        || settings.is_set("baked")
        || has_files(&settings.baked)
        || settings.paths().current().exists()
}

/// Source for a command without `--states`: the cache when it holds files, otherwise the baked directory.
fn installed_source(settings: &Settings) -> Result<StatesSource, AgentError> {
    let cache =
        Cache::open(&settings.paths(), &settings.source).map_err(|error| AgentError::from_cache(&error))?;
    let found =
        StatesSource::find(settings, &cache, |_| ()).map_err(|error| AgentError::from_cache(&error))?;
    found.ok_or_else(no_states_error)
}

/// Paths of the trees in a repository.
struct RepoPaths {
    states: PathBuf,
    pillar: Option<PathBuf>,
    /// The top of the repository, with modules and resource types.
    top: Option<PathBuf>,
}

impl RepoPaths {
    fn find(top: &Path, settings: &Settings) -> Result<Self, AgentError> {
        let said = (top.join(&settings.states_root), top.join(&settings.pillar_root));
        let (states, pillar) = match RepoLayout::find(&RepoSource::Dir(top.to_owned())) {
            _ if settings.is_set("roots.states") => said,
            Ok(layout) => (top.join(layout.states), top.join(layout.pillar)),
            Err(_) if said.0.is_dir() => said,
            Err(error) => return Err(AgentError::usage(error_chain(&error))),
        };
        Ok(Self { states, pillar: Some(pillar).filter(|dir| dir.is_dir()), top: Some(top.to_owned()) })
    }
}

/// Opens a directory for `base` and one per additional environment; each must exist.
fn open_directories(
    base: Option<PathBuf>,
    more: impl Iterator<Item = (String, PathBuf)>,
) -> Result<DirFiles, AgentError> {
    let mut files = DirFiles::new();
    for (name, dir) in base.map(|dir| (BASE_ENV.to_owned(), dir)).into_iter().chain(more) {
        if !dir.is_dir() {
            let what = if dir.exists() { "is not a directory" } else { "does not exist" };
            return Err(AgentError::usage(format!("`{}` {what}", dir.display())));
        }
        files = files.with_env(&name, dir);
    }
    Ok(files)
}

/// Reads a JSON or YAML file given with a flag.
pub(crate) fn read_value(path: &Path) -> Result<Value, AgentError> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|e| AgentError::usage(format!("cannot read `{shown}`: {e}")))?;
    // JSON first: it is faster, and not every JSON document is valid YAML 1.1.
    let error = match Value::from_json_str(&text) {
        Ok(value) => return Ok(value),
        Err(e) => e,
    };
    if path.extension().is_some_and(|e| e == "json") {
        return Err(AgentError::usage(format!("`{shown}` is not JSON: {error}")));
    }
    zagent_compiler::yaml::load(&text, &TreeLimits::default())
        .map_err(|e| AgentError::usage(format!("`{shown}` is not YAML: line {}: {}", e.pos.line, e.message)))
}
