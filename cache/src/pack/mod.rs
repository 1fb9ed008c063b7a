//! A pack from a remote in, a pack with its index in the store out.
//!
//! Law: everything is bounded while it arrives, before it is written or hashed: objects, the size of each, the sum of all
//! with deltas applied, the length of delta chains. Memory does not grow with the pack: large objects are in unnamed files (held by
//! `bombs_are_refused_in_little_time_memory_and_disk`, `a_large_honest_pack_takes_little_memory`).
//!
//! ## Why not the Git library's index writer
//! It keeps every result of one base's deltas in memory: an 8 MB pack takes 750 MB, and nothing stops it.

mod delta;
mod entry;
mod index;
mod inflate;
mod object_buffer;
mod pack_objects;
mod pack_set;
mod resolve;
mod scan;

use std::fs::File;
use std::io::{self, BufRead};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use gix::ObjectId;
use gix::hash::Kind as HashKind;
use gix::objs::Kind;

use crate::Refusal;

/// Takes the kind and the size of an object, and its bytes piece by piece.
pub(crate) type ObjectSink<'a> = dyn FnMut(Kind, u64, &[u8]) -> io::Result<()> + 'a;

pub(crate) use pack_set::PackSet;
pub(crate) use scan::ScannedPack;

/// The longest chain of deltas. Git itself writes chains of 50, and of 250 when asked for small packs.
const MAX_DELTA_DEPTH: usize = 512;
/// The most objects of a pack: what is known of each is held in memory, 18 MB for all.
const MAX_OBJECTS: u32 = 400_000;
/// The maximum size of a commit object.
pub(crate) const MAX_COMMIT_BYTES: u64 = 1 << 20;
/// The maximum size of a directory: more than a hundred thousand names.
const MAX_TREE_BYTES: u64 = 16 << 20;
/// How many bytes may arrive, unpacked, before the commit that they belong to. Git sends commits first.
const MAX_UNJUDGED_BYTES: u64 = 16 << 20;
/// How many times a byte of the unpacked objects may be produced while deltas are applied: a base that was dropped from
/// memory is made again.
const MAX_EXPANSION: u64 = 8;

/// The limits of one pack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PackLimits {
    /// Number of objects.
    pub(crate) objects: u32,
    /// Bytes of one object, with its deltas applied.
    pub(crate) object_bytes: u64,
    /// Bytes of all objects, with their deltas applied.
    pub(crate) total_bytes: u64,
}

impl PackLimits {
    /// The limits for a pack with at most that many objects.
    pub(crate) fn new(objects: u64, object_bytes: u64, total_bytes: u64) -> Self {
        let objects = u32::try_from(objects).unwrap_or(MAX_OBJECTS).min(MAX_OBJECTS);
        Self { objects, object_bytes: object_bytes.min(u64::from(u32::MAX) / 2), total_bytes }
    }

    /// The limits for commits alone.
    pub(crate) fn for_commits(commits: u64) -> Self {
        Self::new(commits, MAX_COMMIT_BYTES, MAX_COMMIT_BYTES.saturating_mul(commits.max(16)) / 16)
    }
}

/// What is expected of a pack before its objects count.
pub(crate) enum CommitGate<'a> {
    /// Nothing: what it belongs to was judged before.
    Open,
    /// This commit, which passes: until it arrives, other objects are neither hashed nor kept for long.
    Judge(ObjectId, &'a mut dyn FnMut(&[u8]) -> Result<(), Refusal>),
}

