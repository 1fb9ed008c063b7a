//! One word to everybody who waits: stop.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};

/// How often the word is looked for where there is no bell.
const TICK: Duration = Duration::from_millis(10);

/// Tells running work that it should end. Once said, it stays said.
#[derive(Debug, Default)]
pub struct Cancel {
    said: AtomicBool,
    /// Readable once it is said, so that whoever polls wakes up; absent where there was no descriptor left.
    bell: Option<OwnedFd>,
}

impl Cancel {
    /// A word that nobody has said yet.
    #[must_use]
    pub fn new() -> Self {
        let flags = rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK;
        Self { said: AtomicBool::new(false), bell: rustix::event::eventfd(0, flags).ok() }
    }

    /// Says it.
    pub fn say(&self) {
        self.said.store(true, Ordering::SeqCst);
        if let Some(bell) = &self.bell {
            // A bell that rings already cannot ring louder.
            let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
        }
    }

    /// True once it is said.
    #[must_use]
    pub fn is_said(&self) -> bool {
        self.said.load(Ordering::SeqCst)
    }

    /// Waits so long, or until it is said.
    pub fn wait(&self, most: Duration) {
        let until = Instant::now().checked_add(most);
        loop {
            let left = until.map(|u| u.saturating_duration_since(Instant::now()));
            if self.is_said() || left == Some(Duration::ZERO) {
                return;
            }
            let Some(bell) = self.bell() else {
                // Without a bell the word is looked for now and then.
                std::thread::sleep(left.unwrap_or(TICK).min(TICK));
                continue;
            };
            let timeout = left.and_then(|l| Timespec::try_from(l).ok());
            // An interrupted wait is just begun again.
            let _ =
                rustix::event::poll(&mut [PollFd::from_borrowed_fd(bell, PollFlags::IN)], timeout.as_ref());
        }
    }

    /// Readable once it is said.
    #[must_use]
    pub fn bell(&self) -> Option<BorrowedFd<'_>> {
        self.bell.as_ref().map(AsFd::as_fd)
    }
}
