//! `zagent release publish|list`: agent binaries in a repository, for use in rollouts.

use std::path::PathBuf;

use clap::Subcommand;
use jiff::Timestamp;
use serde_json::json as object;
use zagent_cache::source::{Deadline, SourceErrorKind};
use zagent_config::Value;
use zagent_config::settings::Settings;
use zagent_rollout::artifact::{self, ArtifactError, PublishOutcome, PublishRequest, ReleaseBinary};
use zagent_rollout::board::BoardError;
use zagent_rollout::record::Component;
use zagent_rollout::version::is_version;

use super::common_args::CommonArgs;
use super::settings;
use crate::output::{OutputFormat, Ui, json, yaml};
use zagent_config::error_chain;
use zagent_config::sanitize;
use zagent_daemon::error::{AgentError, ExitStatus};
use zagent_daemon::operator::current_user;

/// Publish an agent binary for rollouts, or list published releases
#[derive(Debug, clap::Args)]
pub(super) struct ReleaseArgs {
    #[command(subcommand)]
    what: ReleaseCommand,
}

#[derive(Debug, Subcommand)]
enum ReleaseCommand {
    /// Sign a binary, push it to its own ref, and print the `artifacts:` entry for a rollout
    Publish(ReleasePublishArgs),
    /// List published releases
    List(ReleaseListArgs),
}

#[derive(Debug, clap::Args)]
struct ReleasePublishArgs {
    /// Binary to publish
    #[arg(value_name = "BIN")]
    file: PathBuf,

    /// Version, such as 1.4.0
    #[arg(long, value_name = "VERSION", value_parser = parse_version)]
    version: String,

    /// Target operating system, such as linux; default: read from the file
    #[arg(long, value_name = "OS")]
    os: Option<String>,

    /// Target architecture, such as x86_64; default: read from the file
    #[arg(long, value_name = "ARCH")]
    arch: Option<String>,

    /// Minimum protocol version of the nodes that can take it: a rollout to others is refused
    #[arg(long, value_name = "N", default_value_t = 0)]
    min_protocol: u32,

    /// Sign with this SSH key; can be repeated
    #[arg(long, value_name = "FILE")]
    key: Vec<PathBuf>,

    /// Sign the binary for download from this https URL; nothing is pushed
    #[arg(long, value_name = "URL", conflicts_with = "remote")]
    url: Option<String>,

    /// Repository; default: the rollout repository
    #[arg(long, value_name = "URL")]
    remote: Option<String>,

    #[command(flatten)]
    common: CommonArgs,
}

/// A version can be published only if it can be rolled out.
fn parse_version(text: &str) -> Result<String, String> {
    if is_version(text) {
        Ok(text.to_owned())
    } else {
        Err("use numbers separated by dots, such as 1.4.0".into())
    }
}

#[derive(Debug, clap::Args)]
struct ReleaseListArgs {
    /// Repository; default: the rollout repository
    #[arg(long, value_name = "URL")]
    remote: Option<String>,

    #[command(flatten)]
    common: CommonArgs,
}

impl ReleaseArgs {
    pub(super) const fn format(&self) -> OutputFormat {
        match &self.what {
            ReleaseCommand::Publish(args) => args.common.out,
            ReleaseCommand::List(args) => args.common.out,
        }
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        match &self.what {
            ReleaseCommand::Publish(args) => args.run(ui),
            ReleaseCommand::List(args) => args.run(ui),
        }
    }
}

