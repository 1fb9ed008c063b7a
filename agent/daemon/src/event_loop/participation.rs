//! Participation of a node in states rollouts: records and time in, turns and reports out.
//!
//! Law: the loop only reads the disk and requests a turn; the turn does what the phase requires. A daemon that is
//! killed at any point continues from its phase (held by `a_killed_daemon_continues_where_it_was`).

use std::collections::BTreeMap;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use zagent_cache::source::RemoteHeads;
use zagent_config::ids::Revision;
use zagent_config::settings::BoardKind;
use zagent_rollout::phase::{NodePhase, SOAK_CHECK_INTERVAL, saturating_after};
use zagent_rollout::report::NodeReport;

use super::driver_thread::DriverThread;
use super::job::{Job, JobKind};
use super::rollout_thread::{RolloutThread, RolloutThreadEvent};
use super::{Daemon, DaemonEvent};
use crate::held_revision::HoldReason;
use crate::rollout_state::{RolloutHold, RolloutState};
use crate::status;
use crate::{node_report, sync};
use zagent_host::timezone::local_zone;
use zagent_run::RunTrigger;

/// How long a stop waits for the board.
const STOP_REPORT_TIMEOUT: Duration = Duration::from_secs(5);
/// Poll interval of the records while no rollout includes this node.
const IDLE_POLL_INTERVAL: Duration = Duration::from_secs(60);
/// Maximum backoff for a board or record store that does not answer: while a rollout waits for this node, and
/// otherwise.
const MAX_BACKOFF: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(5 * 60));
/// Maximum interval between turns without progress: while others wait for the node, and while it only rolls
/// back.
const STUCK_BACKOFF: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(10 * 60));
/// Consecutive turns without progress before the status reports it.
const STUCK_REPORT_AFTER: u32 = 3;

/// State of the loop concerning rollouts.
#[derive(Debug, Default)]
pub(crate) struct RolloutParticipation {
    rollouts: Option<RolloutThread>,
    /// Driver thread, on a node with `driver: true`.
    driver: Option<DriverThread>,
    /// Report of this node, once known.
    me: Option<Box<NodeReport>>,
    /// When the records are read next, unless polls of the source show when they change.
    read_at: Timestamp,
    /// Branches of the records at the last poll; none when polls do not show them.
    branches: Option<BTreeMap<String, Revision>>,
    /// Earliest time of the next turn.
    turn_at: Timestamp,
    /// Phase after the last turn, and the number of turns without progress since.
    stuck: (NodePhase, u32),
    /// Last published report, and when.
    published: Option<(NodeReport, Timestamp)>,
    /// Earliest time of the next report.
    publish_at: Timestamp,
    /// Consecutive failures of the records and of the board.
    failures: [u32; 2],
    /// Why the records or the board do not answer, or the rollout makes no progress here, and since when.
    pub unreachable: [Option<status::UnreachableService>; 3],
}

