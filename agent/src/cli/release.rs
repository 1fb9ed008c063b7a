//! `zagent release publish|list`: binaries of the agent in a repository, for rollouts to name.

use std::path::PathBuf;

use clap::Subcommand;
use jiff::Timestamp;
use serde_json::json as object;
use zagent_cache::source::{Deadline, Kind};
use zagent_config::Value;
use zagent_config::settings::Settings;
use zagent_rollout::artifact::{self, ArtifactError, Binary, Edition, Outcome};
use zagent_rollout::board::BoardError;
use zagent_rollout::record::Component;
use zagent_rollout::version::is_version;

use super::common::Common;
use super::settings;
use crate::operate::who;
use crate::output::{Format, Ui, harmless, json, yaml};
use crate::report::{Exit, Trouble, chain};

/// Publish a binary of the agent for rollouts, or list what was published
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Sign a binary, push it into a ref of its own, and print the `artifacts:` of a rollout
    Publish(Publish),
    /// List what was published
    List(List),
}

#[derive(Debug, clap::Args)]
struct Publish {
    /// The binary
    #[arg(value_name = "BIN")]
    file: PathBuf,

    /// Its version, such as 1.4.0
    #[arg(long, value_name = "VERSION", value_parser = version)]
    version: String,

    /// The kernel that it is for, such as linux; default: as the file says
    #[arg(long, value_name = "OS")]
    os: Option<String>,

    /// The machine that it is for, such as x86_64; default: as the file says
    #[arg(long, value_name = "ARCH")]
    arch: Option<String>,

    /// Sign with this SSH key; may be given more than once
    #[arg(long, value_name = "FILE")]
    key: Vec<PathBuf>,

    /// Describe and sign it as what is offered at this https address; nothing is pushed
    #[arg(long, value_name = "URL", conflicts_with = "remote")]
    url: Option<String>,

    /// The repository; default: that of the rollouts
    #[arg(long, value_name = "URL")]
    remote: Option<String>,

    #[command(flatten)]
    common: Common,
}

/// What can be published is what can be rolled out.
fn version(text: &str) -> Result<String, String> {
    if is_version(text) {
        Ok(text.to_owned())
    } else {
        Err("write numbers between dots, such as 1.4.0".into())
    }
}

#[derive(Debug, clap::Args)]
struct List {
    /// The repository; default: that of the rollouts
    #[arg(long, value_name = "URL")]
    remote: Option<String>,

    #[command(flatten)]
    common: Common,
}

impl Args {
    pub(super) const fn format(&self) -> Format {
        match &self.what {
            What::Publish(args) => args.common.out,
            What::List(args) => args.common.out,
        }
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<Exit, Trouble> {
        match &self.what {
            What::Publish(args) => args.run(ui),
            What::List(args) => args.run(ui),
        }
    }
}

impl Publish {
    fn run(&self, ui: &mut Ui<'_>) -> Result<Exit, Trouble> {
        let edition = Edition {
            file: &self.file,
            component: Component::Agent,
            version: &self.version,
            os: self.os.as_deref(),
            arch: self.arch.as_deref(),
            keys: &self.key,
        };
        let mut binary = Binary::read(&edition).map_err(trouble)?;
        let outcome = match &self.url {
            Some(url) => {
                binary.published.artifact.url = Some(url.clone());
                binary.published.artifact.reference = None;
                "described"
            }
            None => {
                let settings = load(&self.common, self.remote.as_deref())?;
                // Whoever publishes need not be able to write where the agent does.
                let dir = tempfile::tempdir().map_err(|error| Trouble::failed(error.to_string()))?;
                let mut shelf = artifact::shelf(&settings, Some(dir.path().into())).map_err(place)?;
                let deadline = Deadline::after(artifact::TIMEOUT);
                let outcome =
                    binary.publish(&mut shelf, &who(), Timestamp::now(), deadline).map_err(trouble)?;
                match outcome {
                    Outcome::Published => "published",
                    Outcome::Signed => "signed",
                    Outcome::Known => "known",
                }
            }
        };
        let artifact = &binary.published.artifact;
        let place = artifact.url.as_ref().or(artifact.reference.as_ref()).map_or("", String::as_str);
        ui.say(&match outcome {
            "described" => format!("upload it to {}", harmless(place)),
            "known" => format!("{} has it already", harmless(place)),
            outcome => format!("{outcome} {}", harmless(place)),
        });
        let entry = object!({"artifacts": [artifact]});
        let value = |data| serde_json::from_value::<Value>(data).unwrap_or_default();
        ui.data(&match self.common.out {
            Format::Text | Format::Yaml => yaml(&value(entry)),
            Format::Json => json(&object!({
                "success": true, "outcome": outcome, "version": self.version, "artifacts": [artifact],
            })),
        });
        Ok(Exit::Fine)
    }
}

impl List {
    fn run(&self, ui: &mut Ui<'_>) -> Result<Exit, Trouble> {
        let settings = load(&self.common, self.remote.as_deref())?;
        let mut shelf = artifact::shelf(&settings, None).map_err(place)?;
        let deadline = Deadline::after(settings.source.timeout);
        let there = artifact::published(&mut shelf, deadline).map_err(trouble)?;
        let lines = there
            .iter()
            .map(|(version, machine, revision)| format!("{version}  {machine}  {}", revision.short()));
        let words = match there.is_empty() {
            true => "nothing was published".to_owned(),
            false => lines.collect::<Vec<_>>().join("\n"),
        };
        let data = there.iter().map(|(version, machine, revision)| {
            object!({"version": version, "machine": machine, "revision": revision})
        });
        self.common.print(&words, object!({"releases": data.collect::<Vec<_>>()}), ui);
        Ok(Exit::Fine)
    }
}

/// The settings, with the repository that was named in the place of theirs.
fn load(common: &Common, remote: Option<&str>) -> Result<Settings, Trouble> {
    let mut settings = settings::load(common.config.as_deref())?;
    if let Some(url) = remote {
        settings.rollout.url = Some(url.to_owned());
    }
    Ok(settings)
}

fn place(error: BoardError) -> Trouble {
    Trouble::usage_hint(chain(&error), "name the repository with --remote, or set `rollout.url`")
}

fn trouble(error: ArtifactError) -> Trouble {
    let message = chain(&error);
    match &error {
        ArtifactError::Odd { .. } | ArtifactError::Unread { .. } => Trouble::usage(message),
        ArtifactError::Git { source, .. } if matches!(source.kind, Kind::Unreachable | Kind::Timeout) => {
            Trouble::Refusal { exit: Exit::Unreachable, message, hint: None }
        }
        _ => Trouble::failed(message),
    }
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn only_what_can_be_rolled_out_is_published() {
        assert_eq!(version("1.4.0-rc.1+linux").as_deref(), Ok("1.4.0-rc.1+linux"));
        for bad in ["", "v1.4", "abc", "../2"] {
            assert!(version(bad).is_err(), "{bad}");
        }
    }
}
