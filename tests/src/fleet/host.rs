//! One node: its disk, its running version, its clock, its power.

use std::rc::Rc;

use jiff::Timestamp;
use zagent_config::ids::{NodeId, RolloutId};
use zagent_rollout::PROTOCOL;
use zagent_rollout::phase::NodeAction;
use zagent_rollout::phase::{MAX_CRASHES, NodeEvent, NodeOutcome, NodePhase, NodeState, step};
use zagent_rollout::record::{Component, RolloutRecord};
use zagent_rollout::recovery::{KnownWrites, SavedCopy, recover};
use zagent_rollout::report::{NodeActivity, NodeReport};
use zagent_rollout::unsaved_step::{is_one_time_event, unsaved_step};

use super::scenario::{Release, SECOND, Wrong};

/// The initial version of every node.
pub const FIRST: &str = "1.0";
/// How long a node may be past its deadline: it checks every ten seconds.
const GRAIN: i64 = 11 * SECOND;
/// The minimum time limit for a confirmation, and as a multiple of the soak.
const PATIENCE: (i64, i64) = (300 * SECOND, 3);

/// The start of virtual time.
const BEGIN: i64 = 1_800_000_000_000;

/// A clock with this offset.
#[must_use]
pub fn clock(now: i64, off: i64) -> Timestamp {
    Timestamp::from_millisecond(BEGIN + now + off).unwrap_or(Timestamp::MAX)
}

/// The name of a node by its index.
#[must_use]
pub fn name(place: usize) -> NodeId {
    format!("n{place:05}").parse().expect("a name")
}

/// The name of a rollout by its index.
#[must_use]
pub fn rollout(place: usize) -> RolloutId {
    format!("r{place}").parse().expect("a name")
}

/// The index of the first record that no node may obey.
pub const FORGED: usize = 900;

/// The index of a rollout by its name.
#[must_use]
pub fn place(id: &RolloutId) -> usize {
    id.as_str()[1..].parse().expect("a place")
}

/// The index of a node by its name.
#[must_use]
pub fn index(id: &NodeId) -> usize {
    id.as_str()[1..].parse().expect("a place")
}

/// A node.
#[derive(Debug)]
pub struct Host {
    /// Its id.
    pub id: NodeId,
    /// The component.
    pub component: Component,
    /// Its state in memory.
    pub node: NodeState,
    /// Its state on disk, if that differs: the disk was full.
    pub disk: Option<NodeState>,
    /// The state before its last write, and what the laws remembered then.
    pub before: Option<Box<(NodeState, Past)>>,
    /// What the last power failure did to the saved state.
    pub harm: Option<Harm>,
    /// True when the last event was written: only then can a power failure lose that write.
    pub wrote: bool,
    /// How often the version on trial crashed the host.
    pub felled: u32,
    /// Events that come once and could not be saved.
    pub again: Vec<NodeEvent>,
    /// The running version, or the one that would run with power.
    pub slot: String,
    /// The installed versions.
    pub versions: Vec<String>,
    /// True while it has power.
    pub is_up: bool,
    /// True when it never returns.
    pub is_gone: bool,
    /// The number of boots: work from an earlier boot reports nothing.
    pub life: u32,
    /// The last action: an action that was replaced reports nothing.
    pub job: u32,
    /// The offset of its clock.
    pub off: i64,
    /// Until when it cannot reach the board.
    pub cut: i64,
    /// Until when its disk is full.
    pub full: i64,
    /// Until when it may not switch.
    pub held: i64,
    /// When it last switched.
    pub applied: i64,
    /// True while a check is scheduled.
    pub looks: bool,
    /// True when the board may not have its latest state.
    pub unsaid: bool,
    /// When it last reported.
    pub said: i64,
    /// Number of sent reports.
    pub sent: u64,
    /// The newest report that arrived.
    pub came: u64,
    /// The records that it read last, since its boot, the newest first.
    pub records: Vec<Rc<RolloutRecord>>,
    /// How many polls in a row did not find the record of its rollout.
    pub missing: u32,
    /// What the laws need later.
    pub past: Past,
    /// Since when it runs, or switches to, an unconfirmed version, and when that must have ended: by its clock and by
    /// ours.
    pub due: Option<(i64, i64)>,
    /// Since when it is past that.
    pub late: Option<i64>,
    /// The rollout in which it counts as unconfirmed.
    pub counts: Option<usize>,
}

