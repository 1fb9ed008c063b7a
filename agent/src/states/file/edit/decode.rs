//! `file.decode`: a file from text that stands for its bytes.

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha224, Sha256, Sha384, Sha512};
use zagent_config::value::{DEFAULT_DELIMITER, traverse};
use zagent_config::{Map, Value};

use super::edited::{is_salt, resolve};
use crate::fs::{Kind, Meta};
use crate::states::file::content::{difference, hex, new_content};
use crate::states::{Args, Cost, Done, Failure, Look, Resource, Scene, State};

/// Where the text comes from.
enum Source {
    Given(String),
    Pillar(String),
}

/// How the digest of a file is reckoned.
#[derive(Clone, Copy)]
enum Sum {
    Md5,
    Sha1,
    Sha224,
    Sha256,
    Sha384,
    Sha512,
}

impl Sum {
    fn named(name: &str) -> Option<Self> {
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

    fn of(self, bytes: &[u8]) -> String {
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
pub(super) struct Decode {
    path: PathBuf,
    source: Source,
    encoding: String,
    sum: Sum,
}

struct Found {
    path: PathBuf,
    old: Option<Vec<u8>>,
    new: Vec<u8>,
}

impl Decode {
    /// Reads `file.decode`.
    ///
    /// # Errors
    /// Fails with Salt's words when there is not exactly one source.
    pub(super) fn read(path: PathBuf, args: &Args<'_>) -> Result<Self, Failure> {
        let given = args.text("encoded_data")?.filter(|t| !t.is_empty());
        let pillar = args.text("contents_pillar")?.filter(|t| !t.is_empty());
        let source = match (given, pillar) {
            (Some(text), None) => Source::Given(text),
            (None, Some(path)) => Source::Pillar(path),
            (None, None) => {
                return Err(Failure::new("Specify either the 'encoded_data' or 'contents_pillar' argument."));
            }
            (Some(_), Some(_)) => {
                return Err(Failure::new("Specify only one 'encoded_data' or 'contents_pillar' argument."));
            }
        };
        let encoding = args.text("encoding_type")?.unwrap_or_else(|| "base64".into());
        let sum = args.text("checksum")?.unwrap_or_else(|| "md5".into());
        let sum = Sum::named(&sum).ok_or_else(|| Failure::new(format!("unsupported hash type {sum}")))?;
        Ok(Self { path, source, encoding, sum })
    }

    fn find(&self, scene: &Scene<'_>) -> Result<Found, Failure> {
        let text = match &self.source {
            Source::Given(text) => text.clone(),
            Source::Pillar(path) => match traverse(scene.pillar, path, DEFAULT_DELIMITER) {
                None | Some(Value::Bool(false)) => return Err(Failure::new("Pillar data not found.")),
                Some(value) => zagent_compiler::yaml::python_str(value),
            },
        };
        let new = match &*self.encoding {
            "base64" => from_base64(&text)?,
            // Salt does not look at the encoding at all.
            _ if is_salt(scene) => from_base64(&text)?,
            "hex" => from_hex(&text)?,
            other => {
                return Err(Failure::new(format!(
                    "encoding_type {other} is not supported, only base64 and hex can be decoded"
                )));
            }
        };
        let path = resolve(scene, &self.path)?;
        let is_file = scene.fs.stat(&path)?.is_some_and(|stat| stat.kind == Kind::File);
        let old = if is_file { Some(scene.fs.read_for_change(&path)?) } else { None };
        Ok(Found { path, old, new })
    }

    fn changes(&self, found: &Found) -> Map {
        let old = found.old.as_ref().map(|old| self.sum.of(old));
        let mut changes = Map::new();
        changes.insert("old", old.map_or(Value::Null, Value::from));
        changes.insert("new", self.sum.of(&found.new));
        changes
    }
}

fn shown(found: &Found) -> String {
    match &found.old {
        Some(old) => difference(old, &found.new).shown,
        None => new_content(&found.new),
    }
}

impl State for Decode {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let found = self.find(scene)?;
        if found.old.as_ref() == Some(&found.new) {
            return Ok(Look::right("File is in the correct state."));
        }
        let changes = if found.old.is_some() { self.changes(&found) } else { Map::new() };
        Ok(Look::drift("File is set to be updated.", changes).with_diff(shown(&found)))
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let found = self.find(scene)?;
        scene.fs.write(&found.path, &found.new, Meta::default())?;
        Ok(Done::new("File was updated.", self.changes(&found)).with_diff(shown(&found)))
    }

    fn is_foreseeable(&self) -> bool {
        true
    }

    fn cost(&self) -> Cost {
        Cost::Light
    }

    fn resources(&self) -> Vec<Resource> {
        vec![Resource::Path(self.path.clone())]
    }
}

/// The bytes of base64; what is not of its alphabet counts for nothing, as in Python.
fn from_base64(text: &str) -> Result<Vec<u8>, Failure> {
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
    let wrong = |words: &str| Failure::new(words.to_owned());
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

fn from_hex(text: &str) -> Result<Vec<u8>, Failure> {
    let wrong = || Failure::new("encoded_data is not hexadecimal");
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
                    assert!(failure.done.comment.contains(words), "{text}: {}", failure.done.comment);
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
