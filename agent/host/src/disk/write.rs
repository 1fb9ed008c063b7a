//! Changes of the disk, each noted before it is made.

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Timestamps};
use rustix::io::Errno;

use super::Disk;
use super::tree_walk::{self, TreeEntry};
use crate::fs::atomic_write::{self, NewFileMeta};
use crate::fs::path_at::{PathAt, fd_path};
use crate::fs::stat::{convert_stat, timespec};
use crate::fs::umask::umask;
use crate::fs::xattr::{self, Xattr};
use crate::fs::{FileKind, FileMeta, FsRoot, Stat, flags};
use crate::undo;
use crate::undo::{ChangeDraft, ExpectedEntry, FileChange, FileTimes, JournalOffset, TempName, capture};

/// What may be replaced at a place: nothing, a file or a link.
fn stat_replaceable(place: &PathAt) -> io::Result<Option<Stat>> {
    let old = place.stat()?;
    match old.map(|old| old.kind) {
        None | Some(FileKind::File | FileKind::Link) => Ok(old),
        Some(FileKind::Dir) => Err(Errno::ISDIR.into()),
        Some(_) => Err(Errno::EXIST.into()),
    }
}

/// True for what the kernel says when a file is a mount point: nothing can be moved over it, or nothing made beside it.
fn is_mount_error(error: &io::Error) -> bool {
    [Errno::BUSY, Errno::ROFS].iter().any(|said| error.raw_os_error() == Some(said.raw_os_error()))
}

fn to_owner_mode(meta: FileMeta) -> undo::OwnerMode {
    undo::OwnerMode { mode: meta.mode, uid: meta.uid, gid: meta.gid }
}

impl Disk {
    /// Notes that what stands at a place becomes something else.
    fn note_replace(
        &self,
        place: &PathAt,
        old: Option<&Stat>,
        after: impl FnOnce() -> io::Result<ExpectedEntry>,
        temp: Option<TempName>,
    ) -> io::Result<Option<JournalOffset>> {
        let Some(journal) = &self.journal else { return Ok(None) };
        let (before, body) = capture::capture_entry(journal, place.dir.as_fd(), &place.name, old)?;
        let change = FileChange::Replace { before, after: after()? };
        let path = &place.path()?;
        journal.note_change(ChangeDraft { tag: &self.tag, path, change, temp, body: &body }).map(Some)
    }

