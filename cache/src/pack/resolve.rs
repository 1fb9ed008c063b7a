//! Entries in, the same with the id of every object out; a pack that lacks bases gets them.
//!
//! Law: an object is made once, right after its base, while the base is still in memory; every id is the hash of the bytes
//! that a reader will see (held by `changed_packs_are_never_accepted`, `pack_parser`).

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use gix::ObjectId;
use gix::hash::{Kind as HashKind, oid};
use gix::zlib::Compression;
use gix::zlib::stream::deflate;

use super::pack_objects::{LoadedObject, PackObjects};
use super::pack_set::PackSet;
use super::scan::{NO_BASE, PackEntry, ScannedPack};
use super::{ObjectHasher, PackError, check_tree, entry};

/// A pack whose objects are all known.
pub(super) struct ResolvedPack {
    pub(super) file: File,
    pub(super) entries: Vec<PackEntry>,
    pub(super) digest: ObjectId,
    /// Bytes of the file without its digest.
    pub(super) len: u64,
}

/// Resolves a pack; bases that it lacks are taken from the store.
pub(super) fn resolve(
    pack: ScannedPack,
    dir: &Path,
    store: &mut PackSet,
    stop: &AtomicBool,
) -> Result<ResolvedPack, PackError> {
    let ScannedPack { file, entries, id_deltas, limits, len, digest } = pack;
    let reader = file.try_clone().map_err(PackError::Store)?;
    let mut resolve = Resolve {
        objects: PackObjects::new(reader, dir, limits),
        children: children(&entries),
        entries,
        known: HashMap::new(),
        stop,
    };
    resolve.hash_objects()?;
    let roots: Vec<u32> =
        (0..position(resolve.entries.len())).filter(|at| !resolve.entries[*at as usize].is_delta).collect();
    if !id_deltas.is_empty() {
        roots.iter().for_each(|at| resolve.note_known(*at));
    }
    let tracks = !id_deltas.is_empty();
    for root in roots {
        resolve.resolve_children(root, tracks)?;
    }
    let missing = resolve.resolve_id_deltas(id_deltas)?;
    let mut pack = ResolvedPack { file, entries: Vec::new(), digest, len };
    if !missing.is_empty() {
        resolve.add_bases(&mut pack, &missing, store)?;
        let left = resolve.resolve_id_deltas(missing)?;
        if let Some((_, base)) = left.first() {
            return Err(PackError::NoBase { base: *base });
        }
        pack.seal(resolve.entries.len())?;
    }
    pack.entries = resolve.entries;
    match pack.entries.iter().find(|entry| entry.id.is_null()) {
        Some(entry) => Err(PackError::damaged(u64::from(entry.offset), "a delta has no base")),
        None => Ok(pack),
    }
}

fn position(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(NO_BASE)
}

/// Base and delta by position, sorted by base.
fn children(entries: &[PackEntry]) -> Vec<(u32, u32)> {
    let edges = entries.iter().enumerate().filter(|(_, entry)| entry.base != NO_BASE);
    let mut edges: Vec<(u32, u32)> = edges.map(|(at, entry)| (entry.base, position(at))).collect();
    edges.sort_unstable();
    edges
}

struct Resolve<'a> {
    objects: PackObjects,
    entries: Vec<PackEntry>,
    children: Vec<(u32, u32)>,
    /// Places by id; only filled when a delta names its base by id.
    known: HashMap<ObjectId, u32>,
    stop: &'a AtomicBool,
}

