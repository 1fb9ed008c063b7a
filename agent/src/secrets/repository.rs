//! A directory in, the states repository around it and its encrypted files out.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use zagent_config::atomic_file::AtomicFile;
use zagent_config::mask::Secret;
use zagent_daemon::repo_layout::RepoSource;
use zagent_host::secrets::{AgeRecipient, MessageRecipients, decrypt_age, encrypt_age, message_recipients};

use super::document::{self, EncryptedShape, Message};
use super::recipients::{GrainsByHost, RECIPIENTS_FILE, Reader, Recipients};
use crate::check::Inventory;

/// The mode of files in a repository.
const FILE_MODE: u32 = 0o644;
/// Larger files hold no secrets that a person edits.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// A states repository with secrets.
pub struct SecretRepository {
    /// Its root.
    pub root: PathBuf,
    /// Who may read what.
    pub recipients: Recipients,
    grains: GrainsByHost,
}

/// A file with messages.
pub struct EncryptedFile {
    /// Its path from the root.
    pub path: String,
    /// Its text.
    pub text: String,
    /// Its messages.
    pub messages: Vec<Message>,
}

/// How the readers of a message differ from what the rules say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReaderChange {
    /// Readers that cannot open it yet.
    pub added: Vec<String>,
    /// Readers that can open it and no longer may.
    pub removed: Vec<String>,
    /// Its readers are not known: another program wrote it, with another number of recipients.
    pub unknown: bool,
}

impl ReaderChange {
    /// True when the message is as the rules say.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && !self.unknown
    }
}

