//! New entries: made under another name beside their place, complete with owner and mode, then moved there.
//!
//! Law: nobody sees content under an owner or mode that it will not have, and a name is either as before or as
//! wanted (held by `a_write_that_fails_leaves_all_as_it_was`, `new_entries_obey_the_mask_of_the_process`).
//!
//! Why not `zagent_config::atomic_file`: a file of a host keeps its owner and attributes, the name of what is made beside it
//! is noted for undo before, everything is relative to a descriptor, and directories are synced once for many changes.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dev, FileType, Gid, Mode, OFlags, RenameFlags, SeekFrom, Uid};
use rustix::io::Errno;

use super::path_at::{PathAt, fd_path};
use super::stat::convert_stat;
use super::umask::{UmaskGuard, umask};
use super::xattr::{self, Xattr};
use super::{FileKind, FileMeta, Stat};

const PREFIX: &str = ".zagent-";
const SUFFIX: &str = ".new";
const DIGITS: usize = 24;

/// A name that nobody can guess, for an entry that is not yet where it belongs.
pub(crate) fn temp_name() -> io::Result<OsString> {
    let mut random = [0_u8; DIGITS / 2];
    let mut filled = 0;
    while filled < random.len() {
        let flags = rustix::rand::GetRandomFlags::empty();
        filled += rustix::io::retry_on_intr(|| rustix::rand::getrandom(&mut random[filled..], flags))?;
    }
    let mut name = String::with_capacity(PREFIX.len() + DIGITS + SUFFIX.len());
    name.push_str(PREFIX);
    for byte in random {
        name.push(char::from_digit(u32::from(byte >> 4), 16).unwrap_or('0'));
        name.push(char::from_digit(u32::from(byte & 15), 16).unwrap_or('0'));
    }
    name.push_str(SUFFIX);
    Ok(OsString::from(name))
}

/// True for a name that [`temp_name`] makes.
pub(crate) fn is_temp_name(name: &OsStr) -> bool {
    let inner =
        name.as_bytes().strip_prefix(PREFIX.as_bytes()).and_then(|rest| rest.strip_suffix(SUFFIX.as_bytes()));
    inner.is_some_and(|hex| hex.len() == DIGITS && hex.iter().all(u8::is_ascii_hexdigit))
}

/// A made entry that is not yet in its place; it is removed again unless it gets there.
#[derive(Debug)]
pub(crate) struct TempEntry<'a> {
    dir: BorrowedFd<'a>,
    name: &'a OsStr,
    is_dir: bool,
    is_placed: bool,
}

impl<'a> TempEntry<'a> {
    fn new(place: &'a PathAt, name: &'a OsStr) -> Self {
        Self { dir: place.dir.as_fd(), name, is_dir: false, is_placed: false }
    }

    /// Moves it to its place. Where nothing stood, nothing that came meanwhile is overwritten.
    pub(crate) fn rename_into_place(mut self, place: &PathAt, is_new: bool) -> io::Result<()> {
        let flags = if is_new { RenameFlags::NOREPLACE } else { RenameFlags::empty() };
        match rustix::fs::renameat_with(self.dir, self.name, self.dir, &place.name, flags) {
            // Not every file system can promise it.
            Err(Errno::INVAL | Errno::NOSYS) if is_new => {
                if place.stat()?.is_some() {
                    return Err(Errno::EXIST.into());
                }
                rustix::fs::renameat(self.dir, self.name, self.dir, &place.name)?;
            }
            answer => answer?,
        }
        self.is_placed = true;
        Ok(())
    }
}

impl Drop for TempEntry<'_> {
    fn drop(&mut self) {
        if !self.is_placed {
            // What remains has a name by which the next start finds and removes it.
            let flags = if self.is_dir { AtFlags::REMOVEDIR } else { AtFlags::empty() };
            let _ = rustix::fs::unlinkat(self.dir, self.name, flags);
        }
    }
}

/// What a new file gets.
#[derive(Debug)]
pub(crate) struct NewFileMeta {
    pub mode: u32,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    /// None for a file that replaces nothing.
    pub xattrs: Option<Vec<Xattr>>,
}

