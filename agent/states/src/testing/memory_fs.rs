//! Files in memory for tests: paths in, what a disk would say of them out.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use zagent_host::fs::{FileKind, FileMeta, FileSystem, FsError, Stat, Xattr};

#[derive(Clone, Debug)]
enum MemoryEntry {
    File(Vec<u8>, u32),
    Dir,
    Link(PathBuf),
}

/// A file system in memory.
#[derive(Default)]
pub struct MemoryFs {
    entries: Mutex<BTreeMap<PathBuf, MemoryEntry>>,
}

impl MemoryFs {
    /// Puts a file there, and the directories above it.
    pub fn put_file(&self, path: &str, content: &[u8]) {
        let mut entries = self.entries.lock().unwrap();
        for dir in Path::new(path).ancestors().skip(1) {
            entries.insert(dir.into(), MemoryEntry::Dir);
        }
        entries.insert(path.into(), MemoryEntry::File(content.into(), 0o644));
    }

    /// Makes a directory.
    pub fn dir(&self, path: &str) {
        self.entries.lock().unwrap().insert(path.into(), MemoryEntry::Dir);
    }

    /// Every file and its text.
    pub fn texts(&self) -> BTreeMap<String, String> {
        let entries = self.entries.lock().unwrap();
        let text = |(path, entry): (&PathBuf, &MemoryEntry)| match entry {
            MemoryEntry::File(bytes, _) => {
                Some((path.display().to_string(), String::from_utf8_lossy(bytes).into_owned()))
            }
            _ => None,
        };
        entries.iter().filter_map(text).collect()
    }

    fn get(&self, path: &Path) -> Option<MemoryEntry> {
        self.entries.lock().unwrap().get(path).cloned()
    }

    fn follow(&self, path: &Path) -> PathBuf {
        match self.get(path) {
            Some(MemoryEntry::Link(target)) => self.follow(&path.parent().unwrap().join(target)),
            _ => path.into(),
        }
    }

    fn set(&self, act: &'static str, path: &Path, entry: MemoryEntry) -> Result<(), FsError> {
        let parent = path.parent().unwrap_or(Path::new("/"));
        if !matches!(self.get(&self.follow(parent)), Some(MemoryEntry::Dir)) {
            return Err(FsError::new(act, path, io::ErrorKind::NotFound));
        }
        self.entries.lock().unwrap().insert(path.into(), entry);
        Ok(())
    }
}

impl FileSystem for MemoryFs {
    fn xattrs(&self, _path: &Path) -> Result<Vec<Xattr>, FsError> {
        Ok(Vec::new())
    }

    fn set_xattrs(&self, _path: &Path, _xattrs: &[Xattr]) -> Result<(), FsError> {
        Ok(())
    }

    fn lstat(&self, path: &Path) -> Result<Option<Stat>, FsError> {
        let (kind, mode, size) = match self.get(path) {
            None => return Ok(None),
            Some(MemoryEntry::File(bytes, mode)) => (FileKind::File, mode, bytes.len()),
            Some(MemoryEntry::Dir) => (FileKind::Dir, 0o755, 0),
            Some(MemoryEntry::Link(_)) => (FileKind::Link, 0o777, 0),
        };
        let (uid, gid, mtime, atime, id, device) = (0, 0, 0, 0, (0, 0), (0, 0));
        Ok(Some(Stat { kind, mode, uid, gid, size: size as u64, mtime, atime, id, device }))
    }

    fn stat(&self, path: &Path) -> Result<Option<Stat>, FsError> {
        self.lstat(&self.follow(path))
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>, FsError> {
        match self.get(&self.follow(path)) {
            Some(MemoryEntry::File(bytes, _)) => Ok(bytes),
            Some(_) => Err(FsError::new("read", path, io::ErrorKind::IsADirectory)),
            None => Err(FsError::new("read", path, io::ErrorKind::NotFound)),
        }
    }

    fn compare(&self, path: &Path, content: &[u8]) -> Result<Option<(Stat, bool)>, FsError> {
        let Some(stat) = self.stat(path)? else { return Ok(None) };
        Ok(Some((stat, stat.kind == FileKind::File && self.read(path)? == content)))
    }

    fn read_link(&self, path: &Path) -> Result<PathBuf, FsError> {
        match self.get(path) {
            Some(MemoryEntry::Link(target)) => Ok(target),
            _ => Err(FsError::new("read link", path, io::ErrorKind::InvalidInput)),
        }
    }

    fn resolve_for_change(&self, path: &Path) -> Result<PathBuf, FsError> {
        Ok(self.follow(path))
    }

    fn read_for_change(&self, path: &Path) -> Result<Vec<u8>, FsError> {
        match self.get(path) {
            Some(MemoryEntry::File(bytes, _)) => Ok(bytes),
            Some(_) => Err(FsError::new("read", path, io::ErrorKind::InvalidInput)),
            None => Err(FsError::new("read", path, io::ErrorKind::NotFound)),
        }
    }

    fn read_dir(&self, path: &Path) -> Result<Vec<(OsString, FileKind)>, FsError> {
        Err(FsError::new("read directory", path, io::ErrorKind::Unsupported))
    }

    fn write(&self, path: &Path, content: &[u8], meta: FileMeta) -> Result<(), FsError> {
        let old = self.lstat(path)?.map(|stat| stat.mode);
        self.set("write", path, MemoryEntry::File(content.into(), meta.mode.or(old).unwrap_or(0o644)))
    }

    fn make_dir(&self, path: &Path, _: FileMeta) -> Result<(), FsError> {
        self.set("make directory", path, MemoryEntry::Dir)
    }

    fn symlink(&self, path: &Path, target: &Path, _: FileMeta) -> Result<(), FsError> {
        self.set("make link", path, MemoryEntry::Link(target.into()))
    }

    fn hard_link(&self, path: &Path, _: &Path) -> Result<(), FsError> {
        Err(FsError::new("make hard link", path, io::ErrorKind::Unsupported))
    }

    fn make_node(&self, path: &Path, _: FileKind, _: (u32, u32), _: FileMeta) -> Result<(), FsError> {
        Err(FsError::new("make node", path, io::ErrorKind::Unsupported))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), FsError> {
        let moved = self.entries.lock().unwrap().remove(from);
        let entry = moved.ok_or_else(|| FsError::new("move", from, io::ErrorKind::NotFound))?;
        self.set("move", to, entry)
    }

    fn remove(&self, path: &Path) -> Result<(), FsError> {
        let gone = self.entries.lock().unwrap().remove(path);
        gone.map(drop).ok_or_else(|| FsError::new("remove", path, io::ErrorKind::NotFound))
    }

    fn set_meta(&self, path: &Path, meta: FileMeta, _: bool) -> Result<(), FsError> {
        let bytes = self.read(path)?;
        self.write(path, &bytes, meta)
    }

    fn set_times(&self, _: &Path, _: i128, _: i128) -> Result<(), FsError> {
        Ok(())
    }

    fn attrs(&self, _: &Path) -> Result<Option<String>, FsError> {
        Ok(None)
    }

    fn set_attrs(&self, path: &Path, _: &str, _: &str) -> Result<(), FsError> {
        Err(FsError::new("set attributes", path, io::ErrorKind::Unsupported))
    }
}
