//! A place in a pack file in, the object there out, with its deltas applied.
//!
//! Law: memory is bounded: large objects are in files, and of the others only the last few are kept, for the deltas that
//! follow. What was dropped is made again, and that work is bounded too (held by
//! `bombs_are_refused_in_little_time_memory_and_disk`, `a_large_honest_pack_takes_little_memory`).

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gix::hash::oid;
use gix::objs::Kind;

use super::delta::{self, DeltaSizes};
use super::entry::{EntryHeader, EntryType, read_header};
use super::inflate::Inflater;
use super::object_buffer::ObjectBuffer;
use super::{MAX_DELTA_DEPTH, MAX_EXPANSION, ObjectSink, PackError, PackLimits};

/// Bytes of objects that are kept for the next ones.
const CACHE_BYTES: usize = 12 << 20;
/// Objects that are kept for the next ones.
const CACHE_OBJECTS: usize = 64;
/// Bytes that hold every header of an entry.
const HEADER_BYTES: usize = 40;

/// A loaded object.
pub(super) type LoadedObject = (Kind, Arc<ObjectBuffer>);

/// The objects of one pack file.
pub(super) struct PackObjects {
    file: File,
    dir: PathBuf,
    limits: PackLimits,
    inflater: Inflater,
    cache: VecDeque<(u64, LoadedObject)>,
    /// Bytes that may still be produced.
    work_left: u64,
}

/// An entry, and where its compressed data starts.
struct LocatedEntry {
    header: EntryHeader,
    data: u64,
}

impl PackObjects {
    pub(super) fn new(file: File, dir: &Path, limits: PackLimits) -> Self {
        Self {
            file,
            dir: dir.to_owned(),
            limits,
            inflater: Inflater::new(),
            cache: VecDeque::new(),
            work_left: limits.total_bytes.saturating_mul(MAX_EXPANSION),
        }
    }

    fn entry_at(&self, offset: u64) -> Result<LocatedEntry, PackError> {
        let mut bytes = [0; HEADER_BYTES];
        let read = self.file.read_at(&mut bytes, offset).map_err(PackError::Store)?;
        let mut used = 0;
        let header = read_header(offset, || {
            let byte = bytes[..read].get(used).copied();
            used += 1;
            byte.ok_or_else(|| PackError::damaged(offset, "an entry is truncated"))
        })?;
        if header.size > self.limits.object_bytes {
            return Err(self.too_large());
        }
        Ok(LocatedEntry { header, data: offset + used as u64 })
    }

    fn too_large(&self) -> PackError {
        PackError::Limit { what: "an object with more bytes", limit: self.limits.object_bytes }
    }

    /// The object at a place; bases with an id are looked up by `find_base`.
    pub(super) fn load(
        &mut self,
        offset: u64,
        find_base: &dyn Fn(&oid) -> Option<u64>,
    ) -> Result<LoadedObject, PackError> {
        let (mut chain, mut at) = (Vec::new(), offset);
        let (kind, mut data) = loop {
            if let Some(found) = self.cached(at) {
                break found;
            }
            let entry = self.entry_at(at)?;
            let base = match entry.header.kind {
                EntryType::Object(kind) => {
                    let data = Arc::new(self.inflate_object(&entry, at)?);
                    self.keep(at, &(kind, data.clone()));
                    break (kind, data);
                }
                EntryType::OffsetDelta(distance) => at.checked_sub(distance),
                EntryType::IdDelta(base) => find_base(&base),
            };
            chain.push((at, entry));
            at = base.ok_or_else(|| PackError::damaged(at, "a delta has no base"))?;
            if chain.len() > MAX_DELTA_DEPTH {
                return Err(PackError::Limit {
                    what: "longer chains of deltas",
                    limit: MAX_DELTA_DEPTH as u64,
                });
            }
        };
        while let Some((at, entry)) = chain.pop() {
            data = Arc::new(self.apply(&entry, at, &data)?);
            self.keep(at, &(kind, data.clone()));
        }
        Ok((kind, data))
    }

