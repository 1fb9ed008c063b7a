//! `zagent secrets who`: who can read which secret, as the messages themselves say.

use std::path::PathBuf;

use serde_json::json as object;

use super::{RepositoryArgs, place, selected};
use crate::output::{OutputFormat, TextTable, Tone, Ui, json, yaml};
use zagent_daemon::error::{AgentError, ExitStatus};

/// Show who can read which secret
#[derive(Debug, clap::Args)]
pub(super) struct WhoArgs {
    /// Files; default: all of the repository
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Only secrets that this person or host can read
    #[arg(long, value_name = "NAME")]
    reader: Option<String>,

    #[command(flatten)]
    repository: RepositoryArgs,

    /// Output format
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(super) out: OutputFormat,
}

impl WhoArgs {
    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let repo = self.repository.open()?;
        let mut rows = Vec::new();
        for file in selected(&repo, &self.files)? {
            for message in &file.messages {
                let place = place(&file.path, message);
                let names = repo.openers(message);
                let names = names.map_err(|why| AgentError::failed(format!("{place}: {why}")))?;
                if self.reader.as_ref().is_none_or(|reader| names.contains(reader)) {
                    rows.push((place, names));
                }
            }
        }
        let value = || {
            let entries = rows.iter().map(|(place, names)| object!({"secret": place, "readers": names}));
            object!(entries.collect::<Vec<_>>())
        };
        match self.out {
            OutputFormat::Json => ui.print(&json(&value())),
            OutputFormat::Yaml => ui.print(&yaml(&serde_json::from_value(value()).unwrap_or_default())),
            OutputFormat::Text if rows.is_empty() => ui.print("No secrets\n"),
            OutputFormat::Text => {
                let mut table = TextTable::new(["SECRET", "READERS"]);
                for (place, names) in &rows {
                    table.add_row(Tone::Plain, [place.clone(), names.join(", ")]);
                }
                let text = table.render(ui.paint);
                ui.print(&text);
            }
        }
        Ok(ExitStatus::Success)
    }
}
