//! The settings in, the accepted signers of rollout records out, and the keys among them that could also sign states.
//!
//! Law: a record and a revision of the states never accept the same signature, because their namespaces differ.
//! Whether they accept the same key is up to `rollout.allowed_signers` and `namespaces=` (held by
//! `a_record_is_signed_for_records_only`, `one_key_has_one_purpose`).

use std::path::PathBuf;

use jiff::Timestamp;
use ssh_key::HashAlg;
use zagent_config::settings::{RequiredSignatures, Settings, TrustSettings};

use super::allowed_signers::SignerLine;
use super::revoked_keys::RevokedKeys;
use super::{
    AllowedSigners, COMMIT_NAMESPACE, ENROLMENT_NAMESPACE, MANIFEST_NAMESPACE, RECORD_NAMESPACE,
    RELEASE_NAMESPACE, SignatureError, Signer, commit, openpgp,
};

/// Which keys may sign rollout records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordTrust {
    /// What revisions need: its keys sign records too unless records have keys of their own.
    pub trust: TrustSettings,
    /// `rollout.allowed_signers`.
    pub allowed_signers: Option<PathBuf>,
}

impl RecordTrust {
    /// From the settings; `None` when nothing need be signed.
    #[must_use]
    pub fn from_settings(settings: &Settings) -> Option<Self> {
        (settings.trust.require != RequiredSignatures::None).then(|| Self {
            trust: settings.trust.clone(),
            allowed_signers: settings.rollout.allowed_signers.clone(),
        })
    }

    /// Reads the accepted signers. OpenPGP keys are not among them: their signatures have no namespace.
    ///
    /// # Errors
    /// As [`AllowedSigners::read`].
    pub fn signers(&self) -> Result<AllowedSigners, SignatureError> {
        let path = self.allowed_signers.as_ref().unwrap_or(&self.trust.allowed_signers);
        Ok(AllowedSigners {
            revoked: RevokedKeys::from_settings(&self.trust)?,
            ..AllowedSigners::from_file(path)?
        })
    }

    /// The keys that can sign rollout records and also states or releases: anyone with such a key of a driver
    /// controls every node.
    ///
    /// # Errors
    /// As [`RecordTrust::signers`].
    pub fn shared_keys(&self) -> Result<Vec<String>, SignatureError> {
        let records = self.signers()?;
        let states = AllowedSigners::read(&self.trust)?;
        let mut shared: Vec<String> = Vec::new();
        for line in records.lines.iter().filter(|line| line.permits(RECORD_NAMESPACE)) {
            let other = |other: &&SignerLine| other.key == line.key && signs_states(other);
            if states.lines.iter().any(|own| other(&own))
                && records.revoked.revoking_file(&line.key).is_none()
            {
                let name = format!("{} ({})", line.principals(), line.key.fingerprint(HashAlg::Sha256));
                if !shared.contains(&name) {
                    shared.push(name);
                }
            }
        }
        Ok(shared)
    }
}

fn signs_states(line: &SignerLine) -> bool {
    [COMMIT_NAMESPACE, MANIFEST_NAMESPACE, RELEASE_NAMESPACE].into_iter().any(|name| line.permits(name))
}

impl AllowedSigners {
    /// The signer of a commit that holds a rollout record; `bytes` is the raw object, which the caller has checked
    /// against its id.
    ///
    /// # Errors
    /// Fails when no accepted key signed it for [`RECORD_NAMESPACE`], valid now and at the time of the commit.
    pub fn verify_record(&self, bytes: &[u8], now: Timestamp) -> Result<Signer, SignatureError> {
        let commit = commit::parse_commit(bytes).map_err(|error| match error {
            SignatureError::Unsigned { .. } => SignatureError::Unsigned { what: "record" },
            other => other,
        })?;
        if openpgp::is_armoured(&commit.signature) {
            let why = "an OpenPGP signature has no namespace; a record needs one of an SSH key".into();
            return Err(SignatureError::Weak { why });
        }
        self.verify_ssh_commit(&commit, RECORD_NAMESPACE, now)
    }

    /// The signer of the enrolment of a node.
    ///
    /// # Errors
    /// As [`AllowedSigners::verify_manifest`].
    pub fn verify_enrolment(
        &self,
        text: &[u8],
        armoured: &str,
        now: Timestamp,
    ) -> Result<Vec<Signer>, SignatureError> {
        self.verify_armoured((ENROLMENT_NAMESPACE, "enrolment"), text, armoured, (1, now))
    }

    /// The signers of the order in a record, at least `threshold` people. `armoured` contains one signature or several
    /// in sequence.
    ///
    /// # Errors
    /// As [`AllowedSigners::verify_manifest`].
    pub fn verify_order(
        &self,
        text: &[u8],
        armoured: &str,
        threshold: usize,
        now: Timestamp,
    ) -> Result<Vec<Signer>, SignatureError> {
        self.verify_armoured((RECORD_NAMESPACE, "record"), text, armoured, (threshold, now))
    }
}
