//! Reads and writes of states in, which files hold or held a secret out.
//!
//! Law: before a secret is written to a file, it is on the disk that this file holds one; the record holds digests of paths
//! and no secret (held by `a_file_that_held_a_secret_is_remembered_without_it`). No line of it is ever taken back: a diff of
//! such a file would show the old value after the secret was rotated or removed. Without secrets, now or before, a run pays
//! nothing for this (held by `without_secrets_nothing_is_watched`).

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zagent_config::SecretMask;
use zagent_host::fs::{FileKind, FileMeta, FileSystem, FsError, Stat, Xattr};

/// Larger contents are not searched.
const MAX_SEARCHED_BYTES: usize = 16 << 20;

/// Which files hold or held a secret, and which states have to do with them.
pub(crate) struct SecretFiles {
    mask: SecretMask,
    /// The record; none in a dry run, which writes nothing.
    record: Option<PathBuf>,
    seen: Mutex<SeenFiles>,
    /// Nothing to look for and nothing known.
    is_idle: bool,
}

#[derive(Default)]
struct SeenFiles {
    /// Digests of the paths that hold or held a secret.
    paths: HashSet<String>,
    /// Tags of the states that read or wrote one of them.
    tags: HashSet<String>,
}

impl SecretFiles {
    /// Reads the record of earlier runs.
    ///
    /// # Errors
    /// Fails when it is there and cannot be read: nobody knows then whose lines may be shown.
    pub(crate) fn load(record: PathBuf, mask: SecretMask, is_dry: bool) -> io::Result<Self> {
        let paths: HashSet<String> = match std::fs::read_to_string(&record) {
            Ok(text) => text.lines().map(str::to_owned).collect(),
            Err(e) if e.kind() == io::ErrorKind::NotFound => HashSet::new(),
            Err(e) => return Err(e),
        };
        let is_idle = mask.is_empty() && paths.is_empty();
        let seen = Mutex::new(SeenFiles { paths, tags: HashSet::new() });
        Ok(Self { mask, record: (!is_dry).then_some(record), seen, is_idle })
    }

    /// What hides the secrets of this run.
    pub(crate) const fn mask(&self) -> &SecretMask {
        &self.mask
    }

    /// The files of a state, watched.
    pub(crate) fn watch(self: &Arc<Self>, fs: Arc<dyn FileSystem>, tag: &str) -> Arc<dyn FileSystem> {
        if self.is_idle {
            return fs;
        }
        Arc::new(WatchedFs { inner: fs, files: Arc::clone(self), tag: tag.to_owned() })
    }

    /// True when a state read or wrote a file that holds or held a secret.
    pub(crate) fn concerns(&self, tag: &str) -> bool {
        !self.is_idle && self.seen().tags.contains(tag)
    }

    fn seen(&self) -> MutexGuard<'_, SeenFiles> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A state saw this content at a path.
    fn note(&self, tag: &str, path: &Path, content: &[u8]) -> io::Result<()> {
        let digest = path_digest(path);
        let is_known = self.seen().paths.contains(&digest);
        if !is_known && !self.mask.finds(&content[..content.len().min(MAX_SEARCHED_BYTES)]) {
            return Ok(());
        }
        let mut seen = self.seen();
        seen.tags.insert(tag.to_owned());
        if seen.paths.insert(digest.clone()) {
            self.append(&digest)?;
        }
        Ok(())
    }

    /// The same for a look, which no record can stop.
    fn note_read(&self, tag: &str, path: &Path, content: &[u8]) {
        if let Err(error) = self.note(tag, path, content) {
            tracing::warn!(%error, "cannot record that a file holds a secret");
        }
    }

    /// The same for a text that is reached by a program, under a name that stands for it.
    pub(crate) fn note_text(&self, tag: &str, name: &Path, text: &str) {
        if !self.is_idle {
            self.note_read(tag, name, text.as_bytes());
        }
    }

