//! Bytes of certificates, requests, lists and keys in, what they hold out.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;

use super::der::{self, Item};
use super::extension::Extension;
use super::name::{Name, hex};

const BEGIN: &str = "-----BEGIN ";
const SIGNED_DATA: &str = "1.2.840.113549.1.7.2";
const DATA: &str = "1.2.840.113549.1.7.1";
const EXTENSION_REQUEST: &str = "1.2.840.113549.1.9.14";
const RSA: &str = "1.2.840.113549.1.1.1";
const EC: &str = "1.2.840.10045.2.1";
/// Characters of a line of a PEM.
const PEM_LINE: usize = 64;

/// Signature algorithms: the object identifier, its name, the kind of key and the digest.
pub(super) const SIGNATURES: [(&str, &str, &str, Option<&str>); 23] = [
    ("1.2.840.113549.1.1.5", "sha1WithRSAEncryption", "rsa", Some("sha1")),
    ("1.2.840.113549.1.1.14", "sha224WithRSAEncryption", "rsa", Some("sha224")),
    ("1.2.840.113549.1.1.11", "sha256WithRSAEncryption", "rsa", Some("sha256")),
    ("1.2.840.113549.1.1.12", "sha384WithRSAEncryption", "rsa", Some("sha384")),
    ("1.2.840.113549.1.1.13", "sha512WithRSAEncryption", "rsa", Some("sha512")),
    ("1.2.840.113549.1.1.15", "sha512-224WithRSAEncryption", "rsa", Some("sha512_224")),
    ("1.2.840.113549.1.1.16", "sha512-256WithRSAEncryption", "rsa", Some("sha512_256")),
    ("2.16.840.1.101.3.4.3.13", "RSA-SHA3-224", "rsa", Some("sha3_224")),
    ("2.16.840.1.101.3.4.3.14", "RSA-SHA3-256", "rsa", Some("sha3_256")),
    ("2.16.840.1.101.3.4.3.15", "RSA-SHA3-384", "rsa", Some("sha3_384")),
    ("2.16.840.1.101.3.4.3.16", "RSA-SHA3-512", "rsa", Some("sha3_512")),
    ("1.2.840.113549.1.1.10", "RSASSA-PSS", "rsa-pss", None),
    ("1.2.840.10045.4.1", "ecdsa-with-SHA1", "ec", Some("sha1")),
    ("1.2.840.10045.4.3.1", "ecdsa-with-SHA224", "ec", Some("sha224")),
    ("1.2.840.10045.4.3.2", "ecdsa-with-SHA256", "ec", Some("sha256")),
    ("1.2.840.10045.4.3.3", "ecdsa-with-SHA384", "ec", Some("sha384")),
    ("1.2.840.10045.4.3.4", "ecdsa-with-SHA512", "ec", Some("sha512")),
    ("2.16.840.1.101.3.4.3.9", "id-ecdsa-with-sha3-224", "ec", Some("sha3_224")),
    ("2.16.840.1.101.3.4.3.10", "id-ecdsa-with-sha3-256", "ec", Some("sha3_256")),
    ("2.16.840.1.101.3.4.3.11", "id-ecdsa-with-sha3-384", "ec", Some("sha3_384")),
    ("2.16.840.1.101.3.4.3.12", "id-ecdsa-with-sha3-512", "ec", Some("sha3_512")),
    ("1.3.101.112", "ed25519", "ed25519", None),
    ("1.3.101.113", "ed448", "ed448", None),
];

/// What is signed, by what, and the signature.
#[derive(Clone, Debug, Default)]
pub(super) struct Signed {
    pub(super) content: Vec<u8>,
    pub(super) algorithm: String,
    pub(super) signature: Vec<u8>,
}

impl Signed {
    fn read(parts: &[Item<'_>]) -> Option<Self> {
        let [content, algorithm, signature] = parts else { return None };
        let algorithm = der::object_text(algorithm.items()?.first()?.content);
        Some(Self {
            content: content.whole.to_vec(),
            algorithm,
            signature: signature.content.get(1..)?.to_vec(),
        })
    }

    /// The digest of the signature, by Salt's name.
    pub(super) fn digest(&self) -> Option<&'static str> {
        SIGNATURES.iter().find(|(object, ..)| *object == self.algorithm).and_then(|(.., digest)| *digest)
    }

    /// The name of the algorithm.
    pub(super) fn algorithm_name(&self) -> &str {
        let known = SIGNATURES.iter().find(|(object, ..)| *object == self.algorithm);
        known.map_or(&self.algorithm, |(_, name, ..)| name)
    }
}

/// A certificate.
#[derive(Clone, Debug)]
pub(super) struct Certificate {
    pub(super) der: Vec<u8>,
    pub(super) signed: Signed,
    pub(super) version: u64,
    pub(super) serial: Vec<u8>,
    pub(super) issuer: Name,
    pub(super) subject: Name,
    pub(super) not_before: Timestamp,
    pub(super) not_after: Timestamp,
    /// The public key with its kind.
    pub(super) spki: Vec<u8>,
    pub(super) extensions: Vec<Extension>,
}