impl Daemon<'_> {
    /// Starts to watch the configured stores.
    pub(crate) fn start_participation(&mut self) {
        self.participation.driver = None;
        if self.settings.driver {
            self.participation.driver = DriverThread::start(self.settings.clone())
                .inspect_err(|error| tracing::error!(%error, "cannot drive rollouts"))
                .ok();
        }
        match &self.participation.rollouts {
            Some(rollouts) => rollouts.set_settings(self.settings.clone()),
            None => {
                self.participation.rollouts =
                    RolloutThread::start(self.settings.clone(), self.events.clone())
                        .inspect_err(|error| tracing::error!(%error, "cannot watch rollouts"))
                        .ok();
            }
        }
        (self.participation.branches, self.participation.published) = (None, None);
        // The first poll of the source shows whether there is anything to read.
        let wait = if self.settings.rollout.url.is_some() { Duration::ZERO } else { IDLE_POLL_INTERVAL };
        self.participation.read_at = saturating_after(Timestamp::now(), wait);
        if let Some(rollouts) =
            self.participation.rollouts.as_ref().filter(|_| self.settings.board.kind != BoardKind::None)
        {
            rollouts.identify();
        }
    }

    /// Stops driving, because the daemon is stopping.
    pub(crate) fn stop_driving(&mut self) {
        self.participation.driver = None;
    }

    /// Does what is due.
    pub(crate) fn run_rollout_due(&mut self, now: Timestamp) {
        if self.stopping {
            return;
        }
        self.read_records(now);
        if self.needs_turn(now) && now >= self.participation.turn_at {
            self.participation.turn_at = saturating_after(now, SOAK_CHECK_INTERVAL);
            self.queue.push(Job::new(JobKind::Turn { trigger: RunTrigger::Rollout, fetch: true }));
        }
        self.publish_report(now);
    }

    fn read_records(&mut self, now: Timestamp) {
        let hurry = rollout_poll_interval(&self.orders.rollout_state, self.settings.rollout.poll, now);
        if self.participation.branches.is_some() {
            if let Some(within) = hurry {
                self.clock.poll_within(now, within);
            }
            return;
        }
        let every = hurry.unwrap_or(IDLE_POLL_INTERVAL);
        let Some(rollouts) = &mut self.participation.rollouts else { return };
        // A clock that was set back must not stop the node from reading.
        let longest = if self.participation.failures[0] == 0 { every } else { MAX_BACKOFF.1 };
        self.participation.read_at = self.participation.read_at.min(saturating_after(now, longest));
        if now >= self.participation.read_at {
            self.participation.read_at = saturating_after(now, every);
            rollouts.request_read();
        }
    }

    /// Handles a poll of the source that also lists the records: only changed records are read.
    pub(crate) fn on_records_polled(&mut self, found: &RemoteHeads, now: Timestamp) {
        let first = self
            .settings
            .source
            .remotes
            .iter()
            .position(|remote| sync::directory_remote(&remote.url).is_none());
        if self.settings.rollout.url.is_some() || first != Some(found.remote) {
            self.participation.branches = None;
            return;
        }
        if self.participation.branches.as_ref() != Some(&found.prefixed)
            && let Some(rollouts) = &mut self.participation.rollouts
            && !rollouts.reading
        {
            self.participation.branches = Some(found.prefixed.clone());
            self.participation.read_at = saturating_after(now, IDLE_POLL_INTERVAL);
            if !(found.prefixed.is_empty() && self.orders.rollout_state.records.is_empty()) {
                rollouts.request_read();
            }
        }
    }

    /// True when the records on disk are those that this poll lists.
    pub(crate) fn are_records_read(&self, found: &RemoteHeads) -> bool {
        let part = &self.participation;
        part.branches.as_ref() == Some(&found.prefixed)
            && part.failures[0] == 0
            && part.rollouts.as_ref().is_some_and(|rollouts| !rollouts.reading)
    }

    /// Whether the phase, the record or the time requires a turn.
    fn needs_turn(&self, now: Timestamp) -> bool {
        if self.running.is_some() {
            return false;
        }
        let obstacle = self.change_obstacle(now).map(|(why, _)| why);
        let pinned = self.orders.pin.as_ref().map(|pin| pin.summary(now, &local_zone()));
        let hold = RolloutHold {
            pinned: pinned.as_deref(),
            closed: obstacle.is_some(),
            paused: obstacle == Some(HoldReason::Paused),
            follow: self.settings.rollout.follow,
        };
        is_turn_due(&self.orders.rollout_state, hold, now)
    }

    /// Publishes a report when something changed or the interval is over.
    fn publish_report(&mut self, now: Timestamp) {
        let Some(report) = self.own_report(now) else { return };
        let part = &mut self.participation;
        let Some(rollouts) = &mut part.rollouts else { return };
        let every =
            node_report::publish_interval(&self.settings, self.orders.rollout_state.is_under_way(now));
        let is_due = match &part.published {
            None => true,
            Some((told, at)) => {
                !node_report::is_same_report(told, &report)
                    || now >= saturating_after(*at, every)
                    || now < *at
            }
        };
        // A clock that was set back must not stop the node from reporting.
        part.publish_at = part.publish_at.min(saturating_after(now, MAX_BACKOFF.1));
        if is_due && now >= part.publish_at && !rollouts.publishing {
            part.published = Some((report.clone(), now));
            rollouts.publish(report);
        }
    }

    /// The current report; none without a board, and before the node is identified.
    fn own_report(&self, now: Timestamp) -> Option<NodeReport> {
        let base = self.participation.me.as_ref().filter(|_| self.settings.board.kind != BoardKind::None)?;
        let moment = node_report::ReportInputs {
            revision: self.seen.current.as_ref().map(|current| sync::plain_revision(&current.revision)),
            memory: &self.memory,
            orders: &self.orders,
            damaged: &self.seen.damaged,
            windows: &self.settings.windows,
            since: Some(self.since),
            now,
        };
        Some(node_report::current_report(base, &moment))
    }

    /// Tells the board that this node is stopped on request; waits a moment for that. A board that does not answer is
    /// not waited for.
    pub(crate) fn report_stop(&mut self, events: &Receiver<DaemonEvent>) {
        let now = Timestamp::now();
        let part = &self.participation;
        let is_reachable = part.published.is_some() && part.failures[1] == 0;
        let Some(report) = self.own_report(now).filter(|_| is_reachable) else { return };
        let Some(rollouts) = &mut self.participation.rollouts else { return };
        let (report, until) =
            (NodeReport { stopped: Some(now), ..report }, Instant::now() + STOP_REPORT_TIMEOUT);
        let mut is_sent = !rollouts.publishing;
        if is_sent {
            rollouts.publish(report.clone());
        }
        while let Ok(event) = events.recv_timeout(until.saturating_duration_since(Instant::now())) {
            if !matches!(event, DaemonEvent::Rollouts(RolloutThreadEvent::Published(_))) {
                continue;
            }
            if std::mem::replace(&mut is_sent, true) {
                return;
            }
            // The report before is on the board: now the last one.
            rollouts.publishing = false;
            rollouts.publish(report.clone());
        }
    }

    /// Handles an event of the rollout thread.
    pub(crate) fn on_thread_event(&mut self, heard: RolloutThreadEvent, now: Timestamp) {
        match heard {
            RolloutThreadEvent::Identified(me) => self.participation.me = Some(me),
            RolloutThreadEvent::Read(read) => {
                if let Some(rollouts) = &mut self.participation.rollouts {
                    rollouts.reading = false;
                }
                let before = self.orders.rollout_state.clone();
                if read.is_ok() {
                    self.read_files();
                }
                // A driver heartbeat does not change what fails here.
                if self.orders.rollout_state != before && self.participation.stuck.1 == 0 {
                    self.participation.turn_at = now;
                }
                if read.is_err() {
                    // Read again at the next poll, or on schedule.
                    self.participation.branches = None;
                }
                if let Some(wait) = self.backoff(0, read.is_ok(), now) {
                    self.participation.read_at = saturating_after(now, wait);
                }
                self.note_unreachable(0, read, "cannot read the rollout records", now);
            }
            RolloutThreadEvent::Published(told) => {
                if let Some(rollouts) = &mut self.participation.rollouts {
                    rollouts.publishing = false;
                }
                if told.is_err() {
                    self.participation.published = None;
                }
                self.participation.publish_at =
                    saturating_after(now, self.backoff(1, told.is_ok(), now).unwrap_or_default());
                self.note_unreachable(1, told, "cannot publish the report of this node to the board", now);
            }
        }
    }

    /// Backoff of a store that did not answer.
    fn backoff(&mut self, which: usize, answered: bool, now: Timestamp) -> Option<Duration> {
        let failures = &mut self.participation.failures[which];
        *failures = if answered { 0 } else { failures.saturating_add(1) };
        let most = if self.orders.rollout_state.is_under_way(now) { MAX_BACKOFF.0 } else { MAX_BACKOFF.1 };
        (*failures > 0).then(|| self.clock.backoff_delay(self.settings.rollout.poll, *failures, most))
    }

    /// Records which store does not answer; logged once.
    fn note_unreachable(&mut self, which: usize, answer: Result<(), String>, what: &str, now: Timestamp) {
        let seen = &mut self.participation.unreachable[which];
        match answer {
            Ok(()) => {
                if seen.take().is_some() {
                    tracing::info!(what, "recovered");
                }
            }
            Err(message) => {
                let since = seen.as_ref().map_or(now, |silent| silent.since);
                if seen.is_none() {
                    tracing::warn!("{what}: {message}");
                }
                *seen = Some(status::UnreachableService {
                    since,
                    tried: now,
                    message: format!("{what}: {message}"),
                });
            }
        }
    }

    /// Handles the end of a turn: the next check comes later, and much later without progress.
    pub(crate) fn on_turn_ended(&mut self, now: Timestamp) {
        let phase = &self.orders.rollout_state.node.phase;
        let (last, turns) = &mut self.participation.stuck;
        *turns = if is_stuck(last, phase) { turns.saturating_add(1) } else { 0 };
        let turns = *turns;
        last.clone_from(phase);
        let goes_back = match phase {
            NodePhase::RollingBack { why, .. } => Some(why.clone()),
            _ => None,
        };
        let most = if goes_back.is_some() { STUCK_BACKOFF.1 } else { STUCK_BACKOFF.0 };
        let wait = if turns > 0 {
            self.clock.backoff_delay(SOAK_CHECK_INTERVAL * 2, turns, most)
        } else {
            SOAK_CHECK_INTERVAL
        };
        self.participation.turn_at = saturating_after(now, wait.max(SOAK_CHECK_INTERVAL));
        let stands = match goes_back {
            Some(why) if turns >= STUCK_REPORT_AFTER => Err(format!(
                "{turns} attempts to roll back failed ({why}); the next comes in {}: see the log, or run \
                 `zagent cache rollback` to roll back manually",
                zagent_rollout::Span(Duration::from_secs(wait.as_secs()))
            )),
            _ => Ok(()),
        };
        self.note_unreachable(2, stands, "rollback fails", now);
    }

    /// Time until something is due.
    pub(crate) fn rollout_sleep_time(&self, now: Timestamp) -> Duration {
        let until = |at: Timestamp| Duration::try_from(at.duration_since(now)).unwrap_or(Duration::ZERO);
        let reads = self.participation.rollouts.is_some() && self.participation.branches.is_none();
        let read = if reads { until(self.participation.read_at) } else { IDLE_POLL_INTERVAL };
        let turn = if self.needs_turn(now) { until(self.participation.turn_at) } else { IDLE_POLL_INTERVAL };
        read.min(turn).max(Duration::from_millis(10))
    }
}

