//! A daemon for tests: it has answers, and nothing behind them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::{Answers, End, Metrics, Progress, Refused, RefusedWhy, Ticket, Wish};
use crate::status::{Status, samples};

/// A daemon that only has answers.
#[derive(Default)]
pub(crate) struct Fake {
    /// What was asked for.
    pub(crate) wishes: Mutex<Vec<Wish>>,
    pub(crate) asked: AtomicUsize,
    pub(crate) told: AtomicUsize,
    /// How often a wish is still waiting.
    pub(crate) waits: usize,
    pub(crate) stuck: AtomicBool,
    pub(crate) paused: bool,
    /// What a run ends with.
    pub(crate) exit: u8,
    /// Held by a test that wants a daemon that does not answer.
    pub(crate) lock: Mutex<()>,
}

impl Answers for Fake {
    fn status(&self) -> Status {
        let _held = self.lock.lock().unwrap();
        Status::gather(samples::fine())
    }

    fn metrics(&self) -> Metrics {
        Metrics { status: self.status(), runs: [("ok".to_owned(), 3)].into() }
    }

    fn is_alive(&self) -> bool {
        !self.stuck.load(Ordering::SeqCst)
    }

    fn ready(&self) -> Result<(), String> {
        if self.paused { Err("the current generation does not compile".into()) } else { Ok(()) }
    }

    fn trigger(&self, wish: Wish) -> Result<Ticket, Refused> {
        if self.paused {
            let message = "paused until 15:30 (disk swap): zagent resume".into();
            return Err(Refused { why: RefusedWhy::Paused, message });
        }
        self.wishes.lock().unwrap().push(wish);
        Ok(Ticket(7))
    }

    fn progress(&self, ticket: Ticket) -> Progress {
        if ticket != Ticket(7) {
            return Progress::Unknown;
        }
        if self.asked.fetch_add(1, Ordering::SeqCst) < self.waits {
            return Progress::Running { since: samples::now() };
        }
        let run = Status::gather(samples::fine()).last_run;
        Progress::Done { end: Box::new(End { exit: self.exit, run, message: None }) }
    }

    fn changed(&self) {
        self.told.fetch_add(1, Ordering::SeqCst);
    }
}
