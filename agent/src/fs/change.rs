//! Changes of the disk, each noted before it is made.

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Timespec, Timestamps};
use rustix::io::Errno;

use super::disk::Disk;
use super::place::{Place, through};
use super::put::{self, Dress};
use super::stat::stat_of;
use super::tree::{self, Leaf};
use super::umask::umask;
use super::xattr::{self, Xattr};
use super::{Kind, Meta, Stat, flags};
use crate::undo::{self, Change, Draft, Mark, Temp, Times, Trace, capture};

/// What may be replaced at a place: nothing, a file or a link.
fn replaceable(place: &Place) -> io::Result<Option<Stat>> {
    let old = place.stat()?;
    match old.map(|old| old.kind) {
        None | Some(Kind::File | Kind::Link) => Ok(old),
        Some(Kind::Dir) => Err(Errno::ISDIR.into()),
        Some(_) => Err(Errno::EXIST.into()),
    }
}

/// True for what the kernel says when a file is a mount point: nothing can be moved over it, or nothing made beside it.
fn is_mounted(error: &io::Error) -> bool {
    [Errno::BUSY, Errno::ROFS].iter().any(|said| error.raw_os_error() == Some(said.raw_os_error()))
}

fn dress_of(meta: Meta) -> undo::Dress {
    undo::Dress { mode: meta.mode, uid: meta.uid, gid: meta.gid }
}

impl Disk {
    /// Notes that what stands at a place becomes something else.
    fn note_replace(
        &self,
        place: &Place,
        old: Option<&Stat>,
        after: impl FnOnce() -> io::Result<Trace>,
        temp: Option<Temp>,
    ) -> io::Result<Option<Mark>> {
        let Some(journal) = &self.journal else { return Ok(None) };
        let (before, body) = capture::entry(journal, place.dir.as_fd(), &place.name, old)?;
        let change = Change::Replace { before, after: after()? };
        let path = &place.path()?;
        journal.note(Draft { tag: &self.tag, path, change, temp, body: &body }).map(Some)
    }

