//! The keys of the nodes: from a list that people maintain, from signed enrolments, or else the first key seen.
//!
//! Law: one key speaks for one node, and one node has one key. If there is a list, only the list counts; an enrolment
//! comes next; without both, the first key that a node signs with is saved, and another key is refused until a person
//! forgets the first one. A key in a rollout record is enforced as well. Where nothing is known and claims contradict
//! each other, none of them counts: a guess could be the forged one (held by `one_key_speaks_for_one_node`,
//! `with_a_key_list_only_the_list_counts`, `the_first_key_is_required_until_the_node_is_forgotten`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rustix::fs::{FlockOperation, flock};
use ssh_key::{HashAlg, PublicKey};
use zagent_cache::trust::{AllowedSigners, SignatureError, report_key};
use zagent_config::atomic_file::AtomicFile;
use zagent_config::ids::NodeId;

use super::EnvelopeError;
use crate::record::RolloutRecord;
use zagent_config::sorted::CollectSorted;

/// Maximum bytes of the file of first seen keys: a hundred thousand nodes.
const MAX_KEYS_BYTES: u64 = 16 << 20;

/// The keys of nodes.
#[derive(Debug)]
pub struct NodeKeys {
    allowed: Option<PathBuf>,
    first_seen_file: PathBuf,
    signers: Option<AllowedSigners>,
    /// The keys in the file, from the last read.
    known: BTreeMap<NodeId, String>,
    /// Keys that were seen for the first time, and are not in the file yet.
    unsaved: BTreeMap<NodeId, String>,
    /// Fingerprints that a record names.
    pinned: BTreeMap<NodeId, String>,
    /// Fingerprints in signed enrolments.
    enrolled: BTreeMap<NodeId, String>,
    /// True when only enrolled nodes count.
    needs_enrolment: bool,
}

/// A node that a report claims to be from, and the key that signed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeClaim {
    pub(crate) node: NodeId,
    pub(crate) fingerprint: String,
    /// The key as an OpenSSH line.
    pub(crate) key: String,
}

impl NodeKeys {
    /// Keys from a list, or else from the file of first seen keys. Nothing is read yet.
    #[must_use]
    pub const fn new(allowed: Option<PathBuf>, first: PathBuf) -> Self {
        let known = BTreeMap::new();
        Self {
            allowed,
            first_seen_file: first,
            signers: None,
            known,
            unsaved: BTreeMap::new(),
            pinned: BTreeMap::new(),
            enrolled: BTreeMap::new(),
            needs_enrolment: false,
        }
    }

    /// The same, and only enrolled nodes count.
    #[must_use]
    pub fn enrolled_only(self, needs_enrolment: bool) -> Self {
        Self { needs_enrolment, ..self }
    }

    /// True when people have said which key belongs to a node.
    #[must_use]
    pub fn is_vouched_for(&self, node: &NodeId) -> bool {
        self.allowed.is_some() || self.enrolled.contains_key(node)
    }

    /// Takes over the enrolments that were verified, as fingerprints.
    pub(crate) fn set_enrolled(&mut self, enrolled: BTreeMap<NodeId, String>) {
        self.enrolled = enrolled;
    }

    /// Reads the files again, because they may have changed.
    ///
    /// # Errors
    /// Fails when a file, or a line of the list, cannot be read.
    pub fn reload(&mut self) -> Result<(), SignatureError> {
        match &self.allowed {
            Some(path) => self.signers = Some(AllowedSigners::from_file(path)?),
            None => {
                let unreadable =
                    |source| SignatureError::Unreadable { path: self.first_seen_file.clone(), source };
                self.known = parse_keys(&read_keys(&self.first_seen_file).map_err(unreadable)?);
            }
        }
        Ok(())
    }

    /// Pins nodes to the keys in a record.
    pub fn pin_from_record(&mut self, record: &RolloutRecord) {
        let keys = record.nodes.iter().filter_map(|(id, node)| Some((id.clone(), node.key.clone()?)));
        self.pinned = keys.collect();
    }

    /// Forgets the first key of a node.
    ///
    /// # Errors
    /// Fails when the file cannot be written.
    pub fn forget(&mut self, node: &NodeId) -> Result<(), EnvelopeError> {
        self.pinned.remove(node);
        self.unsaved.remove(node);
        self.update_file(|known| known.remove(node).is_some())
    }