impl Resolve<'_> {
    /// Hashes whole objects that were not hashed when they arrived.
    fn hash_objects(&mut self) -> Result<(), PackError> {
        for at in 0..self.entries.len() {
            if self.entries[at].is_delta || !self.entries[at].id.is_null() {
                continue;
            }
            self.check_stop()?;
            let offset = u64::from(self.entries[at].offset);
            let mut hasher = None;
            self.objects.copy(offset, &|_| None, &mut |kind, size, part| {
                hasher.get_or_insert_with(|| ObjectHasher::new(kind, size)).update(part);
                Ok(())
            })?;
            let hasher = hasher.ok_or_else(|| PackError::damaged(offset, "an object cannot be read"))?;
            self.entries[at].id = hasher.finish(offset)?;
        }
        Ok(())
    }

    fn check_stop(&self) -> Result<(), PackError> {
        if self.stop.load(Ordering::Relaxed) { Err(PackError::Stopped) } else { Ok(()) }
    }

    fn note_known(&mut self, at: u32) {
        let entry = &self.entries[at as usize];
        self.known.insert(entry.id, entry.offset);
    }

    /// Resolves everything that is based on an object, depth first.
    fn resolve_children(&mut self, root: u32, tracks: bool) -> Result<(), PackError> {
        let mut todo = self.children_of(root);
        while let Some(at) = todo.pop() {
            self.resolve_one(at)?;
            if tracks {
                self.note_known(at);
            }
            todo.extend(self.children_of(at));
        }
        Ok(())
    }

    fn children_of(&self, base: u32) -> Vec<u32> {
        let start = self.children.partition_point(|(at, _)| *at < base);
        self.children[start..].iter().take_while(|(at, _)| *at == base).map(|(_, child)| *child).collect()
    }

    fn resolve_one(&mut self, at: u32) -> Result<(), PackError> {
        self.check_stop()?;
        let offset = u64::from(self.entries[at as usize].offset);
        let known = &self.known;
        let find = |id: &oid| known.get(id).map(|offset| u64::from(*offset));
        let (kind, data) = self.objects.load(offset, &find)?;
        check_tree(kind, data.len())?;
        let mut hasher = ObjectHasher::new(kind, data.len());
        let hashed = data.copy_part(0, data.len(), &mut |part| {
            hasher.update(part);
            Ok(())
        });
        hashed.map_err(PackError::Store)?;
        self.entries[at as usize].id = hasher.finish(offset)?;
        Ok(())
    }

    /// Resolves deltas that name their base by id; returns those whose base is not here.
    fn resolve_id_deltas(
        &mut self,
        mut waiting: Vec<(u32, ObjectId)>,
    ) -> Result<Vec<(u32, ObjectId)>, PackError> {
        loop {
            let before = waiting.len();
            let mut left = Vec::new();
            for (at, base) in waiting {
                if self.known.contains_key(&base) {
                    self.resolve_one(at)?;
                    self.note_known(at);
                    self.resolve_children(at, true)?;
                } else {
                    left.push((at, base));
                }
            }
            waiting = left;
            if waiting.is_empty() || waiting.len() == before {
                return Ok(waiting);
            }
        }
    }

    /// Appends the bases that the pack lacks.
    fn add_bases(
        &mut self,
        pack: &mut ResolvedPack,
        missing: &[(u32, ObjectId)],
        store: &mut PackSet,
    ) -> Result<(), PackError> {
        for (_, base) in missing {
            self.check_stop()?;
            if self.known.contains_key(base) {
                continue;
            }
            let Some(object) = store.load(base)? else { continue };
            let offset = u32::try_from(pack.len).unwrap_or(u32::MAX);
            let crc = pack.append(&object).map_err(PackError::Store)?;
            self.known.insert(*base, offset);
            let (base_position, depth, is_delta) = (NO_BASE, 0, false);
            self.entries.push(PackEntry { offset, crc, base: base_position, depth, is_delta, id: *base });
        }
        Ok(())
    }
}

impl ResolvedPack {
    /// Writes one object at the end; returns its checksum.
    fn append(&mut self, (kind, data): &LoadedObject) -> io::Result<u32> {
        self.file.seek(io::SeekFrom::Start(self.len))?;
        let mut out =
            CrcWriter { inner: BufWriter::new(&mut self.file), crc: crc32fast::Hasher::new(), len: 0 };
        out.write_all(&entry::write_header(*kind, data.len()))?;
        let mut deflate = deflate::Write::new(&mut out, Compression::BEST_SPEED);
        data.copy_part(0, data.len(), &mut |part| deflate.write_all(part))?;
        deflate.flush()?;
        drop(deflate);
        out.inner.flush()?;
        let (crc, len) = (out.crc.clone().finalize(), out.len);
        drop(out);
        self.len += len;
        Ok(crc)
    }

    /// Gives the pack its new number of entries and its new digest.
    fn seal(&mut self, count: usize) -> Result<(), PackError> {
        let count = position(count).to_be_bytes();
        self.file.write_all_at(&count, 8).map_err(PackError::Store)?;
        let mut hasher = gix::hash::hasher(HashKind::Sha1);
        self.file.rewind().map_err(PackError::Store)?;
        let mut from = BufReader::new((&self.file).take(self.len));
        let mut chunk = vec![0; 64 << 10];
        loop {
            match from.read(&mut chunk).map_err(PackError::Store)? {
                0 => break,
                n => hasher.update(&chunk[..n]),
            }
        }
        let damaged = |_| PackError::damaged(0, "its digest cannot be made");
        self.digest = hasher.try_finalize().map_err(damaged)?;
        Ok(())
    }
}

/// Counts and checks what passes.
struct CrcWriter<W> {
    inner: W,
    crc: crc32fast::Hasher,
    len: u64,
}

impl<W: Write> Write for CrcWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.crc.update(&bytes[..written]);
        self.len += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
