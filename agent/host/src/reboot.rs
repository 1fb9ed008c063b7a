//! Whether the host needs a reboot, and how it gets one.
//!
//! Law: nobody is surprised. A reboot is told to everybody on the host before it comes, comes only as the policy says, and is
//! asked for once.

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

/// How long a program that reboots the host may take to say yes.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(30);
/// Characters of a reason that everybody on the host is shown.
const MAX_REASON: usize = 200;
/// How many packages are named.
const MAX_PACKAGES: usize = 5;

/// Why a reboot is needed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RebootNeed {
    /// Why, in words.
    pub reason: String,
    /// True when a state asked for it.
    pub asked: bool,
    /// Since when, as far as it is known.
    pub since: Option<Timestamp>,
}

/// What a state asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct RebootRequest {
    reason: String,
    since: Timestamp,
    /// Which boot it was asked in: after the next one it is done.
    boot: String,
}

/// Where the host tells about itself, and what reboots it.
#[derive(Clone, Debug)]
pub struct RebootHost {
    /// The file that packages leave when they need a reboot; one with `.pkgs` beside it names them.
    pub required: PathBuf,
    /// The id of this boot.
    pub boot_id: PathBuf,
    /// There while a shutdown is on its way.
    pub scheduled: PathBuf,
    /// `shutdown`.
    pub shutdown: OsString,
    /// Programs that reboot at once, with their arguments.
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
    /// It was on its way already.
    Pending,
    /// It comes after the notice.
    Scheduled,
    /// It comes now.
    AtOnce,
}

/// Why the host does not reboot.
#[derive(Debug, thiserror::Error)]
pub enum RebootError {
    /// No program there is can do it.
    #[error("there is no `shutdown`, `systemctl` or `reboot` on this host")]
    NoProgram,
    /// A program said no.
    #[error("`{program}` ended with {code}: {said}")]
    Refused {
        /// The program.
        program: String,
        /// How it ended.
        code: i32,
        /// What it said.
        said: String,
    },
    /// A program could not be run.
    #[error("cannot reboot the host")]
    Exec(#[source] ExecError),
    /// Stopped while it waited.
    #[error("the reboot was called off: the agent is stopping")]
    Stopped,
}

/// Asks for a reboot; a state does so. Asked again, the first reason stays.
///
/// # Errors
/// Fails when it cannot be written down.
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

/// Takes back what a state asked for; true when there was something.
///
/// # Errors
/// Fails when the file cannot be taken away.
pub fn clear_request(paths: &Paths) -> Result<bool, JsonFileError> {
    json_file::remove(&paths.reboot())
}

/// Whether a reboot is needed, and why. What was asked before the last boot is done and forgotten.
///
/// # Errors
/// Fails when the file in which a state asked is damaged or cannot be read.
pub fn reboot_needed(paths: &Paths, host: &RebootHost) -> Result<Option<RebootNeed>, JsonFileError> {
    if let Some(asked) = json_file::read::<RebootRequest>(&paths.reboot())? {
        if asked.boot == host.read_boot_id() {
            return Ok(Some(RebootNeed { reason: asked.reason, asked: true, since: Some(asked.since) }));
        }
        // Who may not write here only looks.
        let _ = clear_request(paths);
    }
    Ok(host.required_by_packages())
}

impl RebootHost {
    fn read_boot_id(&self) -> String {
        read_head(&self.boot_id, 64).trim().to_owned()
    }

    /// What packages say.
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
            (names, _) if names.is_empty() => "the system says that a restart is required".to_owned(),
            (names, 0) => format!("packages were updated: {names}"),
            (names, more) => format!("packages were updated: {names} and {more} more"),
        };
        Some(RebootNeed { reason, asked: false, since })
    }

    /// Reboots, after the notice. One that is on its way stays as it is.
    ///
    /// # Errors
    /// Fails when no program can do it, or the one that could says no.
    pub fn reboot(
        &self,
        reason: &str,
        notice: Duration,
        cancel: &Arc<CancelToken>,
    ) -> Result<RebootResult, RebootError> {
        if self.scheduled.exists() {
            return Ok(RebootResult::Pending);
        }
        // `shutdown` counts whole minutes; the notice is never shorter than promised.
        let minutes = notice.as_millis().div_ceil(60_000);
        let words = format!("zagent: {}", plain_line(reason));
        let program = [self.shutdown.clone(), "-r".into(), format!("+{minutes}").into(), words.into()];
        if run_program(&program, cancel)? {
            return Ok(RebootResult::Scheduled);
        }
        // Without `shutdown` nobody can be told, so the time is at least given.
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

/// Runs a program; false when there is none of that name.
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
    // What cannot be read says nothing.
    let _ = std::fs::File::open(path).and_then(|file| file.take(most).read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// One line without anything that could steer a terminal.
fn plain_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    zagent_config::sanitize(&line).chars().take(MAX_REASON).collect()
}
