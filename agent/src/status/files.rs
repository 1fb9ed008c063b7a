//! The files below a root in, what they tell without a daemon out.
//!
//! Law: nothing is made, locked or waited for. What cannot be read is named and leaves a gap, never a guess.

use std::error::Error;
use std::io;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use zagent_cache::{Cache, CacheError, Generation};
use zagent_config::paths::Paths;
use zagent_config::settings::{self, Settings};

use super::{Current, Entry, Paused, Pieces, Pinned, Quarantined, Reboot, Verdict, Window};
use crate::cycle::Course;
use crate::cycle::clock::Saved;
use crate::health;
use crate::operate::pause::Pause;
use crate::operate::pin::Pin;
use crate::operate::quarantine::Quarantine;
use crate::operate::reboot::{self, Host};
use crate::operate::windows::{self, Standing};
use crate::operate::{KeptError, kept};
use crate::report::chain;

/// What the files tell.
#[derive(Debug)]
pub struct Found {
    /// The pieces of a status; `unread` names the gaps.
    pub pieces: Pieces,
    /// True when the system did not let us read something.
    pub denied: bool,
}

/// Reads what the agent wrote about itself; `zone` is that of windows that name none.
#[must_use]
pub fn look(settings: &Settings, host: &Host, now: Timestamp, zone: &TimeZone) -> Found {
    let (paths, mut gaps) = (settings.paths(), Gaps::default());
    let pause = gaps.or_none(Pause::read(&paths, now), KeptError::is_permission);
    let pin = gaps.or_none(Pin::read(&paths), KeptError::is_permission);
    let quarantine = gaps.or_none(Quarantine::read(&paths), KeptError::is_permission);
    let course = gaps.or_none(Course::read(&paths), KeptError::is_permission);
    let need = gaps.or_none(reboot::needed(&paths, host), KeptError::is_permission);
    let saved = gaps.or_none(Saved::read(&paths.schedule()), KeptError::is_permission);
    let mut pieces = Pieces {
        node: settings.id.to_string(),
        now,
        memory: gaps.or_none(kept::read(&paths.memory()), KeptError::is_permission).unwrap_or_default(),
        current: gaps.or_none(current(&paths, &settings.source), is_denied).as_ref().map(Current::from),
        paused: pause.map(Paused::from),
        pinned: pin.map(Pinned::from),
        rollout: course.told(&settings.id),
        quarantined: quarantine.list().iter().map(Quarantined::from).collect(),
        window: Window::of(&settings.windows, now, zone),
        reboot: need.map(Reboot::from),
        ..Pieces::default()
    };
    pieces.health.clone_from(&pieces.memory.health);
    // Polls and runs are planned by a daemon; an entry of the schedule is written down.
    let named = |name: &String| settings.schedule.iter().any(|entry| entry.name == *name);
    let entries = saved.entries.into_iter().filter(|(name, _)| named(name));
    let first = entries.min_by_key(|(_, appointment)| appointment.at);
    pieces.next.entry = first.map(|(name, appointment)| Entry { name, at: appointment.at });
    pieces.unread = gaps.notes;
    Found { pieces, denied: gaps.denied }
}

#[derive(Default)]
struct Gaps {
    notes: Vec<String>,
    denied: bool,
}

impl Gaps {
    /// What was read, or nothing and a note that says why.
    fn or_none<T: Default, E: Error>(&mut self, read: Result<T, E>, is_denied: impl Fn(&E) -> bool) -> T {
        read.unwrap_or_else(|e| {
            self.denied |= is_denied(&e);
            self.notes.push(chain(&e));
            T::default()
        })
    }
}

fn is_denied(error: &CacheError) -> bool {
    matches!(error, CacheError::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied)
}

/// The current generation. A cache that was never filled is not opened, as that would make it.
fn current(paths: &Paths, source: &settings::Source) -> Result<Option<Generation>, CacheError> {
    match std::fs::symlink_metadata(paths.current()) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(CacheError::Io { act: "look at", path: paths.current(), source: e }),
        Ok(_) => Cache::open(paths, source)?.current(),
    }
}

impl From<&Generation> for Current {
    fn from(generation: &Generation) -> Self {
        let record = generation.record();
        Self {
            revision: record.revision.clone(),
            generation: generation.name().to_owned(),
            signed_by: record.signers.iter().map(|signer| signer.principal.clone()).collect(),
            serial: record.serial,
            committed: record.committed,
            published: record.published,
            source: record.source.clone(),
            branch: Some(record.line.clone()),
            expires: record.expires,
        }
    }
}

impl From<Pause> for Paused {
    fn from(pause: Pause) -> Self {
        Self { reason: pause.reason, by: Some(pause.by), since: pause.since, until: pause.until }
    }
}

impl From<Pin> for Pinned {
    fn from(pin: Pin) -> Self {
        Self { to: pin.to, reason: pin.reason, by: Some(pin.by), since: pin.since }
    }
}

