//! A command in, its outcome out: where states, functions and checks start a process.
//!
//! Law: `run` always returns. A command has its own session or process group, a time limit and a limit on the output
//! that is kept; a background child that holds a pipe open delays nobody. States and functions start programs only
//! here (held by `a_timeout_ends_the_whole_group`, `output_is_capped_and_said_so`,
//! `a_background_child_delays_nobody_and_lives_on`, `each_act_has_its_owners`).

#![expect(
    clippy::disallowed_methods,
    reason = "the owner of processes, their deadlines and their environment"
)]

pub mod builtin_test;
pub mod cancel;
pub mod dialog;
pub mod shell_preview;
pub mod shell_words;

pub mod spawn;
pub mod watcher;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;

use self::spawn::spawn_with_retry;
use self::watcher::ProcessWatcher;
use super::CancelToken;
use crate::fs::FsRoot;

pub use self::dialog::{Dialog, DialogError, DialogWait};
pub use self::spawn::find_program;
pub(crate) use self::spawn::spawn_detached;

/// How long a command may run when nothing else is said.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);
/// How many bytes of each output stream are kept when nothing else is said.
pub(crate) const OUTPUT_CAP: usize = 1 << 20;

/// What to run, and within which bounds.
#[derive(Clone, Debug)]
pub struct ExecCommand {
    /// The program: a path, or a name that is looked up in `PATH`.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// What it reads; nothing (`/dev/null`) when empty.
    pub stdin: Vec<u8>,
    /// Variables that are set on top of the inherited ones (or alone, see `clear_env`).
    pub env: Vec<(OsString, OsString)>,
    /// Inherited variables that are taken away.
    pub unset: Vec<OsString>,
    /// Starts from an empty environment.
    pub clear_env: bool,
    /// Where it runs; the agent's own directory when none.
    pub cwd: Option<PathBuf>,
    /// When it is ended with its whole process group; never when none.
    pub timeout: Option<Duration>,
    /// How many bytes of each output stream are kept; the rest is read and dropped. With zero nobody reads at all: the
    /// command writes to `/dev/null`.
    pub output_cap: usize,
    /// Writes standard error into `stdout`, in the order it was written.
    pub merge_stderr: bool,
    /// Ends it, with its whole process group, once somebody says so.
    pub cancel: Option<Arc<CancelToken>>,
    /// A word to stop does not end it: what it does must not be left half-way.
    pub(crate) uninterruptible: bool,
    /// The bits that its new files do not get; the agent's own when none.
    pub umask: Option<u32>,
    /// Who it runs as; the agent itself when none.
    pub user: Option<UserIds>,
    /// How much it stands back for others: -20 to 19; as the agent when none.
    pub(crate) nice: Option<i32>,
    /// Keeps its arguments out of the log.
    pub hide_args: bool,
    /// Its standard input stays open: somebody talks to it.
    pub(crate) converses: bool,
    /// Where its paths begin: below another root than `/` it is started by `chroot`. [`Machine`](crate::Machine) sets it.
    pub root: FsRoot,
}

/// Who a command runs as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserIds {
    /// The user id.
    pub uid: u32,
    /// The primary group.
    pub gid: u32,
    /// All groups.
    pub groups: Vec<u32>,
}

impl ExecCommand {
    /// A command without arguments, with the default bounds.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            stdin: Vec::new(),
            env: Vec::new(),
            unset: Vec::new(),
            clear_env: false,
            cwd: None,
            timeout: Some(DEFAULT_TIMEOUT),
            output_cap: OUTPUT_CAP,
            merge_stderr: false,
            cancel: None,
            uninterruptible: false,
            umask: None,
            user: None,
            nice: None,
            hide_args: false,
            converses: false,
            root: FsRoot::default(),
        }
    }

    /// The same command with these arguments.
    #[must_use]
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args = args.into_iter().map(Into::into).collect();
        self
    }
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitReason {
    /// By itself, with this code.
    Exited(i32),
    /// By this signal, which we did not send.
    Signaled(i32),
    /// By us: its time was up.
    TimedOut,
    /// By us: the run was stopped.
    Cancelled,
}

