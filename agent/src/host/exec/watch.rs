//! A running child in, its end and its output out.
//!
//! Law: it ends with the child, with its time, or with the run; a process that does not want to is killed.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags, Signal, WaitIdOptions};

use super::start::Pipes;
use super::{Command, End, Outcome};
use crate::host::Cancel;

/// How long a process group has between the request to end and the order to.
const GRACE: Duration = Duration::from_secs(2);
/// How long output is still awaited once the command itself has ended.
const LINGER: Duration = Duration::from_millis(100);
/// How often the child is looked at where the kernel has no process descriptors.
const TICK: Duration = Duration::from_millis(10);
const CHUNK: usize = 64 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Running,
    Asked,
    Killed,
}

/// A running command, as the loop sees it.
pub(super) struct Watch<'a> {
    group: Option<Pid>,
    pidfd: Option<OwnedFd>,
    stdin: Option<std::fs::File>,
    to_write: &'a [u8],
    outputs: [Option<std::fs::File>; 2],
    kept: [Vec<u8>; 2],
    truncated: bool,
    cap: usize,
    chunk: Vec<u8>,
    cancel: Option<&'a Cancel>,
    /// Who is told to stop and finishes first; nothing for one that is ended, and once that was said.
    finishing: Option<&'a Command>,
    phase: Phase,
    /// Set when we end it, and why.
    by_us: Option<End>,
    ended: bool,
    deadline: Option<Instant>,
}

impl<'a> Watch<'a> {
    pub(super) fn new(child: &Child, pipes: Pipes, command: &'a Command) -> Self {
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
            chunk: Vec::new(),
            cancel: command.cancel.as_deref(),
            finishing: command.finishes.then_some(command),
            phase: Phase::Running,
            by_us: None,
            ended: false,
            deadline: command.timeout.and_then(|t| Instant::now().checked_add(t)),
        }
    }

    /// True when it did not end by itself.
    pub(super) fn is_ended_by_us(&self) -> bool {
        self.by_us.is_some()
    }

    /// Feeds, reads and waits until the leader has ended and its output is read or held by others.
    pub(super) fn until_ended(&mut self) -> io::Result<()> {
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
            let stopped = self.phase == Phase::Running && self.cancel.is_some_and(Cancel::is_said);
            match (self.ended, quiet || late) {
                (true, true) => return Ok(()),
                (false, _) if stopped => self.stop(),
                (false, _) if late => self.escalate(End::TimedOut),
                _ => {}
            }
        }
    }

    fn stop(&mut self) {
        let Some(command) = self.finishing.take() else { return self.escalate(End::Cancelled) };
        // Nobody listens any more: the word is said for good.
        self.cancel = None;
        let program = command.program.display();
        tracing::warn!("stopping once `{program}` is done: ended now, it would leave the host half-way");
    }

    fn escalate(&mut self, why: End) {
        self.by_us.get_or_insert(why);
        let signal = if self.phase == Phase::Running { Signal::TERM } else { Signal::KILL };
        self.phase = if self.phase == Phase::Running { Phase::Asked } else { Phase::Killed };
        self.signal(signal);
        self.deadline = Instant::now().checked_add(GRACE);
    }

    pub(super) fn signal(&self, signal: Signal) {
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
        let mut fds = Vec::with_capacity(5);
        if let Some(fd) = &self.stdin {
            fds.push(PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::OUT));
        }
        for fd in self.outputs.iter().flatten() {
            fds.push(PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN));
        }
        if let Some(fd) = self.pidfd.as_ref().filter(|_| !self.ended) {
            fds.push(PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN));
        }
        let listening = self.cancel.filter(|_| !self.ended && self.phase == Phase::Running);
        let bell = listening.and_then(Cancel::bell);
        if let Some(fd) = bell {
            fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
        }
        let mut left = self.deadline.map(|d| d.saturating_duration_since(Instant::now()));
        let is_blind = self.pidfd.is_none() && !self.ended || listening.is_some() && bell.is_none();
        if is_blind {
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
        if self.outputs.iter().all(Option::is_none) {
            return;
        }
        self.chunk.resize(CHUNK, 0);
        for (slot, kept) in self.outputs.iter_mut().zip(&mut self.kept) {
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

    pub(super) fn outcome(self, pid: u32, status: ExitStatus) -> Outcome {
        let end = self.by_us.unwrap_or_else(|| match (status.code(), status.signal()) {
            (Some(code), _) => End::Exited(code),
            (None, Some(signal)) => End::Signaled(signal),
            (None, None) => End::Exited(-1),
        });
        let [stdout, stderr] = self.kept;
        Outcome { pid, end, stdout, stderr, truncated: self.truncated }
    }
}
