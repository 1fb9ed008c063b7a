//! A key and a message in, an armoured SSH signature out.
//!
//! Law: zagent itself signs with an unencrypted Ed25519 or ECDSA key. Keys in an agent, on hardware or with a
//! passphrase, and RSA keys, which this process could leak, are left to `ssh-keygen`, which may prompt its user
//! (held by `keys_that_are_not_in_the_file_are_left_to_ssh_keygen`).

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use zagent_config::child_process;

use ssh_key::{Algorithm, HashAlg, LineEnding, PrivateKey};

const PROGRAM: &str = "ssh-keygen";
/// Maximum bytes of a key file.
const MAX_KEY: u64 = 64 << 10;

/// Why signing failed.
#[derive(Debug, thiserror::Error)]
pub enum SignError {
    /// The key cannot be read.
    #[error("cannot read the key `{path}`")]
    Key {
        /// The key.
        path: PathBuf,
        /// The operating system error.
        #[source]
        source: std::io::Error,
    },
    /// The library refuses the key.
    #[error("cannot sign with `{path}`")]
    Refused {
        /// The key.
        path: PathBuf,
        /// Why.
        #[source]
        source: ssh_key::Error,
    },
    /// `ssh-keygen` cannot be started.
    #[error("cannot run `ssh-keygen`, which is needed for this type of key")]
    Program {
        /// The operating system error.
        #[source]
        source: std::io::Error,
    },
    /// `ssh-keygen` did not sign.
    #[error("`ssh-keygen` did not sign with `{path}`; see its message above")]
    Declined {
        /// The key.
        path: PathBuf,
    },
}

/// Signs a message for a namespace with the private key in a file, or with the one that belongs to a `.pub` file.
///
/// # Errors
/// Fails when the key cannot be used.
pub fn sign(key: &Path, namespace: &str, message: &[u8]) -> Result<String, SignError> {
    let unreadable = |source| SignError::Key { path: key.into(), source };
    let size = std::fs::metadata(key).map_err(unreadable)?.len();
    if size > MAX_KEY {
        return Err(unreadable(std::io::Error::new(ErrorKind::InvalidData, "too large for a key")));
    }
    let text = std::fs::read_to_string(key).map_err(unreadable)?;
    let refused = |source| SignError::Refused { path: key.into(), source };
    match PrivateKey::from_openssh(&text) {
        Ok(private) if can_sign_natively(&private) => {
            let signature = private.sign(namespace, HashAlg::Sha512, message).map_err(refused)?;
            signature.to_pem(LineEnding::LF).map_err(refused)
        }
        // The library does not handle old formats and public keys.
        _ => sign_with_keygen(key, namespace, message),
    }
}

fn can_sign_natively(key: &PrivateKey) -> bool {
    !key.is_encrypted() && matches!(key.algorithm(), Algorithm::Ed25519 | Algorithm::Ecdsa { .. })
}

/// Signs with `ssh-keygen`. It keeps the terminal, because it may ask for a passphrase or a touch.
fn sign_with_keygen(key: &Path, namespace: &str, message: &[u8]) -> Result<String, SignError> {
    let failed = |source| SignError::Program { source };
    let mut command = child_process::interactive_command(PROGRAM);
    command.args(["-q", "-Y", "sign", "-n", namespace, "-f"]).arg(key);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
    let fed = child.stdin.take().map_or(Ok(()), |mut input| input.write_all(message));
    let output = child.wait_with_output().map_err(failed)?;
    if !output.status.success() || output.stdout.is_empty() {
        return Err(SignError::Declined { path: key.into() });
    }
    fed.map_err(failed)?;
    String::from_utf8(output.stdout).map_err(|_| SignError::Declined { path: key.into() })
}
