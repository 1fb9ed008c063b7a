//! What the kernel says of an entry in, [`Stat`] out.

use std::io;

use rustix::fs::{FileType, Timespec};

use super::{FileKind, Stat};

/// Turns the kernel's answer into ours.
pub(crate) fn convert_stat(stat: &rustix::fs::Stat) -> io::Result<Stat> {
    let kind = convert_kind(FileType::from_raw_mode(stat.st_mode))
        .ok_or_else(|| io::Error::new(io::ErrorKind::Unsupported, "nobody knows what kind of entry it is"))?;
    let is_device = matches!(kind, FileKind::Char | FileKind::Block);
    let device =
        if is_device { (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev)) } else { (0, 0) };
    Ok(Stat {
        kind,
        mode: stat.st_mode & 0o7777,
        uid: stat.st_uid,
        gid: stat.st_gid,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        mtime: i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec),
        atime: i128::from(stat.st_atime) * 1_000_000_000 + i128::from(stat.st_atime_nsec),
        id: (stat.st_dev, stat.st_ino),
        device,
    })
}

/// Turns the kernel's word for a kind into ours.
pub(crate) fn convert_kind(kind: FileType) -> Option<FileKind> {
    Some(match kind {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Dir,
        FileType::Symlink => FileKind::Link,
        FileType::Fifo => FileKind::Fifo,
        FileType::CharacterDevice => FileKind::Char,
        FileType::BlockDevice => FileKind::Block,
        FileType::Socket => FileKind::Socket,
        FileType::Unknown => return None,
    })
}

/// The kernel's word for a time; not every number is one.
pub(crate) fn timespec(nanoseconds: i128) -> io::Result<Timespec> {
    let error = |_| io::Error::new(io::ErrorKind::InvalidInput, "the time is out of range");
    let seconds = i64::try_from(nanoseconds.div_euclid(1_000_000_000)).map_err(error)?;
    let rest = i64::try_from(nanoseconds.rem_euclid(1_000_000_000)).map_err(error)?;
    Ok(Timespec { tv_sec: seconds, tv_nsec: rest })
}