    /// Saves the keys that were seen for the first time, all at once.
    ///
    /// # Errors
    /// Fails when the file cannot be written.
    pub fn save_first_seen(&mut self) -> Result<(), EnvelopeError> {
        if self.unsaved.is_empty() {
            return Ok(());
        }
        let fresh = std::mem::take(&mut self.unsaved);
        let kept = self.update_file(|known| {
            let before = known.len();
            for (node, key) in &fresh {
                known.entry(node.clone()).or_insert_with(|| key.clone());
            }
            known.len() > before
        });
        if kept.is_err() {
            self.unsaved = fresh;
        }
        kept
    }

    /// The key that signed a report; with a list, only a key that is listed for the node.
    pub(super) fn verify_signer(
        &self,
        node: &NodeId,
        message: &[u8],
        signature: &[u8],
        now: Timestamp,
    ) -> Result<NodeClaim, EnvelopeError> {
        let bad = |source| EnvelopeError::Signature { node: node.clone(), source };
        match (&self.allowed, &self.signers) {
            (Some(_), Some(signers)) => {
                signers.verify_report(node.as_str(), message, signature, now).map_err(bad)?;
            }
            (Some(path), None) => return Err(bad(SignatureError::NoSigners { path: path.clone() })),
            (None, _) => {}
        }
        let key = report_key(message, signature).map_err(bad)?;
        Ok(NodeClaim { node: node.clone(), fingerprint: fingerprint(&key), key })
    }

    /// Which of these claims count, all of them judged together.
    pub(crate) fn judge_claims(&mut self, claims: &[NodeClaim]) -> Vec<Result<(), EnvelopeError>> {
        let mut judged: Vec<Result<(), EnvelopeError>> =
            claims.iter().map(|claim| self.judge_known(claim)).collect();
        // What nothing is known about must not contradict itself.
        let is_open = |claim: &NodeClaim, result: &Result<(), EnvelopeError>| {
            result.is_ok() && self.expected_key(&claim.node).is_none()
        };
        let open: Vec<&NodeClaim> = claims
            .iter()
            .zip(&judged)
            .filter(|(claim, result)| is_open(claim, result))
            .map(|(c, _)| c)
            .collect();
        let mut by_key: BTreeMap<&str, BTreeSet<&NodeId>> = BTreeMap::new();
        for claim in &open {
            by_key.entry(&claim.fingerprint).or_default().insert(&claim.node);
        }
        let is_single =
            |claim: &NodeClaim| by_key.get(claim.fingerprint.as_str()).is_none_or(|of| of.len() < 2);
        let mut by_node: BTreeMap<&NodeId, BTreeSet<&str>> = BTreeMap::new();
        for claim in open.iter().filter(|claim| is_single(claim)) {
            by_node.entry(&claim.node).or_default().insert(&claim.fingerprint);
        }
        let mut fresh = Vec::new();
        for (claim, result) in claims.iter().zip(&mut judged) {
            let is_new = || {
                let is_known = self.known.contains_key(&claim.node) || self.unsaved.contains_key(&claim.node);
                self.allowed.is_none() && !is_known
            };
            if !is_open(claim, result) {
                // A record or an enrolment has named this key; it is saved as any first key.
                if result.is_ok() && is_new() {
                    fresh.push((claim.node.clone(), claim.key.clone()));
                }
                continue;
            }
            let keys = by_node.get(&claim.node).filter(|keys| keys.len() > 1 && self.allowed.is_none());
            if !is_single(claim) {
                let others = by_key.get(claim.fingerprint.as_str()).into_iter().flatten();
                let owner =
                    others.copied().find(|other| **other != claim.node).unwrap_or(&claim.node).clone();
                *result = Err(key_of_other(claim, owner));
            } else if let Some(keys) = keys {
                let keys = keys.iter().map(|key| (*key).to_owned()).collect();
                *result = Err(EnvelopeError::Contested { node: claim.node.clone(), keys });
            } else if self.allowed.is_none() {
                fresh.push((claim.node.clone(), claim.key.clone()));
            }
        }
        self.unsaved.extend(fresh);
        judged
    }

