//! A key file in, its text out.
//!
//! Law: a user who can write the file can sign, so a file that is writable by anyone but root and the agent's own
//! user is refused (held by `a_file_writable_by_others_is_refused`).

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use zagent_config::trusted_path;

use super::SignatureError;

/// Maximum bytes of a key file.
const MAX_BYTES: u64 = 4 << 20;

/// The content of a file that only root or the agent's own user can have written.
pub(super) fn read_bytes(path: &Path) -> Result<Vec<u8>, SignatureError> {
    let unreadable = |source| SignatureError::Unreadable { path: path.into(), source };
    let distrust = |why: String| SignatureError::Unsafe { path: path.into(), why };
    // A named pipe must not block the agent.
    let nonblock = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).unwrap_or_default();
    let file = File::options().read(true).custom_flags(nonblock).open(path).map_err(|error| {
        if error.kind() == ErrorKind::NotFound {
            SignatureError::NoSigners { path: path.into() }
        } else {
            unreadable(error)
        }
    })?;
    let meta = file.metadata().map_err(unreadable)?;
    if !meta.is_file() {
        return Err(distrust("it is not a regular file".into()));
    }
    trusted_path::verify(path).map_err(|error| {
        let why = format!("it {}", error.why);
        SignatureError::Unsafe { path: error.culprit, why }
    })?;
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(distrust(format!("it has more than {MAX_BYTES} bytes")));
    }
    Ok(bytes)
}

/// The same as text.
pub(super) fn read_text(path: &Path) -> Result<String, SignatureError> {
    decode_text(path, read_bytes(path)?)
}

/// The text of these bytes; the error names the first line that is not UTF-8.
pub(super) fn decode_text(path: &Path, bytes: Vec<u8>) -> Result<String, SignatureError> {
    let not_text = |error: std::string::FromUtf8Error| {
        let bytes = error.as_bytes();
        let line = 1 + bytes[..error.utf8_error().valid_up_to()].iter().filter(|b| **b == b'\n').count();
        SignatureError::Line { path: path.into(), line, why: "the line is not UTF-8".into() }
    };
    String::from_utf8(bytes).map_err(not_text)
}
