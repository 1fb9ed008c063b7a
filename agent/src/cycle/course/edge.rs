//! A rollout in a turn: what the node's phase asks for is done, one act after the other, until it waits for somebody.
//!
//! Law: what follows from an event is on the disk before it is done, and every act may be done twice: a turn that is cut off
//! anywhere leaves a phase, and the next turn begins with what that phase asks for. While a rollout judges a revision
//! nobody else does: the trial of it (`trial.rs`) is its baseline and counts its runs, the rollout alone goes back.

use jiff::Timestamp;
use zagent_cache::{Cache, Generation};
use zagent_config::ids::Revision;
use zagent_rollout::phase::{Action, Event, LOOK_EVERY, Order, Phase};

use super::{Course, Hold, keep};
use crate::cycle::ground::Ground;
use crate::cycle::memory::{Memory, Why};
use crate::cycle::orders::Orders;
use crate::cycle::sync::{self, Sync, Synced, Wish};
use crate::cycle::trial::Trial;
use crate::cycle::turn::{self, Ended, Stage, Turn};
use crate::cycle::want::Ruling;
use crate::health;
use crate::output::local_zone;
use crate::report::{Trouble, chain};
use crate::run::{Report, Trigger};

/// So many failed runs in a row are no accident of the one that came last.
const FAILING: u32 = 3;
/// Acts of one turn; a machine that goes round in circles is stopped.
const ACTS: usize = 16;

/// What a turn works on.
pub(in crate::cycle) struct Work<'a> {
    pub(in crate::cycle) cache: &'a Cache,
    pub(in crate::cycle) memory: &'a mut Memory,
    pub(in crate::cycle) stage: &'a mut dyn Stage,
    /// True when no maintenance window is open.
    pub(in crate::cycle) closed: bool,
    /// True while the node is paused: nothing is begun, what is begun is judged, kept or taken back.
    pub(in crate::cycle) paused: bool,
}

/// What an act led to.
#[derive(Default)]
struct Act {
    /// What happened.
    event: Option<Event>,
    /// True when it has to be tried again later.
    waits: bool,
    /// The run that there was.
    ended: Option<Ended>,
}

impl From<Event> for Act {
    fn from(event: Event) -> Self {
        Self { event: Some(event), ..Self::default() }
    }
}

