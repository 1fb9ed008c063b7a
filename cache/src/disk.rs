//! Every disk operation of the cache.
//!
//! Law: directories are 0700 and files 0600 or 0700, every error has a path, and everything that must survive a
//! power failure is synced before it gets its name. Each operation passes a named point where a test can make it
//! fail or crash (held by `everything_is_readable_only_by_root`, `every_write_may_fail`).

#![expect(clippy::disallowed_methods, reason = "owns the renames of the cache")]

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use zagent_config::atomic_file::{AtomicFile, WriteStep};
use zagent_config::durable;

use crate::CacheError;

/// Does not open through a symlink, and does not wait for the other end of a pipe.
const NOFOLLOW_NONBLOCK: i32 =
    (rustix::fs::OFlags::NOFOLLOW.bits() | rustix::fs::OFlags::NONBLOCK.bits()).cast_signed();

/// A point where a test can crash the process or simulate a full disk.
#[cfg(feature = "failpoints")]
pub(crate) fn failpoint(name: &str) -> io::Result<()> {
    match fail::eval(name, Option::unwrap_or_default) {
        None => Ok(()),
        Some(what) if what == "abort" => std::process::abort(),
        Some(_) => Err(io::Error::from_raw_os_error(rustix::io::Errno::NOSPC.raw_os_error())),
    }
}

#[cfg(not(feature = "failpoints"))]
#[expect(clippy::unnecessary_wraps, reason = "with the feature it fails")]
pub(crate) const fn failpoint(_: &str) -> io::Result<()> {
    Ok(())
}

/// Turns a system error into an error with the operation and the path.
pub(crate) fn io_error(act: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CacheError {
    let path = path.to_owned();
    move |source| CacheError::Io { act, path, source }
}

pub(crate) fn make_dir(path: &Path) -> Result<(), CacheError> {
    failpoint("disk::dir")
        .and_then(|()| DirBuilder::new().mode(0o700).create(path))
        .map_err(io_error("create the directory", path))
}

/// Creates a directory and its parents if they do not exist; their names are durable when it returns.
pub(crate) fn make_dirs(path: &Path) -> Result<(), CacheError> {
    if path.is_dir() {
        return Ok(());
    }
    failpoint("disk::dir")
        .and_then(|()| durable::create_dirs(path, 0o700))
        .map_err(io_error("create the directory", path))
}

/// Creates a file that does not exist yet.
pub(crate) fn create_new(path: &Path, mode: u32) -> Result<File, CacheError> {
    failpoint("disk::file")
        .and_then(|()| OpenOptions::new().write(true).create_new(true).mode(mode).open(path))
        .map_err(io_error("write", path))
}

pub(crate) fn make_link(target: &str, path: &Path) -> Result<(), CacheError> {
    failpoint("disk::link")
        .and_then(|()| std::os::unix::fs::symlink(target, path))
        .map_err(io_error("create the symlink", path))
}

/// Renames a path in one step; the caller syncs both parent directories.
pub(crate) fn rename(from: &Path, to: &Path) -> Result<(), CacheError> {
    failpoint("disk::rename").and_then(|()| fs::rename(from, to)).map_err(io_error("rename to", to))
}

/// Syncs the names in a directory.
pub(crate) fn sync_dir(path: &Path) -> Result<(), CacheError> {
    failpoint("disk::sync")
        .and_then(|()| durable::sync_dir(path))
        .map_err(io_error("sync the directory", path))
}

/// Syncs the content of a file.
pub(crate) fn sync_file(path: &Path) -> Result<(), CacheError> {
    failpoint("disk::sync")
        .and_then(|()| durable::sync_file(&open_nofollow(path)?.0, path))
        .map_err(io_error("sync", path))
}

/// Syncs everything below a directory.
pub(crate) fn sync_below(path: &Path) -> Result<(), CacheError> {
    failpoint("disk::sync").and_then(|()| durable::sync_below(path)).map_err(io_error("sync", path))
}

/// Replaces a file atomically; durable when it returns.
pub(crate) fn write_atomic(path: &Path, bytes: &[u8]) -> Result<(), CacheError> {
    let dir = path.parent().unwrap_or(Path::new("/"));
    make_dirs(dir)?;
    let mut point = |step| match step {
        WriteStep::Create => failpoint("disk::file"),
        WriteStep::Write => failpoint("disk::write"),
        WriteStep::Sync | WriteStep::SyncDir => failpoint("disk::sync"),
        WriteStep::Rename => failpoint("disk::rename"),
    };
    let written = AtomicFile::durable(0o600).single_writer().write_with(path, bytes, &mut point);
    written.map_err(io_error("write", path))
}

/// Removes a file; a missing file is not an error.
pub(crate) fn remove_file(path: &Path) -> Result<(), CacheError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Removes a directory and everything below it, or a file; symlinks are removed, not followed.
pub(crate) fn remove_all(path: &Path) -> Result<(), CacheError> {
    let gone = match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match gone {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error("remove", path)(error)),
        _ => Ok(()),
    }
}

/// The names in a directory, sorted; empty if it does not exist.
pub(crate) fn list_names(dir: &Path) -> Result<Vec<String>, CacheError> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(io_error("read the directory", dir)(error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(io_error("read the directory", dir))?;
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    names.sort_unstable();
    Ok(names)
}

/// Opens a regular file for reading: not through a symlink, not a pipe or a device.
pub(crate) fn open_nofollow(path: &Path) -> io::Result<(File, fs::Metadata)> {
    let file = OpenOptions::new().read(true).custom_flags(NOFOLLOW_NONBLOCK).open(path)?;
    let meta = file.metadata()?;
    if meta.is_file() { Ok((file, meta)) } else { Err(io::Error::other("not a regular file")) }
}

/// The content of a regular file of at most `limit` bytes; `None` if it does not exist.
pub(crate) fn read(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, CacheError> {
    let read = || {
        let (file, _) = open_nofollow(path)?;
        let mut bytes = Vec::new();
        file.take(limit + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > limit { Err(io::Error::other("too large")) } else { Ok(bytes) }
    };
    match read() {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io_error("read", path)(error)),
    }
}
