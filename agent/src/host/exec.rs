//! A command in, its outcome out: the one place where a process is started.
//!
//! The law: `run` always comes back. A command has a process group of its own, a time limit, a cap on what is kept
//! of its output, and a background child that holds a pipe open delays nobody.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal, WaitIdOptions};

/// How long a command may run when nothing else is said.
pub const TIMEOUT: Duration = Duration::from_secs(60);
/// How many bytes of each output stream are kept when nothing else is said.
pub const OUTPUT_CAP: usize = 1 << 20;
/// How long a process group has between the request to end and the order to.
const GRACE: Duration = Duration::from_secs(2);
/// How long output is still awaited once the command itself has ended.
const LINGER: Duration = Duration::from_millis(100);
/// How often the child is looked at where the kernel has no process descriptors.
const TICK: Duration = Duration::from_millis(10);
/// How often, and how far apart, a program is tried that somebody is still writing (or has just written).
const BUSY_TRIES: usize = 10;
const BUSY_PAUSE: Duration = Duration::from_millis(10);
const CHUNK: usize = 64 << 10;

/// What to run, and within which bounds.
#[derive(Clone, Debug)]
pub struct Command {
    /// The program: a path, or a name that is looked up in `PATH`.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// What it reads; nothing (`/dev/null`) when empty.
    pub stdin: Vec<u8>,
    /// Variables that are set on top of the environment (or alone, see `clear_env`).
    pub env: Vec<(OsString, OsString)>,
    /// Starts from an empty environment.
    pub clear_env: bool,
    /// Where it runs; the agent's own directory when none.
    pub cwd: Option<PathBuf>,
    /// When it is ended with its whole process group; never when none.
    pub timeout: Option<Duration>,
    /// How many bytes of each output stream are kept; the rest is read and dropped.
    pub output_cap: usize,
    /// Writes standard error into `stdout`, in the order it was written.
    pub merge_stderr: bool,
}

impl Command {
    /// A command without arguments, with the default bounds.
    pub fn new(program: impl Into<OsString>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            stdin: Vec::new(),
            env: Vec::new(),
            clear_env: false,
            cwd: None,
            timeout: Some(TIMEOUT),
            output_cap: OUTPUT_CAP,
            merge_stderr: false,
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
pub enum End {
    /// By itself, with this code.
    Exited(i32),
    /// By this signal, which we did not send.
    Signaled(i32),
    /// By us: its time was up.
    TimedOut,
}

/// What a command did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Its process id.
    pub pid: u32,
    /// How it ended.
    pub end: End,
    /// What it printed, up to the cap.
    pub stdout: Vec<u8>,
    /// What it complained about, up to the cap.
    pub stderr: Vec<u8>,
    /// True when a stream was longer than the cap.
    pub truncated: bool,
}

impl Outcome {
    /// True when the command ended by itself with code 0.
    #[must_use]
    pub fn success(&self) -> bool {
        self.end == End::Exited(0)
    }

