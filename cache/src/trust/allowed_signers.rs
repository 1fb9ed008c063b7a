//! The text of `allowed_signers`, as ssh-keygen(1) describes it, in; lines that say which key is valid for what and
//! when out.
//!
//! Why a bad line is not skipped, as OpenSSH does it: a typo would lock a signer out silently until the next push.

use std::path::Path;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use ssh_key::PublicKey;
use ssh_key::public::KeyData;

use super::signer_options::SignerOptions;
use super::ssh::{SshSignature, check_key_strength};
use super::{SignatureError, SignatureScheme, Signer, pattern};

/// One line with a key.
#[derive(Debug)]
pub(super) struct SignerLine {
    pub(super) key: KeyData,
    principals: String,
    number: usize,
    options: SignerOptions,
}

/// Every line with a key that is valid by itself. A certificate authority's key is not.
pub(super) fn parse_file(
    path: &Path,
    text: &str,
    zone: &TimeZone,
) -> Result<Vec<SignerLine>, SignatureError> {
    let mut lines = Vec::new();
    for (i, text) in text.lines().enumerate() {
        let number = i + 1;
        let line = parse_line(text, number, zone);
        let line = line.map_err(|why| SignatureError::Line { path: path.into(), line: number, why })?;
        lines.extend(line.filter(|line| !line.options.authority));
    }
    Ok(lines)
}

fn parse_line(text: &str, number: usize, zone: &TimeZone) -> Result<Option<SignerLine>, String> {
    let text = text.trim_matches([' ', '\t', '\r']);
    if text.is_empty() || text.starts_with('#') {
        return Ok(None);
    }
    let (principals, rest) = split_principals(text)?;
    let (options, key) = if starts_with_key(rest) {
        (SignerOptions::default(), rest)
    } else {
        SignerOptions::parse(rest, zone)?
    };
    let key = parse_key(key)?;
    Ok(Some(SignerLine { key, principals: principals.to_owned(), number, options }))
}

/// The first field, which may be in quotes; and the rest.
fn split_principals(text: &str) -> Result<(&str, &str), String> {
    let (field, rest) = match text.strip_prefix('"') {
        Some(inner) => inner.split_once('"').ok_or("the principals have no closing quote")?,
        None => text.split_once([' ', '\t']).ok_or("a line needs principals and a key")?,
    };
    if field.chars().any(char::is_control) {
        return Err("the principals contain a control character".into());
    }
    if !field.split(',').any(|name| !name.is_empty() && !name.starts_with('!')) {
        return Err("the list of principals is empty".into());
    }
    Ok((field, rest.trim_start_matches([' ', '\t'])))
}

fn starts_with_key(text: &str) -> bool {
    let word = text.split([' ', '\t']).next().unwrap_or_default();
    !word.contains(['=', ',', '"']) && ["ssh-", "ecdsa-", "sk-"].iter().any(|start| word.starts_with(start))
}

/// A public key as OpenSSH writes it, with or without a comment.
pub(super) fn parse_key(text: &str) -> Result<KeyData, String> {
    let mut words = text.split([' ', '\t', '\r']).filter(|word| !word.is_empty());
    let (Some(kind), Some(data)) = (words.next(), words.next()) else {
        return Err("the key is missing: write its type and its data".into());
    };
    if kind.contains("-cert-v01@") {
        return Err("this is a certificate; list the key itself".into());
    }
    let key = PublicKey::from_openssh(&format!("{kind} {data}"))
        .map_err(|error| format!("the key cannot be read: {error}"))?;
    check_key_strength(key.key_data())?;
    Ok(key.key_data().clone())
}

impl SignerLine {
    /// `Ok` when the key may sign for the namespace at all of these times.
    pub(super) fn allows(
        &self,
        namespace: &'static str,
        times: &[Timestamp],
        path: &Path,
    ) -> Result<(), SignatureError> {
        let principal = || self.principals.clone();
        if !self.permits(namespace) {
            let line = self.number;
            return Err(SignatureError::NotAllowed {
                principal: principal(),
                namespace,
                path: path.into(),
                line,
            });
        }
        for at in times.iter().copied() {
            if let Some(after) = self.options.after.filter(|after| at < *after) {
                return Err(SignatureError::NotYetValid { principal: principal(), after, at });
            }
            if let Some(before) = self.options.before.filter(|before| at > *before) {
                return Err(SignatureError::ExpiredKey { principal: principal(), before, at });
            }
        }
        Ok(())
    }

    /// True when `namespaces=` lists the namespace, or does not exist.
    pub(super) fn permits(&self, namespace: &str) -> bool {
        self.options.namespaces.as_ref().is_none_or(|list| pattern::list_matches(list, namespace))
    }

    /// The names on the line.
    pub(super) fn principals(&self) -> &str {
        &self.principals
    }

    /// True when the line is for this name.
    pub(super) fn matches_principal(&self, name: &str) -> bool {
        pattern::list_matches(&self.principals, name)
    }

    /// True when both lines may name the same person.
    pub(super) fn shares_principal(&self, other: &Self) -> bool {
        let names = |line: &Self, other: &Self| {
            line.principals.split(',').filter(|name| !name.starts_with('!')).any(|name| {
                let same = other.principals.split(',').any(|n| n == name);
                same || pattern::is_plain(name) && pattern::list_matches(&other.principals, name)
            })
        };
        self.key == other.key || names(self, other) || names(other, self)
    }

    pub(super) fn signer(&self, signature_block: &SshSignature) -> Signer {
        Signer {
            principal: self.principals.clone(),
            fingerprint: signature_block.fingerprint(),
            scheme: SignatureScheme::Ssh,
        }
    }
}
