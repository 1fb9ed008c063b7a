//! A commit or a manifest and its signatures in, its signers out.
//!
//! Law: fail closed. A signers file with an unreadable line is refused as a whole, a key is valid only for what its
//! line allows and only during its validity, and a signature is accepted only for exactly the bytes it was made for
//! (held by `a_bad_line_is_named_and_refuses_the_file`, `a_key_is_valid_only_in_its_time_range`).

#![expect(
    clippy::disallowed_methods,
    reason = "starts `gpg` and `ssh-keygen` and hands them files of its own"
)]

mod allowed_signers;
mod commit;
mod error;
mod key_file;
mod openpgp;
mod pattern;
mod records;
mod revoked_keys;
mod sign;
mod signer_options;
mod ssh;
#[cfg(test)]
mod tests;
mod trusted_file;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use zagent_config::settings;

use self::allowed_signers::SignerLine;
use self::commit::SignedCommit;
pub use self::error::SignatureError;
pub use self::key_file::{create_key, public_key};
pub use self::records::RecordTrust;
use self::revoked_keys::RevokedKeys;
pub use self::sign::{SignError, sign};
use self::ssh::SshSignature;

/// The namespace of Git commit signatures.
pub const COMMIT_NAMESPACE: &str = "git";
/// The namespace of manifest signatures.
pub const MANIFEST_NAMESPACE: &str = "zagent-manifest";
/// The namespace of rollout record signatures.
pub const RECORD_NAMESPACE: &str = "zagent-record";
/// The namespace of node enrolment signatures.
pub const ENROLMENT_NAMESPACE: &str = "zagent-enroll";
/// The namespace of node report signatures.
pub const REPORT_NAMESPACE: &str = "zagent-report";
/// The namespace of release signatures.
pub const RELEASE_NAMESPACE: &str = "zagent-release";
/// Maximum number of signatures that are checked per object.
const MAX_SIGNATURES: usize = 256;

/// The signer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signer {
    /// The principals of the line in `allowed_signers`, or the user id of an OpenPGP key.
    pub principal: String,
    /// `SHA256:…` of an SSH key, the hex digits of an OpenPGP key.
    pub fingerprint: String,
    /// The type of key.
    pub scheme: SignatureScheme,
}

/// How something was signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SignatureScheme {
    /// With an SSH key.
    Ssh,
    /// With an OpenPGP key.
    OpenPgp,
}

/// Keys whose signatures are accepted.
#[derive(Debug)]
pub struct AllowedSigners {
    path: PathBuf,
    lines: Vec<SignerLine>,
    revoked: RevokedKeys,
    keyring: Option<PathBuf>,
}

impl AllowedSigners {
    /// Reads the files from the settings; times without a zone are in the zone of this system.
    ///
    /// # Errors
    /// Fails when a file is missing, is writable by others, or has a line that cannot be read.
    pub fn read(trust: &settings::TrustSettings) -> Result<Self, SignatureError> {
        Self::read_with_zone(trust, &TimeZone::system())
    }

    /// The same, with a given zone for times without one.
    ///
    /// # Errors
    /// As [`AllowedSigners::read_text`].
    pub fn read_with_zone(trust: &settings::TrustSettings, zone: &TimeZone) -> Result<Self, SignatureError> {
        let path = &trust.allowed_signers;
        let lines = match trusted_file::read_text(path) {
            Ok(text) => allowed_signers::parse_file(path, &text, zone)?,
            // With OpenPGP keys, SSH keys are optional.
            Err(SignatureError::NoSigners { .. }) if trust.openpgp_keyring.is_some() => Vec::new(),
            Err(error) => return Err(error),
        };
        if lines.is_empty() && trust.openpgp_keyring.is_none() {
            return Err(SignatureError::NoSigners { path: path.clone() });
        }
        let revoked = RevokedKeys::from_settings(trust)?;
        Ok(Self { path: path.clone(), lines, revoked, keyring: trust.openpgp_keyring.clone() })
    }

