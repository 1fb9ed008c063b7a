//! `zagent secrets edit FILE [KEY]`: decrypts, opens an editor, and encrypts what changed.

use std::path::PathBuf;

use super::{IdentityArgs, RepositoryArgs, place, plaintext_file};
use crate::output::Ui;
use crate::secrets::document::{self, EncryptedShape};
use crate::secrets::keys;
use crate::secrets::repository::{EncryptedFile, decrypt};
use zagent_config::mask::Secret;
use zagent_config::sanitize;
use zagent_daemon::error::{AgentError, ExitStatus};

/// Decrypt a file or a value, open it in an editor, and encrypt what changed
///
/// While the editor runs, the plaintext is in a file in memory. A value that did not change keeps its encrypted form.
#[derive(Debug, clap::Args)]
pub(super) struct EditArgs {
    /// Encrypted file
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Key of the value, such as db:password; needed when a file holds several
    #[arg(value_name = "KEY")]
    key: Option<String>,

    #[command(flatten)]
    identity: IdentityArgs,

    #[command(flatten)]
    repository: RepositoryArgs,
}

impl EditArgs {
    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let repo = self.repository.open()?;
        let path = repo.relative(&self.file).map_err(AgentError::usage)?;
        let file = repo.read(&path).map_err(AgentError::usage)?.filter(|file| !file.messages.is_empty());
        let Some(file) = file else {
            return Err(AgentError::usage_hint(
                format!("`{path}` holds no encrypted values"),
                format!(
                    "encrypt it with `zagent secrets encrypt {path}`, or one value with `zagent secrets encrypt {path} KEY`"
                ),
            ));
        };
        // It can be encrypted again: known before anybody types.
        repo.readers(&path).map_err(AgentError::usage)?;
        let index = self.choose(&file)?;
        let is_whole = document::shape(&file.text) == EncryptedShape::Whole;
        let plain = decrypt(&file.messages[index], &self.identity.files()).map_err(AgentError::failed)?;
        let edited = open_editor(&plain, is_whole)?;
        if edited == plain {
            ui.print(&format!("{path} is unchanged\n"));
            return Ok(ExitStatus::Success);
        }
        if edited.expose().trim().is_empty() {
            return Err(AgentError::usage("the new text is empty; nothing was changed"));
        }
        let mut new = vec![None; file.messages.len()];
        new[index] = Some(repo.encrypt_for(&path, &edited).map_err(AgentError::usage)?);
        let text = document::with_messages(&file.text, &file.messages, &new);
        repo.write(&path, &text).map_err(AgentError::failed)?;
        super::encrypt::report(
            &repo,
            &path,
            &format!("Encrypted {}", place(&path, &file.messages[index])),
            ui,
        )
    }

    /// Which message to edit.
    fn choose(&self, file: &EncryptedFile) -> Result<usize, AgentError> {
        let names = || file.messages.iter().map(|one| one.key.as_str()).collect::<Vec<_>>().join(", ");
        match &self.key {
            Some(key) => file.messages.iter().position(|one| one.key == *key).ok_or_else(|| {
                AgentError::usage_hint(
                    format!("`{}` has no encrypted value `{}`", file.path, sanitize(key)),
                    format!("it has: {}", sanitize(&names())),
                )
            }),
            None if file.messages.len() == 1 => Ok(0),
            None => Err(AgentError::usage_hint(
                format!("`{}` holds {} encrypted values", file.path, file.messages.len()),
                format!("name one: {}", sanitize(&names())),
            )),
        }
    }
}

fn open_editor(plain: &Secret, is_whole: bool) -> Result<Secret, AgentError> {
    let name = if is_whole { "secret.sls" } else { "secret.txt" };
    // Editors end a file with a line feed; a single value has none.
    let shown = if is_whole { plain.clone() } else { Secret::from(format!("{}\n", plain.expose())) };
    let edited = plaintext_file::edit(&shown, &keys::editor(), name, &keys::memory_dirs());
    let edited = edited.map_err(AgentError::failed)?;
    if is_whole {
        return Ok(edited);
    }
    Ok(edited.expose().strip_suffix('\n').unwrap_or(edited.expose()).into())
}
