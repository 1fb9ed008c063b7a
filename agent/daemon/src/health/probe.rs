//! One attempt of one check: passed, or a message that says what is wrong.

use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use zagent_config::settings::HealthProbe;

use zagent_config::sanitize;
use zagent_host::command_options::CommandOptions;
use zagent_host::exec::{ExecCommand, ExitOutcome, ExitReason};
use zagent_host::http_request::{HttpRequest, agent_config};
use zagent_host::{CancelToken, Machine};

/// Maximum number of characters kept of a command's output.
const MAX_TEXT: usize = 200;

/// Looks once, for no longer than this.
pub fn probe(
    machine: &Machine,
    check: &HealthProbe,
    timeout: Duration,
    cancel: &Arc<CancelToken>,
) -> Result<String, String> {
    match check {
        HealthProbe::Http(url) => probe_http(url, timeout),
        HealthProbe::Tcp(address) => probe_tcp(address, timeout),
        HealthProbe::Unit(unit) => probe_unit(machine, unit, timeout, cancel),
        HealthProbe::Command(line) => probe_command(machine, line, timeout, cancel),
    }
}

fn probe_http(url: &str, timeout: Duration) -> Result<String, String> {
    // The check is about this host, so no proxy is used.
    let agent = ureq::Agent::new_with_config(agent_config().proxy(None).build());
    let answer = HttpRequest::get(url).send(&agent, timeout)?;
    let said = format!("answered {}", answer.status().as_u16());
    if answer.status().is_success() { Ok(said) } else { Err(said) }
}

fn probe_tcp(address: &str, timeout: Duration) -> Result<String, String> {
    let until = Instant::now() + timeout;
    let found = address.to_socket_addrs().map_err(|e| format!("the name does not resolve: {e}"))?;
    let mut last = "the name has no address".to_owned();
    for address in found {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(format!("no connection within {timeout:?}"));
        }
        match TcpStream::connect_timeout(&address, left) {
            Ok(_) => return Ok("accepts connections".into()),
            Err(e) => last = e.to_string(),
        }
    }
    Err(last)
}

fn probe_unit(
    machine: &Machine,
    unit: &str,
    timeout: Duration,
    cancel: &Arc<CancelToken>,
) -> Result<String, String> {
    let mut command =
        ExecCommand::new("systemctl").args(["show", "--property=ActiveState", "--value", "--", unit]);
    command.timeout = Some(timeout);
    command.cancel = Some(Arc::clone(cancel));
    let outcome = machine.run(&command).map_err(|e| zagent_config::error_chain(&e))?;
    if !outcome.success() {
        return Err(format!("systemctl {}", exit_summary(&outcome, timeout)));
    }
    unit_state(&String::from_utf8_lossy(&outcome.stdout))
}

/// Meaning of a systemd unit state. A reloading unit is serving.
fn unit_state(text: &str) -> Result<String, String> {
    match text.trim() {
        state @ ("active" | "reloading" | "refreshing") => Ok(format!("is {state}")),
        "" => Err("systemd does not report the state of the unit".into()),
        state => Err(format!("is {}", first_line(state))),
    }
}

fn probe_command(
    machine: &Machine,
    text: &str,
    timeout: Duration,
    cancel: &Arc<CancelToken>,
) -> Result<String, String> {
    let options = CommandOptions {
        timeout: Some(timeout),
        merge_stderr: true,
        cancel: Some(Arc::clone(cancel)),
        ..CommandOptions::default()
    };
    let outcome = options.run_line(machine, text).map_err(|e| zagent_config::error_chain(&e))?;
    if outcome.success() { Ok("exited with 0".into()) } else { Err(exit_summary(&outcome, timeout)) }
}

/// `exited with 3: no space left`.
fn exit_summary(outcome: &ExitOutcome, timeout: Duration) -> String {
    let how = match outcome.reason {
        ExitReason::Exited(code) => format!("exited with {code}"),
        ExitReason::Signaled(signal) => format!("was killed by signal {signal}"),
        ExitReason::TimedOut => format!("took longer than {timeout:?}"),
        ExitReason::Cancelled => "was stopped".into(),
    };
    let said = if outcome.stdout.is_empty() { &outcome.stderr } else { &outcome.stdout };
    match first_line(&String::from_utf8_lossy(said)) {
        said if said.is_empty() => how,
        said => format!("{how}: {said}"),
    }
}

/// The first line that is not empty.
fn first_line(text: &str) -> String {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    sanitize(first).chars().take(MAX_TEXT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_of_units() {
        assert_eq!(unit_state("active\n"), Ok("is active".into()));
        assert_eq!(unit_state("reloading\n"), Ok("is reloading".into()));
        for bad in ["inactive", "failed", "activating", "deactivating"] {
            assert_eq!(unit_state(bad), Err(format!("is {bad}")));
        }
        assert!(unit_state("\n").is_err());
    }
}
