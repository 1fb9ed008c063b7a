//! A path in, an open directory and a name in it out.
//!
//! Law: the way to a directory is walked by descriptor, and a link on it is followed only when nobody but root or
//! ourselves can have put it there. What is changed afterwards is changed relative to the descriptor, so that
//! nobody who moves directories or plants links meanwhile makes us write elsewhere. Below another root than `/`
//! nothing leads out of it (held by `a_link_that_anybody_could_have_planted_is_not_followed_for_a_change`,
//! `no_link_leads_out_of_the_root`).

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, StatFs};
use rustix::io::Errno;

use super::stat::convert_stat;
use super::{FsRoot, Stat};

/// Links that one path may lead through, as in the kernel.
pub(crate) const MAX_LINKS: usize = 40;

const WALK_FLAGS: OFlags =
    OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A name in an open directory.
#[derive(Debug)]
pub(crate) struct PathAt {
    /// The directory, open for walking only.
    pub dir: OwnedFd,
    /// The name in it.
    pub name: OsString,
    /// The directory's path, when the way to it led through no link.
    plain: Option<PathBuf>,
    root: FsRoot,
}

impl PathAt {
    /// Opens the directory that a path stands in. The last part of the path is not looked at.
    pub(crate) fn open(root: &FsRoot, path: &Path) -> io::Result<Self> {
        let (parent, name) = split_path(path);
        let (dir, is_plain) = open_dir(root, parent)?;
        let plain = is_plain.then(|| parent.to_owned());
        Ok(Self { dir, name: name.to_owned(), plain, root: root.clone() })
    }

    /// The same place with links at its end followed, each by the rule for links on the way.
    pub(crate) fn open_following(root: &FsRoot, path: &Path) -> io::Result<Self> {
        let mut place = Self::open(root, path)?;
        for _ in 0..MAX_LINKS {
            let Some(link) = place.open_entry().and_then(|entry| OpenLink::read(&place.dir, entry))? else {
                return Ok(place);
            };
            let target = link.target()?;
            let (parent, name) = split_path(&target);
            let dir = walk_dirs(root, Some(place.dir.as_fd()), parent)?;
            place = Self { dir, name: name.to_owned(), plain: None, root: root.clone() };
        }
        Err(Errno::LOOP.into())
    }

    /// Where the links at the end of a path lead, each followed by the rule for links on the way; the path itself when there
    /// are none. What they lead to, and its directory, may be missing.
    pub(crate) fn resolve_end(root: &FsRoot, path: &Path) -> io::Result<PathBuf> {
        let mut path = path.to_owned();
        for _ in 0..=MAX_LINKS {
            let found = Self::open(root, &path).and_then(|place| Ok((place.open_entry()?, place)));
            let (entry, place) = match found {
                Ok(found) => found,
                Err(error) if is_missing(&error) => return Ok(path),
                Err(error) => return Err(error),
            };
            let Some(link) = OpenLink::read(&place.dir, entry)? else { return Ok(path) };
            let target = link.target()?;
            path = match place.path()?.parent() {
                Some(parent) => parent.join(target),
                None => target,
            };
        }
        Err(Errno::LOOP.into())
    }

    /// The content of the file there; a link is not followed.
    pub(crate) fn read(&self) -> io::Result<Vec<u8>> {
        let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        super::read_at::read_all(&rustix::fs::openat(&self.dir, &self.name, flags, Mode::empty())?)
    }

    /// Where it really is: the same place also when a link or directory that led to it is gone.
    pub(crate) fn path(&self) -> io::Result<PathBuf> {
        let mut path = match &self.plain {
            Some(path) => path.clone(),
            None => self.root.machine_path(self.dir.as_fd())?,
        };
        if self.name != "." {
            path.push(&self.name);
        }
        Ok(path)
    }

    /// What stands there, or none.
    pub(crate) fn stat(&self) -> io::Result<Option<Stat>> {
        match rustix::fs::statat(&self.dir, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(convert_stat(&stat)?)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// True when both are the same name in the same directory.
    pub(crate) fn is_same_entry(&self, other: &Self) -> io::Result<bool> {
        let (mine, theirs) = (rustix::fs::fstat(&self.dir)?, rustix::fs::fstat(&other.dir)?);
        let is_same_dir = (mine.st_dev, mine.st_ino) == (theirs.st_dev, theirs.st_ino);
        Ok(is_same_dir && self.name == other.name)
    }

    /// Refuses a directory in which only the kernel makes entries.
    pub(crate) fn reject_kernel_fs(&self) -> io::Result<()> {
        check_not_kernel(&rustix::fs::fstatfs(&self.dir)?)
    }

    /// The entry itself, open for nothing but being named.
    pub(crate) fn open_entry(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.dir, &self.name, flags, Mode::empty())?)
    }
}

/// The file systems whose entries only the kernel makes, by their magic numbers: proc, sysfs, both cgroups, debugfs, tracefs
/// and securityfs.
const KERNEL_FS_MAGIC: [u64; 7] =
    [0x9fa0, 0x6265_6572, 0x0027_e0eb, 0x6367_7270, 0x6462_6720, 0x7472_6163, 0x7363_6673];

fn check_not_kernel(found: &StatFs) -> io::Result<()> {
    if u64::try_from(found.f_type).is_ok_and(|kind| KERNEL_FS_MAGIC.contains(&kind)) {
        let words = "only the kernel makes files there, so that none can be written beside it and moved over it: \
                     set it with `sysctl.present` or with a command (`cmd.run`)";
        return Err(io::Error::new(io::ErrorKind::Unsupported, words));
    }
    Ok(())
}

