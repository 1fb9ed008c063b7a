//! `hashutil.*` and the hashes that other functions need.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, Mac};
use md5::Digest;
use md5::digest::DynDigest;
use sha2::Sha256;
use zagent_config::Value as Data;

use super::table::{FunctionEntry, data_function};
use super::{FunctionArgs, FunctionError, FunctionsInner};

pub(super) const TABLE: &[FunctionEntry] = &[
    data_function("hashutil.digest", "instr checksum?", digest),
    data_function("hashutil.md5_digest", "instr", |_, args| hex_of("md5", args)),
    data_function("hashutil.sha256_digest", "instr", |_, args| hex_of("sha256", args)),
    data_function("hashutil.sha512_digest", "instr", |_, args| hex_of("sha512", args)),
    data_function("hashutil.base64_b64encode", "instr", |_, args| {
        Ok(STANDARD.encode(text(args, "instr")?).into())
    }),
    data_function("hashutil.base64_b64decode", "instr", decode),
    data_function("hashutil.base64_encodestring", "instr", encode_lines),
    data_function("hashutil.base64_decodestring", "instr", decode),
    data_function("hashutil.hmac_signature", "string shared_secret challenge_hmac", hmac_signature),
    data_function("hashutil.hmac_compute", "string shared_secret", hmac_compute),
    data_function("random.hash", "value algorithm?", random_hash),
    data_function("random.str_encode", "value encoder?", str_encode),
];

fn text(args: &FunctionArgs<Data>, name: &str) -> Result<String, FunctionError> {
    super::files::text_arg(args, name).map(str::to_owned)
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

fn hex_of(algorithm: &str, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    let sum = hex_digest(algorithm, text(args, "instr")?.as_bytes());
    sum.map(Data::from).ok_or_else(|| FunctionError::failed(format!("unknown hash algorithm `{algorithm}`")))
}

fn digest(_: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    let algorithm = args.get("checksum").and_then(Data::as_str).unwrap_or("md5");
    match algorithm {
        "md5" | "sha256" | "sha512" => hex_of(algorithm, args),
        _ => Err(FunctionError::failed(format!("`{algorithm}` must be one of `md5`, `sha256`, `sha512`"))),
    }
}

fn random_hash(_: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    let algorithm = args.get("algorithm").and_then(Data::as_str).unwrap_or("sha512");
    let sum = hex_digest(algorithm, text(args, "value")?.as_bytes());
    sum.map(Data::from).ok_or_else(|| FunctionError::failed(format!("unknown hash algorithm `{algorithm}`")))
}

fn str_encode(_: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    match args.get("encoder").and_then(Data::as_str).unwrap_or("base64") {
        "base64" => Ok(STANDARD.encode(text(args, "value")?).into()),
        other => Err(FunctionError::failed(format!("unknown encoder `{other}`"))),
    }
}

fn decode(_: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    let packed: String = text(args, "instr")?.split_whitespace().collect();
    let bytes = STANDARD.decode(packed).map_err(|_| FunctionError::failed("the text is not base64"))?;
    String::from_utf8(bytes)
        .map(Data::from)
        .map_err(|_| FunctionError::failed("the decoded bytes are not text"))
}

/// Base64 in lines of 76 characters, each with a line end.
fn encode_lines(_: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
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

fn new_hmac(args: &FunctionArgs<Data>) -> Result<Hmac<Sha256>, FunctionError> {
    let mut mac = Hmac::<Sha256>::new_from_slice(text(args, "shared_secret")?.as_bytes())
        .map_err(|_| FunctionError::failed("the secret cannot be used as a key"))?;
    Mac::update(&mut mac, text(args, "string")?.as_bytes());
    Ok(mac)
}

fn hmac_signature(_: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    let challenge = STANDARD.decode(text(args, "challenge_hmac")?);
    let mac = new_hmac(args)?;
    Ok(challenge.is_ok_and(|c| mac.verify_slice(&c).is_ok()).into())
}

fn hmac_compute(_: &FunctionsInner, args: &FunctionArgs<Data>) -> Result<Data, FunctionError> {
    Ok(hex(&new_hmac(args)?.finalize().into_bytes()).into())
}
