//! A plaintext and public keys in, an armoured age message out; and the recipients that a message names.
//!
//! age headers do not say who an X25519 recipient is. Our messages carry one more stanza, [`LIST_TAG`], with a fingerprint
//! per recipient: other age programs ignore it, and the header's check code covers it. So a later look knows, without a
//! key, who can open a message.

use std::cell::RefCell;
use std::collections::HashSet;
use std::io::Write;

use age::armor::{ArmoredReader, ArmoredWriter, Format};
use age_core::format::{FileKey, Stanza};

/// The stanza that lists the recipients.
const LIST_TAG: &str = "zagent-recipients";
/// A stanza that age adds to keep programs honest about unknown ones ends in this.
const GREASE: &str = "-grease";
/// The hexadecimal digits of a fingerprint.
const FINGERPRINT_DIGITS: usize = 16;

/// A public key that messages are encrypted for: `age1…`, `ssh-ed25519 …` or `ssh-rsa …`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgeRecipient {
    /// The key without its comment.
    text: String,
}

impl AgeRecipient {
    /// Reads a public key; a comment after an SSH key is dropped.
    ///
    /// # Errors
    /// Fails when age cannot encrypt for it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
        let recipient = Self { text };
        recipient.key()?;
        Ok(recipient)
    }

    /// The key as text, without a comment.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// A short digest that stands for the key in messages.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        blake3::hash(self.text.as_bytes()).to_hex()[..FINGERPRINT_DIGITS].to_owned()
    }

    fn key(&self) -> Result<Box<dyn age::Recipient>, String> {
        if self.text.starts_with("AGE-SECRET-KEY-") || self.text.contains("PRIVATE KEY") {
            return Err("this is a private key: nobody else may have it; use its public key".into());
        }
        if self.text.starts_with("age1") {
            let key = self.text.parse::<age::x25519::Recipient>();
            return key.map(|key| Box::new(key) as _).map_err(|why| format!("not an age public key: {why}"));
        }
        match self.text.parse::<age::ssh::Recipient>() {
            Ok(key) => Ok(Box::new(key)),
            Err(age::ssh::ParseRecipientKeyError::Ignore | age::ssh::ParseRecipientKeyError::Invalid(_)) => {
                Err("not a public key: expected `age1…`, `ssh-ed25519 …` or `ssh-rsa …`".into())
            }
            Err(_) => Err("age cannot encrypt for this kind of SSH key; use ssh-ed25519 or ssh-rsa".into()),
        }
    }
}

/// A new identity: the private key, one line, and its public key.
#[must_use]
pub fn generate_identity() -> (zagent_config::mask::Secret, AgeRecipient) {
    use age::secrecy::ExposeSecret;
    let identity = age::x25519::Identity::generate();
    let secret = identity.to_string().expose_secret().to_owned();
    (secret.into(), AgeRecipient { text: identity.to_public().to_string() })
}

/// Encrypts a text for these keys, as an armoured message that ends in a line feed.
///
/// # Errors
/// Fails without a recipient, or when a key is not usable.
pub fn encrypt_age(recipients: &[AgeRecipient], plaintext: &[u8]) -> Result<String, String> {
    if recipients.is_empty() {
        return Err("no recipient: nobody could decrypt it".into());
    }
    let mut fingerprints: Vec<String> = recipients.iter().map(AgeRecipient::fingerprint).collect();
    fingerprints.sort();
    fingerprints.dedup();
    let list: Box<dyn age::Recipient> = Box::new(RecipientList(fingerprints));
    let keys = recipients.iter().map(AgeRecipient::key).chain([Ok(list)]).collect::<Result<Vec<_>, _>>()?;
    let failed = |why: &dyn std::fmt::Display| format!("cannot encrypt: {why}");
    let encryptor = age::Encryptor::with_recipients(keys.iter().map(|key| &**key));
    let encryptor = encryptor.map_err(|why| failed(&why))?;
    let mut out = Vec::new();
    let armour = ArmoredWriter::wrap_output(&mut out, Format::AsciiArmor).map_err(|why| failed(&why))?;
    let mut writer = encryptor.wrap_output(armour).map_err(|why| failed(&why))?;
    writer.write_all(plaintext).map_err(|why| failed(&why))?;
    let ended = writer.finish().and_then(ArmoredWriter::finish);
    ended.map_err(|why| failed(&why))?;
    String::from_utf8(out).map_err(|why| failed(&why))
}

/// Who a message is for, as far as its header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessageRecipients {
    /// The fingerprints of all recipients, sorted.
    Listed(Vec<String>),
    /// Another program wrote it: only the number of recipients is known.
    Unlisted(usize),
}

