//! A running child in, its end and its output out.
//!
//! Law: it ends with the child, with its time, or with the run; a process that does not want to is killed (held by
//! `a_timeout_ends_the_whole_group`, `one_that_ignores_the_request_is_killed`,
//! `a_word_ends_it_and_all_its_children`).

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal, WaitIdOptions};

use super::spawn::ChildPipes;
use super::{ExecCommand, ExitOutcome, ExitReason};
use crate::CancelToken;

/// How long a process group has between the request to end and the order to.
const KILL_GRACE_PERIOD: Duration = Duration::from_secs(2);
/// How long output is still awaited once the command itself has ended.
pub(super) const OUTPUT_DRAIN_TIME: Duration = Duration::from_millis(100);
/// How often the child is looked at where the kernel has no process descriptors.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
const READ_CHUNK: usize = 64 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KillPhase {
    Running,
    Terminating,
    Killed,
}

/// A running command, as the loop sees it.
pub(crate) struct ProcessWatcher<'a> {
    group: Option<Pid>,
    pidfd: Option<OwnedFd>,
    stdin: Option<std::fs::File>,
    to_write: &'a [u8],
    outputs: [Option<std::fs::File>; 2],
    output_bufs: [Vec<u8>; 2],
    truncated: bool,
    cap: usize,
    chunk: Vec<u8>,
    cancel: Option<&'a CancelToken>,
    /// Who is told to stop and finishes first; nothing for one that is ended, and once that was said.
    uninterruptible: Option<&'a ExecCommand>,
    phase: KillPhase,
    /// Set when we end it, and why.
    kill_reason: Option<ExitReason>,
    has_exited: bool,
    deadline: Option<Instant>,
}

impl<'a> ProcessWatcher<'a> {
    pub(crate) fn new(child: &Child, pipes: ChildPipes, command: &'a ExecCommand) -> Self {
        let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        Self {
            group,
            pidfd: group.and_then(|pid| rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()),
            stdin: pipes.stdin.map(Into::into),
            to_write: &command.stdin,
            outputs: pipes.outputs.map(|fd| fd.map(Into::into)),
            output_bufs: [Vec::new(), Vec::new()],
            truncated: false,
            cap: command.output_cap,
            chunk: Vec::new(),
            cancel: command.cancel.as_deref(),
            uninterruptible: command.uninterruptible.then_some(command),
            phase: KillPhase::Running,
            kill_reason: None,
            has_exited: false,
            deadline: command.timeout.and_then(|t| Instant::now().checked_add(t)),
        }
    }

    /// True when it did not end by itself.
    pub(crate) fn was_killed(&self) -> bool {
        self.kill_reason.is_some()
    }

    /// Feeds, reads and waits until the leader has ended and its output is read or held by others.
    pub(crate) fn wait_until_exit(&mut self) -> io::Result<()> {
        loop {
            self.poll_events()?;
            self.write_stdin();
            self.read_output();
            if !self.has_exited && self.leader_exited()? {
                self.has_exited = true;
                self.stdin = None;
                self.read_output();
                self.deadline = Instant::now().checked_add(OUTPUT_DRAIN_TIME);
            }
            let quiet = self.outputs.iter().all(Option::is_none);
            let late = self.deadline.is_some_and(|d| Instant::now() >= d);
            let stopped =
                self.phase == KillPhase::Running && self.cancel.is_some_and(CancelToken::is_cancelled);
            match (self.has_exited, quiet || late) {
                (true, true) => return Ok(()),
                (false, _) if stopped => self.handle_cancel(),
                (false, _) if late => self.escalate(ExitReason::TimedOut),
                _ => {}
            }
        }
    }

    fn handle_cancel(&mut self) {
        let Some(command) = self.uninterruptible.take() else { return self.escalate(ExitReason::Cancelled) };
        // Nobody listens any more: the word is said for good.
        self.cancel = None;
        let program = command.program.display();
        tracing::warn!("stopping once `{program}` is done: ended now, it would leave the host half-way");
    }

    fn escalate(&mut self, why: ExitReason) {
        self.kill_reason.get_or_insert(why);
        let signal = if self.phase == KillPhase::Running { Signal::TERM } else { Signal::KILL };
        self.phase =
            if self.phase == KillPhase::Running { KillPhase::Terminating } else { KillPhase::Killed };
        self.signal_group(signal);
        self.deadline = Instant::now().checked_add(KILL_GRACE_PERIOD);
    }

    pub(crate) fn signal_group(&self, signal: Signal) {
        if let Some(group) = self.group {
            // A group that is already gone is what we wanted.
            let _ = rustix::process::kill_process_group(group, signal);
        }
    }

    /// Sees whether the leader has ended, and leaves it unreaped.
    fn leader_exited(&self) -> io::Result<bool> {
        let Some(pid) = self.group else { return Ok(true) };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match rustix::process::waitid(rustix::process::WaitId::Pid(pid), options) {
            Ok(status) => Ok(status.is_some()),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(e) => Err(e.into()),
        }
    }

    /// Sleeps until something can be done or the deadline has come.
    fn poll_events(&self) -> io::Result<()> {
        let mut fds = Vec::with_capacity(5);
        if let Some(fd) = &self.stdin {
            fds.push(PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::OUT));
        }
        for fd in self.outputs.iter().flatten() {
            fds.push(PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN));
        }
        if let Some(fd) = self.pidfd.as_ref().filter(|_| !self.has_exited) {
            fds.push(PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN));
        }
        let listening = self.cancel.filter(|_| !self.has_exited && self.phase == KillPhase::Running);
        let bell = listening.and_then(CancelToken::wake_fd);
        if let Some(fd) = bell {
            fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
        }
        let mut left = self.deadline.map(|d| d.saturating_duration_since(Instant::now()));
        let is_blind = self.pidfd.is_none() && !self.has_exited || listening.is_some() && bell.is_none();
        if is_blind {
            left = Some(left.map_or(POLL_INTERVAL, |l| l.min(POLL_INTERVAL)));
        }
        let timeout = left.and_then(|l| Timespec::try_from(l).ok());
        match rustix::event::poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    fn write_stdin(&mut self) {
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
    fn read_output(&mut self) {
        if self.outputs.iter().all(Option::is_none) {
            return;
        }
        self.chunk.resize(READ_CHUNK, 0);
        for (slot, kept) in self.outputs.iter_mut().zip(&mut self.output_bufs) {
            let Some(file) = slot else { continue };
            match file.read(&mut self.chunk) {
                Ok(0) => *slot = None,
                Ok(n) => {
                    let room = self.cap.saturating_sub(kept.len());
                    self.truncated |= n > room;
                    kept.extend_from_slice(&self.chunk[..n.min(room)]);
                }
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Err(_) => *slot = None,
            }
        }
    }

    pub(crate) fn into_outcome(self, pid: u32, status: ExitStatus) -> ExitOutcome {
        let end = self.kill_reason.unwrap_or_else(|| match (status.code(), status.signal()) {
            (Some(code), _) => ExitReason::Exited(code),
            (None, Some(signal)) => ExitReason::Signaled(signal),
            (None, None) => ExitReason::Exited(-1),
        });
        let [stdout, stderr] = self.output_bufs;
        ExitOutcome { pid, reason: end, stdout, stderr, truncated: self.truncated }
    }
}
