//! Armoured secrets to text and back: OpenPGP by the `gpg` program, age by its library.
//!
//! Law: neither a secret nor a key ever gets into a message (held by
//! `age_messages_open_with_the_right_identity_only`, `gpg_without_a_key_says_so`).

mod sealing;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use zagent_config::mask::Secret;
use zagent_config::trusted_path;

pub use self::sealing::{
    AgeRecipient, MessageRecipients, encrypt_age, generate_identity, message_recipients,
};

use super::exec::{ExecCommand, error_message};
use crate::Machine;

/// Where OpenPGP keys are looked for when nothing else is said.
pub const GPG_HOME: &str = zagent_config::paths::DEFAULT_GPG_HOME;
/// The host's own key, an age identity too.
pub const HOST_KEY: &str = zagent_config::paths::DEFAULT_AGE_IDENTITY;

/// Decrypts an OpenPGP message.
pub fn decrypt_gpg(machine: &Machine, home: &Path, armoured: &str) -> Result<Secret, String> {
    let home = home.to_string_lossy().into_owned();
    let args =
        ["--homedir", &home, "--batch", "--no-tty", "--quiet", "--pinentry-mode", "error", "--decrypt"];
    let mut command = ExecCommand::new("gpg").args(args);
    command.stdin = armoured.as_bytes().to_vec();
    command.timeout = Some(machine.timeout);
    command.env = vec![("LC_ALL".into(), "C".into())];
    let outcome = machine.run(&command).map_err(|e| error_message(&e))?;
    if !outcome.success() {
        let output = String::from_utf8_lossy(&outcome.stderr);
        let last = output.lines().rev().find(|l| l.starts_with("gpg: ")).unwrap_or("gpg: no reason given");
        return Err(format!("{last} (keys in `{home}`)"));
    }
    let text = String::from_utf8(outcome.stdout).map_err(|_| "the decrypted secret is not text")?;
    Ok(text.into())
}

/// Decrypts an age message with the identities of files: SSH keys or age's own.
pub fn decrypt_age(identities: &[PathBuf], armoured: &str) -> Result<Secret, String> {
    let reader = age::armor::ArmoredReader::new(armoured.trim().as_bytes());
    let decryptor = age::Decryptor::new(reader).map_err(|e| format!("the age message is damaged: {e}"))?;
    let keys = load_identities(identities)?;
    if keys.is_empty() {
        let tried: Vec<String> = identities.iter().map(|p| format!("`{}`", p.display())).collect();
        return Err(format!("no age identity was found in {}", tried.join(", ")));
    }
    let mut stream = decryptor
        .decrypt(keys.iter().map(|k| &**k))
        .map_err(|e| format!("no age identity of this node opens it: {e}"))?;
    let mut text = String::new();
    stream.read_to_string(&mut text).map_err(|e| format!("the age message is damaged: {e}"))?;
    Ok(text.into())
}

fn load_identities(files: &[PathBuf]) -> Result<Vec<Box<dyn age::Identity>>, String> {
    let mut keys: Vec<Box<dyn age::Identity>> = Vec::new();
    for path in files {
        trusted_path::verify(path).map_err(|error| format!("{error}; {}", error.hint()))?;
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
            Err(e) => return Err(format!("cannot read the identity `{}`: {e}", path.display())),
        };
        let unusable = || format!("`{}` holds no usable age identity", path.display());
        if text.contains("PRIVATE KEY-----") {
            let name = Some(path.display().to_string());
            match age::ssh::Identity::from_buffer(text.as_bytes(), name).map_err(|_| unusable())? {
                key @ age::ssh::Identity::Unencrypted(_) => keys.push(Box::new(key)),
                _ => return Err(format!("the key `{}` has a passphrase or an unknown kind", path.display())),
            }
        } else {
            let file = age::IdentityFile::from_buffer(text.as_bytes()).map_err(|_| unusable())?;
            for key in file.into_identities().map_err(|_| unusable())? {
                keys.push(key);
            }
        }
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use age::secrecy::ExposeSecret;

    use super::*;

    fn sealed(recipient: &age::x25519::Recipient, text: &str) -> String {
        encrypt_age(&[AgeRecipient::parse(&recipient.to_string()).unwrap()], text.as_bytes()).unwrap()
    }

    #[test]
    fn age_messages_open_with_the_right_identity_only() {
        let dir = tempfile::tempdir().unwrap();
        let (mine, other) = (age::x25519::Identity::generate(), age::x25519::Identity::generate());
        let file = dir.path().join("id");
        fs::write(&file, mine.to_string().expose_secret()).unwrap();
        let files = [dir.path().join("missing"), file];
        assert_eq!(decrypt_age(&files, &sealed(&mine.to_public(), "s3cret")), Ok("s3cret".into()));
        assert!(
            decrypt_age(&files, &sealed(&other.to_public(), "x"))
                .unwrap_err()
                .contains("no age identity of this node")
        );
        assert!(decrypt_age(&files, "not age").unwrap_err().contains("damaged"));
        let none = decrypt_age(&files[..1], &sealed(&mine.to_public(), "x"));
        assert!(none.unwrap_err().contains("no age identity was found"));
        fs::set_permissions(&files[1], std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
        let open = decrypt_age(&files, &sealed(&mine.to_public(), "x")).map(drop);
        assert!(open.unwrap_err().contains("fix it with `chmod go-w"));
    }

    #[test]
    fn gpg_without_a_key_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let armoured = "-----BEGIN PGP MESSAGE-----\n\nx\n-----END PGP MESSAGE-----\n";
        let error = |machine: Machine| decrypt_gpg(&machine, dir.path(), armoured).unwrap_err();
        assert!(error(Machine::this_host()).contains("gpg: "));
        assert!(error(Machine::this_host().without_programs("not here")).ends_with("`gpg`: not here"));
    }
}
