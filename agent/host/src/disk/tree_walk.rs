//! A directory tree walked from its leaves to its root, by descriptor, whatever its depth.
//!
//! Law: links are entries, never ways; what is moved away while it is walked ends the walk, it does not lead
//! elsewhere (held by `a_tree_is_removed_and_links_in_it_are_not_followed`,
//! `a_tree_deeper_than_any_path_is_removed`).

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::fs::path_at::PathAt;
use crate::fs::stat::convert_stat;
use crate::fs::{FileKind, Stat, read_at};

/// One entry of a tree.
pub(crate) struct TreeEntry<'a> {
    /// The directory it stands in.
    pub dir: BorrowedFd<'a>,
    /// Its name there.
    pub name: &'a OsStr,
    /// Its whole path.
    pub path: &'a Path,
    /// What it is.
    pub stat: Stat,
}

struct TreeLevel {
    name: OsString,
    stat: Stat,
    /// What is in it and was not yet visited, last first.
    left: Vec<OsString>,
}

/// Calls `visit` for everything below a directory and for the directory itself, each after all that is in it.
pub(crate) fn visit_tree(
    place: &PathAt,
    path: &Path,
    visit: &mut dyn FnMut(&TreeEntry<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let top = convert_stat(&rustix::fs::statat(&place.dir, &place.name, AtFlags::SYMLINK_NOFOLLOW)?)?;
    let mut path = PathBuf::from(path);
    if top.kind != FileKind::Dir {
        return visit(&TreeEntry { dir: place.dir.as_fd(), name: &place.name, path: &path, stat: top });
    }
    // Only the directory at hand is open: a tree may be deeper than there are descriptors.
    let (mut here, first) = enter_dir(place.dir.as_fd(), &place.name, &top)?;
    let mut levels = vec![first];
    while let Some(level) = levels.last_mut() {
        if let Some(name) = level.left.pop() {
            let raw = match rustix::fs::statat(&here, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => continue,
                raw => raw?,
            };
            let stat = convert_stat(&raw)?;
            path.push(&name);
            if stat.kind != FileKind::Dir {
                visit(&TreeEntry { dir: here.as_fd(), name: &name, path: &path, stat })?;
                path.pop();
                continue;
            }
            if stat.id.0 != top.id.0 {
                let text = format!("`{}` is on another file system", path.display());
                return Err(io::Error::new(io::ErrorKind::CrossesDevices, text));
            }
            let (dir, level) = enter_dir(here.as_fd(), &name, &stat)?;
            here = dir;
            levels.push(level);
            continue;
        }
        let Some(TreeLevel { name, stat, .. }) = levels.pop() else { break };
        match levels.last() {
            Some(above) => {
                here = leave_dir(&here, &above.stat)?;
                visit(&TreeEntry { dir: here.as_fd(), name: &name, path: &path, stat })?;
                path.pop();
            }
            None => visit(&TreeEntry { dir: place.dir.as_fd(), name: &name, path: &path, stat })?,
        }
    }
    Ok(())
}

fn enter_dir(dir: BorrowedFd<'_>, name: &OsStr, stat: &Stat) -> io::Result<(OwnedFd, TreeLevel)> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let dir = rustix::fs::openat(dir, name, flags, Mode::empty())?;
    expect_same_dir(&dir, stat)?;
    let mut left: Vec<_> =
        read_at::read_dir_entries(dir.try_clone()?)?.into_iter().map(|(name, _)| name).collect();
    left.reverse();
    Ok((dir, TreeLevel { name: name.to_owned(), stat: *stat, left }))
}

fn leave_dir(dir: &OwnedFd, above: &Stat) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::PATH;
    let dir = rustix::fs::openat(dir, "..", flags, Mode::empty())?;
    expect_same_dir(&dir, above)?;
    Ok(dir)
}

fn expect_same_dir(dir: &OwnedFd, stat: &Stat) -> io::Result<()> {
    if convert_stat(&rustix::fs::fstat(dir)?)?.id == stat.id {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, "somebody moved a directory while it was walked"))
}