impl ReleasePublishArgs {
    fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let edition = PublishRequest {
            file: &self.file,
            component: Component::Agent,
            version: &self.version,
            os: self.os.as_deref(),
            arch: self.arch.as_deref(),
            keys: &self.key,
            min_protocol: self.min_protocol,
        };
        let mut binary = ReleaseBinary::read(&edition).map_err(to_agent_error)?;
        let outcome = match &self.url {
            Some(url) => {
                binary.published.artifact.url = Some(url.clone());
                binary.published.artifact.reference = None;
                "described"
            }
            None => {
                let settings = load_settings(&self.common, self.remote.as_deref())?;
                // Publishing does not require write access to the agent's directories.
                let dir = tempfile::tempdir().map_err(|error| AgentError::failed(error.to_string()))?;
                let mut shelf =
                    artifact::open_release_store(&settings, Some(dir.path().into())).map_err(board_error)?;
                let deadline = Deadline::after(artifact::TIMEOUT);
                let outcome = binary
                    .publish(&mut shelf, &current_user(), Timestamp::now(), deadline)
                    .map_err(to_agent_error)?;
                match outcome {
                    PublishOutcome::Published => "published",
                    PublishOutcome::SignaturesAdded => "signed",
                    PublishOutcome::Unchanged => "known",
                }
            }
        };
        let artifact = &binary.published.artifact;
        let place = artifact.url.as_ref().or(artifact.reference.as_ref()).map_or("", String::as_str);
        ui.message(&match outcome {
            "described" => format!("upload it to {}", sanitize(place)),
            "known" => format!("{} already has it", sanitize(place)),
            outcome => format!("{outcome} {}", sanitize(place)),
        });
        let entry = object!({"artifacts": [artifact]});
        let value = |data| serde_json::from_value::<Value>(data).unwrap_or_default();
        ui.print(&match self.common.out {
            OutputFormat::Text | OutputFormat::Yaml => yaml(&value(entry)),
            OutputFormat::Json => json(&object!({
                "success": true, "outcome": outcome, "version": self.version, "artifacts": [artifact],
            })),
        });
        Ok(ExitStatus::Success)
    }
}

impl ReleaseListArgs {
    fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let settings = load_settings(&self.common, self.remote.as_deref())?;
        let mut shelf = artifact::open_release_store(&settings, None).map_err(board_error)?;
        let deadline = Deadline::after(settings.source.timeout);
        let there = artifact::list_published(&mut shelf, deadline).map_err(to_agent_error)?;
        let lines = there
            .iter()
            .map(|(version, machine, revision)| format!("{version}  {machine}  {}", revision.short()));
        let words = match there.is_empty() {
            true => "nothing is published".to_owned(),
            false => lines.collect::<Vec<_>>().join("\n"),
        };
        let data = there.iter().map(|(version, machine, revision)| {
            object!({"version": version, "machine": machine, "revision": revision})
        });
        self.common.print(&words, object!({"releases": data.collect::<Vec<_>>()}), ui);
        Ok(ExitStatus::Success)
    }
}

/// Settings, with the repository replaced by the one given.
fn load_settings(common: &CommonArgs, remote: Option<&str>) -> Result<Settings, AgentError> {
    let mut settings = settings::load(common.config.as_deref())?;
    if let Some(url) = remote {
        settings.rollout.url = Some(url.to_owned());
    }
    Ok(settings)
}

fn board_error(error: BoardError) -> AgentError {
    AgentError::usage_hint(error_chain(&error), "set the repository with --remote or `rollout.url`")
}

fn to_agent_error(error: ArtifactError) -> AgentError {
    let message = error_chain(&error);
    match &error {
        ArtifactError::Malformed { .. } | ArtifactError::Unreadable { .. } => AgentError::usage(message),
        ArtifactError::Git { source, .. }
            if matches!(source.kind, SourceErrorKind::Unreachable | SourceErrorKind::Timeout) =>
        {
            AgentError::Refusal { exit: ExitStatus::Unreachable, message, hint: None }
        }
        _ => AgentError::failed(message),
    }
}

#[cfg(test)]
mod tests {
    use super::parse_version;

    #[test]
    fn only_versions_that_can_be_rolled_out_are_published() {
        assert_eq!(parse_version("1.4.0-rc.1+linux").as_deref(), Ok("1.4.0-rc.1+linux"));
        for bad in ["", "v1.4", "abc", "../2"] {
            assert!(parse_version(bad).is_err(), "{bad}");
        }
    }
}