impl Turn<'_> {
    /// Does what rollouts ask of this node. Gives back the run that there was, if any.
    ///
    /// # Errors
    /// Why a run that was due could not be.
    pub(in crate::cycle) fn follow_rollout(&self, work: &mut Work<'_>) -> Result<Option<Ended>, Trouble> {
        let paths = self.settings.paths();
        // No rollout ever spoke of this node.
        if !paths.rollout_states().exists() {
            return Ok(None);
        }
        // A daemon does this by turns of its own: two at once would tell each other's acts for cut off.
        let is_alone = self.is_alone();
        if !is_alone && self.trigger != Trigger::Rollout {
            return Ok(None);
        }
        let mut ended = self.go_on(work)?;
        // Without a daemon nobody comes back in ten seconds: what is applied is looked at until it is kept or gone.
        let soaks = || Course::read(&paths).is_ok_and(|it| matches!(it.node.phase, Phase::Soaking { .. }));
        while self.trigger != Trigger::Rollout && soaks() {
            turn::keep(work.memory, &paths, work.stage);
            // Whoever drives confirms what it hears of.
            self.tell_board(work.stage);
            self.cancel.wait(LOOK_EVERY);
            if self.cancel.is_said() {
                break;
            }
            self.hear(work.stage);
            ended = self.go_on(work)?.or(ended);
        }
        Ok(ended)
    }

    fn go_on(&self, work: &mut Work<'_>) -> Result<Option<Ended>, Trouble> {
        let paths = self.settings.paths();
        let current = revision(work.cache);
        let settled = Course::change(&paths, |course| course.settle(current.as_deref()));
        let mut course = match settled {
            Ok((course, ())) => course,
            Err(error) => {
                work.stage.warn(&chain(&error));
                return Ok(None);
            }
        };
        let mut event = match course.node.phase {
            Phase::Idle | Phase::Staged { .. } => None,
            Phase::Soaking { .. } => Some(self.look(&course, work)),
            // What was cut off is begun anew, which a pause forbids; it does not stop the time.
            Phase::Preparing { .. } | Phase::Applying { .. } if work.paused => Some(Event::Tick),
            Phase::Preparing { .. } | Phase::Applying { .. } | Phase::RollingBack { .. } => Some(Event::Boot),
        };
        let mut ended = None;
        for _ in 0..ACTS {
            let now = Timestamp::now();
            let orders = Orders::read(&paths, now);
            let pinned = orders.pin.as_ref().map(|pin| pin.words(now, &local_zone()));
            let hold = Hold {
                pinned: pinned.as_deref(),
                closed: work.closed,
                paused: work.paused,
                follow: self.settings.rollout.follow,
            };
            let head = keep::head(work.memory.newest.as_ref(), &self.settings.source.remotes).cloned();
            let asked = || course.asked(hold, now).map(|event| (event, true));
            let Some((next, is_asked)) = event.take().map(|event| (event, false)).or_else(asked) else {
                break;
            };
            let is_applied = next == Event::Applied;
            let (after, actions) = match Course::step(&paths, next, head.as_ref(), now) {
                Ok(stepped) => stepped,
                Err(error) => {
                    work.stage.warn(&format!("the rollout does not go on: {}", chain(&error)));
                    break;
                }
            };
            // What is asked for and changes nothing would be asked for ever.
            if is_asked && after == course && actions.is_empty() {
                break;
            }
            if after != course {
                tracing::info!(phase = ?after.node.phase, "the rollout goes on");
            }
            course = after;
            // The checks after the run were its first look.
            event = is_applied.then_some(Event::Ready);
            let mut waits = false;
            for action in actions {
                let act = self.carry_out(action, &course, &orders, work)?;
                waits = act.waits;
                (event, ended) = (act.event.or(event), act.ended.or(ended));
            }
            if waits {
                break;
            }
        }
        Ok(ended)
    }

    fn carry_out(
        &self,
        action: Action,
        course: &Course,
        orders: &Orders,
        work: &mut Work<'_>,
    ) -> Result<Act, Trouble> {
        match action {
            Action::Fetch(order) => Ok(self.fetch(&order, orders, work)),
            Action::Apply(_) => match course.order() {
                Some(order) => self.apply(order, orders, work),
                None => Ok(Act::default()),
            },
            Action::GoBack(back) => self.go_back(&back, course, work),
            Action::Settle(_) => {
                self.end_trial(work.stage);
                Ok(Act::default())
            }
            // What was verified and not published went away with the look at it; objects in the store are swept there.
            Action::Discard(_) => Ok(Act::default()),
        }
    }

    /// Fetches, verifies and compiles; nothing is published. Trouble on the way is tried again.
    fn fetch(&self, order: &Order, orders: &Orders, work: &mut Work<'_>) -> Act {
        if let Some(pin) = &orders.pin {
            let pinned = pin.words(Timestamp::now(), &local_zone());
            return Event::Unfetched(format!("the node is {pinned}")).into();
        }
        match self.taken(order, true, orders, work) {
            Ok(Synced::Held(held)) if held.why == Why::Unfetched => {
                work.stage.warn(&held.message);
                Act { waits: true, ..Act::default() }
            }
            Ok(Synced::Held(held)) => Event::Unfetched(held.message).into(),
            Ok(_) => Event::Fetched.into(),
            Err(words) => Event::Unfetched(words).into(),
        }
    }

    /// Publishes and runs.
    fn apply(&self, order: &Order, orders: &Orders, work: &mut Work<'_>) -> Result<Act, Trouble> {
        let current = work.cache.current().map_err(|error| Trouble::of_cache(&error))?;
        let there = current.filter(|current| sync::plain(&current.record().revision) == order.to);
        let generation = match there {
            Some(generation) => generation,
            None => match self.taken(order, false, orders, work) {
                Ok(Synced::Published(generation)) => *generation,
                Ok(Synced::Held(held)) => return Ok(Event::Unapplied(held.message).into()),
                Ok(_) => return Ok(Event::Unapplied("it was not taken".into()).into()),
                Err(words) => return Ok(Event::Unapplied(words).into()),
            },
        };
        self.begin_trial(&generation, work.stage);
        let ground = Ground::of(generation).map_err(|error| Trouble::of_cache(&error))?;
        let failures = work.memory.failures;
        let tried = self.attempt(&ground, work.memory, work.stage)?;
        turn::keep(work.memory, &self.settings.paths(), work.stage);
        let speaks = |report: &Report| speaks_against(report, failures);
        let against = tried.against.or_else(|| tried.report.as_ref().and_then(speaks));
        // A run that was stopped says nothing; the next turn tries again, so often and no oftener.
        let is_stopped = tried.report.as_ref().is_some_and(|report| report.canceled);
        let event = match against {
            Some(why) => Some(Event::GoBack(why)),
            None if is_stopped => None,
            None => Some(Event::Applied),
        };
        let ended = Some(Ended { report: tried.report, ..Ended::default() });
        Ok(Act { waits: event.is_none(), event, ended })
    }

    /// How the new revision does, by the checks that were fine before it came.
    fn look(&self, course: &Course, work: &mut Work<'_>) -> Event {
        let current = match work.cache.current() {
            Ok(Some(current)) if sync::plain(&current.record().revision) == course.node.current() => current,
            // Neither is the fault of the revision: it is not looked at, and not to blame.
            Ok(_) => return moved(course),
            Err(error) => {
                work.stage.warn(&format!("nobody can tell how the new revision does: {}", chain(&error)));
                return Event::Boot;
            }
        };
        let trial = Trial::of(&self.settings.paths(), current.name());
        let before = trial.and_then(|trial| trial.before).unwrap_or_default();
        let lost = health::regressions(&before, &self.look_at_health(work.memory));
        turn::keep(work.memory, &self.settings.paths(), work.stage);
        // Somebody who stops the agent stops its checks too.
        if self.cancel.is_said() {
            return Event::Tick;
        }
        if lost.is_rollback() { Event::NotReady(lost.words()) } else { Event::Ready }
    }

    /// Goes back to a generation that was good, and runs it. What was never published is not run away from.
    fn go_back(&self, back: &str, course: &Course, work: &mut Work<'_>) -> Result<Act, Trouble> {
        let Phase::RollingBack { order, why, rejects, .. } = &course.node.phase else {
            return Ok(Act::default());
        };
        let paths = self.settings.paths();
        let is_bad = order.to.parse::<Revision>().ok().filter(|_| *rejects);
        if let Some(bad) = &is_bad {
            self.condemn(bad, why, work.memory, work.stage);
        }
        let current = work.cache.current().map_err(|error| Trouble::of_cache(&error))?;
        let on = current.as_ref().map(|current| sync::plain(&current.record().revision)).unwrap_or_default();
        let is_back = on == back;
        if is_back && !Trial::is_of(&paths, work.cache, &order.to) {
            return Ok(Event::RolledBack.into());
        }
        let short = order.to.get(..12).unwrap_or(&order.to);
        if back.is_empty() {
            work.stage.warn(&format!("{why}; there is nothing to roll back to from {short}"));
            self.end_trial(work.stage);
            return Ok(Event::RolledBack.into());
        }
        let generation = match current.filter(|_| is_back) {
            Some(generation) => generation,
            None => match work.cache.rollback(Some(back)) {
                Ok(generation) => generation,
                Err(error) => {
                    work.stage.warn(&format!("{why}; cannot roll back from {short} yet: {}", chain(&error)));
                    return Ok(Act { waits: true, ..Act::default() });
                }
            },
        };
        let ended = self.run_back(generation, (short, why), work.memory, work.stage)?;
        self.end_trial(work.stage);
        Ok(Act { event: Some(Event::RolledBack), ended: Some(ended), waits: false })
    }

    /// Takes what an order names; the words when it names nothing that could be taken.
    fn taken(
        &self,
        order: &Order,
        preview: bool,
        orders: &Orders,
        work: &mut Work<'_>,
    ) -> Result<Synced, String> {
        let revision: Revision = order
            .to
            .parse()
            .map_err(|_| format!("`{}` is no commit: a rollout of states names one", order.to))?;
        let ruling = Ruling::Take { revision, anyway: order.anyway };
        let wish = Wish { allow_rewind: order.anyway, preview, ..Wish::default() };
        let stage = &mut *work.stage;
        let mut compiles = |top: &std::path::Path| stage.compiles(top);
        let mut sync = Sync {
            settings: self.settings,
            cache: work.cache,
            memory: work.memory,
            orders,
            seed: self.seed,
            notes: Vec::new(),
            compiles: &mut compiles,
        };
        sync.go_to(&ruling, wish, Timestamp::now()).map_err(|error| chain(&error))
    }

    fn begin_trial(&self, generation: &Generation, stage: &mut dyn Stage) {
        let paths = self.settings.paths();
        // Cut off between publication and trial, it has none yet.
        if Trial::of(&paths, generation.name()).is_none()
            && let Err(error) = Trial::begin(&paths, generation.name())
        {
            stage.warn(&chain(&error));
        }
    }
}

