//! The stream of a pack in, a file and a list of its entries out.
//!
//! Law: a limit ends it where it is exceeded, before more is read, inflated or written. Until the gate is open, nothing but
//! commits is hashed (held by `bombs_are_refused_in_little_time_memory_and_disk`).

use std::fs::File;
use std::io::{self, BufRead, BufWriter, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use gix::ObjectId;
use gix::hash::Kind as HashKind;
use gix::objs::Kind;
use gix::zlib::Decompress;

use super::delta::{SIZES_BYTES, read_sizes};
use super::entry::{EntryHeader, EntryType, read_header};
use super::inflate::inflate;
use super::{
    CommitGate, MAX_COMMIT_BYTES, MAX_DELTA_DEPTH, MAX_UNJUDGED_BYTES, ObjectHasher, PackError, PackLimits,
    check_tree,
};

/// Bytes of the header, and of the digest at the end.
pub(super) const HEADER: usize = 12;
const TRAILER: usize = 20;
/// The largest pack: places in it have 31 bits in an index.
const MAX_PACK_FILE: u64 = (1 << 31) - 1;
/// What compressed data may have beyond the size of its content.
const COMPRESSED_SLACK: u64 = 64 << 10;
/// Marks an entry without a base.
pub(super) const NO_BASE: u32 = u32::MAX;

/// A pack in a file, and its entries in order.
pub(crate) struct ScannedPack {
    pub(super) file: File,
    pub(super) entries: Vec<PackEntry>,
    /// Deltas whose base has an id, by position.
    pub(super) id_deltas: Vec<(u32, ObjectId)>,
    pub(super) limits: PackLimits,
    /// Bytes of the file without its digest.
    pub(super) len: u64,
    pub(super) digest: ObjectId,
}

/// One entry: as small as possible, because there are many.
#[derive(Clone, Copy)]
pub(super) struct PackEntry {
    pub(super) offset: u32,
    pub(super) crc: u32,
    /// The position of the base, or [`NO_BASE`].
    pub(super) base: u32,
    pub(super) depth: u16,
    pub(super) is_delta: bool,
    /// Null until it is known.
    pub(super) id: ObjectId,
}

/// Reads a pack to its end.
pub(super) fn scan(
    input: &mut dyn BufRead,
    file: File,
    limits: PackLimits,
    gate: CommitGate<'_>,
    stop: &AtomicBool,
) -> Result<ScannedPack, PackError> {
    let tee = PackTee {
        input,
        out: BufWriter::with_capacity(64 << 10, file),
        digest: gix::hash::hasher(HashKind::Sha1),
        crc: crc32fast::Hasher::new(),
        offset: 0,
    };
    let mut scan = PackScan {
        tee,
        limits,
        gate,
        total: 0,
        unjudged: 0,
        state: Decompress::new(),
        chunk: vec![0; 64 << 10],
        entries: Vec::new(),
        id_deltas: Vec::new(),
    };
    let count = scan.read_start()?;
    for _ in 0..count {
        if stop.load(Ordering::Relaxed) {
            return Err(PackError::Stopped);
        }
        scan.read_entry(stop)?;
    }
    if matches!(scan.gate, CommitGate::Judge(..)) {
        return Err(PackError::NoCommit);
    }
    scan.finish()
}

/// Passes bytes from the stream to the file, and hashes them.
struct PackTee<'a> {
    input: &'a mut dyn BufRead,
    out: BufWriter<File>,
    digest: gix::hash::Hasher,
    crc: crc32fast::Hasher,
    offset: u64,
}

impl PackTee<'_> {
    /// Gives what has arrived to `take`, which says how much of it is used.
    fn step(&mut self, take: impl FnOnce(&[u8]) -> Result<usize, PackError>) -> Result<(), PackError> {
        let bytes = self.input.fill_buf().map_err(PackError::Receive)?;
        if bytes.is_empty() {
            return Err(PackError::Receive(io::ErrorKind::UnexpectedEof.into()));
        }
        let used = take(bytes)?;
        let part = &bytes[..used];
        self.digest.update(part);
        self.crc.update(part);
        self.out.write_all(part).map_err(PackError::Store)?;
        self.input.consume(used);
        self.offset += used as u64;
        if self.offset > MAX_PACK_FILE {
            return Err(PackError::Limit { what: "more bytes", limit: MAX_PACK_FILE });
        }
        Ok(())
    }

    fn byte(&mut self) -> Result<u8, PackError> {
        let mut byte = 0;
        self.step(|bytes| {
            byte = bytes[0];
            Ok(1)
        })?;
        Ok(byte)
    }
}

