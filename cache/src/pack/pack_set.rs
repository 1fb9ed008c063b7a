//! All packs of a store in, objects by id out, also large ones, in little memory.
//!
//! Law: what is returned is not trusted: the caller compares the hash with the id (held by
//! `changed_packs_are_never_accepted`).

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use gix::hash::{Kind as HashKind, oid};

use super::pack_objects::{LoadedObject, PackObjects};
use super::{ObjectSink, PackError, PackLimits};

/// The packs of one store.
pub(crate) struct PackSet(Vec<StoredPack>);

struct StoredPack {
    index: gix_pack::index::File,
    objects: PackObjects,
}

impl PackSet {
    /// Opens the packs in a directory; a damaged one counts as missing.
    pub(crate) fn open(dir: &Path, limits: PackLimits) -> io::Result<Self> {
        let mut packs = Vec::new();
        for entry in std::fs::read_dir(dir)? {
            let path: PathBuf = entry?.path();
            if path.extension().is_none_or(|end| end != "idx") {
                continue;
            }
            let index = gix_pack::index::File::at(&path, HashKind::Sha1);
            let (Ok(index), Ok(file)) = (index, File::open(path.with_extension("pack"))) else { continue };
            packs.push(StoredPack { index, objects: PackObjects::new(file, dir, limits) });
        }
        Ok(Self(packs))
    }

    fn find(&mut self, id: &oid) -> Option<(&mut StoredPack, u64)> {
        let (at, index) = self
            .0
            .iter()
            .enumerate()
            .find_map(|(at, pack)| pack.index.lookup(id).map(|index| (at, index)))?;
        let pack = &mut self.0[at];
        let offset = pack.index.pack_offset_at_index(index);
        Some((pack, offset))
    }

    /// An object; `None` when no pack has it.
    pub(super) fn load(&mut self, id: &oid) -> Result<Option<LoadedObject>, PackError> {
        let Some((StoredPack { index, objects }, offset)) = self.find(id) else { return Ok(None) };
        let find = |id: &oid| index.lookup(id).map(|at| index.pack_offset_at_index(at));
        objects.load(offset, &find).map(Some)
    }

    /// Gives the bytes of an object to `sink`, piece by piece, with its kind and size; false when no pack has it. The
    /// first piece is empty.
    pub(crate) fn copy(&mut self, id: &oid, sink: &mut ObjectSink<'_>) -> Result<bool, PackError> {
        let Some((StoredPack { index, objects }, offset)) = self.find(id) else { return Ok(false) };
        let find = |id: &oid| index.lookup(id).map(|at| index.pack_offset_at_index(at));
        objects.copy(offset, &find, sink).map(|()| true)
    }
}
