//! SIGHUP, SIGTERM, SIGINT and SIGUSR1 in, events for the loop out.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::Sender;

use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
use signal_hook::low_level;

use super::DaemonEvent;

/// Stack of a thread that only waits.
const STACK_BYTES: usize = 64 << 10;

/// Listens until it is dropped; the threads end with the program.
#[derive(Debug)]
pub(crate) struct DaemonSignals {
    handlers: Vec<SigId>,
}

impl DaemonSignals {
    /// Turns signals into events from now on.
    pub(crate) fn watch(events: Sender<DaemonEvent>) -> io::Result<Self> {
        let mut signals = Self { handlers: Vec::new() };
        signals.register(&[SIGHUP], events.clone(), || DaemonEvent::Reload)?;
        signals.register(&[SIGTERM, SIGINT], events.clone(), || DaemonEvent::Stop)?;
        signals.register(&[SIGUSR1], events, || DaemonEvent::StopWhenIdle)?;
        Ok(signals)
    }

    fn register(
        &mut self,
        numbers: &[i32],
        events: Sender<DaemonEvent>,
        event: fn() -> DaemonEvent,
    ) -> io::Result<()> {
        let (told, mut bell) = UnixStream::pair()?;
        for number in numbers {
            self.handlers.push(low_level::pipe::register(*number, told.try_clone()?)?);
        }
        let thread = std::thread::Builder::new().name("signals".into()).stack_size(STACK_BYTES);
        thread.spawn(move || {
            // The other end lives as long as the handlers do.
            let _told = told;
            while matches!(bell.read(&mut [0]), Ok(1)) && events.send(event()).is_ok() {}
        })?;
        Ok(())
    }
}

impl Drop for DaemonSignals {
    fn drop(&mut self) {
        self.handlers.drain(..).for_each(|handler| {
            low_level::unregister(handler);
        });
    }
}