struct PackScan<'a, 'g> {
    tee: PackTee<'a>,
    limits: PackLimits,
    gate: CommitGate<'g>,
    /// Bytes of all objects so far, and of those before the commit.
    total: u64,
    unjudged: u64,
    state: Decompress,
    chunk: Vec<u8>,
    entries: Vec<PackEntry>,
    id_deltas: Vec<(u32, ObjectId)>,
}

impl PackScan<'_, '_> {
    fn read_start(&mut self) -> Result<u32, PackError> {
        let mut start = [0; HEADER];
        for byte in &mut start {
            *byte = self.tee.byte()?;
        }
        let word = |at: usize| u32::from_be_bytes([start[at], start[at + 1], start[at + 2], start[at + 3]]);
        if &start[..4] != b"PACK" || !matches!(word(4), 2 | 3) {
            return Err(PackError::damaged(0, "it does not start like a pack"));
        }
        let count = word(8);
        if count > self.limits.objects {
            return Err(PackError::Limit { what: "more objects", limit: u64::from(self.limits.objects) });
        }
        Ok(count)
    }

    fn read_entry(&mut self, stop: &AtomicBool) -> Result<(), PackError> {
        let offset = self.tee.offset;
        self.tee.crc = crc32fast::Hasher::new();
        let header = read_header(offset, || self.tee.byte())?;
        if header.size > self.limits.object_bytes {
            return Err(PackError::Limit {
                what: "an object with more bytes",
                limit: self.limits.object_bytes,
            });
        }
        self.count(header.size)?;
        let id = match header.kind {
            EntryType::Object(kind) => self.read_object(kind, header.size, offset, stop)?,
            _ => {
                self.read_delta(header, offset, stop)?;
                None
            }
        };
        let position = u32::try_from(self.entries.len()).unwrap_or(NO_BASE);
        let (base, depth) = match header.kind {
            EntryType::Object(_) => (NO_BASE, 0),
            EntryType::OffsetDelta(distance) => self.base_of(offset, distance)?,
            EntryType::IdDelta(base) => {
                self.id_deltas.push((position, base));
                (NO_BASE, 1)
            }
        };
        self.entries.push(PackEntry {
            offset: u32::try_from(offset).unwrap_or(u32::MAX),
            crc: self.tee.crc.clone().finalize(),
            base,
            depth,
            is_delta: !matches!(header.kind, EntryType::Object(_)),
            id: id.unwrap_or_else(|| ObjectId::null(HashKind::Sha1)),
        });
        Ok(())
    }

    /// The base of a delta, and the length of its chain.
    fn base_of(&self, offset: u64, distance: u64) -> Result<(u32, u16), PackError> {
        let at = offset.checked_sub(distance).and_then(|at| u32::try_from(at).ok());
        let found = at.and_then(|at| self.entries.binary_search_by_key(&at, |entry| entry.offset).ok());
        let base = found.ok_or_else(|| PackError::damaged(offset, "the base of a delta is not an entry"))?;
        let depth = self.entries[base].depth.saturating_add(1);
        if usize::from(depth) > MAX_DELTA_DEPTH {
            return Err(PackError::Limit { what: "longer chains of deltas", limit: MAX_DELTA_DEPTH as u64 });
        }
        Ok((u32::try_from(base).unwrap_or(NO_BASE), depth))
    }

    /// Adds to the bytes of all objects.
    fn count(&mut self, size: u64) -> Result<(), PackError> {
        self.total = self.total.saturating_add(size);
        if self.total > self.limits.total_bytes {
            let limit = self.limits.total_bytes;
            return Err(PackError::Limit { what: "more bytes when it is unpacked", limit });
        }
        if let CommitGate::Judge(..) = self.gate {
            self.unjudged = self.unjudged.saturating_add(size);
            if self.unjudged > MAX_UNJUDGED_BYTES {
                let what = "more bytes before the requested commit";
                return Err(PackError::Limit { what, limit: MAX_UNJUDGED_BYTES });
            }
        }
        Ok(())
    }

