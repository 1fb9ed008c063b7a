//! `zagent test [DIR]`: converges a states repository twice in a container, and compares the dry run with the result.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use zagent_config::{error_chain, settings::parse_duration};
use zagent_daemon::error::{AgentError, ExitStatus};
use zagent_daemon::repo_layout::{RepoLayout, RepoSource};
use zagent_host::CancelToken;
use zagent_run::signal::SignalWatcher;

use crate::container_test::{
    Comparison, Engine, Sandbox, SandboxError, TestImage, TestOptions, TestRuns, default_image_dir,
};
use crate::output::{OutputFormat, TextTable, Tone, Ui, json, pluralize, yaml};

/// Converge a states repository twice in a container and compare the dry run with the result
#[derive(Debug, clap::Args)]
pub(super) struct ContainerTestArgs {
    /// States repository: states/ and pillar/, a manifest with roots, or a flat Salt tree
    #[arg(value_name = "DIR", default_value = ".")]
    dir: PathBuf,

    /// Root directory or tarball of the system to test on; default: the image of `--build-image`
    #[arg(long, value_name = "DIR|TARBALL")]
    image: Option<PathBuf>,

    /// Build a minimal Debian with debootstrap if there is none, and keep it in the cache directory of the user
    #[arg(long, conflicts_with = "image")]
    build_image: bool,

    /// Test as this node: its ID decides what the top files select
    #[arg(long, value_name = "NAME")]
    node: Option<String>,

    /// Use the recorded facts of the node, inventory/NAME.yaml, instead of those of the container
    #[arg(long, requires = "node")]
    recorded_facts: bool,

    /// Apply these SLS files instead of what the top file selects
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    sls: Vec<String>,

    /// Boot systemd in the container, for states that manage services
    #[arg(long)]
    boot: bool,

    /// Cut the container off from the network
    #[arg(long)]
    no_network: bool,

    /// Keep the root directory of the container and print its path
    #[arg(long)]
    keep: bool,

    /// Time limit of all runs together
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = parse_limit)]
    timeout: Duration,

    /// Output format
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT", help_heading = "Output")]
    out: OutputFormat,
}

fn parse_limit(text: &str) -> Result<Duration, String> {
    parse_duration(text)
        .filter(|time| !time.is_zero())
        .ok_or_else(|| "use a duration such as 90s or 10m".into())
}

fn refused(error: &SandboxError) -> AgentError {
    let exit = match error {
        SandboxError::NoEngine(_) | SandboxError::Image(_) => ExitStatus::Usage,
        _ => ExitStatus::Failed,
    };
    AgentError::Refusal { exit, message: error_chain(error), hint: error.hint().map(str::to_owned) }
}

impl ContainerTestArgs {
    pub(super) const fn format(&self) -> OutputFormat {
        self.out
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let options = self.options()?;
        let engine = Engine::find(self.boot).map_err(|e| refused(&e))?;
        let cache = cache_dir()?;
        let image = self.image(&cache, ui)?;
        let work = tempfile::Builder::new()
            .prefix("zagent-test-")
            .tempdir_in(work_dir(&cache)?)
            .map_err(|e| AgentError::failed(format!("cannot create a directory for the container: {e}")))?;
        let cancel = Arc::new(CancelToken::new());
        let _signals = SignalWatcher::watch(&cancel);
        ui.message("preparing the container");
        let sandbox = Sandbox::prepare(engine, &image, work.path()).map_err(|e| refused(&e))?;
        ui.message("running: dry run, run, second run");
        let ended = sandbox.run(&options, &cancel);
        if self.keep {
            ui.message(&format!("the container is kept in {}", sandbox.root().display()));
            let _ = work.keep();
        }
        self.print(&ended.map_err(|e| refused(&e))?, ui)
    }

    fn options(&self) -> Result<TestOptions, AgentError> {
        let source = RepoSource::Dir(self.dir.clone());
        let layout = RepoLayout::find(&source).map_err(|e| AgentError::usage(error_chain(&e)))?;
        let cannot = |what: &str, e: std::io::Error| AgentError::failed(format!("cannot find {what}: {e}"));
        let repository = self.dir.canonicalize().map_err(|e| cannot("the repository", e))?;
        let program = std::env::current_exe().map_err(|e| cannot("the zagent binary", e))?;
        let pillar = repository.join(&layout.pillar).is_dir().then_some(layout.pillar);
        Ok(TestOptions {
            states: layout.states,
            pillar,
            program,
            sls: self.sls.clone(),
            node: self.node.clone(),
            grains: self.recorded_facts(&repository)?,
            boot: self.boot,
            network: !self.no_network,
            timeout: self.timeout,
            repository,
        })
    }

