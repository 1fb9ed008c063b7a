//! A path in, a new private key there out; a key file in, its public half out.
//!
//! Law: a private key is complete and readable only by its owner, or not there at all (held by
//! `a_new_key_is_private_and_never_replaced`).

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use ssh_key::private::Ed25519Keypair;
use ssh_key::{LineEnding, PrivateKey, PublicKey};
use zagent_config::durable::{create_dirs, sync_dir, sync_file};

/// Creates an Ed25519 key without a passphrase, if there is no file yet.
///
/// # Errors
/// Fails when it cannot be written.
pub fn create_key(path: &Path) -> io::Result<()> {
    if path.exists() {
        return Ok(());
    }
    let dir = path.parent().unwrap_or(Path::new("/"));
    create_dirs(dir, 0o700)?;
    let mut seed = [0; 32];
    File::open("/dev/urandom")?.read_exact(&mut seed)?;
    let text = PrivateKey::from(Ed25519Keypair::from_seed(&seed))
        .to_openssh(LineEnding::LF)
        .map_err(io::Error::other)?;
    // A temporary file is readable only by its owner from the start.
    let mut file = tempfile::NamedTempFile::new_in(dir)?;
    file.write_all(text.as_bytes())?;
    sync_file(file.as_file(), file.path())?;
    match file.persist_noclobber(path) {
        Ok(_) => sync_dir(dir),
        // Another process was faster: its key is used.
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error.error),
    }
}

/// The public half of a key, as `allowed_signers` lists it: from a private key in OpenSSH's format, or from a `.pub` file.
///
/// # Errors
/// Fails when the file is neither.
pub fn public_key(path: &Path) -> io::Result<String> {
    let text = std::fs::read_to_string(path)?;
    let public = match PrivateKey::from_openssh(&text) {
        Ok(private) => private.public_key().clone(),
        Err(_) => PublicKey::from_openssh(text.trim()).map_err(|_| {
            io::Error::new(io::ErrorKind::InvalidData, "neither a private key of OpenSSH nor a public key")
        })?,
    };
    PublicKey::from(public.key_data().clone()).to_openssh().map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_new_key_is_private_and_never_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keys/key");
        create_key(&path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        create_key(&path).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        let public = public_key(&path).unwrap();
        let half = dir.path().join("key.pub");
        std::fs::write(&half, format!("{public} alice\n")).unwrap();
        assert_eq!(public_key(&half).unwrap(), public);
        std::fs::write(&half, "no key\n").unwrap();
        assert!(public_key(&half).is_err());
    }
}
