//! Heartbeats in a sled store: the last state of the node, for an investigation after a crash.
//!
//! Law: disposable, and never waited for. A store that does not open or does not answer is moved aside and
//! replaced; a full disk costs heartbeats and a warning, and nothing else (held by
//! `the_newest_heartbeats_are_kept_and_a_damaged_store_is_replaced`,
//! `a_store_that_does_not_answer_costs_heartbeats_and_is_replaced`, `a_full_disk_costs_heartbeats`).

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::report::NodeReport;
use crate::sled_call::{MIN_FREE_BYTES, NoAnswer, SledCall, check_space};

/// Memory that sled may take.
const CACHE_BYTES: u64 = 1 << 20;
/// How many heartbeats are kept: an hour.
const MAX_HEARTBEATS: usize = 120;
/// A store never shrinks; a larger one is replaced.
const MAX_STORE_BYTES: u64 = 16 << 20;
/// How long the watchdog waits for a heartbeat to be saved; it is usually done in a millisecond.
const PATIENCE: Duration = Duration::from_millis(500);
/// When a store is considered stuck.
const STUCK_AFTER: Duration = Duration::from_secs(60);
/// How many stores may get stuck: each leaves threads behind, which end with the watchdog.
const MAX_STUCK: u32 = 3;

/// What a call gives back: the open store, and the result.
type Appended = (Option<sled::Db>, Result<(), String>);

/// The store.
#[derive(Debug)]
pub(super) struct HeartbeatStore {
    dir: PathBuf,
    db: Option<sled::Db>,
    pending: Option<SledCall<Appended>>,
    stuck: u32,
    min_free: u64,
    patience: Duration,
    stuck_after: Duration,
}

impl HeartbeatStore {
    pub(super) const fn new(dir: PathBuf) -> Self {
        Self {
            dir,
            db: None,
            pending: None,
            stuck: 0,
            min_free: MIN_FREE_BYTES,
            patience: PATIENCE,
            stuck_after: STUCK_AFTER,
        }
    }

    /// Saves a heartbeat, or says why not; in any case soon.
    pub(super) fn append(&mut self, report: &NodeReport) -> Result<(), String> {
        let (dir, report) = (self.dir.clone(), report.clone());
        self.append_with(move |db| append_report(&dir, db, &report))
    }

    fn append_with(
        &mut self,
        act: impl FnOnce(Option<sled::Db>) -> Appended + Send + 'static,
    ) -> Result<(), String> {
        if let Some(pending) = self.pending.take() {
            self.settle(pending, Duration::ZERO)?;
        }
        if self.stuck >= MAX_STUCK {
            return Err(format!("sled did not answer {MAX_STUCK} times; restart the watchdog to try again"));
        }
        check_space(&self.dir, self.min_free).map_err(|error| error.to_string())?;
        let db = self.db.take();
        self.settle(SledCall::start(move || act(db)), self.patience)
    }

    /// Takes the answer of a call. One that is not there yet is looked for at the next heartbeat.
    fn settle(&mut self, call: SledCall<Appended>, patience: Duration) -> Result<(), String> {
        match call.wait(patience) {
            Ok((db, result)) => {
                self.db = db;
                result
            }
            Err(NoAnswer::Panicked) => {
                move_aside(&self.dir).map_err(|error| error.to_string())?;
                Err("sled panicked on the store; the store was moved aside".into())
            }
            Err(NoAnswer::Waiting) if call.age() < self.stuck_after => {
                self.pending = Some(call);
                Err("sled has not answered yet".into())
            }
            Err(NoAnswer::Waiting) => {
                // Its thread is left behind: nothing ends it but the end of the process.
                self.stuck += 1;
                move_aside(&self.dir).map_err(|error| error.to_string())?;
                let seconds = self.stuck_after.as_secs();
                Err(format!("sled did not answer within {seconds} s; the store was moved aside"))
            }
        }
    }

    /// The newest one.
    #[cfg(test)]
    fn newest(&self) -> Option<NodeReport> {
        let (_, bytes) = self.db.as_ref()?.last().ok()??;
        serde_json::from_slice(&bytes).ok()
    }
}

/// Opens the store if it is not open, and adds a heartbeat.
fn append_report(dir: &Path, db: Option<sled::Db>, report: &NodeReport) -> Appended {
    let db = match db.map_or_else(|| open(dir), Ok) {
        Ok(db) => db,
        Err(why) => return (None, Err(why)),
    };
    match try_append(&db, report) {
        Ok(()) if db.size_on_disk().is_ok_and(|size| size > MAX_STORE_BYTES) => {
            drop(db);
            (None, std::fs::remove_dir_all(dir).map_err(|error| error.to_string()))
        }
        Ok(()) => (Some(db), Ok(())),
        Err(why) => (None, Err(why)),
    }
}

fn try_append(db: &sled::Db, report: &NodeReport) -> Result<(), String> {
    let bytes = serde_json::to_vec(report).map_err(|error| error.to_string())?;
    let key = report.updated_at.as_millisecond().to_be_bytes();
    let kept = db.insert(key, bytes).and_then(|_| {
        while db.len() > MAX_HEARTBEATS {
            db.pop_min()?;
        }
        db.flush()
    });
    kept.map(drop).map_err(|error| error.to_string())
}

