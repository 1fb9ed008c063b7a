//! Arguments of `plan` and `start` in, rollout draft out.
//!
//! Law: flags override the `--from` file, the file overrides the defaults; nothing is written (held by
//! `a_plan_is_shown_under_the_id_that_is_written`).

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use zagent_config::ids::RolloutId;
use zagent_config::settings::Settings;
use zagent_rollout::plan::RolloutDraft;
use zagent_rollout::record::{Artifact, Canary, Component, RolloutMode, RolloutProfile};
use zagent_rollout::{BatchSize, Span};

use super::{record_text, resolve};
use zagent_daemon::error::AgentError;
use zagent_daemon::operator::current_user;

/// What a rollout is made from.
#[derive(Debug, clap::Args)]
pub(super) struct DraftArgs {
    /// Component to roll out
    #[arg(long, value_enum, required_unless_present = "from", help_heading = "Order")]
    component: Option<ComponentArg>,

    /// Agent version, or branch or commit of the states
    #[arg(long, value_name = "VERSION", required_unless_present = "from", help_heading = "Order")]
    to: Option<String>,

    /// Target nodes: a compound target such as 'G@os:Debian and web-*'; default: all
    #[arg(long, value_name = "TARGET", help_heading = "Order")]
    target: Option<String>,

    /// Rollout ID; default: made from component, version and date
    #[arg(long, value_name = "ID", help_heading = "Order")]
    id: Option<RolloutId>,

    /// Read the rollout from a file; flags override it
    #[arg(long, value_name = "FILE", help_heading = "Order")]
    from: Option<PathBuf>,

    /// Binaries of the version, as printed by `zagent release`; default: those in the rollout repository
    #[arg(long, value_name = "FILE", help_heading = "Order")]
    artifacts: Option<PathBuf>,

    /// Nodes per batch: a number, or a percentage such as 10%
    #[arg(long, value_name = "N|N%", help_heading = "Pace")]
    batch_size: Option<BatchSize>,

    /// Canary nodes per stratum, updated first; 0 for none
    #[arg(long, value_name = "N", help_heading = "Pace")]
    canary: Option<usize>,

    /// Facts that define the strata
    #[arg(long, value_name = "FACT,…", value_delimiter = ',', help_heading = "Pace")]
    canary_by: Vec<String>,

    /// How long a batch soaks before it is confirmed
    #[arg(long, value_name = "TIME", help_heading = "Pace")]
    soak: Option<Span>,

    /// Pause between two batches
    #[arg(long, value_name = "TIME", help_heading = "Pace")]
    pause: Option<Span>,

    /// Abort after this number of failed nodes
    #[arg(long, value_name = "N", help_heading = "Pace")]
    max_failed: Option<usize>,

    /// Skip up to this number of silent nodes; abort on one more
    #[arg(long, value_name = "N", help_heading = "Pace")]
    max_silent: Option<usize>,

    /// Minimum protocol version of every node; at least what the release needs
    #[arg(long, value_name = "N", help_heading = "Pace")]
    min_protocol: Option<u32>,

    /// What decides when a node is updated
    #[arg(long, value_enum, help_heading = "Pace")]
    mode: Option<ModeArg>,

    /// How long the rollout is valid: nothing starts afterwards; default: 30 days
    #[arg(long, value_name = "TIME", help_heading = "Pace")]
    expires: Option<Span>,

    /// One canary, then all other nodes at once; ignores maintenance windows
    #[arg(long, help_heading = "Pace")]
    emergency: bool,

    /// Override the checks: allow an older version, one that a node rejected or quarantined, or nodes of another rollout
    #[arg(long, help_heading = "Order")]
    pub(super) anyway: bool,

    /// Validate and write the rollout; nodes do nothing
    #[arg(long, help_heading = "Order")]
    dry_run: bool,
}

/// Component to roll out.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ComponentArg {
    /// The binary, by version
    Agent,
    /// The states, by a branch or commit
    States,
}

/// What decides when a node is updated.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ModeArg {
    /// A driver, based on node reports
    Driver,
    /// The clock: timed waves, without reports
    Clock,
}

/// A rollout in a file: the record fields that a person sets.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct DraftFile {
    id: Option<RolloutId>,
    component: Option<Component>,
    to: Option<String>,
    from: Option<String>,
    target: Option<String>,
    batch_size: Option<BatchSize>,
    canary: Option<Canary>,
    soak_time: Option<Span>,
    batch_pause: Option<Span>,
    max_failed: Option<usize>,
    max_silent: Option<usize>,
    min_protocol: Option<u32>,
    dry_run: bool,
    mode: Option<RolloutMode>,
    profile: Option<RolloutProfile>,
    anyway: bool,
    expires: Option<Span>,
    artifacts: Vec<Artifact>,
}

