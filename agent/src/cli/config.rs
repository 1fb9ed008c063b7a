//! `zagent config show`.

use std::fmt::Write;

use clap::Subcommand;
use serde_json::json as object;
use zagent_config::Value;
use zagent_config::settings::EffectiveSetting;

use super::common_args::CommonArgs;
use super::settings;
use crate::output::{OutputFormat, Paint, Ui, json, yaml};
use zagent_config::sanitize;
use zagent_daemon::error::{AgentError, ExitStatus};

/// Show the configuration
#[derive(Debug, clap::Args)]
pub(super) struct ConfigArgs {
    #[command(subcommand)]
    what: ConfigCommand,
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Print every effective value and where it is set
    Show(ConfigShowArgs),
}

#[derive(Debug, clap::Args)]
struct ConfigShowArgs {
    /// Only keys that start with this prefix, such as `run`
    #[arg(value_name = "KEY")]
    key: Option<String>,

    #[command(flatten)]
    common: CommonArgs,
}

impl ConfigArgs {
    pub(super) const fn format(&self) -> OutputFormat {
        let ConfigCommand::Show(show) = &self.what;
        show.common.out
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let ConfigCommand::Show(show) = &self.what;
        let settings = settings::load(show.common.config.as_deref())?;
        let wanted = |e: &&EffectiveSetting| match &show.key {
            None => true,
            Some(key) => {
                e.key == *key || e.key.strip_prefix(key.as_str()).is_some_and(|rest| rest.starts_with('.'))
            }
        };
        let found: Vec<&EffectiveSetting> = settings.effective().iter().filter(wanted).collect();
        if let (true, Some(key)) = (found.is_empty(), &show.key) {
            return Err(unknown_key(key));
        }
        ui.print(&match show.common.out {
            OutputFormat::Text => settings_text(&found, ui.paint),
            OutputFormat::Json => json(&settings_json(&found)),
            OutputFormat::Yaml => {
                yaml(&serde_json::from_value::<Value>(settings_json(&found)).unwrap_or_default())
            }
        });
        Ok(ExitStatus::Success)
    }
}

fn unknown_key(key: &str) -> AgentError {
    let near = zagent_config::suggest::nearest(key, zagent_config::settings::keys());
    let hint = near.map_or_else(
        || "list all keys with `zagent config show`".to_owned(),
        |k| format!("did you mean `{k}`?"),
    );
    AgentError::usage_hint(format!("unknown configuration key `{key}`"), hint)
}

fn settings_text(found: &[&EffectiveSetting], paint: Paint) -> String {
    let shown: Vec<(String, String, String)> = found
        .iter()
        .map(|e| (e.key.clone(), serde_json::to_string(&e.value).unwrap_or_default(), e.origin.to_string()))
        .collect();
    let width = |f: fn(&(String, String, String)) -> &str, max: usize| {
        shown.iter().map(|row| f(row).chars().count()).filter(|n| *n <= max).max().unwrap_or(0)
    };
    let (key_width, value_width) = (width(|r| &r.0, 40), width(|r| &r.1, 40));
    let mut out = String::new();
    for (key, value, origin) in &shown {
        let origin = if origin == "default" { paint.dim(origin) } else { paint.green(sanitize(origin)) };
        let (key, value) = (format!("{key:key_width$}"), format!("{:value_width$}", sanitize(value)));
        let _ = writeln!(out, "{}  {value}  {origin}", paint.bold(key));
    }
    out
}

fn settings_json(found: &[&EffectiveSetting]) -> serde_json::Value {
    let entries =
        found.iter().map(|e| (e.key.clone(), object!({"value": e.value, "from": e.origin.to_string()})));
    serde_json::Value::Object(entries.collect())
}
