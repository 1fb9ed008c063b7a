//! Shared state of the daemon: written by the event loop, read by the API thread.
//!
//! The loop writes, all others read or leave a request.

use std::collections::{BTreeMap, VecDeque};
use std::sync::mpsc::Sender;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::DaemonEvent;
use crate::api::{
    ApiBackend, Metrics, RequestProgress, RequestResult, RunRefused, RunRefusedReason, RunRequest, Ticket,
};
use crate::pages::{NodeFacts, NodePage, PageDetail};
use crate::status::{AgentStatus, StatusInputs};
use zagent_config::paths::Paths;
use zagent_host::timezone::local_zone;

/// Maximum number of waiting requests.
const MAX_WAITING: usize = 16;
/// Number of results kept.
const MAX_RESULTS: usize = 64;

/// Shared state of the daemon.
#[derive(Debug)]
pub(crate) struct DaemonState {
    inner: Mutex<DaemonStateInner>,
    events: Mutex<Sender<DaemonEvent>>,
    paths: Paths,
    keep: usize,
}

#[derive(Debug)]
struct DaemonStateInner {
    pieces: StatusInputs,
    ready: Result<(), String>,
    runs: BTreeMap<String, u64>,
    tickets: VecDeque<(Ticket, RequestProgress)>,
    last: u64,
    alive_until: Instant,
    stopping: bool,
}

impl DaemonState {
    pub(crate) fn new(events: Sender<DaemonEvent>, paths: Paths, keep: usize) -> Self {
        Self {
            inner: Mutex::new(DaemonStateInner {
                pieces: StatusInputs::default(),
                ready: Err("the daemon is starting".into()),
                runs: BTreeMap::new(),
                tickets: VecDeque::new(),
                last: 0,
                alive_until: Instant::now() + Duration::from_secs(60),
                stopping: false,
            }),
            events: Mutex::new(events),
            paths,
            keep,
        }
    }

    fn lock_inner(&self) -> MutexGuard<'_, DaemonStateInner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The loop is alive, and will be again before that moment.
    pub(crate) fn alive_until(&self, moment: Instant) {
        self.lock_inner().alive_until = moment;
    }

    pub(crate) fn set_pieces(&self, pieces: StatusInputs) {
        self.lock_inner().pieces = pieces;
    }

    pub(crate) fn set_ready(&self, ready: Result<(), String>) {
        self.lock_inner().ready = ready;
    }

    pub(crate) fn count_run(&self, success: bool) {
        let word = if success { "success" } else { "failure" };
        *self.lock_inner().runs.entry(word.into()).or_default() += 1;
    }

    pub(crate) fn set_stopping(&self) {
        self.lock_inner().stopping = true;
    }

    pub(crate) fn set_progress(&self, tickets: &[Ticket], progress: &RequestProgress) {
        let mut inner = self.lock_inner();
        for (_, known) in inner.tickets.iter_mut().filter(|(ticket, _)| tickets.contains(ticket)) {
            known.clone_from(progress);
        }
    }

    pub(crate) fn finish(&self, tickets: &[Ticket], end: RequestResult) {
        self.set_progress(tickets, &RequestProgress::Done { end: Box::new(end) });
    }

    fn send(&self, event: DaemonEvent) -> bool {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).send(event).is_ok()
    }
}

impl ApiBackend for DaemonState {
    fn status(&self) -> AgentStatus {
        let mut pieces = self.lock_inner().pieces.clone();
        pieces.now = Timestamp::now();
        AgentStatus::from_inputs(pieces)
    }

    fn metrics(&self) -> Metrics {
        Metrics { status: self.status(), runs: self.lock_inner().runs.clone() }
    }

    fn node_page(&self, detail: PageDetail) -> String {
        let status = self.status();
        // A summary shows no run, so that none is read for it.
        let facts = match detail {
            PageDetail::Full => NodeFacts::read(&self.paths, self.keep),
            PageDetail::Summary => NodeFacts::default(),
        };
        NodePage { status: &status, facts: &facts, now: status.at, zone: local_zone(), detail }.render()
    }

    fn is_alive(&self) -> bool {
        Instant::now() < self.lock_inner().alive_until
    }

    fn readiness(&self) -> Result<(), String> {
        self.lock_inner().ready.clone()
    }

    fn trigger(&self, request: RunRequest) -> Result<Ticket, RunRefused> {
        let refuse = |why, message: &str| Err(RunRefused { why, message: message.into() });
        let ticket = {
            let mut inner = self.lock_inner();
            let waiting = inner.tickets.iter().filter(|(_, p)| *p == RequestProgress::Waiting).count();
            let paused = inner.pieces.paused.as_ref().filter(|_| !request.test);
            if let Some(paused) = paused.filter(|p| p.until.is_none_or(|until| until > Timestamp::now())) {
                let reason = paused.reason.as_deref().unwrap_or("no reason given");
                let message = format!("the agent is paused: {reason}; resume with `zagent resume`");
                return refuse(RunRefusedReason::Paused, &message);
            }
            if inner.stopping {
                return refuse(RunRefusedReason::Stopping, "the daemon is stopping");
            }
            if waiting >= MAX_WAITING {
                return refuse(
                    RunRefusedReason::Busy,
                    "too many runs are waiting: try again when one has finished",
                );
            }
            inner.last += 1;
            let ticket = Ticket(inner.last);
            inner.tickets.push_back((ticket, RequestProgress::Waiting));
            if inner.tickets.len() > MAX_RESULTS {
                inner.tickets.pop_front();
            }
            ticket
        };
        if self.send(DaemonEvent::RunRequested(request, ticket)) {
            Ok(ticket)
        } else {
            refuse(RunRefusedReason::Stopping, "the daemon is stopping")
        }
    }

    fn progress(&self, ticket: Ticket) -> RequestProgress {
        let inner = self.lock_inner();
        let known = inner.tickets.iter().find(|(known, _)| *known == ticket);
        known.map_or(RequestProgress::Unknown, |(_, progress)| progress.clone())
    }

    fn controls_changed(&self) {
        self.send(DaemonEvent::OrdersChanged);
    }
}
