//! SIGHUP, SIGTERM and SIGINT in, events for the loop out.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::Sender;

use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level;

use super::Event;

/// The stack of a thread that only waits.
const SMALL: usize = 64 << 10;

/// Listens until it is dropped; the threads end with the program.
#[derive(Debug)]
pub(super) struct Signals {
    handlers: Vec<SigId>,
}

impl Signals {
    /// From now on, signals are events.
    pub(super) fn watch(events: Sender<Event>) -> io::Result<Self> {
        let mut signals = Self { handlers: Vec::new() };
        signals.on(&[SIGHUP], events.clone(), || Event::Reload)?;
        signals.on(&[SIGTERM, SIGINT], events, || Event::Stop)?;
        Ok(signals)
    }

    fn on(&mut self, numbers: &[i32], events: Sender<Event>, event: fn() -> Event) -> io::Result<()> {
        let (told, mut bell) = UnixStream::pair()?;
        for number in numbers {
            self.handlers.push(low_level::pipe::register(*number, told.try_clone()?)?);
        }
        let thread = std::thread::Builder::new().name("signals".into()).stack_size(SMALL);
        thread.spawn(move || {
            // The other end lives as long as the handlers do.
            let _told = told;
            while matches!(bell.read(&mut [0]), Ok(1)) && events.send(event()).is_ok() {}
        })?;
        Ok(())
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        self.handlers.drain(..).for_each(|handler| {
            low_level::unregister(handler);
        });
    }
}
