//! The state of the node in, messages, a status and reports out.

use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::{RunningWatchdog, Watchdog, WatchdogEvent, WatchdogStatus};
use crate::PROTOCOL;
use crate::phase::{NodePhase, NodeState};
use crate::record::Component;
use crate::report::{AgentProcess, MAX_REJECTED, NodeReport, short_reason};
use crate::supervise::ProcessState;

/// How long a stop waits for the board.
const STOP_REPORT_TIMEOUT: Duration = Duration::from_secs(5);

impl NodePhase {
    /// Its word.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Preparing { .. } => "preparing",
            Self::Staged { .. } => "staged",
            Self::Applying { .. } => "applying",
            Self::Soaking { .. } => "soaking",
            Self::RollingBack { .. } => "rolling-back",
        }
    }
}

impl Watchdog<'_> {
    /// Logs what is about to change.
    pub(super) fn log_step(&self, next: &NodeState) {
        let (from, to) = (self.node.phase.name(), next.phase.name());
        if from == to {
            return;
        }
        let rollout = next.current_rollout().or_else(|| self.node.current_rollout()).map(ToString::to_string);
        match (&next.phase, &next.last) {
            (NodePhase::RollingBack { order, back, why, .. }, _) => {
                tracing::warn!(rollout, why, "rolling back from {} to {back}", order.to);
            }
            (NodePhase::Idle, Some(last)) if Some(last) != self.node.last.as_ref() => {
                let why = last.why.as_deref();
                tracing::info!(rollout, why, "{}: {:?}", last.to, last.outcome);
            }
            _ => tracing::info!(rollout, version = next.current_version(), "{from} -> {to}"),
        }
    }

    /// What the node does, as a message.
    pub(super) fn status_text(&self) -> String {
        let agent = match (&self.agent, self.process.state) {
            (Some(held), ProcessState::Up { .. }) => format!("agent {} runs", held.version),
            (Some(held), ProcessState::Ending { .. }) => format!("agent {} is stopping", held.version),
            _ if self.is_degraded() => "degraded: the agent keeps failing".into(),
            _ => "the agent is down".into(),
        };
        match &self.node.phase {
            NodePhase::Idle => agent,
            NodePhase::Preparing { order, .. } => format!("{agent}; fetching {}", order.to),
            NodePhase::Staged { order, .. } => match &self.hold_reason {
                Some(why) => format!("{agent}; {} is fetched and waiting: {why}", order.to),
                None => format!("{agent}; {} is fetched", order.to),
            },
            NodePhase::Applying { order, .. } => format!("switching to {}", order.to),
            NodePhase::Soaking { order, .. } => format!("{agent}; {} is soaking", order.to),
            NodePhase::RollingBack { order, back, .. } => format!("rolling back from {} to {back}", order.to),
        }
    }

    /// True while the agent keeps failing, also while another version is tried in its place.
    fn is_degraded(&self) -> bool {
        let rules = &self.setup.pace.rules;
        let is_trying = !self.failing.is_empty() && !self.process.is_healthy(self.elapsed(), rules);
        is_trying || self.process.is_degraded(rules)
    }

    fn degraded_reason(&self) -> Option<String> {
        let how = self.ended.as_deref().unwrap_or("it does not start");
        let failures = self.process.failures;
        let reason = || match self.failing.first() {
            Some(version) => format!("{version} keeps failing, and another version is tried: {how}"),
            None => format!("the agent failed {failures} times in a row: {how}"),
        };
        self.is_degraded().then(reason)
    }

    /// What people should know: damage that was found, and why it does not run what is expected.
    fn people_notes(&self, now: Timestamp) -> impl Iterator<Item = &str> {
        let damage = self.saved.damage.iter().filter(move |note| note.is_recent(now));
        damage.map(|note| note.text.as_str()).chain(self.notes.values().map(String::as_str))
    }

    fn agent_process(&self, now: Timestamp) -> Option<AgentProcess> {
        let held = self.agent.as_ref()?;
        let uptime = u64::try_from(now.duration_since(held.since).as_secs()).unwrap_or(0);
        Some(AgentProcess { pid: u32::try_from(held.process.pid).ok()?, uptime })
    }

    /// The version that runs.
    fn running_version(&self) -> &str {
        self.agent.as_ref().map_or_else(|| self.node.current_version(), |held| &held.version)
    }

    /// The status.
    pub(super) fn status(&self, now: Timestamp) -> WatchdogStatus {
        let next_retry = match self.process.state {
            ProcessState::BackingOff { until } => {
                Some(crate::phase::saturating_after(now, until.saturating_sub(self.elapsed())))
            }
            _ => None,
        };
        let told = [("board", &self.logged.board), ("rollouts", &self.logged.records)];
        let told = told.into_iter().filter_map(|(what, why)| Some(format!("{what}: {}", why.as_ref()?)));
        let held_up = self.hold_reason.iter().map(|why| format!("the switch waits: {why}"));
        WatchdogStatus {
            watchdog: Some(RunningWatchdog {
                pid: std::process::id(),
                version: self.own_version.clone(),
                since: self.since,
            }),
            version: self.running_version().to_owned(),
            node: self.node.clone(),
            child: self.agent_process(now),
            failures: self.process.failures,
            degraded: self.degraded_reason(),
            next_retry,
            notes: self.people_notes(now).map(str::to_owned).chain(held_up).chain(told).collect(),
            last_seen: None,
            built_in: Some(self.slots.built_in().version.clone()),
        }
    }

    pub(super) fn node_report(&self, now: Timestamp) -> NodeReport {
        let mut facts = self.setup.facts.clone();
        facts.insert("zagent_watchdog".into(), self.own_version.clone().into());
        let notes: Vec<_> = self.people_notes(now).map(serde_json::Value::from).collect();
        if !notes.is_empty() {
            facts.insert("zagent_notes".into(), notes.into());
        }
        let mut report = NodeReport {
            id: self.setup.id.clone(),
            component: Component::Agent,
            version: self.running_version().to_owned(),
            revision: None,
            state: crate::report::NodeActivity::Idle,
            taken: None,
            os: self.setup.machine.0.clone(),
            arch: self.setup.machine.1.clone(),
            facts,
            updated_at: now,
            child: self.agent_process(now),
            degraded: self.degraded_reason(),
            protocol: PROTOCOL,
            hold: self.hold_reason.clone(),
            last_run: None,
            stopped: None,
            rejected: Default::default(),
            failing_checks: Vec::new(),
            waits: Default::default(),
        };
        let rejected = self.node.rejected.iter().rev().take(MAX_REJECTED);
        report.rejected = rejected.map(|(version, why)| (version.clone(), short_reason(why))).collect();
        report.update_from_node(&self.node);
        report
    }

    /// Tells the board that this node is stopped on request; waits a moment for that.
    pub(super) fn report_stop(&mut self, events: &Receiver<WatchdogEvent>, now: Timestamp) {
        if self.published.is_none() || self.logged.board.is_some() {
            return;
        }
        let until = Instant::now() + STOP_REPORT_TIMEOUT;
        let report = NodeReport { stopped: Some(now), child: None, ..self.node_report(now) };
        let mut is_sent = false;
        loop {
            if !self.net.is_busy() {
                if std::mem::replace(&mut is_sent, true) {
                    return;
                }
                self.net.publish(report.clone());
            }
            match events.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(WatchdogEvent::Polled(_) | WatchdogEvent::Published(_)) => self.net.task_done(),
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }

    /// Saves a heartbeat.
    pub(super) fn record_heartbeat(&mut self, now: Timestamp) {
        if Instant::now() < self.due.beat {
            return;
        }
        self.due.beat = Instant::now() + self.setup.pace.heartbeat;
        let beaten = self.beats.append(&self.node_report(now));
        self.self_test.beaten = true;
        match beaten {
            Ok(()) => self.logged.beats = false,
            Err(why) if !std::mem::replace(&mut self.logged.beats, true) => {
                tracing::warn!(why, "cannot save heartbeats; everything else continues");
            }
            Err(_) => {}
        }
    }

    /// Publishes a report when something changed, and when it is due.
    pub(super) fn publish_report(&mut self, now: Timestamp) {
        if self.net.is_busy() {
            return;
        }
        let report = self.node_report(now);
        let is_new = self.published.as_ref().is_none_or(|last| !is_same_report(last, &report));
        // A board that does not answer is not polled more often for that.
        if Instant::now() < self.publish_due() && !(is_new && self.logged.board.is_none()) {
            return;
        }
        self.due.published = Some(Instant::now());
        self.published = Some(report.clone());
        self.net.publish(report);
    }

    pub(super) fn publish_due(&self) -> Instant {
        let pace = &self.setup.pace;
        let every = match (self.is_in_rollout(), &self.logged.board) {
            (true, _) => pace.poll,
            (false, Some(_)) => pace.idle.min(pace.publish),
            (false, None) => pace.publish,
        };
        self.due.published.map_or(self.began, |last| last + every)
    }

    pub(super) fn on_published(&mut self, published: Result<(), String>) {
        self.net.task_done();
        self.self_test.published = true;
        match published {
            Ok(()) => {
                if self.logged.board.take().is_some() {
                    tracing::info!("the board accepts reports again");
                }
            }
            Err(why) => {
                // The board does not have it yet.
                self.published = None;
                if self.logged.board.is_none() {
                    tracing::warn!(why, "the board does not accept reports; everything else continues");
                }
                self.logged.board = Some(why);
            }
        }
    }

    /// Notifies the service manager when something changed.
    pub(super) fn notify_status(&mut self) {
        let words = self.status_text();
        if words != self.last_status {
            self.setup.notifier.status(&words);
            self.last_status = words;
        }
    }
}

/// True when two reports are equal, except for the time.
fn is_same_report(one: &NodeReport, other: &NodeReport) -> bool {
    let plain = |report: &NodeReport| {
        let child = report.child.as_ref().map(|child| AgentProcess { pid: child.pid, uptime: 0 });
        NodeReport { updated_at: Timestamp::UNIX_EPOCH, child, ..report.clone() }
    };
    plain(one) == plain(other)
}
