//! One node in a rollout: where it stands and an event in, where it stands then and what to do out.
//!
//! Law: total and pure. Every event is answered in every phase; one that does not belong there changes nothing. What [`step`]
//! gives back is written down before it is done, and doing it twice is as good as once, so that a crash between the two
//! loses nothing. A node always has a version that it can run: [`Node::running`] moves only when the new one is confirmed.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use zagent_config::ids::RolloutId;

use crate::Span;
use crate::version::compare;

/// So many looks in a row that find it not ready roll back.
pub const MISSES: u32 = 3;
/// How often a soaking node is looked at.
pub const LOOK_EVERY: Duration = Duration::from_secs(10);
/// The shortest time until a new version must be confirmed.
const DEADLINE_FLOOR: Duration = Duration::from_secs(5 * 60);
/// Versions that are remembered as rejected.
const REJECTED: usize = 256;
/// Rollouts that are remembered as ended.
const ENDED: usize = 64;
/// Characters of a reason: it is kept in a small file.
const WORDS: usize = 500;

/// What a node is asked to become.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// By which rollout; none when somebody on the host goes back, which is all that is done without one.
    pub rollout: Option<RolloutId>,
    /// The version or commit.
    pub to: String,
    /// How long it proves itself.
    pub soak: Span,
    /// True when it is meant although it was rejected once.
    pub anyway: bool,
    /// When the rollout was ordered: with its name, that tells it from all others.
    #[serde(default)]
    pub created: Timestamp,
}

impl Order {
    /// How long after it was applied it must be confirmed.
    #[must_use]
    pub fn patience(&self) -> Duration {
        self.soak.0.saturating_mul(3).max(DEADLINE_FLOOR)
    }
}

/// Where a node stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is")]
pub enum Phase {
    /// It runs what it should.
    #[default]
    Idle,
    /// It fetches and verifies.
    Preparing {
        /// What.
        order: Order,
        /// Since when.
        since: Timestamp,
    },
    /// It has what it needs.
    Staged {
        /// What.
        order: Order,
        /// Since when.
        since: Timestamp,
    },
    /// It switches.
    Applying {
        /// To what.
        order: Order,
        /// Since when.
        since: Timestamp,
    },
    /// It runs the new one, which has to prove itself and be confirmed.
    Soaking {
        /// What.
        order: Order,
        /// Since when.
        since: Timestamp,
        /// By when it must be confirmed.
        deadline: Timestamp,
        /// Looks in a row that found it not ready.
        misses: u32,
        /// Since when it has been ready; none when the last look found it not.
        ready_since: Option<Timestamp>,
    },
    /// It goes back.
    RollingBack {
        /// What it goes back from.
        order: Order,
        /// What it goes back to.
        back: String,
        /// Why.
        why: String,
        /// True when the version is to blame.
        rejects: bool,
        /// Since when.
        since: Timestamp,
    },
}

/// How a rollout ended on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It keeps the new one.
    Confirmed,
    /// It is back on the old one, or never left it.
    Failed,
    /// The rollout was withdrawn before anything was tried.
    Withdrawn,
}

/// The last rollout of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Which.
    pub rollout: RolloutId,
    /// To what.
    pub to: String,
    /// How it ended.
    pub outcome: Outcome,
    /// Why it failed.
    pub why: Option<String>,
    /// When.
    pub at: Timestamp,
    /// When the rollout was ordered.
    #[serde(default)]
    pub created: Timestamp,
}

/// What a node knows about itself, kept on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Node {
    /// The version that counts as good.
    pub running: String,
    /// The good one before.
    pub previous: Option<String>,
    /// Where it stands.
    pub phase: Phase,
    /// Versions that failed here, and why.
    pub rejected: BTreeMap<String, String>,
    /// How the last rollout ended.
    pub last: Option<Ended>,
    /// The rollouts that ended here, the last one last: each is carried out once.
    pub ended: Vec<(RolloutId, Timestamp)>,
    /// When the newest rollout was ordered that this node ever began.
    pub newest: Option<Timestamp>,
    /// What was heeded of each rollout: an older record of it is not.
    pub heard: BTreeMap<RolloutId, Heard>,
}

