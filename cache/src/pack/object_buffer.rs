//! The bytes of one object: in memory, or in a file without a name when there are many.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Larger objects are in a file.
pub(super) const IN_MEMORY: u64 = 4 << 20;
/// Bytes that are copied at once.
const CHUNK: usize = 64 << 10;

/// The bytes of an object.
#[derive(Debug)]
pub(super) enum ObjectBuffer {
    Memory(Vec<u8>),
    File(File, u64),
}

impl ObjectBuffer {
    /// An empty buffer for that many bytes.
    pub(super) fn for_size(size: u64, dir: &Path) -> io::Result<Self> {
        Ok(if size <= IN_MEMORY {
            Self::Memory(Vec::with_capacity(usize::try_from(size).unwrap_or_default()))
        } else {
            Self::File(tempfile::tempfile_in(dir)?, 0)
        })
    }

    pub(super) fn len(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::File(_, len) => *len,
        }
    }

    /// Bytes of memory that it takes.
    pub(super) fn memory(&self) -> usize {
        match self {
            Self::Memory(bytes) => bytes.capacity(),
            Self::File(..) => 0,
        }
    }

    /// Gives a part of it to `sink`, piece by piece; false when there is no such part.
    pub(super) fn copy_part(
        &self,
        at: u64,
        len: u64,
        sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<bool> {
        let Some(end) = at.checked_add(len).filter(|end| *end <= self.len()) else { return Ok(false) };
        match self {
            Self::Memory(bytes) => {
                let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
                let Some(part) = bytes.get(index(at)..index(end)) else { return Ok(false) };
                sink(part)?;
            }
            Self::File(file, _) => {
                let mut chunk = vec![0; CHUNK];
                let mut at = at;
                while at < end {
                    let most = usize::try_from(end - at).unwrap_or(CHUNK).min(CHUNK);
                    file.read_exact_at(&mut chunk[..most], at)?;
                    sink(&chunk[..most])?;
                    at += most as u64;
                }
            }
        }
        Ok(true)
    }
}

impl Write for ObjectBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Memory(held) => held.extend_from_slice(bytes),
            Self::File(file, len) => {
                file.write_all_at(bytes, *len)?;
                *len += bytes.len() as u64;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
