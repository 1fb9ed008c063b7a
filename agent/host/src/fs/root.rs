//! A path of a machine in, an open entry out: below `/`, or below another directory that nothing leads out of.
//!
//! Law: below another root the kernel resolves the path inside it (`RESOLVE_IN_ROOT`): a link with an absolute
//! target and a way back (`..`) start and end at that root (held by `links_and_ways_back_end_at_the_root`).

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

use super::FsError;
use super::path_at::fd_path;

/// How often a path is resolved again when directories on the way were moved meanwhile.
const MAX_RESOLVE_TRIES: usize = 16;

/// The root directory that the paths of a machine begin at. The default is `/` of this host.
#[derive(Clone, Debug, Default)]
pub struct FsRoot(Option<Arc<RootDir>>);

/// A root other than `/`.
#[derive(Debug)]
struct RootDir {
    /// Its path on this host, without links.
    path: PathBuf,
    dir: OwnedFd,
}

impl FsRoot {
    /// The root at a directory; `/` is this host.
    ///
    /// # Errors
    /// Fails when there is no such directory or it cannot be opened.
    pub fn open(path: &Path) -> Result<Self, FsError> {
        let open = || {
            let path = path.canonicalize()?;
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let dir = rustix::fs::openat(CWD, &path, flags, Mode::empty())?;
            io::Result::Ok((path != Path::new("/")).then(|| Arc::new(RootDir { path, dir })))
        };
        open().map(Self).map_err(|error| FsError::new("open the root", path, error))
    }

    /// True when paths begin at `/` of this host.
    #[must_use]
    pub(crate) const fn is_host(&self) -> bool {
        self.0.is_none()
    }

    /// Where it is on this host, without links.
    #[must_use]
    pub(crate) fn host_path(&self) -> &Path {
        self.0.as_ref().map_or_else(|| Path::new("/"), |root| &root.path)
    }

