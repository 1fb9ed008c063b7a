//! Replay protection: the record of what was accepted before; nothing older is accepted.
//!
//! Law: stored in two places, each with a checksum; the newer one wins and repairs the other; both are on disk
//! before `current` moves. Losing the cache, or one of the two records, does not allow a downgrade (held by
//! `a_superseded_commit_is_refused`, `an_older_replay_protection_record_is_ignored`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use zagent_config::paths::Paths;

use crate::{Cache, CacheError, Generation, disk};

/// Maximum bytes of a replay protection record.
const MAX_BYTES: u64 = 16 << 20;
/// How many superseded revisions are remembered per line.
const MAX_SUPERSEDED: usize = 1000;
/// How many lines are remembered: the followed branch, a testing branch, and pinned revisions.
const MAX_BRANCHES: usize = 16;
/// The start of the first line of the file.
const MAGIC: &str = "zagent floor 1";

/// The whole record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReplayFloor {
    /// Increases with every change: the higher one is newer.
    sequence: u64,
    /// By branch: a testing branch must not raise the floor of the branch it is based on.
    lines: BTreeMap<String, BranchFloor>,
}

/// What was accepted for one line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BranchFloor {
    /// When it last changed, by sequence number.
    touched: u64,
    /// The newest revision.
    pub(crate) revision: String,
    /// When that commit was made.
    pub(crate) committed: Option<Timestamp>,
    /// The highest serial.
    pub(crate) serial: Option<u64>,
    /// The digest of the manifest with that serial.
    pub(crate) manifest: Option<String>,
    /// Revisions that newer ones replaced, oldest first.
    pub(crate) superseded: Vec<String>,
}

/// The state of one stored record.
enum FloorCopy {
    Missing,
    Damaged,
    Good(ReplayFloor),
}

/// The replay protection records that cannot be used: one that is missing or damaged while the other is not, or both.
#[must_use]
pub fn damaged_replay_records(paths: &Paths) -> Vec<PathBuf> {
    let places = [paths.floor(), paths.floor_copy()];
    let copies = places.each_ref().map(|place| FloorCopy::read(place));
    if copies.iter().all(|copy| matches!(copy, FloorCopy::Missing)) {
        return Vec::new();
    }
    let is_bad = |copy: &FloorCopy| !matches!(copy, FloorCopy::Good(_));
    places.into_iter().zip(&copies).filter(|(_, copy)| is_bad(copy)).map(|(place, _)| place).collect()
}

impl ReplayFloor {
    /// Reads both records; also returns the paths of those that need a rewrite.
    ///
    /// # Errors
    /// Fails when one record is damaged and the other is missing.
    pub(crate) fn read(cache: &Cache) -> Result<(Self, Vec<PathBuf>), CacheError> {
        let paths = cache.paths();
        let (place, second) = (paths.floor(), paths.floor_copy());
        match (FloorCopy::read(&place), FloorCopy::read(&second)) {
            (FloorCopy::Good(one), FloorCopy::Good(other)) if one == other => Ok((one, Vec::new())),
            (FloorCopy::Good(one), FloorCopy::Good(other)) if one.sequence < other.sequence => {
                Ok((other, vec![place]))
            }
            (FloorCopy::Good(floor), _) => Ok((floor, vec![second])),
            (_, FloorCopy::Good(floor)) => Ok((floor, vec![place])),
            (FloorCopy::Missing, FloorCopy::Missing) => {
                Ok((Self::from_generations(&cache.list()?), Vec::new()))
            }
            _ => Err(CacheError::FloorDamaged { floor: place, copy: second }),
        }
    }

    /// Reads both records and rewrites the one that is missing, damaged or outdated.
    ///
    /// # Errors
    /// As [`FloorDamaged::read`], and when it cannot be written.
    pub(crate) fn repair(cache: &Cache) -> Result<Self, CacheError> {
        let (floor, behind) = Self::read(cache)?;
        for place in behind {
            tracing::warn!(path = %place.display(), "a replay protection record was missing, damaged or outdated; rewriting it");
            disk::write_atomic(&place, &floor.to_bytes())?;
        }
        Ok(floor)
    }

    /// The floor that follows from the published generations, oldest first; used when both records are missing.
    fn from_generations(generations: &[Generation]) -> Self {
        let mut floor = Self::default();
        for generation in generations {
            let record = generation.record();
            floor.accept(
                &record.line,
                &AcceptedRevision {
                    revision: &record.revision,
                    committed: record.committed,
                    manifest: record.serial.map(|serial| (serial, String::new())),
                    rewound: false,
                },
            );
        }
        if floor != Self::default() {
            tracing::warn!(
                "both replay protection records are missing; rebuilding them from the kept generations"
            );
        }
        floor
    }

