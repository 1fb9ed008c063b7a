//! The host itself: who it is, how much memory it has, and what starts the agent on it.

use std::collections::BTreeMap;

use super::{Finding, Scope, ask};

/// Memory below which a run of a large tree may not fit.
const LOW_MEGABYTES: u64 = 64;
const DAEMON: &str = "zagent.service";
const TIMER: &str = "zagent-run.timer";
const WATCHDOG: &str = "zagent-watchdog.service";
/// One of them is wanted.
const UNITS: [&str; 3] = [DAEMON, WATCHDOG, TIMER];

pub(super) fn look(scope: &Scope) -> Vec<Finding> {
    vec![machine(scope), memory(scope)]
}

/// The id decides when this host polls: two of one id ask at the same time.
fn machine(scope: &Scope) -> Finding {
    let path = scope.system.join("etc/machine-id");
    let id = std::fs::read_to_string(&path).unwrap_or_default();
    let id = id.trim();
    if id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Finding::ok("machine", format!("id {}…", &id[..8]));
    }
    let message = format!("{} holds no id: hosts made from one image would poll together", path.display());
    Finding::warn("machine", message, "systemd-machine-id-setup")
}

fn memory(scope: &Scope) -> Finding {
    let text = std::fs::read_to_string(scope.system.join("proc/meminfo")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kilobytes = line.and_then(|l| l.split_whitespace().next()?.parse::<u64>().ok());
    match kilobytes.map(|kb| kb / 1024) {
        Some(mb) if mb < LOW_MEGABYTES => Finding::warn(
            "memory",
            format!("{mb} MB available"),
            "a run may be ended by the kernel: make room",
        ),
        Some(mb) => Finding::ok("memory", format!("{mb} MB available")),
        None => Finding::ok("memory", "the kernel does not tell"),
    }
}

/// What starts the agent.
pub(super) fn units(scope: &Scope) -> Vec<Finding> {
    if !scope.system.join("run/systemd/system").is_dir() {
        let message = "not running here: start `zagent run` by whatever starts programs on this host";
        return vec![Finding::ok("systemd", message)];
    }
    let [one, two, three] = UNITS;
    let said =
        ask("systemctl", &["show", "--property=Id,LoadState,ActiveState,UnitFileState", one, two, three]);
    match said {
        Some(text) => vec![judge(&text)],
        None => vec![Finding::warn("systemd", "systemctl does not answer", "look at `systemctl status`")],
    }
}

/// Blocks of `key=value`, one a unit.
fn judge(text: &str) -> Finding {
    let mut units: BTreeMap<&str, BTreeMap<&str, &str>> = BTreeMap::new();
    for block in text.split("\n\n") {
        let values: BTreeMap<&str, &str> = block.lines().filter_map(|line| line.split_once('=')).collect();
        if let Some(id) = values.get("Id") {
            units.insert(id, values);
        }
    }
    let is = |unit: &str, key: &str, value: &str| units.get(unit).is_some_and(|u| u.get(key) == Some(&value));
    let enabled = |unit: &str| is(unit, "UnitFileState", "enabled");
    let active = |unit: &str| is(unit, "ActiveState", "active");
    let others = format!("(or {WATCHDOG}, or {TIMER})");
    match UNITS.into_iter().filter(|unit| enabled(unit)).collect::<Vec<_>>().as_slice() {
        [unit] if active(unit) => Finding::ok("systemd", format!("{unit} is enabled and active")),
        [unit] => {
            let state = units.get(unit).and_then(|u| u.get("ActiveState")).copied().unwrap_or("unknown");
            Finding::fail(
                "systemd",
                format!("{unit} is enabled and {state}"),
                format!("systemctl status {unit}"),
            )
        }
        [] if UNITS.into_iter().any(active) => {
            let message = "the agent runs, and nothing starts it after a reboot";
            Finding::warn("systemd", message, format!("systemctl enable {DAEMON} {others}"))
        }
        [] => {
            let message = "nothing starts the agent on this host";
            Finding::warn("systemd", message, format!("systemctl enable --now {DAEMON} {others}"))
        }
        [first, .., last] => {
            let message = format!("{first} and {last} are both enabled, and each stops the other");
            Finding::fail(
                "systemd",
                message,
                format!("systemctl disable --now {last}, or the same for {first}"),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    fn told(daemon: (&str, &str), timer: (&str, &str)) -> Finding {
        let block = |id: &str, (file, active): (&str, &str)| {
            format!("Id={id}\nLoadState=loaded\nActiveState={active}\nUnitFileState={file}\n")
        };
        judge(&format!("{}\n{}", block(DAEMON, daemon), block(TIMER, timer)))
    }

    #[test]
    fn one_of_the_units_is_wanted() {
        let (on, off) = (("enabled", "active"), ("disabled", "inactive"));
        assert_eq!(told(on, off).verdict, Verdict::Ok);
        assert_eq!(told(off, on).verdict, Verdict::Ok);
        assert_eq!(told(on, on).verdict, Verdict::Fail);
        assert_eq!(told(off, off).verdict, Verdict::Warn);
        assert!(told(("disabled", "active"), off).message.contains("after a reboot"));
        let failed = told(("enabled", "failed"), off);
        assert_eq!((failed.verdict, failed.message.ends_with("failed")), (Verdict::Fail, true));
        assert_eq!(judge("").verdict, Verdict::Warn);
        let watchdog = format!("Id={WATCHDOG}\nActiveState=active\nUnitFileState=enabled\n");
        assert_eq!(judge(&watchdog).verdict, Verdict::Ok);
        let both = judge(&format!("{watchdog}\nId={DAEMON}\nActiveState=inactive\nUnitFileState=enabled\n"));
        assert_eq!(both.verdict, Verdict::Fail);
    }

    #[test]
    fn an_image_without_an_id_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let scope = Scope { offline: true, now: jiff::Timestamp::UNIX_EPOCH, system: dir.path().into() };
        assert_eq!(machine(&scope).verdict, Verdict::Warn);
        std::fs::create_dir(dir.path().join("etc")).unwrap();
        std::fs::write(dir.path().join("etc/machine-id"), "0123456789abcdef0123456789abcdef\n").unwrap();
        assert_eq!(machine(&scope), Finding::ok("machine", "id 01234567…"));
        assert!(units(&scope)[0].message.contains("not running here"));
        std::fs::create_dir(dir.path().join("proc")).unwrap();
        std::fs::write(dir.path().join("proc/meminfo"), "MemAvailable:   20480 kB\n").unwrap();
        assert_eq!(memory(&scope).verdict, Verdict::Warn);
    }
}
