//! Files below a root in, status without a daemon out.
//!
//! Law: it creates, locks and waits for nothing. What cannot be read is named as a gap and never guessed (held by
//! `a_node_without_files_is_fresh_and_is_not_changed`, `damage_is_reported_as_a_gap`).

use std::error::Error;
use std::io;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use zagent_cache::{Cache, CacheError, Generation};
use zagent_config::paths::Paths;
use zagent_config::settings::{self, Settings};

use super::{
    CurrentGeneration, PauseStatus, PinStatus, QuarantineStatus, RebootStatus, ScheduledEntry, SpaceStatus,
    StatusInputs, WindowStatus,
};
use crate::damage::find_damage;
use crate::operator::pause::Pause;
use crate::operator::pin::NodePin;
use crate::operator::quarantine::Quarantine;
use crate::operator::windows;
use crate::operator::windows::WindowState;
use crate::scheduler::SchedulerState;
use crate::space::SpaceUse;
use crate::trust_warnings::unsigned_warnings;
use crate::{LastRun, RolloutState};
use zagent_config::disk_space::free_bytes;
use zagent_config::error_chain;
use zagent_config::json_file;
use zagent_config::json_file::JsonFileError;
use zagent_host::reboot;
use zagent_host::reboot::RebootHost;
use zagent_rollout::watchdog::file_problems;
use zagent_run::history::History;

/// Status read from files.
#[derive(Debug)]
pub struct OfflineStatus {
    /// Inputs of a status; `unread` names the gaps.
    pub inputs: StatusInputs,
    /// True when a file could not be read for lack of permission.
    pub denied: bool,
}

/// Reads the agent's files; `zone` applies to windows without a zone.
#[must_use]
pub fn read_offline(
    settings: &Settings,
    host: &RebootHost,
    now: Timestamp,
    zone: &TimeZone,
) -> OfflineStatus {
    let (paths, mut gaps) = (settings.paths(), ReadGaps::default());
    let pause = gaps.or_default(Pause::read(&paths, now), JsonFileError::is_permission);
    let pin = gaps.or_default(NodePin::read(&paths), JsonFileError::is_permission);
    let quarantine = gaps.or_default(Quarantine::read(&paths), JsonFileError::is_permission);
    let course = gaps.or_default(RolloutState::read(&paths), JsonFileError::is_permission);
    let need = gaps.or_default(reboot::reboot_needed(&paths, host), JsonFileError::is_permission);
    let saved = gaps.or_default(SchedulerState::read(&paths.schedule()), JsonFileError::is_permission);
    let mut inputs = StatusInputs {
        node: settings.id.to_string(),
        now,
        audit: settings.run.mode == settings::ApplyMode::Audit,
        orphans: zagent_run::orphan_count(&paths),
        memory: gaps
            .or_default(json_file::read(&paths.memory()), JsonFileError::is_permission)
            .unwrap_or_default(),
        current: gaps
            .or_default(current_generation(&paths, &settings.source), is_denied)
            .as_ref()
            .map(CurrentGeneration::from),
        paused: pause.map(PauseStatus::from),
        pinned: pin.map(PinStatus::from),
        rollout: course.rollout_status(&settings.id),
        quarantined: quarantine.list().iter().map(QuarantineStatus::from).collect(),
        window: WindowStatus::at_time(&settings.windows, now, zone),
        reboot: need.map(RebootStatus::from),
        trust: unsigned_warnings(settings),
        watchdog: crate::watchdog::own_program()
            .map(|built_in| file_problems(&paths, built_in, now))
            .unwrap_or_default(),
        ..StatusInputs::default()
    };
    inputs.health.clone_from(&inputs.memory.health);
    inputs.killed = killed_run(settings);
    inputs.damaged = find_damage(settings.id.as_str(), &paths, &inputs.memory);
    let counted = gaps.or_default(SpaceUse::read(&paths), JsonFileError::is_permission);
    inputs.space = Some(SpaceStatus {
        used: counted.map(|counted| counted.used),
        at: counted.map(|counted| counted.at),
        limit: settings.keep_bytes,
        free: free_bytes(&settings.root).ok(),
    });
    // Polls and runs are planned by a daemon; a schedule entry is saved on disk.
    let named = |name: &String| settings.schedule.iter().any(|entry| entry.name == *name);
    let entries = saved.entries.into_iter().filter(|(name, _)| named(name));
    let first = entries.min_by_key(|(_, appointment)| appointment.at);
    inputs.next.entry = first.map(|(name, appointment)| ScheduledEntry { name, at: appointment.at });
    inputs.unread = gaps.notes;
    OfflineStatus { inputs, denied: gaps.denied }
}

