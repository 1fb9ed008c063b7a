//! Compressed bytes at a place of a pack file in, their content out.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

use gix::zlib::{Decompress, FlushDecompress, Status};

/// Bytes that are read from the file at once.
const CHUNK: usize = 32 << 10;

/// Inflates one stream after the other; its buffers are used again.
pub(super) struct Inflater {
    state: Decompress,
    chunk: Vec<u8>,
}

impl Inflater {
    pub(super) fn new() -> Self {
        Self { state: Decompress::new(), chunk: vec![0; CHUNK] }
    }

    /// The stream that starts at a byte of a file.
    pub(super) fn open<'a>(&'a mut self, file: &'a File, at: u64) -> InflatedStream<'a> {
        self.state.reset();
        InflatedStream { inflater: self, file, at, range: (0, 0), is_done: false }
    }
}

/// The content of one stream.
pub(super) struct InflatedStream<'a> {
    inflater: &'a mut Inflater,
    file: &'a File,
    at: u64,
    /// What of the chunk is not consumed yet.
    range: (usize, usize),
    is_done: bool,
}

impl Read for InflatedStream<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while !self.is_done && !out.is_empty() {
            if self.range.0 == self.range.1 {
                let read = self.file.read_at(&mut self.inflater.chunk, self.at)?;
                if read == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                self.at += read as u64;
                self.range = (0, read);
            }
            let step =
                inflate(&mut self.inflater.state, &self.inflater.chunk[self.range.0..self.range.1], out)?;
            self.range.0 += step.consumed;
            self.is_done = step.is_done;
            if step.produced > 0 {
                return Ok(step.produced);
            }
        }
        Ok(0)
    }
}

/// What one call of the decompressor did.
pub(super) struct InflateStep {
    pub(super) consumed: usize,
    pub(super) produced: usize,
    pub(super) is_done: bool,
}

/// Inflates as much as there is of both input and room; fails when neither moves on.
pub(super) fn inflate(state: &mut Decompress, input: &[u8], out: &mut [u8]) -> io::Result<InflateStep> {
    let (before_in, before_out) = (state.total_in(), state.total_out());
    let invalid = || io::Error::new(io::ErrorKind::InvalidData, "compressed data is damaged");
    let status = state.decompress(input, out, FlushDecompress::None).map_err(|_| invalid())?;
    let moved = |now: u64, before: u64| usize::try_from(now - before).map_err(|_| invalid());
    let (consumed, produced) = (moved(state.total_in(), before_in)?, moved(state.total_out(), before_out)?);
    let is_done = status == Status::StreamEnd;
    if !is_done && consumed == 0 && produced == 0 {
        return Err(invalid());
    }
    Ok(InflateStep { consumed, produced, is_done })
}
