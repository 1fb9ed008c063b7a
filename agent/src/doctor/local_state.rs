//! Local state of the agent: the current generation, the last run, and the holder of the lock.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{major, minor};
use zagent_cache::{Cache, CheckDepth};
use zagent_config::settings::Settings;

use super::{DoctorFinding, DoctorScope};
use zagent_config::error_chain;
use zagent_daemon::AgentMemory;
use zagent_daemon::damage::{OwnDamage, find_damage};
use zagent_daemon::watchdog::own_program;
use zagent_rollout::watchdog::file_problems;
use zagent_run::history::History;

pub(super) fn check_local_state(settings: &Settings, scope: &DoctorScope) -> Vec<DoctorFinding> {
    let mut findings = vec![check_generation(settings), check_last_run(settings)];
    findings.extend(check_damage(settings));
    findings.extend(check_lock_holder(&settings.paths().lock(), &scope.system));
    findings.extend(check_watchdog_files(settings, scope));
    findings
}

/// Files of the watchdog; nothing on a host where none ever ran.
fn check_watchdog_files(settings: &Settings, scope: &DoctorScope) -> Vec<DoctorFinding> {
    let paths = settings.paths();
    let is_used = [paths.watchdog(), paths.phase(), paths.phase_copy()].iter().any(|path| path.exists());
    let Some(built_in) = own_program().ok().filter(|_| is_used) else { return Vec::new() };
    let problems = file_problems(&paths, built_in, scope.now);
    if problems.is_empty() {
        return vec![DoctorFinding::ok("watchdog", "its files are undamaged")];
    }
    let hint = "the watchdog repairs its files when it starts; check the disk of this host, then what runs with \
                `zagent watchdog status`; the note ends when the next version is confirmed, or after a week";
    problems.into_iter().map(|problem| DoctorFinding::warn("watchdog", problem, hint)).collect()
}

fn check_generation(settings: &Settings) -> DoctorFinding {
    let paths = settings.paths();
    // Opening a cache creates its directories, and a check changes nothing.
    if !paths.generations().is_dir() {
        return DoctorFinding::ok("states", "nothing fetched yet");
    }
    let current = Cache::open(&paths, &settings.source).and_then(|cache| cache.current());
    match current {
        Ok(None) => DoctorFinding::ok("states", "nothing published yet"),
        Ok(Some(generation)) => match generation.check(CheckDepth::Full) {
            Ok(()) => {
                let record = generation.record();
                let what = format!("{} of {} verifies", record.short_revision(), record.source);
                DoctorFinding::ok("states", what)
            }
            Err(e) => {
                DoctorFinding::fail("states", error_chain(&e), "fetch it again with `zagent source sync`")
            }
        },
        Err(e) => DoctorFinding::fail("states", error_chain(&e), "fix it with `zagent source sync`"),
    }
}

/// The node key and the replay protection records. The cache has a check of its own.
fn check_damage(settings: &Settings) -> Vec<DoctorFinding> {
    let found = find_damage(settings.id.as_str(), &settings.paths(), &AgentMemory::default());
    let finding = |damage: OwnDamage| match damage.degraded {
        true => DoctorFinding::fail("records", damage.message, damage.hint),
        false => DoctorFinding::warn("records", damage.message, damage.hint),
    };
    found.into_iter().map(finding).collect()
}

fn check_last_run(settings: &Settings) -> DoctorFinding {
    let history = History::new(&settings.paths(), settings.run.keep);
    match history.last() {
        Ok(None) => DoctorFinding::ok("runs", "no runs yet"),
        Ok(Some(head)) => {
            let when = head.start().strftime("%Y-%m-%d %H:%M UTC").to_string();
            if head.success {
                return DoctorFinding::ok(
                    "runs",
                    format!("the last run, {}, started {when} and succeeded", head.run),
                );
            }
            let message = format!("the last run, {}, started {when} and failed", head.run);
            DoctorFinding::warn("runs", message, format!("zagent history {}", head.run))
        }
        Err(e) => DoctorFinding::warn(
            "runs",
            error_chain(&e),
            "delete `state/history` below the root: the next run creates it",
        ),
    }
}

/// Holder of the run lock, from the kernel's table: taking the lock to find out would block a run.
fn check_lock_holder(lock: &Path, system: &Path) -> Option<DoctorFinding> {
    let meta = lock.metadata().ok()?;
    let device = meta.dev();
    let id = format!("{:02x}:{:02x}:{}", major(device), minor(device), meta.ino());
    let table = std::fs::read_to_string(system.join("proc/locks")).ok()?;
    let pid = lock_holder_pid(&table, &id)?;
    let words = std::fs::read_to_string(lock).unwrap_or_default();
    let run = words.trim().split_once(' ').map(|(_, run)| format!(": {run}")).unwrap_or_default();
    Some(DoctorFinding::ok("lock", format!("held by process {pid}{run}")))
}

fn lock_holder_pid<'t>(table: &'t str, id: &str) -> Option<&'t str> {
    let fields = |line: &'t str| line.split_whitespace().collect::<Vec<_>>();
    let mut rows = table.lines().map(fields).filter(|row| !row.contains(&"->"));
    rows.find(|row| row.get(5) == Some(&id)).and_then(|row| row.get(4).copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lock_holder_is_read_from_the_kernel_table() {
        let table = "1: FLOCK  ADVISORY  WRITE 812 08:01:1234 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 9 08:01:1234 0 EOF\n";
        assert_eq!(lock_holder_pid(table, "08:01:1234"), Some("812"));
        assert_eq!(lock_holder_pid(table, "08:01:1235"), None);
    }
}
