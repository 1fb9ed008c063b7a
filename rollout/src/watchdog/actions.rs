//! The decisions of the phases and the supervision in, files, symlinks and processes out.
//!
//! Law: saved first, then done. The exceptions are a rollback and the progress of a soak ([`crate::unsaved_step`]): a full disk
//! must not keep a node on an unconfirmed version, and a watchdog that reads the old phase after a crash rolls back anyway (held by
//! `a_power_failure_at_any_point_of_a_bad_release_loses_nothing`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use rustix::process::Signal;

use super::life::LifeEventKind;
use super::net::{FetchFailure, NetJob};
use super::saved_state::StartedAgent;
use super::{
    FetchInProgress, PendingStart, WantedBinary, Watchdog, WatchdogEvent, error_chain, process, saved_files,
};
use crate::driver_logic::PREPARE_LIMIT;
use crate::fail_point;
use crate::phase::{self, NodeAction, NodePhase, NodeState};
use crate::slots::AgentProgram;
use crate::supervise::{self, ProcessAction, ProcessEvent, SupervisorTime};
use crate::unsaved_step::{is_one_time_event, unsaved_step};
use zagent_config::backoff::Backoff;

/// The note about a binary that cannot be fetched.
const FETCH_NOTE: &str = "fetch";
/// The note about a good version that keeps failing.
const FAILING_NOTE: &str = "failing";

