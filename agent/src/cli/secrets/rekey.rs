//! `zagent secrets rekey`: messages whose readers are not those of the rules, encrypted again; and what must be rotated.

use std::path::PathBuf;

use serde_json::json as object;

use super::{IdentityArgs, RepositoryArgs, place, selected};
use crate::output::{OutputFormat, Ui, json, yaml};
use crate::secrets::document;
use crate::secrets::repository::{EncryptedFile, ReaderChange, SecretRepository, decrypt};
use zagent_daemon::error::{AgentError, ExitStatus};

/// Encrypt again what the rules of recipients.yaml no longer match
///
/// Somebody who is removed may have kept what they could read: the output lists these secrets. Replace each of them where
/// it is used.
#[derive(Debug, clap::Args)]
pub(super) struct RekeyArgs {
    /// Files; default: all of the repository
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Show what would be encrypted again; needs no key
    #[arg(long, alias = "dry-run")]
    test: bool,

    #[command(flatten)]
    identity: IdentityArgs,

    #[command(flatten)]
    repository: RepositoryArgs,

    /// Output format
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT")]
    pub(super) out: OutputFormat,
}

/// A message that differs from the rules.
struct OutdatedMessage {
    place: String,
    change: ReaderChange,
}

impl RekeyArgs {
    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let repo = self.repository.open()?;
        let files = selected(&repo, &self.files)?;
        let identities = self.identity.files();
        // Every file is decrypted before one is written: a missing key changes nothing.
        let (mut outdated, mut writes) = (Vec::new(), Vec::new());
        for file in &files {
            let mut new = vec![None; file.messages.len()];
            for (index, change) in changes(&repo, file)? {
                let message = &file.messages[index];
                let place = place(&file.path, message);
                if !self.test {
                    let plain = decrypt(message, &identities)
                        .map_err(|why| AgentError::failed(format!("{place}: {why}; nothing was changed")))?;
                    new[index] = Some(repo.encrypt_for(&file.path, &plain).map_err(AgentError::usage)?);
                }
                outdated.push(OutdatedMessage { place, change });
            }
            if new.iter().any(Option::is_some) {
                writes.push((file, document::with_messages(&file.text, &file.messages, &new)));
            }
        }
        for (file, text) in writes {
            repo.write(&file.path, &text).map_err(AgentError::failed)?;
        }
        self.report(&outdated, ui);
        Ok(ExitStatus::Success)
    }

    fn report(&self, outdated: &[OutdatedMessage], ui: &mut Ui<'_>) {
        let rotate: Vec<_> = outdated.iter().filter(|one| !one.change.removed.is_empty()).collect();
        let value = || {
            let entry = |one: &OutdatedMessage| object!({"secret": one.place, "added": one.change.added, "removed": one.change.removed});
            let places: Vec<&String> = rotate.iter().map(|one| &one.place).collect();
            object!({"rekeyed": outdated.iter().map(entry).collect::<Vec<_>>(), "rotate": places})
        };
        match self.out {
            OutputFormat::Json => return ui.print(&json(&value())),
            OutputFormat::Yaml => {
                return ui.print(&yaml(&serde_json::from_value(value()).unwrap_or_default()));
            }
            OutputFormat::Text => {}
        }
        let verb = if self.test { "would encrypt again" } else { "encrypted again" };
        for one in outdated {
            ui.print(&format!("{verb}: {}{}\n", one.place, describe(&one.change)));
        }
        if outdated.is_empty() {
            ui.print("Every secret is encrypted for its readers; nothing to do\n");
        }
        if !rotate.is_empty() {
            ui.print("\nRotate these secrets: somebody who may no longer read them may have kept them\n");
        }
        for one in rotate {
            ui.print(&format!("  {} (was readable for {})\n", one.place, one.change.removed.join(", ")));
        }
    }
}

/// The messages of a file that differ from the rules.
pub(super) fn changes(
    repo: &SecretRepository,
    file: &EncryptedFile,
) -> Result<Vec<(usize, ReaderChange)>, AgentError> {
    let readers = repo.readers(&file.path).map_err(AgentError::usage)?;
    let mut found = Vec::new();
    for (index, message) in file.messages.iter().enumerate() {
        let change = repo.change(message, &readers);
        let change =
            change.map_err(|why| AgentError::failed(format!("{}: {why}", place(&file.path, message))))?;
        if !change.is_none() {
            found.push((index, change));
        }
    }
    Ok(found)
}

/// A change in a few words.
pub(super) fn describe(change: &ReaderChange) -> String {
    let part = |word: &str, names: &[String]| match names {
        [] => String::new(),
        names => format!(", {word} {}", names.join(", ")),
    };
    let unknown = if change.unknown { ", written by another program for other readers" } else { "" };
    format!("{}{}{unknown}", part("new:", &change.added), part("no longer:", &change.removed))
}
