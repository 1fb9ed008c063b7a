//! `file.decode`: a file from text that stands for its bytes.

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};
use zagent_config::value::{DEFAULT_DELIMITER, traverse};
use zagent_config::{Map, Value};

use super::editor::{is_salt, resolve_links};
use crate::file::diff::{content_diff, hex, new_content_diff};
use crate::{ApplyResult, CheckCost, CheckResult, ChunkArgs, LockKey, State, StateCtx, StateError};
use zagent_host::fs::{FileKind, FileMeta};

/// Where the text comes from.
enum DecodeSource {
    Given(String),
    Pillar(String),
}

/// How the digest of a file is reckoned.
#[derive(Clone, Copy)]
enum ChecksumType {
    Md5,
    Sha1,
    Sha224,
    Sha256,
    Sha384,
    Sha512,
}

impl ChecksumType {
    fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "md5" => Self::Md5,
            "sha1" => Self::Sha1,
            "sha224" => Self::Sha224,
            "sha256" => Self::Sha256,
            "sha384" => Self::Sha384,
            "sha512" => Self::Sha512,
            _ => return None,
        })
    }

    fn digest(self, bytes: &[u8]) -> String {
        match self {
            Self::Md5 => hex(&Md5::digest(bytes)),
            Self::Sha1 => hex(&Sha1::digest(bytes)),
            Self::Sha224 => hex(&Sha224::digest(bytes)),
            Self::Sha256 => hex(&Sha256::digest(bytes)),
            Self::Sha384 => hex(&Sha384::digest(bytes)),
            Self::Sha512 => hex(&Sha512::digest(bytes)),
        }
    }
}

/// A file that is decoded.
pub(crate) struct FileDecode {
    path: PathBuf,
    source: DecodeSource,
    encoding: String,
    sum: ChecksumType,
}

struct DecodePlan {
    path: PathBuf,
    old: Option<Vec<u8>>,
    new: Vec<u8>,
}

impl FileDecode {
    /// Reads `file.decode`.
    ///
    /// # Errors
    /// Fails with Salt's words when there is not exactly one source.
    pub(crate) fn read(path: PathBuf, args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        let given = args.text("encoded_data")?.filter(|t| !t.is_empty());
        let pillar = args.text("contents_pillar")?.filter(|t| !t.is_empty());
        let source = match (given, pillar) {
            (Some(text), None) => DecodeSource::Given(text),
            (None, Some(path)) => DecodeSource::Pillar(path),
            (None, None) => {
                return Err(StateError::new(
                    "Specify either the 'encoded_data' or 'contents_pillar' argument.",
                ));
            }
            (Some(_), Some(_)) => {
                return Err(StateError::new(
                    "Specify only one 'encoded_data' or 'contents_pillar' argument.",
                ));
            }
        };
        let encoding = args.text("encoding_type")?.unwrap_or_else(|| "base64".into());
        let sum = args.text("checksum")?.unwrap_or_else(|| "md5".into());
        let sum = ChecksumType::from_name(&sum)
            .ok_or_else(|| StateError::new(format!("unsupported hash type {sum}")))?;
        Ok(Self { path, source, encoding, sum })
    }

    fn plan_decode(&self, ctx: &StateCtx<'_>) -> Result<DecodePlan, StateError> {
        let text = match &self.source {
            DecodeSource::Given(text) => text.clone(),
            DecodeSource::Pillar(path) => match traverse(ctx.pillar, path, DEFAULT_DELIMITER) {
                None | Some(Value::Bool(false)) => return Err(StateError::new("Pillar data not found.")),
                Some(value) => zagent_config::value::python_str(value),
            },
        };
        let new = match &*self.encoding {
            "base64" => from_base64(&text)?,
            // Salt does not look at the encoding at all.
            _ if is_salt(ctx) => from_base64(&text)?,
            "hex" => from_hex(&text)?,
            other => {
                return Err(StateError::new(format!(
                    "encoding_type {other} is not supported, only base64 and hex can be decoded"
                )));
            }
        };
        let path = resolve_links(ctx, &self.path)?;
        let is_file = ctx.fs.stat(&path)?.is_some_and(|stat| stat.kind == FileKind::File);
        let old = if is_file { Some(ctx.fs.read_for_change(&path)?) } else { None };
        Ok(DecodePlan { path, old, new })
    }

