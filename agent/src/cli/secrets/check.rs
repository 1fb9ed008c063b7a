//! `zagent secrets check`: every message against the rules, for CI; needs no key.

use serde_json::json as object;

use super::{RepositoryArgs, place, rekey};
use crate::output::{OutputFormat, Ui, json, yaml};
use crate::secrets::document::{self, EncryptedShape};
use zagent_daemon::error::{AgentError, ExitStatus};

/// Compare every secret with recipients.yaml; exits with 1 when one differs
#[derive(Debug, clap::Args)]
pub(super) struct SecretsCheckArgs {
    #[command(flatten)]
    repository: RepositoryArgs,

    /// Output format
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(super) out: OutputFormat,
}

impl SecretsCheckArgs {
    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let repo = self.repository.open()?;
        let files = repo.files().map_err(AgentError::failed)?;
        let (mut count, mut findings) = (0, Vec::new());
        for file in &files {
            count += file.messages.len();
            if file.path.ends_with(".sls") && document::shape(&file.text) == EncryptedShape::Plain {
                findings.push(format!(
                    "{}:1 no renderer decrypts its values; write `#!jinja|yaml|age` into the first line",
                    file.path
                ));
            }
            match rekey::changes(&repo, file) {
                Ok(changes) => findings.extend(changes.iter().map(|(index, change)| {
                    let place = place(&file.path, &file.messages[*index]);
                    format!(
                        "{place} is not encrypted for its readers{}; run `zagent secrets rekey`",
                        rekey::describe(change)
                    )
                })),
                Err(error) => findings.push(error.summary()),
            }
        }
        let value = || object!({"secrets": count, "files": files.len(), "findings": findings});
        match self.out {
            OutputFormat::Json => ui.print(&json(&value())),
            OutputFormat::Yaml => ui.print(&yaml(&serde_json::from_value(value()).unwrap_or_default())),
            OutputFormat::Text => {
                findings.iter().for_each(|finding| ui.print(&format!("{finding}\n")));
                let verdict = match findings.len() {
                    0 => "each is encrypted for its readers".to_owned(),
                    more => counted(more, "finding"),
                };
                let (secrets, files) = (counted(count, "secret"), counted(files.len(), "file"));
                ui.print(&format!("{secrets} in {files}: {verdict}\n"));
            }
        }
        Ok(if findings.is_empty() { ExitStatus::Success } else { ExitStatus::Failed })
    }
}

/// A number and its noun.
fn counted(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}
