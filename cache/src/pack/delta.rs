//! A base and a delta in, the object that they describe out.
//!
//! Law: exactly as many bytes as the delta announces, none from outside the base (held by `what_does_not_fit_is_refused`).

use std::io::{self, Read, Write};

use super::object_buffer::ObjectBuffer;

/// The sizes at the start of a delta.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DeltaSizes {
    pub(super) base: u64,
    pub(super) result: u64,
}

/// The most bytes that both sizes take.
pub(super) const SIZES_BYTES: usize = 20;

fn invalid(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Reads the sizes; the rest of the delta follows.
pub(super) fn read_sizes(mut next: impl FnMut() -> io::Result<u8>) -> io::Result<DeltaSizes> {
    let mut size = || {
        let (mut value, mut shift) = (0_u64, 0);
        loop {
            let byte = next()?;
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            match byte & 0x80 {
                0 => return Ok(value),
                _ if shift > 56 => return Err(invalid("a size in a delta is not a number")),
                _ => {}
            }
        }
    };
    Ok(DeltaSizes { base: size()?, result: size()? })
}

/// Applies a delta whose sizes were read; `out` then has the result.
pub(super) fn apply(
    base: &ObjectBuffer,
    delta: &mut impl Read,
    sizes: DeltaSizes,
    out: &mut ObjectBuffer,
) -> io::Result<()> {
    if base.len() != sizes.base {
        return Err(invalid("a delta is for another base"));
    }
    let mut insert = [0; 127];
    while let Some(op) = next_byte(delta)? {
        if op & 0x80 != 0 {
            let (at, len) = read_copy(op, delta)?;
            check_room(out, len, sizes.result)?;
            if !base.copy_part(at, len, &mut |part| out.write_all(part))? {
                return Err(invalid("a delta copies from outside its base"));
            }
        } else if op > 0 {
            check_room(out, u64::from(op), sizes.result)?;
            let part = &mut insert[..usize::from(op)];
            delta.read_exact(part)?;
            out.write_all(part)?;
        } else {
            return Err(invalid("a delta has an unknown instruction"));
        }
    }
    if out.len() == sizes.result { Ok(()) } else { Err(invalid("a delta is shorter than it says")) }
}

fn check_room(out: &ObjectBuffer, len: u64, most: u64) -> io::Result<()> {
    if out.len() + len <= most { Ok(()) } else { Err(invalid("a delta is longer than it says")) }
}

fn read_copy(op: u8, delta: &mut impl Read) -> io::Result<(u64, u64)> {
    let mut field = |bits: std::ops::Range<u32>| {
        let mut value = 0_u64;
        for (position, bit) in bits.enumerate() {
            if op & (1 << bit) != 0 {
                let byte = next_byte(delta)?.ok_or_else(|| invalid("a delta ends in an instruction"))?;
                value |= u64::from(byte) << (8 * position);
            }
        }
        Ok::<_, io::Error>(value)
    };
    let (at, len) = (field(0..4)?, field(4..7)?);
    Ok((at, if len == 0 { 0x1_0000 } else { len }))
}

fn next_byte(from: &mut impl Read) -> io::Result<Option<u8>> {
    let mut byte = [0];
    Ok((from.read(&mut byte)? == 1).then_some(byte[0]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(base: &[u8], mut delta: &[u8]) -> io::Result<Vec<u8>> {
        let base = ObjectBuffer::Memory(base.to_vec());
        let mut out = ObjectBuffer::Memory(Vec::new());
        let sizes = read_sizes(|| next_byte(&mut delta)?.ok_or_else(|| invalid("short")))?;
        apply(&base, &mut delta, sizes, &mut out)?;
        match out {
            ObjectBuffer::Memory(bytes) => Ok(bytes),
            ObjectBuffer::File(..) => unreachable!("it is small"),
        }
    }

    #[test]
    fn copies_and_inserts() {
        assert_eq!(run(b"hello world", &[11, 8, 0x91, 6, 5, 3, b'!', b'!', b'!']).unwrap(), b"world!!!");
        assert_eq!(run(b"abc", &[3, 0]).unwrap(), b"");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for (delta, why) in [
            (&[4, 1, 1, b'x'][..], "another base"),
            (&[3, 2, 0x91, 2, 2], "outside"),
            (&[3, 1, 0x91, 0, 2], "longer"),
            (&[3, 1, 2, b'a', b'b'], "longer"),
            (&[3, 3, 1, b'a'], "shorter"),
            (&[3, 3, 0], "unknown"),
            (&[3, 3, 0x91], "ends"),
            (&[3, 3, 2, b'a'], "fill"),
            (&[0xff; 30], "number"),
        ] {
            let error = run(b"abc", delta).unwrap_err().to_string();
            assert!(error.contains(why), "{delta:?}: {error}");
        }
    }
}
