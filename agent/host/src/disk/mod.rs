//! The files of a machine, below `/` or another root: looks are lean, changes are noted for undo, safe and whole.

pub(crate) mod cross_device;
pub(crate) mod dir_sync;
#[cfg(test)]
pub mod tests;
pub(crate) mod tree_walk;
pub(crate) mod write;

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, OFlags};
use rustix::io::Errno;

use self::dir_sync::DirSync;
use self::write::reopen_for_attrs;
use crate::fs::path_at::{self, PathAt};
use crate::fs::stat::convert_stat;
use crate::fs::xattr::{self, Xattr};
use crate::fs::{FileKind, FileMeta, FileSystem, FsError, FsRoot, Stat, flags, read_at};
use crate::undo::UndoJournal;

/// The files of a machine.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    /// Where its paths begin.
    pub root: FsRoot,
    /// Where changes are noted before they are made; none when they are not noted.
    pub journal: Option<Arc<UndoJournal>>,
    /// Tag of the state that changes are noted under.
    pub tag: Arc<str>,
    pub(crate) dir_sync: Arc<DirSync>,
}

impl Disk {
    /// The files of this host; every change is noted in the journal first, if there is one.
    #[must_use]
    pub fn new(journal: Option<Arc<UndoJournal>>) -> Self {
        Self { journal, ..Self::default() }
    }

    /// The files below a root; every change is noted in the journal first, if there is one.
    #[must_use]
    pub fn at_root(root: FsRoot, journal: Option<Arc<UndoJournal>>) -> Self {
        Self { root, journal, ..Self::default() }
    }

    /// The same files, for one state: its changes are noted under its tag.
    #[must_use]
    pub fn for_state(&self, tag: &str) -> Self {
        Self { tag: tag.into(), ..self.clone() }
    }

    /// Makes durable what was changed by now, through this or any other handle on the same disk. Content and undo notes
    /// are durable without it; names that were made, moved or removed may come back after a power cut.
    ///
    /// # Errors
    /// Fails when a directory cannot be synced.
    pub fn sync_dirs(&self) -> Result<(), FsError> {
        self.dir_sync.sync_all().map_err(|error| FsError::new("sync directories of", "/", error))
    }
}

/// Opens the file or directory that a path leads to; none for what has no attributes. A device is not opened: that alone may
/// set something off.
fn open_for_attrs(root: &FsRoot, path: &Path) -> io::Result<Option<OwnedFd>> {
    let entry = root.open_path(path, OFlags::PATH)?;
    let stat = convert_stat(&rustix::fs::fstat(&entry)?)?;
    reopen_for_attrs(&entry, &stat)
}