/// Makes a file under another name, durable with its content, owner and mode.
pub(crate) fn create_temp_file<'a>(
    place: &'a PathAt,
    name: &'a OsStr,
    content: &[u8],
    dress: &NewFileMeta,
) -> io::Result<TempEntry<'a>> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(&place.dir, name, flags, Mode::from_raw_mode(0o600))?;
    let temp = TempEntry::new(place, name);
    chown(file.as_fd(), dress.uid, dress.gid)?;
    if let Some(xattrs) = &dress.xattrs {
        xattr::set(file.as_fd(), xattrs)?;
    }
    // Before there is content, so that it is never there under another mode. What gives power comes after it: a program
    // is not started half-written.
    rustix::fs::fchmod(&file, Mode::from_raw_mode(dress.mode & 0o777))?;
    write_all(&file, content)?;
    if dress.mode & 0o7000 != 0 {
        rustix::fs::fchmod(&file, Mode::from_raw_mode(dress.mode))?;
    }
    rustix::fs::fsync(&file)?;
    Ok(temp)
}

/// Writes new content into the file that stands at a place: the way for a mount point (a bound `/etc/hosts` of a container),
/// over which nothing can be moved. It is the same file afterwards, so that the container that mounted it sees the change too. A
/// reader may see part of it meanwhile; when it cannot be written, the old content is put back as far as that goes.
pub(crate) fn write_in_place(
    place: &PathAt,
    content: &[u8],
    dress: &NewFileMeta,
    old: &Stat,
) -> io::Result<()> {
    let before = place.read()?;
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    let file = rustix::fs::openat(&place.dir, &place.name, flags, Mode::empty())?;
    let now = convert_stat(&rustix::fs::fstat(&file)?)?;
    if now.kind != FileKind::File || now.id != old.id {
        return Err(swapped_error());
    }
    rustix::fs::ftruncate(&file, 0)?;
    // While it is empty: neither the old nor the new content is seen under an owner or mode that it should not have.
    let meta = FileMeta { mode: Some(dress.mode & 0o777), uid: dress.uid, gid: dress.gid };
    let written = set_owner_mode(file.as_fd(), &now, meta).and_then(|()| write_all(&file, content));
    if let Err(error) = written {
        let _ = rustix::fs::ftruncate(&file, 0).and_then(|()| rustix::fs::seek(&file, SeekFrom::Start(0)));
        let was = FileMeta { mode: Some(now.mode), uid: Some(now.uid), gid: Some(now.gid) };
        let _ = convert_stat(&rustix::fs::fstat(&file)?)
            .and_then(|half| set_owner_mode(file.as_fd(), &half, was));
        let _ = write_all(&file, &before);
        return Err(error);
    }
    if dress.mode & 0o7000 != 0 {
        rustix::fs::fchmod(&file, Mode::from_raw_mode(dress.mode))?;
    }
    Ok(rustix::fs::fsync(&file)?)
}

/// Writes all of it.
pub(crate) fn write_all(file: &OwnedFd, mut content: &[u8]) -> io::Result<()> {
    while !content.is_empty() {
        match rustix::io::write(file, content) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => content = &content[count..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Makes a link under another name.
pub(crate) fn create_temp_link<'a>(
    place: &'a PathAt,
    name: &'a OsStr,
    target: &Path,
    meta: FileMeta,
) -> io::Result<TempEntry<'a>> {
    rustix::fs::symlinkat(target, &place.dir, name)?;
    let temp = TempEntry::new(place, name);
    if meta.uid.is_some() || meta.gid.is_some() {
        let entry = open_created(place, name, FileKind::Link)?;
        chown(entry.as_fd(), meta.uid, meta.gid)?;
    }
    Ok(temp)
}

/// Gives a file a second name.
pub(crate) fn create_temp_hardlink<'a>(
    place: &'a PathAt,
    name: &'a OsStr,
    existing: &PathAt,
) -> io::Result<TempEntry<'a>> {
    rustix::fs::linkat(&existing.dir, &existing.name, &place.dir, name, AtFlags::empty())?;
    Ok(TempEntry::new(place, name))
}

/// True when a directory is right as the system makes it, in one step.
pub(crate) fn is_plain_dir(meta: FileMeta) -> bool {
    meta == FileMeta::default() && !UmaskGuard::is_set()
}

/// Makes a directory in its place, as the system does it.
pub(crate) fn create_plain_dir(place: &PathAt) -> io::Result<()> {
    Ok(rustix::fs::mkdirat(&place.dir, &place.name, Mode::from_raw_mode(0o777))?)
}

