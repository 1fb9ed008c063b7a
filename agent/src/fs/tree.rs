//! A directory tree walked from its leaves to its root, by descriptor, whatever its depth.
//!
//! Law: links are entries, never ways; what is moved away while it is walked ends the walk, it does not lead elsewhere.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::place::Place;
use super::stat::stat_of;
use super::{Kind, Stat};

/// One entry of a tree.
pub(crate) struct Leaf<'a> {
    /// The directory it stands in.
    pub(crate) dir: BorrowedFd<'a>,
    /// Its name there.
    pub(crate) name: &'a OsStr,
    /// Its whole path.
    pub(crate) path: &'a Path,
    /// What it is.
    pub(crate) stat: Stat,
}

struct Level {
    name: OsString,
    stat: Stat,
    /// What is in it and was not yet visited, last first.
    left: Vec<OsString>,
}

/// Calls `visit` for everything below a directory and for the directory itself, each after all that is in it.
pub(crate) fn visit(
    place: &Place,
    path: &Path,
    visit: &mut dyn FnMut(&Leaf<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let top = stat_of(&rustix::fs::statat(&place.dir, &place.name, AtFlags::SYMLINK_NOFOLLOW)?)?;
    let mut path = PathBuf::from(path);
    if top.kind != Kind::Dir {
        return visit(&Leaf { dir: place.dir.as_fd(), name: &place.name, path: &path, stat: top });
    }
    // Only the directory at hand is open: a tree may be deeper than there are descriptors.
    let (mut here, first) = enter(place.dir.as_fd(), &place.name, &top)?;
    let mut levels = vec![first];
    while let Some(level) = levels.last_mut() {
        if let Some(name) = level.left.pop() {
            let raw = match rustix::fs::statat(&here, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => continue,
                raw => raw?,
            };
            let stat = stat_of(&raw)?;
            path.push(&name);
            if stat.kind != Kind::Dir {
                visit(&Leaf { dir: here.as_fd(), name: &name, path: &path, stat })?;
                path.pop();
                continue;
            }
            if stat.id.0 != top.id.0 {
                let text = format!("`{}` is on another file system", path.display());
                return Err(io::Error::new(io::ErrorKind::CrossesDevices, text));
            }
            let (dir, level) = enter(here.as_fd(), &name, &stat)?;
            here = dir;
            levels.push(level);
            continue;
        }
        let Some(Level { name, stat, .. }) = levels.pop() else { break };
        match levels.last() {
            Some(above) => {
                here = leave(&here, &above.stat)?;
                visit(&Leaf { dir: here.as_fd(), name: &name, path: &path, stat })?;
                path.pop();
            }
            None => visit(&Leaf { dir: place.dir.as_fd(), name: &name, path: &path, stat })?,
        }
    }
    Ok(())
}

fn enter(dir: BorrowedFd<'_>, name: &OsStr, stat: &Stat) -> io::Result<(OwnedFd, Level)> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let dir = rustix::fs::openat(dir, name, flags, Mode::empty())?;
    expect(&dir, stat)?;
    let mut left: Vec<_> =
        super::look::entries(dir.try_clone()?)?.into_iter().map(|(name, _)| name).collect();
    left.reverse();
    Ok((dir, Level { name: name.to_owned(), stat: *stat, left }))
}

fn leave(dir: &OwnedFd, above: &Stat) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::PATH;
    let dir = rustix::fs::openat(dir, "..", flags, Mode::empty())?;
    expect(&dir, above)?;
    Ok(dir)
}

fn expect(dir: &OwnedFd, stat: &Stat) -> io::Result<()> {
    if stat_of(&rustix::fs::fstat(dir)?)?.id == stat.id {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, "somebody moved a directory while it was walked"))
}