fn open(dir: &Path) -> Result<sled::Db, String> {
    match try_open(dir) {
        Ok(db) => Ok(db),
        Err(StoreOpenError::LocalFault(why)) => Err(why),
        Err(StoreOpenError::Broken(why)) => {
            let aside = move_aside(dir).map_err(|error| format!("{why}: {error}"))?;
            tracing::warn!(aside = %aside.display(), why, "the heartbeat store is damaged; starting a new one");
            try_open(dir).map_err(|(StoreOpenError::LocalFault(why) | StoreOpenError::Broken(why))| why)
        }
    }
}

fn move_aside(dir: &Path) -> io::Result<PathBuf> {
    let mut aside = dir.to_owned().into_os_string();
    aside.push(".damaged");
    let aside = PathBuf::from(aside);
    // Earlier moved stores are deleted, so that they do not fill the disk.
    let _ = std::fs::remove_dir_all(&aside);
    std::fs::rename(dir, &aside).map(|()| aside)
}

/// Why it did not open.
enum StoreOpenError {
    /// A new store would fail too.
    LocalFault(String),
    /// It is broken.
    Broken(String),
}

fn try_open(dir: &Path) -> Result<sled::Db, StoreOpenError> {
    let config = sled::Config::default().path(dir).cache_capacity(CACHE_BYTES).flush_every_ms(None);
    // With a damaged store, sled may panic or fail.
    let opened = catch_unwind(AssertUnwindSafe(|| config.open()));
    let opened = opened.map_err(|_| StoreOpenError::Broken("sled panicked on it".into()))?;
    opened.map_err(|error| match &error {
        sled::Error::Io(e) => match e.kind() {
            io::ErrorKind::PermissionDenied
            | io::ErrorKind::ReadOnlyFilesystem
            | io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::WouldBlock => StoreOpenError::LocalFault(e.to_string()),
            // sled reports a held lock only as text.
            _ if e.to_string().contains("could not acquire lock") => {
                StoreOpenError::LocalFault(e.to_string())
            }
            _ => StoreOpenError::Broken(e.to_string()),
        },
        _ => StoreOpenError::Broken(error.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use jiff::Timestamp;

    use super::*;
    use crate::record::Component;
    use crate::report::NodeActivity;

    fn report(second: i64) -> NodeReport {
        NodeReport {
            id: "web-01".parse().unwrap(),
            component: Component::Agent,
            version: "0.1.0".into(),
            revision: None,
            state: NodeActivity::Idle,
            taken: None,
            os: "linux".into(),
            arch: "x86_64".into(),
            facts: BTreeMap::new(),
            updated_at: Timestamp::from_second(second).unwrap(),
            child: None,
            degraded: None,
            protocol: 1,
            hold: None,
            last_run: None,
            waits: Default::default(),
        }
    }

    /// A store on a machine that may be busy.
    fn patient(dir: PathBuf) -> HeartbeatStore {
        HeartbeatStore { patience: Duration::from_secs(60), ..HeartbeatStore::new(dir) }
    }

    #[test]
    fn the_newest_heartbeats_are_kept_and_a_damaged_store_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("heartbeats");
        let mut beats = patient(place.clone());
        for second in 0..200 {
            beats.append(&report(second)).unwrap();
        }
        assert_eq!(beats.newest().unwrap(), report(199));
        assert_eq!(beats.db.as_ref().unwrap().len(), MAX_HEARTBEATS);
        drop(beats);
        std::fs::write(place.join("conf"), "no store at all").unwrap();
        let mut beats = patient(place);
        beats.append(&report(7)).unwrap();
        assert_eq!(beats.newest().unwrap(), report(7));
        assert!(dir.path().join("heartbeats.damaged").exists());
    }

    #[test]
    fn a_store_that_does_not_answer_costs_heartbeats_and_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("heartbeats");
        let mut beats = HeartbeatStore::new(place.clone());
        beats.patience = Duration::ZERO;
        std::fs::create_dir(&place).unwrap();
        let (hold, held) = std::sync::mpsc::channel::<()>();
        let stuck = move |_| {
            let _ = held.recv();
            (None, Ok(()))
        };
        assert_eq!(beats.append_with(stuck), Err("sled has not answered yet".into()));
        assert_eq!(beats.append(&report(1)), Err("sled has not answered yet".into()));
        assert!(place.exists());
        beats.stuck_after = Duration::ZERO;
        let told = beats.append(&report(2)).unwrap_err();
        assert!(told.contains("moved aside") && !place.exists(), "{told}");
        beats.patience = Duration::from_secs(60);
        beats.append(&report(3)).unwrap();
        assert_eq!(beats.newest().unwrap(), report(3));
        // Some stores may get stuck, then no more threads are left behind.
        beats.stuck = MAX_STUCK;
        assert!(beats.append(&report(4)).unwrap_err().contains("restart the watchdog"));
        drop(hold);
    }

    #[test]
    fn a_full_disk_costs_heartbeats() {
        let dir = tempfile::tempdir().unwrap();
        let mut beats = HeartbeatStore::new(dir.path().join("heartbeats"));
        beats.min_free = u64::MAX;
        assert!(beats.append(&report(1)).unwrap_err().contains("are free"));
        assert!(!dir.path().join("heartbeats").exists());
        beats.min_free = 0;
        beats.patience = Duration::from_secs(60);
        beats.append(&report(2)).unwrap();
    }
}
