//! Heartbeats in a sled store: what the node last said about itself, for whoever looks after a fall.
//!
//! Law: disposable. A store that does not open is moved aside and made anew; one that cannot be made stops nothing.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use crate::report::Report;

/// Memory that sled may take.
const CACHE: u64 = 1 << 20;
/// Heartbeats that are kept: an hour.
const KEEP: usize = 120;
/// A store never shrinks; one that is larger is begun anew.
const LARGE: u64 = 16 << 20;

/// The store.
#[derive(Debug)]
pub(super) struct Beats {
    dir: PathBuf,
    db: Option<sled::Db>,
}

impl Beats {
    pub(super) const fn new(dir: PathBuf) -> Self {
        Self { dir, db: None }
    }

    /// Keeps a heartbeat.
    pub(super) fn put(&mut self, report: &Report) -> Result<(), String> {
        // A damaged store can make sled panic as well as fail; the store that it was is not used again.
        let kept = catch_unwind(AssertUnwindSafe(|| self.try_put(report)));
        kept.unwrap_or_else(|_| {
            put_aside(&self.dir).map_err(|error| error.to_string())?;
            Err("sled fell over the store, which was put aside".into())
        })
    }

    fn try_put(&mut self, report: &Report) -> Result<(), String> {
        let db = match self.db.take() {
            Some(db) => db,
            None => self.open()?,
        };
        let bytes = serde_json::to_vec(report).map_err(|error| error.to_string())?;
        let key = report.updated_at.as_millisecond().to_be_bytes();
        let kept = db.insert(key, bytes).and_then(|_| {
            while db.len() > KEEP {
                db.pop_min()?;
            }
            db.flush()
        });
        match kept {
            Ok(_) if db.size_on_disk().is_ok_and(|size| size > LARGE) => {
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
    fn last(&self) -> Option<Report> {
        let (_, bytes) = self.db.as_ref()?.last().ok()??;
        serde_json::from_slice(&bytes).ok()
    }

    fn open(&self) -> Result<sled::Db, String> {
        match attempt(&self.dir) {
            Ok(db) => Ok(db),
            Err(Closed::Ours(why)) => Err(why),
            Err(Closed::Broken(why)) => {
                let aside = put_aside(&self.dir).map_err(|error| format!("{why}: {error}"))?;
                tracing::warn!(aside = %aside.display(), why, "the heartbeats are damaged and begin anew");
                attempt(&self.dir).map_err(|(Closed::Ours(why) | Closed::Broken(why))| why)
            }
        }
    }
}

fn put_aside(dir: &Path) -> io::Result<PathBuf> {
    let mut aside = dir.to_owned().into_os_string();
    aside.push(".damaged");
    let aside = PathBuf::from(aside);
    // What was put away before goes, so that a disk does not fill with them.
    let _ = std::fs::remove_dir_all(&aside);
    std::fs::rename(dir, &aside).map(|()| aside)
}

/// Why it did not open.
enum Closed {
    /// A new one would fare no better.
    Ours(String),
    /// It is broken.
    Broken(String),
}

fn attempt(dir: &Path) -> Result<sled::Db, Closed> {
    let config = sled::Config::default().path(dir).cache_capacity(CACHE).flush_every_ms(None);
    // A damaged store can make sled panic as well as fail.
    let opened = catch_unwind(AssertUnwindSafe(|| config.open()));
    let opened = opened.map_err(|_| Closed::Broken("sled fell over it".into()))?;
    opened.map_err(|error| match &error {
        sled::Error::Io(e) => match e.kind() {
            io::ErrorKind::PermissionDenied
            | io::ErrorKind::ReadOnlyFilesystem
            | io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::WouldBlock => Closed::Ours(e.to_string()),
            // sled tells a lock that is held only in words.
            _ if e.to_string().contains("could not acquire lock") => Closed::Ours(e.to_string()),
            _ => Closed::Broken(e.to_string()),
        },
        _ => Closed::Broken(error.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use jiff::Timestamp;

    use super::*;
    use crate::record::Component;
    use crate::report::Doing;

    fn report(second: i64) -> Report {
        Report {
            id: "web-01".parse().unwrap(),
            component: Component::Agent,
            version: "0.1.0".into(),
            revision: None,
            state: Doing::Idle,
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
    fn the_newest_are_kept_and_a_damaged_store_begins_anew() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("heartbeats");
        let mut beats = Beats::new(place.clone());
        for second in 0..200 {
            beats.put(&report(second)).unwrap();
        }
        assert_eq!(beats.last().unwrap(), report(199));
        assert_eq!(beats.db.as_ref().unwrap().len(), KEEP);
        drop(beats);
        std::fs::write(place.join("conf"), "no store at all").unwrap();
        let mut beats = Beats::new(place);
        beats.put(&report(7)).unwrap();
        assert_eq!(beats.last().unwrap(), report(7));
        assert!(dir.path().join("heartbeats.damaged").exists());
    }
}
