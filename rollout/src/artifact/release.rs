//! The signed text of a release, and whether a signature is accepted.
//!
//! The signed text in the namespace `zagent-release` (each line ends with a newline):
//!
//! ```text
//! zagent-release 1
//! component: agent
//! version: 1.2.3
//! os: linux
//! arch: x86_64
//! size: 12345678
//! blake3: 64 hex digits in lower case
//! min_protocol: 2            (only when the release needs one)
//! ```

use jiff::Timestamp;
use zagent_cache::trust::{AllowedSigners, SignatureError, Signer};
use zagent_config::settings::{RequiredSignatures, TrustSettings};

use super::ArtifactError;
use crate::record::{Artifact, Component};

/// One binary, and its component and version.
#[derive(Clone, Copy, Debug)]
pub struct ReleaseArtifact<'a> {
    /// What is rolled out.
    pub component: Component,
    /// Its version.
    pub version: &'a str,
    /// The binary.
    pub artifact: &'a Artifact,
}

impl ReleaseArtifact<'_> {
    /// The text that is signed.
    ///
    /// # Errors
    /// Fails when a field cannot be part of it.
    pub fn signed_text(&self) -> Result<String, ArtifactError> {
        let Artifact { os, arch, size, blake3, min_protocol, .. } = self.artifact;
        for (name, value) in [("version", self.version), ("os", os), ("arch", arch)] {
            let fine = |c: char| c.is_ascii_alphanumeric() || "._-+".contains(c);
            if value.is_empty() || value.len() > 100 || !value.chars().all(fine) {
                return Err(ArtifactError::Malformed { why: format!("`{name}` is {value:?}") });
            }
        }
        if blake3.len() != 64 || !blake3.chars().all(|c| c.is_ascii_hexdigit()) {
            return Err(ArtifactError::Malformed { why: "`blake3` does not have 64 hex digits".into() });
        }
        let (component, version, blake3) = (self.component.name(), self.version, blake3.to_ascii_lowercase());
        let needs =
            if *min_protocol == 0 { String::new() } else { format!("min_protocol: {min_protocol}\n") };
        Ok(format!(
            "zagent-release 1\ncomponent: {component}\nversion: {version}\nos: {os}\narch: {arch}\nsize: {size}\n\
             blake3: {blake3}\n{needs}"
        ))
    }
}

/// The accepted signers, and whether a signature is required.
#[derive(Debug)]
pub struct ReleaseTrust {
    signers: Option<AllowedSigners>,
    required: bool,
    threshold: usize,
}

impl ReleaseTrust {
    /// From the settings: with `trust.require: none` a release need not be signed, but a signature on it must be valid
    /// if any signers are configured.
    ///
    /// # Errors
    /// Fails when the signers files are needed or exist, and cannot be used.
    pub fn from_settings(trust: &TrustSettings) -> Result<Self, SignatureError> {
        let required = trust.require != RequiredSignatures::None;
        let signers = match AllowedSigners::read(trust) {
            Ok(signers) => Some(signers),
            Err(SignatureError::NoSigners { .. }) if !required => None,
            Err(error) => return Err(error),
        };
        Ok(Self { signers, required, threshold: trust.threshold })
    }

    /// The signers of a release.
    ///
    /// # Errors
    /// Fails when no accepted key signed it, unless a signature is optional.
    pub fn check(&self, release: &ReleaseArtifact<'_>, now: Timestamp) -> Result<Vec<Signer>, ArtifactError> {
        let text = release.signed_text()?;
        match (&self.signers, release.artifact.signature.as_deref()) {
            (None, _) => Ok(Vec::new()),
            (Some(_), None) if !self.required => Ok(Vec::new()),
            (Some(signers), signature) => {
                let signature = signature.unwrap_or_default();
                Ok(signers.verify_release(text.as_bytes(), signature, self.threshold, now)?)
            }
        }
    }
}