/// Which write of a record was heeded last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Heard {
    /// When the rollout was ordered; a later one of the same name is another.
    pub created: Timestamp,
    /// The serial of the record.
    pub serial: u64,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The node is to fetch and verify.
    Prepare(Order),
    /// The node is to switch.
    Apply(RolloutId),
    /// The node is to keep the new one.
    Confirm(RolloutId),
    /// The rollout is over for this node.
    Withdraw(RolloutId, String),
    /// It has what it needs.
    Fetched,
    /// It could not be fetched or verified.
    Unfetched(String),
    /// It runs the new one.
    Applied,
    /// It could not switch.
    Unapplied(String),
    /// It was looked at, and is ready.
    Ready,
    /// It was looked at, and is not; or it ended.
    NotReady(String),
    /// It is back on the old one.
    RolledBack,
    /// It could not go back.
    NotRolledBack(String),
    /// Somebody on the host asks to go back.
    GoBack(String),
    /// Time passes.
    Tick,
    /// The process that carries out actions has just begun.
    Boot,
}

/// Something to do.
///
/// Actions are done one after the other, and one answers only as long as no later one has taken its place: what is still being
/// fetched when a [`Action::Discard`] comes answers nothing any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Fetch and verify; answer with [`Event::Fetched`] or [`Event::Unfetched`].
    Fetch(Order),
    /// Forget what was fetched; no answer.
    Discard(String),
    /// Verify again, switch, start; answer with [`Event::Applied`] or [`Event::Unapplied`].
    Apply(String),
    /// Switch back, start; answer with [`Event::RolledBack`] or [`Event::NotRolledBack`].
    GoBack(String),
    /// The version is good: what is older than the one before it may go, and the watchdog renews itself; no answer.
    Settle(String),
}

impl Node {
    /// A node that runs a version.
    #[must_use]
    pub fn on(running: impl Into<String>) -> Self {
        Self { running: running.into(), ..Self::default() }
    }

    /// The version that should be running now, confirmed or not.
    #[must_use]
    pub fn current(&self) -> &str {
        match &self.phase {
            Phase::Applying { order, .. } | Phase::Soaking { order, .. } => &order.to,
            Phase::RollingBack { back, .. } => back,
            Phase::Idle | Phase::Preparing { .. } | Phase::Staged { .. } => &self.running,
        }
    }

    /// The rollout that it is in.
    #[must_use]
    pub const fn rollout(&self) -> Option<&RolloutId> {
        match &self.phase {
            Phase::Idle => None,
            Phase::Preparing { order, .. }
            | Phase::Staged { order, .. }
            | Phase::Applying { order, .. }
            | Phase::Soaking { order, .. }
            | Phase::RollingBack { order, .. } => order.rollout.as_ref(),
        }
    }

    /// True while it runs something that nobody has confirmed.
    #[must_use]
    pub const fn is_unconfirmed(&self) -> bool {
        matches!(self.phase, Phase::Applying { .. } | Phase::Soaking { .. })
    }

    /// True when a rollout has ended on this node, however it did.
    #[must_use]
    pub fn has_ended(&self, rollout: &RolloutId, created: Timestamp) -> bool {
        self.ended.iter().any(|(id, at)| id == rollout && *at == created)
    }

    fn end(&mut self, order: &Order, outcome: Outcome, why: Option<String>, now: Timestamp) {
        self.phase = Phase::Idle;
        if let Some(rollout) = order.rollout.clone() {
            if !self.has_ended(&rollout, order.created) {
                self.ended.drain(..(self.ended.len() + 1).saturating_sub(ENDED));
                self.ended.push((rollout.clone(), order.created));
            }
            self.newest = self.newest.max(Some(order.created));
            let (to, why, created) = (order.to.clone(), why.as_deref().map(cut), order.created);
            self.last = Some(Ended { rollout, to, outcome, why, at: now, created });
        }
    }

    fn go_back(&mut self, order: Order, why: String, rejects: bool, now: Timestamp) -> Vec<Action> {
        let (back, why) = (self.running.clone(), cut(&why));
        self.phase = Phase::RollingBack { order, back: back.clone(), why, rejects, since: now };
        vec![Action::GoBack(back)]
    }

    fn reject(&mut self, version: &str, why: &str) {
        if self.rejected.len() >= REJECTED && !self.rejected.contains_key(version) {
            // The oldest one is the least likely to be ordered again.
            let oldest = self.rejected.keys().min_by(|a, b| compare(a, b).unwrap_or_else(|| a.cmp(b)));
            if let Some(oldest) = oldest.cloned() {
                self.rejected.remove(&oldest);
            }
        }
        self.rejected.insert(version.to_owned(), cut(why));
        // Nobody goes back to what is bad.
        self.previous.take_if(|previous| previous == version);
    }

