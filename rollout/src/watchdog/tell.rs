//! How the node is in, words, a status and reports out.

use std::time::Instant;

use jiff::Timestamp;

use super::{Status, Watch, Watchdog};
use crate::PROTOCOL;
use crate::phase::{Node, Phase};
use crate::record::Component;
use crate::report::{Child, Report};
use crate::supervise::Life;

impl Phase {
    /// Its word.
    #[must_use]
    pub const fn word(&self) -> &'static str {
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
    /// Says what is about to change.
    pub(super) fn tell_step(&self, next: &Node) {
        let (from, to) = (self.node.phase.word(), next.phase.word());
        if from == to {
            return;
        }
        let rollout = next.rollout().or_else(|| self.node.rollout()).map(ToString::to_string);
        match (&next.phase, &next.last) {
            (Phase::RollingBack { order, back, why, .. }, _) => {
                tracing::warn!(rollout, why, "back from {} to {back}", order.to);
            }
            (Phase::Idle, Some(last)) if Some(last) != self.node.last.as_ref() => {
                let why = last.why.as_deref();
                tracing::info!(rollout, why, "{}: {:?}", last.to, last.outcome);
            }
            _ => tracing::info!(rollout, version = next.current(), "{from} -> {to}"),
        }
    }

    /// What the node does, in words.
    pub(super) fn words(&self) -> String {
        let agent = match (&self.held, self.life.life) {
            (Some(held), Life::Up { .. }) => format!("agent {} runs", held.version),
            (Some(held), Life::Ending { .. }) => format!("agent {} is told to end", held.version),
            _ if self.is_degraded() => "degraded: the agent does not stay up".into(),
            _ => "the agent is down".into(),
        };
        match &self.node.phase {
            Phase::Idle => agent,
            Phase::Preparing { order, .. } => format!("{agent}; fetching {}", order.to),
            Phase::Staged { order, .. } => match &self.held_up {
                Some(why) => format!("{agent}; {} is fetched and waits: {why}", order.to),
                None => format!("{agent}; {} is fetched", order.to),
            },
            Phase::Applying { order, .. } => format!("switching to {}", order.to),
            Phase::Soaking { order, .. } => format!("{agent}; {} proves itself", order.to),
            Phase::RollingBack { order, back, .. } => format!("going back from {} to {back}", order.to),
        }
    }

    fn is_degraded(&self) -> bool {
        self.life.is_degraded(&self.setup.pace.rules)
    }

    fn degraded(&self) -> Option<String> {
        let how = self.ended.as_deref().unwrap_or("it does not start");
        self.is_degraded().then(|| format!("the agent failed {} times in a row: {how}", self.life.failures))
    }

    fn child(&self, now: Timestamp) -> Option<Child> {
        let held = self.held.as_ref()?;
        let uptime = u64::try_from(now.duration_since(held.since).as_secs()).unwrap_or(0);
        Some(Child { pid: u32::try_from(held.process.pid).ok()?, uptime })
    }

    /// The version that runs.
    fn version(&self) -> &str {
        self.held.as_ref().map_or_else(|| self.node.current(), |held| &held.version)
    }

    /// How things are.
    pub(super) fn status(&self, now: Timestamp) -> Status {
        let next_retry = match self.life.life {
            Life::Resting { until } => Some(crate::phase::after(now, until.saturating_sub(self.moment()))),
            _ => None,
        };
        let told = [("board", &self.told.board), ("rollouts", &self.told.records)];
        let told = told.into_iter().filter_map(|(what, why)| Some(format!("{what}: {}", why.as_ref()?)));
        let held_up = self.held_up.iter().map(|why| format!("the switch waits: {why}"));
        Status {
            watchdog: Some(Watch { pid: std::process::id(), version: self.own.clone(), since: self.since }),
            version: self.version().to_owned(),
            node: self.node.clone(),
            child: self.child(now),
            failures: self.life.failures,
            degraded: self.degraded(),
            next_retry,
            notes: self.notes.values().cloned().chain(held_up).chain(told).collect(),
        }
    }

    pub(super) fn report(&self, now: Timestamp) -> Report {
        let mut facts = self.setup.facts.clone();
        facts.insert("zagent_watchdog".into(), self.own.clone().into());
        let notes: Vec<_> = self.notes.values().map(|note| serde_json::Value::from(note.as_str())).collect();
        if !notes.is_empty() {
            facts.insert("zagent_notes".into(), notes.into());
        }
        let mut report = Report {
            id: self.setup.id.clone(),
            component: Component::Agent,
            version: self.version().to_owned(),
            revision: None,
            state: crate::report::Doing::Idle,
            taken: None,
            os: self.setup.machine.0.clone(),
            arch: self.setup.machine.1.clone(),
            facts,
            updated_at: now,
            child: self.child(now),
            degraded: self.degraded(),
            protocol: PROTOCOL,
            hold: self.held_up.clone(),
            last_run: None,
        };
        report.tell(&self.node);
        report
    }

    /// Keeps a heartbeat.
    pub(super) fn beat(&mut self, now: Timestamp) {
        if Instant::now() < self.due.beat {
            return;
        }
        self.due.beat = Instant::now() + self.setup.pace.beat;
        let beaten = self.beats.put(&self.report(now));
        self.lived.beaten = true;
        match beaten {
            Ok(()) => self.told.beats = false,
            Err(why) if !std::mem::replace(&mut self.told.beats, true) => {
                tracing::warn!(why, "heartbeats are not kept; all else goes on");
            }
            Err(_) => {}
        }
    }

    /// Publishes a report when it says something new, and when its time has come.
    pub(super) fn publish(&mut self, now: Timestamp) {
        if self.net.is_busy() {
            return;
        }
        let report = self.report(now);
        let is_new = self.published.as_ref().is_none_or(|last| !is_same(last, &report));
        // A board that does not answer is not asked more often for that.
        if Instant::now() < self.publish_due() && !(is_new && self.told.board.is_none()) {
            return;
        }
        self.due.published = Some(Instant::now());
        self.published = Some(report.clone());
        self.net.publish(report);
    }

    pub(super) fn publish_due(&self) -> Instant {
        let pace = &self.setup.pace;
        let every = match (self.takes_part(), &self.told.board) {
            (true, _) => pace.poll,
            (false, Some(_)) => pace.idle.min(pace.publish),
            (false, None) => pace.publish,
        };
        self.due.published.map_or(self.began, |last| last + every)
    }

    pub(super) fn was_published(&mut self, published: Result<(), String>) {
        self.net.answered();
        self.lived.published = true;
        match published {
            Ok(()) => {
                if self.told.board.take().is_some() {
                    tracing::info!("the board takes reports again");
                }
            }
            Err(why) => {
                // It is still news to the board.
                self.published = None;
                if self.told.board.is_none() {
                    tracing::warn!(why, "the board does not take reports; all else goes on");
                }
                self.told.board = Some(why);
            }
        }
    }

    /// Tells the service manager when something changed.
    pub(super) fn show(&mut self) {
        let words = self.words();
        if words != self.said {
            self.setup.voice.status(&words);
            self.said = words;
        }
    }
}

/// True when two reports say the same, but for the time.
fn is_same(one: &Report, other: &Report) -> bool {
    let plain = |report: &Report| {
        let child = report.child.as_ref().map(|child| Child { pid: child.pid, uptime: 0 });
        Report { updated_at: Timestamp::UNIX_EPOCH, child, ..report.clone() }
    };
    plain(one) == plain(other)
}
