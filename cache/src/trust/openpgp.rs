//! An OpenPGP signature and the signed bytes in, the verdict of `gpgv` out.
//!
//! Law: only the keyring in the settings is used, never the user's own GnuPG; exactly one good and valid signature
//! is accepted, and every other result of `gpgv` is a refusal (held by
//! `only_one_good_and_valid_signature_is_accepted`).

use std::io::{ErrorKind, Read};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use zagent_config::child_process;

use super::{SignatureError, SignatureScheme, Signer, trusted_file};

const PROGRAM: &str = "gpgv";
const BEGIN: &[u8] = b"-----BEGIN PGP SIGNATURE-----";
const ARMOURED_KEYS: &[u8] = b"-----BEGIN PGP PUBLIC KEY BLOCK-----";
/// How long `gpgv` may take.
const GPGV_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum bytes of its output.
const MAX_OUTPUT: u64 = 64 << 10;
/// MD5, SHA-1 and RIPEMD-160, by their numbers in RFC 4880.
const WEAK_HASHES: [&str; 3] = ["1", "2", "3"];

/// True when these bytes claim to be an OpenPGP signature.
pub(super) fn is_armoured(signature: &[u8]) -> bool {
    signature.starts_with(BEGIN)
}

/// The signer of the payload, with a key from the keyring.
pub(super) fn verify(keyring: &Path, signature: &[u8], payload: &[u8]) -> Result<Signer, SignatureError> {
    verify_with(PROGRAM, GPGV_TIMEOUT, keyring, signature, payload)
}

fn verify_with(
    program: &str,
    limit: Duration,
    keyring: &Path,
    signature: &[u8],
    payload: &[u8],
) -> Result<Signer, SignatureError> {
    // gpgv opens the file itself; this checks whether others could have written it, and whether gpgv can read it.
    let known = trusted_file::read_bytes(keyring).map_err(|error| match error {
        SignatureError::NoSigners { path } => {
            SignatureError::Unreadable { path, source: ErrorKind::NotFound.into() }
        }
        other => other,
    })?;
    if known.starts_with(ARMOURED_KEYS) {
        let shown = keyring.display();
        let why = format!("`{shown}` is armoured, which gpgv does not read; export it without --armor");
        return Err(SignatureError::OpenPgp { why });
    }
    let failed = |source| SignatureError::Gpgv { source };
    let keyring = std::path::absolute(keyring).map_err(failed)?;
    let dir = tempfile::tempdir().map_err(failed)?;
    let put = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).map(|()| path)
    };
    let (signature, payload) =
        (put("signature", signature).map_err(failed)?, put("payload", payload).map_err(failed)?);
    let mut command = child_process::bare_command(program);
    command.env("PATH", child_process::search_path()).env("LC_ALL", "C").current_dir(dir.path());
    command.args(["--status-fd", "1", "--homedir"]).arg(dir.path());
    command.arg("--keyring").arg(&keyring).arg("--").arg(&signature).arg(&payload);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let child = command.spawn().map_err(|error| match error.kind() {
        ErrorKind::NotFound => SignatureError::NoGpgv,
        _ => failed(error),
    })?;
    let (said, fine) = wait_for_output(child, limit)?;
    parse_status(&String::from_utf8_lossy(&said), fine)
}

/// The output of the program until it exits; after the time limit, it is killed with all its children.
fn wait_for_output(mut child: Child, limit: Duration) -> Result<(Vec<u8>, bool), SignatureError> {
    let failed = |source| SignatureError::Gpgv { source };
    let group = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
    let (done, wait) = mpsc::channel();
    std::thread::spawn(move || {
        let mut said = Vec::new();
        let read = child.stdout.take().map_or(Ok(0), |out| out.take(MAX_OUTPUT).read_to_end(&mut said));
        let ended = read.and_then(|_| child.wait());
        // There is no listener after the limit; the child is still reaped.
        let _ = done.send(ended.map(|status| (said, status.success())));
    });
    match wait.recv_timeout(limit) {
        Ok(heard) => heard.map_err(failed),
        Err(_) => {
            if let Some(group) = group {
                let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            }
            Err(SignatureError::GpgvTimeout { seconds: limit.as_secs() })
        }
    }
}

