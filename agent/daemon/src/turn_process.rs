//! A turn in a separate process: the daemon stays small, and survives whatever happens in a run.
//!
//! Law: a turn that does not end is told to stop, then killed with its process group (held by
//! `it_stops_cleanly_together_with_its_turn`).

#![expect(clippy::disallowed_methods, reason = "the owner of the turn's process")]

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

/// Stack of a thread that only waits.
const STACK_BYTES: usize = 128 << 10;

/// What to start.
pub(crate) struct TurnCommand<'a> {
    /// The program.
    pub program: &'a Path,
    /// Its arguments.
    pub args: &'a [OsString],
    /// What it reads from its standard input.
    pub input: Option<Vec<u8>>,
    /// True to print nothing.
    pub quiet: bool,
}

/// A running turn.
#[derive(Debug)]
pub(crate) struct TurnProcess {
    pid: Pid,
}

impl TurnProcess {
    /// Starts it; `ended` is called once, from another thread.
    pub(crate) fn start(
        what: TurnCommand<'_>,
        ended: impl FnOnce(io::Result<ExitStatus>) + Send + 'static,
    ) -> io::Result<Self> {
        let mut command = Command::new(what.program);
        command.args(what.args).process_group(0);
        command.stdin(if what.input.is_some() { Stdio::piped() } else { Stdio::null() });
        if what.quiet {
            command.stdout(Stdio::null()).stderr(Stdio::null());
        }
        let input = what.input;
        let mut child = command.spawn()?;
        let stdin = child.stdin.take();
        let pid = Pid::from_child(&child);
        let waiter = std::thread::Builder::new().name("turn".into()).stack_size(STACK_BYTES);
        let started = Self { pid };
        if let Err(error) = waiter.spawn(move || {
            // One that ended at once did not read it, and says why.
            if let (Some(mut stdin), Some(input)) = (stdin, input) {
                let _ = stdin.write_all(&input);
            }
            ended(child.wait());
        }) {
            // Its end would not be noticed.
            started.kill();
            return Err(error);
        }
        Ok(started)
    }

    /// Its process id.
    pub(crate) const fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Tells it to stop: the report is still written.
    pub(crate) fn stop(&self) {
        self.signal(Signal::TERM);
    }

    /// Kills it and everything that it started.
    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn signal(&self, signal: Signal) {
        // It may have ended by itself, which is fine.
        let _ = kill_process_group(self.pid, signal);
    }
}

/// Timeout of a turn: a fetch, two runs (a rollback is one too) and some time to report.
pub(crate) fn turn_timeout(fetch: Duration, run: Duration) -> Duration {
    fetch.saturating_add(run.saturating_mul(2)).saturating_add(Duration::from_secs(60))
}
