//! SIGINT, SIGTERM and SIGHUP in, one word to the run out: stop.
//!
//! Law: while a run goes on, those signals end it in order: what runs is ended with its process group, and the
//! report is still written. A second one ends the program at once, and so does the first when nothing runs (held by
//! `a_signal_stops_the_commands_and_the_report_is_still_written`, `a_second_signal_ends_the_program_immediately`).
//!
//! Why no mask: a mask is inherited by every command that a run starts, and services with it; a handler is not.

use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags};
use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{flag, low_level};

use zagent_host::CancelToken;

const STOP_SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// How many runs watch.
static WATCHER_COUNT: Mutex<usize> = Mutex::new(0);

/// Watches for signals until it is dropped.
#[derive(Debug)]
pub struct SignalWatcher {
    over: Arc<CancelToken>,
    handlers: Vec<SigId>,
    watcher: Option<JoinHandle<()>>,
}

impl SignalWatcher {
    /// From now on, SIGINT and SIGTERM say stop to this run.
    #[must_use]
    pub fn watch(cancel: &Arc<CancelToken>) -> Option<Self> {
        let (told, bell) = UnixStream::pair().ok()?;
        let over = Arc::new(CancelToken::new());
        count_watchers(1);
        let mut signals = Self { over: Arc::clone(&over), handlers: Vec::new(), watcher: None };
        let heard = Arc::new(AtomicBool::new(false));
        for signal in STOP_SIGNALS {
            let handlers = [
                // In this order: the first signal finds the flag down and raises it, the second finds it up.
                flag::register_conditional_default(signal, Arc::clone(&heard)),
                flag::register(signal, Arc::clone(&heard)),
                low_level::pipe::register(signal, told.try_clone().ok()?),
            ];
            for handler in handlers {
                signals.handlers.push(handler.ok()?);
            }
        }
        let stop = Arc::clone(cancel);
        let watcher = std::thread::Builder::new().name("signals".into()).stack_size(64 << 10);
        signals.watcher = Some(watcher.spawn(move || listen_for_signals(bell, &stop, &over)).ok()?);
        Some(signals)
    }
}

fn listen_for_signals(mut bell: UnixStream, stop: &CancelToken, over: &CancelToken) {
    loop {
        let Some(end) = over.wake_fd() else { return };
        let mut fds = [
            PollFd::from_borrowed_fd(bell.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(end, PollFlags::IN),
        ];
        // An interrupted wait is just begun again.
        let _ = rustix::event::poll(&mut fds, None);
        let has_rung = !fds[0].revents().is_empty();
        if has_rung && matches!(bell.read(&mut [0]), Ok(1)) {
            stop.cancel();
        }
        if over.is_cancelled() {
            return;
        }
    }
}

/// Counts who watches. Handlers stay with the process, so without anybody they do what the system would have done.
fn count_watchers(more: isize) {
    static NO_WATCHERS: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    let mut watching = WATCHER_COUNT.lock().unwrap_or_else(PoisonError::into_inner);
    *watching = watching.saturating_add_signed(more);
    let nobody = NO_WATCHERS.get_or_init(|| {
        let nobody = Arc::new(AtomicBool::new(false));
        for signal in STOP_SIGNALS {
            // Without it a signal after the run is not heard, which is no reason not to run.
            let _ = flag::register_conditional_default(signal, Arc::clone(&nobody));
        }
        nobody
    });
    nobody.store(*watching == 0, Ordering::SeqCst);
}

impl Drop for SignalWatcher {
    fn drop(&mut self) {
        count_watchers(-1);
        self.handlers.drain(..).for_each(|handler| {
            low_level::unregister(handler);
        });
        self.over.cancel();
        if let Some(watcher) = self.watcher.take() {
            // A watcher that fell over watches no more, which is what is wanted.
            let _ = watcher.join();
        }
    }
}
