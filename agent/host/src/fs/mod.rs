//! The file system as states see it: looks that change nothing, and changes that are whole or not there at all.
//!
//! Law: states change files through [`FileSystem`]. A run gives them the disk, which notes changes for undo first;
//! a dry run gives them an overlay in memory, so that a later state sees what an earlier one would have done. Paths
//! are those of the machine: below another root than `/` ([`FsRoot`]) they are resolved inside it (held by
//! `each_act_has_its_owners`, `the_overlay_answers_as_the_disk_would`, `no_link_leads_out_of_the_root`).

pub(crate) mod atomic_write;
pub mod flags;
pub mod overlay;
pub(crate) mod path_at;
pub(crate) mod read_at;
pub mod root;
pub mod stat;
pub mod umask;
pub(crate) mod xattr;

use std::io;
use std::path::{Path, PathBuf};

pub use overlay::Overlay;
pub(crate) use root::FsRoot;
pub use umask::UmaskGuard;
pub use xattr::Xattr;

/// What stands at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link.
    Link,
    /// A named pipe.
    Fifo,
    /// A character device.
    Char,
    /// A block device.
    Block,
    /// A socket.
    Socket,
}

/// Who and what an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// What it is.
    pub kind: FileKind,
    /// Permission bits, with set-id and sticky bits (at most `0o7777`).
    pub mode: u32,
    /// The owner.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// Bytes of a file.
    pub size: u64,
    /// Last change of the content, in nanoseconds since 1970.
    pub mtime: i128,
    /// Last access, in nanoseconds since 1970.
    pub atime: i128,
    /// Device and inode: the same entry has the same pair. In an overlay, entries that are not on disk have device 0.
    pub id: (u64, u64),
    /// Major and minor number of a device.
    pub device: (u32, u32),
}

/// What an entry gets; what is `None` stays as it is (or, for a new one, as `umask` and the process make it).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileMeta {
    /// Permission bits.
    pub mode: Option<u32>,
    /// The owner.
    pub uid: Option<u32>,
    /// The group.
    pub gid: Option<u32>,
}

/// An act on a path that failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {act} `{}`", path.display())]
pub struct FsError {
    /// What was tried, such as `read` or `make directory`.
    pub act: &'static str,
    /// On what.
    pub path: PathBuf,
    /// Why it failed.
    #[source]
    pub source: io::Error,
}

impl FsError {
    /// An act that failed.
    pub fn new(act: &'static str, path: impl Into<PathBuf>, source: impl Into<io::Error>) -> Self {
        Self { act, path: path.into(), source: source.into() }
    }

    /// True when there was nothing at the path.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotFound
    }
}

/// Looks and changes. Paths are absolute.
///
/// A read error is not "absent": only a missing entry (or a missing directory on the way to it) is `None`.
pub trait FileSystem: Send + Sync {
    /// What stands at the path itself.
    ///
    /// # Errors
    /// Fails when it cannot be looked at.
    fn lstat(&self, path: &Path) -> Result<Option<Stat>, FsError>;

    /// How many names the entry has, links not followed; one where nobody counts.
    ///
    /// # Errors
    /// Fails when it is not there or cannot be looked at.
    fn nlink(&self, path: &Path) -> Result<u64, FsError> {
        let _ = path;
        Ok(1)
    }

    /// What stands where the path leads, links followed.
    ///
    /// # Errors
    /// Fails when it cannot be looked at; a link that leads nowhere is `None`.
    fn stat(&self, path: &Path) -> Result<Option<Stat>, FsError>;

    /// The content of a file, links followed.
    ///
    /// # Errors
    /// Fails when it is not there or cannot be read.
    fn read(&self, path: &Path) -> Result<Vec<u8>, FsError>;

    /// The same piece by piece, for who needs no whole of it; by default in one.
    ///
    /// # Errors
    /// Fails when it is not there or cannot be read.
    fn read_chunks(&self, path: &Path, take: &mut dyn FnMut(&[u8])) -> Result<(), FsError> {
        take(&self.read(path)?);
        Ok(())
    }

    /// What stands where the path leads, and whether it is a file with exactly this content. Reads only when the size fits.
    ///
    /// # Errors
    /// Fails when it cannot be looked at or read.
    fn compare(&self, path: &Path, content: &[u8]) -> Result<Option<(Stat, bool)>, FsError>;

    /// Where a link points.
    ///
    /// # Errors
    /// Fails when it is no link or cannot be read.
    fn read_link(&self, path: &Path) -> Result<PathBuf, FsError>;

