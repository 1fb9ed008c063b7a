//! The host itself: its identity, its memory, and the unit that starts the agent.

use std::collections::BTreeMap;

use super::{DoctorFinding, DoctorScope, program_output};
use crate::systemd::{DAEMON, TIMER, UNITS, WATCHDOG};
use zagent_config::sorted::CollectSorted;

/// Memory below which a run of a large tree may not fit.
const LOW_MEGABYTES: u64 = 64;

pub(super) fn check_host(scope: &DoctorScope) -> Vec<DoctorFinding> {
    vec![check_machine_id(scope), check_memory(scope)]
}

/// The machine ID decides when this host polls: two hosts with the same ID poll at the same time.
fn check_machine_id(scope: &DoctorScope) -> DoctorFinding {
    let path = scope.system.join("etc/machine-id");
    let id = std::fs::read_to_string(&path).unwrap_or_default();
    let id = id.trim();
    if id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit()) {
        return DoctorFinding::ok("machine", format!("id {}…", &id[..8]));
    }
    let message = format!(
        "{} holds no ID: hosts cloned from one image would all poll at the same time",
        path.display()
    );
    DoctorFinding::warn("machine", message, "systemd-machine-id-setup")
}

fn check_memory(scope: &DoctorScope) -> DoctorFinding {
    let text = std::fs::read_to_string(scope.system.join("proc/meminfo")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kilobytes = line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok());
    match kilobytes.map(|kb| kb / 1024) {
        Some(mb) if mb < LOW_MEGABYTES => DoctorFinding::warn(
            "memory",
            format!("{mb} MB available"),
            "free memory: the kernel may kill a run",
        ),
        Some(mb) => DoctorFinding::ok("memory", format!("{mb} MB available")),
        None => DoctorFinding::ok("memory", "unknown: the kernel does not report it"),
    }
}

/// Checks the unit that starts the agent.
pub(super) fn check_units(scope: &DoctorScope) -> Vec<DoctorFinding> {
    if !scope.system.join("run/systemd/system").is_dir() {
        let message = "systemd is not running: start `zagent run` with the service manager of this host";
        return vec![DoctorFinding::ok("systemd", message)];
    }
    let [one, two, three] = UNITS;
    let said = program_output(
        "systemctl",
        &["show", "--property=Id,LoadState,ActiveState,UnitFileState", one, two, three],
    );
    match said {
        Some(text) => vec![judge_units(&text)],
        None => {
            vec![DoctorFinding::warn("systemd", "systemctl does not answer", "check `systemctl status`")]
        }
    }
}

