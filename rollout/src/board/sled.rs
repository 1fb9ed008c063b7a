//! The board of one machine: a sled store that several processes use in turn.
//!
//! Law: a process that uses the store holds the lock file beside it, and opens the store for one operation; so each
//! compare-and-swap is atomic. A store that does not open or does not answer is moved aside and replaced: its data
//! may be lost, but the board works again. An operation ends within its deadline, also when the disk is full (held
//! by `a_store_that_does_not_answer_is_replaced_within_the_deadline`, `a_full_disk_is_told_and_touches_nothing`,
//! `a_rollout_command_ends_and_the_board_is_kept`).
//!
//! Why it does not stay open: sled locks its directory for one process, and the watchdog, the agent and the command
//! line all report and read here.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};

use super::{Board, BoardEntry, BoardError, BoardWrite, VersionToken, check_key};
use crate::sled_call::{MIN_FREE_BYTES, NoAnswer, SledCall, check_space};

/// How long to wait for other processes.
const LOCK_TIMEOUT: Duration = Duration::from_secs(20);
/// How long an operation may take, with the wait for threads of another process.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// The retry interval.
const LOCK_RETRY_INTERVAL: Duration = Duration::from_millis(2);
/// Memory limit of the store: it is open for one operation.
const CACHE_BYTES: u64 = 1 << 20;
/// Bytes of the version in front of a value.
const VERSION_BYTES: usize = 8;
/// The tree with the name of the store.
const META_TREE: &str = "meta";
/// The key of that name.
const STORE_NAME_KEY: &str = "name";

/// A board in a directory.
#[derive(Clone, Debug)]
pub struct SledBoard {
    dir: PathBuf,
    min_free: u64,
    call_timeout: Duration,
}

/// The store, open.
struct SledStore {
    db: sled::Db,
    name: String,
}

impl SledBoard {
    /// The board in a directory, which may not exist yet.
    #[must_use]
    pub const fn new(dir: PathBuf) -> Self {
        Self { dir, min_free: MIN_FREE_BYTES, call_timeout: CALL_TIMEOUT }
    }

