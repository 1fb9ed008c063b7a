//! Requests in, calls of `systemctl` out.

use std::path::Path;
use std::time::Duration;

use zagent_host::Machine;
use zagent_host::exec::ExecCommand;

/// The daemon.
pub(crate) const DAEMON: &str = "zagent.service";
/// The watchdog, which starts the daemon.
pub(crate) const WATCHDOG: &str = "zagent-watchdog.service";
/// The timer.
pub(crate) const TIMER: &str = "zagent-run.timer";
/// One of them starts the agent.
pub(crate) const UNITS: [&str; 3] = [DAEMON, WATCHDOG, TIMER];

/// The start of a unit waits until the daemon is ready, its stop until a run has ended.
const TIMEOUT: Duration = Duration::from_secs(240);

/// True when systemd manages this host.
pub(crate) fn is_running() -> bool {
    Path::new("/run/systemd/system").is_dir()
}

/// Calls `systemctl`; returns its output, or why it failed.
pub(crate) fn systemctl(args: &[&str]) -> Result<String, String> {
    let mut command = ExecCommand::new("systemctl").args(args.iter().copied());
    command.timeout = Some(TIMEOUT);
    let failed = |why: String| format!("`systemctl {}` failed: {why}", args.join(" "));
    let outcome = Machine::this_host().run(&command).map_err(|error| failed(error.to_string()))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if outcome.success() { Ok(text(&outcome.stdout)) } else { Err(failed(text(&outcome.stderr))) }
}

/// Ends a running daemon after its current run, so that systemd starts the program that is installed now.
pub(crate) fn restart_when_idle() -> Result<(), String> {
    for unit in [DAEMON, WATCHDOG] {
        if systemctl(&["is-active", "--quiet", unit]).is_ok() {
            systemctl(&["kill", "--kill-who=main", "--signal=USR1", unit])?;
        }
    }
    Ok(())
}
