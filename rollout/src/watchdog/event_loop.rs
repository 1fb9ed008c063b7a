//! The event loop: due work and incoming events in, events for the phases and the supervision out.
//!
//! Law: the records are evaluated again at every turn, level-triggered; so it does not matter which writes were seen
//! (held by `what_a_record_requires_is_level_triggered`, `every_history_keeps_every_law`).

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use zagent_config::ids::RolloutId;

use super::life::{self, LifeEvent, LifeEventKind};
use super::net::PolledRecords;
use super::{Watchdog, WatchdogEvent, WatchdogRequest, WatchdogResponse, WatchdogSignal, error_chain};
use crate::node;
use crate::phase::{self, NodePhase};
use crate::record::{Component, RolloutRecord};
use crate::supervise::{ProcessEvent, ProcessState};

/// The longest sleep of the loop: a changed clock is noticed within this time.
const MAX_SLEEP: Duration = Duration::from_secs(10);
/// The longest sleep while something depends on the clock.
const MAX_SHORT_SLEEP: Duration = Duration::from_secs(1);
/// After this many polls in a row without its record, a node treats its rollout as deleted.
const GONE_AFTER_POLLS: u32 = 2;
/// The shortest sleep: the loop must not spin.
const MIN_SLEEP: Duration = Duration::from_millis(1);

