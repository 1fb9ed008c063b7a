//! Enrolments that were verified in, those that count out: the newest of each node that this host has ever accepted.
//!
//! Law: an enrolment that is older than one that was accepted before is never accepted again, also when somebody puts it back on
//! the board: the time in the signed text is its serial. What was accepted stays in force meanwhile (held by
//! `an_old_enrolment_is_not_accepted_again`).

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use jiff::Timestamp;
use rustix::fs::{FlockOperation, flock};
use zagent_config::atomic_file::AtomicFile;
use zagent_config::ids::NodeId;

use super::EnvelopeError;

/// Maximum bytes of the file: a hundred thousand nodes.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// What a verified enrolment says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct VerifiedEnrolment {
    /// When it was signed.
    pub(crate) at: Timestamp,
    /// The fingerprint of the key of the node.
    pub(crate) fingerprint: String,
}

/// Judges verified enrolments by those that were accepted before, and remembers the newest.
///
/// # Errors
/// Fails when the file cannot be read or written: then nothing is known about what was accepted, and no enrolment counts.
pub(super) fn accept_newest(
    path: &Path,
    verified: BTreeMap<NodeId, VerifiedEnrolment>,
) -> Result<(BTreeMap<NodeId, String>, Vec<EnvelopeError>), EnvelopeError> {
    let failed = |source| EnvelopeError::Keys { path: path.to_owned(), source };
    let dir = path.parent().unwrap_or(Path::new("/"));
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed)?;
    let lock = File::open(dir).map_err(failed)?;
    flock(&lock, FlockOperation::LockExclusive).map_err(|error| failed(error.into()))?;
    let mut seen = read(path).map_err(failed)?;
    let (mut fingerprints, mut errors, mut is_changed) = (BTreeMap::new(), Vec::new(), false);
    for (node, new) in verified {
        let known =
            seen.get(&node).filter(|known| known.at > new.at || (known.at == new.at && **known != new));
        if let Some(known) = known {
            let why = format!("it is from {}, and one from {} was accepted before", new.at, known.at);
            errors.push(EnvelopeError::Enrolment { node: node.clone(), why });
        } else if seen.get(&node) != Some(&new) {
            seen.insert(node.clone(), new);
            is_changed = true;
        }
        fingerprints.insert(node.clone(), seen[&node].fingerprint.clone());
    }
    if is_changed {
        let line =
            |(node, one): (&NodeId, &VerifiedEnrolment)| format!("{node} {} {}\n", one.at, one.fingerprint);
        let lines: String = seen.iter().map(line).collect();
        AtomicFile::durable(0o600).single_writer().write(path, lines.as_bytes()).map_err(failed)?;
    }
    Ok((fingerprints, errors))
}

/// A time for a new enrolment: now, and later than what was accepted before, also when that came from a clock ahead of ours.
///
/// # Errors
/// As [`accept_newest`].
pub(super) fn next_time(path: &Path, node: &NodeId, now: Timestamp) -> Result<Timestamp, EnvelopeError> {
    let failed = |source| EnvelopeError::Keys { path: path.to_owned(), source };
    let seen = read(path).map_err(failed)?;
    let after =
        seen.get(node).and_then(|known| known.at.checked_add(jiff::SignedDuration::from_nanos(1)).ok());
    Ok(after.map_or(now, |after| after.max(now)))
}

fn read(path: &Path) -> io::Result<BTreeMap<NodeId, VerifiedEnrolment>> {
    let mut text = String::new();
    match File::open(path) {
        Ok(file) => file.take(MAX_FILE_BYTES).read_to_string(&mut text)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(error),
    };
    let parse = |line: &str| {
        let mut words = line.split(' ');
        let (node, at, print) = (words.next()?, words.next()?, words.next()?);
        let (node, at) = (node.parse().ok()?, at.parse().ok()?);
        Some((node, VerifiedEnrolment { at, fingerprint: print.to_owned() }))
    };
    let damaged =
        |line| io::Error::new(io::ErrorKind::InvalidData, format!("line {line} is damaged; delete the file"));
    text.lines().enumerate().map(|(at, line)| parse(line).ok_or_else(|| damaged(at + 1))).collect()
}