    /// Throws a version away, unless it is needed: a rollout may lead to the one before.
    fn discard(&self, version: String) -> Vec<Action> {
        let needed = version == self.running || self.previous.as_ref() == Some(&version);
        if needed { vec![] } else { vec![Action::Discard(version)] }
    }
}

/// What follows from an event, and what is to be done about it.
#[must_use]
pub fn step(node: &Node, event: Event, now: Timestamp) -> (Node, Vec<Action>) {
    let mut next = node.clone();
    let actions = match std::mem::take(&mut next.phase) {
        Phase::Idle => idle(&mut next, event, now),
        Phase::Preparing { order, since } => preparing(&mut next, order, since, event, now),
        Phase::Staged { order, since } => staged(&mut next, order, since, event, now),
        Phase::Applying { order, since } => applying(&mut next, order, since, event, now),
        Phase::Soaking { order, since, deadline, misses, ready_since } => {
            soaking(&mut next, Soak { order, since, deadline, misses, ready_since }, event, now)
        }
        Phase::RollingBack { order, back, why, rejects, since } => {
            rolling_back(&mut next, Back { order, back, why, rejects, since }, event, now)
        }
    };
    (next, actions)
}

fn idle(node: &mut Node, event: Event, now: Timestamp) -> Vec<Action> {
    match event {
        // Nobody would ever say apply or confirm.
        Event::Prepare(order) if order.rollout.is_none() => vec![],
        Event::Prepare(order) if order.to == node.running => {
            node.end(&order, Outcome::Confirmed, None, now);
            vec![]
        }
        Event::Prepare(order) => {
            if let Some(why) = node.rejected.get(&order.to).filter(|_| !order.anyway) {
                let why = format!("{} was rejected here before: {why}", order.to);
                node.end(&order, Outcome::Failed, Some(why), now);
                return vec![];
            }
            // Another rollout brought something newer since this one was planned.
            if compare(&order.to, &node.running) == Some(std::cmp::Ordering::Less) && !order.anyway {
                let why = format!("{} is older than {}, which runs here", order.to, node.running);
                node.end(&order, Outcome::Failed, Some(why), now);
                return vec![];
            }
            node.newest = node.newest.max(Some(order.created));
            node.phase = Phase::Preparing { order: order.clone(), since: now };
            vec![Action::Fetch(order)]
        }
        Event::GoBack(why) => match node.previous.take() {
            Some(previous) => {
                let bad = std::mem::replace(&mut node.running, previous);
                let soak = Span::default();
                let order = Order { rollout: None, to: bad, soak, anyway: false, created: now };
                node.go_back(order, why, true, now)
            }
            None => vec![],
        },
        _ => vec![],
    }
}

fn preparing(node: &mut Node, order: Order, since: Timestamp, event: Event, now: Timestamp) -> Vec<Action> {
    match event {
        Event::Fetched => {
            node.phase = Phase::Staged { order, since: now };
            vec![]
        }
        Event::Unfetched(why) => {
            node.end(&order, Outcome::Failed, Some(why), now);
            node.discard(order.to)
        }
        Event::Boot => {
            node.phase = Phase::Preparing { order: order.clone(), since };
            vec![Action::Fetch(order)]
        }
        other => withdrawn(node, order, other, now, |order| Phase::Preparing { order, since }),
    }
}

fn staged(node: &mut Node, order: Order, since: Timestamp, event: Event, now: Timestamp) -> Vec<Action> {
    match event {
        Event::Apply(rollout) if order.rollout.as_ref() == Some(&rollout) => {
            let to = order.to.clone();
            node.phase = Phase::Applying { order, since: now };
            vec![Action::Apply(to)]
        }
        other => withdrawn(node, order, other, now, |order| Phase::Staged { order, since }),
    }
}

/// What was only fetched is thrown away when nobody wants it any more.
fn withdrawn(
    node: &mut Node,
    order: Order,
    event: Event,
    now: Timestamp,
    stay: impl FnOnce(Order) -> Phase,
) -> Vec<Action> {
    let why = match event {
        Event::Withdraw(rollout, why) if order.rollout.as_ref() == Some(&rollout) => why,
        Event::GoBack(why) => why,
        _ => {
            node.phase = stay(order);
            return vec![];
        }
    };
    node.end(&order, Outcome::Withdrawn, Some(why), now);
    node.discard(order.to)
}