/// Somebody moved the node to another revision while the new one proved itself: that is their word against the rollout's.
fn moved(course: &Course) -> Event {
    let why = "somebody moved the node to another revision".to_owned();
    match course.node.rollout() {
        Some(rollout) => Event::Withdraw(rollout.clone(), why),
        None => Event::Tick,
    }
}

/// Why a run speaks against what it ran. One that fails where runs failed before is nothing new: the revision may be what
/// mends it one day, and did no harm.
fn speaks_against(report: &Report, failures_before: u32) -> Option<String> {
    failed(report).filter(|_| failures_before < FAILING)
}

/// What a run failed with.
fn failed(report: &Report) -> Option<String> {
    if report.success() || report.canceled {
        return None;
    }
    let bad = report.states.iter().filter(|state| state.standing() == crate::run::Standing::Failed);
    let ids: Vec<String> = bad.map(|state| format!("{}{}", state.id, state.exit_words())).take(3).collect();
    Some(format!("its run failed: {}", ids.join(", ")))
}

/// The revision that the node is on, as remotes name it.
fn revision(cache: &Cache) -> Option<String> {
    let current = cache.current().ok().flatten()?;
    Some(sync::plain(&current.record().revision).to_owned())
}

#[cfg(test)]
mod tests {
    use zagent_rollout::phase::{Node, step};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    #[test]
    fn somebody_who_moves_a_soaking_node_does_not_condemn_the_commit() {
        let rollout: zagent_config::ids::RolloutId = "r1".parse().unwrap();
        let order = Order {
            rollout: Some(rollout.clone()),
            to: "b".into(),
            soak: zagent_rollout::Span::seconds(60),
            anyway: false,
            created: Timestamp::UNIX_EPOCH,
        };
        let led = [Event::Prepare(order), Event::Fetched, Event::Apply(rollout), Event::Applied];
        let node = led.into_iter().fold(Node::on("a"), |node, event| step(&node, event, at(0)).0);
        let mut course = Course { node, ..Course::default() };
        for second in 1..=3 {
            let event = moved(&course);
            course.node = step(&course.node, event, at(second)).0;
        }
        let Phase::RollingBack { rejects, why, .. } = &course.node.phase else { panic!("{course:?}") };
        assert!(!rejects && why.contains("somebody moved"), "{why}");
        assert!(course.node.rejected.is_empty());
    }

    #[test]
    fn a_run_that_fails_where_runs_failed_before_is_nothing_new() {
        let mut report = crate::output::report::samples::failed();
        assert!(report.states.iter().any(|state| state.result == Some(false)), "a run that failed");
        assert!(speaks_against(&report, 0).is_some_and(|why| why.starts_with("its run failed: ")));
        assert!(speaks_against(&report, FAILING - 1).is_some(), "once or twice may be chance");
        if let Some(state) = report.states.iter_mut().find(|state| state.result == Some(false)) {
            state.changes.insert("retcode", 7);
        }
        assert!(speaks_against(&report, 0).is_some_and(|why| why.contains(" (exit code 7)")));
        assert_eq!(speaks_against(&report, FAILING), None);
        report.states.clear();
        assert_eq!(speaks_against(&report, 0), None);
    }
}
