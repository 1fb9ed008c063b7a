//! Looks at the disk: as few system calls as there can be.

use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, OFlags};
use rustix::io::Errno;

use super::stat::{convert_kind, convert_stat};
use super::{FileKind, FsRoot, Stat};

/// Reading never waits for a pipe's other end and never takes a terminal.
const READ_FLAGS: OFlags = OFlags::CLOEXEC.union(OFlags::NOCTTY).union(OFlags::NONBLOCK);

const CHUNK: usize = 128 * 1024;

thread_local! {
    static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// What stands at a path; none when nothing does.
pub(crate) fn stat(root: &FsRoot, path: &Path, flags: AtFlags) -> io::Result<Option<Stat>> {
    match root.stat(path, flags) {
        Ok(stat) => Ok(Some(convert_stat(&stat)?)),
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// What stands where a path leads, and whether it is a file with exactly this content.
pub(crate) fn compare(root: &FsRoot, path: &Path, content: &[u8]) -> io::Result<Option<(Stat, bool)>> {
    let file = match root.open_path(path, READ_FLAGS) {
        Ok(file) => file,
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        // A socket or a device without a driver; neither has content to compare.
        Err(Errno::NXIO | Errno::NODEV) => {
            return Ok(stat(root, path, AtFlags::empty())?.map(|stat| (stat, false)));
        }
        Err(error) => return Err(error.into()),
    };
    let stat = convert_stat(&rustix::fs::fstat(&file)?)?;
    let is_same =
        stat.kind == FileKind::File && stat.size == content.len() as u64 && has_content(&file, content)?;
    Ok(Some((stat, is_same)))
}

fn has_content(file: &OwnedFd, content: &[u8]) -> io::Result<bool> {
    BUFFER.with_borrow_mut(|buffer| {
        buffer.resize(CHUNK, 0);
        let mut left = content;
        while !left.is_empty() {
            let count = rustix::io::retry_on_intr(|| rustix::io::read(file, &mut buffer[..]))?;
            if count == 0 || count > left.len() || buffer[..count] != left[..count] {
                return Ok(false);
            }
            left = &left[count..];
        }
        Ok(true)
    })
}

/// The content of a file, links followed.
pub(crate) fn read(root: &FsRoot, path: &Path) -> io::Result<Vec<u8>> {
    read_all(&root.open_path(path, READ_FLAGS)?)
}

/// The content of a file, a piece at a time.
pub(crate) fn read_chunks(root: &FsRoot, path: &Path, take: &mut dyn FnMut(&[u8])) -> io::Result<()> {
    let file = root.open_path(path, READ_FLAGS)?;
    regular_file_size(&file)?;
    let mut piece = vec![0; CHUNK];
    loop {
        match rustix::io::retry_on_intr(|| rustix::io::read(&file, &mut piece[..]))? {
            0 => return Ok(()),
            count => take(&piece[..count]),
        }
    }
}

/// Refuses what is no file, and tells how long it is.
fn regular_file_size(file: &OwnedFd) -> io::Result<u64> {
    let stat = convert_stat(&rustix::fs::fstat(file)?)?;
    match stat.kind {
        FileKind::Dir => Err(Errno::ISDIR.into()),
        FileKind::File => Ok(stat.size),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
    }
}

/// The whole content of an open file.
pub(crate) fn read_all(file: &OwnedFd) -> io::Result<Vec<u8>> {
    let size = regular_file_size(file)?;
    // One byte more, so that the end shows without growing.
    let mut content = Vec::with_capacity(usize::try_from(size).unwrap_or(0).saturating_add(1));
    loop {
        if content.len() == content.capacity() {
            content.reserve(CHUNK);
        }
        let spare = rustix::buffer::spare_capacity(&mut content);
        match rustix::io::read(file, spare) {
            Ok(0) => return Ok(content),
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Names in a directory and what each is, sorted.
pub(crate) fn read_dir(root: &FsRoot, path: &Path) -> io::Result<Vec<(OsString, FileKind)>> {
    let flags = READ_FLAGS | OFlags::DIRECTORY;
    read_dir_entries(root.open_path(path, flags)?)
}

/// Names in an open directory and what each is, sorted.
pub(crate) fn read_dir_entries(dir: OwnedFd) -> io::Result<Vec<(OsString, FileKind)>> {
    let mut found = Vec::new();
    let mut unknown = Vec::new();
    let mut listing = rustix::fs::Dir::new(dir)?;
    while let Some(entry) = listing.read() {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        match convert_kind(entry.file_type()) {
            Some(kind) => found.push((name.to_owned(), kind)),
            None => unknown.push(name.to_owned()),
        }
    }
    // Not every file system says what an entry is.
    for name in unknown {
        match rustix::fs::statat(listing.fd()?, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => found.push((name, convert_stat(&stat)?.kind)),
            Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
    }
    found.sort_unstable();
    Ok(found)
}
