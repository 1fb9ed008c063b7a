//! A report in, the report signed by its node out; and back, if that node signed it.
//!
//! Law: a report counts only if its own node made it: the name in the report, the name in the key and the owner of the
//! signing key are the same. Any other report is refused and named.

mod keys;
mod node_key;

use std::io;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use zagent_cache::trust::{REPORT_NAMESPACE, SignError, SignatureError, sign};
use zagent_config::ids::NodeId;

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

/// Opens a value that was found under a node's name.
///
/// # Errors
/// Fails when it is not that node's report about that component.
pub fn verify_report(
    component: Component,
    node: &NodeId,
    bytes: &[u8],
    keys: &mut NodeKeys,
    now: Timestamp,
) -> Result<VerifiedReport, EnvelopeError> {
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
    let key = keys.verify_signer(node, envelope.report.as_bytes(), envelope.signature.as_bytes(), now)?;
    Ok(VerifiedReport { report, key })
}
