//! The agent's directory in, a key of this installation out: digests made with it tell nobody else what they were made of.
//!
//! Law: the key is random and never leaves the directory of the agent, so that a weak secret cannot be guessed from a digest
//! in a file that was copied elsewhere (held by `digests_depend_on_the_key`).

use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use zagent_config::Value;
use zagent_config::atomic_file::AtomicFile;
use zagent_config::paths::Paths;

/// Length of the key in bytes.
const KEY_BYTES: usize = blake3::KEY_LEN;
/// Hex digits of a digest in a file: 128 bits.
const DIGEST_DIGITS: usize = 32;

/// The key cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot use the key `{}`", path.display())]
pub(crate) struct KeyError {
    /// Its file.
    pub(crate) path: PathBuf,
    /// Why.
    #[source]
    pub(crate) source: io::Error,
}

/// A random key of this installation.
#[derive(Clone)]
pub(crate) struct LocalKey([u8; KEY_BYTES]);

impl LocalKey {
    /// Reads the key; none when there is none yet.
    ///
    /// # Errors
    /// Fails when the file exists and cannot be read as a key.
    pub(crate) fn read(paths: &Paths) -> Result<Option<Self>, KeyError> {
        let path = paths.local_key();
        read_key(&path).map_err(|source| KeyError { path, source })
    }

    /// Reads the key, or makes one.
    ///
    /// # Errors
    /// Fails when it can be neither read nor written.
    pub(crate) fn read_or_create(paths: &Paths) -> Result<Self, KeyError> {
        if let Some(key) = Self::read(paths)? {
            return Ok(key);
        }
        let path = paths.local_key();
        create_key(&path).map_err(|source| KeyError { path, source })
    }

    /// Digest of bytes.
    pub(crate) fn digest(&self, bytes: &[u8]) -> String {
        short_hex(blake3::keyed_hash(&self.0, bytes))
    }

    /// Digest of a value.
    pub(crate) fn value_digest(&self, value: &Value) -> String {
        let mut bytes = Vec::new();
        value.to_bytes(&mut bytes);
        self.digest(&bytes)
    }

    /// Digest of everything that can be read.
    pub(crate) fn stream_digest(&self, from: impl Read) -> io::Result<String> {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update_reader(from)?;
        Ok(short_hex(hasher.finalize()))
    }

    /// What tells this key from others, and nothing about it.
    pub(crate) fn id(&self) -> String {
        self.digest(b"the name of this key")[..16].to_owned()
    }
}

fn short_hex(hash: blake3::Hash) -> String {
    hash.to_hex()[..DIGEST_DIGITS].to_owned()
}

fn read_key(path: &Path) -> io::Result<Option<LocalKey>> {
    let no_follow = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or(0);
    let mut file = match std::fs::File::options().read(true).custom_flags(no_follow).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut key = [0; KEY_BYTES];
    file.read_exact(&mut key)?;
    Ok(Some(LocalKey(key)))
}

fn create_key(path: &Path) -> io::Result<LocalKey> {
    let mut key = [0; KEY_BYTES];
    let mut filled = 0;
    while filled < KEY_BYTES {
        filled += rustix::rand::getrandom(&mut key[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    if let Some(dir) = path.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    AtomicFile::durable(0o600).write(path, &key)?;
    Ok(LocalKey(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_depend_on_the_key() {
        let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [one, two] = dirs.each_ref().map(|dir| Paths::new(dir.path()));
        assert!(LocalKey::read(&one).unwrap().is_none());
        let first = LocalKey::read_or_create(&one).unwrap();
        let again = LocalKey::read_or_create(&one).unwrap();
        let other = LocalKey::read_or_create(&two).unwrap();
        assert_eq!(first.digest(b"hunter2"), again.digest(b"hunter2"));
        assert_ne!(first.digest(b"hunter2"), other.digest(b"hunter2"));
        assert_ne!(first.id(), other.id());
        assert_eq!(first.stream_digest(&b"hunter2"[..]).unwrap(), first.digest(b"hunter2"));
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &std::fs::metadata(one.local_key()).unwrap().permissions(),
        );
        assert_eq!(mode & 0o777, 0o600);
    }
}
