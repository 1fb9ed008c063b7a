//! A key file in, its text out.
//!
//! Law: a user who can write the file can sign, so a file that is writable by anyone but root and the agent's own
//! user is refused (held by `a_file_writable_by_others_is_refused`).

use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use super::SignatureError;

/// Maximum bytes of a key file.
const MAX_BYTES: u64 = 4 << 20;
/// The sticky bit: only owners can remove entries of a directory.
const STICKY: u32 = 0o1000;

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
    if let Some(why) = others_may_write(&meta) {
        return Err(distrust(why));
    }
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let parent = std::fs::metadata(dir).map_err(unreadable)?;
    if parent.mode() & STICKY == 0
        && let Some(why) = others_may_write(&parent)
    {
        return Err(SignatureError::Unsafe { path: dir.into(), why });
    }
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

fn others_may_write(meta: &Metadata) -> Option<String> {
    let own = rustix::process::geteuid().as_raw();
    if meta.uid() != 0 && meta.uid() != own {
        return Some(format!("it belongs to user {}; it must belong to root or to the agent", meta.uid()));
    }
    let mode = meta.mode() & 0o7777;
    (mode & 0o022 != 0).then(|| format!("its mode {mode:04o} lets others write it"))
}
