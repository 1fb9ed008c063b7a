//! An entry on the disk in, what is needed to make it again out.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags};

use super::frame::MAX_INLINE;
use super::journal::Journal;
use super::record::{Content, Dress, Entry, Times, Trace};
use crate::fs::stat::stat_of;
use crate::fs::{Kind, Stat, flags, xattr};

/// Attributes that a file has by the way its file system keeps it; nobody sets them.
const INHERENT: [char; 5] = ['E', 'I', 'N', 'V', 'e'];

/// What stands at a name, complete; with it the content that goes into the journal itself.
pub(crate) fn entry(
    journal: &Journal,
    dir: BorrowedFd<'_>,
    name: &OsStr,
    stat: Option<&Stat>,
) -> io::Result<(Entry, Vec<u8>)> {
    let Some(stat) = stat else { return Ok((Entry::Absent, Vec::new())) };
    let dress = Dress::from(stat);
    let entry = match stat.kind {
        Kind::File => return file(journal, open(dir, name)?),
        Kind::Link => Entry::Link { target: target(dir, name)?, dress },
        Kind::Dir => Entry::Dir { dress },
        kind => Entry::Node { kind, device: stat.device, dress },
    };
    Ok((entry, Vec::new()))
}

fn file(journal: &Journal, file: OwnedFd) -> io::Result<(Entry, Vec<u8>)> {
    let stat = stat_of(&rustix::fs::fstat(&file)?)?;
    let xattrs = xattr::list(file.as_fd())?;
    let attrs = attrs(&file);
    let mut file = File::from(file);
    let mut body = Vec::with_capacity(usize::try_from(stat.size.min(MAX_INLINE)).unwrap_or(0) + 1);
    file.by_ref().take(MAX_INLINE + 1).read_to_end(&mut body)?;
    let (content, digest, size) = if body.len() as u64 > MAX_INLINE {
        let kept = journal.keep(&mut body.chain(file))?;
        body = Vec::new();
        kept
    } else {
        (Content::Inline, blake3::hash(&body), body.len() as u64)
    };
    let (dress, times) = (Dress::from(&stat), Times::from(&stat));
    let digest = digest.to_hex().to_string();
    Ok((Entry::File { content, digest, size, dress, times, xattrs, attrs }, body))
}

fn attrs(file: &OwnedFd) -> Option<String> {
    let mut letters = flags::letters(rustix::fs::ioctl_getflags(file).ok()?);
    letters.retain(|letter| !INHERENT.contains(&letter));
    Some(letters).filter(|letters| !letters.is_empty())
}

/// What stands at a name, as far as one can see later whether it still does.
pub(crate) fn trace(dir: BorrowedFd<'_>, name: &OsStr, stat: &Stat) -> io::Result<Trace> {
    let dress = Dress::from(stat);
    Ok(match stat.kind {
        Kind::File => {
            let mut hasher = blake3::Hasher::new();
            let size = io::copy(&mut File::from(open(dir, name)?), &mut hasher)?;
            Trace::File { digest: hasher.finalize().to_hex().to_string(), size, dress }
        }
        Kind::Link => Trace::Link { target: target(dir, name)? },
        Kind::Dir => Trace::Dir { dress },
        kind => Trace::Node { kind, device: stat.device },
    })
}

fn open(dir: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    Ok(rustix::fs::openat(dir, name, flags, Mode::empty())?)
}

fn target(dir: BorrowedFd<'_>, name: &OsStr) -> io::Result<PathBuf> {
    let target = rustix::fs::readlinkat(dir, name, Vec::new())?;
    Ok(PathBuf::from(std::ffi::OsString::from_vec(target.into_bytes())))
}