    /// The directory itself; none for `/` of this host.
    pub(crate) fn dir(&self) -> Option<BorrowedFd<'_>> {
        self.0.as_ref().map(|root| root.dir.as_fd())
    }

    /// Opens what a path leads to, by these rules beside that of the root.
    pub(crate) fn open_resolved(
        &self,
        path: &Path,
        flags: OFlags,
        resolve: ResolveFlags,
    ) -> Result<OwnedFd, Errno> {
        let Some(root) = &self.0 else {
            return rustix::fs::openat2(CWD, path, flags, Mode::empty(), resolve);
        };
        let resolve = resolve | ResolveFlags::IN_ROOT;
        for _ in 1..MAX_RESOLVE_TRIES {
            match rustix::fs::openat2(&root.dir, path, flags, Mode::empty(), resolve) {
                // A directory on a way back was moved while it was walked.
                Err(Errno::AGAIN) => {}
                answer => return answer,
            }
        }
        rustix::fs::openat2(&root.dir, path, flags, Mode::empty(), resolve)
    }

    /// Opens what a path leads to; with `NOFOLLOW` what stands at it.
    ///
    /// # Errors
    /// Fails with what the kernel says.
    pub fn open_path(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC;
        match self.is_host() {
            true => rustix::fs::openat(CWD, path, flags, Mode::empty()),
            false => self.open_resolved(path, flags, ResolveFlags::empty()),
        }
    }

    /// What stands at a path, or where it leads.
    ///
    /// # Errors
    /// Fails with what the kernel says.
    pub fn stat(&self, path: &Path, flags: AtFlags) -> Result<Stat, Errno> {
        if self.is_host() {
            return rustix::fs::statat(CWD, path, flags);
        }
        let is_link = flags.contains(AtFlags::SYMLINK_NOFOLLOW);
        let follow = if is_link { OFlags::NOFOLLOW } else { OFlags::empty() };
        rustix::fs::fstat(self.open_path(path, OFlags::PATH | follow)?)
    }

    /// The same as the standard library shows it, links followed or not.
    ///
    /// # Errors
    /// Fails when nothing is there or it cannot be looked at.
    pub fn metadata(&self, path: &Path, is_followed: bool) -> io::Result<std::fs::Metadata> {
        match (self.is_host(), is_followed) {
            (true, true) => std::fs::metadata(path),
            (true, false) => std::fs::symlink_metadata(path),
            (false, _) => {
                let follow = if is_followed { OFlags::empty() } else { OFlags::NOFOLLOW };
                File::from(self.open_path(path, OFlags::PATH | follow)?).metadata()
            }
        }
    }

    /// Where a link points.
    ///
    /// # Errors
    /// Fails when it is no link or cannot be read.
    pub fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        let target = match self.is_host() {
            true => rustix::fs::readlinkat(CWD, path, Vec::new())?,
            false => {
                let link = self.open_path(path, OFlags::PATH | OFlags::NOFOLLOW)?;
                // Asked for by an empty name, what is no link is said not to be there.
                rustix::fs::readlinkat(&link, "", Vec::new()).map_err(|error| match error {
                    Errno::NOENT => Errno::INVAL,
                    other => other,
                })?
            }
        };
        Ok(PathBuf::from(OsString::from_vec(target.into_bytes())))
    }

    /// Where a path leads, as a path of the machine without links.
    ///
    /// # Errors
    /// Fails when nothing is there.
    pub fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        if self.is_host() {
            return std::fs::canonicalize(path);
        }
        self.machine_path(self.open_path(path, OFlags::PATH)?.as_fd())
    }

    /// Where a path leads, as this process can open it: for calls that take a path and no descriptor. What is not there yet
    /// is named by its directory.
    ///
    /// # Errors
    /// Fails when not even its directory is there.
    pub fn to_host_path(&self, path: &Path) -> io::Result<PathBuf> {
        if self.is_host() {
            return Ok(path.to_owned());
        }
        match self.open_path(path, OFlags::PATH) {
            Ok(entry) => fd_target(entry.as_fd()),
            Err(Errno::NOENT) => {
                let (dir, name) = super::path_at::split_path(path);
                Ok(fd_target(self.open_path(dir, OFlags::PATH | OFlags::DIRECTORY)?.as_fd())?.join(name))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Where an open entry is, as a path of the machine.
    pub(crate) fn machine_path(&self, entry: BorrowedFd<'_>) -> io::Result<PathBuf> {
        let real = fd_target(entry)?;
        let Some(root) = &self.0 else { return Ok(real) };
        let inside = real.strip_prefix(&root.path).map_err(|_| {
            let text = format!("`{}` is outside of `{}`", real.display(), root.path.display());
            io::Error::new(io::ErrorKind::PermissionDenied, text)
        })?;
        Ok(Path::new("/").join(inside))
    }
}

/// Where an open entry is on this host.
fn fd_target(entry: BorrowedFd<'_>) -> io::Result<PathBuf> {
    let real = rustix::fs::readlinkat(CWD, fd_path(entry), Vec::new())?;
    Ok(PathBuf::from(OsString::from_vec(real.into_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root_with_links() -> (tempfile::TempDir, FsRoot) {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::create_dir_all(at("etc/d")).unwrap();
        std::fs::write(at("etc/marker"), "inside").unwrap();
        std::os::unix::fs::symlink("/etc/marker", at("etc/d/absolute")).unwrap();
        std::os::unix::fs::symlink("../../../../../../etc/marker", at("etc/d/back")).unwrap();
        std::os::unix::fs::symlink("/proc/self/status", at("etc/out")).unwrap();
        let root = FsRoot::open(dir.path()).unwrap();
        (dir, root)
    }

    #[test]
    fn links_and_ways_back_end_at_the_root() {
        let (_dir, root) = root_with_links();
        for path in ["/etc/marker", "/etc/d/absolute", "/etc/d/back", "/../../etc/marker"] {
            assert_eq!(root.canonicalize(Path::new(path)).unwrap(), Path::new("/etc/marker"), "{path}");
        }
        assert_eq!(root.stat(Path::new("/etc/out"), AtFlags::empty()).err(), Some(Errno::NOENT));
        assert_eq!(root.read_link(Path::new("/etc/out")).unwrap(), Path::new("/proc/self/status"));
        assert!(root.read_link(Path::new("/etc/marker")).is_err());
        assert!(root.metadata(Path::new("/etc/out"), false).unwrap().is_symlink());
    }

    #[test]
    fn a_path_of_the_machine_can_be_opened_from_here() {
        let (dir, root) = root_with_links();
        let real = dir.path().canonicalize().unwrap();
        assert_eq!(root.to_host_path(Path::new("/etc/d/absolute")).unwrap(), real.join("etc/marker"));
        assert_eq!(root.to_host_path(Path::new("/etc/new")).unwrap(), real.join("etc/new"));
        assert!(root.to_host_path(Path::new("/no/new")).is_err());
    }

    #[test]
    fn the_root_of_this_host_is_no_other_root() {
        assert!(FsRoot::open(Path::new("/")).unwrap().is_host());
        assert!(FsRoot::open(Path::new("/no/such/root")).is_err());
        assert_eq!(FsRoot::default().host_path(), Path::new("/"));
    }
}
