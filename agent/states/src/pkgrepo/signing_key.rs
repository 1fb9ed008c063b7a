//! Keys that sign packages: an address, a text or the number of a key in, a keyring that apt reads out.
//!
//! Law: a key that is asked for by its number is taken only when it has that number (held by
//! `armour_comes_off_and_is_checked`).

use std::path::{Path, PathBuf};
use zagent_config::mask::redact_logins;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::file::{hash, parents, sources};
use crate::{ChunkArgs, StateCtx, StateError};
use zagent_host::fs::{FileKind, FileMeta, FileSystem};

const ARMOR_BEGIN: &str = "-----BEGIN PGP PUBLIC KEY BLOCK-----";
const ARMOR_END: &str = "-----END PGP PUBLIC KEY BLOCK-----";

/// Where a key comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
enum KeySource {
    /// `key_url`.
    Url(String),
    /// `key_text`.
    Text(String),
    /// `keyid` and `keyserver`.
    Server(Vec<String>, String),
}

/// A key and where it belongs.
#[derive(Clone, Debug)]
pub(crate) struct SigningKey {
    source: KeySource,
    keyring: PathBuf,
}

impl SigningKey {
    /// Reads what a state says about keys; `ring` is the keyring that the entry itself names.
    ///
    /// # Errors
    /// Fails when it is contradictory or incomplete.
    pub(crate) fn from_args(args: &ChunkArgs<'_>, ring: Option<&str>) -> Result<Option<Self>, StateError> {
        let (url, text) = (args.text("key_url")?, args.text("key_text")?);
        let ids = args.texts("keyid")?;
        for (one, other, both) in [
            (ids.is_some(), url.is_some(), "\"keyid\"/\"keyserver\" and \"key_url\""),
            (ids.is_some(), text.is_some(), "\"keyid\"/\"keyserver\" and \"key_text\""),
            (url.is_some(), text.is_some(), "\"key_url\" and \"key_text\""),
        ] {
            if one && other {
                return Err(StateError::new(format!("You may not use both {both} argument.")));
            }
        }
        let from = match (url, text, ids) {
            (Some(url), ..) => {
                let insecure = url.trim_start().starts_with("http:");
                if insecure && !args.flag("allow_insecure_key", true) {
                    let words = "Cannot have 'key_url' using http with 'allow_insecure_key' set to True";
                    return Err(StateError::new(words));
                }
                KeySource::Url(url)
            }
            (_, Some(text), _) => KeySource::Text(text),
            (_, _, Some(ids)) => {
                let server = args.text("keyserver")?.filter(|s| !s.is_empty());
                let server =
                    server.ok_or_else(|| StateError::new("both keyserver and keyid options required."))?;
                KeySource::Server(ids.iter().map(|id| key_id(id)).collect(), server)
            }
            _ => return Ok(None),
        };
        let to = match ring.filter(|r| r.starts_with('/')) {
            Some(ring) => PathBuf::from(ring),
            None => Path::new("/etc/apt/trusted.gpg.d").join(format!("{}.gpg", from.file_stem(args))),
        };
        Ok(Some(Self { source: from, keyring: to }))
    }

    /// Where it belongs.
    pub(crate) fn path(&self) -> &Path {
        &self.keyring
    }

    /// True when only the network knows it.
    pub(crate) fn is_remote(&self) -> bool {
        match &self.source {
            KeySource::Url(url) => matches!(sources::parse_location(url), sources::ContentLocation::Web(_)),
            KeySource::Text(_) => false,
            KeySource::Server(..) => true,
        }
    }

    /// True when it has to be written. What only the network knows is not asked for when there is some key already.
    ///
    /// # Errors
    /// Fails when it cannot be looked at.
    pub(crate) fn is_missing(&self, ctx: &StateCtx<'_>, env: &str) -> Result<bool, StateError> {
        let is_there = ctx.fs.stat(&self.keyring)?.is_some_and(|s| s.kind == FileKind::File && s.size > 0);
        if !is_there || self.is_remote() {
            return Ok(!is_there);
        }
        let wanted = self.fetch_bytes(ctx, env)?;
        Ok(!ctx.fs.compare(&self.keyring, &wanted)?.is_some_and(|(_, is_same)| is_same))
    }