impl DraftArgs {
    /// Builds the draft; a missing ID is made from `day`.
    pub(super) fn draft(&self, settings: &Settings, day: &str) -> Result<RolloutDraft, AgentError> {
        let file: DraftFile = self.from.as_deref().map(read_yaml).transpose()?.unwrap_or_default();
        let part = self.component.map(|part| match part {
            ComponentArg::Agent => Component::Agent,
            ComponentArg::States => Component::States,
        });
        let missing = |key: &str| {
            let hint = format!("set `{key}:` in the file, or use --{key}");
            AgentError::usage_hint(format!("the rollout has no `{key}`"), hint)
        };
        let component = part.or(file.component).ok_or_else(|| missing("component"))?;
        let to = self.to.clone().or(file.to).ok_or_else(|| missing("to"))?;
        let to = match component {
            Component::Agent => to,
            Component::States => resolve::resolve_revision(&to, settings)?.to_string(),
        };
        let id = match self.id.clone().or(file.id) {
            Some(id) => id,
            None => default_id(component, &to, day)?,
        };
        let plain = RolloutDraft::new(id, component, to);
        let canary = file.canary.unwrap_or_else(|| plain.canary.clone());
        let by = if self.canary_by.is_empty() { canary.by } else { self.canary_by.clone() };
        let mode = self.mode.map(|mode| match mode {
            ModeArg::Driver => RolloutMode::Driver,
            ModeArg::Clock => RolloutMode::Clock,
        });
        let profile = if self.emergency { Some(RolloutProfile::Emergency) } else { file.profile };
        let artifacts = match &self.artifacts {
            Some(path) => read_yaml(path)?,
            None if file.artifacts.is_empty() && component == Component::Agent => {
                resolve::published_artifacts(&plain.to, settings)?
            }
            None => file.artifacts,
        };
        // A release knows what it needs; an order can only ask for more.
        let needed = artifacts.iter().map(|artifact: &Artifact| artifact.min_protocol).max().unwrap_or(0);
        let min_protocol = self.min_protocol.or(file.min_protocol).unwrap_or(plain.min_protocol);
        Ok(RolloutDraft {
            from: file.from,
            target: self.target.clone().or(file.target).unwrap_or(plain.target),
            batch_size: self.batch_size.or(file.batch_size).unwrap_or(plain.batch_size),
            canary: Canary { count: self.canary.unwrap_or(canary.count), by },
            soak_time: self.soak.or(file.soak_time).unwrap_or(plain.soak_time),
            batch_pause: self.pause.or(file.batch_pause).unwrap_or(plain.batch_pause),
            max_failed: self.max_failed.or(file.max_failed).unwrap_or(plain.max_failed),
            max_silent: self.max_silent.or(file.max_silent).unwrap_or(plain.max_silent),
            min_protocol: min_protocol.max(needed),
            dry_run: self.dry_run || file.dry_run,
            mode: mode.or(file.mode).unwrap_or(plain.mode),
            profile: profile.unwrap_or(plain.profile),
            anyway: self.anyway || file.anyway,
            artifacts,
            by: Some(current_user()),
            fleet: settings.fleet.clone(),
            silent_after: Some(Span(crate::cli::node::silence_limit(settings))),
            valid_for: self.expires.or(file.expires).unwrap_or(plain.valid_for),
            ..plain
        })
    }

    /// True when the ID was generated: then another one can be generated.
    pub(super) const fn has_default_id(&self) -> bool {
        self.id.is_none() && self.from.is_none()
    }
}

/// Generates an ID: component, version and day.
fn default_id(component: Component, to: &str, day: &str) -> Result<RolloutId, AgentError> {
    let to = record_text::short_version(component, to);
    let text = format!("{}-{to}-{day}", component.name());
    text.parse().map_err(|error| {
        AgentError::usage_hint(
            format!("cannot make a rollout ID from `{to}`: {error}"),
            "set an ID with --id",
        )
    })
}

fn read_yaml<T: DeserializeOwned>(path: &Path) -> Result<T, AgentError> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|e| AgentError::usage(format!("cannot read `{shown}`: {e}")))?;
    serde_yaml::from_str(&text)
        .map_err(|e| AgentError::usage(format!("`{shown}` is not a valid rollout file: {e}")))
}
