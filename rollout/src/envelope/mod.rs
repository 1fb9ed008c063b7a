//! A report in, the report signed by its node out; and back, if that node signed it.
//!
//! Law: a report counts only if its own node made it: the name in the report, the name in the key and the owner of the
//! signing key are the same. Any other report is refused and named (held by
//! `a_report_under_another_name_is_refused_and_named`, `damaged_altered_and_older_reports_are_refused`).

mod enrolment;
mod keys;
mod node_key;
mod seen_enrolments;

use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use zagent_cache::trust::{REPORT_NAMESPACE, SignError, SignatureError, sign};
use zagent_config::ids::NodeId;

pub(crate) use self::enrolment::{ENROLMENT_PREFIX, open_enrolment};
pub use self::enrolment::{EnrolmentTrust, enrolment_key, public_key, sign_enrolment};
pub(crate) use self::keys::NodeClaim;
pub use self::keys::NodeKeys;
use self::node_key::ensure_key;
pub use self::node_key::{NodeKeyState, node_key_state};
use crate::record::Component;
use crate::report::NodeReport;

/// Maximum bytes of an envelope.
const MAX_ENVELOPE_BYTES: usize = 1 << 20;
/// The version of the format.
const ENVELOPE_SCHEMA: u32 = 1;

/// Why a report is refused, or could not be made.
#[derive(Debug, thiserror::Error)]
pub enum EnvelopeError {
    /// It is not in the format of a report.
    #[error("the report of `{node}` is damaged: {why}")]
    Damaged {
        /// The name it was found under.
        node: NodeId,
        /// The problem.
        why: String,
    },
    /// It is about another node or component.
    #[error("the report of `{node}` is about {claim}")]
    WrongSubject {
        /// The name it was found under.
        node: NodeId,
        /// What it is about.
        claim: String,
    },
    /// Its signature is not accepted.
    #[error("the report of `{node}` is not signed by that node")]
    Signature {
        /// The name it was found under.
        node: NodeId,
        /// Why.
        #[source]
        source: SignatureError,
    },
    /// Signed with another key than before.
    #[error(
        "the report of `{node}` is signed by {found}, and {place} has {known}: if the node was reinstalled, \
         forget its key with `zagent node forget {node}`"
    )]
    OtherKey {
        /// The name it was found under.
        node: NodeId,
        /// The key that signed it.
        found: String,
        /// The known key.
        known: String,
        /// Where it is known from.
        place: String,
    },
    /// Signed with the key of another node.
    #[error(
        "the report of `{node}` is signed by {found}, which is the key of `{owner}`: one key speaks for one node; on a \
         cloned host, delete the key below the root directory and restart the agent"
    )]
    KeyOfOther {
        /// The name it was found under.
        node: NodeId,
        /// The key that signed it.
        found: String,
        /// The node with this key.
        owner: NodeId,
    },
    /// Several keys claim a node, and nothing says which is right.
    #[error(
        "several keys sign reports of `{node}`: {}; name the right one with `zagent node enroll {node} KEY`, or \
         remove all with `zagent node forget {node}`",
        .keys.join(", ")
    )]
    Contested {
        /// The name they were found under.
        node: NodeId,
        /// The keys.
        keys: Vec<String>,
    },
    /// Only enrolled nodes count.
    #[error(
        "`{node}` is not enrolled, and `board.require_enrolment` is set: enroll it with `zagent node enroll {node}`, \
         after checking its key {found}"
    )]
    NotEnrolled {
        /// The name it was found under.
        node: NodeId,
        /// The key that signed it.
        found: String,
    },
    /// An enrolment is not accepted.
    #[error("the enrolment of `{node}` is not accepted: {why}")]
    Enrolment {
        /// Which node.
        node: NodeId,
        /// The problem.
        why: String,
    },
    /// An old report again.
    #[error("the report of `{node}` from {said} is older than the known report from {last}")]
    Replayed {
        /// The name it was found under.
        node: NodeId,
        /// When it was made.
        said: Timestamp,
        /// When the known one was made.
        last: Timestamp,
    },
    /// The file of known keys cannot be used.
    #[error("cannot use the node keys in `{}`", path.display())]
    Keys {
        /// The file.
        path: PathBuf,
        /// The operating system error.
        #[source]
        source: io::Error,
    },
    /// The node's own key cannot be created.
    #[error("cannot create the node key `{}`", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// The operating system error.
        #[source]
        source: io::Error,
    },
    /// Signing with the node's key failed.
    #[error("cannot sign the report")]
    Sign(#[source] SignError),
}

impl EnvelopeError {
    /// The node that a refused report or enrolment claims to be from.
    #[must_use]
    pub const fn claimed_node(&self) -> Option<&NodeId> {
        match self {
            Self::Damaged { node, .. }
            | Self::WrongSubject { node, .. }
            | Self::Signature { node, .. }
            | Self::OtherKey { node, .. }
            | Self::KeyOfOther { node, .. }
            | Self::Contested { node, .. }
            | Self::NotEnrolled { node, .. }
            | Self::Enrolment { node, .. }
            | Self::Replayed { node, .. } => Some(node),
            Self::Keys { .. } | Self::Key { .. } | Self::Sign(_) => None,
        }
    }
}