    /// Opens the store for one operation, in a thread that is left behind when sled does not answer. The lock is held
    /// here, so that it ends with this call.
    fn with_store<T: Send + 'static>(
        &self,
        act: impl FnOnce(&Self, &SledStore) -> Result<T, BoardError> + Send + 'static,
    ) -> Result<T, BoardError> {
        check_space(&self.dir, self.min_free).map_err(|error| self.unreachable(error))?;
        let _lock = self.lock().map_err(|error| self.unreachable(error))?;
        let board = self.clone();
        let call = SledCall::start(move || {
            let store = board.open()?;
            act(&board, &store)
        });
        match call.wait(self.call_timeout) {
            Ok(answer) => answer,
            Err(NoAnswer::Panicked) => {
                let error = sled::Error::ReportableBug("sled panicked on the store".into());
                Err(self.failed(error))
            }
            Err(NoAnswer::Waiting) => {
                let words = format!("sled did not answer within {} s", self.call_timeout.as_secs());
                let error = io::Error::new(io::ErrorKind::TimedOut, words);
                // The thread keeps its lock on that store for as long as this process runs.
                self.move_aside(&error).map_err(|error| self.unreachable(error))?;
                Err(self.unreachable(error))
            }
        }
    }

    fn open(&self) -> Result<SledStore, BoardError> {
        let until = Instant::now() + LOCK_TIMEOUT;
        let db = loop {
            match catch_panic(|| {
                sled::Config::new().path(self.dir.join("store")).cache_capacity(CACHE_BYTES).open()
            }) {
                Ok(db) => break db,
                // Threads of the previous process may not have released it yet.
                Err(sled::Error::Io(e)) if is_locked(&e) => {
                    if Instant::now() >= until {
                        return Err(self.unreachable(e));
                    }
                    std::thread::sleep(LOCK_RETRY_INTERVAL);
                }
                Err(sled::Error::Io(e)) if is_local_fault(&e) => return Err(self.unreachable(e)),
                Err(error) => self.move_aside(&error).map_err(|error| self.unreachable(error))?,
            }
        };
        let name = self.store_name(&db).map_err(|error| self.failed(error))?;
        Ok(SledStore { db, name })
    }

    /// Moves a store that cannot be used out of the way; one such store is kept for an investigation.
    fn move_aside(&self, error: &dyn std::error::Error) -> io::Result<()> {
        let (store, aside) = (self.dir.join("store"), self.dir.join("store.damaged"));
        tracing::warn!(store = %store.display(), %error, "cannot use the board; moving it aside and creating a new one");
        match std::fs::remove_dir_all(&aside) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
            _ => std::fs::rename(&store, &aside),
        }
    }

    /// Distinguishes this store from the one before it, whose versions started at the same number.
    fn store_name(&self, db: &sled::Db) -> Result<String, sled::Error> {
        let meta = db.open_tree(META_TREE)?;
        if let Some(name) = meta.get(STORE_NAME_KEY)? {
            return Ok(String::from_utf8_lossy(&name).into_owned());
        }
        let seed = format!("{} {}", jiff::Timestamp::now().as_nanosecond(), std::process::id());
        let name = blake3::hash(seed.as_bytes()).to_hex()[..12].to_owned();
        meta.insert(STORE_NAME_KEY, name.as_bytes())?;
        Ok(name)
    }

    fn lock(&self) -> io::Result<File> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
        let path = self.dir.join("lock");
        let file = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(path)?;
        let until = Instant::now() + LOCK_TIMEOUT;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(file),
                Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) if Instant::now() < until => {
                    std::thread::sleep(LOCK_RETRY_INTERVAL);
                }
                Err(e) => return Err(e.into()),
            }
        }
    }

    fn unreachable(&self, source: io::Error) -> BoardError {
        BoardError::Unreachable { board: self.display_name(), source: Box::new(source) }
    }

    fn failed(&self, source: sled::Error) -> BoardError {
        BoardError::Unreachable { board: self.display_name(), source: Box::new(source) }
    }

    fn display_name(&self) -> String {
        display_dir(&self.dir)
    }
}

/// Opens a store; with a damaged one, sled may panic or fail.
fn catch_panic<T>(act: impl FnOnce() -> sled::Result<T>) -> sled::Result<T> {
    let fell = || sled::Error::ReportableBug("sled panicked on the store".into());
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|_| Err(fell()))
}

fn display_dir(dir: &Path) -> String {
    format!("`{}`", dir.display())
}

/// True when another process has the store open.
fn is_locked(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock || error.to_string().contains("could not acquire lock")
}

/// True when the problem is not in the store: a new one would fail too.
fn is_local_fault(error: &io::Error) -> bool {
    use io::ErrorKind::{PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem | StorageFull | QuotaExceeded)
}

impl SledStore {
    fn entry(&self, key: &str, bytes: &[u8]) -> Result<BoardEntry, BoardError> {
        let Some((version, value)) = bytes.split_first_chunk::<VERSION_BYTES>() else {
            let message = "it has no version".to_owned();
            return Err(BoardError::Damaged { key: key.to_owned(), message });
        };
        Ok(BoardEntry { value: value.to_vec(), token: self.token(u64::from_be_bytes(*version)) })
    }

    fn token(&self, version: u64) -> VersionToken {
        VersionToken(format!("{}-{version}", self.name))
    }

    fn get(&self, key: &str) -> Result<Option<sled::IVec>, sled::Error> {
        self.db.get(key)
    }

    /// The present value, if it is what the writer knows.
    fn check_version(
        &self,
        key: &str,
        expected: Option<&VersionToken>,
    ) -> Result<Result<(), BoardError>, sled::Error> {
        let now = self.get(key)?.map(|bytes| self.entry(key, &bytes)).transpose();
        let conflict = || BoardError::Conflict { key: key.to_owned() };
        Ok(now.and_then(|entry| match (entry, expected) {
            (None, None) => Ok(()),
            (Some(entry), Some(token)) if entry.token == *token => Ok(()),
            _ => Err(conflict()),
        }))
    }

