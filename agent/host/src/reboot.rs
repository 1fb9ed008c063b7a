//! Whether the host needs a reboot, whether it is allowed now, and how it is done.
//!
//! A reboot is announced to all users of the host, happens only as the policy allows, and is requested once.

use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use zagent_config::paths::Paths;

use super::CancelToken;
use super::exec::{self, ExecCommand, ExecError};
use zagent_config::json_file;
use zagent_config::json_file::JsonFileError;

/// Timeout of a program that reboots the host.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum characters of a reason shown to users of the host.
const MAX_REASON: usize = 200;
/// Maximum number of packages to name.
const MAX_PACKAGES: usize = 5;

/// Why a reboot is needed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RebootNeed {
    /// Reason.
    pub reason: String,
    /// True when a state requested it.
    pub asked: bool,
    /// Since when, if known.
    pub since: Option<Timestamp>,
}

/// Request of a state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct RebootRequest {
    reason: String,
    since: Timestamp,
    /// Boot ID at the time of the request: after the next boot it is done.
    boot: String,
}

/// Where the host reports its state, and what reboots it.
#[derive(Clone, Debug)]
pub struct RebootHost {
    /// File that packages create when they need a reboot; a file with the suffix `.pkgs` names them.
    pub required: PathBuf,
    /// File with the boot ID.
    pub boot_id: PathBuf,
    /// Exists while a shutdown is scheduled.
    pub scheduled: PathBuf,
    /// `shutdown`.
    pub shutdown: OsString,
    /// Programs that reboot immediately, with their arguments.
    pub at_once: Vec<Vec<OsString>>,
}

impl Default for RebootHost {
    fn default() -> Self {
        Self {
            required: "/run/reboot-required".into(),
            boot_id: "/proc/sys/kernel/random/boot_id".into(),
            scheduled: "/run/systemd/shutdown/scheduled".into(),
            shutdown: "shutdown".into(),
            at_once: vec![vec!["systemctl".into(), "reboot".into()], vec!["reboot".into()]],
        }
    }
}

/// What came of a reboot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RebootResult {
    /// A reboot was already scheduled.
    Pending,
    /// The reboot happens after the notice.
    Scheduled,
    /// The reboot happens now.
    AtOnce,
}

/// Why the host does not reboot.
#[derive(Debug, thiserror::Error)]
pub enum RebootError {
    /// No program can reboot the host.
    #[error("no `shutdown`, `systemctl` or `reboot` on this host")]
    NoProgram,
    /// A program failed.
    #[error("`{program}` exited with {code}: {said}")]
    Refused {
        /// The program.
        program: String,
        /// Exit code.
        code: i32,
        /// Its output.
        said: String,
    },
    /// A program could not be run.
    #[error("cannot reboot the host")]
    Exec(#[source] ExecError),
    /// Stopped while waiting.
    #[error("the reboot was cancelled: the agent is stopping")]
    Stopped,
}

/// Requests a reboot, on behalf of a state. A repeated request keeps the first reason.
///
/// # Errors
/// Fails when the request cannot be saved.
pub fn request_reboot(
    paths: &Paths,
    host: &RebootHost,
    reason: &str,
    now: Timestamp,
) -> Result<(), JsonFileError> {
    let path = paths.reboot();
    let boot = host.read_boot_id();
    if matches!(json_file::read::<RebootRequest>(&path), Ok(Some(asked)) if asked.boot == boot) {
        return Ok(());
    }
    json_file::write(&path, &RebootRequest { reason: plain_line(reason), since: now, boot })
}

/// Withdraws a state's request; true when there was one.
///
/// # Errors
/// Fails when the file cannot be removed.
pub(crate) fn clear_request(paths: &Paths) -> Result<bool, JsonFileError> {
    json_file::remove(&paths.reboot())
}

/// Whether a reboot is needed, and why. A request from before the last boot is done and removed.
///
/// # Errors
/// Fails when the request file is damaged or cannot be read.
pub fn reboot_needed(paths: &Paths, host: &RebootHost) -> Result<Option<RebootNeed>, JsonFileError> {
    if let Some(asked) = json_file::read::<RebootRequest>(&paths.reboot())? {
        if asked.boot == host.read_boot_id() {
            return Ok(Some(RebootNeed { reason: asked.reason, asked: true, since: Some(asked.since) }));
        }
        // Without write permission, only read.
        let _ = clear_request(paths);
    }
    Ok(host.required_by_packages())
}

impl RebootHost {
    fn read_boot_id(&self) -> String {
        read_head(&self.boot_id, 64).trim().to_owned()
    }