    fn note(&self, path: &Path, change: impl FnOnce() -> Change) -> io::Result<()> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let mark = journal.note(Draft { tag: &self.tag, path, change: change(), temp: None, body: &[] })?;
        journal.commit(mark)
    }

    fn commit(&self, mark: Option<Mark>) -> io::Result<()> {
        match (&self.journal, mark) {
            (Some(journal), Some(mark)) => journal.commit(mark),
            _ => Ok(()),
        }
    }

    pub(super) fn put_file(&self, path: &Path, content: &[u8], meta: Meta) -> io::Result<()> {
        let place = Place::open(path)?;
        let old = replaceable(&place)?;
        place.verify_room()?;
        let kept = old.filter(|old| old.kind == Kind::File);
        let xattrs = kept.map(|_| lasting_xattrs(&place)).transpose()?;
        let dress = Dress {
            mode: meta.mode.or(kept.map(|kept| kept.mode)).unwrap_or(0o666 & !umask()),
            uid: meta.uid.or(kept.map(|kept| kept.uid)),
            gid: meta.gid.or(kept.map(|kept| kept.gid)),
            xattrs,
        };
        let name = put::temp_name()?;
        let after = || {
            let digest = blake3::hash(content).to_hex().to_string();
            let dress = undo::Dress { mode: Some(dress.mode), uid: dress.uid, gid: dress.gid };
            Ok(Trace::File { digest, size: content.len() as u64, dress })
        };
        let temp = Temp { name: name.clone(), uid: dress.uid };
        let mark = self.note_replace(&place, old.as_ref(), after, Some(temp))?;
        // The new content is written before the note is durable, so that one wait may serve both; the file itself is
        // not touched before.
        let temp = put::file(&place, &name, content, &dress);
        self.commit(mark)?;
        match (temp.and_then(|temp| temp.place(&place, old.is_none())), &kept) {
            (Err(error), Some(kept)) if is_mounted(&error) => put::in_place(&place, content, &dress, kept)?,
            (placed, _) => placed?,
        }
        self.settle.touched(place.dir.as_fd())
    }

    pub(super) fn put_dir(&self, path: &Path, meta: Meta) -> io::Result<()> {
        let place = Place::open(path)?;
        if place.stat()?.is_some() {
            return Err(Errno::EXIST.into());
        }
        let after = || Ok(Trace::Dir { dress: dress_of(meta) });
        let name = (!put::is_plain_dir(meta)).then(put::temp_name).transpose()?;
        let temp = name.clone().map(|name| Temp { name, uid: meta.uid });
        let mark = self.note_replace(&place, None, after, temp)?;
        self.commit(mark)?;
        match &name {
            None => put::plain_dir(&place)?,
            Some(name) => put::dir(&place, name, meta)?.place(&place, true)?,
        }
        self.settle.touched(place.dir.as_fd())
    }

    pub(super) fn put_link(&self, path: &Path, target: &Path, meta: Meta) -> io::Result<()> {
        let place = Place::open(path)?;
        let old = replaceable(&place)?;
        let name = put::temp_name()?;
        let after = || Ok(Trace::Link { target: target.to_owned() });
        let temp = Temp { name: name.clone(), uid: meta.uid };
        let mark = self.note_replace(&place, old.as_ref(), after, Some(temp))?;
        let temp = put::link(&place, &name, target, meta)?;
        self.commit(mark)?;
        temp.place(&place, old.is_none())?;
        self.settle.touched(place.dir.as_fd())
    }

    pub(super) fn put_hard_link(&self, path: &Path, existing: &Path) -> io::Result<()> {
        let existing = Place::open(existing)?;
        let source = existing.stat()?.ok_or(Errno::NOENT)?;
        let place = Place::open(path)?;
        let old = replaceable(&place)?;
        if source.kind == Kind::Dir {
            return Err(Errno::PERM.into());
        }
        if old.is_some_and(|old| old.id == source.id) {
            return Ok(());
        }
        let name = put::temp_name()?;
        let after = || capture::trace(existing.dir.as_fd(), &existing.name, &source);
        let temp = Temp { name: name.clone(), uid: Some(source.uid) };
        let mark = self.note_replace(&place, old.as_ref(), after, Some(temp))?;
        let temp = put::second_name(&place, &name, &existing)?;
        self.commit(mark)?;
        temp.place(&place, old.is_none())?;
        self.settle.touched(place.dir.as_fd())
    }

    pub(super) fn put_node(&self, path: &Path, kind: Kind, device: (u32, u32), meta: Meta) -> io::Result<()> {
        let node = put::Node::new(kind, device)?;
        let place = Place::open(path)?;
        if place.stat()?.is_some() {
            return Err(Errno::EXIST.into());
        }
        let after = || Ok(Trace::Node { kind, device: node.device() });
        let mark = self.note_replace(&place, None, after, None)?;
        self.commit(mark)?;
        put::node(&place, &node, meta)?;
        self.settle.touched(place.dir.as_fd())
    }

    pub(super) fn move_entry(&self, from_path: &Path, to_path: &Path) -> io::Result<()> {
        let from = Place::open(from_path)?;
        let source = from.stat()?.ok_or(Errno::NOENT)?;
        let to = Place::open(to_path)?;
        if from.name == "." {
            return Err(Errno::INVAL.into());
        }
        let old = to.stat()?;
        if old.is_some_and(|old| old.kind == Kind::Dir) {
            return Err(Errno::ISDIR.into());
        }
        if old.is_some() && source.kind == Kind::Dir {
            return Err(Errno::NOTDIR.into());
        }
        if old.is_some_and(|old| old.id == source.id) {
            if from.is_same(&to)? {
                return Ok(());
            }
            // Two names of one file: the kernel would leave both.
            return self.remove_entry(from_path);
        }
        // The kernel would refuse it too, but only after the note that it was done.
        if source.kind == Kind::Dir && to.path()?.starts_with(from.path()?) {
            return Err(Errno::INVAL.into());
        }
        if let Some(journal) = &self.journal {
            let (before, body) = capture::entry(journal, to.dir.as_fd(), &to.name, old.as_ref())?;
            let after = capture::trace(from.dir.as_fd(), &from.name, &source)?;
            let change = Change::Move { to: to.path()?, before, after };
            let draft = Draft { tag: &self.tag, path: &from.path()?, change, temp: None, body: &body };
            journal.commit(journal.note(draft)?)?;
        }
        rustix::fs::renameat(&from.dir, &from.name, &to.dir, &to.name)?;
        self.settle.touched(to.dir.as_fd())?;
        self.settle.touched(from.dir.as_fd())
    }

    pub(super) fn remove_entry(&self, path: &Path) -> io::Result<()> {
        let place = Place::open(path)?;
        if place.name == "." {
            // It could only be emptied.
            return Err(Errno::INVAL.into());
        }
        let path = &place.path()?;
        let mut known = HashSet::new();
        let mut last = None;
        tree::visit(&place, path, &mut |leaf: &Leaf<'_>| {
            known.insert(leaf.stat.id);
            if let Some(journal) = &self.journal {
                let (before, body) = capture::entry(journal, leaf.dir, leaf.name, Some(&leaf.stat))?;
                let change = Change::Replace { before, after: Trace::Absent };
                let draft = Draft { tag: &self.tag, path: leaf.path, change, temp: None, body: &body };
                last = Some(journal.note(draft)?);
            }
            Ok(())
        })?;
        self.commit(last)?;
        tree::visit(&place, path, &mut |leaf: &Leaf<'_>| {
            // What came meanwhile was not noted and stays; its directory then cannot be removed, and that is the error.
            if !known.contains(&leaf.stat.id) {
                return Ok(());
            }
            let flags = if leaf.stat.kind == Kind::Dir { AtFlags::REMOVEDIR } else { AtFlags::empty() };
            Ok(rustix::fs::unlinkat(leaf.dir, leaf.name, flags)?)
        })?;
        self.settle.touched(place.dir.as_fd())
    }

    pub(super) fn redress(&self, path: &Path, meta: Meta, follow: bool) -> io::Result<()> {
        let (entry, stat, path) = opened(path, follow)?;
        let before = undo::Dress::from(&stat);
        let mode = meta.mode.filter(|_| stat.kind != Kind::Link);
        let after = undo::Dress {
            mode: mode.or(before.mode),
            uid: meta.uid.or(before.uid),
            gid: meta.gid.or(before.gid),
        };
        if before == after {
            return Ok(());
        }
        self.note(&path, || Change::Dress { before, after })?;
        put::redress(entry.as_fd(), &stat, meta)
    }

    pub(super) fn retime(&self, path: &Path, atime: i128, mtime: i128) -> io::Result<()> {
        let times = Timestamps { last_access: timespec(atime)?, last_modification: timespec(mtime)? };
        let (entry, stat, path) = opened(path, true)?;
        self.note(&path, || Change::Times { before: Times::from(&stat), after: Times { atime, mtime } })?;
        Ok(rustix::fs::utimensat(CWD, through(entry.as_fd()), &times, AtFlags::empty())?)
    }

    pub(super) fn reflag(&self, path: &Path, add: &str, remove: &str) -> io::Result<()> {
        let (add, remove) = (flags::bits(add)?, flags::bits(remove)?);
        let (entry, stat, path) = opened(path, true)?;
        let Some(file) = reopened(&entry, &stat)? else { return Err(Errno::OPNOTSUPP.into()) };
        let now = rustix::fs::ioctl_getflags(&file)?;
        let wanted = (now | add) - remove;
        if wanted == now {
            return Ok(());
        }
        let (before, after) = (flags::letters(now), flags::letters(wanted));
        self.note(&path, || Change::Attrs { before, after })?;
        Ok(rustix::fs::ioctl_setflags(&file, wanted)?)
    }

    pub(super) fn relabel(&self, path: &Path, wanted: &[Xattr]) -> io::Result<()> {
        let (entry, stat, path) = opened(path, true)?;
        let Some(file) = reopened(&entry, &stat)? else { return Err(Errno::OPNOTSUPP.into()) };
        let before = xattr::list(file.as_fd())?;
        if before == wanted {
            return Ok(());
        }
        self.note(&path, || Change::Xattrs { before, after: wanted.to_vec() })?;
        xattr::set(file.as_fd(), wanted)
    }
}