/// What a power failure does to the two saved copies of a node's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    /// The first is damaged.
    First,
    /// The first is damaged, and the second was not written yet.
    FirstBeforeSecond,
    /// The first is an old one.
    FirstIsOld,
    /// The second is damaged.
    Second,
    /// Both are damaged.
    Both,
}

/// The history of a node, which only the laws remember.
#[derive(Clone, Debug, Default)]
pub struct Past {
    /// The versions that were ever confirmed here.
    pub good: Vec<String>,
    /// The versions that crashed the host until they had to be rejected.
    pub felling: Vec<String>,
    /// True when everything that was saved was lost.
    pub is_lost: bool,
    /// The version that was confirmed here and not rolled back by hand.
    pub confirmed: Option<String>,
    /// The rollouts that it confirmed.
    pub kept: Vec<RolloutId>,
    /// The rollouts to the version that it already ran.
    pub had: Vec<RolloutId>,
    /// The versions that it rejected and that no order allowed since.
    pub rejected: Vec<String>,
    /// The rollouts that it started, by index.
    pub begun: Vec<usize>,
    /// The versions that it left for another, and the index of that rollout.
    pub left: Vec<(String, usize)>,
    /// The rollouts whose end it has read, by index.
    pub ended: Vec<usize>,
}

impl Host {
    /// A node with the initial version.
    #[must_use]
    pub fn new(id: NodeId, component: Component) -> Self {
        Self {
            id,
            component,
            node: NodeState::with_version(FIRST),
            disk: None,
            before: None,
            harm: None,
            wrote: false,
            felled: 0,
            again: vec![],
            slot: FIRST.into(),
            versions: vec![FIRST.into()],
            is_up: true,
            is_gone: false,
            life: 0,
            job: 0,
            off: 0,
            cut: 0,
            full: 0,
            held: 0,
            applied: 0,
            looks: false,
            unsaid: true,
            said: 0,
            sent: 0,
            came: 0,
            records: vec![],
            missing: 0,
            past: Past { good: vec![FIRST.into()], ..Past::default() },
            due: None,
            late: None,
            counts: None,
        }
    }

    /// True when a version is installed.
    #[must_use]
    pub fn has(&self, version: &str) -> bool {
        self.versions.iter().any(|v| v == version)
    }

    /// True while it needs checks.
    #[must_use]
    pub const fn is_watched(&self) -> bool {
        matches!(
            self.node.phase,
            NodePhase::Applying { .. } | NodePhase::Soaking { .. } | NodePhase::RollingBack { .. }
        )
    }

    /// The rollout, by index, that installed its unconfirmed version.
    #[must_use]
    pub fn unconfirmed(&self) -> Option<usize> {
        if self.slot == self.node.running { None } else { self.node.current_rollout().map(place) }
    }

    /// The result of a check.
    #[must_use]
    pub fn look(&self, release: Release, now: i64, wrong: Wrong) -> NodeEvent {
        if !matches!(self.node.phase, NodePhase::Soaking { .. }) {
            return NodeEvent::Tick;
        }
        match release {
            Release::Bad if wrong != Wrong::Blind => NodeEvent::NotReady("it exited".into()),
            Release::GoesBad(after) if now - self.applied >= after => {
                NodeEvent::NotReady("no longer ready".into())
            }
            _ => NodeEvent::Ready,
        }
    }