/// The same refusal for the path of a directory; one that is not there refuses nothing.
pub(crate) fn reject_kernel_dir(root: &FsRoot, dir: &Path) -> io::Result<()> {
    let found = match root.is_host() {
        true => rustix::fs::statfs(dir),
        false => root.open_path(dir, OFlags::PATH).and_then(rustix::fs::fstatfs),
    };
    found.map_or(Ok(()), |found| check_not_kernel(&found))
}

/// The directory part and the name of a path; a path that ends in no name (`/`, `..`) is `.` in itself.
pub(crate) fn split_path(path: &Path) -> (&Path, &OsStr) {
    match (path.parent(), path.components().next_back()) {
        (Some(parent), Some(Component::Normal(name))) => (parent, name),
        _ => (path, OsStr::new(".")),
    }
}

/// Opens a directory for walking, and says whether its path is the plain one: without links and ways back.
fn open_dir(root: &FsRoot, path: &Path) -> io::Result<(OwnedFd, bool)> {
    if !path.is_absolute() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path is not absolute"));
    }
    // Most paths lead through no link at all, and the kernel can say so in one call.
    match root.open_resolved(path, WALK_FLAGS, ResolveFlags::NO_SYMLINKS) {
        Ok(dir) => Ok((dir, !path.components().any(|part| part == Component::ParentDir))),
        Err(Errno::NOENT) => Err(Errno::NOENT.into()),
        Err(_) => walk_dirs(root, None, path).map(|dir| (dir, false)),
    }
}

fn walk_dirs(root: &FsRoot, from: Option<BorrowedFd<'_>>, path: &Path) -> io::Result<OwnedFd> {
    let top = || match root.dir() {
        None => Ok(rustix::fs::openat(CWD, "/", WALK_FLAGS, Mode::empty())?),
        Some(root) => root.try_clone_to_owned(),
    };
    let mut dir = match from {
        Some(from) if !path.is_absolute() => from.try_clone_to_owned()?,
        _ => top()?,
    };
    let mut left: VecDeque<OsString> = path_components(path).collect();
    let mut links = 0;
    while let Some(name) = left.pop_front() {
        if name == ".." && !root.is_host() {
            dir = parent_in_root(root, &dir)?;
            continue;
        }
        match rustix::fs::openat(&dir, &name, WALK_FLAGS, Mode::empty()) {
            Ok(next) => dir = next,
            Err(Errno::NOTDIR | Errno::LOOP) => {
                links += 1;
                if links > MAX_LINKS {
                    return Err(Errno::LOOP.into());
                }
                let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let entry = rustix::fs::openat(&dir, &name, flags, Mode::empty())?;
                let Some(link) = OpenLink::read(&dir, entry)? else { return Err(Errno::NOTDIR.into()) };
                let target = link.target()?;
                if target.is_absolute() {
                    dir = top()?;
                }
                for name in path_components(&target).collect::<Vec<_>>().into_iter().rev() {
                    left.push_front(name);
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(dir)
}

/// The directory above another one; the root is above itself.
fn parent_in_root(root: &FsRoot, dir: &OwnedFd) -> io::Result<OwnedFd> {
    let mut path = root.machine_path(dir.as_fd())?;
    path.pop();
    // The path is that of a directory that was walked to, so that a link on it was planted since.
    Ok(root.open_resolved(&path, WALK_FLAGS, ResolveFlags::NO_SYMLINKS)?)
}

/// The parts of a path that are walked; the root is not one of them.
pub(crate) fn path_components(path: &Path) -> impl DoubleEndedIterator<Item = OsString> + '_ {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

/// A link that is open, and who could have put it where it stands.
struct OpenLink {
    entry: OwnedFd,
    is_trusted: bool,
}

impl OpenLink {
    /// The link that an entry is; none when it is something else.
    fn read(dir: &OwnedFd, entry: OwnedFd) -> io::Result<Option<Self>> {
        let link = convert_stat(&rustix::fs::fstat(&entry)?)?;
        if link.kind != super::FileKind::Link {
            return Ok(None);
        }
        let dir = convert_stat(&rustix::fs::fstat(dir)?)?;
        Ok(Some(Self { entry, is_trusted: is_trusted_link(&link, &dir) }))
    }

    fn target(&self) -> io::Result<PathBuf> {
        if !self.is_trusted {
            return Err(untrusted_link_error());
        }
        let target = rustix::fs::readlinkat(&self.entry, "", Vec::new())?;
        Ok(PathBuf::from(OsString::from_vec(target.into_bytes())))
    }
}

/// True when there is nothing at a path, because of the entry itself or of a directory on the way.
pub(crate) fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// The error for a link that anybody could have planted.
pub(crate) fn untrusted_link_error() -> io::Error {
    io::Error::new(
        io::ErrorKind::PermissionDenied,
        "the path leads through a link that another user may have put there",
    )
}

/// True when a link can only have been put into its directory by root or by ourselves.
pub(crate) fn is_trusted_link(link: &Stat, dir: &Stat) -> bool {
    let me = rustix::process::geteuid().as_raw();
    let ours = |uid: u32| uid == 0 || uid == me;
    let is_shared = dir.mode & 0o002 != 0 || (dir.mode & 0o020 != 0 && dir.gid != 0);
    ours(link.uid) && ours(dir.uid) && (!is_shared || dir.mode & 0o1000 != 0)
}

/// The path of a descriptor, for calls that take no descriptor which is open for walking only.
pub(crate) fn fd_path(fd: BorrowedFd<'_>) -> PathBuf {
    use std::os::fd::AsRawFd;
    PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}