/// Reads who a message is for; needs no key.
///
/// # Errors
/// Fails when it is not an age message.
pub fn message_recipients(armoured: &str) -> Result<MessageRecipients, String> {
    let damaged = |why: &dyn std::fmt::Display| format!("the age message is damaged: {why}");
    let reader = ArmoredReader::new(armoured.trim().as_bytes());
    let decryptor = age::Decryptor::new(reader).map_err(|why| damaged(&why))?;
    let header = HeaderReader::default();
    // It opens nothing: the stanzas are all that is wanted.
    let _ = decryptor.decrypt(std::iter::once(&header as &dyn age::Identity));
    header.0.into_inner().ok_or_else(|| damaged(&"it has no header"))
}

/// Adds the list of recipients to a header; opens nothing.
struct RecipientList(Vec<String>);

impl age::Recipient for RecipientList {
    fn wrap_file_key(&self, _: &FileKey) -> Result<(Vec<Stanza>, HashSet<String>), age::EncryptError> {
        let stanza = Stanza { tag: LIST_TAG.to_owned(), args: self.0.clone(), body: Vec::new() };
        Ok((vec![stanza], HashSet::new()))
    }
}

/// Keeps what a header says, and opens nothing.
#[derive(Default)]
struct HeaderReader(RefCell<Option<MessageRecipients>>);

impl age::Identity for HeaderReader {
    fn unwrap_stanza(&self, _: &Stanza) -> Option<Result<FileKey, age::DecryptError>> {
        None
    }

    fn unwrap_stanzas(&self, stanzas: &[Stanza]) -> Option<Result<FileKey, age::DecryptError>> {
        let list = stanzas.iter().find(|stanza| stanza.tag == LIST_TAG);
        let found = match list {
            Some(list) => MessageRecipients::Listed(list.args.clone()),
            None => {
                let others = stanzas.iter().filter(|stanza| !stanza.tag.ends_with(GREASE));
                MessageRecipients::Unlisted(others.count())
            }
        };
        *self.0.borrow_mut() = Some(found);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::decrypt_age;
    use super::*;

    const SSH_KEY: &str =
        "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHsKLqeplhpW+uObz5dvMgjz1OxfM/XXUB+VHtZ6isGN root@web-01";

    #[test]
    fn a_message_names_its_recipients_and_each_of_them_opens_it() {
        let dir = tempfile::tempdir().unwrap();
        let (secret, mine) = generate_identity();
        let (_, other) = generate_identity();
        let host = AgeRecipient::parse(SSH_KEY).unwrap();
        let all = [mine.clone(), host.clone()];
        let message = encrypt_age(&all, b"s3cret").unwrap();
        let mut expected: Vec<String> = all.iter().map(AgeRecipient::fingerprint).collect();
        expected.sort();
        assert_eq!(message_recipients(&message), Ok(MessageRecipients::Listed(expected)));
        let file = dir.path().join("key");
        std::fs::write(&file, secret.expose()).unwrap();
        assert_eq!(decrypt_age(std::slice::from_ref(&file), &message), Ok("s3cret".into()));
        let theirs = encrypt_age(&[other, host], b"x").unwrap();
        assert!(decrypt_age(&[file], &theirs).unwrap_err().contains("no age identity of this node"));
        assert!(message_recipients("-----BEGIN AGE").unwrap_err().contains("damaged"));
        assert!(encrypt_age(&[], b"x").unwrap_err().contains("no recipient"));
    }

    #[test]
    fn messages_of_other_programs_are_counted() {
        let keys = [generate_identity().1, generate_identity().1];
        let keys: Vec<_> = keys.iter().map(|key| key.key().unwrap()).collect();
        let encryptor = age::Encryptor::with_recipients(keys.iter().map(|key| &**key)).unwrap();
        let mut out = Vec::new();
        let armour = ArmoredWriter::wrap_output(&mut out, Format::AsciiArmor).unwrap();
        let mut writer = encryptor.wrap_output(armour).unwrap();
        writer.write_all(b"x").unwrap();
        writer.finish().and_then(ArmoredWriter::finish).unwrap();
        let message = String::from_utf8(out).unwrap();
        assert_eq!(message_recipients(&message), Ok(MessageRecipients::Unlisted(2)));
    }

    #[test]
    fn only_public_keys_are_recipients() {
        let parsed = |text: &str| AgeRecipient::parse(text).map(|key| key.as_str().to_owned());
        assert_eq!(parsed(SSH_KEY).unwrap(), SSH_KEY.strip_suffix(" root@web-01").unwrap());
        assert!(parsed(generate_identity().0.expose()).unwrap_err().contains("private key"));
        assert!(parsed("age1nonsense").unwrap_err().contains("not an age public key"));
        assert!(parsed("hello").unwrap_err().contains("not a public key"));
    }
}