    /// Applies an event: returns the actions, and the law that was broken. As on a real node, nothing is done that
    /// could not be saved, except a rollback.
    pub fn happen(
        &mut self,
        event: NodeEvent,
        now: i64,
        soak: u64,
        wrong: Wrong,
    ) -> (Vec<NodeAction>, Option<String>) {
        let (time, own) = (clock(now, self.off), now + self.off);
        self.wrote = false;
        let patience = PATIENCE.0.max(PATIENCE.1 * soak as i64 * SECOND);
        // If the clock was set back, the time left is not longer than after a fresh start.
        self.due = self.due.map(|due| if own < due.0 { (own, own + patience) } else { due });
        if wrong == Wrong::Forgiving && matches!(event, NodeEvent::Prepare(_)) {
            self.node.rejected.clear();
        }
        let (mut next, mut actions) = step(&self.node, event.clone(), time);
        match &mut next.phase {
            NodePhase::RollingBack { why, .. }
                if wrong == Wrong::NoDeadline && why.starts_with("the driver did not confirm") =>
            {
                (next, actions) = (self.node.clone(), vec![]);
            }
            NodePhase::Soaking { order, since, deadline, .. } if wrong == Wrong::Patient => {
                *deadline = zagent_rollout::phase::saturating_after(*since, order.confirm_timeout() * 1000);
            }
            _ => {}
        }
        let is_written = now >= self.full;
        if next == self.node {
            if is_written {
                self.disk = None;
            }
            return (actions, None);
        }
        if !is_written && !matches!(next.phase, NodePhase::RollingBack { .. }) {
            if let Some(kept) = unsaved_step(&self.node, &next, &event) {
                let before = std::mem::replace(&mut self.node, kept);
                self.disk.get_or_insert(before);
            }
            if is_one_time_event(&event) && !self.again.contains(&event) {
                self.again.push(event);
            }
            return (vec![], None);
        }
        self.wrote = is_written;
        if is_written {
            self.before = Some(Box::new((self.node.clone(), self.past.clone())));
        }
        if matches!(event, NodeEvent::Confirm(_)) && next.running != self.node.running {
            self.past.good.push(next.running.clone());
        }
        let broken = self.past.begins(&self.node, &next, &event).map(|words| format!("{}: {words}", self.id));
        self.past.note(
            &self.node,
            &next,
            matches!((&event, &self.node.phase), (NodeEvent::RollBack(_), NodePhase::Idle)),
        );
        if std::mem::discriminant(&self.node.phase) != std::mem::discriminant(&next.phase)
            && matches!(next.phase, NodePhase::Applying { .. } | NodePhase::Soaking { .. })
        {
            self.due = Some((own, own + patience));
        }
        let before = std::mem::replace(&mut self.node, next);
        if is_written {
            self.disk = None;
        } else {
            self.disk.get_or_insert(before);
        }
        (actions, broken)
    }

    /// Power failure: unsaved state is lost.
    pub fn fall(&mut self) {
        (self.is_up, self.looks, self.late) = (false, false, None);
        self.life += 1;
        self.missing = 0;
        self.records.clear();
        self.again.clear();
        if let Some(disk) = self.disk.take() {
            (self.node, self.before) = (disk, None);
            self.slot = self.node.current_version().to_owned();
        }
    }

    /// Power returns: what was damaged is recovered, as the watchdog does.
    pub fn recover(&mut self, now: i64, wrong: Wrong) {
        let Some(harm) = self.harm.take().filter(|_| self.component == Component::Agent) else { return };
        if wrong == Wrong::TrustsLink {
            self.node = NodeState::with_version(self.slot.clone());
            return;
        }
        let whole = |node: &NodeState, sequence| SavedCopy::Whole {
            node: Box::new(node.clone()),
            sequence: Some(sequence),
        };
        let damaged = || SavedCopy::Damaged("damaged".into());
        let known = KnownWrites { sequence: 0, has_slots: true };
        let before = self.before.take();
        let (first, second) = match (harm, &before) {
            (Harm::FirstBeforeSecond, Some(before)) => (damaged(), whole(&before.0, 8)),
            (Harm::FirstIsOld, Some(before)) => (whole(&before.0, 8), whole(&self.node, 9)),
            (Harm::First | Harm::FirstBeforeSecond | Harm::FirstIsOld, _) => {
                (damaged(), whole(&self.node, 9))
            }
            (Harm::Second, _) => (whole(&self.node, 9), damaged()),
            (Harm::Both, _) => (damaged(), damaged()),
        };
        self.node = recover(first, second, known, FIRST, clock(now, self.off)).node;
        match (harm, before) {
            // Nothing that followed from the lost write left the node.
            (Harm::FirstBeforeSecond, Some(before)) => self.past = before.1,
            (Harm::Both, _) => {
                let Past { good, kept, had, .. } = std::mem::take(&mut self.past);
                self.past = Past { good, kept, had, is_lost: true, ..Past::default() };
                if !self.has(FIRST) {
                    self.versions.push(FIRST.into());
                }
            }
            _ => {}
        }
    }

