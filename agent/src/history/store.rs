//! The sled store: names of runs to their records.
//!
//! Law: what does not open is moved aside, never repaired and never fatal; what the system forbids is left alone.

use std::fs;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::{HistoryError, stamp};

/// Memory that sled may take.
const CACHE: u64 = 4 << 20;
/// A store never shrinks; one that is larger is written anew.
const LARGE: u64 = 64 << 20;
/// How often somebody who waits looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Where the store is.
#[derive(Clone, Debug)]
pub(super) struct Store {
    dir: PathBuf,
    /// How long to wait for another process to let go of it.
    pub(super) patience: Duration,
    large: u64,
}

/// Why it did not open.
enum Closed {
    /// Another process has it.
    Busy,
    /// The system does not let us.
    Forbidden(sled::Error),
    /// It is broken.
    Broken,
}

impl Store {
    pub(super) const fn new(dir: PathBuf, patience: Duration) -> Self {
        Self { dir, patience, large: LARGE }
    }

    pub(super) fn exists(&self) -> bool {
        self.dir.exists()
    }

    /// Opens it, or a new one in place of one that is broken.
    pub(super) fn open(&self, now: Timestamp) -> Result<(Open, Vec<HistoryError>), HistoryError> {
        let failed = |closed| match closed {
            Closed::Busy => HistoryError::Busy,
            Closed::Forbidden(source) => HistoryError::Store { act: "open", path: self.dir.clone(), source },
            Closed::Broken => HistoryError::Broken { path: self.dir.clone() },
        };
        match self.patiently() {
            Ok(open) => Ok((open, Vec::new())),
            Err(Closed::Broken) => {
                let aside = self.beside(&format!("broken-{}", stamp(now)));
                self.move_aside(&aside)?;
                let open = self.patiently().map_err(failed)?;
                Ok((open, vec![HistoryError::Broken { path: aside }]))
            }
            Err(closed) => Err(failed(closed)),
        }
    }

    fn patiently(&self) -> Result<Open, Closed> {
        let deadline = Instant::now() + self.patience;
        loop {
            match self.attempt() {
                Err(Closed::Busy) if Instant::now() < deadline => std::thread::sleep(LOOK_AGAIN),
                ended => return ended,
            }
        }
    }

    fn attempt(&self) -> Result<Open, Closed> {
        let config = sled::Config::default().path(&self.dir).cache_capacity(CACHE).flush_every_ms(None);
        // A damaged store can make sled panic as well as fail.
        let opened = catch_unwind(AssertUnwindSafe(|| config.open())).map_err(|_| Closed::Broken)?;
        let db = opened.map_err(|error| match &error {
            // sled tells a lock that is held only in words.
            sled::Error::Io(e) if e.to_string().contains("could not acquire lock") => Closed::Busy,
            sled::Error::Io(e) => match e.kind() {
                ErrorKind::PermissionDenied
                | ErrorKind::ReadOnlyFilesystem
                | ErrorKind::StorageFull
                | ErrorKind::QuotaExceeded => Closed::Forbidden(error),
                _ => Closed::Broken,
            },
            _ => Closed::Broken,
        })?;
        Ok(Open { db, dir: self.dir.clone() })
    }

    /// A name beside the store's.
    fn beside(&self, suffix: &str) -> PathBuf {
        let mut name = self.dir.clone().into_os_string();
        name.push(".");
        name.push(suffix);
        name.into()
    }

    /// Puts the store away; what was put away before goes, so that a disk does not fill with them.
    fn move_aside(&self, aside: &Path) -> Result<(), HistoryError> {
        let name = self.dir.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        let siblings =
            self.dir.parent().and_then(|dir| fs::read_dir(dir).ok()).into_iter().flatten().flatten();
        for entry in siblings {
            if entry.file_name().to_string_lossy().starts_with(&format!("{name}.broken-")) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
        fs::rename(&self.dir, aside).map_err(|e| HistoryError::file("move", &self.dir, e))
    }

    /// Writes a store anew that has grown far beyond what it holds.
    pub(super) fn rebuild_when_large(&self, open: Open) -> Result<Open, HistoryError> {
        if open.db.size_on_disk().is_ok_and(|size| size < self.large) {
            return Ok(open);
        }
        let mut all = Vec::new();
        for name in open.names()? {
            all.extend(open.get(&name)?.map(|bytes| (name, bytes)));
        }
        drop(open);
        let old = self.beside("old");
        let _ = fs::remove_dir_all(&old);
        fs::rename(&self.dir, &old).map_err(|e| HistoryError::file("move", &self.dir, e))?;
        let mut anew = self.patiently().map_err(|_| HistoryError::Broken { path: old.clone() })?;
        for (name, bytes) in all {
            anew.put(&name, &bytes)?;
        }
        anew.flush()?;
        let _ = fs::remove_dir_all(&old);
        Ok(anew)
    }

    #[cfg(test)]
    pub(super) const fn with_large(mut self, large: u64) -> Self {
        self.large = large;
        self
    }
}

/// An open store; nobody else can open it meanwhile.
#[derive(Debug)]
pub(super) struct Open {
    db: sled::Db,
    dir: PathBuf,
}

impl Open {
    fn failed(&self, act: &'static str) -> impl Fn(sled::Error) -> HistoryError + use<> {
        let path = self.dir.clone();
        move |source| HistoryError::Store { act, path: path.clone(), source }
    }

    pub(super) fn put(&mut self, name: &str, bytes: &[u8]) -> Result<(), HistoryError> {
        self.db.insert(name, bytes).map(drop).map_err(self.failed("write"))
    }

    pub(super) fn get(&self, name: &str) -> Result<Option<Vec<u8>>, HistoryError> {
        self.db.get(name).map(|found| found.map(|v| v.to_vec())).map_err(self.failed("read"))
    }

    /// The names of all runs, oldest first.
    pub(super) fn names(&self) -> Result<Vec<String>, HistoryError> {
        let name =
            |key: Result<sled::IVec, sled::Error>| key.map(|k| String::from_utf8_lossy(&k).into_owned());
        self.db.iter().keys().map(name).collect::<Result<_, _>>().map_err(self.failed("read"))
    }

    /// Forgets all but the newest.
    pub(super) fn prune(&mut self, keep: usize) -> Result<(), HistoryError> {
        let names = self.names()?;
        for name in &names[..names.len().saturating_sub(keep)] {
            self.db.remove(name).map_err(self.failed("write"))?;
        }
        Ok(())
    }

    pub(super) fn flush(&self) -> Result<(), HistoryError> {
        self.db.flush().map(drop).map_err(self.failed("write"))
    }
}