fn applying(node: &mut Node, order: Order, since: Timestamp, event: Event, now: Timestamp) -> Vec<Action> {
    // A clock that was set back must not give more time than a new start would.
    let since = since.min(now);
    match event {
        Event::Applied => {
            let deadline = after(now, order.patience());
            node.phase = Phase::Soaking { order, since: now, deadline, misses: 0, ready_since: None };
            vec![]
        }
        Event::Unapplied(why) => node.go_back(order, why, false, now),
        Event::GoBack(why) => node.go_back(order, why, true, now),
        Event::Withdraw(rollout, why) if order.rollout.as_ref() == Some(&rollout) => {
            node.go_back(order, why, false, now)
        }
        // A version that takes the whole host down when it is applied would be applied at every boot for ever.
        _ if now >= after(since, order.patience()) => {
            let why = format!("it was not applied within {}", Span(order.patience()));
            node.go_back(order, why, false, now)
        }
        Event::Boot => {
            let to = order.to.clone();
            node.phase = Phase::Applying { order, since };
            vec![Action::Apply(to)]
        }
        _ => {
            node.phase = Phase::Applying { order, since };
            vec![]
        }
    }
}

struct Soak {
    order: Order,
    since: Timestamp,
    deadline: Timestamp,
    misses: u32,
    ready_since: Option<Timestamp>,
}

fn soaking(node: &mut Node, mut soak: Soak, event: Event, now: Timestamp) -> Vec<Action> {
    // A clock that was set back must not give more time than a new start would.
    if now < soak.since {
        soak.since = now;
        soak.deadline = after(now, soak.order.patience());
        soak.ready_since = soak.ready_since.map(|_| now);
    }
    let is_ours = |rollout: &RolloutId| soak.order.rollout.as_ref() == Some(rollout);
    match event {
        Event::Confirm(rollout) if is_ours(&rollout) && soak.is_proven(now) => {
            let to = soak.order.to.clone();
            node.rejected.remove(&to);
            node.previous = Some(std::mem::replace(&mut node.running, to.clone()));
            node.end(&soak.order, Outcome::Confirmed, None, now);
            return vec![Action::Settle(to)];
        }
        Event::Withdraw(rollout, why) if is_ours(&rollout) => {
            return node.go_back(soak.order, why, false, now);
        }
        Event::GoBack(why) => return node.go_back(soak.order, why, true, now),
        Event::Ready => {
            soak.misses = 0;
            soak.ready_since.get_or_insert(now);
        }
        // What was ready before the host went down is not yet ready after it came up.
        Event::Boot => soak.ready_since = None,
        Event::NotReady(why) => {
            (soak.misses, soak.ready_since) = (soak.misses + 1, None);
            if soak.misses >= MISSES {
                return node.go_back(soak.order, why, true, now);
            }
        }
        _ => {}
    }
    if now >= soak.deadline {
        let why = format!("nobody confirmed it within {}", Span(soak.order.patience()));
        return node.go_back(soak.order, why, false, now);
    }
    let Soak { order, since, deadline, misses, ready_since } = soak;
    node.phase = Phase::Soaking { order, since, deadline, misses, ready_since };
    vec![]
}

impl Soak {
    /// True when it has run for as long as it must and was ready at the last look, and its time is not over. Short of [`MISSES`]
    /// in a row, a miss does not begin the time anew.
    fn is_proven(&self, now: Timestamp) -> bool {
        self.ready_since.is_some() && now >= after(self.since, self.order.soak.0) && now < self.deadline
    }
}

struct Back {
    order: Order,
    back: String,
    why: String,
    rejects: bool,
    since: Timestamp,
}

fn rolling_back(node: &mut Node, went: Back, event: Event, now: Timestamp) -> Vec<Action> {
    match event {
        Event::RolledBack => {
            if went.rejects {
                node.reject(&went.order.to, &went.why);
            }
            node.end(&went.order, Outcome::Failed, Some(went.why), now);
            node.discard(went.order.to)
        }
        other => {
            let again = matches!(other, Event::Boot | Event::NotRolledBack(_) | Event::Tick);
            let actions = if again { vec![Action::GoBack(went.back.clone())] } else { vec![] };
            let Back { order, back, why, rejects, since } = went;
            node.phase = Phase::RollingBack { order, back, why, rejects, since };
            actions
        }
    }
}

/// As much of a reason as is kept.
fn cut(why: &str) -> String {
    match why.char_indices().nth(WORDS) {
        Some((end, _)) => format!("{}…", &why[..end]),
        None => why.to_owned(),
    }
}

/// A moment so much later, or the last there is.
#[must_use]
pub fn after(moment: Timestamp, time: Duration) -> Timestamp {
    let time = SignedDuration::try_from(time).unwrap_or(SignedDuration::MAX);
    moment.checked_add(time).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests;