    /// The version on trial crashes the host; the law that this breaks.
    pub fn fell(&mut self, version: &str) -> Option<String> {
        self.felled += 1;
        let is_counted = self.component == Component::Agent && self.full == 0;
        if is_counted && self.felled == MAX_CRASHES {
            self.past.felling.push(version.to_owned());
        }
        (is_counted && self.felled > MAX_CRASHES)
            .then(|| format!("{}: {version} crashed it {} times and is applied again", self.id, self.felled))
    }

    /// What it must report at once.
    #[must_use]
    pub fn said(&self) -> Said {
        let is_ready = matches!(&self.node.phase, NodePhase::Soaking { ready_since: Some(_), .. });
        let last = self.node.last.as_ref().map(|last| (place(&last.rollout), last.at));
        Said(std::mem::discriminant(&self.node.phase), is_ready, last)
    }

    /// Its report.
    #[must_use]
    pub fn report(&self, now: i64) -> NodeReport {
        let mut report = NodeReport {
            id: self.id.clone(),
            component: self.component,
            version: self.node.running.clone(),
            revision: None,
            state: NodeActivity::Idle,
            taken: None,
            os: "linux".into(),
            arch: "x86_64".into(),
            facts: std::collections::BTreeMap::new(),
            updated_at: clock(now, self.off),
            child: None,
            degraded: None,
            protocol: PROTOCOL,
            hold: None,
            last_run: None,
            stopped: None,
            rejected: Default::default(),
            failing_checks: Vec::new(),
            waits: Default::default(),
        };
        report.update_from_node(&self.node);
        report
    }

    /// The law that it breaks when it is past its deadline for too long. The deadline follows from the rollout alone,
    /// not from what the node saved.
    pub fn is_late(&mut self, now: i64) -> Option<String> {
        let has_begun = match &self.node.phase {
            NodePhase::Soaking { .. } => true,
            // A run of states is not interrupted.
            NodePhase::Applying { .. } => self.component == Component::Agent,
            _ => false,
        };
        let is_past = has_begun && self.due.is_some_and(|(_, due)| now + self.off >= due);
        if !is_past || !self.is_up {
            self.late = None;
            return None;
        }
        let since = *self.late.get_or_insert(now);
        (now - since > GRAIN).then(|| format!("{}: unconfirmed and past its deadline", self.id))
    }
}

/// What it must report at once: its phase, whether it is ready, the result of its last rollout.
#[derive(Debug, PartialEq, Eq)]
pub struct Said(std::mem::Discriminant<NodePhase>, bool, Option<(usize, Timestamp)>);

impl Past {
    /// The law that a node breaks with what it starts.
    fn begins(&mut self, node: &NodeState, next: &NodeState, event: &NodeEvent) -> Option<String> {
        let NodeEvent::Prepare(order) = event else { return None };
        if node.phase != NodePhase::Idle {
            return None;
        }
        let (rollout, to) = (place(order.rollout.as_ref()?), &order.to);
        let is_again = self.begun.contains(&rollout);
        self.begun.push(rollout);
        if is_again {
            return Some(format!("it starts r{rollout} again"));
        }
        if *to == node.running {
            self.had.extend(order.rollout.clone());
        }
        if next.phase == NodePhase::Idle {
            return None;
        }
        if self.rejected.contains(to) && !order.anyway {
            return Some(format!("it tries {to}, which it rejected"));
        }
        let newer = self.left.iter().find(|(version, newer)| version == to && *newer > rollout);
        newer.map(|(_, newer)| format!("r{rollout} moves it back to {to}, which it left for r{newer}"))
    }

    /// Remembers what the laws need later.
    fn note(&mut self, node: &NodeState, next: &NodeState, is_by_hand: bool) {
        if let NodePhase::RollingBack { order, rejects: true, .. } = &node.phase
            && next.phase == NodePhase::Idle
        {
            self.rejected.push(order.to.clone());
        }
        if next.running != node.running {
            self.confirmed = if is_by_hand { None } else { Some(next.running.clone()) };
            self.rejected.retain(|version| *version != next.running);
            self.left.extend(node.current_rollout().map(|rollout| (node.running.clone(), place(rollout))));
        }
        if let Some(last) = next.last.as_ref().filter(|last| last.outcome == NodeOutcome::Confirmed)
            && self.kept.last() != Some(&last.rollout)
        {
            self.kept.push(last.rollout.clone());
        }
    }
}
