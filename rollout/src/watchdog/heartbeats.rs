//! Heartbeats in a sled store: the last state of the node, for an investigation after a crash.
//!
//! Law: disposable. A store that does not open is moved aside and replaced; a store that cannot be created stops
//! nothing.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use crate::report::NodeReport;

/// Memory that sled may take.
const CACHE_BYTES: u64 = 1 << 20;
/// How many heartbeats are kept: an hour.
const MAX_HEARTBEATS: usize = 120;
/// A store never shrinks; a larger one is replaced.
const MAX_STORE_BYTES: u64 = 16 << 20;

/// The store.
#[derive(Debug)]
pub(super) struct HeartbeatStore {
    dir: PathBuf,
    db: Option<sled::Db>,
}

impl HeartbeatStore {
    pub(super) const fn new(dir: PathBuf) -> Self {
        Self { dir, db: None }
    }

    /// Saves a heartbeat.
    pub(super) fn append(&mut self, report: &NodeReport) -> Result<(), String> {
        // With a damaged store, sled may panic or fail; that store is not used again.
        let kept = catch_unwind(AssertUnwindSafe(|| self.try_append(report)));
        kept.unwrap_or_else(|_| {
            move_aside(&self.dir).map_err(|error| error.to_string())?;
            Err("sled panicked on the store; the store was moved aside".into())
        })
    }

    fn try_append(&mut self, report: &NodeReport) -> Result<(), String> {
        let db = match self.db.take() {
            Some(db) => db,
            None => self.open()?,
        };
        let bytes = serde_json::to_vec(report).map_err(|error| error.to_string())?;
        let key = report.updated_at.as_millisecond().to_be_bytes();
        let kept = db.insert(key, bytes).and_then(|_| {
            while db.len() > MAX_HEARTBEATS {
                db.pop_min()?;
            }
            db.flush()
        });
        match kept {
            Ok(_) if db.size_on_disk().is_ok_and(|size| size > MAX_STORE_BYTES) => {
                drop(db);
                std::fs::remove_dir_all(&self.dir).map_err(|error| error.to_string())
            }
            Ok(_) => {
                self.db = Some(db);
                Ok(())
            }
            Err(error) => Err(error.to_string()),
        }
    }

    /// The newest one.
    #[cfg(test)]
    fn newest(&self) -> Option<NodeReport> {
        let (_, bytes) = self.db.as_ref()?.last().ok()??;
        serde_json::from_slice(&bytes).ok()
    }

    fn open(&self) -> Result<sled::Db, String> {
        match try_open(&self.dir) {
            Ok(db) => Ok(db),
            Err(StoreOpenError::LocalFault(why)) => Err(why),
            Err(StoreOpenError::Broken(why)) => {
                let aside = move_aside(&self.dir).map_err(|error| format!("{why}: {error}"))?;
                tracing::warn!(aside = %aside.display(), why, "the heartbeat store is damaged; starting a new one");
                try_open(&self.dir)
                    .map_err(|(StoreOpenError::LocalFault(why) | StoreOpenError::Broken(why))| why)
            }
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
        }
    }

    #[test]
    fn the_newest_heartbeats_are_kept_and_a_damaged_store_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("heartbeats");
        let mut beats = HeartbeatStore::new(place.clone());
        for second in 0..200 {
            beats.append(&report(second)).unwrap();
        }
        assert_eq!(beats.newest().unwrap(), report(199));
        assert_eq!(beats.db.as_ref().unwrap().len(), MAX_HEARTBEATS);
        drop(beats);
        std::fs::write(place.join("conf"), "no store at all").unwrap();
        let mut beats = HeartbeatStore::new(place);
        beats.append(&report(7)).unwrap();
        assert_eq!(beats.newest().unwrap(), report(7));
        assert!(dir.path().join("heartbeats.damaged").exists());
    }
}
