//! SIGTERM, SIGINT, SIGHUP and SIGUSR1 in, events for the watchdog out.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;

use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::low_level::{pipe, unregister};
use zagent_rollout::watchdog::WatchdogSignal;

/// Stack of a thread that only waits.
const STACK_BYTES: usize = 64 << 10;

/// Listens until it is dropped; the threads end with the program.
pub(crate) struct WatchdogSignals {
    handlers: Vec<SigId>,
}

/// Sends signals to the watchdog from now on.
pub(crate) fn watch_signals(
    ring: impl Fn(WatchdogSignal) -> bool + Send + Clone + 'static,
) -> io::Result<WatchdogSignals> {
    let mut signals = WatchdogSignals { handlers: Vec::new() };
    for (numbers, signal) in [
        (&[SIGTERM, SIGINT][..], WatchdogSignal::Stop),
        (&[SIGHUP], WatchdogSignal::Reload),
        (&[SIGUSR1], WatchdogSignal::StopWhenIdle),
    ] {
        let (told, mut bell) = UnixStream::pair()?;
        for number in numbers {
            signals.handlers.push(pipe::register(*number, told.try_clone()?)?);
        }
        let ring = ring.clone();
        let thread = std::thread::Builder::new().name("signals".into()).stack_size(STACK_BYTES);
        thread.spawn(move || {
            // The other end lives as long as the handlers do.
            let _told = told;
            while matches!(bell.read(&mut [0]), Ok(1)) && ring(signal) {}
        })?;
    }
    Ok(signals)
}

impl Drop for WatchdogSignals {
    fn drop(&mut self) {
        self.handlers.drain(..).for_each(|handler| {
            unregister(handler);
        });
    }
}