/// The stored form of a report on a board.
#[derive(Debug, Serialize, Deserialize)]
struct SignedEnvelope {
    schema: u32,
    /// Exactly the bytes that were signed.
    report: String,
    signature: String,
}

/// A report that its node signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedReport {
    /// The report.
    pub report: NodeReport,
    /// The fingerprint of the key that signed it.
    pub key: String,
}

/// A report with a good signature, before its key is judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SignedReport {
    pub(crate) report: NodeReport,
    pub(crate) claim: NodeClaim,
}

/// What separates a node's name from the digest of its key, where another key has taken the node's own place.
const KEY_MARK: &str = "+key-";
/// Hex digits of such a digest.
const KEY_DIGITS: usize = 16;

/// The key under which a node reports.
#[must_use]
pub fn report_key(component: Component, node: &NodeId) -> String {
    format!("{}{node}", report_prefix(component))
}

/// The prefix of such keys.
#[must_use]
pub fn report_prefix(component: Component) -> String {
    format!("node/{}/", component.name())
}

/// Signs a report with the node's key, which is created if it does not exist, and replaced if it is damaged.
///
/// # Errors
/// Fails when the key cannot be created or used.
pub fn sign_report(report: &NodeReport, key: &Path) -> Result<Vec<u8>, EnvelopeError> {
    ensure_key(key).map_err(|source| EnvelopeError::Key { path: key.into(), source })?;
    let broken =
        |error: serde_json::Error| EnvelopeError::Damaged { node: report.id.clone(), why: error.to_string() };
    let text = serde_json::to_string(report).map_err(broken)?;
    let signature = sign(key, REPORT_NAMESPACE, text.as_bytes()).map_err(EnvelopeError::Sign)?;
    serde_json::to_vec(&SignedEnvelope { schema: ENVELOPE_SCHEMA, report: text, signature }).map_err(broken)
}

/// The place of a node whose own place has a report by another key: both stay visible.
#[must_use]
pub fn displaced_key(component: Component, node: &NodeId, fingerprint: &str) -> String {
    let digest = blake3::hash(fingerprint.as_bytes()).to_hex();
    format!("{}{KEY_MARK}{}", report_key(component, node), &digest[..KEY_DIGITS])
}

/// The node that a board key is about, with or without the digest of its key.
pub(crate) fn node_of_key(component: Component, key: &str) -> Option<NodeId> {
    let name = key.strip_prefix(&report_prefix(component))?;
    let name = match name.rsplit_once(KEY_MARK) {
        Some((node, digest)) if digest.len() == KEY_DIGITS => node,
        _ => name,
    };
    name.parse().ok()
}

/// The fingerprint of the key that signed a stored report, whatever it says; `None` when no key did.
pub(crate) fn signer_of(bytes: &[u8]) -> Option<String> {
    let envelope: SignedEnvelope =
        serde_json::from_slice(bytes.get(..bytes.len().min(MAX_ENVELOPE_BYTES))?).ok()?;
    let key = zagent_cache::trust::report_key(envelope.report.as_bytes(), envelope.signature.as_bytes());
    key.ok().map(|key| keys::fingerprint(&key))
}

/// Opens a value that was found under a node's name. Whether its key is the node's is decided by
/// [`NodeKeys::judge_claims`].
///
/// # Errors
/// Fails when it is not a report of that node about that component, or nobody signed it.
pub(crate) fn open_report(
    component: Component,
    node: &NodeId,
    bytes: &[u8],
    keys: &NodeKeys,
    now: Timestamp,
) -> Result<SignedReport, EnvelopeError> {
    let (report, envelope) = parse_report(component, node, bytes)?;
    let claim = keys.verify_signer(node, envelope.report.as_bytes(), envelope.signature.as_bytes(), now)?;
    Ok(SignedReport { report, claim })
}

/// The report in a stored value, with any signer.
///
/// # Errors
/// Fails when it is not a report of that node about that component.
pub fn read_report(component: Component, node: &NodeId, bytes: &[u8]) -> Result<NodeReport, EnvelopeError> {
    parse_report(component, node, bytes).map(|(report, _)| report)
}

fn parse_report(
    component: Component,
    node: &NodeId,
    bytes: &[u8],
) -> Result<(NodeReport, SignedEnvelope), EnvelopeError> {
    let damaged = |why: String| EnvelopeError::Damaged { node: node.clone(), why };
    if bytes.len() > MAX_ENVELOPE_BYTES {
        return Err(damaged(format!("it has more than {MAX_ENVELOPE_BYTES} bytes")));
    }
    let envelope: SignedEnvelope =
        serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
    let report: NodeReport =
        serde_json::from_str(&envelope.report).map_err(|error| damaged(error.to_string()))?;
    if report.id != *node || report.component != component {
        let claim = format!("`{}` ({})", report.id, report.component.name());
        return Err(EnvelopeError::WrongSubject { node: node.clone(), claim });
    }
    Ok((report, envelope))
}