    fn recorded_facts(&self, repository: &Path) -> Result<Option<String>, AgentError> {
        let Some(node) = self.node.as_ref().filter(|_| self.recorded_facts) else { return Ok(None) };
        let file = format!("inventory/{node}.yaml");
        if repository.join(&file).is_file() {
            return Ok(Some(file));
        }
        let hint = format!("record them on the node: `zagent show grains --out yaml > {file}`");
        Err(AgentError::usage_hint(format!("there is no `{file}`"), hint))
    }

    fn image(&self, cache: &Path, ui: &mut Ui<'_>) -> Result<TestImage, AgentError> {
        let default = default_image_dir(cache);
        let path = self.image.as_deref().unwrap_or(&default);
        if self.build_image && !path.exists() {
            ui.message(&format!("building a Debian in {}; this takes about a minute", path.display()));
            return TestImage::build(path).map_err(|e| refused(&e.into()));
        }
        TestImage::find(path).map_err(|e| refused(&e.into()))
    }

    fn print(&self, runs: &TestRuns, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        if let Some(errors) = runs.dry.get("errors").or_else(|| runs.run.get("errors")) {
            return Err(not_compiled(errors));
        }
        let told = Comparison::new(runs);
        ui.print(&match self.out {
            OutputFormat::Json => json(&told.to_json()),
            OutputFormat::Yaml => yaml(&serde_json::from_value(told.to_json()).unwrap_or_default()),
            OutputFormat::Text => text(&told, ui),
        });
        Ok(if told.is_good() { ExitStatus::Success } else { ExitStatus::Failed })
    }
}

/// The errors of a tree that does not compile in the container.
fn not_compiled(errors: &Value) -> AgentError {
    let said = |error: &Value| {
        let message = error["message"].as_str().unwrap_or_default();
        match (error["file"].as_str(), error["line"].as_u64()) {
            (Some(file), Some(line)) => format!("{file}:{line}: {message}"),
            _ => message.to_owned(),
        }
    };
    let all: Vec<String> = errors.as_array().into_iter().flatten().map(said).collect();
    AgentError::Refusal {
        exit: ExitStatus::NotCompiled,
        message: format!("the states do not run in the container: {}", all.join("; ")),
        hint: Some("find all errors with `zagent check`".into()),
    }
}

fn text(told: &Comparison, ui: &Ui<'_>) -> String {
    let mut table =
        TextTable::new(["SLS", "STATES", "PREDICTED", "CHANGED", "FAILED", "AGAIN", "MISPREDICTED"]);
    for (sls, row) in &told.rows {
        let tone = if row.is_good() { Tone::Plain } else { Tone::Error };
        let counts = [row.states, row.predicted, row.changed, row.failed, row.again, row.wrong];
        let [a, b, c, d, e, f] = counts.map(|count| count.to_string());
        table.add_row(tone, [sls.clone(), a, b, c, d, e, f]);
    }
    let mut out = table.render(ui.paint);
    for (state, why) in &told.problems {
        let line = zagent_config::sanitize(&format!("{state}: {why}"));
        out.push_str(&format!("{} {line}\n", ui.paint.red(ui.paint.mark('✗'))));
    }
    let states = told.rows.values().map(|row| row.states).sum();
    out.push_str(&match told.is_good() {
        true => format!("{}: as predicted, and the second run changed nothing\n", pluralize(states, "state")),
        false => format!("{}: {}\n", pluralize(states, "state"), pluralize(told.problems.len(), "problem")),
    });
    out
}

/// The cache directory of the user.
fn cache_dir() -> Result<PathBuf, AgentError> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache"))).ok_or_else(|| {
        AgentError::usage_hint("there is no directory for images", "set HOME or XDG_CACHE_HOME")
    })
}

/// Where containers are unpacked: beside the images, because a copy may then share their blocks.
fn work_dir(cache: &Path) -> Result<PathBuf, AgentError> {
    let dir = cache.join("zagent");
    std::fs::create_dir_all(&dir)
        .map_err(|e| AgentError::failed(format!("cannot create `{}`: {e}", dir.display())))?;
    Ok(dir)
}
