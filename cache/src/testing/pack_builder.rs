//! Entries in, a pack out: also one that no correct tool would write.

use std::io::Write;

use gix::hash::Kind as HashKind;
use gix::objs::Kind;
use gix::zlib::{Compression, stream::deflate};

/// A pack that grows entry by entry.
#[derive(Clone, Debug)]
pub struct PackBuilder {
    bytes: Vec<u8>,
    count: u32,
}

impl Default for PackBuilder {
    fn default() -> Self {
        Self { bytes: b"PACK\0\0\0\x02\0\0\0\0".to_vec(), count: 0 }
    }
}

impl PackBuilder {
    /// Adds a whole object; returns where it starts. `kind` is `commit`, `tree`, `blob` or `tag`.
    pub fn object(&mut self, kind: &str, content: &[u8]) -> usize {
        self.compressed(kind, content.len() as u64, &compress(content))
    }

    /// Adds an object whose compressed bytes are known.
    pub fn compressed(&mut self, kind: &str, size: u64, data: &[u8]) -> usize {
        let kind = Kind::from_bytes(kind.as_bytes()).unwrap();
        let header = crate::pack::testing::header(kind, size);
        self.entry(&header, data)
    }

    /// Adds a delta to what starts at `base`.
    pub fn delta(&mut self, base: usize, delta: &[u8]) -> usize {
        let mut distance = self.bytes.len() - base;
        let mut tail = vec![u8::try_from(distance & 0x7f).unwrap()];
        while distance > 0x7f {
            distance = (distance >> 7) - 1;
            tail.push(u8::try_from(distance & 0x7f).unwrap() | 0x80);
        }
        let mut header = typed_header(6, delta.len());
        header.extend(tail.iter().rev());
        self.entry(&header, &compress(delta))
    }

    /// Adds a delta to the object with this id.
    pub fn id_delta(&mut self, base: &[u8; 20], delta: &[u8]) -> usize {
        let mut header = typed_header(7, delta.len());
        header.extend(base);
        self.entry(&header, &compress(delta))
    }

    fn entry(&mut self, header: &[u8], data: &[u8]) -> usize {
        let at = self.bytes.len();
        self.count += 1;
        self.bytes.extend_from_slice(header);
        self.bytes.extend_from_slice(data);
        at
    }

    /// The pack without its digest.
    #[must_use]
    pub fn body(&self) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        bytes[8..12].copy_from_slice(&self.count.to_be_bytes());
        bytes
    }

    /// The whole pack.
    #[must_use]
    pub fn finish(&self) -> Vec<u8> {
        seal_pack(self.body())
    }
}

/// Adds the digest to a pack.
#[must_use]
pub fn seal_pack(mut body: Vec<u8>) -> Vec<u8> {
    let mut hasher = gix::hash::hasher(HashKind::Sha1);
    hasher.update(&body);
    let digest = hasher.try_finalize().unwrap();
    body.extend_from_slice(digest.as_slice());
    body
}

/// A delta that makes `size` bytes, all copies of the first 64 KiB of a base of `base` bytes.
#[must_use]
pub fn copying_delta(base: u64, size: u64) -> Vec<u8> {
    let mut delta = varint(base);
    delta.extend(varint(size));
    // Each byte copies 64 KiB from 0.
    let copies = usize::try_from(size >> 16).unwrap();
    delta.resize(delta.len() + copies, 0x80);
    delta
}

/// The bytes of a zlib stream.
#[must_use]
pub fn compress(content: &[u8]) -> Vec<u8> {
    let mut out = deflate::Write::new(Vec::new(), Compression::BEST_SPEED);
    out.write_all(content).unwrap();
    out.flush().unwrap();
    out.into_inner()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value > 0x7f {
        bytes.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
        value >>= 7;
    }
    bytes.push(u8::try_from(value).unwrap());
    bytes
}

fn typed_header(code: u8, size: usize) -> Vec<u8> {
    let mut header = crate::pack::testing::header(Kind::Commit, size as u64);
    header[0] = header[0] & 0x8f | code << 4;
    header
}