    /// Reads one file in the `allowed_signers` format; times without a zone are in the zone of this system.
    ///
    /// # Errors
    /// As [`AllowedSigners::read_text`].
    pub fn from_file(path: &Path) -> Result<Self, SignatureError> {
        let lines = allowed_signers::parse_file(path, &trusted_file::read_text(path)?, &TimeZone::system())?;
        if lines.is_empty() {
            return Err(SignatureError::NoSigners { path: path.into() });
        }
        Ok(Self { path: path.into(), lines, revoked: RevokedKeys::default(), keyring: None })
    }

    /// The signer of a report, if it is a key of this node.
    ///
    /// # Errors
    /// Fails when it is not signed by a key whose line names the node.
    pub fn verify_report(
        &self,
        node: &str,
        message: &[u8],
        signature: &[u8],
        now: Timestamp,
    ) -> Result<Signer, SignatureError> {
        let signature_block = SshSignature::read(signature)?;
        signature_block.check_policy(REPORT_NAMESPACE)?;
        let mut why = SignatureError::UnknownKey {
            fingerprint: signature_block.fingerprint(),
            path: self.path.clone(),
        };
        for line in self
            .lines
            .iter()
            .filter(|line| line.key == *signature_block.key() && line.matches_principal(node))
        {
            match line.allows(REPORT_NAMESPACE, &[now], &self.path) {
                Ok(()) => {
                    return signature_block
                        .verify(REPORT_NAMESPACE, message)
                        .map(|()| line.signer(&signature_block));
                }
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    /// The signer of a commit; `bytes` is the raw object, which the caller has checked against its id.
    ///
    /// # Errors
    /// Fails when no accepted key signed it, valid now and at the time of the commit.
    pub fn verify_commit(&self, bytes: &[u8], now: Timestamp) -> Result<Signer, SignatureError> {
        let commit = commit::parse_commit(bytes)?;
        if openpgp::is_armoured(&commit.signature) {
            return self.verify_openpgp(&commit.signature, &commit.payload);
        }
        self.verify_ssh_commit(&commit, COMMIT_NAMESPACE, now)
    }

    /// The signer of a commit with an SSH signature for this namespace, valid now and at the time of the commit.
    fn verify_ssh_commit(
        &self,
        commit: &SignedCommit,
        namespace: &'static str,
        now: Timestamp,
    ) -> Result<Signer, SignatureError> {
        let signature_block = SshSignature::read(&commit.signature)?;
        self.verify_ssh(&signature_block, namespace, &commit.payload, &[now, commit.committed])
            .map(|line| line.signer(&signature_block))
    }

    /// The signers of a manifest: one per person, at least `threshold` of them. `signatures` are files by name.
    ///
    /// # Errors
    /// Fails when there are fewer; the error says why each of the others is not accepted.
    pub fn verify_manifest(
        &self,
        manifest: &[u8],
        signatures: &[(String, Vec<u8>)],
        threshold: usize,
        now: Timestamp,
    ) -> Result<Vec<Signer>, SignatureError> {
        if signatures.is_empty() {
            return Err(SignatureError::Unsigned { what: "manifest" });
        }
        self.verify_threshold(MANIFEST_NAMESPACE, manifest, signatures, threshold, now)
    }

    /// The signers of the text that describes a release. `armoured` contains one signature or several in sequence.
    ///
    /// # Errors
    /// As [`AllowedSigners::verify_manifest`].
    pub fn verify_release(
        &self,
        text: &[u8],
        armoured: &str,
        threshold: usize,
        now: Timestamp,
    ) -> Result<Vec<Signer>, SignatureError> {
        self.verify_armoured((RELEASE_NAMESPACE, "release"), text, armoured, (threshold, now))
    }

    /// The signers of a text, whose signatures are one armoured text.
    fn verify_armoured(
        &self,
        (namespace, what): (&'static str, &'static str),
        text: &[u8],
        armoured: &str,
        (threshold, now): (usize, Timestamp),
    ) -> Result<Vec<Signer>, SignatureError> {
        let blocks = armoured.split_inclusive(ssh::END).map(str::trim).filter(|block| !block.is_empty());
        let numbered = blocks.take(MAX_SIGNATURES).enumerate();
        let signatures: Vec<_> =
            numbered.map(|(i, block)| (format!("signature {}", i + 1), block.as_bytes().to_vec())).collect();
        if signatures.is_empty() {
            return Err(SignatureError::Unsigned { what });
        }
        self.verify_threshold(namespace, text, &signatures, threshold, now)
    }

    /// The signers of a message: one per person, at least `threshold` of them.
    fn verify_threshold(
        &self,
        namespace: &'static str,
        message: &[u8],
        signatures: &[(String, Vec<u8>)],
        threshold: usize,
        now: Timestamp,
    ) -> Result<Vec<Signer>, SignatureError> {
        let mut good: Vec<(&SignerLine, Signer)> = Vec::new();
        let mut refused: Vec<(String, SignatureError)> = Vec::new();
        for (name, bytes) in signatures.iter().take(MAX_SIGNATURES) {
            let read = SshSignature::read(bytes).and_then(|signature_block| {
                let line = self.verify_ssh(&signature_block, namespace, message, &[now])?;
                Ok((line, line.signer(&signature_block)))
            });
            match read {
                Ok(found) => good.push(found),
                Err(error) => refused.push((name.clone(), error)),
            }
        }
        let people = distinct_signers(good);
        let need = threshold.max(1);
        match (people.len() >= need, people.is_empty() && need == 1, refused.len()) {
            (true, ..) => Ok(people),
            // With one signature, its own error is more useful than a count.
            (false, true, 1) => Err(refused.swap_remove(0).1),
            _ => Err(SignatureError::TooFew {
                have: people.len(),
                need,
                whom: people.into_iter().map(|signer| signer.principal).collect(),
                refused: refused.into_iter().map(|(name, error)| format!("{name}: {error}")).collect(),
            }),
        }
    }

    /// The line that makes this signature valid at all these times.
    fn verify_ssh(
        &self,
        signature_block: &SshSignature,
        namespace: &'static str,
        message: &[u8],
        times: &[Timestamp],
    ) -> Result<&SignerLine, SignatureError> {
        let fingerprint = signature_block.fingerprint();
        signature_block.check_policy(namespace)?;
        if let Some(path) = self.revoked.revoking_file(signature_block.key()) {
            return Err(SignatureError::Revoked { fingerprint, path: path.into() });
        }
        let mut why = SignatureError::UnknownKey { fingerprint, path: self.path.clone() };
        for line in self.lines.iter().filter(|line| line.key == *signature_block.key()) {
            match line.allows(namespace, times, &self.path) {
                Ok(()) => return signature_block.verify(namespace, message).map(|()| line),
                Err(error) => why = error,
            }
        }
        Err(why)
    }

    fn verify_openpgp(&self, signature: &[u8], payload: &[u8]) -> Result<Signer, SignatureError> {
        let keyring = self.keyring.as_deref().ok_or(SignatureError::NoKeyring)?;
        openpgp::verify(keyring, signature, payload)
    }
}

/// The key that made a report signature, as an OpenSSH line; its owner is not checked.
///
/// # Errors
/// Fails when it is not a signature of this message for [`REPORT_NAMESPACE`].
pub fn report_key(message: &[u8], signature: &[u8]) -> Result<String, SignatureError> {
    let signature_block = SshSignature::read(signature)?;
    signature_block.check_policy(REPORT_NAMESPACE)?;
    signature_block.verify(REPORT_NAMESPACE, message)?;
    let unreadable =
        |error: ssh_key::Error| SignatureError::Malformed { what: "signature", why: error.to_string() };
    ssh_key::PublicKey::from(signature_block.key().clone()).to_openssh().map_err(unreadable)
}

/// One signer per person: keys whose lines name the same person count once.
fn distinct_signers(good: Vec<(&SignerLine, Signer)>) -> Vec<Signer> {
    let mut seen: Vec<(Vec<&SignerLine>, Signer)> = Vec::new();
    let mut keys = BTreeSet::new();
    for (line, signer) in good {
        if !keys.insert(signer.fingerprint.clone()) {
            continue;
        }
        // A line that names two earlier people makes them one person.
        let (same, rest): (Vec<_>, Vec<_>) =
            seen.into_iter().partition(|(lines, _)| lines.iter().any(|known| known.shares_principal(line)));
        seen = rest;
        let first = same.first().map(|(_, first)| first.clone());
        let lines = same.into_iter().flat_map(|(lines, _)| lines).chain([line]).collect();
        seen.push((lines, first.unwrap_or(signer)));
    }
    seen.into_iter().map(|(_, signer)| signer).collect()
}
