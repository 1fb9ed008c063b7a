//! Settings in, what is wrong with this host as a home of the agent out: one finding a check, each with a way out.
//!
//! Law: nothing is changed, everything has a deadline, and what is slow is asked side by side; the order of the findings is
//! always the same.

mod clock;
mod files;
mod host;
mod local_state;
mod remote;
mod root_dir;

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use zagent_config::settings::Settings;

/// How long one question to the network or to a program may take.
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DoctorStatus {
    /// As it should be.
    Ok,
    /// It works, and somebody should look.
    Warn,
    /// It does not work.
    Fail,
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct DoctorFinding {
    /// What was looked at, in a word.
    pub check: String,
    /// How it is.
    pub verdict: DoctorStatus,
    /// In words.
    pub message: String,
    /// A way out.
    pub hint: Option<String>,
}

impl DoctorFinding {
    fn new(check: &str, verdict: DoctorStatus, message: impl Into<String>, hint: Option<String>) -> Self {
        Self { check: check.to_owned(), verdict, message: message.into(), hint }
    }

    /// All is well.
    pub fn ok(check: &str, message: impl Into<String>) -> Self {
        Self::new(check, DoctorStatus::Ok, message, None)
    }

    /// Somebody should look.
    pub fn warn(check: &str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(check, DoctorStatus::Warn, message, Some(hint.into()))
    }

    /// It does not work.
    pub fn fail(check: &str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(check, DoctorStatus::Fail, message, Some(hint.into()))
    }
}

/// What a look may use.
#[derive(Clone, Debug)]
pub struct DoctorScope {
    /// Asks nobody over the network.
    pub offline: bool,
    /// What time it is here.
    pub now: Timestamp,
    /// Where the host's own files are: `/`.
    pub system: PathBuf,
}

type DoctorCheck<'s> = Box<dyn FnOnce() -> Vec<DoctorFinding> + Send + 's>;

/// Looks at everything.
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
    checks.push(Box::new(|| files::check_trust_files(settings)));
    checks.push(Box::new(|| files::check_secret_files(settings)));
    checks.push(Box::new(|| local_state::check_local_state(settings, scope)));
    std::thread::scope(|scope| {
        let running: Vec<_> = checks.into_iter().map(|check| scope.spawn(check)).collect();
        let broken = || {
            vec![DoctorFinding::fail(
                "doctor",
                "a check broke off",
                "this is a fault of zagent: please report it",
            )]
        };
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

/// What a program says, when it is there and ends well in time.
fn program_output(program: &str, args: &[&str]) -> Option<String> {
    let mut command = zagent_host::exec::ExecCommand::new(program).args(args.iter().copied());
    command.timeout = Some(CHECK_TIMEOUT);
    let outcome = zagent_host::exec::run(&command).ok()?;
    outcome.success().then(|| String::from_utf8_lossy(&outcome.stdout).trim().to_owned())
}

/// True when a program is in `PATH`.
fn has_program(name: &str) -> bool {
    zagent_host::exec::find_program(name.as_ref(), std::env::var_os("PATH").as_deref()).is_ok()
}

#[cfg(test)]
mod tests;
