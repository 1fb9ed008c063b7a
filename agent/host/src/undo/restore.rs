//! A noted entry in, the same entry in its place out.

use std::ffi::OsString;
use std::path::Path;

use super::journal_reader::JournalReader;
use super::record::{ChangeNote, FileTimes, SavedEntry};
use super::revert::UndoOutcome;
use crate::fs::{FileKind, FileMeta, FileSystem, FsError};

/// Puts a noted entry back, in place of what is there.
pub(crate) fn restore_entry(
    fs: &dyn FileSystem,
    notes: &JournalReader,
    note: &ChangeNote,
    path: &Path,
    entry: &SavedEntry,
) -> Result<UndoOutcome, FsError> {
    let now = fs.lstat(path)?.map(|now| now.kind);
    if now == Some(FileKind::Dir)
        && !matches!(entry, SavedEntry::Dir { .. })
        && !fs.read_dir(path)?.is_empty()
    {
        return Ok(UndoOutcome::LeftAlone("it holds what the run did not make".to_owned()));
    }
    // Files and links are replaced in one go; anything else has to go first.
    let is_replaced = match entry {
        SavedEntry::File { .. } | SavedEntry::Link { .. } => {
            matches!(now, Some(FileKind::File | FileKind::Link))
        }
        SavedEntry::Dir { .. } => now == Some(FileKind::Dir),
        SavedEntry::Absent | SavedEntry::Node { .. } => false,
    };
    if let SavedEntry::Node { kind: FileKind::Socket, .. } = entry {
        return Ok(UndoOutcome::Irreversible(format!("{}: a socket cannot be made again", path.display())));
    }
    // Read before anything is taken away.
    let content = notes.saved_content(note, entry)?;
    if now.is_some() && !is_replaced {
        fs.remove(path)?;
    }
    match entry {
        SavedEntry::Absent => return Ok(UndoOutcome::Removed),
        SavedEntry::File { dress, times, xattrs, attrs, .. } => {
            fs.write(path, &content, (*dress).into())?;
            restore_attributes(fs, path, xattrs, attrs.as_deref(), times)?;
        }
        SavedEntry::Link { target, dress } => {
            fs.symlink(path, target, FileMeta { mode: None, ..(*dress).into() })?;
        }
        SavedEntry::Dir { dress } if is_replaced => fs.set_meta(path, (*dress).into(), false)?,
        SavedEntry::Dir { dress } => fs.make_dir(path, (*dress).into())?,
        SavedEntry::Node { kind, device, dress } => fs.make_node(path, *kind, *device, (*dress).into())?,
    }
    Ok(UndoOutcome::Restored)
}

/// What comes after the content; the time last, so that one sees whether it came to an end.
pub(crate) fn restore_attributes(
    fs: &dyn FileSystem,
    path: &Path,
    xattrs: &[(OsString, Vec<u8>)],
    attrs: Option<&str>,
    times: &FileTimes,
) -> Result<(), FsError> {
    if fs.xattrs(path)? != xattrs {
        fs.set_xattrs(path, xattrs)?;
    }
    fs.set_times(path, times.atime, times.mtime)?;
    // Some attributes forbid any further change.
    attrs.map_or(Ok(()), |attrs| fs.set_attrs(path, attrs, ""))
}
