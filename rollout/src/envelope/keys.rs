//! The keys of the nodes: from a list that people maintain, or else the first key seen.
//!
//! Law: if there is a list, only the list counts. Without one, the first key that a node signs with is saved, and
//! another key is refused until a person forgets the first one. A key in a rollout record is enforced as well.

use std::collections::BTreeMap;
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
        }
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

    /// The fingerprint of the key that signed, if it belongs to the node.
    pub(super) fn verify_signer(
        &mut self,
        node: &NodeId,
        message: &[u8],
        signature: &[u8],
        now: Timestamp,
    ) -> Result<String, EnvelopeError> {
        let bad = |source| EnvelopeError::Signature { node: node.clone(), source };
        let (found, key) = match (&self.allowed, &self.signers) {
            (Some(_), Some(signers)) => (
                signers.verify_report(node.as_str(), message, signature, now).map_err(bad)?.fingerprint,
                None,
            ),
            (Some(path), None) => return Err(bad(SignatureError::NoSigners { path: path.clone() })),
            (None, _) => {
                let key = report_key(message, signature).map_err(bad)?;
                (fingerprint(&key), Some(key))
            }
        };
        if let Some(known) = self.pinned.get(node).filter(|known| **known != found) {
            let (node, known, place) = (node.clone(), known.clone(), "the rollout's record".to_owned());
            return Err(EnvelopeError::OtherKey { node, found, known, place });
        }
        if let Some(key) = key {
            // A key is saved only if nothing else contradicts it.
            self.check_first_seen(node, &key)?;
        }
        Ok(found)
    }

    /// Pins a node to its first key.
    fn check_first_seen(&mut self, node: &NodeId, key: &str) -> Result<(), EnvelopeError> {
        if !self.known.contains_key(node) {
            self.unsaved.entry(node.clone()).or_insert_with(|| key.to_owned());
        }
        match self.known.get(node).or_else(|| self.unsaved.get(node)) {
            Some(known) if known != key => {
                let place = format!("`{}`", self.first_seen_file.display());
                let (node, found, known) = (node.clone(), fingerprint(key), fingerprint(known));
                Err(EnvelopeError::OtherKey { node, found, known, place })
            }
            _ => Ok(()),
        }
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
    text.lines().filter_map(line).collect()
}

fn fingerprint(key: &str) -> String {
    PublicKey::from_openssh(key)
        .map_or_else(|_| key.to_owned(), |key| key.fingerprint(HashAlg::Sha256).to_string())
}