/// What a command did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExitOutcome {
    /// Its process id.
    pub pid: u32,
    /// How it ended.
    pub reason: ExitReason,
    /// What it printed, up to the cap.
    pub stdout: Vec<u8>,
    /// What it complained about, up to the cap.
    pub stderr: Vec<u8>,
    /// True when a stream was longer than the cap.
    pub truncated: bool,
}

impl ExitOutcome {
    /// True when the command ended by itself with code 0.
    #[must_use]
    pub fn success(&self) -> bool {
        self.reason == ExitReason::Exited(0)
    }

    /// The code a shell would report: 128 + n for a signal, 124 for a timeout, 143 when the run was stopped.
    #[must_use]
    pub fn shell_code(&self) -> i32 {
        match self.reason {
            ExitReason::Exited(code) => code,
            ExitReason::Signaled(signal) => 128 + signal,
            ExitReason::TimedOut => 124,
            ExitReason::Cancelled => 143,
        }
    }
}

/// Why a command could not be run at all.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// The working directory is not there.
    #[error("cannot run `{}` in `{}`: no such directory", program.display(), cwd.display())]
    Cwd {
        /// The program.
        program: OsString,
        /// The directory.
        cwd: PathBuf,
    },
    /// The program could not be started.
    #[error("cannot start `{}`", program.display())]
    Start {
        /// The program.
        program: OsString,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It cannot run as another user.
    #[error("cannot run `{}` as user {uid}", program.display())]
    User {
        /// The program.
        program: OsString,
        /// The user.
        uid: u32,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Nothing may be started here.
    #[error("cannot start `{}`: {why}", program.display())]
    Refused {
        /// The program.
        program: OsString,
        /// Why.
        why: &'static str,
    },
    /// The run was stopped before it began.
    #[error("cannot run `{}`: the run was stopped", program.display())]
    Cancelled {
        /// The program.
        program: OsString,
    },
    /// The program was started and its end or its output could not be watched.
    #[error("cannot watch `{}`", program.display())]
    Watch {
        /// The program.
        program: OsString,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl ExecError {
    /// True when there is no such program.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::Start { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// Runs a command to its end, or to the end of its time. Other crates go through [`Machine`](crate::Machine), which may
/// refuse.
///
/// # Errors
/// Fails when the command cannot be started or watched; a command that fails is an `ExitOutcome`.
pub(crate) fn run(command: &ExecCommand) -> Result<ExitOutcome, ExecError> {
    let program = || command.program.clone();
    let (mut child, pipes) = start_checked(command)?;
    let mut watch = ProcessWatcher::new(&child, pipes, command);
    let watched = watch.wait_until_exit();
    if watched.is_err() || watch.was_killed() {
        // The leader is not reaped yet, so its group id cannot have become someone else's.
        watch.signal_group(Signal::KILL);
    }
    let status = child.wait();
    match watched.and(status) {
        Ok(status) => Ok(watch.into_outcome(child.id(), status)),
        Err(source) => Err(ExecError::Watch { program: program(), source }),
    }
}

/// Starts a command, once it is known that it may run and has somewhere to.
fn start_checked(command: &ExecCommand) -> Result<(std::process::Child, spawn::ChildPipes), ExecError> {
    let program = || command.program.clone();
    if command.cancel.as_ref().is_some_and(|c| c.is_cancelled()) {
        return Err(ExecError::Cancelled { program: program() });
    }
    if let Some(cwd) = command.cwd.as_ref().filter(|cwd| !is_dir(&command.root, cwd)) {
        return Err(ExecError::Cwd { program: program(), cwd: cwd.clone() });
    }
    let started = spawn_with_retry(command)?;
    if command.hide_args {
        tracing::debug!(program = %command.program.display(), pid = started.0.id(), "started");
    } else {
        tracing::debug!(program = %command.program.display(), args = ?command.args, pid = started.0.id(), "started");
    }
    Ok(started)
}

fn is_dir(root: &FsRoot, path: &std::path::Path) -> bool {
    root.metadata(path, true).is_ok_and(|meta| meta.is_dir())
}

#[cfg(test)]
pub mod tests;

/// An error and its causes in one line.
pub fn error_message(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
