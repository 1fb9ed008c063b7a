//! What differs from the files below: names that lead elsewhere or nowhere, and entries that are new or changed.
//!
//! Law: a name is looked up as the kernel would, link by link, so that a path through a changed directory or link
//! leads where it would lead after the changes. A directory that has a name of its own here shows nothing of what
//! is below (held by `the_overlay_answers_as_the_disk_would`, `a_directory_that_is_made_again_is_empty`).

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::io::Errno;

use super::super::path_at::{self, MAX_LINKS};
use super::super::{FileKind, FileSystem, FsError, Stat, Xattr};

/// Which entry; as in [`Stat::id`].
pub(crate) type InodeId = (u64, u64);

/// Bytes of the longest name that an entry can have.
const MAX_NAME: usize = 255;

/// An entry that is new or changed.
#[derive(Clone, Debug)]
pub(crate) struct OverlayInode {
    pub stat: Stat,
    pub body: InodeBody,
    /// Where the files below have it, for what was not changed.
    pub(crate) base_path: Option<PathBuf>,
    pub attrs: Option<String>,
    pub xattrs: Option<Vec<Xattr>>,
}

/// What an entry holds.
#[derive(Clone, Debug)]
pub(crate) enum InodeBody {
    /// The content of a file.
    Bytes(Arc<[u8]>),
    /// The content of a file below.
    InBase,
    /// Where a link points.
    Target(PathBuf),
    /// Nothing of its own: a directory, pipe, device or socket.
    Empty,
}

/// A directory that a path led to.
#[derive(Clone, Debug)]
pub(crate) struct ResolvedDir {
    pub path: PathBuf,
    pub stat: Stat,
    /// The device of the nearest directory that is there below.
    pub device: u64,
    /// True when the files below have it too, under the same path.
    in_base: bool,
    /// False when the way led through a link that anybody could have planted.
    is_trusted: bool,
}

/// A name in a directory, and what it stands for.
#[derive(Clone, Debug)]
pub(crate) struct ResolvedPath {
    pub dir: ResolvedDir,
    pub path: PathBuf,
    pub stat: Option<Stat>,
}

/// Whether a link is followed that anybody could have planted: for a look, not for a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkPolicy {
    ForRead,
    ForWrite,
}

/// All that differs.
#[derive(Debug, Default)]
pub(crate) struct OverlayLayer {
    names: BTreeMap<PathBuf, Option<InodeId>>,
    inodes: HashMap<InodeId, OverlayInode>,
    last: u64,
    /// Where directories really are.
    dir_cache: Mutex<HashMap<PathBuf, ResolvedDir>>,
}

fn base_error(error: FsError) -> io::Error {
    error.source
}

