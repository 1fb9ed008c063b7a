//! A packed file in, its bytes piece by piece out, or an error when they do not hash to its id.

use std::io;
use std::path::Path;

use gix::ObjectId;
use gix::objs::Kind;

use crate::RepositoryError;
use crate::pack::{ObjectHasher, PackLimits, PackSet};

/// The maximum size of an object that is read.
pub(crate) const MAX_OBJECT: u64 = 1 << 30;

/// The packs of the repository in a directory.
pub(crate) fn open_packs(dir: &Path) -> Result<PackSet, RepositoryError> {
    let limits = PackLimits::new(u64::MAX, MAX_OBJECT, u64::MAX);
    PackSet::open(&dir.join("objects/pack"), limits)
        .map_err(|source| RepositoryError::Store { dir: dir.into(), source })
}

/// Gives the bytes of a file to `sink`, piece by piece, and fails unless they hash to its id. `path` names it in errors.
pub(crate) fn copy_blob(
    packs: &mut PackSet,
    id: ObjectId,
    path: &str,
    limit: u64,
    sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> Result<(), RepositoryError> {
    let mut hasher = None;
    let (mut size, mut sink_error) = (0, None);
    let found = packs.copy(&id, &mut |kind, bytes, part| {
        size = bytes;
        if kind != Kind::Blob || bytes > limit {
            return Err(io::Error::other("not a file, or too large"));
        }
        hasher.get_or_insert_with(|| ObjectHasher::new(kind, bytes)).update(part);
        sink(part).map_err(|error| {
            sink_error = Some(error);
            io::Error::other("the content cannot be written")
        })
    });
    if size > limit {
        return Err(RepositoryError::TooLarge { path: path.into(), size, limit });
    }
    if let Some(source) = sink_error {
        return Err(RepositoryError::Copy { path: path.into(), source });
    }
    let hash = hasher.and_then(|hasher| hasher.finish(0).ok());
    match found {
        Ok(true) if hash == Some(id) => Ok(()),
        _ => Err(RepositoryError::Damaged { path: path.into(), id: id.to_string() }),
    }
}