fn lasting_xattrs(place: &Place) -> io::Result<Vec<Xattr>> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = rustix::fs::openat(&place.dir, &place.name, flags, Mode::empty())?;
    Ok(xattr::lasting(xattr::list(file.as_fd())?))
}

/// An entry, what it is and where it really stands.
fn opened(path: &Path, follow: bool) -> io::Result<(OwnedFd, Stat, PathBuf)> {
    let place = if follow { Place::follow(path)? } else { Place::open(path)? };
    let entry = place.entry()?;
    let stat = stat_of(&rustix::fs::fstat(&entry)?)?;
    Ok((entry, stat, place.path()?))
}

/// Opens an entry for asking and setting attributes; none for what has no such.
pub(super) fn reopened(entry: &OwnedFd, stat: &Stat) -> io::Result<Option<OwnedFd>> {
    if !matches!(stat.kind, Kind::File | Kind::Dir) {
        return Ok(None);
    }
    let flags = OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    Ok(Some(rustix::fs::openat(CWD, through(entry.as_fd()), flags, Mode::empty())?))
}

/// The kernel's word for a time; not every number is one.
pub(super) fn timespec(nanoseconds: i128) -> io::Result<Timespec> {
    let error = |_| io::Error::new(io::ErrorKind::InvalidInput, "the time is out of range");
    let seconds = i64::try_from(nanoseconds.div_euclid(1_000_000_000)).map_err(error)?;
    let rest = i64::try_from(nanoseconds.rem_euclid(1_000_000_000)).map_err(error)?;
    Ok(Timespec { tv_sec: seconds, tv_nsec: rest })
}