/// Evaluates blocks of `key=value`, one per unit.
fn judge_units(text: &str) -> DoctorFinding {
    let mut units: BTreeMap<&str, BTreeMap<&str, &str>> = BTreeMap::new();
    for block in text.split("\n\n") {
        let values: BTreeMap<&str, &str> = block.lines().filter_map(|line| line.split_once('=')).into_map();
        if let Some(id) = values.get("Id") {
            units.insert(id, values);
        }
    }
    let is = |unit: &str, key: &str, value: &str| units.get(unit).is_some_and(|u| u.get(key) == Some(&value));
    let enabled = |unit: &str| is(unit, "UnitFileState", "enabled");
    let active = |unit: &str| is(unit, "ActiveState", "active");
    let others = format!("(or {WATCHDOG}, or {TIMER})");
    match UNITS.into_iter().filter(|unit| enabled(unit)).collect::<Vec<_>>().as_slice() {
        [unit] if active(unit) => DoctorFinding::ok("systemd", format!("{unit} is enabled and active")),
        [unit] => {
            let state = units.get(unit).and_then(|u| u.get("ActiveState")).copied().unwrap_or("unknown");
            DoctorFinding::fail(
                "systemd",
                format!("{unit} is enabled and {state}"),
                format!("systemctl status {unit}"),
            )
        }
        [] if UNITS.into_iter().any(active) => {
            let message = "the agent is running, but nothing starts it after a reboot";
            DoctorFinding::warn("systemd", message, format!("systemctl enable {DAEMON} {others}"))
        }
        [] => {
            let message = "nothing starts the agent on this host";
            DoctorFinding::warn("systemd", message, format!("systemctl enable --now {DAEMON} {others}"))
        }
        [first, .., last] => {
            let message = format!("{first} and {last} are both enabled, but each stops the other");
            DoctorFinding::fail(
                "systemd",
                message,
                format!("systemctl disable --now {last}, or the same for {first}"),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::DoctorStatus;
    use super::*;

    fn told(daemon: (&str, &str), timer: (&str, &str)) -> DoctorFinding {
        let block = |id: &str, (file, active): (&str, &str)| {
            format!("Id={id}\nLoadState=loaded\nActiveState={active}\nUnitFileState={file}\n")
        };
        judge_units(&format!("{}\n{}", block(DAEMON, daemon), block(TIMER, timer)))
    }

    #[test]
    fn exactly_one_unit_should_be_enabled() {
        let (on, off) = (("enabled", "active"), ("disabled", "inactive"));
        assert_eq!(told(on, off).verdict, DoctorStatus::Ok);
        assert_eq!(told(off, on).verdict, DoctorStatus::Ok);
        assert_eq!(told(on, on).verdict, DoctorStatus::Fail);
        assert_eq!(told(off, off).verdict, DoctorStatus::Warn);
        assert!(told(("disabled", "active"), off).message.contains("after a reboot"));
        let failed = told(("enabled", "failed"), off);
        assert_eq!((failed.verdict, failed.message.ends_with("failed")), (DoctorStatus::Fail, true));
        assert_eq!(judge_units("").verdict, DoctorStatus::Warn);
        let watchdog = format!("Id={WATCHDOG}\nActiveState=active\nUnitFileState=enabled\n");
        assert_eq!(judge_units(&watchdog).verdict, DoctorStatus::Ok);
        let both =
            judge_units(&format!("{watchdog}\nId={DAEMON}\nActiveState=inactive\nUnitFileState=enabled\n"));
        assert_eq!(both.verdict, DoctorStatus::Fail);
    }

    /// Keys that systemd 247 knows, the oldest of the supported distributions; a newer one warns about none of them.
    const KNOWN_KEYS: &[&str] = &[
        "AccuracySec",
        "After",
        "Conflicts",
        "Description",
        "Documentation",
        "EnvironmentFile",
        "ExecReload",
        "ExecStart",
        "FixedRandomDelay",
        "KeyringMode",
        "KillMode",
        "LimitCORE",
        "LockPersonality",
        "NotifyAccess",
        "OOMPolicy",
        "OOMScoreAdjust",
        "OnBootSec",
        "OnUnitActiveSec",
        "RandomizedDelaySec",
        "Restart",
        "RestartSec",
        "RestrictRealtime",
        "StartLimitIntervalSec",
        "StateDirectory",
        "StateDirectoryMode",
        "SuccessExitStatus",
        "SystemCallErrorNumber",
        "SystemCallFilter",
        "TimeoutStartSec",
        "TimeoutStopSec",
        "Type",
        "UMask",
        "WantedBy",
        "Wants",
        "WatchdogSec",
    ];

    #[test]
    fn units_use_only_keys_that_every_supported_systemd_knows() {
        let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../dist/systemd");
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            let keys =
                text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('='));
            for (key, _) in keys {
                assert!(KNOWN_KEYS.contains(&key), "{}: {key}", path.display());
            }
        }
    }

    #[test]
    fn a_missing_machine_id_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let scope =
            DoctorScope { offline: true, now: jiff::Timestamp::UNIX_EPOCH, system: dir.path().into() };
        assert_eq!(check_machine_id(&scope).verdict, DoctorStatus::Warn);
        std::fs::create_dir(dir.path().join("etc")).unwrap();
        std::fs::write(dir.path().join("etc/machine-id"), "0123456789abcdef0123456789abcdef\n").unwrap();
        assert_eq!(check_machine_id(&scope), DoctorFinding::ok("machine", "id 01234567…"));
        assert!(check_units(&scope)[0].message.contains("systemd is not running"));
        std::fs::create_dir(dir.path().join("proc")).unwrap();
        std::fs::write(dir.path().join("proc/meminfo"), "MemAvailable:   20480 kB\n").unwrap();
        assert_eq!(check_memory(&scope).verdict, DoctorStatus::Warn);
    }
}
