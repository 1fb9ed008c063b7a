//! Files named in the settings: they exist, other users cannot read secret files or write trusted ones.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use zagent_config::settings::Settings;

use super::{DoctorFinding, DoctorStatus};
use crate::output::pluralize;

/// Who may access a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FileProtection {
    /// Not readable by others.
    Secret,
    /// Not writable by others.
    Trusted,
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
