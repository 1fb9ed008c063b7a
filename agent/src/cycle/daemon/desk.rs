//! What the daemon knows, for whoever asks: kept by the loop, read by the thread that answers.
//!
//! Law: the loop writes, everybody else reads or leaves a wish; nobody waits for anybody.

use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::Event;
use crate::api::{Answers, End, Metrics, Progress, Refused, RefusedWhy, Ticket, Wish};
use crate::status::{Pieces, Status};

/// Wishes that may wait at once.
const WAITING: usize = 16;
/// Results that are remembered.
const RESULTS: usize = 64;

/// The desk.
#[derive(Debug)]
pub(super) struct Desk {
    inner: Mutex<Inner>,
    events: Mutex<Sender<Event>>,
}

#[derive(Debug)]
struct Inner {
    pieces: Pieces,
    ready: Result<(), String>,
    runs: BTreeMap<String, u64>,
    tickets: VecDeque<(Ticket, Progress)>,
    last: u64,
    alive_until: Instant,
    stopping: bool,
}

impl Desk {
    pub(super) fn new(events: Sender<Event>) -> Self {
        Self {
            inner: Mutex::new(Inner {
                pieces: Pieces::default(),
                ready: Err("the daemon has just begun".into()),
                runs: BTreeMap::new(),
                tickets: VecDeque::new(),
                last: 0,
                alive_until: Instant::now() + Duration::from_secs(60),
                stopping: false,
            }),
            events: Mutex::new(events),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The loop turns, and will again before that moment.
    pub(super) fn alive_until(&self, moment: Instant) {
        self.inner().alive_until = moment;
    }

    pub(super) fn show(&self, pieces: Pieces) {
        self.inner().pieces = pieces;
    }

    pub(super) fn set_ready(&self, ready: Result<(), String>) {
        self.inner().ready = ready;
    }

    pub(super) fn count_run(&self, success: bool) {
        let word = if success { "success" } else { "failure" };
        *self.inner().runs.entry(word.into()).or_default() += 1;
    }

    pub(super) fn stop(&self) {
        self.inner().stopping = true;
    }

    pub(super) fn set_progress(&self, tickets: &[Ticket], progress: &Progress) {
        let mut inner = self.inner();
        for (_, known) in inner.tickets.iter_mut().filter(|(ticket, _)| tickets.contains(ticket)) {
            known.clone_from(progress);
        }
    }

    pub(super) fn finish(&self, tickets: &[Ticket], end: End) {
        self.set_progress(tickets, &Progress::Done { end: Box::new(end) });
    }

    fn send(&self, event: Event) -> bool {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).send(event).is_ok()
    }
}

impl Answers for Desk {
    fn status(&self) -> Status {
        let mut pieces = self.inner().pieces.clone();
        pieces.now = Timestamp::now();
        Status::gather(pieces)
    }

    fn metrics(&self) -> Metrics {
        Metrics { status: self.status(), runs: self.inner().runs.clone() }
    }

    fn is_alive(&self) -> bool {
        Instant::now() < self.inner().alive_until
    }

    fn ready(&self) -> Result<(), String> {
        self.inner().ready.clone()
    }

    fn trigger(&self, wish: Wish) -> Result<Ticket, Refused> {
        let refuse = |why, message: &str| Err(Refused { why, message: message.into() });
        let ticket = {
            let mut inner = self.inner();
            let waiting = inner.tickets.iter().filter(|(_, p)| *p == Progress::Waiting).count();
            let paused = inner.pieces.paused.as_ref().filter(|_| !wish.test);
            if let Some(paused) = paused.filter(|p| p.until.is_none_or(|until| until > Timestamp::now())) {
                let reason = paused.reason.as_deref().unwrap_or("no reason is given");
                let message = format!("the agent is paused: {reason}; `zagent resume` ends that");
                return refuse(RefusedWhy::Paused, &message);
            }
            if inner.stopping {
                return refuse(RefusedWhy::Stopping, "the daemon is about to end");
            }
            if waiting >= WAITING {
                return refuse(RefusedWhy::Busy, "too many runs wait already; wait for one to end");
            }
            inner.last += 1;
            let ticket = Ticket(inner.last);
            inner.tickets.push_back((ticket, Progress::Waiting));
            if inner.tickets.len() > RESULTS {
                inner.tickets.pop_front();
            }
            ticket
        };
        if self.send(Event::Asked(wish, ticket)) {
            Ok(ticket)
        } else {
            refuse(RefusedWhy::Stopping, "the daemon is about to end")
        }
    }

    fn progress(&self, ticket: Ticket) -> Progress {
        let inner = self.inner();
        let known = inner.tickets.iter().find(|(known, _)| *known == ticket);
        known.map_or(Progress::Unknown, |(_, progress)| progress.clone())
    }

    fn changed(&self) {
        self.send(Event::Changed);
    }
}
