//! The thread that asks the remotes: one that hangs until its deadline holds nobody else up.

use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use zagent_cache::source::{Deadline, Kind, Polled, Remotes, SourceError};

use super::Event;

/// How long one poll may take, whatever a fetch may.
const LONGEST: Duration = Duration::from_secs(60);
/// Certificates are checked on this stack.
const STACK: usize = 1 << 20;

/// Who is asked for what.
pub(super) struct Asked {
    /// The remotes.
    pub(super) remotes: Remotes,
    /// The branch that only this node follows.
    pub(super) testing: Option<String>,
    /// How long an answer may take.
    pub(super) timeout: Duration,
}

/// A word to the thread.
enum Word {
    Poll,
    Others(Box<Asked>),
}

/// The remotes, asked in a thread of their own.
#[derive(Debug)]
pub(super) struct Poller {
    words: Sender<Word>,
    busy: bool,
    /// True when the answer that is under way may be old by the time it comes.
    again: bool,
}

impl Poller {
    /// Starts the thread; answers come as [`Event::Polled`].
    pub(super) fn start(asked: Asked, events: Sender<Event>) -> io::Result<Self> {
        let (words, heard) = channel();
        let thread = std::thread::Builder::new().name("poll".into()).stack_size(STACK);
        thread.spawn(move || listen(&heard, asked, &events))?;
        Ok(Self { words, busy: false, again: false })
    }

    /// Asks the remotes, unless they are being asked.
    pub(super) fn poll(&mut self) {
        if !self.busy {
            self.busy = self.words.send(Word::Poll).is_ok();
        }
    }

    /// Asks the remotes once more after this when they are being asked.
    pub(super) const fn again(&mut self) {
        self.again = self.busy;
    }

    /// The answer is there.
    pub(super) fn answered(&mut self) {
        self.busy = false;
        if std::mem::take(&mut self.again) {
            self.poll();
        }
    }

    /// Asks others from now on.
    pub(super) fn change(&self, asked: Asked) {
        // The thread ends with the program only.
        let _ = self.words.send(Word::Others(Box::new(asked)));
    }
}

fn listen(words: &Receiver<Word>, mut asked: Asked, events: &Sender<Event>) {
    for word in words {
        match word {
            Word::Others(others) => asked = *others,
            Word::Poll => {
                let deadline = Deadline::after(asked.timeout.min(LONGEST));
                let poll = || asked.remotes.poll(asked.testing.as_deref(), Instant::now(), deadline);
                // Whatever falls over in there, the loop must hear an answer or it would never ask again.
                let polled = std::panic::catch_unwind(AssertUnwindSafe(poll)).unwrap_or_else(|_| fell_over());
                if events.send(Event::Polled(Box::new(polled))).is_err() {
                    return;
                }
            }
        }
    }
}

fn fell_over() -> Polled {
    let error = SourceError {
        remote: String::new(),
        kind: Kind::Local,
        retry_after: None,
        message: "asking the remotes fell over; the lines above say where".into(),
        source: None,
    };
    Polled { found: None, failed: vec![error] }
}
