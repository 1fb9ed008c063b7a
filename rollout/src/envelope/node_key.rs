//! The node's own key: created once, and replaced when it is damaged.
//!
//! Law: a key is complete and readable only by its owner, or not there. A damaged key is lost in any case; it is
//! moved aside, and drivers refuse the reports that another key signs until a person decides. So the damage shows
//! where the node is watched, and not only as silence (held by `a_damaged_key_is_moved_aside_and_replaced`).

#![expect(clippy::disallowed_methods, reason = "moves a damaged key aside")]

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use ssh_key::PrivateKey;
use zagent_cache::trust::create_key;
use zagent_config::durable::create_dirs;

/// Maximum bytes of a key file.
const MAX_BYTES: u64 = 64 << 10;
/// How a key in the usual format begins. Others are left to `ssh-keygen`.
const OPENSSH: &str = "-----BEGIN OPENSSH PRIVATE KEY-----";

/// What is known about a node's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeKeyState {
    /// There is none yet.
    Missing,
    /// It can sign, as far as one can see.
    Usable,
    /// It cannot; and why.
    Unusable(String),
}

/// Looks at the key of a node.
#[must_use]
pub fn node_key_state(path: &Path) -> NodeKeyState {
    let mut text = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_BYTES).read_to_end(&mut text));
    match read {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return NodeKeyState::Missing,
        // Who may not read it cannot tell.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return NodeKeyState::Usable,
        Err(error) => return NodeKeyState::Unusable(error.to_string()),
        Ok(_) => {}
    }
    let Ok(text) = String::from_utf8(text) else { return NodeKeyState::Unusable("it is not text".into()) };
    let is_other_format =
        text.starts_with("-----BEGIN ") || text.starts_with("ssh-") || text.starts_with("ecdsa-");
    if !text.starts_with(OPENSSH) && is_other_format {
        return NodeKeyState::Usable;
    }
    match PrivateKey::from_openssh(&text) {
        Ok(_) => NodeKeyState::Usable,
        Err(error) => NodeKeyState::Unusable(error.to_string()),
    }
}

/// Creates a key if there is none; a damaged one is moved aside first.
pub(super) fn ensure_key(path: &Path) -> io::Result<()> {
    if node_key_state(path) == NodeKeyState::Usable {
        return Ok(());
    }
    let dir = path.parent().unwrap_or(Path::new("/"));
    create_dirs(dir, 0o700)?;
    // Two processes that find it damaged must not move the new one.
    let lock = File::open(dir)?;
    flock(&lock, FlockOperation::LockExclusive)?;
    match node_key_state(path) {
        NodeKeyState::Usable => return Ok(()),
        NodeKeyState::Missing => {}
        NodeKeyState::Unusable(why) => {
            let aside = aside_path(path);
            tracing::warn!(key = %path.display(), aside = %aside.display(), why, "the node key is damaged; creating another one");
            std::fs::rename(path, aside)?;
        }
    }
    create_key(path)
}

/// Where a damaged key goes.
fn aside_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".damaged");
    name.into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_damaged_key_is_moved_aside_and_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trust/node.key");
        assert_eq!(node_key_state(&path), NodeKeyState::Missing);
        ensure_key(&path).unwrap();
        let good = std::fs::read(&path).unwrap();
        ensure_key(&path).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), good, "a key that can be used stays");
        for damaged in [&good[..good.len() / 2], b"", &[0; 400], b"\xff\xfe"] {
            std::fs::write(&path, damaged).unwrap();
            assert!(matches!(node_key_state(&path), NodeKeyState::Unusable(_)));
            ensure_key(&path).unwrap();
            assert_eq!(node_key_state(&path), NodeKeyState::Usable);
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            assert_eq!(std::fs::read(dir.path().join("trust/node.key.damaged")).unwrap(), damaged);
        }
    }

    #[test]
    fn formats_of_other_programs_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("node.key");
        for text in ["-----BEGIN RSA PRIVATE KEY-----\nx\n", "ssh-ed25519 AAAA x\n"] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(node_key_state(&path), NodeKeyState::Usable);
        }
    }
}
