//! The stamps of the files of the current generation, as they were when their content was last compared.
//!
//! A new name for a file, or one name less, moves its change time: generations share files, so publishing and pruning
//! does that to files that nobody touched. The check then compares the content and saves here what it saw, so that the
//! next check need not.
//!
//! Law: saved is only what was read before the content was hashed and found right: a file that changes afterwards has
//! another change time. Who can write this file can as well replace the generation with its record: both lie in the
//! directory that only the agent can write. A file that is damaged, or belongs to another generation, is ignored, and
//! content is compared instead (held by `damaged_stamps_are_not_believed`).

use zagent_config::atomic_file::AtomicFile;

use crate::record::TreeFileStamp;
use crate::{Generation, disk};

/// The start of the file.
const MAGIC: &[u8] = b"zagent stamps 1\n";
/// Bytes of a digest.
const DIGEST: usize = blake3::OUT_LEN;
/// Bytes of a stamp.
const STAMP: usize = 24;

/// The stamps of a generation's files, in the order of its record.
pub(crate) fn load(generation: &Generation) -> Vec<TreeFileStamp> {
    let files = &generation.record().files;
    let limit = (MAGIC.len() + DIGEST + files.len() * STAMP) as u64;
    let bytes = disk::read(&generation.paths().stamps(), limit).ok().flatten();
    let saved = bytes.and_then(|bytes| parse(generation.name(), &bytes));
    match saved {
        Some(saved) if saved.len() == files.len() => saved,
        _ => files.values().map(|file| file.stamp).collect(),
    }
}

/// Saves the stamps of a generation. What cannot be saved is compared again.
pub(crate) fn save(generation: &Generation, stamps: &[TreeFileStamp]) {
    let mut body = Vec::with_capacity(stamps.len() * STAMP);
    for stamp in stamps {
        body.extend_from_slice(&stamp.inode.to_le_bytes());
        body.extend_from_slice(&stamp.modified.to_le_bytes());
        body.extend_from_slice(&stamp.changed.to_le_bytes());
    }
    let digest = digest(generation.name(), &body);
    let bytes = [MAGIC, digest.as_bytes(), &body].concat();
    if let Err(error) = AtomicFile::cached(0o600).write(&generation.paths().stamps(), &bytes) {
        tracing::debug!(%error, "cannot save the stamps of the current generation");
    }
}

fn digest(name: &str, body: &[u8]) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&(name.len() as u64).to_le_bytes()).update(name.as_bytes()).update(body);
    hasher.finalize()
}

fn parse(name: &str, bytes: &[u8]) -> Option<Vec<TreeFileStamp>> {
    let (found, body) = bytes.strip_prefix(MAGIC)?.split_at_checked(DIGEST)?;
    let (stamps, []) = body.as_chunks::<STAMP>() else { return None };
    if digest(name, body).as_bytes() != found {
        return None;
    }
    let number = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).unwrap_or_default();
    let stamp = |bytes: &[u8; STAMP]| TreeFileStamp {
        inode: number(&bytes[..8]),
        modified: number(&bytes[8..16]).cast_signed(),
        changed: number(&bytes[16..]).cast_signed(),
    };
    Some(stamps.iter().map(stamp).collect())
}