/// Poll interval of the records while a rollout includes this node; without one, the slow interval.
fn rollout_poll_interval(rollout_state: &RolloutState, poll: Duration, now: Timestamp) -> Option<Duration> {
    rollout_state.is_under_way(now).then(|| poll.min(IDLE_POLL_INTERVAL))
}

/// Whether the phase, the record or the time requires a turn.
fn is_turn_due(rollout_state: &RolloutState, hold: RolloutHold<'_>, now: Timestamp) -> bool {
    match rollout_state.node.phase {
        // Health checks and an expired deadline do not wait for anything.
        NodePhase::Applying { .. } | NodePhase::Soaking { .. } | NodePhase::RollingBack { .. } => true,
        NodePhase::Preparing { .. } if !hold.paused => true,
        NodePhase::Idle | NodePhase::Preparing { .. } | NodePhase::Staged { .. } => {
            rollout_state.desired_action(hold, now).is_some()
        }
    }
}

/// True when a turn should have changed the phase. A soaking node is checked repeatedly.
fn is_stuck(before: &NodePhase, after: &NodePhase) -> bool {
    let is_act = matches!(
        after,
        NodePhase::Preparing { .. } | NodePhase::Applying { .. } | NodePhase::RollingBack { .. }
    );
    is_act && before == after
}

#[cfg(test)]
pub(crate) mod tests;