impl OverlayLayer {
    /// True when nothing differs.
    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty() && self.inodes.is_empty()
    }

    /// How many names an entry has: those below that still lead to it, and those that are new.
    pub(crate) fn nlink(&self, base: &dyn FileSystem, resolved: &ResolvedPath) -> io::Result<u64> {
        let id = resolved.stat.ok_or(Errno::NOENT)?.id;
        let is_his =
            |path: &Path| base.lstat(path).is_ok_and(|found| found.is_some_and(|found| found.id == id));
        let path = match self.inodes.get(&id) {
            Some(OverlayInode { base_path: below, .. }) => below.as_deref(),
            None => Some(resolved.path.as_path()),
        };
        let below = path.map_or(Ok(0), |path| base.nlink(path)).map_err(base_error)?;
        let new = self.names.values().filter(|name| **name == Some(id)).count() as u64;
        let gone = self.names.keys().filter(|path| is_his(path)).count() as u64;
        Ok((below + new).saturating_sub(gone))
    }

    /// The place of a path; its last part is not followed.
    pub(crate) fn resolve(
        &self,
        base: &dyn FileSystem,
        path: &Path,
        policy: LinkPolicy,
    ) -> io::Result<ResolvedPath> {
        if !path.is_absolute() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the path is not absolute"));
        }
        let (parent, name) = path_at::split_path(path);
        let dir = self.resolve_dir(base, parent, policy)?;
        self.resolve_in(base, dir, name)
    }

    /// The place where a path leads, links followed.
    pub(crate) fn resolve_end(
        &self,
        base: &dyn FileSystem,
        path: &Path,
        policy: LinkPolicy,
    ) -> io::Result<ResolvedPath> {
        let mut resolved = self.resolve(base, path, policy)?;
        for _ in 0..=MAX_LINKS {
            let Some(stat) = resolved.stat.filter(|stat| stat.kind == FileKind::Link) else {
                return Ok(resolved);
            };
            if policy == LinkPolicy::ForWrite && !path_at::is_trusted_link(&stat, &resolved.dir.stat) {
                return Err(path_at::untrusted_link_error());
            }
            let target = resolved.dir.path.join(self.target(base, &resolved)?);
            resolved = self.resolve(base, &target, policy)?;
        }
        Err(Errno::LOOP.into())
    }

    /// Where the links at the end of a path lead; the path itself when there are none.
    pub(crate) fn resolve_for_change(&self, base: &dyn FileSystem, path: &Path) -> io::Result<PathBuf> {
        let mut path = path.to_owned();
        for _ in 0..=MAX_LINKS {
            let resolved = match self.resolve(base, &path, LinkPolicy::ForWrite) {
                Err(error) if path_at::is_missing(&error) => return Ok(path),
                resolved => resolved?,
            };
            let Some(stat) = resolved.stat.filter(|stat| stat.kind == FileKind::Link) else {
                return Ok(path);
            };
            if !path_at::is_trusted_link(&stat, &resolved.dir.stat) {
                return Err(path_at::untrusted_link_error());
            }
            path = resolved.dir.path.join(self.target(base, &resolved)?);
        }
        Err(Errno::LOOP.into())
    }

    fn resolve_in(&self, base: &dyn FileSystem, dir: ResolvedDir, name: &OsStr) -> io::Result<ResolvedPath> {
        if name == "." {
            return Ok(ResolvedPath { path: dir.path.clone(), stat: Some(dir.stat), dir });
        }
        let path = dir.path.join(name);
        let stat = self.lookup(base, &dir, &path)?.map(|(stat, _)| stat);
        Ok(ResolvedPath { dir, path, stat })
    }

    /// What a name in a directory stands for, and whether it is the one of the files below.
    fn lookup(
        &self,
        base: &dyn FileSystem,
        dir: &ResolvedDir,
        path: &Path,
    ) -> io::Result<Option<(Stat, bool)>> {
        if path.file_name().is_some_and(|name| name.len() > MAX_NAME) {
            return Err(Errno::NAMETOOLONG.into());
        }
        match self.names.get(path) {
            Some(None) => return Ok(None),
            Some(Some(id)) => return Ok(self.inodes.get(id).map(|inode| (inode.stat, false))),
            None if !dir.in_base => return Ok(None),
            None => {}
        }
        let Some(stat) = base.lstat(path).map_err(base_error)? else { return Ok(None) };
        Ok(Some((self.inodes.get(&stat.id).map_or(stat, |inode| inode.stat), true)))
    }

    fn resolve_dir(&self, base: &dyn FileSystem, path: &Path, policy: LinkPolicy) -> io::Result<ResolvedDir> {
        let known = self.dir_cache.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned();
        if let Some(dir) = known.filter(|dir| policy == LinkPolicy::ForRead || dir.is_trusted) {
            return Ok(dir);
        }
        let dir = self.walk(base, path, policy)?;
        self.dir_cache.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned(), dir.clone());
        Ok(dir)
    }

    fn root(&self, base: &dyn FileSystem) -> io::Result<ResolvedDir> {
        let stat = base.lstat(Path::new("/")).map_err(base_error)?.ok_or(Errno::NOENT)?;
        let device = stat.id.0;
        let stat = self.inodes.get(&stat.id).map_or(stat, |inode| inode.stat);
        Ok(ResolvedDir { path: PathBuf::from("/"), stat, device, in_base: true, is_trusted: true })
    }

    fn walk(&self, base: &dyn FileSystem, path: &Path, policy: LinkPolicy) -> io::Result<ResolvedDir> {
        let mut left: VecDeque<OsString> = path_at::path_components(path).collect();
        let mut trail = vec![self.root(base)?];
        let mut links = 0;
        let mut is_trusted = true;
        while let Some(name) = left.pop_front() {
            if name == ".." {
                trail.truncate(trail.len().saturating_sub(1).max(1));
                continue;
            }
            let Some(dir) = trail.last() else { return Err(Errno::NOENT.into()) };
            let path = dir.path.join(&name);
            let (stat, is_below) = self.lookup(base, dir, &path)?.ok_or(Errno::NOENT)?;
            match stat.kind {
                FileKind::Dir => {
                    let device = if is_below { stat.id.0 } else { dir.device };
                    trail.push(ResolvedDir { path, stat, device, in_base: is_below, is_trusted });
                }
                FileKind::Link => {
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(Errno::LOOP.into());
                    }
                    is_trusted &= path_at::is_trusted_link(&stat, &dir.stat);
                    if !is_trusted && policy == LinkPolicy::ForWrite {
                        return Err(path_at::untrusted_link_error());
                    }
                    let target =
                        self.target(base, &ResolvedPath { dir: dir.clone(), path, stat: Some(stat) })?;
                    if target.is_absolute() {
                        trail.truncate(1);
                    }
                    for name in path_at::path_components(&target).rev() {
                        left.push_front(name);
                    }
                }
                _ => return Err(Errno::NOTDIR.into()),
            }
        }
        let mut dir = trail.pop().ok_or(Errno::NOENT)?;
        dir.is_trusted = is_trusted;
        Ok(dir)
    }

    /// Where the link at a place points.
    pub(crate) fn target(&self, base: &dyn FileSystem, resolved: &ResolvedPath) -> io::Result<PathBuf> {
        let stat = resolved.stat.ok_or(Errno::NOENT)?;
        match self.inodes.get(&stat.id) {
            Some(OverlayInode { body: InodeBody::Target(target), .. }) => Ok(target.clone()),
            Some(OverlayInode { base_path: None, .. }) => Err(Errno::INVAL.into()),
            Some(OverlayInode { base_path: Some(path), .. }) => base.read_link(path).map_err(base_error),
            None => base.read_link(&resolved.path).map_err(base_error),
        }
    }

    /// The entry at a place if it is new or changed.
    pub(crate) fn inode(&self, resolved: &ResolvedPath) -> Option<&OverlayInode> {
        resolved.stat.and_then(|stat| self.inodes.get(&stat.id))
    }

    /// The entry at a place, to be changed.
    pub(crate) fn inode_mut(&mut self, resolved: &ResolvedPath) -> io::Result<&mut OverlayInode> {
        let stat = resolved.stat.ok_or(Errno::NOENT)?;
        // Who may go where may depend on it.
        if matches!(stat.kind, FileKind::Dir | FileKind::Link) {
            self.clear_cache();
        }
        Ok(self.inodes.entry(stat.id).or_insert_with(|| {
            let body = if matches!(stat.kind, FileKind::File | FileKind::Link) {
                InodeBody::InBase
            } else {
                InodeBody::Empty
            };
            OverlayInode { stat, body, base_path: Some(resolved.path.clone()), attrs: None, xattrs: None }
        }))
    }

    /// Puts a new entry at a place.
    pub(crate) fn add_entry(&mut self, resolved: &ResolvedPath, mut inode: OverlayInode) {
        self.last += 1;
        inode.stat.id = (0, self.last);
        self.inodes.insert(inode.stat.id, inode);
        self.set_name(resolved, Some((0, self.last)));
    }

    /// Lets a name stand for another entry or for none.
    pub(crate) fn set_name(&mut self, resolved: &ResolvedPath, id: Option<InodeId>) {
        if resolved.stat.is_some_and(|stat| matches!(stat.kind, FileKind::Dir | FileKind::Link)) {
            self.clear_cache();
        }
        self.names.insert(resolved.path.clone(), id);
    }

    fn clear_cache(&mut self) {
        self.dir_cache.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Takes an entry away with all that is in it.
    pub(crate) fn remove(&mut self, resolved: &ResolvedPath) {
        let inside: Vec<_> = self.names_inside(&resolved.path).map(|(path, _)| path.clone()).collect();
        for path in inside {
            self.names.remove(&path);
        }
        self.set_name(resolved, None);
    }

    fn names_inside<'a>(&'a self, dir: &'a Path) -> impl Iterator<Item = (&'a PathBuf, Option<InodeId>)> {
        let from = (std::ops::Bound::Excluded(dir), std::ops::Bound::Unbounded);
        self.names
            .range::<Path, _>(from)
            .take_while(move |(path, _)| path.starts_with(dir))
            .map(|(path, id)| (path, *id))
    }

    /// Names in a directory and what each is, sorted.
    pub(crate) fn list(
        &self,
        base: &dyn FileSystem,
        resolved: &ResolvedPath,
    ) -> io::Result<Vec<(OsString, FileKind)>> {
        let stat = resolved.stat.ok_or(Errno::NOENT)?;
        if stat.kind != FileKind::Dir {
            return Err(Errno::NOTDIR.into());
        }
        let mut found = Vec::new();
        let mut hidden = HashSet::new();
        for (path, id) in
            self.names_inside(&resolved.path).filter(|(path, _)| path.parent() == Some(&resolved.path))
        {
            let Some(name) = path.file_name() else { continue };
            hidden.insert(name);
            if let Some(inode) = id.and_then(|id| self.inodes.get(&id)) {
                found.push((name.to_owned(), inode.stat.kind));
            }
        }
        if self.is_in_base(resolved) {
            let names = base.read_dir(&resolved.path).map_err(base_error)?;
            found.extend(names.into_iter().filter(|(name, _)| !hidden.contains(&**name)));
        }
        found.sort_unstable();
        Ok(found)
    }

    fn is_in_base(&self, resolved: &ResolvedPath) -> bool {
        resolved.dir.in_base
            && (resolved.path == resolved.dir.path || !self.names.contains_key(&resolved.path))
    }

    /// Moves an entry with all that is in it.
    pub(crate) fn rename(
        &mut self,
        base: &dyn FileSystem,
        from: &ResolvedPath,
        to: &ResolvedPath,
    ) -> io::Result<()> {
        // Every entry gets a name of its own first: the files below have them under the old path only.
        let mut moved: Vec<(PathBuf, InodeId)> = Vec::new();
        let mut left = vec![(from.clone(), to.path.clone())];
        while let Some((resolved, path)) = left.pop() {
            let stat = resolved.stat.ok_or(Errno::NOENT)?;
            if stat.kind == FileKind::Dir {
                let dir = ResolvedDir {
                    path: resolved.path.clone(),
                    stat,
                    device: resolved.dir.device,
                    in_base: self.is_in_base(&resolved),
                    is_trusted: true,
                };
                for (name, _) in self.list(base, &resolved)? {
                    left.push((self.resolve_in(base, dir.clone(), &name)?, path.join(&name)));
                }
            }
            self.inode_mut(&resolved)?;
            moved.push((path, stat.id));
        }
        self.remove(from);
        self.set_name(to, None);
        self.names.extend(moved.into_iter().map(|(path, id)| (path, Some(id))));
        Ok(())
    }
}
