//! A daemon for tests with fixed responses.

#![expect(clippy::unwrap_used, reason = "a fixture that cannot be made has failed its test")]

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::{
    ApiBackend, Metrics, RequestProgress, RequestResult, RunRefused, RunRefusedReason, RunRequest, Ticket,
};
use crate::pages::{NodeFacts, NodePage, PageDetail};
use crate::status::{AgentStatus, samples};

/// A daemon with fixed responses.
#[derive(Default)]
pub struct FakeBackend {
    /// Recorded requests.
    pub requests: Mutex<Vec<RunRequest>>,
    /// How often the progress of a request was asked for.
    pub asked: AtomicUsize,
    /// How often it was told that the controls changed.
    pub told: AtomicUsize,
    /// How often a request is still waiting.
    pub waits: usize,
    /// True when it is not alive.
    pub stuck: AtomicBool,
    /// True when it is not ready and refuses to run.
    pub paused: bool,
    /// Exit code of a run.
    pub exit: u8,
    /// Locked by a test that needs a daemon that does not respond.
    pub lock: Mutex<()>,
}

impl ApiBackend for FakeBackend {
    fn status(&self) -> AgentStatus {
        let _held = self.lock.lock().unwrap();
        AgentStatus::from_inputs(samples::fine())
    }

    fn metrics(&self) -> Metrics {
        Metrics { status: self.status(), runs: [("ok".to_owned(), 3)].into() }
    }

    fn node_page(&self, detail: PageDetail) -> String {
        let (status, facts) = (self.status(), NodeFacts::default());
        let (now, zone) = (samples::now(), jiff::tz::TimeZone::UTC);
        NodePage { status: &status, facts: &facts, now, zone, detail }.render()
    }

    fn is_alive(&self) -> bool {
        !self.stuck.load(Ordering::SeqCst)
    }

    fn readiness(&self) -> Result<(), String> {
        if self.paused { Err("the current generation does not compile".into()) } else { Ok(()) }
    }

    fn trigger(&self, request: RunRequest) -> Result<Ticket, RunRefused> {
        if self.paused {
            let message = "paused until 15:30 (disk swap): zagent resume".into();
            return Err(RunRefused { why: RunRefusedReason::Paused, message });
        }
        self.requests.lock().unwrap().push(request);
        Ok(Ticket(7))
    }

    fn progress(&self, ticket: Ticket) -> RequestProgress {
        if ticket != Ticket(7) {
            return RequestProgress::Unknown;
        }
        if self.asked.fetch_add(1, Ordering::SeqCst) < self.waits {
            return RequestProgress::Running { since: samples::now() };
        }
        let run = AgentStatus::from_inputs(samples::fine()).last_run;
        RequestProgress::Done { end: Box::new(RequestResult { exit: self.exit, run, message: None }) }
    }

    fn controls_changed(&self) {
        self.told.fetch_add(1, Ordering::SeqCst);
    }
}
