//! The record of a generation: where it came from, who signed it, and all its files.
//!
//! Law: written once, beside the tree, before the generation gets its name; the name contains the digest of the
//! record, so an edited record no longer matches its generation (held by
//! `an_edited_record_does_not_match_its_generation`).

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use jiff::Timestamp;
use rustix::fs::Stat;
use serde::{Deserialize, Serialize};

use crate::trust::Signer;

/// The version of the format.
pub(crate) const SCHEMA: u32 = 1;

/// Bytes of the list of files that are hashed at once.
const HASHED_AT_ONCE: usize = 32 << 10;

const FILE_TYPE_MASK: u32 = 0o170_000;
const LINK: u32 = 0o120_000;

/// The whole record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GenerationRecord {
    /// The version of this format.
    pub schema: u32,
    /// The commit, or `dir:` and a digest.
    pub revision: String,
    /// The branch whose head it was, or another name of the line of versions.
    pub line: String,
    /// The URL it came from, without a password.
    pub source: String,
    /// The manifest's serial.
    pub serial: Option<u64>,
    /// When the manifest expires.
    pub expires: Option<Timestamp>,
    /// Who signed it.
    pub signers: Vec<Signer>,
    /// When the commit was made.
    pub committed: Option<Timestamp>,
    /// When it was published here.
    pub published: Timestamp,
    /// The generation that was current before it.
    pub previous: Option<String>,
    /// The digest of the list of files.
    pub content: String,
    /// Every directory.
    pub dirs: Vec<String>,
    /// Every file and link, by its path.
    pub files: BTreeMap<String, FileRecord>,
}

/// A file or a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRecord {
    /// The digest of its bytes, or of its target.
    pub blake3: String,
    /// Its mode, the kind of file included.
    pub mode: u32,
    /// Its size in bytes.
    pub size: u64,
    /// File system data that changes when anyone modifies the file.
    pub stamp: TreeFileStamp,
    /// The Git object that it was written from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
}

/// The file system metadata of an unmodified file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeFileStamp {
    /// The number of its inode.
    pub inode: u64,
    /// When its content changed, in nanoseconds.
    pub modified: i64,
    /// When its content or metadata changed, in nanoseconds.
    pub changed: i64,
}

impl TreeFileStamp {
    /// Of a file.
    #[must_use]
    pub fn from_metadata(meta: &Metadata) -> Self {
        Self {
            inode: meta.ino(),
            modified: nanoseconds(meta.mtime(), meta.mtime_nsec()),
            changed: nanoseconds(meta.ctime(), meta.ctime_nsec()),
        }
    }

    /// The same, from a system call.
    pub(crate) fn from_stat(meta: &Stat) -> Self {
        let rest = |nanoseconds| i64::try_from(nanoseconds).unwrap_or_default();
        Self {
            inode: meta.st_ino,
            modified: nanoseconds(meta.st_mtime, rest(meta.st_mtime_nsec)),
            changed: nanoseconds(meta.st_ctime, rest(meta.st_ctime_nsec)),
        }
    }
}

const fn nanoseconds(seconds: i64, rest: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}

impl FileRecord {
    pub(crate) fn new(blake3: &blake3::Hash, meta: &Metadata) -> Self {
        Self {
            blake3: blake3.to_hex().to_string(),
            mode: meta.mode(),
            size: meta.size(),
            stamp: TreeFileStamp::from_metadata(meta),
            blob: None,
        }
    }

    /// True for a link.
    #[must_use]
    pub fn is_link(&self) -> bool {
        self.mode & FILE_TYPE_MASK == LINK
    }

    /// True for an executable file.
    #[must_use]
    pub fn is_executable(&self) -> bool {
        !self.is_link() && self.mode & 0o100 != 0
    }
}

impl GenerationRecord {
    /// A short form of the revision, for people.
    #[must_use]
    pub fn short_revision(&self) -> &str {
        zagent_config::ids::short_revision(&self.revision)
    }
}

/// The digest of a list of files: equal digests mean equal trees.
pub(crate) fn content_digest(dirs: &[String], files: &BTreeMap<String, FileRecord>) -> String {
    let (mut hasher, mut text) = (blake3::Hasher::new(), Vec::with_capacity(HASHED_AT_ONCE));
    let mut line = |kind: &str, path: &str, digest: &str| {
        for part in [kind, path, digest] {
            text.extend_from_slice(&(part.len() as u64).to_le_bytes());
            text.extend_from_slice(part.as_bytes());
        }
        if text.len() >= HASHED_AT_ONCE {
            hasher.update(&text);
            text.clear();
        }
    };
    for dir in dirs {
        line("dir", dir, "");
    }
    for (path, file_record) in files {
        let kind = match (file_record.is_link(), file_record.is_executable()) {
            (true, _) => "link",
            (_, true) => "program",
            _ => "file",
        };
        line(kind, path, &file_record.blake3);
    }
    hasher.update(&text);
    hasher.finalize().to_hex().to_string()
}