impl Certificate {
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let signed = Signed::read(&der::only_sequence(bytes)?)?;
        let parts = der::only_sequence(&signed.content)?;
        let (version, parts) = match parts.split_first()? {
            (first, rest) if first.tag == 0xa0 => (der::first(first.content)?.0.small()? + 1, rest),
            _ => (1, parts.as_slice()),
        };
        let [serial, _, issuer, validity, subject, spki, rest @ ..] = parts else { return None };
        let times = validity.items()?;
        let extensions = match rest.iter().find(|item| item.tag == 0xa3) {
            Some(item) => read_extensions(&der::first(item.content)?.0)?,
            None => Vec::new(),
        };
        Some(Self {
            der: bytes.to_vec(),
            version,
            serial: serial.number(),
            issuer: Name::read(issuer)?,
            subject: Name::read(subject)?,
            not_before: der::read_time(times.first()?)?,
            not_after: der::read_time(times.get(1)?)?,
            spki: spki.whole.to_vec(),
            extensions,
            signed,
        })
    }
}

/// A request.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) der: Vec<u8>,
    pub(super) signed: Signed,
    /// Zero in a right one.
    pub(super) version: u64,
    pub(super) subject: Name,
    pub(super) spki: Vec<u8>,
    pub(super) extensions: Vec<Extension>,
}

impl Request {
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let signed = Signed::read(&der::only_sequence(bytes)?)?;
        let parts = der::only_sequence(&signed.content)?;
        let [version, subject, spki, rest @ ..] = parts.as_slice() else { return None };
        let mut extensions = Vec::new();
        for attribute in rest.first().map(Item::items).unwrap_or_default().unwrap_or_default() {
            let pair = attribute.items()?;
            if der::object_text(pair.first()?.content) == EXTENSION_REQUEST {
                extensions = read_extensions(&der::first(pair.get(1)?.content)?.0)?;
            }
        }
        Some(Self {
            der: bytes.to_vec(),
            version: version.small()?,
            subject: Name::read(subject)?,
            spki: spki.whole.to_vec(),
            extensions,
            signed,
        })
    }
}

/// The attribute of a request that holds its extensions; empty without any.
pub(super) fn request_attributes(extensions: &[Extension]) -> Vec<u8> {
    if extensions.is_empty() {
        return der::explicit(0, &[]);
    }
    let all: Vec<Vec<u8>> = extensions.iter().map(Extension::der).collect();
    let object = der::object(EXTENSION_REQUEST).unwrap_or_default();
    der::explicit(0, &der::sequence(&[object, der::tlv(der::SET, &der::sequence(&all))]))
}

/// An entry of a list.
#[derive(Clone, Debug)]
pub(super) struct Revoked {
    pub(super) serial: Vec<u8>,
    pub(super) date: Timestamp,
    pub(super) extensions: Vec<Extension>,
}

/// A list of revoked certificates.
#[derive(Clone, Debug)]
pub(super) struct RevocationList {
    pub(super) der: Vec<u8>,
    pub(super) signed: Signed,
    pub(super) issuer: Name,
    pub(super) last_update: Timestamp,
    pub(super) next_update: Option<Timestamp>,
    pub(super) revoked: Vec<Revoked>,
    pub(super) extensions: Vec<Extension>,
}

impl RevocationList {
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let signed = Signed::read(&der::only_sequence(bytes)?)?;
        let parts = der::only_sequence(&signed.content)?;
        let parts = if parts.first()?.tag == der::INTEGER { &parts[1..] } else { &parts[..] };
        let [_, issuer, last, rest @ ..] = parts else { return None };
        let next = rest.first().and_then(der::read_time);
        let rest = if next.is_some() { &rest[1..] } else { rest };
        let mut revoked = Vec::new();
        let entries = rest.iter().find(|item| item.tag == der::SEQUENCE);
        for entry in entries.map_or_else(|| Some(Vec::new()), Item::items)? {
            let fields = entry.items()?;
            revoked.push(Revoked {
                serial: fields.first()?.number(),
                date: der::read_time(fields.get(1)?)?,
                extensions: fields.get(2).map_or_else(|| Some(Vec::new()), read_extensions)?,
            });
        }
        let extensions = match rest.iter().find(|item| item.tag == 0xa0) {
            Some(item) => read_extensions(&der::first(item.content)?.0)?,
            None => Vec::new(),
        };
        Some(Self {
            der: bytes.to_vec(),
            issuer: Name::read(issuer)?,
            last_update: der::read_time(last)?,
            next_update: next,
            revoked,
            extensions,
            signed,
        })
    }
}

fn read_extensions(list: &Item<'_>) -> Option<Vec<Extension>> {
    let one = |item: &Item<'_>| {
        let parts = item.items()?;
        let critical = parts.get(1)?.tag == der::BOOLEAN && parts[1].content != [0];
        let value = parts.last()?.content.to_vec();
        Some(Extension { object: der::object_text(parts.first()?.content), critical, value })
    };
    list.items()?.iter().map(one).collect()
}