    /// Reads an object; its id, if it may be known already.
    fn read_object(
        &mut self,
        kind: Kind,
        size: u64,
        offset: u64,
        stop: &AtomicBool,
    ) -> Result<Option<ObjectId>, PackError> {
        let is_judging = matches!(self.gate, CommitGate::Judge(..));
        if is_judging && kind != Kind::Commit {
            self.inflate(size, offset, stop, |_| {})?;
            return Ok(None);
        }
        check_tree(kind, size)?;
        let mut hasher = ObjectHasher::new(kind, size);
        if !is_judging {
            self.inflate(size, offset, stop, |part| hasher.update(part))?;
            return hasher.finish(offset).map(Some);
        }
        if size > MAX_COMMIT_BYTES {
            return Err(PackError::Limit { what: "a commit with more bytes", limit: MAX_COMMIT_BYTES });
        }
        let mut bytes = Vec::new();
        self.inflate(size, offset, stop, |part| bytes.extend_from_slice(part))?;
        hasher.update(&bytes);
        let id = hasher.finish(offset)?;
        if let CommitGate::Judge(wanted, judge) = &mut self.gate
            && *wanted == id
        {
            judge(&bytes).map_err(|refusal| PackError::Refused(Box::new(refusal)))?;
            self.gate = CommitGate::Open;
        }
        Ok(Some(id))
    }

    /// Reads a delta, and counts the object that it describes.
    fn read_delta(&mut self, header: EntryHeader, offset: u64, stop: &AtomicBool) -> Result<(), PackError> {
        let mut start = Vec::with_capacity(SIZES_BYTES);
        self.inflate(header.size, offset, stop, |part| {
            let room = SIZES_BYTES - start.len();
            start.extend_from_slice(&part[..part.len().min(room)]);
        })?;
        let mut bytes = start.iter();
        let sizes = read_sizes(|| bytes.next().copied().ok_or_else(|| io::ErrorKind::UnexpectedEof.into()));
        let sizes = sizes.map_err(|_| PackError::damaged(offset, "a delta has no sizes"))?;
        if sizes.result > self.limits.object_bytes || sizes.base > self.limits.object_bytes {
            return Err(PackError::Limit {
                what: "an object with more bytes",
                limit: self.limits.object_bytes,
            });
        }
        self.count(sizes.result)
    }

    /// Inflates the data of an entry, which has exactly `size` bytes.
    fn inflate(
        &mut self,
        size: u64,
        offset: u64,
        stop: &AtomicBool,
        mut sink: impl FnMut(&[u8]),
    ) -> Result<(), PackError> {
        self.state.reset();
        let (mut total, mut is_done) = (0_u64, false);
        let end = self.tee.offset.saturating_add(size + size / 8 + COMPRESSED_SLACK);
        while !is_done {
            if self.tee.offset > end {
                return Err(PackError::damaged(offset, "compressed data is longer than its content"));
            }
            if stop.load(Ordering::Relaxed) {
                return Err(PackError::Stopped);
            }
            let mut produced = 0;
            let (state, chunk) = (&mut self.state, &mut self.chunk);
            self.tee.step(|input| {
                let damaged = |_| PackError::damaged(offset, "compressed data is damaged");
                let step = inflate(state, input, chunk).map_err(damaged)?;
                (produced, is_done) = (step.produced, step.is_done);
                Ok(step.consumed)
            })?;
            total += produced as u64;
            if total > size {
                break;
            }
            sink(&self.chunk[..produced]);
        }
        match total == size {
            true => Ok(()),
            false => Err(PackError::damaged(offset, "an object has another size than it says")),
        }
    }

    /// Checks the digest at the end.
    fn finish(self) -> Result<ScannedPack, PackError> {
        let PackTee { input, out, digest, offset, .. } = self.tee;
        let mut end = [0; TRAILER];
        input.read_exact(&mut end).map_err(PackError::Receive)?;
        let digest =
            digest.try_finalize().map_err(|_| PackError::damaged(offset, "its digest cannot be made"))?;
        if digest.as_slice() != end {
            return Err(PackError::damaged(offset, "its digest does not match"));
        }
        let file = out.into_inner().map_err(|error| PackError::Store(error.into_error()))?;
        let (entries, id_deltas, limits) = (self.entries, self.id_deltas, self.limits);
        Ok(ScannedPack { file, entries, id_deltas, limits, len: offset, digest })
    }
}