impl From<&crate::operate::quarantine::Quarantined> for Quarantined {
    fn from(one: &crate::operate::quarantine::Quarantined) -> Self {
        Self { revision: one.revision.to_string(), since: one.since, message: one.reason.clone() }
    }
}

impl From<reboot::Need> for Reboot {
    fn from(need: reboot::Need) -> Self {
        Self { reason: need.reason, since: need.since, at: None }
    }
}

impl Verdict {
    /// A verdict of a round of checks that ended at a time.
    #[must_use]
    pub fn of(verdict: &health::Verdict, at: Timestamp) -> Self {
        let health::Verdict { name, required, ok, said, .. } = verdict;
        Self { name: name.clone(), required: *required, healthy: *ok, message: said.clone(), at }
    }
}

impl Window {
    /// Whether changes are allowed at a time.
    #[must_use]
    pub fn of(windows: &[settings::Window], now: Timestamp, zone: &TimeZone) -> Self {
        match windows::is_open(windows, now, zone) {
            Standing::Open { .. } if windows.is_empty() => Self::Always,
            Standing::Open { until } => Self::Open { until },
            Standing::Closed { opens } => Self::Closed { until: opens },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use zagent_config::settings::Location;

    use super::*;
    use crate::cycle::Memory;
    use crate::operate::pin::To;
    use crate::status::Status;
    use crate::status::samples::{self, OFFERED, ON, at, now};

    fn settings(root: &Path, more: &str) -> Settings {
        let file = root.join("zagent.yaml");
        std::fs::write(&file, format!("id: web-01\nroot: {}\n{more}", root.join("root").display())).unwrap();
        settings::load(&Location::File(file), [], &[], None).unwrap()
    }

    fn host(dir: &Path) -> Host {
        let (required, boot_id) = (dir.join("reboot-required"), dir.join("boot_id"));
        Host { required, boot_id, ..Host::default() }
    }

    #[test]
    fn a_node_without_files_is_fresh_and_stays_so() {
        let dir = tempfile::tempdir().unwrap();
        let settings = settings(dir.path(), "");
        let found = look(&settings, &host(dir.path()), now(), &TimeZone::UTC);
        assert_eq!(Status::gather(found.pieces), Status::gather(samples::fresh()));
        assert!(!found.denied && !settings.root.exists());
    }

    #[test]
    fn everything_that_is_written_down_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let windows =
            "windows: [{from: '22:00', to: '23:00', timezone: UTC}]\nschedule: {nightly: {every: 1d}}\n";
        let settings = settings(dir.path(), windows);
        let (paths, host) = (settings.paths(), host(dir.path()));
        let memory = Memory { drift: 3, ..samples::fine().memory };
        kept::write(&paths.memory(), &memory).unwrap();
        let pause = Pause { since: at("11:00:00"), until: None, reason: None, by: "root".into() };
        pause.write(&paths).unwrap();
        let to = To::Commit(ON.parse().unwrap());
        Pin { to: to.clone(), since: at("11:00:00"), by: "root".into(), reason: None }.write(&paths).unwrap();
        let bad = crate::operate::quarantine::Quarantined {
            revision: OFFERED.parse().unwrap(),
            since: at("11:00:00"),
            reason: "health check web failed".into(),
            run: "20261116T115600-3f9a7".into(),
        };
        Quarantine::add(&paths, bad).unwrap();
        reboot::ask(&paths, &host, "a new kernel", at("11:00:00")).unwrap();
        let found = look(&settings, &host, now(), &TimeZone::UTC);
        assert_eq!(found.pieces.unread, Vec::<String>::new());
        let status = Status::gather(found.pieces);
        assert_eq!((status.drift, status.last_run), (3, memory.last_run));
        assert_eq!(status.window, Window::Closed { until: Some(at("22:00:00")) });
        assert_eq!(status.paused.unwrap().by.as_deref(), Some("root"));
        assert_eq!((status.pinned.unwrap().to, status.reboot.unwrap().reason), (to, "a new kernel".into()));
        assert_eq!(status.quarantined[0].revision, OFFERED);
    }

    #[test]
    fn damage_is_a_gap_with_a_name() {
        let dir = tempfile::tempdir().unwrap();
        let settings = settings(dir.path(), "");
        let paths = settings.paths();
        std::fs::create_dir_all(paths.memory().parent().unwrap()).unwrap();
        std::fs::create_dir_all(paths.current().parent().unwrap()).unwrap();
        for path in [paths.memory(), paths.pause(), paths.quarantine()] {
            std::fs::write(path, "{").unwrap();
        }
        std::os::unix::fs::symlink("generations/gone", paths.current()).unwrap();
        let unread = look(&settings, &host(dir.path()), now(), &TimeZone::UTC).pieces.unread;
        assert_eq!(unread.len(), 4, "{unread:#?}");
        for name in ["state/memory", "state/pause", "state/quarantine", "`gone`"] {
            assert!(unread.iter().any(|note| note.contains(name)), "{name}: {unread:#?}");
        }
    }
}
