//! Certificates, requests and lists in, what Salt's `x509.read_*` show of them out.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use md5::Md5;
use sha1::{Digest, Sha1};
use sha2::Sha256;
use zagent_config::{Map, Value};

use super::extension::{CERTIFICATE_EXTENSIONS, Extension, LIST_EXTENSIONS, key_digest};
use super::material::{self, Certificate, Request, RevocationList};
use super::name::{Name, pretty_hex};
use super::render;

/// A time as Salt shows it.
pub(super) fn time_text(at: Timestamp) -> String {
    at.to_zoned(TimeZone::UTC).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// The short digest of a name that OpenSSL names files by.
fn name_hash(name: &Name) -> String {
    let mut first: Vec<u8> = Sha1::digest(name.der())[..4].to_vec();
    first.reverse();
    pretty_hex(&first)
}

fn extensions(all: &[Extension]) -> Map {
    let mut out = Map::new();
    for (name, object, _) in CERTIFICATE_EXTENSIONS.iter().chain(&LIST_EXTENSIONS) {
        if let Some(found) = all.iter().find(|e| e.object == *object) {
            out.insert(*name, render::extension(name, found));
        }
    }
    out
}

/// The kind and the size of a key.
fn key_fields(spki: &[u8]) -> [(&'static str, Value); 2] {
    let (kind, size) = material::key_kind(spki).unwrap_or(("unknown", None));
    [("key_size", size.map_or(Value::Null, Value::from)), ("key_type", kind.into())]
}

fn subject_fields(prefix: &str, name: &Name) -> [(String, Value); 3] {
    [
        (prefix.to_owned(), name.fields().into()),
        (format!("{prefix}_hash"), name_hash(name).into()),
        (format!("{prefix}_str"), name.text().into()),
    ]
}

pub(super) fn certificate(found: &Certificate) -> Map {
    let mut out = Map::from_iter([("version", i64::try_from(found.version).unwrap_or_default())]);
    out.extend_pairs(key_fields(&found.spki));
    out.insert("serial_number", pretty_hex(&found.serial));
    let prints = [
        ("sha1", pretty_hex(&Sha1::digest(&found.der))),
        ("sha256", pretty_hex(&Sha256::digest(&found.der))),
        ("md5", pretty_hex(&Md5::digest(&found.der))),
    ];
    out.insert("fingerprints", Map::from_iter(prints));
    out.extend_pairs(subject_fields("subject", &found.subject));
    out.extend_pairs(subject_fields("issuer", &found.issuer));
    out.insert("not_before", time_text(found.not_before));
    out.insert("not_after", time_text(found.not_after));
    out.insert("public_key", material::to_pem("PUBLIC KEY", &found.spki));
    out.insert("extensions", extensions(&found.extensions));
    out.insert("signature_algorithm", found.signed.algorithm_name());
    out
}

pub(super) fn request(found: &Request) -> Map {
    let mut out = Map::from_iter(key_fields(&found.spki));
    out.extend_pairs(subject_fields("subject", &found.subject));
    out.insert("public_key_hash", pretty_hex(&key_digest(&found.spki)));
    out.insert("extensions", extensions(&found.extensions));
    out
}

pub(super) fn list(found: &RevocationList) -> Map {
    let mut revoked = Map::new();
    for entry in &found.revoked {
        let fields = Map::from_iter([
            ("revocation_date", Value::from(time_text(entry.date))),
            ("extensions", Value::from(extensions(&entry.extensions))),
        ]);
        revoked.insert(pretty_hex(&entry.serial).replace(':', ""), fields);
    }
    Map::from_iter([
        ("issuer", Value::from(found.issuer.fields())),
        ("last_update", time_text(found.last_update).into()),
        ("next_update", found.next_update.map_or(Value::Null, |at| time_text(at).into())),
        ("revoked_certificates", revoked.into()),
        ("extensions", extensions(&found.extensions).into()),
        ("signature_algorithm", found.signed.algorithm_name().into()),
    ])
}

/// Adds several pairs to a mapping.
trait ExtendPairs {
    fn extend_pairs<K: Into<Value>>(&mut self, pairs: impl IntoIterator<Item = (K, Value)>);
}

impl ExtendPairs for Map {
    fn extend_pairs<K: Into<Value>>(&mut self, pairs: impl IntoIterator<Item = (K, Value)>) {
        pairs.into_iter().for_each(|(key, value)| _ = self.insert(key, value));
    }
}
