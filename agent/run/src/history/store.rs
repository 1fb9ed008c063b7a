//! The sled store: run IDs to their records.
//!
//! Law: a store that cannot be opened is moved aside, never repaired and never fatal; without permission it is left
//! alone (held by `a_damaged_store_is_moved_aside_and_replaced`, `a_store_that_cannot_be_used_leaves_the_spool`).

use std::fs;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::{HistoryError, time_stamp};

/// Memory limit of sled.
const CACHE_BYTES: u64 = 4 << 20;
/// A store never shrinks; a larger one is rebuilt.
const MAX_STORE_BYTES: u64 = 64 << 20;
/// Retry interval while waiting for the lock.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Where the store is.
#[derive(Clone, Debug)]
pub(crate) struct HistoryStore {
    dir: PathBuf,
    /// How long to wait for another process to release it.
    pub(crate) lock_timeout: Duration,
    max_bytes: u64,
}

/// Why it did not open.
enum HistoryOpenError {
    /// Another process has opened it.
    Busy,
    /// Permission denied.
    Forbidden(sled::Error),
    /// It is damaged.
    Broken,
}

impl HistoryStore {
    pub(crate) const fn new(dir: PathBuf, patience: Duration) -> Self {
        Self { dir, lock_timeout: patience, max_bytes: MAX_STORE_BYTES }
    }

    pub(crate) fn exists(&self) -> bool {
        self.dir.exists()
    }

    /// Opens it, or a new one that replaces a damaged one.
    pub(crate) fn open(&self, now: Timestamp) -> Result<(OpenStore, Vec<HistoryError>), HistoryError> {
        let failed = |closed| match closed {
            HistoryOpenError::Busy => HistoryError::Busy,
            HistoryOpenError::Forbidden(source) => {
                HistoryError::Store { act: "open", path: self.dir.clone(), source }
            }
            HistoryOpenError::Broken => HistoryError::Broken { path: self.dir.clone() },
        };
        match self.open_with_retry() {
            Ok(open) => Ok((open, Vec::new())),
            Err(HistoryOpenError::Broken) => {
                let aside = self.sibling_path(&format!("broken-{}", time_stamp(now)));
                self.move_aside(&aside)?;
                let open = self.open_with_retry().map_err(failed)?;
                Ok((open, vec![HistoryError::Broken { path: aside }]))
            }
            Err(closed) => Err(failed(closed)),
        }
    }

    fn open_with_retry(&self) -> Result<OpenStore, HistoryOpenError> {
        let deadline = Instant::now() + self.lock_timeout;
        loop {
            match self.try_open() {
                Err(HistoryOpenError::Busy) if Instant::now() < deadline => {
                    std::thread::sleep(RETRY_INTERVAL);
                }
                ended => return ended,
            }
        }
    }

    fn try_open(&self) -> Result<OpenStore, HistoryOpenError> {
        let config = sled::Config::default().path(&self.dir).cache_capacity(CACHE_BYTES).flush_every_ms(None);
        // A damaged store can make sled panic as well as fail.
        let opened =
            catch_unwind(AssertUnwindSafe(|| config.open())).map_err(|_| HistoryOpenError::Broken)?;
        let db = opened.map_err(|error| match &error {
            // sled reports a held lock only as text.
            sled::Error::Io(e) if e.to_string().contains("could not acquire lock") => HistoryOpenError::Busy,
            sled::Error::Io(e) => match e.kind() {
                ErrorKind::PermissionDenied
                | ErrorKind::ReadOnlyFilesystem
                | ErrorKind::StorageFull
                | ErrorKind::QuotaExceeded => HistoryOpenError::Forbidden(error),
                _ => HistoryOpenError::Broken,
            },
            _ => HistoryOpenError::Broken,
        })?;
        Ok(OpenStore { db, dir: self.dir.clone() })
    }

    /// A path next to the store.
    fn sibling_path(&self, suffix: &str) -> PathBuf {
        let mut name = self.dir.clone().into_os_string();
        name.push(".");
        name.push(suffix);
        name.into()
    }

    /// Moves the store aside; an earlier one is removed, so that they do not fill the disk.
    fn move_aside(&self, aside: &Path) -> Result<(), HistoryError> {
        let name = self.dir.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        let siblings =
            self.dir.parent().and_then(|dir| fs::read_dir(dir).ok()).into_iter().flatten().flatten();
        for entry in siblings {
            if entry.file_name().to_string_lossy().starts_with(&format!("{name}.broken-")) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        fs::rename(&self.dir, aside).map_err(|e| HistoryError::from_io("move", &self.dir, e))
    }

    /// Rebuilds a store that has grown far beyond its content.
    pub(crate) fn rebuild_if_large(&self, open: OpenStore) -> Result<OpenStore, HistoryError> {
        if open.db.size_on_disk().is_ok_and(|size| size < self.max_bytes) {
            return Ok(open);
        }
        let mut all = Vec::new();
        for name in open.names()? {
            all.extend(open.get(&name)?.map(|bytes| (name, bytes)));
        }
        drop(open);
        let old = self.sibling_path("old");
        let _ = fs::remove_dir_all(&old);
        fs::rename(&self.dir, &old).map_err(|e| HistoryError::from_io("move", &self.dir, e))?;
        let mut anew = self.open_with_retry().map_err(|_| HistoryError::Broken { path: old.clone() })?;
        for (name, bytes) in all {
            anew.insert(&name, &bytes)?;
        }
        anew.flush()?;
        let _ = fs::remove_dir_all(&old);
        Ok(anew)
    }

    #[cfg(test)]
    pub(crate) const fn with_max_bytes(mut self, large: u64) -> Self {
        self.max_bytes = large;
        self
    }
}

/// An open store; no other process can open it meanwhile.
#[derive(Debug)]
pub(crate) struct OpenStore {
    db: sled::Db,
    dir: PathBuf,
}

impl OpenStore {
    fn store_error(&self, act: &'static str) -> impl Fn(sled::Error) -> HistoryError + use<> {
        let path = self.dir.clone();
        move |source| HistoryError::Store { act, path: path.clone(), source }
    }

    pub(crate) fn insert(&mut self, name: &str, bytes: &[u8]) -> Result<(), HistoryError> {
        self.db.insert(name, bytes).map(drop).map_err(self.store_error("write"))
    }

    pub(crate) fn get(&self, name: &str) -> Result<Option<Vec<u8>>, HistoryError> {
        self.db.get(name).map(|found| found.map(|v| v.to_vec())).map_err(self.store_error("read"))
    }

    /// IDs of all runs, oldest first.
    pub(crate) fn names(&self) -> Result<Vec<String>, HistoryError> {
        let name =
            |key: Result<sled::IVec, sled::Error>| key.map(|k| String::from_utf8_lossy(&k).into_owned());
        self.db.iter().keys().map(name).collect::<Result<_, _>>().map_err(self.store_error("read"))
    }

    /// Removes all but the newest.
    pub(crate) fn prune(&mut self, keep: usize) -> Result<(), HistoryError> {
        let names = self.names()?;
        for name in &names[..names.len().saturating_sub(keep)] {
            self.db.remove(name).map_err(self.store_error("write"))?;
        }
        Ok(())
    }

    pub(crate) fn flush(&self) -> Result<(), HistoryError> {
        self.db.flush().map(drop).map_err(self.store_error("write"))
    }
}