    /// Where a change of what the path leads to has to be made: the path itself, or where the links at its end lead. The end
    /// may be missing. Links are followed only when nobody but root or ourselves can have put them there.
    ///
    /// # Errors
    /// Fails when a link may be planted, when links lead in a circle, or when they cannot be read.
    fn resolve_for_change(&self, path: &Path) -> Result<PathBuf, FsError>;

    /// The content of the file at the path itself, of which the rest is to be made: a link there is not followed, and on the
    /// way only as for a change.
    ///
    /// # Errors
    /// Fails when it is no file or cannot be read.
    fn read_for_change(&self, path: &Path) -> Result<Vec<u8>, FsError>;

    /// Names in a directory and what each is, sorted by name.
    ///
    /// # Errors
    /// Fails when it is no directory or cannot be read.
    fn read_dir(&self, path: &Path) -> Result<Vec<(std::ffi::OsString, FileKind)>, FsError>;

    /// Puts a file with this content at the path, whole or not at all; nobody sees it under another owner or mode. What an
    /// existing file has and `meta` does not say (owner, mode) is kept. A link at the path is replaced, not followed.
    ///
    /// # Errors
    /// Fails when it cannot be written; what was there is still there then.
    fn write(&self, path: &Path, content: &[u8], meta: FileMeta) -> Result<(), FsError>;

    /// Makes one directory; its parent must be there.
    ///
    /// # Errors
    /// Fails when it cannot be made.
    fn make_dir(&self, path: &Path, meta: FileMeta) -> Result<(), FsError>;

    /// Makes a symbolic link, in place of a link or file that is there.
    ///
    /// # Errors
    /// Fails when it cannot be made.
    fn symlink(&self, path: &Path, target: &Path, meta: FileMeta) -> Result<(), FsError>;

    /// Makes another name for a file, in place of a link or file that is there.
    ///
    /// # Errors
    /// Fails when it cannot be made.
    fn hard_link(&self, path: &Path, existing: &Path) -> Result<(), FsError>;

    /// Makes a pipe or device; `device` is major and minor.
    ///
    /// # Errors
    /// Fails when it cannot be made, and for kinds that are neither.
    fn make_node(
        &self,
        path: &Path,
        kind: FileKind,
        device: (u32, u32),
        meta: FileMeta,
    ) -> Result<(), FsError>;

    /// Moves an entry, in place of what is there unless that is a directory.
    ///
    /// # Errors
    /// Fails when it cannot be moved.
    fn rename(&self, from: &Path, to: &Path) -> Result<(), FsError>;

    /// Removes an entry: a directory with all that is in it. Links are removed, not followed.
    ///
    /// # Errors
    /// Fails when it cannot be removed; nothing there is an error too.
    fn remove(&self, path: &Path) -> Result<(), FsError>;

    /// Sets owner and mode; `follow` says whether a link is followed (the mode of a link itself cannot be set).
    ///
    /// # Errors
    /// Fails when it cannot be set.
    fn set_meta(&self, path: &Path, meta: FileMeta, follow: bool) -> Result<(), FsError>;

    /// Sets times in nanoseconds since 1970, links followed.
    ///
    /// # Errors
    /// Fails when they cannot be set.
    fn set_times(&self, path: &Path, atime: i128, mtime: i128) -> Result<(), FsError>;

    /// The attributes of a file as `lsattr` letters, sorted; `None` where the file system has none.
    ///
    /// # Errors
    /// Fails when they cannot be read.
    fn attrs(&self, path: &Path) -> Result<Option<String>, FsError>;

    /// Gives and takes attributes, as letters of `chattr`.
    ///
    /// # Errors
    /// Fails when they cannot be set.
    fn set_attrs(&self, path: &Path, add: &str, remove: &str) -> Result<(), FsError>;

    /// The extended attributes of a file or directory (labels, access lists), sorted by name, links followed.
    ///
    /// # Errors
    /// Fails when they cannot be read.
    fn xattrs(&self, path: &Path) -> Result<Vec<Xattr>, FsError>;

    /// Refuses a directory in which only the kernel makes entries; one that is not there refuses nothing.
    ///
    /// # Errors
    /// Fails for such a directory.
    fn reject_kernel_dir(&self, dir: &Path) -> io::Result<()> {
        let _ = dir;
        Ok(())
    }

    /// Gives a file or directory exactly these extended attributes; labels of the security system that are not named stay.
    ///
    /// # Errors
    /// Fails when they cannot be set.
    fn set_xattrs(&self, path: &Path, xattrs: &[Xattr]) -> Result<(), FsError>;
}
