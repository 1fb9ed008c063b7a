//! Heartbeats in a sled store: the last state of the node, and what happened to the agent: for an investigation after a
//! crash, for crash loops that outlive a watchdog, and for when the node was last seen.
//!
//! Law: disposable, and never waited for. A store that does not open or does not answer is moved aside and
//! replaced; a full disk costs heartbeats and a warning, and nothing else (held by
//! `the_newest_heartbeats_are_kept_and_a_damaged_store_is_replaced`,
//! `a_store_that_does_not_answer_costs_heartbeats_and_is_replaced`, `a_full_disk_costs_heartbeats`).

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::life::LifeEvent;
use crate::report::NodeReport;
use crate::sled_call::{MIN_FREE_BYTES, NoAnswer, SledCall, check_space};

/// Memory that sled may take.
const CACHE_BYTES: u64 = 1 << 20;
/// How many heartbeats are kept: an hour.
const MAX_HEARTBEATS: usize = 120;
/// How many events are kept.
const MAX_EVENTS: usize = 500;
/// The tree of events.
const EVENTS: &str = "events";
/// How long a reader waits for the store.
const READ_PATIENCE: Duration = Duration::from_secs(2);
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
    /// Events that are not saved yet.
    unsaved: Vec<LifeEvent>,
    stuck: u32,
    min_free: u64,
    patience: Duration,
    stuck_after: Duration,
}

/// Everything that the store holds, oldest first.
#[derive(Debug, Default)]
pub(super) struct StoredLife {
    pub(super) beats: Vec<NodeReport>,
    pub(super) events: Vec<LifeEvent>,
}

impl StoredLife {
    /// The last sign of life.
    pub(super) fn last_seen(&self) -> Option<jiff::Timestamp> {
        let beat = self.beats.last().map(|beat| beat.updated_at);
        beat.max(self.events.last().map(|event| event.at))
    }
}

impl HeartbeatStore {
    pub(super) const fn new(dir: PathBuf) -> Self {
        Self {
            dir,
            db: None,
            pending: None,
            unsaved: Vec::new(),
            stuck: 0,
            min_free: MIN_FREE_BYTES,
            patience: PATIENCE,
            stuck_after: STUCK_AFTER,
        }
    }

    /// Saves a heartbeat, or says why not; in any case soon.
    pub(super) fn append(&mut self, report: &NodeReport) -> Result<(), String> {
        let report = report.clone();
        self.append_all(Some(report))
    }

    /// Saves an event, or keeps it for the next heartbeat.
    pub(super) fn note_event(&mut self, event: LifeEvent) {
        self.unsaved.push(event);
        // A full disk must not fill the memory.
        let surplus = self.unsaved.len().saturating_sub(MAX_EVENTS);
        self.unsaved.drain(..surplus);
        // Why it is not saved is told with the next heartbeat.
        let _ = self.append_all(None);
    }

    fn append_all(&mut self, report: Option<NodeReport>) -> Result<(), String> {
        let (dir, events) = (self.dir.clone(), std::mem::take(&mut self.unsaved));
        let saved = events.clone();
        let answer = self.append_with(move |db| append_report(&dir, db, report.as_ref(), &events));
        if answer.is_err() && self.pending.is_none() {
            self.unsaved = saved;
        }
        answer
    }

