//! A deadline in, a call at that moment out, unless it is cancelled before.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::Deadline;

/// A pending call; dropping it cancels it.
pub(super) struct DeadlineTimer {
    cancel_sender: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    fired: Arc<AtomicBool>,
}

impl DeadlineTimer {
    /// Calls `act` at the deadline.
    pub(super) fn start(deadline: Deadline, act: impl FnOnce() + Send + 'static) -> Self {
        let (off, waits) = channel::<()>();
        let rang = Arc::new(AtomicBool::new(false));
        let ringing = rang.clone();
        let thread = std::thread::spawn(move || {
            let left = deadline.remaining().unwrap_or(Duration::ZERO);
            if waits.recv_timeout(left) == Err(RecvTimeoutError::Timeout) {
                ringing.store(true, Ordering::SeqCst);
                act();
            }
        });
        Self { cancel_sender: Some(off), thread: Some(thread), fired: rang }
    }

    /// True when the deadline passed first.
    pub(super) fn has_fired(&self) -> bool {
        self.fired.load(Ordering::SeqCst)
    }

    /// Cancels it; when this returns, the call has run or never will.
    pub(super) fn cancel(&mut self) {
        drop(self.cancel_sender.take());
        if let Some(thread) = self.thread.take() {
            // The call does not panic; if it did, there is nothing to undo.
            let _ = thread.join();
        }
    }
}

impl Drop for DeadlineTimer {
    fn drop(&mut self) {
        self.cancel();
    }
}