    /// Gives the bytes of the object at a place to `sink`, without holding them when that is possible.
    pub(super) fn copy(
        &mut self,
        offset: u64,
        find_base: &dyn Fn(&oid) -> Option<u64>,
        sink: &mut ObjectSink<'_>,
    ) -> Result<(), PackError> {
        let entry = self.entry_at(offset)?;
        let EntryType::Object(kind) = entry.header.kind else {
            let (kind, data) = self.load(offset, find_base)?;
            let size = data.len();
            sink(kind, size, &[]).map_err(PackError::Store)?;
            let copied = data.copy_part(0, size, &mut |part| sink(kind, size, part));
            return copied.map(drop).map_err(PackError::Store);
        };
        let size = entry.header.size;
        self.spend(size)?;
        sink(kind, size, &[]).map_err(PackError::Store)?;
        let mut from = self.inflater.open(&self.file, entry.data).take(size + 1);
        let (mut chunk, mut total) = (vec![0; 64 << 10], 0);
        loop {
            let read = from.read(&mut chunk).map_err(|error| stored(offset, error))?;
            total += read as u64;
            match read {
                _ if total > size => break,
                0 => break,
                n => sink(kind, size, &chunk[..n]).map_err(PackError::Store)?,
            }
        }
        check_size(offset, total, size)
    }

    fn inflate_object(&mut self, entry: &LocatedEntry, offset: u64) -> Result<ObjectBuffer, PackError> {
        let size = entry.header.size;
        self.spend(size)?;
        let mut out = ObjectBuffer::for_size(size, &self.dir).map_err(PackError::Store)?;
        let mut from = self.inflater.open(&self.file, entry.data).take(size + 1);
        io::copy(&mut from, &mut out).map_err(|error| stored(offset, error))?;
        check_size(offset, out.len(), size).map(|()| out)
    }

    fn apply(
        &mut self,
        entry: &LocatedEntry,
        offset: u64,
        base: &ObjectBuffer,
    ) -> Result<ObjectBuffer, PackError> {
        let failed = |error| stored(offset, error);
        let (sizes, mut out) = {
            let mut from = BufReader::new(self.inflater.open(&self.file, entry.data));
            let sizes: DeltaSizes = delta::read_sizes(|| {
                let mut byte = [0];
                from.read_exact(&mut byte).map(|()| byte[0])
            })
            .map_err(failed)?;
            if sizes.result > self.limits.object_bytes {
                return Err(self.too_large());
            }
            let mut out = ObjectBuffer::for_size(sizes.result, &self.dir).map_err(PackError::Store)?;
            delta::apply(base, &mut from, sizes, &mut out).map_err(failed)?;
            (sizes, out)
        };
        out.flush().map_err(PackError::Store)?;
        self.spend(sizes.result)?;
        Ok(out)
    }

    /// Counts bytes that are produced.
    fn spend(&mut self, bytes: u64) -> Result<(), PackError> {
        match self.work_left.checked_sub(bytes) {
            Some(left) => {
                self.work_left = left;
                Ok(())
            }
            None => Err(PackError::Limit {
                what: "deltas that expand to more bytes",
                limit: self.limits.total_bytes.saturating_mul(MAX_EXPANSION),
            }),
        }
    }

    fn cached(&mut self, offset: u64) -> Option<LoadedObject> {
        let at = self.cache.iter().position(|(place, _)| *place == offset)?;
        let found = self.cache.remove(at)?;
        let object = found.1.clone();
        self.cache.push_back(found);
        Some(object)
    }

    fn keep(&mut self, offset: u64, object: &LoadedObject) {
        self.cache.push_back((offset, object.clone()));
        let held = |cache: &VecDeque<(u64, LoadedObject)>| {
            cache.iter().map(|(_, (_, data))| data.memory()).sum::<usize>()
        };
        while self.cache.len() > CACHE_OBJECTS || self.cache.len() > 1 && held(&self.cache) > CACHE_BYTES {
            self.cache.pop_front();
        }
    }
}

fn check_size(offset: u64, found: u64, wanted: u64) -> Result<(), PackError> {
    match found == wanted {
        true => Ok(()),
        false => Err(PackError::damaged(offset, "an object has another size than it says")),
    }
}

/// What a failed read of an entry means.
fn stored(offset: u64, error: io::Error) -> PackError {
    match error.kind() {
        io::ErrorKind::InvalidData => PackError::damaged(offset, "a delta or compressed data is damaged"),
        io::ErrorKind::UnexpectedEof => PackError::damaged(offset, "an entry is truncated"),
        _ => PackError::Store(error),
    }
}