/// The newest run, when its process was killed: the memory of the agent knows only runs that ended.
fn killed_run(settings: &Settings) -> Option<LastRun> {
    let head = History::new(&settings.paths(), settings.run.keep).last().ok()??;
    head.killed.then(|| LastRun {
        at: head.start(),
        errors: vec!["its process was killed before the run ended".into()],
        run: head.run,
        revision: head.revision,
        trigger: head.trigger,
        duration_ms: 0,
        success: false,
        canceled: false,
        counts: Default::default(),
        applied: Some(String::new()),
    })
}

#[derive(Default)]
struct ReadGaps {
    notes: Vec<String>,
    denied: bool,
}

impl ReadGaps {
    /// The value, or the default plus a note with the reason.
    fn or_default<T: Default, E: Error>(&mut self, read: Result<T, E>, is_denied: impl Fn(&E) -> bool) -> T {
        read.unwrap_or_else(|e| {
            self.denied |= is_denied(&e);
            self.notes.push(error_chain(&e));
            T::default()
        })
    }
}

fn is_denied(error: &CacheError) -> bool {
    matches!(error, CacheError::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied)
}

/// The current generation. An empty cache is not opened, because that would create it.
fn current_generation(
    paths: &Paths,
    source: &settings::SourceSettings,
) -> Result<Option<Generation>, CacheError> {
    match std::fs::symlink_metadata(paths.current()) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(CacheError::Io { act: "inspect", path: paths.current(), source: e }),
        Ok(_) => Cache::open(paths, source)?.current(),
    }
}

