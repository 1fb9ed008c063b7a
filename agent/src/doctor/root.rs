//! The agent's own directory: whose it is, who can look into it, and how much room is left.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use zagent_config::settings::{Settings, format_size};

use super::Finding;

/// Room without which nothing can be staged.
const FEW_BYTES: u64 = 32 << 20;
/// Room below which somebody should look.
const LOW_BYTES: u64 = 256 << 20;
/// The same for entries of the file system.
const LOW_INODES: u64 = 2_000;

pub(super) fn look(settings: &Settings) -> Vec<Finding> {
    vec![directory(&settings.root), room(&settings.root)]
}

fn directory(root: &Path) -> Finding {
    let shown = root.display();
    let meta = match root.metadata() {
        Ok(meta) => meta,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Finding::ok("root", format!("{shown} is not there yet: the first run makes it"));
        }
        Err(e) => {
            return Finding::fail(
                "root",
                format!("{shown}: {e}"),
                "run `zagent doctor` as the user of the agent",
            );
        }
    };
    let (owner, mode) = (meta.uid(), meta.permissions().mode() & 0o7777);
    let user = rustix::process::geteuid().as_raw();
    if !meta.is_dir() {
        return Finding::fail("root", format!("{shown} is not a directory"), "set `root` to a directory");
    }
    if owner != user {
        let message = format!("{shown} belongs to user {owner}, and this is user {user}");
        return Finding::fail("root", message, format!("run as that user, or `chown {user} {shown}`"));
    }
    if mode & 0o077 != 0 {
        let message = format!("{shown} has mode {mode:04o}: others can look at secrets of the states");
        return Finding::fail("root", message, format!("chmod 0700 {shown}"));
    }
    Finding::ok("root", format!("{shown}, mode {mode:04o}"))
}

fn room(root: &Path) -> Finding {
    let there = root.ancestors().find(|p| p.exists()).unwrap_or(root);
    let stat = match rustix::fs::statvfs(there) {
        Ok(stat) => stat,
        Err(e) => {
            return Finding::warn("disk", format!("{}: {e}", there.display()), "look at the file system");
        }
    };
    let bytes = stat.f_bavail.saturating_mul(stat.f_frsize);
    // Some file systems have no table of inodes, and say zero of zero.
    let inodes = (stat.f_files > 0).then_some(stat.f_favail);
    judge(&there.display().to_string(), bytes, inodes)
}

fn judge(shown: &str, bytes: u64, inodes: Option<u64>) -> Finding {
    // In numbers that somebody can take in.
    let unit = if bytes >> 30 >= 10 { 30 } else { 20 };
    let free = format_size(bytes >> unit << unit);
    let left = inodes.map(|n| format!(", {n} inodes")).unwrap_or_default();
    let message = format!("{shown}: {free} free{left}");
    let hint =
        "make room; `zagent cache gc` drops old generations, `source.keep` and `run.keep` say how many stay";
    match (bytes, inodes) {
        (0..FEW_BYTES, _) | (_, Some(0..100)) => Finding::fail("disk", message, hint),
        (0..LOW_BYTES, _) | (_, Some(0..LOW_INODES)) => Finding::warn("disk", message, hint),
        _ => Finding::ok("disk", message),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[test]
    fn a_directory_that_others_can_read_is_a_failure() {
        let dir = tempfile::tempdir().unwrap();
        let mode =
            |bits| std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(bits)).unwrap();
        mode(0o755);
        let found = directory(dir.path());
        assert_eq!(
            (found.verdict, found.hint.as_deref().unwrap().starts_with("chmod 0700")),
            (Verdict::Fail, true)
        );
        mode(0o700);
        assert_eq!(directory(dir.path()).verdict, Verdict::Ok);
        assert_eq!(directory(&dir.path().join("later")).verdict, Verdict::Ok);
        std::fs::write(dir.path().join("file"), "").unwrap();
        assert_eq!(directory(&dir.path().join("file")).verdict, Verdict::Fail);
    }

    #[test]
    fn room_is_judged_by_bytes_and_by_inodes() {
        let verdict = |bytes, inodes| judge("/", bytes, inodes).verdict;
        assert_eq!(verdict(1 << 30, Some(100_000)), Verdict::Ok);
        assert_eq!(verdict(1 << 30, None), Verdict::Ok);
        assert_eq!(verdict(100 << 20, None), Verdict::Warn);
        assert_eq!(verdict(1 << 20, Some(100_000)), Verdict::Fail);
        assert_eq!(verdict(1 << 30, Some(500)), Verdict::Warn);
        assert_eq!(verdict(1 << 30, Some(3)), Verdict::Fail);
    }
}