/// Makes a directory under another name, with owner and mode.
pub(crate) fn create_temp_dir<'a>(
    place: &'a PathAt,
    name: &'a OsStr,
    meta: FileMeta,
) -> io::Result<TempEntry<'a>> {
    rustix::fs::mkdirat(&place.dir, name, Mode::from_raw_mode(0o700))?;
    let temp = TempEntry { is_dir: true, ..TempEntry::new(place, name) };
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = rustix::fs::openat(&place.dir, name, flags, Mode::empty())?;
    let stat = convert_stat(&rustix::fs::fstat(&dir)?)?;
    // A user who may write to the parent may have put another directory here; an empty one of ours does no harm.
    let is_ours = stat.uid == rustix::process::geteuid().as_raw() && stat.mode & 0o077 == 0;
    if !is_ours || !super::read_at::read_dir_entries(dir.try_clone()?)?.is_empty() {
        return Err(swapped_error());
    }
    chown(dir.as_fd(), meta.uid, meta.gid)?;
    let mode = meta.mode.unwrap_or(0o777 & !umask() | stat.mode & 0o2000);
    rustix::fs::fchmod(&dir, Mode::from_raw_mode(mode))?;
    Ok(temp)
}

/// A pipe or device that can be made.
#[derive(Debug)]
pub(crate) struct DeviceNode {
    kind: FileKind,
    device: (u32, u32),
}

impl DeviceNode {
    /// Refuses what is neither. A pipe has no numbers.
    pub(crate) fn new(kind: FileKind, device: (u32, u32)) -> io::Result<Self> {
        match kind {
            FileKind::Fifo => Ok(Self { kind, device: (0, 0) }),
            FileKind::Char | FileKind::Block => Ok(Self { kind, device }),
            _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is neither a pipe nor a device")),
        }
    }

    pub(crate) fn device(&self) -> (u32, u32) {
        self.device
    }
}

/// Makes a pipe or a device.
pub(crate) fn create_node(place: &PathAt, node: &DeviceNode, meta: FileMeta) -> io::Result<()> {
    let kind = match node.kind {
        FileKind::Char => FileType::CharacterDevice,
        FileKind::Block => FileType::BlockDevice,
        _ => FileType::Fifo,
    };
    let device: Dev = rustix::fs::makedev(node.device.0, node.device.1);
    rustix::fs::mknodat(&place.dir, &place.name, kind, Mode::from_raw_mode(0o600), device)?;
    let dress = || {
        let entry = open_created(place, &place.name, node.kind)?;
        chown(entry.as_fd(), meta.uid, meta.gid)?;
        chmod(entry.as_fd(), meta.mode.unwrap_or(0o666 & !umask()))
    };
    dress().inspect_err(|_| {
        let _ = rustix::fs::unlinkat(&place.dir, &place.name, AtFlags::empty());
    })
}

/// Opens what was just made, unless somebody put something else there.
fn open_created(place: &PathAt, name: &OsStr, kind: FileKind) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let entry = rustix::fs::openat(&place.dir, name, flags, Mode::empty())?;
    let raw = rustix::fs::fstat(&entry)?;
    let stat = convert_stat(&raw)?;
    if stat.kind != kind || stat.uid != rustix::process::geteuid().as_raw() || raw.st_nlink != 1 {
        return Err(swapped_error());
    }
    Ok(entry)
}

fn swapped_error() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, "somebody put something else there while it was made")
}

/// Sets owner and group of what a descriptor stands for.
pub(crate) fn chown(entry: BorrowedFd<'_>, uid: Option<u32>, gid: Option<u32>) -> io::Result<()> {
    if uid.is_some() || gid.is_some() {
        rustix::fs::chownat(entry, "", uid.map(Uid::from_raw), gid.map(Gid::from_raw), AtFlags::EMPTY_PATH)?;
    }
    Ok(())
}

/// Sets the mode of what a descriptor stands for, also of one that is open for walking only.
pub(crate) fn chmod(entry: BorrowedFd<'_>, mode: u32) -> io::Result<()> {
    Ok(rustix::fs::chmodat(CWD, fd_path(entry), Mode::from_raw_mode(mode), AtFlags::empty())?)
}

/// Sets owner and mode of an entry that is there already.
pub(crate) fn set_owner_mode(entry: BorrowedFd<'_>, now: &Stat, meta: FileMeta) -> io::Result<()> {
    let owner = (meta.uid.filter(|uid| *uid != now.uid), meta.gid.filter(|gid| *gid != now.gid));
    let is_owned = owner != (None, None);
    // A link's own mode means nothing and cannot be set.
    let wanted = meta.mode.filter(|_| now.kind != FileKind::Link);
    let target = wanted.unwrap_or(now.mode);
    let both = now.mode & target;
    if is_owned && both != now.mode {
        // Otherwise the new group could for a moment do what the old one could.
        chmod(entry, both)?;
    }
    chown(entry, owner.0, owner.1)?;
    // A change of owner takes set-id bits away, also those that should stay.
    let has_lost = is_owned && now.kind != FileKind::Link && target & 0o6000 != 0;
    if has_lost || wanted.is_some_and(|mode| mode != now.mode) {
        chmod(entry, target)?;
    }
    Ok(())
}
