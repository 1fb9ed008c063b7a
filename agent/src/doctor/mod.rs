//! Settings in, what is wrong with this host as a home of the agent out: one finding a check, each with a way out.
//!
//! Law: nothing is changed, everything has a deadline, and what is slow is asked side by side; the order of the findings is
//! always the same.

mod clock;
mod files;
mod host;
mod past;
mod remote;
mod root;

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use zagent_config::settings::Settings;

/// How long one question to the network or to a program may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// As it should be.
    Ok,
    /// It works, and somebody should look.
    Warn,
    /// It does not work.
    Fail,
}

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Finding {
    /// What was looked at, in a word.
    pub check: String,
    /// How it is.
    pub verdict: Verdict,
    /// In words.
    pub message: String,
    /// A way out.
    pub hint: Option<String>,
}

impl Finding {
    fn new(check: &str, verdict: Verdict, message: impl Into<String>, hint: Option<String>) -> Self {
        Self { check: check.to_owned(), verdict, message: message.into(), hint }
    }

    /// All is well.
    pub fn ok(check: &str, message: impl Into<String>) -> Self {
        Self::new(check, Verdict::Ok, message, None)
    }

    /// Somebody should look.
    pub fn warn(check: &str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(check, Verdict::Warn, message, Some(hint.into()))
    }

    /// It does not work.
    pub fn fail(check: &str, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::new(check, Verdict::Fail, message, Some(hint.into()))
    }
}

/// What a look may use.
#[derive(Clone, Debug)]
pub struct Scope {
    /// Asks nobody over the network.
    pub offline: bool,
    /// What time it is here.
    pub now: Timestamp,
    /// Where the host's own files are: `/`.
    pub system: PathBuf,
}

type Check<'s> = Box<dyn FnOnce() -> Vec<Finding> + Send + 's>;

/// Looks at everything.
#[must_use]
pub fn examine(settings: &Settings, scope: &Scope) -> Vec<Finding> {
    let mut checks: Vec<Check<'_>> = vec![
        Box::new(|| root::look(settings)),
        Box::new(|| host::look(scope)),
        Box::new(|| clock::look(settings, scope)),
        Box::new(|| host::units(scope)),
    ];
    if settings.source.remotes.is_empty() {
        checks.push(Box::new(|| vec![remote::none(settings)]));
    }
    for remote in &settings.source.remotes {
        checks.push(Box::new(|| remote::look(remote, &settings.source, scope)));
    }
    checks.push(Box::new(|| files::trust(settings)));
    checks.push(Box::new(|| files::secrets(settings)));
    checks.push(Box::new(|| past::look(settings, scope)));
    std::thread::scope(|scope| {
        let running: Vec<_> = checks.into_iter().map(|check| scope.spawn(check)).collect();
        let broken = || {
            vec![Finding::fail("doctor", "a check broke off", "this is a fault of zagent: please report it")]
        };
        running.into_iter().flat_map(|one| one.join().unwrap_or_else(|_| broken())).collect()
    })
}

/// The findings as data.
#[must_use]
pub fn to_json(findings: &[Finding]) -> serde_json::Value {
    let count = |verdict| findings.iter().filter(|f| f.verdict == verdict).count();
    serde_json::json!({
        "success": count(Verdict::Fail) == 0,
        "ok": count(Verdict::Ok), "warnings": count(Verdict::Warn), "failures": count(Verdict::Fail),
        "checks": findings,
    })
}

/// What a program says, when it is there and ends well in time.
fn ask(program: &str, args: &[&str]) -> Option<String> {
    let mut command = crate::host::exec::Command::new(program).args(args.iter().copied());
    command.timeout = Some(PATIENCE);
    let outcome = crate::host::exec::run(&command).ok()?;
    outcome.success().then(|| String::from_utf8_lossy(&outcome.stdout).trim().to_owned())
}

/// True when a program is in `PATH`.
fn has_program(name: &str) -> bool {
    crate::host::exec::find_program(name.as_ref(), std::env::var_os("PATH").as_deref()).is_ok()
}

#[cfg(test)]
mod tests;
