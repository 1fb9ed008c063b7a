//! Files named in the settings: they exist, other users cannot read secret files or write trusted ones.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use zagent_cache::trust::AllowedSigners;
use zagent_config::settings::{RequiredSignatures, Settings};

use super::{DoctorFinding, DoctorStatus, has_program};
use crate::output::pluralize;
use zagent_config::error_chain;

/// Who may access a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FileProtection {
    /// Not readable by others.
    Secret,
    /// Not writable by others.
    Trusted,
}

/// Keys that signatures are checked against.
pub(super) fn check_trust_files(settings: &Settings) -> Vec<DoctorFinding> {
    let trust = &settings.trust;
    if trust.require == RequiredSignatures::None {
        let hint = "set `trust.require: commit` and list keys in `trust.allowed_signers`";
        let message = "signatures are not required: anyone who can push to the repository controls this host";
        return vec![DoctorFinding::warn("trust", message, hint)];
    }
    let shown = trust.allowed_signers.display();
    let mut findings = vec![match AllowedSigners::read(trust) {
        Ok(_) => DoctorFinding::ok("trust", format!("{shown} is readable, and others cannot write to it")),
        Err(e) => {
            let hint = "write one line per key: PRINCIPAL namespaces=\"git,zagent-manifest\" ssh-ed25519 \
                        AAAA…; root:root, 0644";
            DoctorFinding::fail("trust", error_chain(&e), hint)
        }
    }];
    if let Some(keyring) = &trust.openpgp_keyring {
        findings.push(check_file("trust", keyring, FileProtection::Trusted));
        if !has_program("gpgv") {
            let message = "`trust.openpgp_keyring` is set, but gpgv is not installed";
            findings.push(DoctorFinding::fail("trust", message, "install gpgv"));
        }
    }
    findings
}

/// All other files in the settings that others must not read.
pub(super) fn check_secret_files(settings: &Settings) -> Vec<DoctorFinding> {
    let hooks = settings.webhooks.iter().filter_map(|hook| hook.secret_file.as_ref());
    let named = hooks.chain(&settings.board.credentials);
    let found: Vec<DoctorFinding> =
        named.map(|path| check_file("secrets", path, FileProtection::Secret)).collect();
    let bad: Vec<DoctorFinding> = found.iter().filter(|f| f.verdict != DoctorStatus::Ok).cloned().collect();
    if bad.is_empty() && !found.is_empty() {
        return vec![DoctorFinding::ok(
            "secrets",
            format!("{}, not readable by others", pluralize(found.len(), "file")),
        )];
    }
    bad
}

/// Checks that a file exists and is protected.
pub(super) fn check_file(check: &str, path: &Path, keep: FileProtection) -> DoctorFinding {
    let shown = path.display();
    let meta = match path.metadata() {
        Ok(meta) => meta,
        Err(e) => {
            return DoctorFinding::fail(check, format!("{shown}: {e}"), "create it, or set another path");
        }
    };
    if !meta.is_file() {
        return DoctorFinding::fail(check, format!("{shown} is not a file"), "set the path of a file");
    }
    let (owner, mode) = (meta.uid(), meta.permissions().mode() & 0o7777);
    let user = rustix::process::geteuid().as_raw();
    if owner != 0 && owner != user {
        let message = format!("{shown} belongs to user {owner}, who can modify it");
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
