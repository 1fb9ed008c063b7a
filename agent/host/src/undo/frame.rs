//! A record and the content behind it in, bytes out, and back.
//!
//! Law: a record that is cut off or damaged is not read, nor is anything after it; what stands before it is (held
//! by `a_journal_is_read_up_to_where_it_was_cut_off`, `a_damaged_record_ends_the_journal_and_never_panics`).

use std::io::{self, Read};

use super::record::{BodyRange, JournalRecord};

/// The journal's first bytes, with the version of all that follows.
pub const MAGIC: &[u8] = b"zagent undo 1\n";

/// Content up to this many bytes stands in the journal itself, so that one sync makes it durable with its record.
pub(crate) const MAX_INLINE: u64 = 256 * 1024;

/// No record says more than this in words; a longer one is damage.
const MAX_HEAD: u32 = 16 * 1024 * 1024;

const DIGEST_LEN: usize = 16;
const PREFIX_LEN: usize = 8 + DIGEST_LEN;

/// The bytes of a record.
pub(crate) fn encode_record(record: &JournalRecord, body: &[u8]) -> io::Result<Vec<u8>> {
    let head = serde_json::to_vec(record)?;
    let too_long = || io::Error::new(io::ErrorKind::FileTooLarge, "the undo record is too long");
    let head_len = u32::try_from(head.len()).ok().filter(|len| *len <= MAX_HEAD).ok_or_else(too_long)?;
    let body_len =
        u32::try_from(body.len()).ok().filter(|len| u64::from(*len) <= MAX_INLINE).ok_or_else(too_long)?;
    let mut bytes = Vec::with_capacity(PREFIX_LEN + head.len() + body.len());
    bytes.extend(head_len.to_le_bytes());
    bytes.extend(body_len.to_le_bytes());
    bytes.extend(digest(&bytes[..8], &head, body));
    bytes.extend(head);
    bytes.extend(body);
    Ok(bytes)
}

fn digest(lengths: &[u8], head: &[u8], body: &[u8]) -> [u8; DIGEST_LEN] {
    let mut hasher = blake3::Hasher::new();
    hasher.update(lengths).update(head).update(body);
    let mut digest = [0; DIGEST_LEN];
    hasher.finalize_xof().fill(&mut digest);
    digest
}

/// All records that are whole, and how many bytes they take.
pub(crate) fn decode_records(input: &mut dyn Read) -> io::Result<(Vec<JournalRecord>, u64)> {
    let mut records = Vec::new();
    let mut magic = [0; MAGIC.len()];
    if !read_full(input, &mut magic)? || magic != MAGIC {
        return Ok((records, 0));
    }
    let mut end = MAGIC.len() as u64;
    let mut rest = Vec::new();
    loop {
        let mut prefix = [0; PREFIX_LEN];
        if !read_full(input, &mut prefix)? {
            break;
        }
        let number =
            |at: usize| prefix[at..at + 4].iter().rev().fold(0_u32, |sum, byte| sum << 8 | u32::from(*byte));
        let (head_len, body_len) = (number(0), number(4));
        if head_len > MAX_HEAD || u64::from(body_len) > MAX_INLINE {
            break;
        }
        // Not allocated before it is there: a damaged length must not cost memory.
        rest.clear();
        let len = u64::from(head_len) + u64::from(body_len);
        if input.take(len).read_to_end(&mut rest)? as u64 != len {
            break;
        }
        let (head, body) = rest.split_at(head_len as usize);
        if digest(&prefix[..8], head, body) != prefix[8..] {
            break;
        }
        let Ok(mut record) = serde_json::from_slice::<JournalRecord>(head) else { break };
        if let JournalRecord::Note(note) = &mut record {
            note.body =
                BodyRange { start: end + PREFIX_LEN as u64 + u64::from(head_len), len: u64::from(body_len) };
        }
        end += PREFIX_LEN as u64 + len;
        records.push(record);
    }
    Ok((records, end))
}

/// Reads exactly so much; false when it ends before.
fn read_full(input: &mut dyn Read, buffer: &mut [u8]) -> io::Result<bool> {
    match input.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}
