//! A deadline in, an act at that moment out, unless it is called off before.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::Deadline;

/// An act that waits for its time; dropping it calls it off.
pub(super) struct Alarm {
    off: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
    rang: Arc<AtomicBool>,
}

impl Alarm {
    /// Calls `act` at the deadline.
    pub(super) fn set(deadline: Deadline, act: impl FnOnce() + Send + 'static) -> Self {
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
        Self { off: Some(off), thread: Some(thread), rang }
    }

    /// True when the deadline came first.
    pub(super) fn rang(&self) -> bool {
        self.rang.load(Ordering::SeqCst)
    }

    /// Calls it off; when this returns, it has rung or never will.
    pub(super) fn off(&mut self) {
        drop(self.off.take());
        if let Some(thread) = self.thread.take() {
            // The act does not panic; if it did, there is nothing to undo.
            let _ = thread.join();
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.off();
    }
}