    fn note_move(&self, tag: &str, from: &Path, to: &Path) -> io::Result<()> {
        let is_known = self.seen().paths.contains(&path_digest(from));
        if !is_known {
            return Ok(());
        }
        let digest = path_digest(to);
        let mut seen = self.seen();
        seen.tags.insert(tag.to_owned());
        if seen.paths.insert(digest.clone()) { self.append(&digest) } else { Ok(()) }
    }

    /// One line at the end of the record, on the disk when this returns.
    fn append(&self, digest: &str) -> io::Result<()> {
        let Some(record) = &self.record else { return Ok(()) };
        if let Some(dir) = record.parent() {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        }
        let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(record)?;
        file.write_all(format!("{digest}\n").as_bytes())?;
        file.sync_all()
    }
}

fn path_digest(path: &Path) -> String {
    blake3::hash(path.as_os_str().as_bytes()).to_hex().to_string()
}

/// The files of one state; what it reads and writes is searched for secrets.
struct WatchedFs {
    inner: Arc<dyn FileSystem>,
    files: Arc<SecretFiles>,
    tag: String,
}

impl FileSystem for WatchedFs {
    fn lstat(&self, path: &Path) -> Result<Option<Stat>, FsError> {
        self.inner.lstat(path)
    }

    fn nlink(&self, path: &Path) -> Result<u64, FsError> {
        self.inner.nlink(path)
    }

    fn stat(&self, path: &Path) -> Result<Option<Stat>, FsError> {
        self.inner.stat(path)
    }

    fn read(&self, path: &Path) -> Result<Vec<u8>, FsError> {
        let content = self.inner.read(path)?;
        self.files.note_read(&self.tag, path, &content);
        Ok(content)
    }

    fn read_chunks(&self, path: &Path, take: &mut dyn FnMut(&[u8])) -> Result<(), FsError> {
        self.inner.read_chunks(path, &mut |part| {
            self.files.note_read(&self.tag, path, part);
            take(part);
        })
    }

    fn compare(&self, path: &Path, content: &[u8]) -> Result<Option<(Stat, bool)>, FsError> {
        let found = self.inner.compare(path, content)?;
        // What a file should hold is not there yet, unless it is the same.
        if matches!(found, Some((_, true))) {
            self.files.note_read(&self.tag, path, content);
        }
        Ok(found)
    }

    fn read_link(&self, path: &Path) -> Result<PathBuf, FsError> {
        self.inner.read_link(path)
    }

    fn resolve_for_change(&self, path: &Path) -> Result<PathBuf, FsError> {
        self.inner.resolve_for_change(path)
    }

    fn read_for_change(&self, path: &Path) -> Result<Vec<u8>, FsError> {
        let content = self.inner.read_for_change(path)?;
        self.files.note_read(&self.tag, path, &content);
        Ok(content)
    }

    fn read_dir(&self, path: &Path) -> Result<Vec<(OsString, FileKind)>, FsError> {
        self.inner.read_dir(path)
    }

    fn write(&self, path: &Path, content: &[u8], meta: FileMeta) -> Result<(), FsError> {
        let noted = self.files.note(&self.tag, path, content);
        noted.map_err(|e| FsError::new("record as a file with a secret", path, e))?;
        self.inner.write(path, content, meta)
    }

    fn make_dir(&self, path: &Path, meta: FileMeta) -> Result<(), FsError> {
        self.inner.make_dir(path, meta)
    }

    fn symlink(&self, path: &Path, target: &Path, meta: FileMeta) -> Result<(), FsError> {
        self.inner.symlink(path, target, meta)
    }

    fn hard_link(&self, path: &Path, existing: &Path) -> Result<(), FsError> {
        let noted = self.files.note_move(&self.tag, existing, path);
        noted.map_err(|e| FsError::new("record as a file with a secret", path, e))?;
        self.inner.hard_link(path, existing)
    }