    /// What packages report.
    fn required_by_packages(&self) -> Option<RebootNeed> {
        let meta = std::fs::symlink_metadata(&self.required).ok()?;
        let since = meta.modified().ok().and_then(|time| Timestamp::try_from(time).ok());
        let mut list = self.required.clone().into_os_string();
        list.push(".pkgs");
        let text = read_head(Path::new(&list), 16 << 10);
        let mut names: Vec<String> = text.lines().map(plain_line).filter(|name| !name.is_empty()).collect();
        names.sort_unstable();
        names.dedup();
        let more = names.len().saturating_sub(MAX_PACKAGES);
        names.truncate(MAX_PACKAGES);
        let reason = match (names.join(", "), more) {
            (names, _) if names.is_empty() => "the system requires a restart".to_owned(),
            (names, 0) => format!("packages were updated: {names}"),
            (names, more) => format!("packages were updated: {names} and {more} more"),
        };
        Some(RebootNeed { reason, asked: false, since })
    }

    /// Reboots after the notice. A reboot that is already scheduled is not changed.
    ///
    /// # Errors
    /// Fails when no program can do it, or when the program fails.
    pub fn reboot(
        &self,
        reason: &str,
        notice: Duration,
        cancel: &Arc<CancelToken>,
    ) -> Result<RebootResult, RebootError> {
        if self.scheduled.exists() {
            return Ok(RebootResult::Pending);
        }
        // `shutdown` counts whole minutes; the notice is never shorter than configured.
        let minutes = notice.as_millis().div_ceil(60_000);
        let words = format!("zagent: {}", plain_line(reason));
        let program = [self.shutdown.clone(), "-r".into(), format!("+{minutes}").into(), words.into()];
        if run_program(&program, cancel)? {
            return Ok(RebootResult::Scheduled);
        }
        // Without `shutdown` users cannot be notified, but they still get the time.
        cancel.wait(notice);
        if cancel.is_cancelled() {
            return Err(RebootError::Stopped);
        }
        for program in &self.at_once {
            if run_program(program, cancel)? {
                return Ok(RebootResult::AtOnce);
            }
        }
        Err(RebootError::NoProgram)
    }
}

/// Runs a program; false when it does not exist.
fn run_program(words: &[OsString], cancel: &Arc<CancelToken>) -> Result<bool, RebootError> {
    let Some((program, args)) = words.split_first() else { return Ok(false) };
    let mut command = ExecCommand::new(program.clone()).args(args.iter().cloned());
    command.timeout = Some(PROGRAM_TIMEOUT);
    command.merge_stderr = true;
    command.cancel = Some(Arc::clone(cancel));
    match exec::run(&command) {
        Ok(outcome) if outcome.success() => Ok(true),
        Ok(outcome) => Err(RebootError::Refused {
            program: program.to_string_lossy().into_owned(),
            code: outcome.shell_code(),
            said: plain_line(&String::from_utf8_lossy(&outcome.stdout)),
        }),
        Err(e) if e.is_not_found() => Ok(false),
        Err(e) => Err(RebootError::Exec(e)),
    }
}

/// The beginning of a file, or nothing.
fn read_head(path: &Path, most: u64) -> String {
    let mut bytes = Vec::new();
    // An unreadable file counts as empty.
    let _ = std::fs::File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// One line without terminal control characters.
fn plain_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    zagent_config::sanitize(&line).chars().take(MAX_REASON).collect()
}
