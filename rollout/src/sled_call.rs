//! A call of sled in, its answer within a deadline out.
//!
//! Law: nobody waits for sled longer than they chose to. When the disk fills up during a write, sled 0.34 waits
//! forever, also after there is space again: so every call runs in a thread of its own, which is left behind when
//! it does not answer, and sled is not called at all when space is short (held by
//! `a_call_that_does_not_answer_holds_up_nobody`, `sled_is_not_called_when_space_is_short`).

#![expect(clippy::disallowed_methods, reason = "measures how long a call takes")]

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use zagent_config::disk_space::{free_bytes, readable_size};

/// Free space below which sled is not called.
pub(crate) const MIN_FREE_BYTES: u64 = 16 << 20;

/// A call that was started.
#[derive(Debug)]
pub(crate) struct SledCall<T> {
    answer: Receiver<T>,
    since: Instant,
}

/// Why a call has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoAnswer {
    /// Not yet.
    Waiting,
    /// It panicked, or its thread could not be started.
    Panicked,
}

impl<T: Send + 'static> SledCall<T> {
    /// Starts a call.
    pub(crate) fn start(act: impl FnOnce() -> T + Send + 'static) -> Self {
        let (sender, answer) = channel();
        let run = move || {
            // With a damaged store, sled may panic; then there is no answer.
            if let Ok(answer) = catch_unwind(AssertUnwindSafe(act)) {
                let _ = sender.send(answer);
            }
        };
        // Without a thread the sender is dropped, which is an answer as well.
        let _ = std::thread::Builder::new().name("sled".into()).spawn(run);
        Self { answer, since: Instant::now() }
    }

    /// Waits for the answer.
    pub(crate) fn wait(&self, patience: Duration) -> Result<T, NoAnswer> {
        self.answer.recv_timeout(patience).map_err(|error| match error {
            RecvTimeoutError::Timeout => NoAnswer::Waiting,
            RecvTimeoutError::Disconnected => NoAnswer::Panicked,
        })
    }

    /// How long it has been running.
    pub(crate) fn age(&self) -> Duration {
        self.since.elapsed()
    }
}

/// Fails when there is less free space than sled needs to be safe.
pub(crate) fn check_space(dir: &Path, min_free: u64) -> io::Result<()> {
    // A file system that does not tell its free space may have some.
    match free_bytes(dir) {
        Ok(free) if free < min_free => {
            let words =
                format!("only {} are free, and sled needs {}", readable_size(free), readable_size(min_free));
            Err(io::Error::new(io::ErrorKind::StorageFull, words))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_does_not_answer_holds_up_nobody() {
        let (sender, receiver) = channel::<()>();
        let call = SledCall::start(move || receiver.recv().is_ok());
        assert_eq!(call.wait(Duration::ZERO), Err(NoAnswer::Waiting));
        sender.send(()).unwrap();
        assert_eq!(call.wait(Duration::from_secs(60)), Ok(true));
        assert!(call.age() > Duration::ZERO);
        let call = SledCall::<()>::start(|| panic!("on purpose"));
        assert_eq!(call.wait(Duration::from_secs(60)), Err(NoAnswer::Panicked));
    }

    #[test]
    fn sled_is_not_called_when_space_is_short() {
        let dir = tempfile::tempdir().unwrap();
        check_space(dir.path(), 1).unwrap();
        let error = check_space(dir.path(), u64::MAX).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(error.to_string().contains("are free"), "{error}");
    }
}
