//! Settings in, problems of this host out: one finding per check, each with a hint.
//!
//! Checks change nothing, every check has a deadline, slow checks run in parallel, and the order of the findings is
//! fixed.

#![expect(clippy::disallowed_methods, reason = "checks measure time and look programs up in `PATH`")]

mod clock;
mod files;
mod host;
mod local_state;
mod remote;
mod root_dir;
mod trust;

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use zagent_config::settings::Settings;

pub(crate) use self::remote::{check_remote, endpoint};

/// Timeout of one network request or program.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DoctorStatus {
    /// As expected.
    Ok,
    /// It works, but needs attention.
    Warn,
    /// It does not work.
    Fail,
}

/// Finding of one check.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct DoctorFinding {
    /// Name of the check.
    pub check: String,
    /// Result.
    pub verdict: DoctorStatus,
    /// Message.
    pub message: String,
    /// How to fix it.
    pub hint: Option<String>,
}

impl DoctorFinding {
    fn new(check: &str, verdict: DoctorStatus, message: impl Into<String>, hint: Option<String>) -> Self {
        Self { check: check.to_owned(), verdict, message: message.into(), hint }
    }

    /// A check that passed.
    pub fn ok(check: &str, message: impl Into<String>) -> Self {
        Self::new(check, DoctorStatus::Ok, message, None)
    }

    /// A check that needs attention.
    pub fn warn(check: &str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(check, DoctorStatus::Warn, message, Some(hint.into()))
    }

    /// A check that failed.
    pub fn fail(check: &str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(check, DoctorStatus::Fail, message, Some(hint.into()))
    }
}

/// What the checks may use.
#[derive(Clone, Debug)]
pub struct DoctorScope {
    /// Skips network checks.
    pub offline: bool,
    /// Current time on this host.
    pub now: Timestamp,
    /// Root of the host's files: `/`.
    pub system: PathBuf,
}

type DoctorCheck<'s> = Box<dyn FnOnce() -> Vec<DoctorFinding> + Send + 's>;

/// Runs all checks.
#[must_use]
pub fn run_checks(settings: &Settings, scope: &DoctorScope) -> Vec<DoctorFinding> {
    let mut checks: Vec<DoctorCheck<'_>> = vec![
        Box::new(|| root_dir::check_root(settings)),
        Box::new(|| host::check_host(scope)),
        Box::new(|| clock::check_clock(settings, scope)),
        Box::new(|| host::check_units(scope)),
    ];
    if settings.source.remotes.is_empty() {
        checks.push(Box::new(|| vec![remote::check_no_remote(settings)]));
    }
    for remote in &settings.source.remotes {
        checks.push(Box::new(|| remote::check_remote(remote, &settings.source, scope)));
    }
    checks.push(Box::new(|| trust::check_trust(settings, scope)));
    checks.push(Box::new(|| files::check_secret_files(settings)));
    checks.push(Box::new(|| local_state::check_local_state(settings, scope)));
    std::thread::scope(|scope| {
        let running: Vec<_> = checks.into_iter().map(|check| scope.spawn(check)).collect();
        let broken =
            || vec![DoctorFinding::fail("doctor", "a check crashed", "report it: this is a bug in zagent")];
        running.into_iter().flat_map(|one| one.join().unwrap_or_else(|_| broken())).collect()
    })
}

/// The findings as data.
#[must_use]
pub fn to_json(findings: &[DoctorFinding]) -> serde_json::Value {
    let count = |verdict| findings.iter().filter(|f| f.verdict == verdict).count();
    serde_json::json!({
        "success": count(DoctorStatus::Fail) == 0,
        "ok": count(DoctorStatus::Ok), "warnings": count(DoctorStatus::Warn), "failures": count(DoctorStatus::Fail),
        "checks": findings,
    })
}

/// Output of a program, when it exists and succeeds in time.
fn program_output(program: &str, args: &[&str]) -> Option<String> {
    let mut command = zagent_host::exec::ExecCommand::new(program).args(args.iter().copied());
    command.timeout = Some(CHECK_TIMEOUT);
    let outcome = zagent_host::Machine::this_host().run(&command).ok()?;
    outcome.success().then(|| String::from_utf8_lossy(&outcome.stdout).trim().to_owned())
}

/// True when a program is in `PATH`.
fn has_program(name: &str) -> bool {
    zagent_host::exec::find_program(name.as_ref(), std::env::var_os("PATH").as_deref()).is_ok()
}

#[cfg(test)]
mod tests;
