//! A node and its key in, a signed enrolment out; and back, if an accepted signer made it.
//!
//! Law: an enrolment binds one key to one node of one fleet. Nodes can write to the board and cannot sign enrolments,
//! so a driver knows which reports are genuine without a list of its own (held by
//! `an_enrolment_names_the_key_of_a_node`). `seen_enrolments.rs` says why an old one does not come back.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use ssh_key::PublicKey;
use zagent_cache::trust::{ENROLMENT_NAMESPACE, RecordTrust, sign};
use zagent_config::ids::{FleetId, NodeId};
use zagent_config::settings::Settings;

use super::EnvelopeError;
use super::keys::fingerprint;
use super::seen_enrolments::{self, VerifiedEnrolment};

/// The key prefix of enrolments.
pub(crate) const ENROLMENT_PREFIX: &str = "enroll/";
/// Maximum bytes of an enrolment.
const MAX_ENROLMENT_BYTES: usize = 64 << 10;
/// The version of the format.
const ENROLMENT_SCHEMA: u32 = 1;

/// Who may sign enrolments, and for which fleet.
#[derive(Clone, Debug)]
pub struct EnrolmentTrust {
    signers: RecordTrust,
    fleet: Option<FleetId>,
    /// Which enrolments were accepted here.
    seen: PathBuf,
}

impl EnrolmentTrust {
    /// From the settings; `None` when nothing is signed: an enrolment that nobody can verify proves nothing.
    #[must_use]
    pub fn from_settings(settings: &Settings) -> Option<Self> {
        let (fleet, seen) = (settings.fleet.clone(), settings.paths().enrolments());
        RecordTrust::from_settings(settings).map(|signers| Self { signers, fleet, seen })
    }

    /// The fingerprints of the nodes whose enrolments count, and why others do not: an enrolment never replaces a newer one.
    ///
    /// # Errors
    /// Fails when the file of what was accepted before cannot be used.
    pub(crate) fn accept_newest(
        &self,
        verified: BTreeMap<NodeId, VerifiedEnrolment>,
    ) -> Result<(BTreeMap<NodeId, String>, Vec<EnvelopeError>), EnvelopeError> {
        seen_enrolments::accept_newest(&self.seen, verified)
    }

    /// When a new enrolment of a node is signed: later than what was accepted here before.
    ///
    /// # Errors
    /// As [`EnrolmentTrust::accept_newest`].
    pub(crate) fn next_time(&self, node: &NodeId, now: Timestamp) -> Result<Timestamp, EnvelopeError> {
        seen_enrolments::next_time(&self.seen, node, now)
    }
}

/// The stored form.
#[derive(Debug, Serialize, Deserialize)]
struct StoredEnrolment {
    schema: u32,
    /// Exactly the bytes that were signed.
    enrolment: String,
    signature: String,
}

/// What is signed.
#[derive(Debug, Serialize, Deserialize)]
struct Enrolment {
    node: NodeId,
    /// An OpenSSH line.
    key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fleet: Option<FleetId>,
    /// When it was signed; a later one replaces an earlier one, and never the other way round.
    at: Timestamp,
}

/// The board key of an enrolment.
#[must_use]
pub fn enrolment_key(node: &NodeId) -> String {
    format!("{ENROLMENT_PREFIX}{node}")
}

/// A public key as a person gives it, as an OpenSSH line without a comment, and its fingerprint.
#[must_use]
pub fn public_key(text: &str) -> Option<(String, String)> {
    let mut key = PublicKey::from_openssh(text.trim()).ok()?;
    key.set_comment("");
    let line = key.to_openssh().ok()?.trim().to_owned();
    let print = fingerprint(&line);
    Some((line, print))
}

/// Signs the enrolment of a node with a key.
///
/// # Errors
/// Fails when the key cannot be used.
pub fn sign_enrolment(
    node: &NodeId,
    key: &str,
    fleet: Option<FleetId>,
    signer: &Path,
    now: Timestamp,
) -> Result<Vec<u8>, EnvelopeError> {
    let bad = |why: String| EnvelopeError::Enrolment { node: node.clone(), why };
    let enrolment = Enrolment { node: node.clone(), key: key.to_owned(), fleet, at: now };
    let text = serde_json::to_string(&enrolment).map_err(|error| bad(error.to_string()))?;
    let signature = sign(signer, ENROLMENT_NAMESPACE, text.as_bytes()).map_err(EnvelopeError::Sign)?;
    let stored = StoredEnrolment { schema: ENROLMENT_SCHEMA, enrolment: text, signature };
    serde_json::to_vec(&stored).map_err(|error| bad(error.to_string()))
}

/// What an enrolment says that was found under a node's name.
///
/// # Errors
/// Fails when no accepted signer made it for that node and this fleet.
pub(crate) fn open_enrolment(
    node: &NodeId,
    bytes: &[u8],
    trust: &EnrolmentTrust,
    now: Timestamp,
) -> Result<VerifiedEnrolment, EnvelopeError> {
    let bad = |why: String| EnvelopeError::Enrolment { node: node.clone(), why };
    if bytes.len() > MAX_ENROLMENT_BYTES {
        return Err(bad(format!("it has more than {MAX_ENROLMENT_BYTES} bytes")));
    }
    let stored: StoredEnrolment = serde_json::from_slice(bytes).map_err(|error| bad(error.to_string()))?;
    let text = stored.enrolment.as_bytes();
    let signers = trust.signers.signers().map_err(|error| bad(error.to_string()))?;
    signers.verify_enrolment(text, &stored.signature, now).map_err(|error| bad(error.to_string()))?;
    let enrolment: Enrolment =
        serde_json::from_str(&stored.enrolment).map_err(|error| bad(error.to_string()))?;
    if enrolment.node != *node {
        return Err(bad(format!("it is about `{}`", enrolment.node)));
    }
    if enrolment.fleet != trust.fleet {
        let name =
            enrolment.fleet.map_or_else(|| "no fleet".to_owned(), |fleet| format!("the fleet `{fleet}`"));
        return Err(bad(format!("it is for {name}")));
    }
    let (_, fingerprint) =
        public_key(&enrolment.key).ok_or_else(|| bad("its key cannot be read".to_owned()))?;
    Ok(VerifiedEnrolment { at: enrolment.at, fingerprint })
}