    fn note_change(&self, path: &Path, change: impl FnOnce() -> FileChange) -> io::Result<()> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let mark = journal.note_change(ChangeDraft {
            tag: &self.tag,
            path,
            change: change(),
            temp: None,
            body: &[],
        })?;
        journal.commit(mark)
    }

    fn commit(&self, mark: Option<JournalOffset>) -> io::Result<()> {
        match (&self.journal, mark) {
            (Some(journal), Some(mark)) => journal.commit(mark),
            _ => Ok(()),
        }
    }

    /// Puts a file with this content at the path, whole or not at all; what `meta` does not say is kept.
    ///
    /// # Errors
    /// Fails when it cannot be noted or written.
    pub fn put_file(&self, path: &Path, content: &[u8], meta: FileMeta) -> io::Result<()> {
        let place = PathAt::open(&self.root, path)?;
        let old = stat_replaceable(&place)?;
        place.reject_kernel_fs()?;
        let kept = old.filter(|old| old.kind == FileKind::File);
        let xattrs = kept.map(|_| portable_xattrs(&place)).transpose()?;
        let dress = NewFileMeta {
            mode: meta.mode.or(kept.map(|kept| kept.mode)).unwrap_or(0o666 & !umask()),
            uid: meta.uid.or(kept.map(|kept| kept.uid)),
            gid: meta.gid.or(kept.map(|kept| kept.gid)),
            xattrs,
        };
        let name = atomic_write::temp_name()?;
        let after = || {
            let digest = blake3::hash(content).to_hex().to_string();
            let dress = undo::OwnerMode { mode: Some(dress.mode), uid: dress.uid, gid: dress.gid };
            Ok(ExpectedEntry::File { digest, size: content.len() as u64, dress })
        };
        let temp = TempName { name: name.clone(), uid: dress.uid };
        let mark = self.note_replace(&place, old.as_ref(), after, Some(temp))?;
        // The new content is written before the note is durable, so that one wait may serve both; the file itself is
        // not touched before.
        let temp = atomic_write::create_temp_file(&place, &name, content, &dress);
        self.commit(mark)?;
        match (temp.and_then(|temp| temp.rename_into_place(&place, old.is_none())), &kept) {
            (Err(error), Some(kept)) if is_mount_error(&error) => {
                atomic_write::write_in_place(&place, content, &dress, kept)?;
            }
            (placed, _) => placed?,
        }
        self.dir_sync.mark_dirty(place.dir.as_fd())
    }

    pub(crate) fn put_dir(&self, path: &Path, meta: FileMeta) -> io::Result<()> {
        let place = PathAt::open(&self.root, path)?;
        if place.stat()?.is_some() {
            return Err(Errno::EXIST.into());
        }
        let after = || Ok(ExpectedEntry::Dir { dress: to_owner_mode(meta) });
        let name = (!atomic_write::is_plain_dir(meta)).then(atomic_write::temp_name).transpose()?;
        let temp = name.clone().map(|name| TempName { name, uid: meta.uid });
        let mark = self.note_replace(&place, None, after, temp)?;
        self.commit(mark)?;
        match &name {
            None => atomic_write::create_plain_dir(&place)?,
            Some(name) => {
                atomic_write::create_temp_dir(&place, name, meta)?.rename_into_place(&place, true)?;
            }
        }
        self.dir_sync.mark_dirty(place.dir.as_fd())
    }

    pub(crate) fn put_link(&self, path: &Path, target: &Path, meta: FileMeta) -> io::Result<()> {
        let place = PathAt::open(&self.root, path)?;
        let old = stat_replaceable(&place)?;
        let name = atomic_write::temp_name()?;
        let after = || Ok(ExpectedEntry::Link { target: target.to_owned() });
        let temp = TempName { name: name.clone(), uid: meta.uid };
        let mark = self.note_replace(&place, old.as_ref(), after, Some(temp))?;
        let temp = atomic_write::create_temp_link(&place, &name, target, meta)?;
        self.commit(mark)?;
        temp.rename_into_place(&place, old.is_none())?;
        self.dir_sync.mark_dirty(place.dir.as_fd())
    }

    pub(crate) fn put_hard_link(&self, path: &Path, existing: &Path) -> io::Result<()> {
        let existing = PathAt::open(&self.root, existing)?;
        let source = existing.stat()?.ok_or(Errno::NOENT)?;
        let place = PathAt::open(&self.root, path)?;
        let old = stat_replaceable(&place)?;
        if source.kind == FileKind::Dir {
            return Err(Errno::PERM.into());
        }
        if old.is_some_and(|old| old.id == source.id) {
            return Ok(());
        }
        let name = atomic_write::temp_name()?;
        let after = || capture::capture_expected(existing.dir.as_fd(), &existing.name, &source);
        let temp = TempName { name: name.clone(), uid: Some(source.uid) };
        let mark = self.note_replace(&place, old.as_ref(), after, Some(temp))?;
        let temp = atomic_write::create_temp_hardlink(&place, &name, &existing)?;
        self.commit(mark)?;
        temp.rename_into_place(&place, old.is_none())?;
        self.dir_sync.mark_dirty(place.dir.as_fd())
    }

    pub(crate) fn put_node(
        &self,
        path: &Path,
        kind: FileKind,
        device: (u32, u32),
        meta: FileMeta,
    ) -> io::Result<()> {
        let node = atomic_write::DeviceNode::new(kind, device)?;
        let place = PathAt::open(&self.root, path)?;
        if place.stat()?.is_some() {
            return Err(Errno::EXIST.into());
        }
        let after = || Ok(ExpectedEntry::Node { kind, device: node.device() });
        let mark = self.note_replace(&place, None, after, None)?;
        self.commit(mark)?;
        atomic_write::create_node(&place, &node, meta)?;
        self.dir_sync.mark_dirty(place.dir.as_fd())
    }

    /// Moves an entry, in place of what is there unless that is a directory.
    ///
    /// # Errors
    /// Fails when it cannot be noted or moved.
    pub fn move_entry(&self, from_path: &Path, to_path: &Path) -> io::Result<()> {
        let from = PathAt::open(&self.root, from_path)?;
        let source = from.stat()?.ok_or(Errno::NOENT)?;
        let to = PathAt::open(&self.root, to_path)?;
        if from.name == "." {
            return Err(Errno::INVAL.into());
        }
        let old = to.stat()?;
        if old.is_some_and(|old| old.kind == FileKind::Dir) {
            return Err(Errno::ISDIR.into());
        }
        if old.is_some() && source.kind == FileKind::Dir {
            return Err(Errno::NOTDIR.into());
        }
        if old.is_some_and(|old| old.id == source.id) {
            if from.is_same_entry(&to)? {
                return Ok(());
            }
            // Two names of one file: the kernel would leave both.
            return self.remove_entry(from_path);
        }
        // The kernel would refuse it too, but only after the note that it was done.
        if source.kind == FileKind::Dir && to.path()?.starts_with(from.path()?) {
            return Err(Errno::INVAL.into());
        }
        if let Some(journal) = &self.journal {
            let (before, body) = capture::capture_entry(journal, to.dir.as_fd(), &to.name, old.as_ref())?;
            let after = capture::capture_expected(from.dir.as_fd(), &from.name, &source)?;
            let change = FileChange::Move { to: to.path()?, before, after };
            let draft = ChangeDraft { tag: &self.tag, path: &from.path()?, change, temp: None, body: &body };
            journal.commit(journal.note_change(draft)?)?;
        }
        rustix::fs::renameat(&from.dir, &from.name, &to.dir, &to.name)?;
        self.dir_sync.mark_dirty(to.dir.as_fd())?;
        self.dir_sync.mark_dirty(from.dir.as_fd())
    }

    pub(crate) fn remove_entry(&self, path: &Path) -> io::Result<()> {
        let place = PathAt::open(&self.root, path)?;
        if place.name == "." {
            // It could only be emptied.
            return Err(Errno::INVAL.into());
        }
        let path = &place.path()?;
        let mut known = HashSet::new();
        let mut last = None;
        tree_walk::visit_tree(&place, path, &mut |leaf: &TreeEntry<'_>| {
            known.insert(leaf.stat.id);
            if let Some(journal) = &self.journal {
                let (before, body) = capture::capture_entry(journal, leaf.dir, leaf.name, Some(&leaf.stat))?;
                let change = FileChange::Replace { before, after: ExpectedEntry::Absent };
                let draft = ChangeDraft { tag: &self.tag, path: leaf.path, change, temp: None, body: &body };
                last = Some(journal.note_change(draft)?);
            }
            Ok(())
        })?;
        self.commit(last)?;
        tree_walk::visit_tree(&place, path, &mut |leaf: &TreeEntry<'_>| {
            // What came meanwhile was not noted and stays; its directory then cannot be removed, and that is the error.
            if !known.contains(&leaf.stat.id) {
                return Ok(());
            }
            let flags = if leaf.stat.kind == FileKind::Dir { AtFlags::REMOVEDIR } else { AtFlags::empty() };
            Ok(rustix::fs::unlinkat(leaf.dir, leaf.name, flags)?)
        })?;
        self.dir_sync.mark_dirty(place.dir.as_fd())
    }

    pub(crate) fn change_meta(&self, path: &Path, meta: FileMeta, follow: bool) -> io::Result<()> {
        let (entry, stat, path) = open_entry(&self.root, path, follow)?;
        let before = undo::OwnerMode::from(&stat);
        let mode = meta.mode.filter(|_| stat.kind != FileKind::Link);
        let after = undo::OwnerMode {
            mode: mode.or(before.mode),
            uid: meta.uid.or(before.uid),
            gid: meta.gid.or(before.gid),
        };
        if before == after {
            return Ok(());
        }
        self.note_change(&path, || FileChange::Dress { before, after })?;
        atomic_write::set_owner_mode(entry.as_fd(), &stat, meta)
    }

    pub(crate) fn change_times(&self, path: &Path, atime: i128, mtime: i128) -> io::Result<()> {
        let times = Timestamps { last_access: timespec(atime)?, last_modification: timespec(mtime)? };
        let (entry, stat, path) = open_entry(&self.root, path, true)?;
        self.note_change(&path, || FileChange::Times {
            before: FileTimes::from(&stat),
            after: FileTimes { atime, mtime },
        })?;
        Ok(rustix::fs::utimensat(CWD, fd_path(entry.as_fd()), &times, AtFlags::empty())?)
    }

    pub(crate) fn change_attrs(&self, path: &Path, add: &str, remove: &str) -> io::Result<()> {
        let (add, remove) = (flags::bits(add)?, flags::bits(remove)?);
        let (entry, stat, path) = open_entry(&self.root, path, true)?;
        let Some(file) = reopen_for_attrs(&entry, &stat)? else { return Err(Errno::OPNOTSUPP.into()) };
        let now = rustix::fs::ioctl_getflags(&file)?;
        let wanted = (now | add) - remove;
        if wanted == now {
            return Ok(());
        }
        let (before, after) = (flags::letters(now), flags::letters(wanted));
        self.note_change(&path, || FileChange::Attrs { before, after })?;
        Ok(rustix::fs::ioctl_setflags(&file, wanted)?)
    }

    pub(crate) fn change_xattrs(&self, path: &Path, wanted: &[Xattr]) -> io::Result<()> {
        let (entry, stat, path) = open_entry(&self.root, path, true)?;
        let Some(file) = reopen_for_attrs(&entry, &stat)? else { return Err(Errno::OPNOTSUPP.into()) };
        let before = xattr::list(file.as_fd())?;
        if before == wanted {
            return Ok(());
        }
        self.note_change(&path, || FileChange::Xattrs { before, after: wanted.to_vec() })?;
        xattr::set(file.as_fd(), wanted)
    }
}

fn portable_xattrs(place: &PathAt) -> io::Result<Vec<Xattr>> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = rustix::fs::openat(&place.dir, &place.name, flags, Mode::empty())?;
    Ok(xattr::without_content_xattrs(xattr::list(file.as_fd())?))
}

/// An entry, what it is and where it really stands.
fn open_entry(root: &FsRoot, path: &Path, follow: bool) -> io::Result<(OwnedFd, Stat, PathBuf)> {
    let place = if follow { PathAt::open_following(root, path)? } else { PathAt::open(root, path)? };
    let entry = place.open_entry()?;
    let stat = convert_stat(&rustix::fs::fstat(&entry)?)?;
    Ok((entry, stat, place.path()?))
}

/// Opens an entry for asking and setting attributes; none for what has no such.
pub(crate) fn reopen_for_attrs(entry: &OwnedFd, stat: &Stat) -> io::Result<Option<OwnedFd>> {
    if !matches!(stat.kind, FileKind::File | FileKind::Dir) {
        return Ok(None);
    }
    let flags = OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    Ok(Some(rustix::fs::openat(CWD, fd_path(entry.as_fd()), flags, Mode::empty())?))
}