/// The verdict of the status lines.
fn parse_status(said: &str, fine: bool) -> Result<Signer, SignatureError> {
    let refuse = |why: &str| Err(SignatureError::OpenPgp { why: why.to_owned() });
    let mut good = Vec::new();
    let mut valid = Vec::new();
    for line in said.lines() {
        let Some(line) = line.strip_prefix("[GNUPG:] ") else { continue };
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let who = || rest.split(' ').next().unwrap_or_default().escape_debug().to_string();
        match word {
            "GOODSIG" => good.push(rest),
            "VALIDSIG" => valid.push(rest),
            "BADSIG" => return refuse(&format!("it does not match the signed content (key {})", who())),
            "EXPSIG" => return refuse(&format!("the signature itself has expired (key {})", who())),
            "EXPKEYSIG" => return refuse(&format!("the key {} has expired", who())),
            "REVKEYSIG" => return refuse(&format!("the key {} was revoked by its owner", who())),
            "ERRSIG" if rest.split(' ').nth(5) == Some("9") => {
                return refuse(&format!("the key {} is not in the keyring", who()));
            }
            "ERRSIG" => return refuse(&format!("it cannot be checked (key {})", who())),
            "NODATA" | "UNEXPECTED" => return refuse("there is no signature in it"),
            _ => {}
        }
    }
    let ([good], [valid]) = (good.as_slice(), valid.as_slice()) else {
        return refuse("gpgv does not report exactly one good and valid signature");
    };
    if !fine {
        return refuse("gpgv failed");
    }
    let fields: Vec<&str> = valid.split(' ').collect();
    let is_key = |text: &str| (40..=64).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_hexdigit());
    let (Some(hash), Some(class), Some(primary)) = (fields.get(7), fields.get(8), fields.get(9)) else {
        return refuse("gpgv does not report which key made it");
    };
    if !is_key(primary) || !matches!(*class, "00" | "01") {
        return refuse("it is not a document signature");
    }
    if WEAK_HASHES.contains(hash) {
        return refuse("it was made with a digest that can be forged (MD5, SHA-1 or RIPEMD-160)");
    }
    let principal = good.split_once(' ').map_or("", |(_, user)| user);
    Ok(Signer {
        principal: principal.chars().take(200).filter(|c| !c.is_control()).collect(),
        fingerprint: (*primary).to_owned(),
        scheme: SignatureScheme::OpenPgp,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "0123456789ABCDEF0123456789ABCDEF01234567";

    fn valid(hash: &str, class: &str) -> String {
        format!("[GNUPG:] VALIDSIG {KEY} 2026-01-01 1767225600 0 4 0 22 {hash} {class} {KEY}\n")
    }

    #[test]
    fn only_one_good_and_valid_signature_is_accepted() {
        let good = "[GNUPG:] NEWSIG\n[GNUPG:] GOODSIG 89ABCDEF01234567 Alice <a@example.org>\n";
        let signer = parse_status(&format!("{good}{}", valid("8", "00")), true).unwrap();
        assert_eq!((signer.principal.as_str(), signer.fingerprint.as_str()), ("Alice <a@example.org>", KEY));
        for (said, fine, word) in [
            (format!("{good}{}", valid("8", "00")), false, "gpgv failed"),
            (format!("{good}{}", valid("2", "00")), true, "SHA-1"),
            (format!("{good}{}", valid("8", "10")), true, "document"),
            (format!("{good}{good}{}", valid("8", "00")), true, "one good"),
            (format!("{good}{}{}", valid("8", "00"), valid("8", "00")), true, "one good"),
            (good.into(), true, "one good"),
            (valid("8", "00"), true, "one good"),
            (format!("GOODSIG x y\n{}", valid("8", "00")), true, "one good"),
            (format!("{good}[GNUPG:] EXPKEYSIG K u\n{}", valid("8", "00")), true, "expired"),
            (format!("{good}[GNUPG:] REVKEYSIG K u\n{}", valid("8", "00")), true, "revoked"),
            (format!("{good}[GNUPG:] EXPSIG K u\n{}", valid("8", "00")), true, "expired"),
            (format!("{good}[GNUPG:] BADSIG K u\n{}", valid("8", "00")), true, "signed content"),
            ("[GNUPG:] ERRSIG K 1 8 00 1 9 F\n".into(), false, "not in the keyring"),
            ("[GNUPG:] ERRSIG K 1 8 00 1 4 F\n".into(), false, "cannot be checked"),
            ("[GNUPG:] NODATA 4\n".into(), false, "no signature"),
            (format!("{good}[GNUPG:] VALIDSIG {KEY}\n"), true, "which key"),
            (String::new(), true, "one good"),
        ] {
            let error = parse_status(&said, fine).unwrap_err().to_string();
            assert!(error.contains(word), "{said}: {error}");
        }
    }

    #[test]
    fn a_missing_or_hanging_program_is_reported() {
        let keyring = tempfile::NamedTempFile::new().unwrap();
        let ask = |program: &str, limit| verify_with(program, limit, keyring.path(), b"", b"").unwrap_err();
        assert!(matches!(ask("no-such-gpgv", GPGV_TIMEOUT), SignatureError::NoGpgv));
        std::fs::write(keyring.path(), "-----BEGIN PGP PUBLIC KEY BLOCK-----\n").unwrap();
        assert!(ask(PROGRAM, GPGV_TIMEOUT).to_string().contains("armoured"));
        let mut slow = child_process::command("sh");
        slow.args(["-c", "sleep 60 & wait"]).stdout(Stdio::piped());
        let error = wait_for_output(slow.spawn().unwrap(), Duration::from_millis(50)).unwrap_err();
        assert!(matches!(error, SignatureError::GpgvTimeout { .. }), "{error}");
    }
}
