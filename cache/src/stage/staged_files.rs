//! The pieces of a file in, the file on the disk and its record out; and what was written made durable.
//!
//! Law: what was written is on the disk before it is published. A few files and directories are synced one by one, so
//! that a small change does not wait for what other programs write; many with one call (held by
//! `every_sync_of_a_publish_is_needed`, `every_sync_of_a_large_publish_is_needed`).

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use zagent_config::manifest;
use zagent_config::paths::tree::MANIFEST;

use crate::commit_tree::BlobSink;
use crate::generation::TREE;
use crate::record::FileRecord;
use crate::{CacheError, Refusal, RepositoryError, disk};

/// Maximum number of signatures per manifest.
const MAX_SIGNATURES: usize = 32;
/// Maximum bytes per signature.
const MAX_SIGNATURE: usize = 64 << 10;
/// How many files and directories are synced one by one.
const MAX_SYNCS: usize = 256;
/// How a Git LFS pointer starts.
const LFS_START: &[u8] = b"version https://git-lfs.github.com/spec/";

/// What was written.
#[derive(Debug, Default)]
pub(crate) struct StagedFiles {
    pub(crate) dirs: Vec<String>,
    pub(crate) files: BTreeMap<String, FileRecord>,
    pub(crate) manifest: Option<Vec<u8>>,
    pub(crate) signatures: Vec<(String, Vec<u8>)>,
    /// With a manifest: every file as seen through symlinks, and its real path.
    pub(crate) resolved_files: BTreeMap<String, String>,
    /// With a manifest: symlinks that point to nothing.
    pub(crate) broken_links: Vec<String>,
    pub(super) total: u64,
    /// Files whose content is new on this disk.
    new_files: Vec<String>,
    /// Directories whose names changed.
    pub(super) changed_dirs: BTreeSet<String>,
}

impl StagedFiles {
    /// Notes that a name was added or removed.
    pub(super) fn note_name(&mut self, path: &str) {
        let dir = path.rsplit_once('/').map_or("", |(dir, _)| dir);
        if !self.changed_dirs.contains(dir) {
            self.changed_dirs.insert(dir.to_owned());
        }
    }

    /// Makes everything durable that was written, in the directory where the tree is now.
    pub(crate) fn sync(&self, place: &Path) -> Result<(), CacheError> {
        if self.new_files.len() + self.changed_dirs.len() > MAX_SYNCS {
            return disk::sync_below(place);
        }
        let tree = place.join(TREE);
        for path in &self.new_files {
            disk::sync_file(&tree.join(path))?;
        }
        for path in &self.changed_dirs {
            disk::sync_dir(&if path.is_empty() { tree.clone() } else { tree.join(path) })?;
        }
        Ok(())
    }

    /// Writes one file with the pieces that `copy` gives.
    pub(super) fn write_file(
        &mut self,
        place: &Path,
        path: &str,
        mode: u32,
        limit: u64,
        copy: impl FnOnce(BlobSink<'_>) -> Result<(), CacheError>,
    ) -> Result<(), CacheError> {
        disk::failpoint("stage::file").map_err(disk::io_error("write", place))?;
        let file = disk::create_new(place, mode)?;
        let is_small = path == MANIFEST || manifest::is_signature(path);
        let mut new = StagedFile {
            file,
            hasher: blake3::Hasher::new(),
            start: Vec::new(),
            kept: is_small.then(Vec::new),
        };
        let mut total = self.total;
        let copied = copy(&mut |part| {
            total = total.saturating_add(part.len() as u64);
            if total > limit { Err(io::ErrorKind::FileTooLarge.into()) } else { new.write(part) }
        });
        self.total = total;
        match copied {
            _ if total > limit => return Err(RepositoryError::TooMuch { limit }.into()),
            Err(CacheError::Repository(RepositoryError::Copy { source, .. })) => {
                return Err(disk::io_error("write", place)(source));
            }
            copied => copied?,
        }
        if new.start == LFS_START {
            tracing::warn!(
                path,
                "this is a Git LFS pointer, not the file itself: zagent does not fetch LFS files"
            );
        }
        let meta = new.file.metadata().map_err(disk::io_error("stat", place))?;
        self.files.insert(path.to_owned(), FileRecord::new(&new.hasher.finalize(), &meta));
        self.new_files.push(path.to_owned());
        let Some(bytes) = new.kept else { return Ok(()) };
        if path == MANIFEST {
            self.manifest = Some(bytes);
        } else {
            if self.signatures.len() >= MAX_SIGNATURES || bytes.len() > MAX_SIGNATURE {
                return Err(Refusal::Signatures { path: path.into() }.into());
            }
            self.signatures.push((path.to_owned(), bytes));
        }
        Ok(())
    }
}

/// A file while it is written.
struct StagedFile {
    file: File,
    hasher: blake3::Hasher,
    /// Its first bytes.
    start: Vec<u8>,
    /// All its bytes, for a manifest or a signature.
    kept: Option<Vec<u8>>,
}

impl StagedFile {
    fn write(&mut self, part: &[u8]) -> io::Result<()> {
        if part.is_empty() {
            return Ok(());
        }
        let room = LFS_START.len() - self.start.len();
        self.start.extend_from_slice(&part[..part.len().min(room)]);
        if let Some(kept) = &mut self.kept {
            kept.extend_from_slice(part);
        }
        self.hasher.update(part);
        disk::failpoint("disk::write")?;
        self.file.write_all(part)
    }
}
