//! `zagent secrets encrypt FILE [KEY]`: a value or a whole file, encrypted for those who may read it.

use std::io::{IsTerminal, Read};
use std::path::PathBuf;

use super::RepositoryArgs;
use crate::output::Ui;
use crate::secrets::document::{self, EncryptedShape};
use crate::secrets::repository::SecretRepository;
use zagent_config::mask::Secret;
use zagent_config::sanitize;
use zagent_daemon::error::{AgentError, ExitStatus};

/// Encrypt a value or a whole file for those who may read it
#[derive(Debug, clap::Args)]
pub(super) struct EncryptArgs {
    /// Pillar file; with KEY it may be a new one. The rules of recipients.yaml decide who can read it
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Key of the value, such as db:password; without it, the whole file is encrypted
    #[arg(value_name = "KEY")]
    key: Option<String>,

    /// Read the value from this file; default: from the terminal, which does not show it, or from standard input
    #[arg(long, value_name = "FILE", requires = "key")]
    value_file: Option<PathBuf>,

    /// Print the encrypted value instead of writing it into the file
    #[arg(long, requires = "key")]
    print: bool,

    #[command(flatten)]
    repository: RepositoryArgs,
}

impl EncryptArgs {
    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let repo = self.repository.open()?;
        let path = repo.relative(&self.file).map_err(AgentError::usage)?;
        match &self.key {
            Some(key) => self.encrypt_value(&repo, &path, key, ui),
            None => encrypt_file(&repo, &path, ui),
        }
    }

    fn encrypt_value(
        &self,
        repo: &SecretRepository,
        path: &str,
        key: &str,
        ui: &mut Ui<'_>,
    ) -> Result<ExitStatus, AgentError> {
        let parts: Vec<&str> = key.split(':').collect();
        if parts.iter().any(|part| part.is_empty()) {
            let message = format!("`{}` is not a key", sanitize(key));
            return Err(AgentError::usage_hint(message, "write it as `db:password`"));
        }
        // Who may read it is known before anybody types a secret.
        repo.readers(path).map_err(AgentError::usage)?;
        let value = self.read_value(key, ui)?;
        let armoured = repo.encrypt_for(path, &value).map_err(AgentError::failed)?;
        if self.print {
            ui.print(&armoured);
            return Ok(ExitStatus::Success);
        }
        let full = repo.root.join(path);
        let text = match std::fs::read_to_string(&full) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => {
                return Err(AgentError::failed(format!("cannot read `{}`: {error}", full.display())));
            }
        };
        let edited = document::with_value(&text, &parts, &armoured).map_err(|error| {
            AgentError::usage_hint(
                format!("cannot put `{}` into `{path}`: {error}", sanitize(key)),
                "use `--print` and insert the output by hand; the first line of the file must name `age`, such as \
                 `#!jinja|yaml|age`",
            )
        })?;
        repo.write(path, &edited).map_err(AgentError::failed)?;
        report(repo, path, &format!("Encrypted `{}` in {path}", sanitize(key)), ui)
    }

    /// The value without the line feed at its end.
    fn read_value(&self, key: &str, ui: &mut Ui<'_>) -> Result<Secret, AgentError> {
        let failed = |error: std::io::Error| AgentError::failed(format!("cannot read the value: {error}"));
        let text = match &self.value_file {
            Some(file) => std::fs::read_to_string(file).map_err(failed)?,
            None if std::io::stdin().is_terminal() => {
                ui.message(&format!("Value of `{}` (not shown), then Enter:", sanitize(key)));
                read_hidden().map_err(failed)?
            }
            None => {
                let mut text = String::new();
                std::io::stdin().read_to_string(&mut text).map_err(failed)?;
                text
            }
        };
        let value = text.strip_suffix('\n').unwrap_or(&text);
        if value.is_empty() {
            return Err(AgentError::usage("the value is empty; nothing was changed"));
        }
        Ok(value.into())
    }
}

fn encrypt_file(repo: &SecretRepository, path: &str, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
    let full = repo.root.join(path);
    let text = std::fs::read_to_string(&full)
        .map_err(|error| AgentError::usage(format!("cannot read `{}`: {error}", full.display())))?;
    if document::shape(&text) != EncryptedShape::Plain || !document::messages(&text).is_empty() {
        return Err(AgentError::usage_hint(
            format!("`{path}` is encrypted already"),
            format!("change it with `zagent secrets edit {path}`"),
        ));
    }
    let plain = Secret::from(document::plain_body(&text));
    let armoured = repo.encrypt_for(path, &plain).map_err(AgentError::usage)?;
    repo.write(path, &document::as_whole(&text, &armoured)).map_err(AgentError::failed)?;
    ui.message("If the file was committed before, its plaintext is in the history: replace these secrets.");
    report(repo, path, &format!("Encrypted {path}"), ui)
}

/// Says what was done, and who can read it now.
pub(super) fn report(
    repo: &SecretRepository,
    path: &str,
    done: &str,
    ui: &mut Ui<'_>,
) -> Result<ExitStatus, AgentError> {
    let readers = repo.readers(path).map_err(AgentError::usage)?;
    let names: Vec<&str> = readers.iter().map(|reader| reader.name.as_str()).collect();
    ui.print(&format!("{done} for {}\n", names.join(", ")));
    Ok(ExitStatus::Success)
}

/// One line of the terminal, which does not show it.
fn read_hidden() -> std::io::Result<String> {
    use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
    let stdin = std::io::stdin();
    let before = tcgetattr(&stdin)?;
    let mut hidden = before.clone();
    hidden.local_modes.remove(LocalModes::ECHO);
    tcsetattr(&stdin, OptionalActions::Flush, &hidden)?;
    let mut line = String::new();
    let read = stdin.read_line(&mut line);
    tcsetattr(&stdin, OptionalActions::Flush, &before)?;
    read.map(|_| line)
}
