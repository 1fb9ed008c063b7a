//! Polling thread: a remote that hangs until its deadline delays nothing else.

use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use zagent_cache::source::{Deadline, RemotePoll, Remotes, SourceError, SourceErrorKind};

use super::DaemonEvent;

/// Maximum duration of one poll, whatever the fetch timeout is.
const MAX_POLL_TIME: Duration = Duration::from_secs(60);
/// Stack for certificate checks.
const STACK_BYTES: usize = 1 << 20;

/// What to poll.
pub(crate) struct PollRequest {
    /// The remotes.
    pub remotes: Remotes,
    /// Testing branch of this node.
    pub testing: Option<String>,
    /// Timeout.
    pub timeout: Duration,
}

/// Command for the thread.
enum PollerCommand {
    Poll,
    SetRequest(Box<PollRequest>),
}

/// Poller of the remotes, in its own thread.
#[derive(Debug)]
pub(crate) struct Poller {
    commands: Sender<PollerCommand>,
    busy: bool,
    /// True when the current poll may be outdated when it ends.
    poll_again: bool,
}

impl Poller {
    /// Starts the thread; results arrive as [`DaemonEvent::RemotePoll`].
    pub(crate) fn start(asked: PollRequest, events: Sender<DaemonEvent>) -> io::Result<Self> {
        let (words, heard) = channel();
        let thread = std::thread::Builder::new().name("poll".into()).stack_size(STACK_BYTES);
        thread.spawn(move || poll_loop(&heard, asked, &events))?;
        Ok(Self { commands: words, busy: false, poll_again: false })
    }

    /// Polls the remotes, unless a poll is running.
    pub(crate) fn poll(&mut self) {
        if !self.busy {
            self.busy = self.commands.send(PollerCommand::Poll).is_ok();
        }
    }

    /// Polls once more after the current poll.
    pub(crate) const fn request_again(&mut self) {
        self.poll_again = self.busy;
    }

    /// Handles the end of a poll.
    pub(crate) fn poll_done(&mut self) {
        self.busy = false;
        if std::mem::take(&mut self.poll_again) {
            self.poll();
        }
    }

    /// Changes what to poll.
    pub(crate) fn set_request(&self, asked: PollRequest) {
        // The thread ends only with the program.
        let _ = self.commands.send(PollerCommand::SetRequest(Box::new(asked)));
    }
}

fn poll_loop(words: &Receiver<PollerCommand>, mut asked: PollRequest, events: &Sender<DaemonEvent>) {
    for word in words {
        match word {
            PollerCommand::SetRequest(others) => asked = *others,
            PollerCommand::Poll => {
                let deadline = Deadline::after(asked.timeout.min(MAX_POLL_TIME));
                let poll = || asked.remotes.poll(asked.testing.as_deref(), Instant::now(), deadline);
                // After a panic the loop must still get a result, or it would never poll again.
                let polled =
                    std::panic::catch_unwind(AssertUnwindSafe(poll)).unwrap_or_else(|_| panic_result());
                if events.send(DaemonEvent::Polled(Box::new(polled))).is_err() {
                    return;
                }
            }
        }
    }
}

fn panic_result() -> RemotePoll {
    let error = SourceError {
        remote: String::new(),
        kind: SourceErrorKind::Local,
        retry_after: None,
        message: "polling the remotes crashed; the lines above show where".into(),
        source: None,
    };
    RemotePoll { heads: None, failed: vec![error] }
}