impl From<&Generation> for CurrentGeneration {
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

impl From<Pause> for PauseStatus {
    fn from(pause: Pause) -> Self {
        Self { reason: pause.reason, by: Some(pause.by), since: pause.since, until: pause.until }
    }
}

impl From<NodePin> for PinStatus {
    fn from(pin: NodePin) -> Self {
        Self { to: pin.to, reason: pin.reason, by: Some(pin.by), since: pin.since }
    }
}

impl From<&crate::operator::quarantine::QuarantinedRevision> for QuarantineStatus {
    fn from(one: &crate::operator::quarantine::QuarantinedRevision) -> Self {
        Self { revision: one.revision.to_string(), since: one.since, message: one.reason.clone() }
    }
}

impl From<reboot::RebootNeed> for RebootStatus {
    fn from(need: reboot::RebootNeed) -> Self {
        Self { reason: need.reason, since: need.since, at: None }
    }
}

impl WindowStatus {
    /// Whether changes are allowed at a time.
    #[must_use]
    pub(crate) fn at_time(windows: &[settings::MaintenanceWindow], now: Timestamp, zone: &TimeZone) -> Self {
        match windows::window_state(windows, now, zone) {
            WindowState::Open { .. } if windows.is_empty() => Self::Always,
            WindowState::Open { until } => Self::Open { until },
            WindowState::Closed { opens } => Self::Closed { until: opens },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use zagent_config::settings::ConfigLocation;

    use super::*;
    use crate::AgentMemory;
    use crate::operator::pin::PinTarget;
    use crate::status::AgentStatus;
    use crate::status::samples;
    use crate::status::samples::{OFFERED, ON, at, now};

    fn settings(root: &Path, more: &str) -> Settings {
        let file = root.join("zagent.yaml");
        std::fs::write(&file, format!("id: web-01\nroot: {}\n{more}", root.join("root").display())).unwrap();
        settings::load(&ConfigLocation::File(file), [], &[], None).unwrap()
    }

    fn host(dir: &Path) -> RebootHost {
        let (required, boot_id) = (dir.join("reboot-required"), dir.join("boot_id"));
        RebootHost { required, boot_id, ..RebootHost::default() }
    }

    #[test]
    fn a_node_without_files_is_fresh_and_is_not_changed() {
        let dir = tempfile::tempdir().unwrap();
        let settings = settings(dir.path(), "");
        let found = read_offline(&settings, &host(dir.path()), now(), &TimeZone::UTC);
        let space = found.inputs.space;
        assert!(space.is_some_and(|space| space.used.is_none() && space.free.is_some()), "{space:?}");
        let fresh = StatusInputs { space, ..samples::fresh() };
        assert_eq!(AgentStatus::from_inputs(found.inputs), AgentStatus::from_inputs(fresh));
        assert!(!found.denied && !settings.root.exists());
    }

    #[test]
    fn everything_saved_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let windows =
            "windows: [{from: '22:00', to: '23:00', timezone: UTC}]\nschedule: {nightly: {every: 1d}}\n";
        let settings = settings(dir.path(), windows);
        let (paths, host) = (settings.paths(), host(dir.path()));
        let memory = AgentMemory { drift: 3, ..samples::fine().memory };
        json_file::write(&paths.memory(), &memory).unwrap();
        let pause = Pause { since: at("11:00:00"), until: None, reason: None, by: "root".into() };
        pause.write(&paths).unwrap();
        let to = PinTarget::Commit(ON.parse().unwrap());
        NodePin { to: to.clone(), since: at("11:00:00"), by: "root".into(), reason: None }
            .write(&paths)
            .unwrap();
        let bad = crate::operator::quarantine::QuarantinedRevision {
            revision: OFFERED.parse().unwrap(),
            since: at("11:00:00"),
            reason: "health check web failed".into(),
            run: "20261116T115600-3f9a7".into(),
        };
        Quarantine::add(&paths, bad).unwrap();
        reboot::request_reboot(&paths, &host, "a new kernel", at("11:00:00")).unwrap();
        let found = read_offline(&settings, &host, now(), &TimeZone::UTC);
        assert_eq!(found.inputs.unread, Vec::<String>::new());
        let status = AgentStatus::from_inputs(found.inputs);
        assert_eq!((status.drift, status.last_run), (3, memory.last_run));
        assert_eq!(status.window, WindowStatus::Closed { until: Some(at("22:00:00")) });
        assert_eq!(status.paused.unwrap().by.as_deref(), Some("root"));
        assert_eq!((status.pinned.unwrap().to, status.reboot.unwrap().reason), (to, "a new kernel".into()));
        assert_eq!(status.quarantined[0].revision, OFFERED);
    }

    #[test]
    fn damage_is_reported_as_a_gap() {
        let dir = tempfile::tempdir().unwrap();
        let settings = settings(dir.path(), "");
        let paths = settings.paths();
        std::fs::create_dir_all(paths.memory().parent().unwrap()).unwrap();
        std::fs::create_dir_all(paths.current().parent().unwrap()).unwrap();
        for path in [paths.memory(), paths.pause(), paths.quarantine()] {
            std::fs::write(path, "{").unwrap();
        }
        std::os::unix::fs::symlink("generations/gone", paths.current()).unwrap();
        let unread = read_offline(&settings, &host(dir.path()), now(), &TimeZone::UTC).inputs.unread;
        assert_eq!(unread.len(), 4, "{unread:#?}");
        for name in ["state/memory", "state/pause", "state/quarantine", "`gone`"] {
            assert!(unread.iter().any(|note| note.contains(name)), "{name}: {unread:#?}");
        }
    }
}
