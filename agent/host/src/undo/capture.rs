//! An entry on the disk in, what is needed to make it again out.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags};

use super::frame::MAX_INLINE;
use super::journal::UndoJournal;
use super::record::{ExpectedEntry, FileTimes, OwnerMode, SavedContent, SavedEntry};
use crate::fs::stat::convert_stat;
use crate::fs::{FileKind, Stat, flags, xattr};

/// Attributes that a file has by the way its file system keeps it; nobody sets them.
const INHERENT_ATTRS: [char; 5] = ['E', 'I', 'N', 'V', 'e'];

/// What stands at a name, complete; with it the content that goes into the journal itself.
pub(crate) fn capture_entry(
    journal: &UndoJournal,
    dir: BorrowedFd<'_>,
    name: &OsStr,
    stat: Option<&Stat>,
) -> io::Result<(SavedEntry, Vec<u8>)> {
    let Some(stat) = stat else { return Ok((SavedEntry::Absent, Vec::new())) };
    let dress = OwnerMode::from(stat);
    let entry = match stat.kind {
        FileKind::File => return capture_file(journal, open_at(dir, name)?),
        FileKind::Link => SavedEntry::Link { target: read_target(dir, name)?, dress },
        FileKind::Dir => SavedEntry::Dir { dress },
        kind => SavedEntry::Node { kind, device: stat.device, dress },
    };
    Ok((entry, Vec::new()))
}

fn capture_file(journal: &UndoJournal, file: OwnedFd) -> io::Result<(SavedEntry, Vec<u8>)> {
    let stat = convert_stat(&rustix::fs::fstat(&file)?)?;
    let xattrs = xattr::list(file.as_fd())?;
    let attrs = settable_attrs(&file);
    let mut file = File::from(file);
    let mut body = Vec::with_capacity(usize::try_from(stat.size.min(MAX_INLINE)).unwrap_or(0) + 1);
    file.by_ref().take(MAX_INLINE + 1).read_to_end(&mut body)?;
    let (content, digest, size) = if body.len() as u64 > MAX_INLINE {
        let kept = journal.store_blob(&mut body.chain(file))?;
        body = Vec::new();
        kept
    } else {
        (SavedContent::Inline, blake3::hash(&body), body.len() as u64)
    };
    let (dress, times) = (OwnerMode::from(&stat), FileTimes::from(&stat));
    let digest = digest.to_hex().to_string();
    Ok((SavedEntry::File { content, digest, size, dress, times, xattrs, attrs }, body))
}

fn settable_attrs(file: &OwnedFd) -> Option<String> {
    let mut letters = flags::letters(rustix::fs::ioctl_getflags(file).ok()?);
    letters.retain(|letter| !INHERENT_ATTRS.contains(&letter));
    Some(letters).filter(|letters| !letters.is_empty())
}

/// What stands at a name, as far as one can see later whether it still does.
pub(crate) fn capture_expected(dir: BorrowedFd<'_>, name: &OsStr, stat: &Stat) -> io::Result<ExpectedEntry> {
    let dress = OwnerMode::from(stat);
    Ok(match stat.kind {
        FileKind::File => {
            let mut hasher = blake3::Hasher::new();
            let size = io::copy(&mut File::from(open_at(dir, name)?), &mut hasher)?;
            ExpectedEntry::File { digest: hasher.finalize().to_hex().to_string(), size, dress }
        }
        FileKind::Link => ExpectedEntry::Link { target: read_target(dir, name)? },
        FileKind::Dir => ExpectedEntry::Dir { dress },
        kind => ExpectedEntry::Node { kind, device: stat.device },
    })
}

fn open_at(dir: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    Ok(rustix::fs::openat(dir, name, flags, Mode::empty())?)
}

fn read_target(dir: BorrowedFd<'_>, name: &OsStr) -> io::Result<PathBuf> {
    let target = rustix::fs::readlinkat(dir, name, Vec::new())?;
    Ok(PathBuf::from(std::ffi::OsString::from_vec(target.into_bytes())))
}
