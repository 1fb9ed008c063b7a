//! The first bytes of an entry in, what it is out: an object, or a delta and its base.

use gix::ObjectId;
use gix::objs::Kind;

use super::PackError;

/// The largest encoded distance to a base, in bytes of the pack.
const MAX_DISTANCE: u64 = 1 << 48;
/// The largest encoded size.
const MAX_SIZE_BITS: u32 = 48;

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryType {
    /// A whole object.
    Object(Kind),
    /// A delta whose base is so many bytes before it.
    OffsetDelta(u64),
    /// A delta whose base has this id.
    IdDelta(ObjectId),
}

/// The header of an entry; compressed data follows.
#[derive(Clone, Copy, Debug)]
pub(super) struct EntryHeader {
    pub(super) kind: EntryType,
    /// Bytes of the object or of the delta, uncompressed.
    pub(super) size: u64,
}

/// Reads a header byte by byte.
pub(super) fn read_header(
    offset: u64,
    mut next: impl FnMut() -> Result<u8, PackError>,
) -> Result<EntryHeader, PackError> {
    let first = next()?;
    let (mut byte, mut shift, mut size) = (first, 4, u64::from(first & 0x0f));
    while byte & 0x80 != 0 {
        if shift > MAX_SIZE_BITS {
            return Err(PackError::damaged(offset, "the size of an entry is not a number"));
        }
        byte = next()?;
        size |= u64::from(byte & 0x7f) << shift;
        shift += 7;
    }
    let kind = match (first >> 4) & 7 {
        1 => EntryType::Object(Kind::Commit),
        2 => EntryType::Object(Kind::Tree),
        3 => EntryType::Object(Kind::Blob),
        4 => EntryType::Object(Kind::Tag),
        6 => EntryType::OffsetDelta(read_distance(offset, &mut next)?),
        7 => {
            let mut id = [0; 20];
            for byte in &mut id {
                *byte = next()?;
            }
            EntryType::IdDelta(ObjectId::Sha1(id))
        }
        _ => return Err(PackError::damaged(offset, "an entry has an unknown type")),
    };
    Ok(EntryHeader { kind, size })
}

fn read_distance(offset: u64, next: &mut impl FnMut() -> Result<u8, PackError>) -> Result<u64, PackError> {
    let mut byte = next()?;
    let mut distance = u64::from(byte & 0x7f);
    while byte & 0x80 != 0 {
        byte = next()?;
        distance = ((distance + 1) << 7) | u64::from(byte & 0x7f);
        if distance > MAX_DISTANCE {
            return Err(PackError::damaged(offset, "the distance to a base is not a number"));
        }
    }
    match distance {
        0 => Err(PackError::damaged(offset, "a delta is its own base")),
        distance => Ok(distance),
    }
}

/// The start of an entry that holds a whole object.
pub(super) fn write_header(kind: Kind, size: u64) -> Vec<u8> {
    let code = match kind {
        Kind::Commit => 1,
        Kind::Tree => 2,
        Kind::Blob => 3,
        Kind::Tag => 4,
    };
    let low = |value: u64, mask: u64| u8::try_from(value & mask).unwrap_or_default();
    let (mut byte, mut rest) = (code << 4 | low(size, 0x0f), size >> 4);
    let mut bytes = Vec::new();
    while rest > 0 {
        bytes.push(byte | 0x80);
        (byte, rest) = (low(rest, 0x7f), rest >> 7);
    }
    bytes.push(byte);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<EntryHeader, PackError> {
        let mut rest = bytes.iter();
        read_header(12, || rest.next().copied().ok_or(PackError::NoCommit))
    }

    #[test]
    fn headers_are_read_back() {
        for size in [0, 1, 15, 16, 2047, 2048, 1 << 20, (1 << 40) + 5] {
            for kind in [Kind::Commit, Kind::Tree, Kind::Blob, Kind::Tag] {
                let header = read(&write_header(kind, size)).unwrap();
                assert_eq!((header.kind, header.size), (EntryType::Object(kind), size));
            }
        }
        assert_eq!(read(&[0x65, 0x80, 0x01]).unwrap().kind, EntryType::OffsetDelta(129));
    }

    #[test]
    fn bad_headers_are_refused() {
        for bytes in [
            &[0x00][..],
            &[0x50],
            &[0x65, 0x00],
            &[0xff; 40],
            &[0x65, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            &[],
        ] {
            assert!(read(bytes).is_err(), "{bytes:?}");
        }
    }
}
