//! A running command that is talked to: bytes in, lines out, each with a deadline.
//!
//! Law: every wait has a deadline and every line a limit. A dialog that is dropped ends its whole process group
//! (held by `a_dialog_answers_line_by_line`, `a_silent_or_flooding_partner_is_given_up`).

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, Signal};

use super::spawn::ChildPipes;
use super::{CancelToken, ExecCommand, ExecError};

const READ_CHUNK: usize = 64 << 10;
/// How much is read ahead of what was asked for.
const READ_AHEAD: usize = 256 << 10;
/// How much of what the command complains about is kept: the beginning, where the reason is.
const MAX_COMPLAINTS: usize = 8 << 10;

/// Why a dialog cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum DialogError {
    /// Its time was up.
    #[error("no answer in time")]
    TimedOut,
    /// A line was longer than allowed.
    #[error("the answer is larger than {limit} bytes")]
    TooLong {
        /// The limit.
        limit: usize,
    },
    /// It ended.
    #[error("the connection ended")]
    Ended,
    /// The run was stopped.
    #[error("the run was stopped")]
    Stopped,
    /// Its streams could not be watched.
    #[error("cannot watch the program")]
    Watch(#[source] io::Error),
}

/// How long one wait may take, and who may end it earlier.
#[derive(Clone, Copy, Debug)]
pub struct DialogWait<'c> {
    until: Option<Instant>,
    cancel: Option<&'c CancelToken>,
}

impl<'c> DialogWait<'c> {
    /// Waits this long from now.
    #[must_use]
    pub fn new(time: Duration, cancel: Option<&'c CancelToken>) -> Self {
        Self { until: Instant::now().checked_add(time), cancel }
    }

    fn refuse_stopped(&self) -> Result<(), DialogError> {
        match self.cancel.is_some_and(CancelToken::is_cancelled) {
            true => Err(DialogError::Stopped),
            false => Ok(()),
        }
    }

    fn left(&self) -> Option<Duration> {
        self.until.map(|until| until.saturating_duration_since(Instant::now()))
    }
}

/// A running command that is talked to.
#[derive(Debug)]
pub struct Dialog {
    child: Child,
    stdin: Option<std::fs::File>,
    outputs: [Option<std::fs::File>; 2],
    unread: Vec<u8>,
    complaints: Vec<u8>,
}

impl Dialog {
    /// Starts the command.
    pub(crate) fn start(command: &ExecCommand) -> Result<Self, ExecError> {
        let (child, ChildPipes { stdin, outputs }) =
            super::start_checked(&ExecCommand { converses: true, ..command.clone() })?;
        let outputs = outputs.map(|fd| fd.map(Into::into));
        let stdin = stdin.map(Into::into);
        Ok(Self { child, stdin, outputs, unread: Vec::new(), complaints: Vec::new() })
    }

    /// Writes all of it.
    ///
    /// # Errors
    /// Fails when the command does not read it in time.
    pub fn send(&mut self, mut bytes: &[u8], wait: DialogWait<'_>) -> Result<(), DialogError> {
        wait.refuse_stopped()?;
        while !bytes.is_empty() {
            let stdin = self.stdin.as_mut().ok_or(DialogError::Ended)?;
            match stdin.write(bytes) {
                Ok(written) => bytes = &bytes[written..],
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => self.pump(true, READ_AHEAD, wait)?,
                Err(_) => {
                    self.stdin = None;
                    return Err(DialogError::Ended);
                }
            }
        }
        Ok(())
    }