impl Watchdog<'_> {
    pub(super) fn run_loop(&mut self, heard: &Receiver<WatchdogEvent>) {
        self.setup.notifier.ready(&self.status_text());
        loop {
            self.run_due(Timestamp::now());
            if self.stopping && self.process.state == ProcessState::Stopped {
                return;
            }
            match heard.recv_timeout(self.sleep_time()) {
                Ok(event) => self.handle_event(event, Timestamp::now()),
                Err(RecvTimeoutError::Timeout) => {}
                // The sender is part of the watchdog itself.
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.setup.notifier.keep_alive();
        }
    }

    /// Does what is due.
    fn run_due(&mut self, now: Timestamp) {
        self.supervise(ProcessEvent::Tick);
        if self.stopping {
            return self.notify_status();
        }
        for answer in std::mem::take(&mut self.unsaved_answers) {
            self.handle_node_event(answer, now);
        }
        self.handle_node_event(phase::NodeEvent::Tick, now);
        self.follow_records(now);
        self.start_fetch(now);
        self.check_readiness(now);
        self.record_heartbeat(now);
        self.publish_report(now);
        self.poll_records();
        self.prune_slots();
        self.write_copy();
        self.note_recovery();
        self.mark_proven();
        self.update_self();
        self.notify_status();
    }

    fn sleep_time(&self) -> Duration {
        let now = Instant::now();
        let until = |at: Instant| at.saturating_duration_since(now);
        let mut nap = MAX_SLEEP.min(self.setup.notifier.keep_alive_interval().unwrap_or(MAX_SLEEP));
        if let Some(due) = self.process.next_due(&self.setup.pace.rules) {
            nap = nap.min(due.saturating_sub(self.elapsed()));
        }
        if self.stopping {
            return nap.max(MIN_SLEEP);
        }
        nap = nap.min(until(self.due.beat));
        if !self.net.is_busy() {
            nap = nap.min(until(self.poll_due())).min(until(self.publish_due()));
        }
        if self.node.phase != NodePhase::Idle || !self.unsaved_answers.is_empty() {
            nap = nap.min(MAX_SHORT_SLEEP);
        }
        if let Some(wanted) = self.wanted.as_ref().filter(|_| self.fetching.is_none()) {
            nap = nap.min(until(wanted.next));
        }
        if matches!(self.node.phase, NodePhase::Soaking { .. }) && !self.checking_readiness {
            nap = nap.min(until(self.due.look));
        }
        nap.max(MIN_SLEEP)
    }

    fn handle_event(&mut self, event: WatchdogEvent, now: Timestamp) {
        match event {
            WatchdogEvent::ProcessEnded(pid, how) => self.on_child_ended(pid, how, now),
            WatchdogEvent::ReadinessChecked(pid, ready) => {
                self.checking_readiness = false;
                if self.agent.as_ref().is_some_and(|held| held.process.pid == pid) && self.process.is_up() {
                    self.handle_node_event(
                        ready.map_or_else(phase::NodeEvent::NotReady, |()| phase::NodeEvent::Ready),
                        now,
                    );
                }
            }
            WatchdogEvent::Polled(polled) => self.on_polled(polled, now),
            WatchdogEvent::Published(published) => self.on_published(published),
            WatchdogEvent::Fetched(fetched) => self.on_fetched(fetched, now),
            WatchdogEvent::Probed(answer) => self.on_probed(answer),
            WatchdogEvent::Request(ask, reply) => self.answer_request(ask, &reply, now),
            WatchdogEvent::Signal(WatchdogSignal::Reload) => {
                self.net.reconnect();
                if let Some(held) = self.agent.as_ref().filter(|_| self.process.is_up()) {
                    held.process.signal(rustix::process::Signal::HUP);
                }
            }
            WatchdogEvent::Signal(WatchdogSignal::Stop) => self.stop(),
            WatchdogEvent::Signal(WatchdogSignal::StopWhenIdle) => self.stop_when_idle(),
        }
    }

    pub(super) fn stop(&mut self) {
        self.stopping = true;
        self.setup.notifier.stopping("stopping: waiting for the agent to stop");
        self.supervise(ProcessEvent::Stop);
    }

    /// Ends with the agent, which ends with its current run: an upgrade of the package never interrupts a run.
    fn stop_when_idle(&mut self) {
        match self.agent.as_ref().filter(|_| self.process.is_up()) {
            Some(held) => {
                held.process.signal(rustix::process::Signal::USR1);
                self.leaving = true;
                tracing::info!("the watchdog stops when the agent is idle");
            }
            None => self.stop(),
        }
    }

    /// Requests the records.
    fn poll_records(&mut self) {
        if Instant::now() >= self.poll_due() && !self.net.is_busy() {
            self.due.polled = Some(Instant::now());
            self.net.poll();
        }
    }

    fn poll_due(&self) -> Instant {
        let every = if self.is_in_rollout() { self.setup.pace.poll } else { self.setup.pace.idle };
        self.due.polled.map_or(self.due.first, |last| last + every)
    }

    /// True while a running rollout targets this node.
    pub(super) fn is_in_rollout(&self) -> bool {
        let means = |record: &RolloutRecord| {
            !record.state.is_final() && !record.dry_run && record.batch_of(&self.setup.id).is_some()
        };
        self.node.phase != NodePhase::Idle || self.records.iter().any(means)
    }

    fn on_polled(&mut self, polled: Result<PolledRecords, String>, now: Timestamp) {
        self.net.task_done();
        self.self_test.polled = true;
        match polled {
            Ok(found) => {
                if self.logged.records.take().is_some() {
                    tracing::info!("the rollout records can be read again");
                }
                self.accept_records(found, now);
            }
            Err(why) => {
                if self.logged.records.as_ref() != Some(&why) {
                    tracing::warn!(why, "cannot read the rollout records; everything else continues");
                    self.logged.records = Some(why);
                }
            }
        }
    }

    /// Takes over the present records, the newest first. A record that cannot be read now keeps its last known content.
    fn accept_records(&mut self, found: PolledRecords, now: Timestamp) {
        let PolledRecords { mut records, unread } = found;
        let known = std::mem::take(&mut self.records);
        records.extend(known.into_iter().filter(|record| unread.contains(&record.id)));
        records.retain(|record| record.component == Component::Agent);
        zagent_config::sorted::sort_by(&mut records, |a, b| (b.created, &b.id).cmp(&(a.created, &a.id)));
        self.records = records;
        let there =
            |id: &RolloutId| unread.contains(id) || self.records.iter().any(|record| record.id == *id);
        self.missing_polls =
            if self.node.current_rollout().is_some_and(|id| !there(id)) { self.missing_polls + 1 } else { 0 };
        if self.missing_polls >= GONE_AFTER_POLLS
            && let Some(event) = node::orphaned_action(&self.node)
        {
            self.missing_polls = 0;
            self.handle_node_event(event, now);
        }
        // A node that has read the end of a rollout does not accept an older record that says otherwise.
        let mut node = self.node.clone();
        self.records
            .iter()
            .filter(|record| record.state.is_final())
            .for_each(|it| node::accept_record(it, &mut node));
        if node != self.node {
            self.write_node(node);
        }
    }

    /// Does what the records require.
    fn follow_records(&mut self, now: Timestamp) {
        let current = self.node.current_rollout().cloned();
        let asked = self.records.iter().filter(|record| current.as_ref().is_none_or(|id| record.id == *id));
        let report = self.node_report(now);
        let mut asked = asked
            .filter_map(|record| Some((record, node::desired_action(record, &report, &self.node, now)?)));
        let Some((record, event)) = asked.next() else {
            self.hold_reason = None;
            return;
        };
        let is_switch = matches!(event, phase::NodeEvent::Apply(_));
        self.hold_reason = is_switch.then(|| (self.setup.hold)(record, now)).flatten();
        if self.hold_reason.is_some() {
            return;
        }
        let mut node = self.node.clone();
        node::accept_record(record, &mut node);
        self.handle_changed_node(&node, event, now);
    }

    /// Checks whether a soaking agent is ready.
    fn check_readiness(&mut self, now: Timestamp) {
        let is_soaking = matches!(self.node.phase, NodePhase::Soaking { .. });
        if !is_soaking || self.checking_readiness || Instant::now() < self.due.look {
            return;
        }
        self.due.look = Instant::now() + self.setup.pace.readiness;
        let pid = match (&self.agent, self.process.state) {
            (Some(held), ProcessState::Up { .. }) => held.process.pid,
            (_, ProcessState::BackingOff { .. }) => {
                let why = self.ended.clone().unwrap_or_else(|| "it is not running".into());
                return self
                    .handle_node_event(phase::NodeEvent::NotReady(format!("the agent is down: {why}")), now);
            }
            _ => return,
        };
        let (ready, events) = (std::sync::Arc::clone(&self.setup.ready), self.events.clone());
        let thread = std::thread::Builder::new().name("look".into());
        match thread.spawn(move || drop(events.send(WatchdogEvent::ReadinessChecked(pid, ready.ready())))) {
            Ok(_) => self.checking_readiness = true,
            Err(error) => tracing::warn!(%error, "cannot start a thread to check the agent"),
        }
    }

    fn answer_request(&mut self, ask: WatchdogRequest, reply: &Sender<WatchdogResponse>, now: Timestamp) {
        let answer = match ask {
            WatchdogRequest::Status => WatchdogResponse::Status(Box::new(self.status(now))),
            WatchdogRequest::History => self.answer_history(now),
            WatchdogRequest::GoBack { reason } => self.answer_rollback(reason, now),
        };
        // The client may have gone.
        let _ = reply.send(answer);
    }

    fn answer_history(&mut self, now: Timestamp) -> WatchdogResponse {
        let pace = &self.setup.pace;
        match self.beats.read() {
            Ok(life) => {
                let told = life::summarize(&life.beats, life.events, pace.heartbeat, (now, &pace.rules));
                WatchdogResponse::History(Box::new(told))
            }
            Err(why) => WatchdogResponse::Refused { why: format!("cannot read the heartbeats: {why}") },
        }
    }

    fn answer_rollback(&mut self, reason: String, now: Timestamp) -> WatchdogResponse {
        let refused = |why: String| WatchdogResponse::Refused { why };
        let (from, mut node) = (self.node.current_version().to_owned(), self.node.clone());
        match &self.node.phase {
            _ if self.stopping => return refused("the watchdog is stopping".into()),
            NodePhase::RollingBack { back, .. } => {
                return WatchdogResponse::Done { words: format!("already rolling back to {back}") };
            }
            NodePhase::Idle => match self.rollback_target() {
                Ok(previous) => node.previous = Some(previous),
                Err(why) => return refused(why),
            },
            _ => {}
        }
        self.handle_changed_node(&node, phase::NodeEvent::RollBack(reason), now);
        match &self.node.phase {
            NodePhase::RollingBack { back, .. } => {
                WatchdogResponse::Done { words: format!("rolling back from {from} to {back}") }
            }
            NodePhase::Idle if self.node.current_version() != from => WatchdogResponse::Done {
                words: format!("rolled back from {from} to {}", self.node.current_version()),
            },
            NodePhase::Idle => WatchdogResponse::Done {
                words: format!("discarded the fetched version; {from} keeps running"),
            },
            _ => refused("cannot save state: check the disk".into()),
        }
    }

    /// The version that an idle node rolls back to: the previous one, else that of the package.
    fn rollback_target(&self) -> Result<String, String> {
        let (from, built_in) = (&self.node.running, &self.slots.built_in().version);
        let previous = self.node.previous.as_ref().map(|previous| (previous, self.slots.verify(previous)));
        match previous {
            Some((previous, Ok(_))) => Ok(previous.clone()),
            _ if from != built_in && self.slots.verify(built_in).is_ok() => Ok(built_in.clone()),
            Some((_, Err(error))) => Err(format!("cannot roll back: {}", error_chain(&error))),
            None => Err(format!(
                "there is no version before {from} to roll back to: roll out an older version (zagent rollout start \
                 --anyway)"
            )),
        }
    }

    /// Saves what happened with the heartbeats.
    pub(super) fn note_life(&mut self, version: String, kind: LifeEventKind) {
        self.beats.note_event(LifeEvent { at: Timestamp::now(), version, kind });
    }

    pub(super) fn shut_down(&mut self) {
        self.mark_clean_stop();
        self.note_life(self.own_version.clone(), LifeEventKind::WatchdogStopped);
        self.setup.notifier.stopping("stopped");
        tracing::info!("the watchdog stops");
    }
}