    fn make_node(
        &self,
        path: &Path,
        kind: FileKind,
        device: (u32, u32),
        meta: FileMeta,
    ) -> Result<(), FsError> {
        self.inner.make_node(path, kind, device, meta)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), FsError> {
        let noted = self.files.note_move(&self.tag, from, to);
        noted.map_err(|e| FsError::new("record as a file with a secret", to, e))?;
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &Path) -> Result<(), FsError> {
        self.inner.remove(path)
    }

    fn set_meta(&self, path: &Path, meta: FileMeta, follow: bool) -> Result<(), FsError> {
        self.inner.set_meta(path, meta, follow)
    }

    fn set_times(&self, path: &Path, atime: i128, mtime: i128) -> Result<(), FsError> {
        self.inner.set_times(path, atime, mtime)
    }

    fn attrs(&self, path: &Path) -> Result<Option<String>, FsError> {
        self.inner.attrs(path)
    }

    fn set_attrs(&self, path: &Path, add: &str, remove: &str) -> Result<(), FsError> {
        self.inner.set_attrs(path, add, remove)
    }

    fn xattrs(&self, path: &Path) -> Result<Vec<Xattr>, FsError> {
        self.inner.xattrs(path)
    }

    fn reject_kernel_dir(&self, dir: &Path) -> io::Result<()> {
        self.inner.reject_kernel_dir(dir)
    }

    fn set_xattrs(&self, path: &Path, xattrs: &[Xattr]) -> Result<(), FsError> {
        self.inner.set_xattrs(path, xattrs)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use zagent_host::Machine;

    use super::*;

    fn mask(secrets: &[&str]) -> SecretMask {
        SecretMask::new(&secrets.iter().map(|s| (*s).into()).collect::<Vec<_>>())
    }

    #[test]
    fn a_file_that_held_a_secret_is_remembered_without_it() {
        let dir = tempfile::tempdir().unwrap();
        let (record, path) = (dir.path().join("state/secret_files"), dir.path().join("conf"));
        let open = |secrets: &[&str], is_dry| {
            Arc::new(SecretFiles::load(record.clone(), mask(secrets), is_dry).unwrap())
        };
        let disk = || Arc::new(Machine::this_host().disk(None)) as Arc<dyn FileSystem>;

        let dry = open(&["hunter2"], true);
        dry.watch(disk(), "a").write(&path, b"x=hunter2\n", FileMeta::default()).unwrap();
        assert!(dry.concerns("a") && !dry.concerns("b") && !record.exists(), "a dry run leaves no trace");

        let files = open(&["hunter2"], false);
        files.watch(disk(), "a").read(&path).unwrap();
        assert!(files.concerns("a"));
        let text = std::fs::read_to_string(&record).unwrap();
        assert!(!text.contains("hunter2") && !text.contains("conf"), "{text}");
        assert_eq!(std::fs::metadata(&record).unwrap().mode() & 0o777, 0o600);

        // The secret is gone, from the file and from the pillar: the file is still one that held it.
        let later = open(&[], false);
        later.watch(disk(), "c").write(&path, b"nothing\n", FileMeta::default()).unwrap();
        assert!(later.concerns("c"));
        later.watch(disk(), "d").write(&dir.path().join("other"), b"nothing\n", FileMeta::default()).unwrap();
        assert!(!later.concerns("d"));
        // It is remembered under a new name too.
        later.watch(disk(), "e").rename(&path, &dir.path().join("moved")).unwrap();
        let last = open(&[], false);
        last.watch(disk(), "f").compare(&dir.path().join("moved"), b"nothing\n").unwrap();
        assert!(last.concerns("f"));
    }

    #[test]
    fn without_secrets_nothing_is_watched() {
        let dir = tempfile::tempdir().unwrap();
        let files = Arc::new(SecretFiles::load(dir.path().join("x"), SecretMask::default(), false).unwrap());
        let disk = Arc::new(Machine::this_host().disk(None)) as Arc<dyn FileSystem>;
        assert!(Arc::ptr_eq(&files.watch(Arc::clone(&disk), "a"), &disk));
    }
}
