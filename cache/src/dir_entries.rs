//! Paths in, grouped by the directory that contains them; and an open directory in, its names and files by descriptor.
//!
//! Law: a name is looked up in an open directory and never followed when it is a symlink, so a path costs one component
//! and leads nowhere else (held by `every_modification_is_detected`, `a_spare_tree_is_believed_in_nothing`).

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, Stat, openat, statat};

/// How a directory is opened: for its names and what is below, and only if it is one itself.
const OPEN_DIR: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Entries by directory; the root is the empty path.
pub(crate) struct EntriesByDir<'p, T>(BTreeMap<&'p str, Vec<(&'p str, T)>>);

impl<'p, T> EntriesByDir<'p, T> {
    /// Groups paths; each directory keeps their order.
    pub(crate) fn group(entries: impl Iterator<Item = (&'p str, T)>) -> Self {
        let mut all: BTreeMap<&str, Vec<_>> = BTreeMap::new();
        for (path, entry) in entries {
            let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
            all.entry(dir).or_default().push((name, entry));
        }
        Self(all)
    }

    /// The names and entries of one directory.
    pub(crate) fn children(&self, dir: &str) -> &[(&'p str, T)] {
        self.0.get(dir).map_or(&[], Vec::as_slice)
    }
}

/// Opens a directory, not through a symlink.
pub(crate) fn open_dir(path: &Path) -> io::Result<OwnedFd> {
    Ok(openat(CWD, path, OPEN_DIR, Mode::empty())?)
}

/// Opens a directory in an open one.
pub(crate) fn open_dir_at(dir: BorrowedFd<'_>, name: &str) -> io::Result<OwnedFd> {
    Ok(openat(dir, name, OPEN_DIR, Mode::empty())?)
}

/// What a name in an open directory is.
pub(crate) fn stat_at(dir: BorrowedFd<'_>, name: &str) -> io::Result<Stat> {
    Ok(statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Gives every name in an open directory, its type and the number of its inode.
pub(crate) fn each_name(dir: impl AsFd, mut found: impl FnMut(&CStr, FileType, u64)) -> io::Result<()> {
    let mut buffer = [const { MaybeUninit::uninit() }; 16 << 10];
    let mut entries = RawDir::new(dir, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            found(name, entry.file_type(), entry.ino());
        }
    }
    Ok(())
}
