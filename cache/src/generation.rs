//! A published tree: complete, never changed, and identified by a name that contains the digest of its record.
//!
//! Law: a generation is opened by its name once, and then read through its own path, never through `current`: a run
//! sees one tree from start to end (held by `a_reader_never_sees_a_missing_or_mixed_tree`).

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FlockOperation, flock};
use std::os::unix::fs::MetadataExt;
use zagent_config::paths::Paths;

use crate::record::{self, GenerationRecord};
use crate::{CacheError, TamperError, disk};

/// The tree in a generation's directory.
pub(crate) const TREE: &str = "tree";
/// The record beside it.
pub(crate) const RECORD: &str = "record.json";
/// The maximum size of a record: a hundred thousand files with long names fit.
const MAX_RECORD: u64 = 256 << 20;
/// Digits of the record digest in a generation name.
const DIGEST: usize = 16;

/// A published tree.
#[derive(Clone, Debug)]
#[must_use]
pub struct Generation {
    name: String,
    root_dir: PathBuf,
    dir: PathBuf,
    paths: Paths,
    record: Arc<GenerationRecord>,
}

/// Protects a generation from pruning while this value lives.
#[derive(Debug)]
#[must_use]
pub struct GenerationPin(#[expect(dead_code, reason = "closing it releases the lock")] File);

impl Generation {
    /// Opens the generation with that name and checks its record against the name.
    pub(crate) fn open(paths: &Paths, name: &str) -> Result<Self, CacheError> {
        let unknown = || CacheError::NoGeneration { name: name.into() };
        let digest = record_digest(name).ok_or_else(unknown)?;
        let home = paths.generation(name);
        let path = home.join(RECORD);
        let damaged = |what| TamperError { generation: name.into(), path: RECORD.into(), what };
        let bytes = disk::read(&path, MAX_RECORD)?.ok_or_else(unknown)?;
        if !blake3::hash(&bytes).to_hex().starts_with(digest) {
            return Err(damaged("was edited").into());
        }
        let record: GenerationRecord =
            serde_json::from_slice(&bytes).map_err(|_| damaged("cannot be read"))?;
        if record.schema != record::SCHEMA {
            return Err(damaged("was written by another version of the agent").into());
        }
        Ok(Self::new(paths, name.into(), record))
    }

    /// The generation with that name and record, which are on the disk.
    pub(crate) fn new(paths: &Paths, name: String, record: GenerationRecord) -> Self {
        let root_dir = paths.generation(&name);
        let dir = root_dir.join(TREE);
        Self { name, root_dir, dir, paths: paths.clone(), record: Arc::new(record) }
    }

    /// The paths of the cache that it is in.
    pub(crate) const fn paths(&self) -> &Paths {
        &self.paths
    }

    /// True when `current` points to it.
    pub(crate) fn is_current(&self) -> bool {
        let target = std::fs::read_link(self.paths.current());
        target.is_ok_and(|target| target.file_name().is_some_and(|name| *name == *self.name))
    }

    /// Its name: an increasing number, the short revision, and the digest of its record.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The tree.
    #[must_use]
    pub fn tree_dir(&self) -> &Path {
        &self.dir
    }

    /// The directory that contains the tree and the record.
    pub(crate) fn root_dir(&self) -> &Path {
        &self.root_dir
    }

    /// Its record.
    #[must_use]
    pub fn record(&self) -> &GenerationRecord {
        &self.record
    }

    /// Protects it from pruning until the pin is dropped.
    ///
    /// # Errors
    /// Fails when it was pruned at the same moment.
    pub fn pin(&self) -> Result<GenerationPin, CacheError> {
        let path = self.root_dir.join(RECORD);
        let gone = || CacheError::NoGeneration { name: self.name.clone() };
        let file = File::open(&path).map_err(|_| gone())?;
        flock(&file, FlockOperation::NonBlockingLockShared).map_err(|_| gone())?;
        // Pruning takes the lock, then moves the directory away: a directory that still exists now stays.
        let inode = |meta: std::fs::Metadata| meta.ino();
        match (file.metadata().map(inode), std::fs::metadata(&path).map(inode)) {
            (Ok(held), Ok(there)) if held == there => Ok(GenerationPin(file)),
            _ => Err(gone()),
        }
    }
}

/// The name of a generation.
pub(crate) fn generation_name(number: u64, revision: &str, record: &[u8]) -> String {
    format!(
        "{number:08}-{}-{}",
        zagent_config::ids::short_revision(revision),
        &blake3::hash(record).to_hex()[..DIGEST]
    )
}

/// The number in a name.
pub(crate) fn generation_number(name: &str) -> Option<u64> {
    name.split('-').next()?.parse().ok()
}

/// The names of generations that were published, oldest first; their records are not read.
pub(crate) fn published_names(paths: &Paths) -> Result<Vec<String>, CacheError> {
    let home = paths.generations();
    let mut names = disk::list_names(&home)?;
    names.retain(|name| record_digest(name).is_some() && home.join(name).join(RECORD).exists());
    Ok(names)
}

/// The generation that was current before another one; its record is read no further than for that.
pub(crate) fn previous_name(paths: &Paths, name: &str) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Predecessor {
        previous: Option<String>,
    }
    let bytes = disk::read(&paths.generation(name).join(RECORD), MAX_RECORD).ok()??;
    serde_json::from_slice::<Predecessor>(&bytes).ok()?.previous
}

/// The digest in a name; `None` when this is not a generation name.
fn record_digest(name: &str) -> Option<&str> {
    let mut parts = name.split('-');
    let (number, short, digest) = (parts.next()?, parts.next()?, parts.next()?);
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
    let fits = parts.next().is_none()
        && number.len() >= 8
        && number.bytes().all(|b| b.is_ascii_digit())
        && digits(short)
        && digits(digest)
        && digest.len() == DIGEST;
    fits.then_some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        let made = generation_name(7, "dir:0123456789abcdef", b"record");
        assert!(made.starts_with("00000007-0123456789ab-"), "{made}");
        assert_eq!(generation_number(&made), Some(7));
        assert_eq!(record_digest(&made).unwrap().len(), DIGEST);
        for bad in [
            "",
            ".",
            "..",
            "../../etc",
            "7-ab-0123456789abcdef",
            "00000007-ab",
            "00000007-ab-0123456789abcdeg",
        ] {
            assert_eq!(record_digest(bad), None, "{bad}");
        }
    }
}