    fn changes(&self, found: &DecodePlan) -> Map {
        let old = found.old.as_ref().map(|old| self.sum.digest(old));
        let mut changes = Map::new();
        changes.insert("old", old.map_or(Value::Null, Value::from));
        changes.insert("new", self.sum.digest(&found.new));
        changes
    }
}

fn shown_diff(found: &DecodePlan) -> String {
    match &found.old {
        Some(old) => content_diff(old, &found.new).shown,
        None => new_content_diff(&found.new),
    }
}

impl State for FileDecode {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let found = self.plan_decode(ctx)?;
        if found.old.as_ref() == Some(&found.new) {
            return Ok(CheckResult::in_sync("File is in the correct state."));
        }
        let changes = if found.old.is_some() { self.changes(&found) } else { Map::new() };
        Ok(CheckResult::drifted("File is set to be updated.", changes).with_diff(shown_diff(&found)))
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let found = self.plan_decode(ctx)?;
        ctx.fs.write(&found.path, &found.new, FileMeta::default())?;
        Ok(ApplyResult::new("File was updated.", self.changes(&found)).with_diff(shown_diff(&found)))
    }

    fn is_predictable(&self) -> bool {
        true
    }

    fn check_cost(&self) -> CheckCost {
        CheckCost::Light
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        vec![LockKey::Path(self.path.clone())]
    }
}

/// The bytes of base64; what is not of its alphabet counts for nothing, as in Python.
fn from_base64(text: &str) -> Result<Vec<u8>, StateError> {
    let is_letter = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/');
    let mut kept: Vec<u8> = Vec::with_capacity(text.len());
    let mut pads = 0;
    for byte in text.bytes() {
        if byte == b'=' && kept.len() % 4 >= 2 {
            pads += 1;
            if kept.len() % 4 + pads >= 4 {
                break;
            }
        } else if is_letter(&byte) {
            pads = 0;
            kept.push(byte);
        }
    }
    let wrong = |words: &str| StateError::new(words.to_owned());
    match kept.len() % 4 {
        0 => {}
        1 => {
            let whole = kept.len();
            return Err(wrong(&format!(
                "Invalid base64-encoded string: number of data characters ({whole}) cannot be 1 more than a multiple of 4"
            )));
        }
        rest if rest + pads >= 4 => {}
        _ => return Err(wrong("Incorrect padding")),
    }
    while !kept.len().is_multiple_of(4) {
        kept.push(b'=');
    }
    let engine = base64::engine::GeneralPurpose::new(
        &base64::alphabet::STANDARD,
        base64::engine::GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
    );
    engine.decode(&kept).or_else(|_| STANDARD.decode(&kept)).map_err(|_| wrong("Incorrect padding"))
}

fn from_hex(text: &str) -> Result<Vec<u8>, StateError> {
    let wrong = || StateError::new("encoded_data is not hexadecimal");
    let digits: Vec<u32> = text
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| c.to_digit(16).ok_or_else(wrong))
        .collect::<Result<_, _>>()?;
    if !digits.len().is_multiple_of(2) {
        return Err(wrong());
    }
    digits.chunks_exact(2).map(|pair| u8::try_from(pair[0] * 16 + pair[1]).map_err(|_| wrong())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_read_as_python_reads_it() {
        for (text, want) in [
            ("aGFsbG8=", Ok("hallo")),
            ("aGFs\n bG8=\n", Ok("hallo")),
            ("aGFsbG8=trailing", Ok("hallo")),
            ("", Ok("")),
            ("aGFsbG8", Err("Incorrect padding")),
            ("aGFsbG9=", Ok("hallo")),
            ("a", Err("number of data characters (1) cannot be")),
        ] {
            match (from_base64(text), want) {
                (Ok(bytes), Ok(want)) => assert_eq!(bytes, want.as_bytes(), "{text}"),
                (Err(failure), Err(words)) => {
                    assert!(failure.result.comment.contains(words), "{text}: {}", failure.result.comment);
                }
                (got, _) => panic!("{text}: {got:?}"),
            }
        }
    }

    #[test]
    fn hex_is_read_in_pairs() {
        assert_eq!(from_hex("68 61\n").unwrap(), b"ha");
        assert!(from_hex("6").is_err());
        assert!(from_hex("6g").is_err());
    }
}