/// The bits of a public key, without its kind.
pub(super) fn public_key_bits(spki: &[u8]) -> Option<Vec<u8>> {
    Some(der::only_sequence(spki)?.get(1)?.content.get(1..)?.to_vec())
}

/// The kind of a public key, and its size where it has one.
pub(super) fn key_kind(spki: &[u8]) -> Option<(&'static str, Option<i64>)> {
    let parts = der::only_sequence(spki)?;
    let algorithm = parts.first()?.items()?;
    match der::object_text(algorithm.first()?.content).as_str() {
        RSA => {
            let bits = public_key_bits(spki)?;
            let modulus = der::only_sequence(&bits)?.first()?.number();
            let lead = i64::from(modulus.first()?.leading_zeros());
            Some(("rsa", Some(i64::try_from(modulus.len()).ok()? * 8 - lead)))
        }
        EC => {
            let size = match der::object_text(algorithm.get(1)?.content).as_str() {
                "1.2.840.10045.3.1.7" | "1.3.132.0.10" => 256,
                "1.3.132.0.34" => 384,
                "1.3.132.0.35" => 521,
                "1.3.132.0.33" => 224,
                _ => 0,
            };
            Some(("ec", Some(size)))
        }
        "1.3.101.112" => Some(("ed25519", None)),
        "1.3.101.113" => Some(("ed448", None)),
        _ => None,
    }
}

/// One block of a PEM.
pub(super) struct PemBlock {
    pub(super) label: String,
    /// The whole block.
    pub(super) text: String,
    pub(super) bytes: Vec<u8>,
    pub(super) is_encrypted: bool,
}

/// The blocks of a PEM.
pub(super) fn pem_blocks(text: &str) -> Vec<PemBlock> {
    let mut blocks = Vec::new();
    let mut lines = text.lines().map(str::trim);
    while let Some(line) = lines.next() {
        let Some(label) = line.strip_prefix(BEGIN).and_then(|l| l.strip_suffix("-----")) else { continue };
        let (mut whole, mut body, mut is_encrypted) =
            (format!("{line}\n"), String::new(), label.starts_with("ENCRYPTED"));
        for line in lines.by_ref() {
            whole += line;
            whole.push('\n');
            if line.starts_with("-----END ") {
                break;
            }
            is_encrypted |= line.contains("ENCRYPTED");
            if !line.contains(':') {
                body += line;
            }
        }
        let bytes = STANDARD.decode(&body).unwrap_or_default();
        blocks.push(PemBlock { label: label.to_owned(), text: whole, bytes, is_encrypted });
    }
    blocks
}

/// Bytes as a PEM.
pub(super) fn to_pem(label: &str, bytes: &[u8]) -> String {
    let body = STANDARD.encode(bytes);
    let mut out = format!("{BEGIN}{label}-----\n");
    for line in body.as_bytes().chunks(PEM_LINE) {
        out += &String::from_utf8_lossy(line);
        out.push('\n');
    }
    out + "-----END " + label + "-----\n"
}

/// True when a PEM is in the bytes.
pub(super) fn is_pem(bytes: &[u8]) -> bool {
    String::from_utf8_lossy(bytes).contains(BEGIN)
}

/// The bytes that a text stands for: a PEM, or hexadecimal or base64 digits.
pub(super) fn decode_text(text: &str) -> Option<Vec<u8>> {
    if let Some(rest) = text.strip_prefix("b64:") {
        return STANDARD.decode(rest.trim()).ok();
    }
    if text.contains(BEGIN) {
        return Some(text.as_bytes().to_vec());
    }
    let plain: String = text.split_whitespace().collect();
    hex(&plain).or_else(|| STANDARD.decode(&plain).ok())
}

/// Certificates in a container of their own.
pub(super) fn to_pkcs7(certificates: &[&Certificate]) -> Vec<u8> {
    let object = |dotted| der::object(dotted).unwrap_or_default();
    let all: Vec<u8> = certificates.iter().flat_map(|c| c.der.iter().copied()).collect();
    let empty = der::tlv(der::SET, &[]);
    let data = [der::small(1), empty.clone(), der::sequence(&[object(DATA)]), der::explicit(0, &all), empty];
    der::sequence(&[object(SIGNED_DATA), der::explicit(0, &der::sequence(&data))])
}

/// The certificates of a container.
pub(super) fn read_pkcs7(bytes: &[u8]) -> Option<Vec<Certificate>> {
    let parts = der::only_sequence(bytes)?;
    if der::object_text(parts.first()?.content) != SIGNED_DATA {
        return None;
    }
    let data = der::first(parts.get(1)?.content)?.0.items()?;
    let certificates = data.iter().find(|item| item.tag == 0xa0)?;
    let all: Option<Vec<_>> = certificates.items()?.iter().map(|c| Certificate::read(c.whole)).collect();
    all.filter(|all| !all.is_empty())
}

/// True when bytes look like a PKCS#12 container.
pub(super) fn is_pkcs12(bytes: &[u8]) -> bool {
    der::only_sequence(bytes)
        .is_some_and(|parts| parts.len() >= 2 && parts[0].whole == [2, 1, 3] && parts[1].tag == der::SEQUENCE)
}