impl SecretRepository {
    /// Opens a repository with its recipients.
    ///
    /// # Errors
    /// Fails when the file of recipients is missing or wrong.
    pub fn open(root: &Path) -> Result<Self, String> {
        let path = root.join(RECIPIENTS_FILE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(format!(
                    "there is no `{}`: create it with `zagent secrets keygen --as NAME`",
                    path.display()
                ));
            }
            Err(error) => return Err(format!("cannot read `{}`: {error}", path.display())),
        };
        let recipients = Recipients::parse(&text)
            .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))?;
        let inventory =
            Inventory::read(&RepoSource::Dir(root.to_owned())).map_err(|error| error.to_string())?;
        let grains = inventory.nodes.into_iter().map(|node| (node.name, Arc::clone(&node.grains))).collect();
        Ok(Self { root: root.to_owned(), recipients, grains })
    }

    /// The path of a file from the root, as rules name it.
    ///
    /// # Errors
    /// Fails when the file is not in the repository.
    pub fn relative(&self, file: &Path) -> Result<String, String> {
        let outside = || format!("`{}` is not in the repository `{}`", file.display(), self.root.display());
        let (dir, name) = (file.parent().unwrap_or(Path::new("")), file.file_name().ok_or_else(outside)?);
        let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
        let real = dir.canonicalize().map_err(|error| format!("cannot open `{}`: {error}", dir.display()))?;
        let root = self.root.canonicalize().map_err(|error| error.to_string())?;
        let path = real.join(name);
        Ok(path.strip_prefix(root).map_err(|_| outside())?.to_string_lossy().into_owned())
    }

    /// Who may read a file.
    ///
    /// # Errors
    /// Fails when no rule covers it, or a rule cannot be decided.
    pub fn readers(&self, path: &str) -> Result<Vec<Reader>, String> {
        match self.recipients.for_file(path, &self.grains)? {
            Some(readers) if readers.is_empty() => {
                Err(format!("`{path}` has no readers: check {RECIPIENTS_FILE}"))
            }
            Some(readers) => Ok(readers),
            None => Err(format!(
                "no rule of {RECIPIENTS_FILE} covers `{path}`: add one, such as `- path: '{path}'`"
            )),
        }
    }

    /// A text encrypted for the readers of a file.
    ///
    /// # Errors
    /// As [`Self::readers`].
    pub fn encrypt_for(&self, path: &str, plaintext: &Secret) -> Result<String, String> {
        let keys: Vec<AgeRecipient> =
            self.readers(path)?.into_iter().flat_map(|reader| reader.keys).collect();
        encrypt_age(&keys, plaintext.expose().as_bytes())
    }

    /// Reads one file; `None` when it holds no messages.
    ///
    /// # Errors
    /// Fails when it cannot be read.
    pub fn read(&self, path: &str) -> Result<Option<EncryptedFile>, String> {
        let full = self.root.join(path);
        let bytes =
            std::fs::read(&full).map_err(|error| format!("cannot read `{}`: {error}", full.display()))?;
        let Ok(text) = String::from_utf8(bytes) else { return Ok(None) };
        let messages = document::messages(&text);
        let is_encrypted = !messages.is_empty() || document::shape(&text) != EncryptedShape::Plain;
        Ok(is_encrypted.then(|| EncryptedFile { path: path.to_owned(), text, messages }))
    }

    /// All files with messages, by path.
    ///
    /// # Errors
    /// Fails when the repository cannot be read.
    pub fn files(&self) -> Result<Vec<EncryptedFile>, String> {
        let mut found = Vec::new();
        let mut open = vec![String::new()];
        while let Some(dir) = open.pop() {
            let full = self.root.join(&dir);
            let failed = |error: std::io::Error| format!("cannot read `{}`: {error}", full.display());
            for entry in std::fs::read_dir(&full).map_err(failed)? {
                let entry = entry.map_err(failed)?;
                let name = entry.file_name().to_string_lossy().into_owned();
                let path = if dir.is_empty() { name.clone() } else { format!("{dir}/{name}") };
                let meta = entry.metadata().map_err(failed)?;
                if meta.is_dir() && name != ".git" {
                    open.push(path);
                } else if meta.is_file() && meta.len() <= MAX_FILE_BYTES {
                    found.extend(self.read(&path)?.filter(|file| !file.messages.is_empty()));
                }
            }
        }
        found.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }

    /// How a message differs from what the rules say.
    ///
    /// # Errors
    /// Fails when the message is damaged.
    pub fn change(&self, message: &Message, readers: &[Reader]) -> Result<ReaderChange, String> {
        let fingerprints =
            |reader: &Reader| -> Vec<String> { reader.keys.iter().map(AgeRecipient::fingerprint).collect() };
        let wanted: Vec<String> = readers.iter().flat_map(fingerprints).collect();
        let listed = match message_recipients(&message.armoured)? {
            MessageRecipients::Listed(listed) => listed,
            MessageRecipients::Unlisted(count) => {
                return Ok(ReaderChange { unknown: count != wanted.len(), ..ReaderChange::default() });
            }
        };
        let mut change = ReaderChange::default();
        for reader in readers {
            if fingerprints(reader).iter().any(|key| !listed.contains(key)) {
                change.added.push(reader.name.clone());
            }
        }
        let everybody = self.recipients.all();
        for key in listed.iter().filter(|key| !wanted.contains(key)) {
            let known = everybody.iter().find(|reader| fingerprints(reader).contains(key));
            change.removed.push(known.map_or_else(|| format!("key {key}"), |reader| reader.name.clone()));
        }
        change.removed.dedup();
        Ok(change)
    }

    /// The names of those who can open a message, as its header says.
    ///
    /// # Errors
    /// Fails when the message is damaged.
    pub fn openers(&self, message: &Message) -> Result<Vec<String>, String> {
        let everybody = self.recipients.all();
        let name = |key: &String| {
            let known =
                everybody.iter().find(|reader| reader.keys.iter().any(|one| one.fingerprint() == *key));
            known.map_or_else(|| format!("key {key}"), |reader| reader.name.clone())
        };
        Ok(match message_recipients(&message.armoured)? {
            MessageRecipients::Listed(listed) => {
                let mut names: Vec<String> = listed.iter().map(name).collect();
                names.sort();
                names.dedup();
                names
            }
            MessageRecipients::Unlisted(count) => {
                vec![format!("{count} recipients that another program chose")]
            }
        })
    }

    /// Writes a file of the repository.
    ///
    /// # Errors
    /// Fails when it cannot be written; the old file then stays.
    pub fn write(&self, path: &str, text: &str) -> Result<(), String> {
        let full = self.root.join(path);
        AtomicFile::durable(FILE_MODE)
            .write(&full, text.as_bytes())
            .map_err(|error| format!("cannot write `{}`: {error}", full.display()))
    }
}

/// Opens a message with the keys of these files.
///
/// # Errors
/// Fails when no key opens it.
pub fn decrypt(message: &Message, identities: &[PathBuf]) -> Result<Secret, String> {
    if identities.is_empty() {
        return Err("there is no private key here: create one with `zagent secrets keygen`, or name it with `--identity FILE`".into());
    }
    decrypt_age(identities, &message.armoured)
}
