//! `zagent secrets keygen | encrypt | edit | rekey | who | check`: keeps the secrets of a states repository.

mod check;
mod edit;
mod encrypt;
mod keygen;
mod plaintext_file;
mod rekey;
mod who;

use std::path::{Path, PathBuf};

use clap::Subcommand;

use crate::output::{OutputFormat, Ui};
use crate::secrets::document::Message;
use crate::secrets::recipients::RECIPIENTS_FILE;
use crate::secrets::repository::{EncryptedFile, SecretRepository};
use zagent_daemon::error::{AgentError, ExitStatus};

/// Create keys, encrypt and edit secrets of a states repository, and show who can read them
#[derive(Debug, clap::Args)]
pub(super) struct SecretsArgs {
    #[command(subcommand)]
    what: SecretsCommand,
}

#[derive(Debug, Subcommand)]
enum SecretsCommand {
    /// Create your key, and add it or the key of a host to recipients.yaml
    Keygen(keygen::KeygenArgs),
    /// Encrypt a value or a whole file for those who may read it
    Encrypt(encrypt::EncryptArgs),
    /// Decrypt a file or a value, open it in an editor, and encrypt what changed
    Edit(edit::EditArgs),
    /// Encrypt again what the rules of recipients.yaml no longer match
    Rekey(rekey::RekeyArgs),
    /// Show who can read which secret
    Who(who::WhoArgs),
    /// Compare every secret with recipients.yaml; exits with 1 when one differs
    Check(check::SecretsCheckArgs),
}

/// Flags of every subcommand.
#[derive(Clone, Debug, clap::Args)]
struct RepositoryArgs {
    /// States repository; default: the one around the current directory
    #[arg(long, value_name = "DIR")]
    repository: Option<PathBuf>,
}

/// Flags of subcommands that decrypt.
#[derive(Clone, Debug, clap::Args)]
struct IdentityArgs {
    /// File with a private key: an age identity, or an SSH key without a passphrase; can be repeated. Default: the key of
    /// `secrets keygen`, ~/.ssh/id_ed25519, and the key of this host
    #[arg(long, short = 'i', value_name = "FILE")]
    identity: Vec<PathBuf>,
}

impl IdentityArgs {
    fn files(&self) -> Vec<PathBuf> {
        crate::secrets::keys::identity_files(&self.identity)
    }
}

impl SecretsArgs {
    pub(super) const fn format(&self) -> OutputFormat {
        match &self.what {
            SecretsCommand::Who(args) => args.out,
            SecretsCommand::Check(args) => args.out,
            SecretsCommand::Rekey(args) => args.out,
            SecretsCommand::Keygen(_) | SecretsCommand::Encrypt(_) | SecretsCommand::Edit(_) => {
                OutputFormat::Text
            }
        }
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        match &self.what {
            SecretsCommand::Keygen(args) => args.run(ui),
            SecretsCommand::Encrypt(args) => args.run(ui),
            SecretsCommand::Edit(args) => args.run(ui),
            SecretsCommand::Rekey(args) => args.run(ui),
            SecretsCommand::Who(args) => args.run(ui),
            SecretsCommand::Check(args) => args.run(ui),
        }
    }
}

impl RepositoryArgs {
    /// The root of the repository.
    fn root(&self) -> Result<PathBuf, AgentError> {
        if let Some(dir) = &self.repository {
            let missing = || AgentError::usage(format!("`{}` is not a directory", dir.display()));
            return dir.is_dir().then(|| dir.clone()).ok_or_else(missing);
        }
        let here = std::env::current_dir()
            .map_err(|error| AgentError::failed(format!("cannot find the current directory: {error}")))?;
        find_root(&here).ok_or_else(|| {
            AgentError::usage_hint(
                "this directory is not in a states repository",
                "change to one, name one with `--repository DIR`, or create one with `zagent init DIR`",
            )
        })
    }

    fn open(&self) -> Result<SecretRepository, AgentError> {
        SecretRepository::open(&self.root()?).map_err(AgentError::usage)
    }
}

/// The directory at or above this one that is a states repository.
fn find_root(here: &Path) -> Option<PathBuf> {
    const MARKS: [&str; 4] = [RECIPIENTS_FILE, "manifest.yaml", "states/top.sls", "pillar/top.sls"];
    let is_root = |dir: &&Path| MARKS.iter().any(|mark| dir.join(mark).is_file());
    here.ancestors().find(is_root).map(Path::to_owned)
}

/// The files of the arguments, or all files with secrets.
fn selected(repo: &SecretRepository, files: &[PathBuf]) -> Result<Vec<EncryptedFile>, AgentError> {
    if files.is_empty() {
        return repo.files().map_err(AgentError::failed);
    }
    let mut found = Vec::new();
    for file in files {
        let path = repo.relative(file).map_err(AgentError::usage)?;
        match repo.read(&path).map_err(AgentError::usage)? {
            Some(file) if !file.messages.is_empty() => found.push(file),
            _ => return Err(AgentError::usage(format!("`{path}` holds no encrypted values"))),
        }
    }
    Ok(found)
}

/// A message by its file, line and key.
fn place(path: &str, message: &Message) -> String {
    let key = if message.key.is_empty() { "(whole file)" } else { &message.key };
    format!("{path}:{} {}", message.line, zagent_config::sanitize(key))
}
