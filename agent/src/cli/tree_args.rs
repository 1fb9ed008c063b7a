//! Flags that select trees and node in, compile request out.

use std::path::PathBuf;
use std::sync::Arc;

use zagent_compiler::{Compat, CompileOptions};
use zagent_config::{Map, Value};

use super::settings;
use zagent_daemon::compile_job::CompileJob;
use zagent_daemon::compile_request::CompileRequest;
use zagent_daemon::error::AgentError;
use zagent_host::Machine;
use zagent_host::facts::Grains;

/// What to compile, and for which node
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Tree")]
pub(super) struct TreeArgs {
    /// States directory (environment `base`), or the top of a states repository
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

    /// Start no program while compiling: a template that calls one is an error. Commands of states still run
    #[arg(long, help_heading = "Configuration")]
    pub(super) no_commands: bool,

    /// Set `opts.test` for templates.
    #[arg(skip)]
    pub(super) test: bool,

    /// A host of the inventory, instead of this one.
    #[arg(skip)]
    pub(super) recorded: Option<Arc<Value>>,
}

/// Which behaviour to follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum CompatArg {
    /// Salt's behaviour
    Salt,
}

impl TreeArgs {
    /// What these flags request.
    pub(super) fn request(&self) -> Result<CompileRequest, AgentError> {
        if self.id.as_ref().is_some_and(|id| id.trim().is_empty()) {
            return Err(AgentError::usage("--id is empty"));
        }
        Ok(CompileRequest {
            states: self.states.clone(),
            pillar: self.pillar.clone(),
            env: self.env.clone(),
            pillar_env: self.pillar_env.clone(),
            sls: self.sls.clone(),
            saltenv: self.saltenv.clone(),
            id: self.id.clone(),
            grains: self.grains.clone(),
            recorded: self.recorded.clone(),
            pillar_data: self.pillar_data.as_deref().map(parse_pillar_data).transpose()?,
            config: self.config.clone(),
            salt_config: self.salt_config.clone(),
            compat: self.compat.map(|CompatArg::Salt| Compat::Salt),
            test: self.test,
            no_commands: self.no_commands,
        })
    }

    /// Builds the compiler that these arguments and the configuration describe.
    pub(super) fn job(&self) -> Result<CompileJob, AgentError> {
        self.request()?.job(settings::load(self.config.as_deref())?)
    }

    /// Same, for commands that need no states: uses an empty tree when none is given.
    pub(super) fn job_without_states(&self) -> Result<CompileJob, AgentError> {
        self.request()?.job_without_states(settings::load(self.config.as_deref())?)
    }

    /// Compile options from the configuration and these arguments.
    pub(super) fn options(&self) -> Result<CompileOptions, AgentError> {
        self.request()?.options(&settings::load(self.config.as_deref())?)
    }

    /// Grains of this host, or from a file.
    pub(super) fn facts(&self) -> Result<Arc<dyn Grains>, AgentError> {
        let (request, settings) = (self.request()?, settings::load(self.config.as_deref())?);
        request.facts(&Machine::this_host(), &settings, &request.options(&settings)?)
    }
}

fn parse_env(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, dir)) if !name.is_empty() && !dir.is_empty() => Ok((name.to_owned(), dir.into())),
        _ => Err("use NAME=DIR, such as dev=/srv/states-dev".into()),
    }
}

fn parse_pillar_data(text: &str) -> Result<Map, AgentError> {
    match Value::from_json_str(text) {
        Ok(Value::Map(map)) => Ok(Arc::unwrap_or_clone(map)),
        Ok(other) => Err(AgentError::usage_hint(
            format!("--pillar-data is {}, expected a mapping", other.kind()),
            "example: --pillar-data '{\"nginx\": {\"workers\": 4}}'",
        )),
        Err(e) => Err(AgentError::usage_hint(
            format!("--pillar-data is not JSON: {e}"),
            "example: --pillar-data '{\"nginx\": {\"workers\": 4}}'",
        )),
    }
}
