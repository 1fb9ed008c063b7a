//! Files that the settings name: that they are there, that nobody else can read what is secret or write what is trusted.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use zagent_cache::trust::AllowedSigners;
use zagent_config::settings::{RequiredSignatures, Settings};

use super::{DoctorFinding, DoctorStatus, has_program};
use crate::output::pluralize;
use zagent_config::error_chain;

/// Who may do what with a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FileProtection {
    /// Nobody else reads it.
    Secret,
    /// Nobody else writes it.
    Trusted,
}

/// Keys whose signatures count.
pub(super) fn check_trust_files(settings: &Settings) -> Vec<DoctorFinding> {
    let trust = &settings.trust;
    if trust.require == RequiredSignatures::None {
        let hint = "set `trust.require: commit` and list keys in `trust.allowed_signers`";
        let message = "no signature is asked for: whoever can push to the repository rules this host";
        return vec![DoctorFinding::warn("trust", message, hint)];
    }
    let shown = trust.allowed_signers.display();
    let mut findings = vec![match AllowedSigners::read(trust) {
        Ok(_) => DoctorFinding::ok("trust", format!("{shown} is read, and nobody else can write to it")),
        Err(e) => {
            let hint = "write one line a key: PRINCIPAL namespaces=\"git,zagent-manifest\" ssh-ed25519 AAAA…; root:root, 0644";
            DoctorFinding::fail("trust", error_chain(&e), hint)
        }
    }];
    if let Some(keyring) = &trust.openpgp_keyring {
        findings.push(check_file("trust", keyring, FileProtection::Trusted));
        if !has_program("gpgv") {
            let message = "`trust.openpgp_keyring` is set, and there is no gpgv";
            findings.push(DoctorFinding::fail("trust", message, "install gpgv"));
        }
    }
    findings
}

/// Everything else that the settings name and others must not read.
pub(super) fn check_secret_files(settings: &Settings) -> Vec<DoctorFinding> {
    let hooks = settings.webhooks.iter().filter_map(|hook| hook.secret_file.as_ref());
    let named = hooks.chain(&settings.board.credentials);
    let found: Vec<DoctorFinding> =
        named.map(|path| check_file("secrets", path, FileProtection::Secret)).collect();
    let bad: Vec<DoctorFinding> = found.iter().filter(|f| f.verdict != DoctorStatus::Ok).cloned().collect();
    if bad.is_empty() && !found.is_empty() {
        return vec![DoctorFinding::ok(
            "secrets",
            format!("{}, for nobody else to read", pluralize(found.len(), "file")),
        )];
    }
    bad
}

/// A file that must be there, and be kept so.
pub(super) fn check_file(check: &str, path: &Path, keep: FileProtection) -> DoctorFinding {
    let shown = path.display();
    let meta = match path.metadata() {
        Ok(meta) => meta,
        Err(e) => {
            return DoctorFinding::fail(check, format!("{shown}: {e}"), "put it there, or name another one");
        }
    };
    if !meta.is_file() {
        return DoctorFinding::fail(check, format!("{shown} is not a file"), "name a file");
    }
    let (owner, mode) = (meta.uid(), meta.permissions().mode() & 0o7777);
    let user = rustix::process::geteuid().as_raw();
    if owner != 0 && owner != user {
        let message = format!("{shown} belongs to user {owner}, who can change it");
        return DoctorFinding::fail(check, message, format!("chown root {shown}"));
    }
    let (forbidden, whom, wanted) = match keep {
        FileProtection::Secret => (0o077, "others can read it", "0600"),
        FileProtection::Trusted => (0o022, "others can write to it", "0644"),
    };
    if mode & forbidden != 0 {
        return DoctorFinding::fail(
            check,
            format!("{shown} has mode {mode:04o}: {whom}"),
            format!("chmod {wanted} {shown}"),
        );
    }
    DoctorFinding::ok(check, format!("{shown}, mode {mode:04o}"))
}