    /// True when nothing was accepted yet.
    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    pub(crate) fn branch(&self, line: &str) -> Option<&BranchFloor> {
        self.lines.get(line)
    }

    /// Adds the revision that is about to be published.
    pub(crate) fn accept(&mut self, line: &str, new: &AcceptedRevision<'_>) {
        self.sequence += 1;
        let touched = self.sequence;
        let entry = self.lines.entry(line.to_owned()).or_default();
        entry.accept(new);
        entry.touched = touched;
        while self.lines.len() > MAX_BRANCHES {
            let oldest = self.lines.iter().min_by_key(|(_, line)| line.touched).map(|(name, _)| name.clone());
            oldest.and_then(|name| self.lines.remove(&name));
        }
    }

    /// Writes both records; durable when it returns.
    pub(crate) fn write(&self, paths: &Paths) -> Result<(), CacheError> {
        let bytes = self.to_bytes();
        disk::write_atomic(&paths.floor(), &bytes)?;
        disk::failpoint("publish::floor_half").map_err(disk::io_error("write", &paths.floor_copy()))?;
        disk::write_atomic(&paths.floor_copy(), &bytes)
    }

    fn to_bytes(&self) -> Vec<u8> {
        let body = serde_json::to_string(self).unwrap_or_default();
        format!("{MAGIC} {}\n{body}\n", blake3::hash(body.as_bytes()).to_hex()).into_bytes()
    }
}

/// The revision to add.
pub(crate) struct AcceptedRevision<'a> {
    pub(crate) revision: &'a str,
    pub(crate) committed: Option<Timestamp>,
    /// Its serial and its digest.
    pub(crate) manifest: Option<(u64, String)>,
    /// True when an operator allowed it although it is older.
    pub(crate) rewound: bool,
}

impl BranchFloor {
    fn accept(&mut self, new: &AcceptedRevision<'_>) {
        let at = self.superseded.iter().position(|old| old == new.revision);
        match at {
            // Revisions after it may be accepted again: an operator decided to leave them, they were not replaced.
            Some(at) if new.rewound => self.superseded.truncate(at),
            _ if self.revision.is_empty() || self.revision == new.revision => {}
            _ => {
                self.superseded.retain(|old| old != new.revision);
                self.superseded.push(std::mem::take(&mut self.revision));
            }
        }
        let surplus = self.superseded.len().saturating_sub(MAX_SUPERSEDED);
        self.superseded.drain(..surplus);
        new.revision.clone_into(&mut self.revision);
        self.committed = new.committed;
        if new.manifest.is_some() || new.rewound {
            self.serial = new.manifest.as_ref().map(|(serial, _)| *serial);
            self.manifest = new.manifest.as_ref().map(|(_, digest)| digest.clone());
        }
    }

    /// True when this manifest is the one with the highest serial.
    pub(crate) fn is_manifest(&self, serial: u64, digest: &str) -> bool {
        self.serial == Some(serial) && self.manifest.as_deref() == Some(digest)
    }

    /// True when the highest serial was accepted with a different manifest.
    pub(crate) fn is_other_manifest(&self, digest: &str) -> bool {
        self.manifest.as_deref().is_some_and(|known| !known.is_empty() && known != digest)
    }

    /// True when a newer revision replaced this one.
    pub(crate) fn has_superseded(&self, revision: &str) -> bool {
        self.superseded.iter().any(|old| old == revision)
    }
}

impl FloorCopy {
    /// An unreadable record counts as damaged: the other record remains.
    fn read(place: &Path) -> Self {
        match disk::read(place, MAX_BYTES) {
            Ok(Some(bytes)) => Self::parse(&bytes).map_or(Self::Damaged, Self::Good),
            Ok(None) => Self::Missing,
            Err(_) => Self::Damaged,
        }
    }

    fn parse(bytes: &[u8]) -> Option<ReplayFloor> {
        let (head, body) = std::str::from_utf8(bytes).ok()?.split_once('\n')?;
        let digest = head.strip_prefix(MAGIC)?.trim();
        let body = body.strip_suffix('\n')?;
        let whole = blake3::hash(body.as_bytes()).to_hex().as_str() == digest;
        if whole { serde_json::from_str(body).ok() } else { None }
    }
}
