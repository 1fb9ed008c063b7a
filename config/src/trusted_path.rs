//! A path in, a refusal out when somebody else can change what is there.
//!
//! Law: what configures the agent is owned by root or by the agent's own user, and so is every directory and link on the way
//! to it; nobody else may write any of them. A directory with the sticky bit (`/tmp`) may be written by others: they can
//! neither remove nor rename what is not theirs (held by `what_others_can_change_is_refused`,
//! `the_way_through_a_link_is_looked_at`, `what_belongs_to_somebody_else_is_refused`).

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The sticky bit: only owners can remove entries of a directory.
const STICKY: u32 = 0o1000;

/// Why a path is not trusted, and the command that fixes it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} {why}", describe(wanted, culprit))]
pub struct UntrustedPath {
    /// The path that was asked about.
    pub wanted: PathBuf,
    /// The path that is wrong: the same, or one on the way to it.
    pub culprit: PathBuf,
    /// What is wrong with it.
    pub why: String,
    /// The command that fixes it.
    pub fix: String,
}

impl UntrustedPath {
    /// What to do.
    #[must_use]
    pub fn hint(&self) -> String {
        format!("fix it with `{}`", self.fix)
    }
}

fn describe(wanted: &Path, culprit: &Path) -> String {
    if wanted == culprit {
        return format!("`{}`", wanted.display());
    }
    format!("`{}` is not trusted: `{}`", wanted.display(), culprit.display())
}

/// Who may own what is trusted, beside root.
#[derive(Clone, Copy, Debug)]
struct Owner {
    uid: u32,
}

/// Refuses a path that somebody else can change. What does not exist is no matter: its directory is looked at all the same.
///
/// # Errors
/// Fails for the first thing on the way that is not trusted.
pub fn verify(path: &Path) -> Result<(), UntrustedPath> {
    let own = Owner { uid: rustix::process::geteuid().as_raw() };
    let Ok(absolute) = std::path::absolute(path) else { return Ok(()) };
    own.verify_way(path, &absolute)?;
    // Where links lead is on the way too.
    match absolute.canonicalize() {
        Ok(real) if real != absolute => own.verify_way(path, &real),
        _ => Ok(()),
    }
}

impl Owner {
    fn verify_way(self, wanted: &Path, path: &Path) -> Result<(), UntrustedPath> {
        for part in path.ancestors() {
            match std::fs::symlink_metadata(part) {
                Ok(meta) => self.verify_one(wanted, part, &meta)?,
                Err(error) if is_absent(&error) => {}
                // What cannot be looked at cannot be used either; its reader says why.
                Err(_) => return Ok(()),
            }
        }
        Ok(())
    }

    fn verify_one(self, wanted: &Path, path: &Path, meta: &Metadata) -> Result<(), UntrustedPath> {
        let refuse = |why: String, fix: String| {
            let (wanted, culprit) = (wanted.to_owned(), path.to_owned());
            Err(UntrustedPath { wanted, culprit, why, fix })
        };
        let shown = path.display();
        if meta.uid() != 0 && meta.uid() != self.uid {
            let (uid, option) = (meta.uid(), if meta.is_symlink() { "-h " } else { "" });
            let why = format!("belongs to user {uid}: it must belong to root or to the user who runs zagent");
            let user = if self.uid == 0 { "root".to_owned() } else { self.uid.to_string() };
            return refuse(why, format!("chown {option}{user}: {shown}"));
        }
        if self.others_may_write(meta) {
            let mode = meta.mode() & 0o7777;
            return refuse(
                format!("can be written by others (mode {mode:04o})"),
                format!("chmod go-w {shown}"),
            );
        }
        Ok(())
    }

    fn others_may_write(self, meta: &Metadata) -> bool {
        if meta.is_symlink() || meta.is_dir() && meta.mode() & STICKY != 0 {
            return false;
        }
        // Many systems give every user a group of the same number, with nobody else in it, and files that it may write.
        let is_private_group = self.uid != 0 && meta.uid() == self.uid && meta.gid() == self.uid;
        meta.mode() & if is_private_group { 0o002 } else { 0o022 } != 0
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn what_others_can_change_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let sub = dir.path().join("sub");
        let file = sub.join("a.yaml");
        fs::create_dir(&sub).unwrap();
        fs::write(&file, "").unwrap();
        set_mode(&sub, 0o755);
        set_mode(&file, 0o644);
        assert_eq!(verify(&file), Ok(()));
        assert_eq!(verify(&sub.join("missing")), Ok(()));
        for (path, mode, fine) in
            [(&file, 0o666, 0o644), (&file, 0o602, 0o600), (&sub, 0o777, 0o755), (&sub, 0o757, 0o700)]
        {
            set_mode(path, mode);
            let error = verify(&file).unwrap_err();
            assert_eq!((&error.culprit, &error.wanted), (path, &file));
            assert_eq!(error.fix, format!("chmod go-w {}", path.display()));
            set_mode(path, fine);
            assert_eq!(verify(&file), Ok(()));
        }
        // Others may write there, and cannot touch what is not theirs.
        set_mode(&sub, 0o1777);
        assert_eq!(verify(&file), Ok(()));
        set_mode(&sub, 0o777);
        assert!(verify(&sub.join("missing")).unwrap_err().to_string().contains("is not trusted"));
    }

    #[test]
    fn the_way_through_a_link_is_looked_at() {
        let dir = tempfile::tempdir().unwrap();
        let [open, safe] = ["open", "safe"].map(|name| dir.path().join(name));
        fs::create_dir(&open).unwrap();
        fs::create_dir(&safe).unwrap();
        fs::write(open.join("a"), "").unwrap();
        symlink(open.join("a"), safe.join("a")).unwrap();
        assert_eq!(verify(&safe.join("a")), Ok(()));
        set_mode(&open, 0o777);
        assert_eq!(verify(&safe.join("a")).unwrap_err().culprit, open);
    }

    #[test]
    fn what_belongs_to_somebody_else_is_refused() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("a"), dir.path().join("link"));
        fs::write(&file, "").unwrap();
        chown(&file, Some(65534), None).unwrap();
        let error = verify(&file).unwrap_err();
        assert_eq!(error.fix, format!("chown root: {}", file.display()));
        assert!(error.to_string().contains("belongs to user 65534"), "{error}");
        chown(&file, Some(0), None).unwrap();
        symlink(&file, &link).unwrap();
        assert_eq!(verify(&link), Ok(()));
        std::os::unix::fs::lchown(&link, Some(65534), None).unwrap();
        assert_eq!(verify(&link).unwrap_err().fix, format!("chown -h root: {}", link.display()));
    }

    #[test]
    fn a_group_of_ones_own_may_write() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        fs::write(&path, "").unwrap();
        set_mode(&path, 0o664);
        let meta = fs::metadata(&path).unwrap();
        let (uid, gid) = (meta.uid(), meta.gid());
        assert_eq!(Owner { uid }.others_may_write(&meta), uid == 0 || uid != gid);
    }
}
