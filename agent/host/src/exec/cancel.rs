//! One word to everybody who waits: stop.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};

/// How often the word is looked for where there is no bell.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Tells running work that it should end. Once said, it stays said.
#[derive(Debug, Default)]
pub struct CancelToken {
    cancelled: AtomicBool,
    /// Readable once it is cancelled, so that a caller that polls wakes up; absent when no descriptor was left.
    wake_fd: Option<OwnedFd>,
    /// Work that ends with this one, and may end alone.
    children: Mutex<Vec<Weak<Self>>>,
}

impl CancelToken {
    /// A word that nobody has said yet.
    #[must_use]
    pub fn new() -> Self {
        let flags = rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK;
        Self { wake_fd: rustix::event::eventfd(0, flags).ok(), ..Self::default() }
    }

    /// A token for a part of the work: it is cancelled with this one, and this one is not cancelled with it.
    #[must_use]
    pub fn child(&self) -> Arc<Self> {
        let child = Arc::new(Self::new());
        let mut children = self.children.lock().unwrap_or_else(PoisonError::into_inner);
        children.retain(|child| child.strong_count() > 0);
        children.push(Arc::downgrade(&child));
        if self.is_cancelled() {
            child.cancel();
        }
        drop(children);
        child
    }

    /// Says it.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::SeqCst);
        if let Some(bell) = &self.wake_fd {
            // A bell that rings already cannot ring louder.
            let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
        }
        let children = self.children.lock().unwrap_or_else(PoisonError::into_inner);
        children.iter().filter_map(Weak::upgrade).for_each(|child| child.cancel());
    }

    /// True once it is said.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::SeqCst)
    }

    /// Waits so long, or until it is said.
    pub fn wait(&self, most: Duration) {
        let until = Instant::now().checked_add(most);
        loop {
            let left = until.map(|u| u.saturating_duration_since(Instant::now()));
            if self.is_cancelled() || left == Some(Duration::ZERO) {
                return;
            }
            let Some(bell) = self.wake_fd() else {
                // Without a bell the word is looked for now and then.
                std::thread::sleep(left.unwrap_or(POLL_INTERVAL).min(POLL_INTERVAL));
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
    pub fn wake_fd(&self) -> Option<BorrowedFd<'_>> {
        self.wake_fd.as_ref().map(AsFd::as_fd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_work_ends_with_it_and_may_end_alone() {
        let all = CancelToken::new();
        let (first, second) = (all.child(), all.child());
        first.cancel();
        assert!(first.is_cancelled() && !second.is_cancelled() && !all.is_cancelled());
        all.cancel();
        assert!(second.is_cancelled());
        assert!(all.child().is_cancelled(), "what begins too late does not begin");
    }
}
