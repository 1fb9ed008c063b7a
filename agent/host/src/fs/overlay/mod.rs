//! Files with changes that are in memory only: what a dry run gives to states, so that a later one sees what an earlier one
//! would have done.
//!
//! Law: everything answers as the disk would have after the same changes, and nothing below is ever changed (held
//! by `the_overlay_answers_as_the_disk_would`).

#![expect(
    clippy::disallowed_methods,
    reason = "files of a dry run get the current time, as the kernel would give them"
)]

pub mod layer;
#[cfg(test)]
pub mod tests;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::io::Errno;

use self::layer::{InodeBody, LinkPolicy, OverlayInode, OverlayLayer, ResolvedPath};
use super::atomic_write::DeviceNode;
use super::path_at::is_missing;
use super::stat::timespec;
use super::umask::umask;
use super::{FileKind, FileMeta, FileSystem, FsError, Stat, Xattr, flags, xattr};

/// Files with changes that are in memory only.
pub struct Overlay {
    base: Arc<dyn FileSystem>,
    layer: RwLock<OverlayLayer>,
}

impl Overlay {
    /// The same files as below, as long as nothing is changed.
    #[must_use]
    pub fn new(base: Arc<dyn FileSystem>) -> Self {
        Self { base, layer: RwLock::default() }
    }

    fn read_layer(&self) -> RwLockReadGuard<'_, OverlayLayer> {
        self.layer.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_layer(&self) -> RwLockWriteGuard<'_, OverlayLayer> {
        self.layer.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn resolve(
        &self,
        path: &Path,
        is_followed: bool,
    ) -> io::Result<(RwLockReadGuard<'_, OverlayLayer>, ResolvedPath)> {
        let layer = self.read_layer();
        let resolved = match is_followed {
            true => layer.resolve_end(&*self.base, path, LinkPolicy::ForRead)?,
            false => layer.resolve(&*self.base, path, LinkPolicy::ForRead)?,
        };
        Ok((layer, resolved))
    }