fn read_attrs(root: &FsRoot, path: &Path) -> io::Result<Option<String>> {
    let Some(file) = open_for_attrs(root, path)? else { return Ok(None) };
    match rustix::fs::ioctl_getflags(&file) {
        Ok(bits) => Ok(Some(flags::letters(bits))),
        Err(Errno::NOTTY | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn read_xattrs(root: &FsRoot, path: &Path) -> io::Result<Vec<Xattr>> {
    match open_for_attrs(root, path)? {
        Some(file) => xattr::list(file.as_fd()),
        None => Ok(Vec::new()),
    }
}

impl FileSystem for Disk {
    #[allow(clippy::useless_conversion, reason = "the number is narrower on other architectures")]
    fn nlink(&self, path: &Path) -> Result<u64, FsError> {
        let found = self
            .root
            .stat(path, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|error| FsError::new("look at", path, error))?;
        Ok(found.st_nlink.into())
    }

    fn lstat(&self, path: &Path) -> Result<Option<Stat>, FsError> {
        read_at::stat(&self.root, path, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|error| FsError::new("look at", path, error))
    }

    fn stat(&self, path: &Path) -> Result<Option<Stat>, FsError> {
        read_at::stat(&self.root, path, AtFlags::empty())
            .map_err(|error| FsError::new("look at", path, error))
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>, FsError> {
        read_at::read(&self.root, path).map_err(|error| FsError::new("read", path, error))
    }

    fn read_chunks(&self, path: &Path, take: &mut dyn FnMut(&[u8])) -> Result<(), FsError> {
        read_at::read_chunks(&self.root, path, take).map_err(|error| FsError::new("read", path, error))
    }

    fn compare(&self, path: &Path, content: &[u8]) -> Result<Option<(Stat, bool)>, FsError> {
        read_at::compare(&self.root, path, content).map_err(|error| FsError::new("read", path, error))
    }

    fn read_link(&self, path: &Path) -> Result<PathBuf, FsError> {
        self.root.read_link(path).map_err(|error| FsError::new("read link", path, error))
    }

    fn resolve_for_change(&self, path: &Path) -> Result<PathBuf, FsError> {
        PathAt::resolve_end(&self.root, path).map_err(|error| FsError::new("follow", path, error))
    }

    fn read_for_change(&self, path: &Path) -> Result<Vec<u8>, FsError> {
        PathAt::open(&self.root, path)
            .and_then(|place| place.read())
            .map_err(|error| FsError::new("read", path, error))
    }

    fn read_dir(&self, path: &Path) -> Result<Vec<(OsString, FileKind)>, FsError> {
        read_at::read_dir(&self.root, path).map_err(|error| FsError::new("list", path, error))
    }

    fn write(&self, path: &Path, content: &[u8], meta: FileMeta) -> Result<(), FsError> {
        self.put_file(path, content, meta).map_err(|error| FsError::new("write", path, error))
    }

    fn make_dir(&self, path: &Path, meta: FileMeta) -> Result<(), FsError> {
        self.put_dir(path, meta).map_err(|error| FsError::new("make directory", path, error))
    }

    fn symlink(&self, path: &Path, target: &Path, meta: FileMeta) -> Result<(), FsError> {
        self.put_link(path, target, meta).map_err(|error| FsError::new("make link", path, error))
    }

    fn hard_link(&self, path: &Path, existing: &Path) -> Result<(), FsError> {
        self.put_hard_link(path, existing).map_err(|error| FsError::new("make hard link", path, error))
    }

    fn make_node(
        &self,
        path: &Path,
        kind: FileKind,
        device: (u32, u32),
        meta: FileMeta,
    ) -> Result<(), FsError> {
        self.put_node(path, kind, device, meta).map_err(|error| FsError::new("make node", path, error))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), FsError> {
        match self.move_entry(from, to) {
            Err(error) if error.raw_os_error() == Some(Errno::XDEV.raw_os_error()) => {
                cross_device::move_across(self, from, to)
            }
            answer => answer.map_err(|error| FsError::new("move", from, error)),
        }
    }

    fn remove(&self, path: &Path) -> Result<(), FsError> {
        self.remove_entry(path).map_err(|error| FsError::new("remove", path, error))
    }

    fn set_meta(&self, path: &Path, meta: FileMeta, follow: bool) -> Result<(), FsError> {
        self.change_meta(path, meta, follow)
            .map_err(|error| FsError::new("set owner and mode of", path, error))
    }

    fn set_times(&self, path: &Path, atime: i128, mtime: i128) -> Result<(), FsError> {
        self.change_times(path, atime, mtime).map_err(|error| FsError::new("set times of", path, error))
    }

    fn attrs(&self, path: &Path) -> Result<Option<String>, FsError> {
        read_attrs(&self.root, path).map_err(|error| FsError::new("read attributes of", path, error))
    }

    fn set_attrs(&self, path: &Path, add: &str, remove: &str) -> Result<(), FsError> {
        self.change_attrs(path, add, remove).map_err(|error| FsError::new("set attributes of", path, error))
    }

    fn xattrs(&self, path: &Path) -> Result<Vec<Xattr>, FsError> {
        read_xattrs(&self.root, path)
            .map_err(|error| FsError::new("read extended attributes of", path, error))
    }

    fn set_xattrs(&self, path: &Path, xattrs: &[Xattr]) -> Result<(), FsError> {
        self.change_xattrs(path, xattrs)
            .map_err(|error| FsError::new("set extended attributes of", path, error))
    }

    fn reject_kernel_dir(&self, dir: &Path) -> io::Result<()> {
        path_at::reject_kernel_dir(&self.root, dir)
    }
}
