//! Digests, base64 and names made from digests.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac as _};
use md5::Md5;
use minijinja::value::{Value, ValueKind};
use minijinja::{Error, State};
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};

use super::FilterFn;
use crate::jinja::methods::args::CallArgs;

pub(super) const FILTERS: &[(&str, FilterFn)] = &[
    ("md5", |_, a| digest::<Md5>(a)),
    ("sha1", |_, a| digest::<Sha1>(a)),
    ("sha256", |_, a| digest::<Sha256>(a)),
    ("sha512", |_, a| digest::<Sha512>(a)),
    ("hmac", hmac_check),
    ("hmac_compute", |_, a| {
        let [text, secret] = a.bind(["string", "shared_secret"], 2)?;
        Ok(Value::from(hex(&hmac_of(a, text, secret)?)))
    }),
    ("base64_encode", |_, a| Ok(Value::from(STANDARD.encode(bytes(a, &a.expect_one("instr")?)?)))),
    ("base64_decode", base64_decode),
    ("uuid", |_, a| Ok(Value::from(uuid(&a.text(&a.expect_one("val")?)?)))),
];

/// The bytes of a string or a byte string.
fn bytes(args: &CallArgs, value: &Value) -> Result<Vec<u8>, Error> {
    match value.kind() {
        ValueKind::String => Ok(value.as_str().unwrap_or_default().as_bytes().to_vec()),
        ValueKind::Bytes => Ok(value.as_bytes().unwrap_or_default().to_vec()),
        _ => Err(args.type_error("the value", "a string", value)),
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn digest<D: Digest>(args: &CallArgs) -> Result<Value, Error> {
    Ok(Value::from(hex(&D::digest(bytes(args, &args.expect_one("instr")?)?))))
}

/// The digest of a text by its name in Python's `hashlib`.
pub(super) fn digest_by_name(name: &str, text: &str) -> Option<String> {
    Some(match name {
        "md5" => hex(&Md5::digest(text)),
        "sha1" => hex(&Sha1::digest(text)),
        "sha224" => hex(&sha2::Sha224::digest(text)),
        "sha256" => hex(&Sha256::digest(text)),
        "sha384" => hex(&sha2::Sha384::digest(text)),
        "sha512" => hex(&Sha512::digest(text)),
        _ => return None,
    })
}

fn hmac_of(args: &CallArgs, text: Option<Value>, secret: Option<Value>) -> Result<Vec<u8>, Error> {
    let key = bytes(args, &secret.unwrap_or_default())?;
    let mut mac =
        Hmac::<Sha256>::new_from_slice(&key).map_err(|_| args.error("the secret cannot be used as a key"))?;
    mac.update(&bytes(args, &text.unwrap_or_default())?);
    Ok(mac.finalize().into_bytes().to_vec())
}

fn hmac_check(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    let [text, secret, challenge] = args.bind(["string", "shared_secret", "challenge_hmac"], 3)?;
    let challenge = bytes(args, &challenge.unwrap_or_default())?;
    Ok(Value::from(STANDARD.encode(hmac_of(args, text, secret)?).into_bytes() == challenge))
}

fn base64_decode(_: &mut State<'_, '_>, args: &CallArgs) -> Result<Value, Error> {
    // Python skips characters outside of the alphabet.
    let mut encoded = bytes(args, &args.expect_one("instr")?)?;
    encoded.retain(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'='));
    let decoded = STANDARD.decode(&encoded).map_err(|_| args.error("the value is not base64"))?;
    Ok(String::from_utf8(decoded).map_or_else(|e| Value::from_bytes(e.into_bytes()), Value::from))
}

/// The name space in which Salt names values.
const NAME_SPACE: [u8; 16] =
    [0x91, 0x63, 0x3e, 0xbf, 0x1c, 0x86, 0x5e, 0x33, 0x93, 0x5a, 0x28, 0x06, 0x1f, 0x4b, 0x48, 0x0e];

/// The version 5 UUID of a text.
fn uuid(text: &str) -> String {
    let digest = Sha1::new().chain_update(NAME_SPACE).chain_update(text).finalize();
    let mut id = [0u8; 16];
    id.copy_from_slice(&digest[..16]);
    id[6] = (id[6] & 0x0f) | 0x50;
    id[8] = (id[8] & 0x3f) | 0x80;
    let h = hex(&id);
    format!("{}-{}-{}-{}-{}", &h[..8], &h[8..12], &h[12..16], &h[16..20], &h[20..])
}