    /// Puts the key where it belongs; says whether that changed anything.
    ///
    /// # Errors
    /// Fails when it cannot be had or written.
    pub(crate) fn install(&self, ctx: &StateCtx<'_>, env: &str) -> Result<bool, StateError> {
        let bytes = self.fetch_bytes(ctx, env)?;
        if ctx.fs.compare(&self.keyring, &bytes)?.is_some_and(|(_, is_same)| is_same) {
            return Ok(false);
        }
        parents::make_parents(ctx, &self.keyring, FileMeta { mode: Some(0o755), ..FileMeta::default() })?;
        let to = ctx.fs.resolve_for_change(&self.keyring)?;
        ctx.fs.write(&to, &bytes, FileMeta { mode: Some(0o644), ..FileMeta::default() })?;
        Ok(true)
    }

    fn fetch_bytes(&self, ctx: &StateCtx<'_>, env: &str) -> Result<Vec<u8>, StateError> {
        let fetch = |from: &str| {
            let found = sources::FileSources::without_verification(from.into()).find_source(ctx, env, from);
            found.map(|f| f.bytes.to_vec()).map_err(StateError::new)
        };
        let raw = match &self.source {
            KeySource::Url(url) => fetch(url)?,
            KeySource::Text(text) => text.as_bytes().to_vec(),
            KeySource::Server(ids, server) => {
                let mut all = Vec::new();
                for id in ids {
                    let key = dearmor(&fetch(&keyserver_url(server, id))?).map_err(StateError::new)?;
                    if !fingerprints(&key).iter().any(|f| f.ends_with(id.as_str())) {
                        return Err(StateError::new(format!("Error: Could not add key: {id}")));
                    }
                    all.extend(key);
                }
                all
            }
        };
        let plain = dearmor(&raw).map_err(StateError::new)?;
        if fingerprints(&plain).is_empty() {
            return Err(StateError::new(format!("`{}` holds no public key", self.source.describe())));
        }
        let stays_armoured = self.keyring.extension().is_some_and(|e| e == "asc");
        Ok(if stays_armoured && is_armored(&raw) { raw } else { plain })
    }
}

/// Where keyrings are that people may take away.
pub(crate) const KEYRING_DIRS: [&str; 2] = ["/etc/apt/trusted.gpg.d", "/etc/apt/keyrings"];

/// Keys that go with their repository.
pub(crate) struct RemovedKeys(Vec<String>);

impl RemovedKeys {
    /// Reads `keyid`; whose key `keyid_ppa` means only Launchpad knows.
    ///
    /// # Errors
    /// Fails when it cannot be told which key is meant.
    pub(crate) fn from_args(args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        if args.flag("keyid_ppa", false) {
            return Err(StateError::new(
                "`keyid_ppa` is not supported here: give the number of the key as `keyid`",
            ));
        }
        let ids: Vec<String> = args.texts("keyid")?.unwrap_or_default().iter().map(|id| key_id(id)).collect();
        // Fewer digits fit keys of others.
        if let Some(id) = ids.iter().find(|id| id.len() < 8 || !id.bytes().all(|b| b.is_ascii_hexdigit())) {
            return Err(StateError::new(format!("`{id}` is no number of a key")));
        }
        Ok(Self(ids))
    }

    /// The keyrings that hold these keys and no other: one that holds more is somebody else's, too.
    ///
    /// # Errors
    /// Fails when one cannot be read.
    pub(crate) fn removable_keyrings(&self, fs: &dyn FileSystem) -> Result<Vec<PathBuf>, StateError> {
        let mut found = Vec::new();
        for dir in KEYRING_DIRS.map(Path::new) {
            if self.0.is_empty() || fs.stat(dir)?.is_none_or(|s| s.kind != FileKind::Dir) {
                continue;
            }
            for (name, kind) in fs.read_dir(dir)? {
                let path = dir.join(name);
                if kind != FileKind::File || !path.extension().is_some_and(|e| e == "gpg" || e == "asc") {
                    continue;
                }
                // What cannot be read as a key is none of these.
                let keys = key_fingerprints(&dearmor(&fs.read(&path)?).unwrap_or_default());
                let is_meant =
                    |key: &Vec<String>| key.iter().any(|f| self.0.iter().any(|id| f.ends_with(id)));
                if !keys.is_empty() && keys.iter().all(is_meant) {
                    found.push(path);
                }
            }
        }
        Ok(found)
    }
}

impl KeySource {
    fn describe(&self) -> String {
        match self {
            Self::Url(url) => redact_logins(url),
            Self::Text(_) => "key_text".into(),
            Self::Server(ids, _) => ids.join(" "),
        }
    }

