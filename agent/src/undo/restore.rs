//! A noted entry in, the same entry in its place out.

use std::ffi::OsString;
use std::path::Path;

use super::notes::Notes;
use super::record::{Entry, Note, Times};
use super::revert::Verdict;
use crate::fs::{FileSystem, FsError, Kind, Meta};

/// Puts a noted entry back, in place of what is there.
pub(super) fn restore(
    fs: &dyn FileSystem,
    notes: &Notes,
    note: &Note,
    path: &Path,
    entry: &Entry,
) -> Result<Verdict, FsError> {
    let now = fs.lstat(path)?.map(|now| now.kind);
    if now == Some(Kind::Dir) && !matches!(entry, Entry::Dir { .. }) && !fs.read_dir(path)?.is_empty() {
        return Ok(Verdict::Kept("it holds what the run did not make".to_owned()));
    }
    // Files and links are replaced in one go; anything else has to go first.
    let is_replaced = match entry {
        Entry::File { .. } | Entry::Link { .. } => matches!(now, Some(Kind::File | Kind::Link)),
        Entry::Dir { .. } => now == Some(Kind::Dir),
        Entry::Absent | Entry::Node { .. } => false,
    };
    if let Entry::Node { kind: Kind::Socket, .. } = entry {
        return Ok(Verdict::Irreversible(format!("{}: a socket cannot be made again", path.display())));
    }
    // Read before anything is taken away.
    let content = notes.content(note, entry)?;
    if now.is_some() && !is_replaced {
        fs.remove(path)?;
    }
    match entry {
        Entry::Absent => return Ok(Verdict::Removed),
        Entry::File { dress, times, xattrs, attrs, .. } => {
            fs.write(path, &content, (*dress).into())?;
            finish(fs, path, xattrs, attrs.as_deref(), times)?;
        }
        Entry::Link { target, dress } => fs.symlink(path, target, Meta { mode: None, ..(*dress).into() })?,
        Entry::Dir { dress } if is_replaced => fs.set_meta(path, (*dress).into(), false)?,
        Entry::Dir { dress } => fs.make_dir(path, (*dress).into())?,
        Entry::Node { kind, device, dress } => fs.make_node(path, *kind, *device, (*dress).into())?,
    }
    Ok(Verdict::Restored)
}

/// What comes after the content; the time last, so that one sees whether it came to an end.
pub(super) fn finish(
    fs: &dyn FileSystem,
    path: &Path,
    xattrs: &[(OsString, Vec<u8>)],
    attrs: Option<&str>,
    times: &Times,
) -> Result<(), FsError> {
    if fs.xattrs(path)? != xattrs {
        fs.set_xattrs(path, xattrs)?;
    }
    fs.set_times(path, times.atime, times.mtime)?;
    // Some attributes forbid any further change.
    attrs.map_or(Ok(()), |attrs| fs.set_attrs(path, attrs, ""))
}
