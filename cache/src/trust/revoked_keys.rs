//! A file of revoked keys in, whether a key is revoked out.

use std::path::{Path, PathBuf};

use ssh_key::public::KeyData;
use ssh_key::{Fingerprint, HashAlg};
use zagent_config::settings::TrustSettings;

use super::allowed_signers::parse_key;
use super::{SignatureError, trusted_file};

/// The start of OpenSSH's binary lists.
const BINARY: &[u8] = b"SSHKRL\n\0";

/// Revoked keys.
#[derive(Debug, Default)]
pub(super) struct RevokedKeys {
    path: PathBuf,
    fingerprints: Vec<Fingerprint>,
}

impl RevokedKeys {
    /// Reads the file that the settings name; without one, no key is revoked.
    pub(super) fn from_settings(trust: &TrustSettings) -> Result<Self, SignatureError> {
        trust.revoked_keys.as_deref().map_or_else(|| Ok(Self::default()), Self::read)
    }

    /// Reads a file: one public key per line, or its `SHA256:` fingerprint.
    fn read(path: &Path) -> Result<Self, SignatureError> {
        let missing = |error| match error {
            // Without the file, the revoked keys are unknown.
            SignatureError::NoSigners { path } => {
                SignatureError::Unreadable { path, source: std::io::ErrorKind::NotFound.into() }
            }
            other => other,
        };
        let bytes = trusted_file::read_bytes(path).map_err(missing)?;
        if bytes.starts_with(BINARY) {
            return Err(SignatureError::BinaryRevocations { path: path.into() });
        }
        let text = trusted_file::decode_text(path, bytes)?;
        let mut fingerprints = Vec::new();
        for (i, line) in text.lines().enumerate() {
            let bad = |why| SignatureError::Line { path: path.into(), line: i + 1, why };
            fingerprints.extend(parse_fingerprint(line).map_err(bad)?);
        }
        Ok(Self { path: path.into(), fingerprints })
    }

    /// The file that revokes this key.
    pub(super) fn revoking_file(&self, key: &KeyData) -> Option<&Path> {
        self.fingerprints.contains(&key.fingerprint(HashAlg::Sha256)).then_some(&self.path)
    }
}

fn parse_fingerprint(line: &str) -> Result<Option<Fingerprint>, String> {
    let line = line.trim();
    if line.is_empty() || line.starts_with('#') {
        return Ok(None);
    }
    let first = line.split_whitespace().next().unwrap_or_default();
    if first.starts_with("SHA256:") {
        let read = first.parse().map_err(|_| "this is not a SHA256: key fingerprint".to_owned());
        return read.map(Some);
    }
    parse_key(line).map(|key| Some(key.fingerprint(HashAlg::Sha256)))
}
