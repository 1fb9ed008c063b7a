//! The agent's root directory: its owner, its mode, and its free space.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use zagent_config::disk_space::readable_size;
use zagent_config::settings::Settings;
use zagent_daemon::space::SpaceUse;

use super::DoctorFinding;

/// Free space below which nothing can be staged.
const FAIL_BELOW_BYTES: u64 = 32 << 20;
/// Free space below which to warn.
const WARN_BELOW_BYTES: u64 = 256 << 20;
/// Same for inodes.
const WARN_BELOW_INODES: u64 = 2_000;

pub(super) fn check_root(settings: &Settings) -> Vec<DoctorFinding> {
    vec![check_directory(&settings.root), check_disk_space(&settings.root), check_own_space(settings)]
}

/// What the agent uses itself.
fn check_own_space(settings: &Settings) -> DoctorFinding {
    let (used, limit) = (SpaceUse::measure(&settings.root).used, settings.keep_bytes);
    let message = format!(
        "{}: {} used by the agent, at most {}",
        settings.root.display(),
        readable_size(used),
        readable_size(limit)
    );
    if used <= limit {
        return DoctorFinding::ok("space", message);
    }
    let hint = "the next run that changes something removes what it can; otherwise raise `keep_bytes`, or remove \
                old backups and slots";
    DoctorFinding::warn("space", message, hint)
}

fn check_directory(root: &Path) -> DoctorFinding {
    let shown = root.display();
    let meta = match root.metadata() {
        Ok(meta) => meta,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return DoctorFinding::ok(
                "root",
                format!("{shown} does not exist yet: the first run creates it"),
            );
        }
        Err(e) => {
            return DoctorFinding::fail(
                "root",
                format!("{shown}: {e}"),
                "run `zagent doctor` as the agent's user",
            );
        }
    };
    let (owner, mode) = (meta.uid(), meta.permissions().mode() & 0o7777);
    let user = rustix::process::geteuid().as_raw();
    if !meta.is_dir() {
        return DoctorFinding::fail(
            "root",
            format!("{shown} is not a directory"),
            "set `root` to a directory",
        );
    }
    if owner != user {
        let message = format!("{shown} belongs to user {owner}, but zagent runs as user {user}");
        return DoctorFinding::fail("root", message, format!("run as that user, or `chown {user} {shown}`"));
    }
    if mode & 0o077 != 0 {
        let message = format!("{shown} has mode {mode:04o}: others can read secrets of the states");
        return DoctorFinding::fail("root", message, format!("chmod 0700 {shown}"));
    }
    DoctorFinding::ok("root", format!("{shown}, mode {mode:04o}"))
}

fn check_disk_space(root: &Path) -> DoctorFinding {
    let there = root.ancestors().find(|p| p.exists()).unwrap_or(root);
    let stat = match rustix::fs::statvfs(there) {
        Ok(stat) => stat,
        Err(e) => {
            return DoctorFinding::warn("disk", format!("{}: {e}", there.display()), "check the file system");
        }
    };
    let bytes = stat.f_bavail.saturating_mul(stat.f_frsize);
    // Some file systems have no inode table and report zero of zero.
    let inodes = (stat.f_files > 0).then_some(stat.f_favail);
    judge_disk_space(&there.display().to_string(), bytes, inodes)
}

fn judge_disk_space(shown: &str, bytes: u64, inodes: Option<u64>) -> DoctorFinding {
    let free = readable_size(bytes);
    let left = inodes.map(|n| format!(", {n} inodes")).unwrap_or_default();
    let message = format!("{shown}: {free} free{left}");
    let hint = "free disk space: remove old generations with `zagent cache gc`, or lower `source.keep` and \
                `run.keep`";
    match (bytes, inodes) {
        (0..FAIL_BELOW_BYTES, _) | (_, Some(0..100)) => DoctorFinding::fail("disk", message, hint),
        (0..WARN_BELOW_BYTES, _) | (_, Some(0..WARN_BELOW_INODES)) => {
            DoctorFinding::warn("disk", message, hint)
        }
        _ => DoctorFinding::ok("disk", message),
    }
}

#[cfg(test)]
mod tests {
    use super::super::DoctorStatus;
    use super::*;

    #[test]
    fn a_root_that_others_can_read_is_a_failure() {
        let dir = tempfile::tempdir().unwrap();
        let mode =
            |bits| std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(bits)).unwrap();
        mode(0o755);
        let found = check_directory(dir.path());
        assert_eq!(
            (found.verdict, found.hint.as_deref().unwrap().starts_with("chmod 0700")),
            (DoctorStatus::Fail, true)
        );
        mode(0o700);
        assert_eq!(check_directory(dir.path()).verdict, DoctorStatus::Ok);
        assert_eq!(check_directory(&dir.path().join("later")).verdict, DoctorStatus::Ok);
        std::fs::write(dir.path().join("file"), "").unwrap();
        assert_eq!(check_directory(&dir.path().join("file")).verdict, DoctorStatus::Fail);
    }

    #[test]
    fn free_space_is_checked_in_bytes_and_inodes() {
        let verdict = |bytes, inodes| judge_disk_space("/", bytes, inodes).verdict;
        assert_eq!(verdict(1 << 30, Some(100_000)), DoctorStatus::Ok);
        assert_eq!(verdict(1 << 30, None), DoctorStatus::Ok);
        assert_eq!(verdict(100 << 20, None), DoctorStatus::Warn);
        assert_eq!(verdict(1 << 20, Some(100_000)), DoctorStatus::Fail);
        assert_eq!(verdict(1 << 30, Some(500)), DoctorStatus::Warn);
        assert_eq!(verdict(1 << 30, Some(3)), DoctorStatus::Fail);
    }
}