    /// A name for the file, of letters that apt allows.
    fn file_stem(&self, args: &ChunkArgs<'_>) -> String {
        let text = match self {
            Self::Url(url) => {
                let rest = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
                rest.trim_end_matches(".gpg").trim_end_matches(".asc").to_owned()
            }
            Self::Text(_) => {
                args.name().split_whitespace().find(|w| w.contains("://")).unwrap_or("key").to_owned()
            }
            Self::Server(ids, _) => ids.join("-"),
        };
        let plain = text.replace(|c: char| !c.is_ascii_alphanumeric() && c != '.' && c != '_', "-");
        plain.trim_matches(['-', '.']).to_owned()
    }
}

/// The number of a key without what stands before it.
fn key_id(text: &str) -> String {
    let plain: String = text.chars().filter(|c| !c.is_whitespace()).collect::<String>().to_ascii_uppercase();
    plain.strip_prefix("0X").unwrap_or(&plain).to_owned()
}

/// Where a server of keys is asked for one.
fn keyserver_url(server: &str, id: &str) -> String {
    let host = match server.split_once("://") {
        Some(("hkp", host)) if host.contains(':') => format!("http://{host}"),
        Some(("hkp", host)) => format!("http://{}:11371", host.trim_end_matches('/')),
        Some(("hkps", host)) => format!("https://{host}"),
        Some(_) => server.to_owned(),
        None => format!("https://{server}"),
    };
    format!("{}/pks/lookup?op=get&options=mr&search=0x{id}", host.trim_end_matches('/'))
}

fn is_armored(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(|text| text.contains(ARMOR_BEGIN))
}

/// A key as bytes; what is no text already is.
fn dearmor(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let Some(text) = std::str::from_utf8(bytes).ok().filter(|t| t.contains(ARMOR_BEGIN)) else {
        return Ok(bytes.to_vec());
    };
    let mut all = Vec::new();
    for block in text.split(ARMOR_BEGIN).skip(1) {
        let (block, _) = block.split_once(ARMOR_END).ok_or("a block of the key does not end")?;
        let (mut digits, mut sum) = (String::new(), None);
        for line in block.lines().map(str::trim).filter(|l| !l.is_empty() && !l.contains(": ")) {
            match line.strip_prefix('=') {
                Some(check) => sum = Some(check),
                None => digits.push_str(line),
            }
        }
        let bytes = STANDARD.decode(&digits).map_err(|e| format!("the key is damaged: {e}"))?;
        let check = crc24(&bytes).to_be_bytes();
        if sum.is_some_and(|s| STANDARD.decode(s).is_ok_and(|s| s != check[1..])) {
            return Err("the key is damaged: its checksum does not fit".into());
        }
        all.extend(bytes);
    }
    Ok(all)
}

fn crc24(bytes: &[u8]) -> u32 {
    let mut crc: u32 = 0x00b7_04ce;
    for byte in bytes {
        crc ^= u32::from(*byte) << 16;
        for _ in 0..8 {
            crc <<= 1;
            if crc & 0x0100_0000 != 0 {
                crc ^= 0x0186_4cfb;
            }
        }
    }
    crc & 0x00ff_ffff
}

/// The fingerprints of the keys in a keyring, of main keys and others, in capital letters.
fn fingerprints(bytes: &[u8]) -> Vec<String> {
    key_fingerprints(bytes).into_iter().flatten().collect()
}

/// The same by key: its own first, then those of its subkeys.
fn key_fingerprints(mut bytes: &[u8]) -> Vec<Vec<String>> {
    let mut all: Vec<Vec<String>> = Vec::new();
    while let Some((tag, body, rest)) = split_packet(bytes) {
        // Public keys and their subkeys, of the version that there is.
        if matches!(tag, 6 | 14) && body.first() == Some(&4) {
            let Ok(length) = u16::try_from(body.len()) else { return all };
            let whole = [&[0x99][..], &length.to_be_bytes(), body].concat();
            let fingerprint = hash::DigestAlgorithm::Sha1.digest(&whole).to_ascii_uppercase();
            match all.last_mut().filter(|_| tag == 14) {
                Some(key) => key.push(fingerprint),
                None => all.push(vec![fingerprint]),
            }
        }
        bytes = rest;
    }
    all
}