impl Watchdog<'_> {
    pub(super) fn elapsed(&self) -> SupervisorTime {
        self.began.elapsed()
    }

    /// Handles an event of this node.
    pub(super) fn handle_node_event(&mut self, event: phase::NodeEvent, now: Timestamp) {
        self.handle_changed_node(&self.node.clone(), event, now);
    }

    /// The same, when the event also changes what the node knows.
    pub(super) fn handle_changed_node(&mut self, node: &NodeState, event: phase::NodeEvent, now: Timestamp) {
        let (next, actions) = phase::step(node, event.clone(), now);
        if next == self.node {
            if self.is_node_unsaved {
                self.write_node(next);
            }
        } else {
            self.log_step(&next);
            let kept = unsaved_step(&self.node, &next, &event);
            let goes_back = matches!(next.phase, NodePhase::RollingBack { .. });
            let is_written = self.write_node(next);
            if !is_written && let Some(kept) = kept {
                (self.node, self.is_node_unsaved) = (kept, true);
            }
            if !is_written && !goes_back {
                // This event is not repeated.
                if is_one_time_event(&event) && !self.unsaved_answers.contains(&event) {
                    self.unsaved_answers.push(event);
                }
                return;
            }
        }
        for action in actions {
            // At this point a power failure finds what was decided and not done.
            let _ = fail_point("watchdog::decided");
            self.perform_action(action, now);
            let _ = fail_point("watchdog::done");
        }
    }

    /// Saves the state of the node; true when it is durable.
    pub(super) fn write_node(&mut self, node: NodeState) -> bool {
        let sequence = self.sequence.saturating_add(1);
        let written = saved_files::write_sealed(&self.setup.paths.phase(), &node, sequence);
        let is_written = self.note_disk_result(written.map_err(|error| error_chain(&error)));
        let is_other_phase = self.node.phase.name() != node.phase.name();
        if is_written || matches!(node.phase, NodePhase::RollingBack { .. }) {
            self.node = node;
        }
        let _ = fail_point("watchdog::written");
        if is_written {
            (self.sequence, self.is_copy_due, self.is_node_unsaved) = (sequence, true, false);
            self.write_copy();
        }
        if is_written && is_other_phase {
            // The number of this write: a copy of an earlier phase is known to be old, whatever happens to the second.
            self.save_state();
        }
        is_written
    }

    /// Brings the second copy up to date. It is only read when the first is damaged, and names a confirmed version
    /// however old it is: so a failure is logged, and the write is repeated.
    pub(super) fn write_copy(&mut self) {
        if !self.is_copy_due {
            return;
        }
        let path = self.setup.paths.phase_copy();
        match saved_files::write_sealed(&path, &self.node, self.sequence) {
            Ok(()) => (self.is_copy_due, self.logged.copy) = (false, false),
            Err(error) if !std::mem::replace(&mut self.logged.copy, true) => {
                tracing::warn!("{}; trying again", error_chain(&error));
            }
            Err(_) => {}
        }
        let _ = fail_point("watchdog::copied");
    }

    /// Saves the rest of the state.
    pub(super) fn save_state(&mut self) -> bool {
        self.saved.sequence = self.sequence;
        let written = saved_files::write_sealed(&self.setup.paths.watchdog(), &self.saved, self.sequence);
        self.note_disk_result(written.map_err(|error| error_chain(&error)))
    }

    fn note_disk_result(&mut self, written: Result<(), String>) -> bool {
        match &written {
            Ok(()) => self.logged.disk = false,
            Err(why) if !std::mem::replace(&mut self.logged.disk, true) => {
                tracing::error!(why, "cannot save state; the watchdog starts nothing new");
            }
            Err(_) => {}
        }
        written.is_ok()
    }

    fn perform_action(&mut self, action: NodeAction, now: Timestamp) {
        match action {
            NodeAction::Fetch(order) => {
                self.wanted = Some(WantedBinary { order, since: now, tries: 0, next: Instant::now() });
                self.start_fetch(now);
            }
            NodeAction::Discard(to) => {
                if self.wanted.as_ref().is_some_and(|wanted| wanted.order.to == to) {
                    self.cancel_wanted();
                    if let Some(fetching) = &self.fetching {
                        fetching.stop.store(true, Ordering::Relaxed);
                    }
                }
                self.prune = true;
            }
            NodeAction::Apply(to) => self.apply_version(&to, now),
            NodeAction::RollBack(_) => self.roll_back(),
            NodeAction::Settle(_) => {
                self.prune = true;
                self.saved.damage.clear();
                self.save_state();
            }
        }
    }

    /// Starts the fetch that is needed, as soon as the record with its location is known and no other fetch runs.
    pub(super) fn start_fetch(&mut self, now: Timestamp) {
        let due = |wanted: &&WantedBinary| self.fetching.is_none() && Instant::now() >= wanted.next;
        let Some(WantedBinary { order, .. }) = self.wanted.as_ref().filter(due).cloned() else { return };
        let record = self.records.iter().find(|record| Some(&record.id) == order.rollout.as_ref());
        let Some(record) = record.cloned() else { return };
        let stop = Arc::new(AtomicBool::new(false));
        let errand = NetJob {
            stop: Arc::clone(&stop),
            to: order.to,
            record,
            machine: self.setup.machine.clone(),
            slots: self.slots.clone(),
            fetch: Arc::clone(&self.setup.fetch),
        };
        match errand.start(self.events.clone()) {
            Ok(()) => self.fetching = Some(FetchInProgress { stop }),
            Err(error) => {
                self.cancel_wanted();
                self.handle_node_event(
                    phase::NodeEvent::FetchFailed(format!("cannot start a thread: {error}")),
                    now,
                );
            }
        }
    }

    /// Handles the end of a fetch.
    pub(super) fn on_fetched(&mut self, fetched: Result<(), FetchFailure>, now: Timestamp) {
        let is_wanted = self.fetching.take().is_some_and(|fetching| !fetching.stop.load(Ordering::Relaxed));
        if !is_wanted {
            self.prune = true;
            return self.start_fetch(now);
        }
        let event = match fetched {
            Ok(()) => phase::NodeEvent::Fetched,
            Err(FetchFailure { why, transient: true }) if self.retry_fetch(&why, now) => return,
            Err(FetchFailure { why, .. }) => phase::NodeEvent::FetchFailed(why),
        };
        self.cancel_wanted();
        self.handle_node_event(event, now);
    }

    /// No answer: tries again later, as long as the driver waits. False when that time is over.
    fn retry_fetch(&mut self, why: &str, now: Timestamp) -> bool {
        let Some(wanted) = &mut self.wanted else { return false };
        let Some(wait) = fetch_backoff(wanted.tries, wanted.since, now, &self.setup.pace.rules) else {
            return false;
        };
        wanted.tries = wanted.tries.saturating_add(1);
        wanted.next = Instant::now() + wait;
        let note = format!("cannot fetch {} yet, trying again: {why}", wanted.order.to);
        if self.notes.insert(FETCH_NOTE, note).is_none() {
            tracing::warn!(why, to = wanted.order.to, "cannot fetch it yet; trying again");
        }
        true
    }

    fn cancel_wanted(&mut self) {
        self.wanted = None;
        self.notes.remove(FETCH_NOTE);
    }

    fn apply_version(&mut self, to: &str, now: Timestamp) {
        let promoted = self.slots.verify(to).and_then(|program| self.slots.set_current(&program));
        match promoted {
            Ok(()) => self.switch_program(PendingStart::Apply),
            Err(error) => self.handle_node_event(phase::NodeEvent::ApplyFailed(error_chain(&error)), now),
        }
    }

    fn roll_back(&mut self) {
        // It is running, or done and not saved yet.
        if self.pending_start == Some(PendingStart::Rollback)
            || self.unsaved_answers.contains(&phase::NodeEvent::RolledBack)
        {
            return;
        }
        self.switch_program(PendingStart::Rollback);
    }

    /// Starts the expected version instead of the running one.
    fn switch_program(&mut self, awaited: PendingStart) {
        self.pending_start = Some(awaited);
        self.forget_failing();
        self.supervise(ProcessEvent::Restart);
    }

    /// Handles an event of the process.
    pub(super) fn supervise(&mut self, happened: ProcessEvent) {
        let (next, act) = supervise::step(&self.process, happened, self.elapsed(), &self.setup.pace.rules);
        let was_degraded = self.process.is_degraded(&self.setup.pace.rules);
        self.process = next;
        if !was_degraded && self.process.is_degraded(&self.setup.pace.rules) {
            tracing::error!(
                failures = self.process.failures,
                "the agent keeps failing: this node is degraded"
            );
        }
        match (act, &self.agent) {
            (Some(ProcessAction::Start), _) => self.start_agent(),
            (Some(ProcessAction::Terminate), Some(held)) => held.process.signal(Signal::TERM),
            (Some(ProcessAction::Kill), Some(held)) => {
                tracing::warn!(pid = held.process.pid, "the agent does not stop; killing it");
                held.process.signal(Signal::KILL);
            }
            _ => {}
        }
        if matches!(happened, ProcessEvent::Ended | ProcessEvent::StartFailed)
            && self.process.is_degraded(&self.setup.pace.rules)
        {
            self.try_other_version();
        }
    }

    /// The agent keeps failing: the next good version runs in its place, the built-in one last. After all of them, the
    /// first is tried again at the pace of a degraded node.
    fn try_other_version(&mut self) {
        if self.node.is_unconfirmed() || self.stopping {
            return;
        }
        let Some(failed) = self.tried.clone() else { return };
        let built_in = self.slots.built_in().version.clone();
        let wanted =
            [Some(self.node.current_version().to_owned()), self.node.previous.clone(), Some(built_in)];
        let is_next = |version: &String| {
            *version != failed && !self.failing.contains(version) && self.slots.verify(version).is_ok()
        };
        let Some(next) = wanted.into_iter().flatten().find(is_next) else {
            if !std::mem::take(&mut self.failing).is_empty() {
                self.notes.insert(FAILING_NOTE, "every version on this host keeps failing".into());
            }
            return;
        };
        let why = self.ended.as_deref().unwrap_or("it does not start");
        let note = format!("{failed} keeps failing ({why}); {next} runs instead");
        tracing::error!("{note}");
        self.notes.insert(FAILING_NOTE, note);
        self.failing.insert(failed);
        self.supervise(ProcessEvent::Restart);
    }

    /// The good version is healthy again.
    pub(super) fn note_recovery(&mut self) {
        let rules = &self.setup.pace.rules;
        if self.failing.is_empty() && self.process.is_healthy(self.elapsed(), rules) {
            self.notes.remove(FAILING_NOTE);
        }
    }

    fn forget_failing(&mut self) {
        self.failing.clear();
        self.notes.remove(FAILING_NOTE);
    }

    fn start_agent(&mut self) {
        let chosen = self.choose_program();
        if let Ok(program) = &chosen {
            self.tried = Some(program.version.clone());
        }
        let started = chosen.and_then(|program| self.start_program(&program));
        let now = Timestamp::now();
        match started {
            Ok(()) => {
                self.supervise(ProcessEvent::Started);
                if let Some(held) = &self.agent {
                    let pid = u32::try_from(held.process.pid).unwrap_or(0);
                    self.note_life(held.version.clone(), LifeEventKind::AgentStarted { pid });
                }
                match self.pending_start.take() {
                    Some(PendingStart::Apply) => self.handle_node_event(phase::NodeEvent::Applied, now),
                    Some(PendingStart::Rollback) => self.handle_node_event(phase::NodeEvent::RolledBack, now),
                    None => {}
                }
            }
            Err(why) => {
                tracing::error!(why, "cannot start the agent");
                self.ended = Some(why.clone());
                let version = self.tried.clone().unwrap_or_else(|| self.node.current_version().to_owned());
                self.note_life(version, LifeEventKind::AgentCrashed { uptime_ms: 0, how: why.clone() });
                self.supervise(ProcessEvent::StartFailed);
                if self.pending_start == Some(PendingStart::Apply) {
                    self.pending_start = None;
                    self.handle_node_event(phase::NodeEvent::ApplyFailed(why), now);
                }
            }
        }
    }

    fn start_program(&mut self, program: &AgentProgram) -> Result<(), String> {
        self.accept_running(&program.version);
        if let Err(error) = self.slots.set_current(program) {
            // The symlink is only for people; the start does not depend on it.
            tracing::warn!("{}", error_chain(&error));
        }
        self.saved.starting = Some(program.clone());
        self.save_state();
        let process = process::start_process(&program.path, &self.setup.agent_args)
            .map_err(|error| format!("cannot start `{}`: {error}", program.path.display()))?;
        let _ = fail_point("watchdog::started");
        tracing::info!(pid = process.pid, version = program.version, "started the agent");
        // The first check comes later: the agent has to start first.
        self.due.look = std::time::Instant::now() + self.setup.pace.readiness;
        self.adopt_agent(StartedAgent { process, version: program.version.clone(), since: Timestamp::now() });
        Ok(())
    }

    /// From now on this is the agent.
    pub(super) fn adopt_agent(&mut self, held: StartedAgent) {
        let (process, events, pid) = (held.process.clone(), self.events.clone(), held.process.pid);
        if self.saved.child.as_ref() != Some(&held) {
            (self.saved.child, self.saved.starting) = (Some(held.clone()), None);
            self.save_state();
        }
        self.agent = Some(held);
        let watched =
            process::watch_exit(process, move |how| drop(events.send(WatchdogEvent::ProcessEnded(pid, how))));
        if let Err(error) = watched {
            tracing::error!(%error, "cannot wait for the agent");
            // As if it had exited: it is killed, and another one is started after a while.
            if let Some(held) = &self.agent {
                held.process.signal(Signal::KILL);
            }
            let _ = self.events.send(WatchdogEvent::ProcessEnded(pid, "its exit status is unknown".into()));
        }
    }

    /// Handles the exit of a process.
    pub(super) fn on_child_ended(&mut self, pid: i32, how: String, now: Timestamp) {
        if self.agent.as_ref().is_none_or(|held| held.process.pid != pid) {
            return;
        }
        if self.leaving && !self.stopping {
            // It was asked to end, so this is not a crash.
            self.stop();
        }
        let was_up = self.process.is_up();
        if let Some(held) = self.agent.take() {
            let uptime_ms = u64::try_from(now.duration_since(held.since).as_millis()).unwrap_or(0);
            let kind = if was_up {
                LifeEventKind::AgentCrashed { uptime_ms, how: how.clone() }
            } else {
                LifeEventKind::AgentStopped { uptime_ms }
            };
            self.note_life(held.version, kind);
        }
        if was_up {
            tracing::warn!(pid, "the agent: {how}");
            self.ended = Some(how.clone());
        }
        self.supervise(ProcessEvent::Ended);
        if was_up {
            self.handle_node_event(
                phase::NodeEvent::NotReady(format!("the agent keeps failing: {how}")),
                now,
            );
        }
    }

    /// Removes what is not needed, unless a fetch is running, whose files have no name yet.
    pub(super) fn prune_slots(&mut self) {
        if !self.prune || self.fetching.is_some() {
            return;
        }
        self.prune = false;
        let node = &self.node;
        let ordered = match &node.phase {
            NodePhase::Idle => None,
            NodePhase::Preparing { order, .. }
            | NodePhase::Staged { order, .. }
            | NodePhase::Applying { order, .. }
            | NodePhase::Soaking { order, .. }
            | NodePhase::RollingBack { order, .. } => Some(order.to.as_str()),
        };
        let held = self.agent.as_ref().map(|held| held.version.as_str());
        let keep =
            [Some(node.running.as_str()), node.previous.as_deref(), ordered, held, Some(&self.own_version)];
        match self.slots.prune(&keep.into_iter().flatten().collect()) {
            Ok(gone) if !gone.is_empty() => tracing::info!(slots = gone.join(", "), "removed"),
            Ok(_) => {}
            Err(error) => {
                tracing::warn!("{}", error_chain(&error));
                self.prune = true;
            }
        }
    }
}

/// The wait before a missing binary is requested again; `None` once the driver has given up.
fn fetch_backoff(
    tries: u32,
    since: Timestamp,
    now: Timestamp,
    rules: &supervise::RestartPolicy,
) -> Option<Duration> {
    let wait = Backoff::new(rules.base_delay, rules.max_delay).delay(tries);
    (now < phase::saturating_after(since, PREPARE_LIMIT)).then_some(wait)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fetch_retries_back_off_until_the_driver_gives_up() {
        let at = |seconds| Timestamp::from_second(seconds).unwrap();
        let wait = |tries, seconds| {
            fetch_backoff(tries, at(0), at(seconds), &supervise::RestartPolicy::PRODUCTION)
                .map(|wait| wait.as_secs())
        };
        let limit = i64::try_from(PREPARE_LIMIT.as_secs()).unwrap();
        assert_eq!((wait(0, 0), wait(3, 9), wait(40, 99)), (Some(1), Some(8), Some(60)));
        assert_eq!((wait(0, limit - 1), wait(0, limit)), (Some(1), None));
    }
}