    /// The code a shell would report: 128 + n for a signal, 124 for a timeout.
    #[must_use]
    pub fn code(&self) -> i32 {
        match self.end {
            End::Exited(code) => code,
            End::Signaled(signal) => 128 + signal,
            End::TimedOut => 124,
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

/// Runs a command to its end, or to the end of its time.
///
/// # Errors
/// Fails when the command cannot be started or watched; a command that fails is an `Outcome`.
pub fn run(command: &Command) -> Result<Outcome, ExecError> {
    let program = || command.program.clone();
    if let Some(cwd) = command.cwd.as_ref().filter(|cwd| !cwd.is_dir()) {
        return Err(ExecError::Cwd { program: program(), cwd: cwd.clone() });
    }
    let (mut child, pipes) =
        start_when_written(command).map_err(|source| ExecError::Start { program: program(), source })?;
    tracing::debug!(program = %command.program.display(), args = ?command.args, pid = child.id(), "started");
    let mut watch = Watch::new(&child, pipes, command);
    let watched = watch.until_ended();
    if watched.is_err() || watch.phase != Phase::Running {
        // The leader is not reaped yet, so its group id cannot have become someone else's.
        watch.signal(Signal::KILL);
    }
    let status = child.wait();
    match watched.and(status) {
        Ok(status) => Ok(watch.outcome(child.id(), status)),
        Err(source) => Err(ExecError::Watch { program: program(), source }),
    }
}

/// Our ends of the child's streams.
struct Pipes {
    stdin: Option<OwnedFd>,
    outputs: [Option<OwnedFd>; 2],
}

/// A program that was just written is busy for as long as another thread's new child still holds its file.
fn start_when_written(command: &Command) -> io::Result<(Child, Pipes)> {
    for _ in 1..BUSY_TRIES {
        match start(command) {
            Err(e) if e.kind() == io::ErrorKind::ExecutableFileBusy => std::thread::sleep(BUSY_PAUSE),
            outcome => return outcome,
        }
    }
    start(command)
}

fn start(command: &Command) -> io::Result<(Child, Pipes)> {
    let mut std = std::process::Command::new(&command.program);
    std.args(&command.args).process_group(0);
    if command.clear_env {
        std.env_clear();
    }
    std.envs(command.env.iter().map(|(k, v)| (k, v)));
    if let Some(cwd) = &command.cwd {
        std.current_dir(cwd);
    }
    std.stdin(if command.stdin.is_empty() { Stdio::null() } else { Stdio::piped() });
    let mut merged = None;
    if command.merge_stderr {
        let (reader, writer) = io::pipe()?;
        std.stdout(writer.try_clone()?).stderr(writer);
        merged = Some(OwnedFd::from(reader));
    } else {
        std.stdout(Stdio::piped()).stderr(Stdio::piped());
    }
    let mut child = std.spawn()?;
    let pipes = Pipes {
        stdin: child.stdin.take().map(Into::into),
        outputs: [
            merged.or_else(|| child.stdout.take().map(Into::into)),
            child.stderr.take().map(Into::into),
        ],
    };
    for fd in pipes.stdin.iter().chain(pipes.outputs.iter().flatten()) {
        rustix::io::ioctl_fionbio(fd, true)?;
    }
    Ok((child, pipes))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    Asked,
    Killed,
}

/// A running command, as the loop sees it.
struct Watch<'a> {
    group: Option<Pid>,
    pidfd: Option<OwnedFd>,
    stdin: Option<std::fs::File>,
    to_write: &'a [u8],
    outputs: [Option<std::fs::File>; 2],
    kept: [Vec<u8>; 2],
    truncated: bool,
    cap: usize,
    phase: Phase,
    ended: bool,
    deadline: Option<Instant>,
}

impl<'a> Watch<'a> {
    fn new(child: &Child, pipes: Pipes, command: &'a Command) -> Self {
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        Self {
            group,
            pidfd: group.and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()),
            stdin: pipes.stdin.map(Into::into),
            to_write: &command.stdin,
            outputs: pipes.outputs.map(|fd| fd.map(Into::into)),
            kept: [Vec::new(), Vec::new()],
            truncated: false,
            cap: command.output_cap,
            phase: Phase::Running,
            ended: false,
            deadline: command.timeout.and_then(|t| Instant::now().checked_add(t)),
        }
    }

    /// Feeds, reads and waits until the leader has ended and its output is read or held by others.
    fn until_ended(&mut self) -> io::Result<()> {
        loop {
            self.wait()?;
            self.feed();
            self.read();
            if !self.ended && self.leader_ended()? {
                self.ended = true;
                self.stdin = None;
                self.read();
                self.deadline = Instant::now().checked_add(LINGER);
            }
            let quiet = self.outputs.iter().all(Option::is_none);
            let late = self.deadline.is_some_and(|d| Instant::now() >= d);
            match (self.ended, quiet || late) {
                (true, true) => return Ok(()),
                (false, _) if late => self.escalate(),
                _ => {}
            }
        }
    }

    fn escalate(&mut self) {
        let signal = if self.phase == Phase::Running { Signal::TERM } else { Signal::KILL };
        self.phase = if self.phase == Phase::Running { Phase::Asked } else { Phase::Killed };
        self.signal(signal);
        self.deadline = Instant::now().checked_add(GRACE);
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.group {
            // A group that is already gone is what we wanted.
            let _ = rustix::process::kill_process_group(group, signal);
        }
    }

    /// Sees whether the leader has ended, and leaves it unreaped.
    fn leader_ended(&self) -> io::Result<bool> {
        let Some(pid) = self.group else { return Ok(true) };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match rustix::process::waitid(rustix::process::WaitId::Pid(pid), options) {
            Ok(status) => Ok(status.is_some()),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }

    /// Sleeps until something can be done or the deadline has come.
    fn wait(&self) -> io::Result<()> {
        let mut fds = Vec::with_capacity(4);
        if let Some(fd) = &self.stdin {
            fds.push(PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::OUT));
        }
        for fd in self.outputs.iter().flatten() {
            fds.push(PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN));
        }
        if let Some(fd) = self.pidfd.as_ref().filter(|_| !self.ended) {
            fds.push(PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN));
        }
        let mut left = self.deadline.map(|d| d.saturating_duration_since(Instant::now()));
        if self.pidfd.is_none() && !self.ended {
            left = Some(left.map_or(TICK, |l| l.min(TICK)));
        }
        let timeout = left.and_then(|l| Timespec::try_from(l).ok());
        match rustix::event::poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    fn feed(&mut self) {
        let Some(stdin) = &mut self.stdin else { return };
        while !self.to_write.is_empty() {
            match stdin.write(self.to_write) {
                Ok(n) => self.to_write = &self.to_write[n..],
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                // A command that does not read its input to the end is no failure.
                Err(_) => break,
            }
        }
        self.stdin = None;
    }

    /// Reads what is there, one chunk a stream at most, so that a flood cannot outrun the clock.
    fn read(&mut self) {
        let mut chunk = [0; CHUNK];
        for (slot, kept) in self.outputs.iter_mut().zip(&mut self.kept) {
            let Some(file) = slot else { continue };
            match file.read(&mut chunk) {
                Ok(0) => *slot = None,
                Ok(n) => {
                    let room = self.cap.saturating_sub(kept.len());
                    self.truncated |= n > room;
                    kept.extend_from_slice(&chunk[..n.min(room)]);
                }
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Err(_) => *slot = None,
            }
        }
    }

    fn outcome(self, pid: u32, status: ExitStatus) -> Outcome {
        let end = if self.phase == Phase::Running {
            match (status.code(), status.signal()) {
                (Some(code), _) => End::Exited(code),
                (None, Some(signal)) => End::Signaled(signal),
                (None, None) => End::Exited(-1),
            }
        } else {
            End::TimedOut
        };
        let [stdout, stderr] = self.kept;
        Outcome { pid, end, stdout, stderr, truncated: self.truncated }
    }
}

#[cfg(test)]
mod tests;