    /// A claim against what is known before.
    fn judge_known(&self, claim: &NodeClaim) -> Result<(), EnvelopeError> {
        if let Some(owner) = self.owner_of(&claim.fingerprint).filter(|owner| **owner != claim.node) {
            return Err(key_of_other(claim, owner.clone()));
        }
        if let Some((known, place)) =
            self.expected_key(&claim.node).filter(|(known, _)| *known != claim.fingerprint)
        {
            let (node, found) = (claim.node.clone(), claim.fingerprint.clone());
            return Err(EnvelopeError::OtherKey { node, found, known, place });
        }
        if self.needs_enrolment && !self.is_vouched_for(&claim.node) {
            let (node, found) = (claim.node.clone(), claim.fingerprint.clone());
            return Err(EnvelopeError::NotEnrolled { node, found });
        }
        Ok(())
    }

    /// The node that a key belongs to, as far as this host knows.
    fn owner_of(&self, key: &str) -> Option<&NodeId> {
        let enrolled = self.enrolled.iter().find(|(_, known)| *known == key).map(|(node, _)| node);
        let saved = || {
            let all = self.known.iter().chain(&self.unsaved);
            all.filter(|_| self.allowed.is_none())
                .find(|(node, known)| !self.enrolled.contains_key(*node) && fingerprint(known) == key)
                .map(|(node, _)| node)
        };
        enrolled.or_else(saved)
    }

    /// The key that a node must sign with, and where it is known from.
    fn expected_key(&self, node: &NodeId) -> Option<(String, String)> {
        if let Some(key) = self.enrolled.get(node) {
            return Some((key.clone(), "its enrolment".to_owned()));
        }
        if let Some(key) = self.pinned.get(node) {
            return Some((key.clone(), "the rollout's record".to_owned()));
        }
        if self.allowed.is_some() {
            return None;
        }
        let known = self.known.get(node).or_else(|| self.unsaved.get(node))?;
        Some((fingerprint(known), format!("`{}`", self.first_seen_file.display())))
    }

    /// Reads the file, changes it, and writes it if `change` says so, under a lock.
    fn update_file(
        &mut self,
        change: impl FnOnce(&mut BTreeMap<NodeId, String>) -> bool,
    ) -> Result<(), EnvelopeError> {
        let changed = || -> io::Result<BTreeMap<NodeId, String>> {
            let dir = self.first_seen_file.parent().unwrap_or(Path::new("/"));
            DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
            let lock = File::open(dir)?;
            flock(&lock, FlockOperation::LockExclusive)?;
            let mut known = parse_keys(&read_keys(&self.first_seen_file)?);
            if change(&mut known) {
                let lines: String = known.iter().map(|(node, key)| format!("{node} {key}\n")).collect();
                AtomicFile::durable(0o600).single_writer().write(&self.first_seen_file, lines.as_bytes())?;
            }
            Ok(known)
        };
        let failed = |source| EnvelopeError::Keys { path: self.first_seen_file.clone(), source };
        self.known = changed().map_err(failed)?;
        Ok(())
    }
}

fn key_of_other(claim: &NodeClaim, owner: NodeId) -> EnvelopeError {
    EnvelopeError::KeyOfOther { node: claim.node.clone(), found: claim.fingerprint.clone(), owner }
}

fn read_keys(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    match File::open(path) {
        Ok(file) => file.take(MAX_KEYS_BYTES).read_to_string(&mut text).map(|_| text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(text),
        Err(error) => Err(error),
    }
}

/// Lines with a name and a key; an invalid line is skipped, and its node counts as new.
fn parse_keys(text: &str) -> BTreeMap<NodeId, String> {
    let line = |line: &str| {
        let (node, key) = line.trim().split_once(' ')?;
        Some((node.parse().ok()?, PublicKey::from_openssh(key).is_ok().then(|| key.to_owned())?))
    };
    text.lines().filter_map(line).into_map()
}

/// The fingerprint of a key in an OpenSSH line.
pub(super) fn fingerprint(key: &str) -> String {
    PublicKey::from_openssh(key)
        .map_or_else(|_| key.to_owned(), |key| key.fingerprint(HashAlg::Sha256).to_string())
}
