//! Files in, the same files out, small ones read once: what a run reads does not change during the run.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use zagent_compiler::{FileStamp, FileTree};

/// Maximum size of a cached file.
const MAX_FILE_BYTES: usize = 64 << 10;
/// Maximum number of cached files.
const MAX_FILES: usize = 256;

/// Cached content by environment and path; `None` when there is no such file.
type FileCache = HashMap<(String, String), Option<Arc<[u8]>>>;

/// Files with a cache for small ones.
pub struct CachedFiles<'f> {
    inner: &'f dyn FileTree,
    known: Mutex<FileCache>,
}

impl<'f> CachedFiles<'f> {
    /// Wraps the files; reads nothing yet.
    #[must_use]
    pub fn new(inner: &'f dyn FileTree) -> Self {
        Self { inner, known: Mutex::default() }
    }
}

impl FileTree for CachedFiles<'_> {
    fn envs(&self) -> Vec<String> {
        self.inner.envs()
    }

    fn read(&self, env: &str, path: &str) -> Result<Option<Arc<[u8]>>, String> {
        let key = (env.to_owned(), path.to_owned());
        if let Some(known) = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(known.clone());
        }
        let read = self.inner.read(env, path)?;
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() < MAX_FILES && read.as_ref().is_none_or(|bytes| bytes.len() <= MAX_FILE_BYTES) {
            known.insert(key, read.clone());
        }
        Ok(read)
    }

    fn has(&self, env: &str, path: &str) -> bool {
        self.inner.has(env, path)
    }

    fn list(&self, env: &str) -> Result<Arc<[String]>, String> {
        self.inner.list(env)
    }

    fn stamp(&self, env: &str, path: &str) -> Option<FileStamp> {
        self.inner.stamp(env, path)
    }

    fn mode(&self, env: &str, path: &str) -> Option<u32> {
        self.inner.mode(env, path)
    }

    fn dirs(&self, env: &str) -> Result<Arc<[String]>, String> {
        self.inner.dirs(env)
    }

    fn links(&self, env: &str) -> Result<Arc<[(String, String)]>, String> {
        self.inner.links(env)
    }

    fn display(&self, env: &str, path: &str) -> String {
        self.inner.display(env, path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file_tree::DirFiles;

    #[test]
    fn a_small_file_is_read_once_and_a_missing_one_too() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        std::fs::write(&path, "one").unwrap();
        std::fs::write(dir.path().join("big"), vec![0; MAX_FILE_BYTES + 1]).unwrap();
        let inner = DirFiles::base(dir.path());
        let files = CachedFiles::new(&inner);
        let text = |name: &str| files.read("base", name).unwrap().map(|b| b.len());
        assert_eq!((text("a"), text("b"), text("big")), (Some(3), None, Some(MAX_FILE_BYTES + 1)));
        std::fs::write(&path, "another").unwrap();
        std::fs::write(dir.path().join("b"), "new").unwrap();
        std::fs::write(dir.path().join("big"), "small").unwrap();
        assert_eq!((text("a"), text("b"), text("big")), (Some(3), None, Some(5)));
    }
}