/// The first packet: its kind, what it holds, and what comes after it.
fn split_packet(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (head, rest) = bytes.split_first()?;
    let number = |n: usize| -> Option<(usize, &[u8])> {
        let digits = rest.get(..n)?.iter().fold(0, |sum, b| sum << 8 | usize::from(*b));
        Some((digits, rest.get(n..)?))
    };
    let (tag, (length, rest)) = match head {
        head if head & 0xc0 == 0xc0 => {
            let (first, after) = rest.split_first()?;
            let of = match first {
                0..=191 => (usize::from(*first), after),
                192..=223 => {
                    let second = usize::from(*after.first()?);
                    ((usize::from(*first) - 192) * 256 + second + 192, after.get(1..)?)
                }
                255 => {
                    let (length, after) = (after.get(..4)?, after.get(4..)?);
                    (length.iter().fold(0, |sum, b| sum << 8 | usize::from(*b)), after)
                }
                _ => return None,
            };
            (head & 0x3f, of)
        }
        head if head & 0x80 != 0 => match head & 3 {
            kind @ 0..=2 => ((head >> 2) & 0xf, number(1 << kind)?),
            _ => return None,
        },
        _ => return None,
    };
    Some((tag, rest.get(..length)?, rest.get(length..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key that was made for this: ed25519, without a name of anybody.
    const ARMOURED: &str = include_str!("key.asc");

    #[test]
    fn armour_comes_off_and_is_checked() {
        let plain = dearmor(ARMOURED.as_bytes()).expect("a key");
        assert_eq!(fingerprints(&plain), ["56CC3112074F985DB32F7D9AA6DBE9F89B0156DA"]);
        assert_eq!(dearmor(&plain).expect("bytes"), plain);
        let twice = dearmor(format!("{ARMOURED}\n{ARMOURED}").as_bytes()).expect("two keys");
        assert_eq!(twice.len(), 2 * plain.len());
        let line = ARMOURED.lines().find(|l| l.len() == 64).expect("a line");
        let damaged = ARMOURED.replace(line, &line.replace('A', "B"));
        assert!(dearmor(damaged.as_bytes()).is_err_and(|e| e.contains("checksum")));
        assert!(fingerprints(b"<html>no key</html>").is_empty());
    }

    #[test]
    fn a_keyring_goes_with_its_only_key() {
        let overlay = zagent_host::fs::Overlay::new(std::sync::Arc::new(zagent_host::disk::Disk::default()));
        let ring = |name: &str, text: &str| {
            let path = Path::new(KEYRING_DIRS[0]).join(name);
            overlay.make_dir(Path::new("/etc/apt"), FileMeta::default()).unwrap_or_default();
            overlay.make_dir(Path::new(KEYRING_DIRS[0]), FileMeta::default()).unwrap_or_default();
            overlay.write(&path, text.as_bytes(), FileMeta::default()).unwrap();
            path
        };
        let mine = ring("zagent-mine.asc", ARMOURED);
        ring("zagent-none.asc", "no key at all");
        let rings = |args: &str| {
            let chunk = crate::testing::chunk("pkgrepo.absent", "x", args);
            RemovedKeys::from_args(&ChunkArgs::new(&chunk))
                .and_then(|gone| gone.removable_keyrings(&overlay))
                .map_err(|f| f.result.comment)
        };
        assert_eq!(rings(r#"{"keyid": "9B0156DA"}"#), Ok(vec![mine.clone()]));
        assert_eq!(rings(r#"{"keyid": ["0x56CC3112074F985DB32F7D9AA6DBE9F89B0156DA"]}"#), Ok(vec![mine]));
        assert_eq!(rings(r#"{"keyid": "00000000"}"#), Ok(Vec::new()));
        assert_eq!(rings("{}"), Ok(Vec::new()));
        assert!(rings(r#"{"keyid": "DA"}"#).is_err() && rings(r#"{"keyid_ppa": true}"#).is_err());
    }

    #[test]
    fn servers_of_keys_are_asked_by_their_address() {
        assert_eq!(key_id("0x0123 abcd"), "0123ABCD");
        let table = [
            ("keyserver.ubuntu.com", "https://keyserver.ubuntu.com"),
            ("hkp://h", "http://h:11371"),
            ("hkp://h:80", "http://h:80"),
            ("hkps://h/", "https://h"),
        ];
        for (server, expected) in table {
            assert_eq!(
                keyserver_url(server, "AB"),
                format!("{expected}/pks/lookup?op=get&options=mr&search=0xAB")
            );
        }
    }
}
