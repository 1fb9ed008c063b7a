//! `hashutil.*` and the hashes that other functions need.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use md5::Digest;
use md5::digest::DynDigest;
use sha2::Sha256;
use zagent_config::Value as Data;

use super::table::{Entry, data};
use super::{Bound, Inner, Refusal};

pub(super) const TABLE: &[Entry] = &[
    data("hashutil.digest", "instr checksum?", digest),
    data("hashutil.md5_digest", "instr", |_, args| hex_of("md5", args)),
    data("hashutil.sha256_digest", "instr", |_, args| hex_of("sha256", args)),
    data("hashutil.sha512_digest", "instr", |_, args| hex_of("sha512", args)),
    data("hashutil.base64_b64encode", "instr", |_, args| Ok(STANDARD.encode(text(args, "instr")?).into())),
    data("hashutil.base64_b64decode", "instr", decode),
    data("hashutil.base64_encodestring", "instr", encode_lines),
    data("hashutil.base64_decodestring", "instr", decode),
    data("hashutil.hmac_signature", "string shared_secret challenge_hmac", hmac_signature),
    data("hashutil.hmac_compute", "string shared_secret", hmac_compute),
    data("random.hash", "value algorithm?", random_hash),
    data("random.str_encode", "value encoder?", str_encode),
];

fn text(args: &Bound<Data>, name: &str) -> Result<String, Refusal> {
    super::files::text(args, name).map(str::to_owned)
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, b| {
        // Writing to a string cannot fail.
        let _ = write!(out, "{b:02x}");
        out
    })
}

/// The digest of bytes by the name of an algorithm, in hex; `None` for an unknown one.
pub(super) fn hex_digest(algorithm: &str, bytes: &[u8]) -> Option<String> {
    let mut hasher: Box<dyn DynDigest> = match algorithm {
        "md5" => Box::new(md5::Md5::new()),
        "sha1" => Box::new(sha1::Sha1::new()),
        "sha224" => Box::new(sha2::Sha224::new()),
        "sha256" => Box::new(Sha256::new()),
        "sha384" => Box::new(sha2::Sha384::new()),
        "sha512" => Box::new(sha2::Sha512::new()),
        _ => return None,
    };
    hasher.update(bytes);
    Some(hex(&hasher.finalize()))
}

/// SHA-512 of bytes.
pub(super) fn sha512(bytes: &[u8]) -> [u8; 64] {
    sha2::Sha512::digest(bytes).into()
}

fn hex_of(algorithm: &str, args: &Bound<Data>) -> Result<Data, Refusal> {
    let sum = hex_digest(algorithm, text(args, "instr")?.as_bytes());
    sum.map(Data::from).ok_or_else(|| Refusal::failed(format!("there is no hash `{algorithm}`")))
}

fn digest(_: &Inner, args: &Bound<Data>) -> Result<Data, Refusal> {
    let algorithm = args.get("checksum").and_then(Data::as_str).unwrap_or("md5");
    match algorithm {
        "md5" | "sha256" | "sha512" => hex_of(algorithm, args),
        _ => Err(Refusal::failed(format!("`{algorithm}` is none of `md5`, `sha256`, `sha512`"))),
    }
}

fn random_hash(_: &Inner, args: &Bound<Data>) -> Result<Data, Refusal> {
    let algorithm = args.get("algorithm").and_then(Data::as_str).unwrap_or("sha512");
    let sum = hex_digest(algorithm, text(args, "value")?.as_bytes());
    sum.map(Data::from).ok_or_else(|| Refusal::failed(format!("there is no hash `{algorithm}`")))
}

fn str_encode(_: &Inner, args: &Bound<Data>) -> Result<Data, Refusal> {
    match args.get("encoder").and_then(Data::as_str).unwrap_or("base64") {
        "base64" => Ok(STANDARD.encode(text(args, "value")?).into()),
        other => Err(Refusal::failed(format!("there is no encoder `{other}`"))),
    }
}

fn decode(_: &Inner, args: &Bound<Data>) -> Result<Data, Refusal> {
    let packed: String = text(args, "instr")?.split_whitespace().collect();
    let bytes = STANDARD.decode(packed).map_err(|_| Refusal::failed("the text is not base64"))?;
    String::from_utf8(bytes).map(Data::from).map_err(|_| Refusal::failed("the decoded bytes are not text"))
}

/// Base64 in lines of 76 characters, each ended.
fn encode_lines(_: &Inner, args: &Bound<Data>) -> Result<Data, Refusal> {
    let packed = STANDARD.encode(text(args, "instr")?);
    let mut out = String::with_capacity(packed.len() + packed.len() / 76 + 1);
    for (i, c) in packed.chars().enumerate() {
        if i > 0 && i % 76 == 0 {
            out.push('\n');
        }
        out.push(c);
    }
    if !out.is_empty() {
        out.push('\n');
    }
    Ok(out.into())
}

fn keyed(args: &Bound<Data>) -> Result<Hmac<Sha256>, Refusal> {
    let mut mac = Hmac::<Sha256>::new_from_slice(text(args, "shared_secret")?.as_bytes())
        .map_err(|_| Refusal::failed("the secret cannot be a key"))?;
    Mac::update(&mut mac, text(args, "string")?.as_bytes());
    Ok(mac)
}

fn hmac_signature(_: &Inner, args: &Bound<Data>) -> Result<Data, Refusal> {
    let challenge = STANDARD.decode(text(args, "challenge_hmac")?);
    let mac = keyed(args)?;
    Ok(challenge.is_ok_and(|c| mac.verify_slice(&c).is_ok()).into())
}

fn hmac_compute(_: &Inner, args: &Bound<Data>) -> Result<Data, Refusal> {
    Ok(hex(&keyed(args)?.finalize().into_bytes()).into())
}
