//! The thread that asks the remotes: one that hangs until its deadline holds nobody else up.

use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use zagent_cache::source::{Deadline, RemotePoll, Remotes, SourceError, SourceErrorKind};

use super::DaemonEvent;

/// How long one poll may take, whatever a fetch may.
const MAX_POLL_TIME: Duration = Duration::from_secs(60);
/// Certificates are checked on this stack.
const STACK_BYTES: usize = 1 << 20;

/// Who is asked for what.
pub struct PollRequest {
    /// The remotes.
    pub remotes: Remotes,
    /// The branch that only this node follows.
    pub testing: Option<String>,
    /// How long an answer may take.
    pub timeout: Duration,
}

/// A word to the thread.
enum PollerCommand {
    Poll,
    SetRequest(Box<PollRequest>),
}

/// The remotes, asked in a thread of their own.
#[derive(Debug)]
pub struct Poller {
    commands: Sender<PollerCommand>,
    busy: bool,
    /// True when the answer that is under way may be old by the time it comes.
    poll_again: bool,
}

impl Poller {
    /// Starts the thread; answers come as [`DaemonEvent::RemotePoll`].
    pub fn start(asked: PollRequest, events: Sender<DaemonEvent>) -> io::Result<Self> {
        let (words, heard) = channel();
        let thread = std::thread::Builder::new().name("poll".into()).stack_size(STACK_BYTES);
        thread.spawn(move || poll_loop(&heard, asked, &events))?;
        Ok(Self { commands: words, busy: false, poll_again: false })
    }

    /// Asks the remotes, unless they are being asked.
    pub fn poll(&mut self) {
        if !self.busy {
            self.busy = self.commands.send(PollerCommand::Poll).is_ok();
        }
    }

    /// Asks the remotes once more after this when they are being asked.
    pub const fn request_again(&mut self) {
        self.poll_again = self.busy;
    }

    /// The answer is there.
    pub fn poll_done(&mut self) {
        self.busy = false;
        if std::mem::take(&mut self.poll_again) {
            self.poll();
        }
    }

    /// Asks others from now on.
    pub fn set_request(&self, asked: PollRequest) {
        // The thread ends with the program only.
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
                // Whatever falls over in there, the loop must hear an answer or it would never ask again.
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
        message: "asking the remotes fell over; the lines above say where".into(),
        source: None,
    };
    RemotePoll { heads: None, failed: vec![error] }
}
