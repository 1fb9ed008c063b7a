//! `zagent secrets keygen`: a key for a person, or the key of a host, into `recipients.yaml`.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::RepositoryArgs;
use crate::output::Ui;
use crate::secrets::keys;
use crate::secrets::recipients::{RECIPIENTS_FILE, Reader, ReaderKind, Recipients, with_reader};
use zagent_config::atomic_file::AtomicFile;
use zagent_config::sanitize;
use zagent_daemon::error::{AgentError, ExitStatus};
use zagent_host::secrets::{AgeRecipient, HOST_KEY, generate_identity};

/// The mode of a private key.
const KEY_MODE: u32 = 0o600;
/// The mode of files in a repository.
const FILE_MODE: u32 = 0o644;
/// The line of a key file that names the public key.
const PUBLIC_LINE: &str = "# public key: ";

/// Create your key, and add it or the key of a host to recipients.yaml
#[derive(Debug, clap::Args)]
pub(super) struct KeygenArgs {
    /// Add the public key to `people` of recipients.yaml under this name
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,

    /// Add a host instead: its SSH host key becomes a recipient; creates no key
    #[arg(long, value_name = "NODE", conflicts_with = "name")]
    host: Option<String>,

    /// Public key to add instead of a new one: a key as text, or a file; default with `--host` and the name of this host: its SSH key
    #[arg(long, value_name = "KEY")]
    key: Option<String>,

    /// Where to write the private key; default: ~/.config/zagent/age.key
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,

    #[command(flatten)]
    repository: RepositoryArgs,
}

impl KeygenArgs {
    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let key = match (&self.key, &self.host) {
            (Some(key), _) => public_key(key)?,
            (None, Some(host)) => own_host_key(host)?,
            (None, None) => self.own_key(ui)?,
        };
        match (&self.host, &self.name) {
            (Some(host), _) => self.add(ReaderKind::Host, host, &key, ui)?,
            (None, Some(name)) => self.add(ReaderKind::Person, name, &key, ui)?,
            (None, None) => {
                ui.message("To read secrets with this key, run in a states repository: zagent secrets keygen --as NAME");
            }
        }
        ui.print(&format!("{}\n", key.as_str()));
        Ok(ExitStatus::Success)
    }

    /// The key of this person: the present one, or a new one.
    fn own_key(&self, ui: &mut Ui<'_>) -> Result<AgeRecipient, AgentError> {
        let path = self.output.clone().or_else(keys::own_identity).ok_or_else(|| {
            AgentError::usage_hint("HOME is not set", "name the file for the key with `--output FILE`")
        })?;
        if let Ok(text) = fs::read_to_string(&path) {
            let public = text.lines().find_map(|line| line.strip_prefix(PUBLIC_LINE));
            let key = public.and_then(|key| AgeRecipient::parse(key).ok()).ok_or_else(|| {
                AgentError::usage_hint(
                    format!("`{}` exists and is not a key of `secrets keygen`", path.display()),
                    "name another file with `--output FILE`, or give your public key with `--key`",
                )
            })?;
            ui.message(&format!("Your key is in {}; no key was created.", path.display()));
            return Ok(key);
        }
        let failed =
            |error: std::io::Error| AgentError::failed(format!("cannot write `{}`: {error}", path.display()));
        if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed)?;
        }
        let (secret, public) = generate_identity();
        let text = format!("{PUBLIC_LINE}{}\n{}\n", public.as_str(), secret.expose());
        AtomicFile::durable(KEY_MODE).write(&path, text.as_bytes()).map_err(failed)?;
        ui.message(&format!(
            "Created {}. Keep a copy in a safe place: nobody can recover it.",
            path.display()
        ));
        Ok(public)
    }

    fn add(
        &self,
        kind: ReaderKind,
        name: &str,
        key: &AgeRecipient,
        ui: &mut Ui<'_>,
    ) -> Result<(), AgentError> {
        let is_letter = |c: char| c.is_ascii_alphanumeric() || "._-@".contains(c);
        if name.is_empty() || !name.chars().all(is_letter) {
            let message = format!("`{}` is not a name", sanitize(name));
            return Err(AgentError::usage_hint(message, "use letters, digits and ._-@"));
        }
        let path = self.repository.root()?.join(RECIPIENTS_FILE);
        let old = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => {
                return Err(AgentError::failed(format!("cannot read `{}`: {error}", path.display())));
            }
        };
        let is_it = |one: &Reader| one.kind == kind && one.name == name;
        if let Some(known) = readers(&old)?.into_iter().find(is_it) {
            if known.keys.contains(key) {
                ui.message(&format!("`{name}` is in {RECIPIENTS_FILE} already."));
                return Ok(());
            }
            return Err(AgentError::usage_hint(
                format!("`{name}` has another key in {RECIPIENTS_FILE}"),
                format!("replace it there with `{}`, then run `zagent secrets rekey`", key.as_str()),
            ));
        }
        let new = with_reader(&old, kind, name, key);
        if !readers(&new).is_ok_and(|all| all.iter().any(is_it)) {
            return Err(AgentError::usage_hint(
                format!("cannot add `{name}` to {RECIPIENTS_FILE}"),
                format!("add this line by hand: `{name}: {}`", key.as_str()),
            ));
        }
        AtomicFile::durable(FILE_MODE)
            .write(&path, new.as_bytes())
            .map_err(|error| AgentError::failed(format!("cannot write `{}`: {error}", path.display())))?;
        ui.message(&format!("Added `{name}` to {}.", path.display()));
        if !old.is_empty() {
            ui.message(
                "To add it to existing secrets, run `zagent secrets rekey` with a key that can read them.",
            );
        }
        Ok(())
    }
}

/// The SSH key of this host, for a name that is its own.
fn own_host_key(host: &str) -> Result<AgeRecipient, AgentError> {
    let system = rustix::system::uname();
    let own = system.nodename().to_string_lossy();
    let is_own = host == own || Some(host) == own.split('.').next();
    if !is_own {
        return Err(AgentError::usage_hint(
            format!("this host is `{own}`, not `{}`", sanitize(host)),
            format!(
                "name the public key of that host with `--key`: the text or a copy of its {HOST_KEY}.pub"
            ),
        ));
    }
    public_key(&format!("{HOST_KEY}.pub"))
}

fn readers(text: &str) -> Result<Vec<Reader>, AgentError> {
    Recipients::parse(text).map(|recipients| recipients.all()).map_err(|errors| {
        AgentError::usage(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    })
}

/// A public key given as text or as a file.
fn public_key(given: &str) -> Result<AgeRecipient, AgentError> {
    let wrong = |why: String| AgentError::usage(format!("`{}`: {why}", sanitize(given)));
    if given.starts_with("age1") || given.starts_with("ssh-") {
        return AgeRecipient::parse(given).map_err(wrong);
    }
    let text = fs::read_to_string(Path::new(given));
    let text = text.map_err(|error| wrong(format!("cannot read the public key: {error}")))?;
    AgeRecipient::parse(text.trim()).map_err(wrong)
}