    /// Everything in the store and what is not saved yet; soon, or why not. A store that does not exist is empty.
    pub(super) fn read(&mut self) -> Result<StoredLife, String> {
        let (dir, unsaved) = (self.dir.clone(), self.unsaved.clone());
        if self.db.is_none() && !dir.exists() {
            return Ok(StoredLife { beats: Vec::new(), events: unsaved });
        }
        let (sender, receiver) = std::sync::mpsc::channel();
        let patience = std::mem::replace(&mut self.patience, READ_PATIENCE);
        let answer = self.append_with(move |db| read_store(&dir, db, &sender));
        self.patience = patience;
        answer?;
        let mut life: StoredLife = receiver.try_recv().map_err(|_| "sled has not answered yet".to_owned())?;
        life.events.extend(unsaved);
        Ok(life)
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

/// Opens the store if it is not open, and adds a heartbeat and events.
fn append_report(
    dir: &Path,
    db: Option<sled::Db>,
    report: Option<&NodeReport>,
    events: &[LifeEvent],
) -> Appended {
    let db = match db.map_or_else(|| open(dir), Ok) {
        Ok(db) => db,
        Err(why) => return (None, Err(why)),
    };
    let added = report.map_or(Ok(()), |report| try_append(&db, report));
    match added.and_then(|()| try_append_events(&db, events)) {
        Ok(()) if db.size_on_disk().is_ok_and(|size| size > MAX_STORE_BYTES) => {
            drop(db);
            (None, std::fs::remove_dir_all(dir).map_err(|error| error.to_string()))
        }
        Ok(()) => (Some(db), Ok(())),
        Err(why) => (None, Err(why)),
    }
}

fn try_append_events(db: &sled::Db, events: &[LifeEvent]) -> Result<(), String> {
    if events.is_empty() {
        return Ok(());
    }
    let failed = |error: sled::Error| error.to_string();
    let tree = db.open_tree(EVENTS).map_err(failed)?;
    for event in events {
        let bytes = serde_json::to_vec(event).map_err(|error| error.to_string())?;
        // Events of one moment must not replace each other.
        let number = db.generate_id().map_err(failed)?;
        let key = [event.at.as_millisecond().to_be_bytes(), number.to_be_bytes()].concat();
        tree.insert(key, bytes).map_err(failed)?;
        while tree.len() > MAX_EVENTS {
            tree.pop_min().map_err(failed)?;
        }
    }
    db.flush().map(drop).map_err(failed)
}

/// Opens the store if it is not open, and sends everything in it. What cannot be read is left out.
fn read_store(dir: &Path, db: Option<sled::Db>, answer: &std::sync::mpsc::Sender<StoredLife>) -> Appended {
    let db = match db.map_or_else(|| open(dir), Ok) {
        Ok(db) => db,
        Err(why) => return (None, Err(why)),
    };
    let beats = db.iter().values().flatten().filter_map(|bytes| serde_json::from_slice(&bytes).ok());
    let beats = beats.collect();
    let events = match db.open_tree(EVENTS) {
        Ok(tree) => tree.iter().values().flatten().filter_map(|b| serde_json::from_slice(&b).ok()).collect(),
        Err(error) => return (Some(db), Err(error.to_string())),
    };
    // The reader may have given up.
    let _ = answer.send(StoredLife { beats, events });
    (Some(db), Ok(()))
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

/// A heartbeat for tests.
#[cfg(test)]
pub(super) fn sample_report(second: i64) -> NodeReport {
    NodeReport {
        id: "web-01".parse().unwrap(),
        component: crate::record::Component::Agent,
        version: "0.1.0".into(),
        revision: None,
        state: crate::report::NodeActivity::Idle,
        taken: None,
        os: "linux".into(),
        arch: "x86_64".into(),
        facts: std::collections::BTreeMap::new(),
        updated_at: jiff::Timestamp::from_second(second).unwrap(),
        child: None,
        degraded: None,
        protocol: 1,
        hold: None,
        last_run: None,
        waits: Default::default(),
        stopped: None,
        rejected: Default::default(),
        failing_checks: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::life::LifeEventKind;
    use super::sample_report as report;
    use super::*;

    #[test]
    fn events_and_heartbeats_are_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("heartbeats");
        let mut beats = patient(place.clone());
        assert!(beats.read().unwrap().last_seen().is_none() && !place.exists(), "a look creates nothing");
        let event = |pid| LifeEvent {
            at: report(3).updated_at,
            version: "0.1.0".into(),
            kind: LifeEventKind::AgentStarted { pid },
        };
        beats.append(&report(1)).unwrap();
        beats.note_event(event(7));
        beats.note_event(event(8));
        drop(beats);
        let mut beats = patient(place);
        let life = beats.read().unwrap();
        assert_eq!((life.beats.len(), life.events.clone()), (1, vec![event(7), event(8)]));
        assert_eq!(life.last_seen(), Some(report(3).updated_at));
        // What cannot be saved is told all the same, and saved later.
        beats.min_free = u64::MAX;
        beats.note_event(event(9));
        assert_eq!(beats.unsaved, [event(9)]);
        beats.min_free = 0;
        beats.append(&report(4)).unwrap();
        assert!(beats.unsaved.is_empty());
        assert_eq!(beats.read().unwrap().events.len(), 3);
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