    /// Reads one line of at most `limit` bytes, without its end.
    ///
    /// # Errors
    /// Fails when there is none in time.
    pub fn read_line(&mut self, limit: usize, wait: DialogWait<'_>) -> Result<Vec<u8>, DialogError> {
        let mut searched = 0;
        loop {
            if let Some(at) = self.unread[searched..].iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.unread.drain(..=searched + at).collect();
                line.pop();
                return if line.len() > limit { Err(DialogError::TooLong { limit }) } else { Ok(line) };
            }
            searched = self.unread.len();
            if searched > limit {
                return Err(DialogError::TooLong { limit });
            }
            if self.outputs[0].is_none() {
                return Err(DialogError::Ended);
            }
            self.pump(false, limit.saturating_add(READ_AHEAD), wait)?;
        }
    }

    /// What it complained about so far; waits a moment for the rest when it has ended.
    pub fn complaints(&mut self) -> String {
        let wait = DialogWait::new(super::watcher::OUTPUT_DRAIN_TIME, None);
        while self.outputs[0].is_none() && self.outputs[1].is_some() {
            if self.pump(false, READ_AHEAD, wait).is_err() {
                break;
            }
        }
        String::from_utf8_lossy(&self.complaints).into_owned()
    }

    /// Waits until something can be written or read, and reads what is there.
    fn pump(&mut self, writes: bool, limit: usize, wait: DialogWait<'_>) -> Result<(), DialogError> {
        wait.refuse_stopped()?;
        let left = wait.left();
        if left == Some(Duration::ZERO) {
            return Err(DialogError::TimedOut);
        }
        let mut fds = Vec::with_capacity(4);
        if let Some(stdin) = self.stdin.as_ref().filter(|_| writes) {
            fds.push(PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::OUT));
        }
        let is_full = self.unread.len() > limit;
        for file in self.outputs.iter().skip(usize::from(is_full)).flatten() {
            fds.push(PollFd::from_borrowed_fd(file.as_fd(), PollFlags::IN));
        }
        if let Some(bell) = wait.cancel.and_then(CancelToken::wake_fd) {
            fds.push(PollFd::from_borrowed_fd(bell, PollFlags::IN));
        }
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        match rustix::event::poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(DialogError::Watch(e.into())),
        }
        drop(fds);
        if !is_full {
            read_some(&mut self.outputs[0], &mut self.unread, usize::MAX);
        }
        read_some(&mut self.outputs[1], &mut self.complaints, MAX_COMPLAINTS);
        Ok(())
    }
}

/// Reads one chunk, when there is one; keeps at most `cap` bytes in all.
fn read_some(slot: &mut Option<std::fs::File>, kept: &mut Vec<u8>, cap: usize) {
    let Some(file) = slot else { return };
    let mut chunk = [0; READ_CHUNK];
    match file.read(&mut chunk) {
        Ok(0) => *slot = None,
        Ok(n) => kept.extend_from_slice(&chunk[..n.min(cap.saturating_sub(kept.len()))]),
        Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
        Err(_) => *slot = None,
    }
}

impl Drop for Dialog {
    fn drop(&mut self) {
        // The leader is not reaped yet, so its group id cannot have become someone else's.
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = rustix::process::kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Machine;

    fn shell(script: &str) -> Dialog {
        Machine::this_host().start_dialog(&ExecCommand::new("/bin/sh").args(["-c", script])).unwrap()
    }

    fn wait(seconds: u64) -> DialogWait<'static> {
        DialogWait::new(Duration::from_secs(seconds), None)
    }

    #[test]
    fn a_dialog_answers_line_by_line() {
        let mut dialog = shell("while read -r x; do echo \"got $x\"; done; echo sorry >&2");
        for word in ["a", "b"] {
            dialog.send(format!("{word}\n").as_bytes(), wait(20)).unwrap();
            assert_eq!(dialog.read_line(100, wait(20)).unwrap(), format!("got {word}").into_bytes());
        }
        let megabyte = vec![b'x'; 1 << 20];
        dialog.send(&megabyte, wait(20)).unwrap();
        dialog.send(b"\n", wait(20)).unwrap();
        assert_eq!(dialog.read_line(2 << 20, wait(20)).unwrap().len(), (1 << 20) + 4);
        dialog.stdin = None;
        assert!(matches!(dialog.read_line(100, wait(20)), Err(DialogError::Ended)));
        assert_eq!(dialog.complaints(), "sorry\n");
        assert!(matches!(dialog.send(b"x", wait(20)), Err(DialogError::Ended)));
    }

    #[test]
    fn a_silent_or_flooding_partner_is_given_up() {
        let silent = shell("exec sleep 600").read_line(10, DialogWait::new(Duration::from_millis(30), None));
        assert!(matches!(silent, Err(DialogError::TimedOut)), "{silent:?}");
        let flood = shell("while :; do printf xxxxxxxx; done").read_line(1000, wait(20));
        assert!(matches!(flood, Err(DialogError::TooLong { limit: 1000 })), "{flood:?}");
        let mut deaf = shell("exec sleep 600");
        let sent = deaf.send(&vec![0; 4 << 20], DialogWait::new(Duration::from_millis(30), None));
        assert!(matches!(sent, Err(DialogError::TimedOut)), "{sent:?}");
        let stopped = CancelToken::new();
        stopped.cancel();
        let ended = deaf.read_line(10, DialogWait::new(Duration::from_secs(20), Some(&stopped)));
        assert!(matches!(ended, Err(DialogError::Stopped)), "{ended:?}");
        let mut willing = shell("exec cat");
        let sent = willing.send(b"x", DialogWait::new(Duration::from_secs(20), Some(&stopped)));
        assert!(matches!(sent, Err(DialogError::Stopped)), "nothing is begun after a stop: {sent:?}");
    }
}