    /// What stands at a place; none when nothing does or a directory on the way is missing.
    fn stat_at(&self, path: &Path, is_followed: bool) -> io::Result<Option<Stat>> {
        match self.resolve(path, is_followed) {
            Ok((_, resolved)) => Ok(resolved.stat),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn read_content(&self, layer: &OverlayLayer, resolved: &ResolvedPath) -> io::Result<Arc<[u8]>> {
        match resolved.stat.ok_or(Errno::NOENT)?.kind {
            FileKind::File => {}
            FileKind::Dir => return Err(Errno::ISDIR.into()),
            FileKind::Socket => return Err(Errno::NXIO.into()),
            _ => return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")),
        }
        let below = match layer.inode(resolved) {
            Some(OverlayInode { body: InodeBody::Bytes(bytes), .. }) => return Ok(bytes.clone()),
            Some(OverlayInode { base_path: Some(path), .. }) => path,
            _ => &resolved.path,
        };
        Ok(self.base.read(below).map_err(|error| error.source)?.into())
    }

    fn put_file(&self, path: &Path, content: &[u8], meta: FileMeta) -> io::Result<()> {
        let mut layer = self.write_layer();
        let resolved = layer.resolve(&*self.base, path, LinkPolicy::ForWrite)?;
        let kept = stat_replaceable(&resolved)?.filter(|old| old.kind == FileKind::File);
        self.base.reject_kernel_dir(&resolved.dir.path)?;
        let mut stat = new_stat(&resolved, FileKind::File, meta, 0o666 & !umask());
        let mut xattrs = Vec::new();
        if let Some(kept) = kept {
            stat.mode = meta.mode.unwrap_or(kept.mode);
            stat.uid = meta.uid.unwrap_or(kept.uid);
            stat.gid = meta.gid.unwrap_or(kept.gid);
            xattrs = xattr::without_content_xattrs(self.xattrs_at(&layer, &resolved)?);
        }
        stat.size = content.len() as u64;
        layer.add_entry(
            &resolved,
            OverlayInode { xattrs: Some(xattrs), ..new_inode(stat, InodeBody::Bytes(content.into())) },
        );
        Ok(())
    }

    fn put_dir(&self, path: &Path, meta: FileMeta) -> io::Result<()> {
        let mut layer = self.write_layer();
        let resolved = layer.resolve(&*self.base, path, LinkPolicy::ForWrite)?;
        if resolved.stat.is_some() {
            return Err(Errno::EXIST.into());
        }
        let usual = 0o777 & !umask() | resolved.dir.stat.mode & 0o2000;
        layer.add_entry(
            &resolved,
            new_inode(new_stat(&resolved, FileKind::Dir, meta, usual), InodeBody::Empty),
        );
        Ok(())
    }

    fn put_link(&self, path: &Path, target: &Path, meta: FileMeta) -> io::Result<()> {
        let mut layer = self.write_layer();
        let resolved = layer.resolve(&*self.base, path, LinkPolicy::ForWrite)?;
        stat_replaceable(&resolved)?;
        if target.as_os_str().is_empty() {
            return Err(Errno::NOENT.into());
        }
        let mut stat = new_stat(&resolved, FileKind::Link, FileMeta { mode: Some(0o777), ..meta }, 0o777);
        stat.size = target.as_os_str().len() as u64;
        layer.add_entry(&resolved, new_inode(stat, InodeBody::Target(target.to_owned())));
        Ok(())
    }

    fn put_hard_link(&self, path: &Path, existing: &Path) -> io::Result<()> {
        let mut layer = self.write_layer();
        let source = layer.resolve(&*self.base, existing, LinkPolicy::ForWrite)?;
        let found = source.stat.ok_or(Errno::NOENT)?;
        let resolved = layer.resolve(&*self.base, path, LinkPolicy::ForWrite)?;
        let old = stat_replaceable(&resolved)?;
        if found.kind == FileKind::Dir {
            return Err(Errno::PERM.into());
        }
        if old.is_some_and(|old| old.id == found.id) {
            return Ok(());
        }
        if source.dir.device != resolved.dir.device {
            return Err(Errno::XDEV.into());
        }
        layer.inode_mut(&source)?;
        layer.set_name(&resolved, Some(found.id));
        Ok(())
    }

    fn put_node(&self, path: &Path, kind: FileKind, device: (u32, u32), meta: FileMeta) -> io::Result<()> {
        let node = DeviceNode::new(kind, device)?;
        let mut layer = self.write_layer();
        let resolved = layer.resolve(&*self.base, path, LinkPolicy::ForWrite)?;
        if resolved.stat.is_some() {
            return Err(Errno::EXIST.into());
        }
        let stat = Stat { device: node.device(), ..new_stat(&resolved, kind, meta, 0o666 & !umask()) };
        layer.add_entry(&resolved, new_inode(stat, InodeBody::Empty));
        Ok(())
    }

    fn move_entry(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut layer = self.write_layer();
        let from = layer.resolve(&*self.base, from, LinkPolicy::ForWrite)?;
        let source = from.stat.ok_or(Errno::NOENT)?;
        let to = layer.resolve(&*self.base, to, LinkPolicy::ForWrite)?;
        if from.path == from.dir.path {
            return Err(Errno::INVAL.into());
        }
        if to.stat.is_some_and(|old| old.kind == FileKind::Dir) {
            return Err(Errno::ISDIR.into());
        }
        if to.stat.is_some() && source.kind == FileKind::Dir {
            return Err(Errno::NOTDIR.into());
        }
        if to.stat.is_some_and(|old| old.id == source.id) {
            if from.path == to.path {
                return Ok(());
            }
            layer.remove(&from);
            return Ok(());
        }
        if to.path.starts_with(&from.path) {
            return Err(Errno::INVAL.into());
        }
        layer.rename(&*self.base, &from, &to)
    }

    fn remove_entry(&self, path: &Path) -> io::Result<()> {
        let mut layer = self.write_layer();
        let resolved = layer.resolve(&*self.base, path, LinkPolicy::ForWrite)?;
        if resolved.path == resolved.dir.path {
            return Err(Errno::INVAL.into());
        }
        resolved.stat.ok_or(Errno::NOENT)?;
        layer.remove(&resolved);
        Ok(())
    }

    fn edit_inode(
        &self,
        path: &Path,
        is_followed: bool,
        edit: impl FnOnce(&mut OverlayInode),
    ) -> io::Result<()> {
        let mut layer = self.write_layer();
        let resolved = match is_followed {
            true => layer.resolve_end(&*self.base, path, LinkPolicy::ForWrite)?,
            false => layer.resolve(&*self.base, path, LinkPolicy::ForWrite)?,
        };
        layer.inode_mut(&resolved).map(edit)
    }

    fn read_attrs(&self, path: &Path) -> io::Result<Option<String>> {
        let (layer, resolved) = self.resolve(path, true)?;
        if !matches!(resolved.stat.ok_or(Errno::NOENT)?.kind, FileKind::File | FileKind::Dir) {
            return Ok(None);
        }
        let below = match layer.inode(&resolved) {
            Some(OverlayInode { attrs: Some(attrs), .. }) => return Ok(Some(attrs.clone())),
            Some(OverlayInode { base_path: None, .. }) => return Ok(Some(String::new())),
            Some(OverlayInode { base_path: Some(path), .. }) => path,
            None => &resolved.path,
        };
        self.base.attrs(below).map_err(|error| error.source)
    }

    fn xattrs_at(&self, layer: &OverlayLayer, resolved: &ResolvedPath) -> io::Result<Vec<Xattr>> {
        if !matches!(resolved.stat.ok_or(Errno::NOENT)?.kind, FileKind::File | FileKind::Dir) {
            return Ok(Vec::new());
        }
        let below = match layer.inode(resolved) {
            Some(OverlayInode { xattrs: Some(xattrs), .. }) => return Ok(xattrs.clone()),
            Some(OverlayInode { base_path: None, .. }) => return Ok(Vec::new()),
            Some(OverlayInode { base_path: Some(path), .. }) => path,
            None => &resolved.path,
        };
        self.base.xattrs(below).map_err(|error| error.source)
    }
}

fn stat_replaceable(resolved: &ResolvedPath) -> io::Result<Option<Stat>> {
    match resolved.stat.map(|old| old.kind) {
        None | Some(FileKind::File | FileKind::Link) => Ok(resolved.stat),
        Some(FileKind::Dir) => Err(Errno::ISDIR.into()),
        Some(_) => Err(Errno::EXIST.into()),
    }
}

/// What a new entry has when it replaces nothing.
fn new_stat(resolved: &ResolvedPath, kind: FileKind, meta: FileMeta, usual: u32) -> Stat {
    let dir = &resolved.dir.stat;
    let group = if dir.mode & 0o2000 != 0 { dir.gid } else { rustix::process::getegid().as_raw() };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let now = i128::try_from(now).unwrap_or(i128::MAX);
    Stat {
        kind,
        mode: meta.mode.unwrap_or(usual),
        uid: meta.uid.unwrap_or_else(|| rustix::process::geteuid().as_raw()),
        gid: meta.gid.unwrap_or(group),
        size: 0,
        mtime: now,
        atime: now,
        id: (0, 0),
        device: (0, 0),
    }
}

fn new_inode(stat: Stat, body: InodeBody) -> OverlayInode {
    OverlayInode { stat, body, base_path: None, attrs: None, xattrs: None }
}

impl FileSystem for Overlay {
    fn nlink(&self, path: &Path) -> Result<u64, FsError> {
        let count =
            self.resolve(path, false).and_then(|(layer, resolved)| layer.nlink(&*self.base, &resolved));
        count.map_err(|error| FsError::new("look at", path, error))
    }

    fn lstat(&self, path: &Path) -> Result<Option<Stat>, FsError> {
        if self.read_layer().is_empty() {
            return self.base.lstat(path);
        }
        self.stat_at(path, false).map_err(|error| FsError::new("look at", path, error))
    }

    fn stat(&self, path: &Path) -> Result<Option<Stat>, FsError> {
        if self.read_layer().is_empty() {
            return self.base.stat(path);
        }
        self.stat_at(path, true).map_err(|error| FsError::new("look at", path, error))
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>, FsError> {
        let read = || {
            let (layer, resolved) = self.resolve(path, true)?;
            self.read_content(&layer, &resolved).map(|content| content.to_vec())
        };
        read().map_err(|error| FsError::new("read", path, error))
    }

    fn read_chunks(&self, path: &Path, take: &mut dyn FnMut(&[u8])) -> Result<(), FsError> {
        if self.read_layer().is_empty() {
            return self.base.read_chunks(path, take);
        }
        take(&self.read(path)?);
        Ok(())
    }

    fn compare(&self, path: &Path, content: &[u8]) -> Result<Option<(Stat, bool)>, FsError> {
        if self.read_layer().is_empty() {
            return self.base.compare(path, content);
        }
        let compare = || {
            let (layer, resolved) = match self.resolve(path, true) {
                Err(error) if is_missing(&error) => return Ok(None),
                answer => answer?,
            };
            let Some(stat) = resolved.stat else { return Ok(None) };
            if stat.kind != FileKind::File || stat.size != content.len() as u64 {
                return Ok(Some((stat, false)));
            }
            let is_same = match layer.inode(&resolved) {
                Some(OverlayInode { body: InodeBody::Bytes(bytes), .. }) => **bytes == *content,
                Some(_) => *self.read_content(&layer, &resolved)? == *content,
                None => {
                    let answer = self.base.compare(&resolved.path, content);
                    answer.map_err(|error: FsError| error.source)?.is_some_and(|(_, is_same)| is_same)
                }
            };
            Ok(Some((stat, is_same)))
        };
        compare().map_err(|error: io::Error| FsError::new("read", path, error))
    }

    fn read_link(&self, path: &Path) -> Result<PathBuf, FsError> {
        let read = || {
            let (layer, resolved) = self.resolve(path, false)?;
            match resolved.stat.ok_or(Errno::NOENT)?.kind {
                FileKind::Link => layer.target(&*self.base, &resolved),
                _ => Err(Errno::INVAL.into()),
            }
        };
        read().map_err(|error| FsError::new("read link", path, error))
    }

    fn resolve_for_change(&self, path: &Path) -> Result<PathBuf, FsError> {
        self.read_layer()
            .resolve_for_change(&*self.base, path)
            .map_err(|error| FsError::new("follow", path, error))
    }

    fn read_for_change(&self, path: &Path) -> Result<Vec<u8>, FsError> {
        let read = || {
            let layer = self.read_layer();
            let resolved = layer.resolve(&*self.base, path, LinkPolicy::ForWrite)?;
            self.read_content(&layer, &resolved).map(|content| content.to_vec())
        };
        read().map_err(|error| FsError::new("read", path, error))
    }

    fn read_dir(&self, path: &Path) -> Result<Vec<(OsString, FileKind)>, FsError> {
        self.resolve(path, true)
            .and_then(|(layer, resolved)| layer.list(&*self.base, &resolved))
            .map_err(|error| FsError::new("list", path, error))
    }

    fn write(&self, path: &Path, content: &[u8], meta: FileMeta) -> Result<(), FsError> {
        self.put_file(path, content, meta).map_err(|error| FsError::new("write", path, error))
    }

    fn make_dir(&self, path: &Path, meta: FileMeta) -> Result<(), FsError> {
        self.put_dir(path, meta).map_err(|error| FsError::new("make directory", path, error))
    }

    fn symlink(&self, path: &Path, target: &Path, meta: FileMeta) -> Result<(), FsError> {
        self.put_link(path, target, meta).map_err(|error| FsError::new("make link", path, error))
    }

    fn hard_link(&self, path: &Path, existing: &Path) -> Result<(), FsError> {
        self.put_hard_link(path, existing).map_err(|error| FsError::new("make hard link", path, error))
    }

    fn make_node(
        &self,
        path: &Path,
        kind: FileKind,
        device: (u32, u32),
        meta: FileMeta,
    ) -> Result<(), FsError> {
        self.put_node(path, kind, device, meta).map_err(|error| FsError::new("make node", path, error))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), FsError> {
        self.move_entry(from, to).map_err(|error| FsError::new("move", from, error))
    }

    fn remove(&self, path: &Path) -> Result<(), FsError> {
        self.remove_entry(path).map_err(|error| FsError::new("remove", path, error))
    }

    fn set_meta(&self, path: &Path, meta: FileMeta, follow: bool) -> Result<(), FsError> {
        let edit = |inode: &mut OverlayInode| {
            let stat = &mut inode.stat;
            let mode = meta.mode.filter(|_| stat.kind != FileKind::Link);
            stat.mode = mode.unwrap_or(stat.mode);
            stat.uid = meta.uid.unwrap_or(stat.uid);
            stat.gid = meta.gid.unwrap_or(stat.gid);
        };
        self.edit_inode(path, follow, edit)
            .map_err(|error| FsError::new("set owner and mode of", path, error))
    }

    fn set_times(&self, path: &Path, atime: i128, mtime: i128) -> Result<(), FsError> {
        let set = || {
            // The disk would refuse a time that is none.
            timespec(atime)?;
            timespec(mtime)?;
            self.edit_inode(path, true, |inode| (inode.stat.atime, inode.stat.mtime) = (atime, mtime))
        };
        set().map_err(|error| FsError::new("set times of", path, error))
    }

    fn attrs(&self, path: &Path) -> Result<Option<String>, FsError> {
        self.read_attrs(path).map_err(|error| FsError::new("read attributes of", path, error))
    }

    fn set_attrs(&self, path: &Path, add: &str, remove: &str) -> Result<(), FsError> {
        let set = || {
            let (add, remove) = (flags::bits(add)?, flags::bits(remove)?);
            let now = self.read_attrs(path)?.ok_or(Errno::OPNOTSUPP)?;
            let letters = flags::letters((flags::bits(&now)? | add) - remove);
            self.edit_inode(path, true, |inode| inode.attrs = Some(letters))
        };
        set().map_err(|error| FsError::new("set attributes of", path, error))
    }

    fn xattrs(&self, path: &Path) -> Result<Vec<Xattr>, FsError> {
        self.resolve(path, true)
            .and_then(|(layer, resolved)| self.xattrs_at(&layer, &resolved))
            .map_err(|error| FsError::new("read extended attributes of", path, error))
    }

    fn set_xattrs(&self, path: &Path, xattrs: &[Xattr]) -> Result<(), FsError> {
        self.edit_inode(path, true, |inode| inode.xattrs = Some(xattrs.to_vec()))
            .map_err(|error| FsError::new("set extended attributes of", path, error))
    }
}