/// Why a pack is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PackError {
    /// The stream ended, or the connection failed.
    #[error("the pack does not arrive completely")]
    Receive(#[source] io::Error),
    /// The pack cannot be written or read back.
    #[error("cannot store the pack")]
    Store(#[source] io::Error),
    /// It is not a valid pack.
    #[error("the pack is damaged at byte {offset}: {why}")]
    Damaged {
        /// Where.
        offset: u64,
        /// The problem.
        why: &'static str,
    },
    /// A limit is exceeded.
    #[error("the pack has {what} than {limit}")]
    Limit {
        /// What there is too much of.
        what: &'static str,
        /// The most that is accepted.
        limit: u64,
    },
    /// It does not have the commit.
    #[error("the pack does not contain the requested commit")]
    NoCommit,
    /// A delta's base is neither in the pack nor in the store.
    #[error("the pack lacks the base {base} of a delta")]
    NoBase {
        /// The base.
        base: ObjectId,
    },
    /// The commit is refused.
    #[error("the commit is refused")]
    Refused(#[source] Box<Refusal>),
    /// The time limit ended.
    #[error("the time limit ended")]
    Stopped,
}

impl PackError {
    pub(crate) fn damaged(offset: u64, why: &'static str) -> Self {
        Self::Damaged { offset, why }
    }
}

/// Receives a pack into an unnamed file in `dir`; nothing is resolved yet.
///
/// # Errors
/// Fails when it is damaged, exceeds a limit, or its commit is refused.
pub(crate) fn receive(
    input: &mut dyn BufRead,
    dir: &Path,
    limits: PackLimits,
    gate: CommitGate<'_>,
    stop: &AtomicBool,
) -> Result<ScannedPack, PackError> {
    scan::scan(input, unnamed_file(dir)?, limits, gate, stop)
}

/// Resolves the deltas of a pack, hashes its objects, and adds it to the store in `dir`.
///
/// # Errors
/// Fails when a delta cannot be applied, or something cannot be written.
pub(crate) fn install(pack: ScannedPack, dir: &Path, stop: &AtomicBool) -> Result<(), PackError> {
    let packs = dir.join("objects/pack");
    let mut store = PackSet::open(&packs, pack.limits).map_err(PackError::Store)?;
    let resolved = resolve::resolve(pack, &packs, &mut store, stop)?;
    index::install(&resolved, &packs).map_err(PackError::Store)
}

/// A file without a name, which the kernel removes when it is closed.
fn unnamed_file(dir: &Path) -> Result<File, PackError> {
    std::fs::create_dir_all(dir).and_then(|()| tempfile::tempfile_in(dir)).map_err(PackError::Store)
}

/// Fails for a directory that is too large: directories are read as a whole.
fn check_tree(kind: Kind, size: u64) -> Result<(), PackError> {
    match kind == Kind::Tree && size > MAX_TREE_BYTES {
        true => Err(PackError::Limit { what: "a directory with more bytes", limit: MAX_TREE_BYTES }),
        false => Ok(()),
    }
}

/// The id of an object whose bytes come one after the other.
pub(crate) struct ObjectHasher(gix::hash::Hasher);

impl ObjectHasher {
    pub(crate) fn new(kind: Kind, size: u64) -> Self {
        let mut hasher = gix::hash::hasher(HashKind::Sha1);
        hasher.update(kind.as_bytes());
        hasher.update(format!(" {size}\0").as_bytes());
        Self(hasher)
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn finish(self, offset: u64) -> Result<ObjectId, PackError> {
        self.0.try_finalize().map_err(|_| PackError::damaged(offset, "an object is a SHA-1 collision attack"))
    }
}

#[cfg(feature = "testing")]
pub(crate) mod testing {
    //! Any bytes in, a verdict out: for tests that feed damaged packs.

    use std::io;
    use std::path::Path;
    use std::sync::atomic::AtomicBool;

    use gix::objs::Kind;

    use super::{CommitGate, PackLimits};

    /// The start of an entry that holds a whole object.
    pub(crate) fn header(kind: Kind, size: u64) -> Vec<u8> {
        super::entry::write_header(kind, size)
    }

    /// Receives and resolves a pack below `dir` with these limits: objects, bytes per object, bytes in all.
    ///
    /// # Errors
    /// Says why the pack is refused.
    pub fn read_pack(bytes: &[u8], dir: &Path, (objects, each, all): (u64, u64, u64)) -> io::Result<()> {
        let (limits, stop) = (PackLimits::new(objects, each, all), AtomicBool::new(false));
        let mut input = bytes;
        super::receive(&mut input, &dir.join("objects/pack"), limits, CommitGate::Open, &stop)
            .and_then(|pack| super::install(pack, dir, &stop))
            .map_err(|error| io::Error::other(zagent_config::error_chain(&error)))
    }
}