    fn put(&self, key: &str, value: &[u8]) -> Result<VersionToken, sled::Error> {
        let version = self.db.generate_id()?;
        let mut bytes = version.to_be_bytes().to_vec();
        bytes.extend_from_slice(value);
        self.db.insert(key, bytes)?;
        self.db.flush()?;
        Ok(self.token(version))
    }

    fn remove(&self, key: &str) -> Result<(), sled::Error> {
        self.db.remove(key)?;
        self.db.flush().map(drop)
    }
}

impl Board for SledBoard {
    fn get(&mut self, key: &str) -> Result<Option<BoardEntry>, BoardError> {
        check_key(&self.display_name(), key)?;
        let key = key.to_owned();
        self.with_store(move |board, store| {
            let found = store.get(&key).map_err(|error| board.failed(error))?;
            found.map(|bytes| store.entry(&key, &bytes)).transpose()
        })
    }

    fn put(&mut self, key: &str, write: BoardWrite<'_>) -> Result<VersionToken, BoardError> {
        check_key(&self.display_name(), key)?;
        let (key, value, expected) = (key.to_owned(), write.value.to_vec(), write.expected.cloned());
        self.with_store(move |board, store| {
            store.check_version(&key, expected.as_ref()).map_err(|error| board.failed(error))??;
            store.put(&key, &value).map_err(|error| board.failed(error))
        })
    }

    fn list(&mut self, prefix: &str) -> Result<Vec<(String, BoardEntry)>, BoardError> {
        let prefix = prefix.to_owned();
        self.with_store(move |board, store| {
            let mut all = Vec::new();
            for found in store.db.scan_prefix(&prefix) {
                let (key, bytes) = found.map_err(|error| board.failed(error))?;
                let key = String::from_utf8_lossy(&key).into_owned();
                let entry = store.entry(&key, &bytes)?;
                all.push((key, entry));
            }
            Ok(all)
        })
    }

    fn delete(&mut self, key: &str, expected: &VersionToken) -> Result<(), BoardError> {
        check_key(&self.display_name(), key)?;
        let (key, expected) = (key.to_owned(), expected.clone());
        self.with_store(move |board, store| {
            if store.get(&key).map_err(|error| board.failed(error))?.is_none() {
                return Ok(());
            }
            store.check_version(&key, Some(&expected)).map_err(|error| board.failed(error))??;
            store.remove(&key).map_err(|error| board.failed(error))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(board: &mut SledBoard, value: &str) -> Result<VersionToken, BoardError> {
        let write = BoardWrite { value: value.as_bytes(), expected: None, note: "", lasting: true };
        board.put("a", write)
    }

    #[test]
    fn a_store_that_does_not_answer_is_replaced_within_the_deadline() {
        let dir = tempfile::tempdir().unwrap();
        let mut board = SledBoard::new(dir.path().to_owned());
        put(&mut board, "old").unwrap();
        board.call_timeout = Duration::from_millis(500);
        let (hold, held) = std::sync::mpsc::channel::<()>();
        let stuck = board.with_store(move |_, _| {
            let _ = held.recv();
            Ok(())
        });
        assert!(matches!(&stuck, Err(BoardError::Unreachable { .. })), "{stuck:?}");
        let why = zagent_config::error_chain(&stuck.unwrap_err());
        assert!(why.contains("did not answer"), "{why}");
        assert!(dir.path().join("store.damaged").exists());
        board.call_timeout = CALL_TIMEOUT;
        put(&mut board, "new").unwrap();
        assert_eq!(board.get("a").unwrap().unwrap().value, b"new");
        drop(hold);
    }

    #[test]
    fn a_full_disk_is_told_and_touches_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let mut board = SledBoard::new(dir.path().to_owned());
        put(&mut board, "old").unwrap();
        board.min_free = u64::MAX;
        let why = zagent_config::error_chain(&board.get("a").unwrap_err());
        assert!(why.contains("are free"), "{why}");
        assert!(put(&mut board, "new").is_err());
        board.min_free = 0;
        assert_eq!(board.get("a").unwrap().unwrap().value, b"old");
    }
}
