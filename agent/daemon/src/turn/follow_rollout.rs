//! A rollout in a turn: does what the node's phase requires, one action after the other, until it has to
//! wait.
//!
//! Law: the consequence of an event is on disk before it is carried out, and every action is safe to repeat: an
//! interrupted turn leaves a phase, and the next turn starts with the action of that phase. While a rollout judges
//! a revision, nothing else does: its trial (`trial.rs`) holds the baseline and counts the runs, only the rollout
//! rolls back (held by `a_killed_daemon_continues_where_it_was`, `killed_during_a_rollback_it_rolls_back_once`).

#![expect(
    clippy::disallowed_methods,
    reason = "a step of the turn: it reads the clock and hands time to decisions"
)]

use jiff::Timestamp;
use zagent_cache::{Cache, Generation};
use zagent_config::ids::Revision;
use zagent_rollout::phase::{NodeAction, NodeEvent, NodePhase, RolloutOrder, SOAK_CHECK_INTERVAL};

use super::{Turn, TurnOutcome, save_memory};
use crate::decide::RolloutConstraint;
use crate::error::AgentError;
use crate::health;
use crate::held_revision::HoldReason;
use crate::memory::AgentMemory;
use crate::operator_orders::OperatorOrders;
use crate::rollout_state::{RolloutHold, RolloutState};
use crate::states_source::StatesSource;
use crate::sync;
use crate::sync::{StatesSync, SyncOptions, SyncOutcome};
use crate::trial::GenerationTrial;
use crate::turn_runner::TurnRunner;
use zagent_config::error_chain;
use zagent_host::timezone::local_zone;
use zagent_run::{RunReport, RunTrigger};

/// Number of consecutive failed runs that are not caused by the last revision alone.
const MIN_FAILED_RUNS: u32 = 3;
/// Maximum actions of one turn, to stop an endless loop.
const MAX_ACTIONS: usize = 16;

/// What a turn works on.
pub(crate) struct TurnWork<'a, 'r> {
    pub cache: &'a Cache,
    pub memory: &'a mut AgentMemory,
    pub runner: &'a mut TurnRunner<'r>,
    /// True when no maintenance window is open.
    pub window_closed: bool,
    /// True while the node is paused: nothing new starts; what has started is checked, kept or rolled back.
    pub paused: bool,
}

/// Result of an action.
#[derive(Default)]
struct ActionResult {
    /// Resulting event.
    event: Option<NodeEvent>,
    /// True when it must be retried later.
    retry_later: bool,
    /// The run, if there was one.
    outcome: Option<TurnOutcome>,
}

impl From<NodeEvent> for ActionResult {
    fn from(event: NodeEvent) -> Self {
        Self { event: Some(event), ..Self::default() }
    }
}

impl Turn<'_> {
    /// Does what rollouts require of this node. Returns the run, if there was one.
    ///
    /// # Errors
    /// Why a run that was due could not be.
    pub(crate) fn follow_rollout(
        &self,
        work: &mut TurnWork<'_, '_>,
    ) -> Result<Option<TurnOutcome>, AgentError> {
        let paths = self.settings.paths();
        // No rollout has ever included this node.
        if !paths.rollout_states().exists() {
            return Ok(None);
        }
        // A daemon does this in turns of its own: two at once would take each other's actions for interrupted
        // ones.
        let is_alone = self.has_no_daemon();
        if !is_alone && self.trigger != RunTrigger::Rollout {
            return Ok(None);
        }
        let mut ended = self.advance_rollout(work)?;
        // Without a daemon nothing returns in ten seconds: an applied revision is checked until it is kept or
        // rolled back.
        let soaks =
            || RolloutState::read(&paths).is_ok_and(|it| matches!(it.node.phase, NodePhase::Soaking { .. }));
        while self.trigger != RunTrigger::Rollout && soaks() {
            save_memory(work.memory, &paths, work.runner);
            // The driver confirms what it reads in the report.
            self.publish_report(work.runner);
            self.cancel.wait(SOAK_CHECK_INTERVAL);
            if self.cancel.is_cancelled() {
                break;
            }
            self.read_records(work.runner);
            ended = self.advance_rollout(work)?.or(ended);
        }
        Ok(ended)
    }

    fn advance_rollout(&self, work: &mut TurnWork<'_, '_>) -> Result<Option<TurnOutcome>, AgentError> {
        let paths = self.settings.paths();
        let current = current_revision(work.cache);
        let settled =
            RolloutState::update(&paths, |rollout_state| rollout_state.set_settled(current.as_deref()));
        let mut rollout_state = match settled {
            Ok((rollout_state, ())) => rollout_state,
            Err(error) => {
                work.runner.warn(&error_chain(&error));
                return Ok(None);
            }
        };
        let mut event = match rollout_state.node.phase {
            NodePhase::Idle | NodePhase::Staged { .. } => None,
            NodePhase::Soaking { .. } => Some(self.check_soak(&rollout_state, work)),
            // An interrupted action starts again, which a pause prevents; it does not stop the clock.
            NodePhase::Preparing { .. } | NodePhase::Applying { .. } if work.paused => Some(NodeEvent::Tick),
            NodePhase::Preparing { .. } | NodePhase::Applying { .. } | NodePhase::RollingBack { .. } => {
                Some(NodeEvent::Boot)
            }
        };
        let mut ended = None;
        for _ in 0..MAX_ACTIONS {
            let now = Timestamp::now();
            let orders = OperatorOrders::read(&paths, now);
            let pinned = orders.pin.as_ref().map(|pin| pin.summary(now, &local_zone()));
            let hold = RolloutHold {
                pinned: pinned.as_deref(),
                closed: work.window_closed,
                paused: work.paused,
                follow: self.settings.rollout.follow,
            };
            let head = work.memory.followed_head(&self.settings.source.remotes).cloned();
            let asked = || rollout_state.desired_action(hold, now).map(|event| (event, true));
            let Some((next, is_asked)) = event.take().map(|event| (event, false)).or_else(asked) else {
                break;
            };
            let is_applied = next == NodeEvent::Applied;
            let (after, actions) = match RolloutState::step(&paths, next, head.as_ref(), now) {
                Ok(stepped) => stepped,
                Err(error) => {
                    work.runner.warn(&format!("the rollout makes no progress: {}", error_chain(&error)));
                    break;
                }
            };
            // An action that changes nothing would be repeated forever.
            if is_asked && after == rollout_state && actions.is_empty() {
                break;
            }
            if after != rollout_state {
                tracing::info!(phase = ?after.node.phase, "rollout phase changed");
            }
            rollout_state = after;
            // The checks after the run were its first check.
            event = is_applied.then_some(NodeEvent::Ready);
            let mut waits = false;
            for action in actions {
                let act = self.perform_action(action, &rollout_state, &orders, work)?;
                waits = act.retry_later;
                (event, ended) = (act.event.or(event), act.outcome.or(ended));
            }
            if waits {
                break;
            }
        }
        Ok(ended)
    }

    fn perform_action(
        &self,
        action: NodeAction,
        rollout_state: &RolloutState,
        orders: &OperatorOrders,
        work: &mut TurnWork<'_, '_>,
    ) -> Result<ActionResult, AgentError> {
        match action {
            NodeAction::Fetch(order) => Ok(self.fetch_order(&order, orders, work)),
            NodeAction::Apply(_) => match rollout_state.current_order() {
                Some(order) => self.apply_order(order, orders, work),
                None => Ok(ActionResult::default()),
            },
            NodeAction::RollBack(back) => self.roll_back_order(&back, rollout_state, work),
            NodeAction::Settle(_) => {
                self.end_trial(work.runner);
                Ok(ActionResult::default())
            }
            // A verified, unpublished tree is removed when it is dropped; objects in the store are cleaned up
            // there.
            NodeAction::Discard(_) => Ok(ActionResult::default()),
        }
    }

    /// Fetches, verifies and compiles; publishes nothing. Temporary errors are retried.
    fn fetch_order(
        &self,
        order: &RolloutOrder,
        orders: &OperatorOrders,
        work: &mut TurnWork<'_, '_>,
    ) -> ActionResult {
        if let Some(pin) = &orders.pin {
            let pinned = pin.summary(Timestamp::now(), &local_zone());
            return NodeEvent::FetchFailed(format!("the node is {pinned}")).into();
        }
        match self.sync_to_order(order, true, orders, work) {
            Ok(SyncOutcome::Held(held)) if held.why == HoldReason::Unfetched => {
                work.runner.warn(&held.message);
                let told = RolloutState::update(&self.settings.paths(), |rollout_state| {
                    rollout_state.obstacle = Some(held.message.clone());
                });
                if let Err(error) = told {
                    work.runner.warn(&error_chain(&error));
                }
                ActionResult { retry_later: true, ..ActionResult::default() }
            }
            Ok(SyncOutcome::Held(held)) => NodeEvent::FetchFailed(held.message).into(),
            Ok(_) => NodeEvent::Fetched.into(),
            Err(words) => NodeEvent::FetchFailed(words).into(),
        }
    }

    /// Publishes and runs.
    fn apply_order(
        &self,
        order: &RolloutOrder,
        orders: &OperatorOrders,
        work: &mut TurnWork<'_, '_>,
    ) -> Result<ActionResult, AgentError> {
        let current = work.cache.current().map_err(|error| AgentError::from_cache(&error))?;
        let there = current.filter(|current| sync::plain_revision(&current.record().revision) == order.to);
        let generation = match there {
            Some(generation) => generation,
            None => match self.sync_to_order(order, false, orders, work) {
                Ok(SyncOutcome::Published(generation)) => *generation,
                Ok(SyncOutcome::Held(held)) => return Ok(NodeEvent::ApplyFailed(held.message).into()),
                Ok(_) => return Ok(NodeEvent::ApplyFailed("the revision was not accepted".into()).into()),
                Err(words) => return Ok(NodeEvent::ApplyFailed(words).into()),
            },
        };
        self.begin_trial(&generation, work.runner);
        let source =
            StatesSource::from_generation(generation).map_err(|error| AgentError::from_cache(&error))?;
        let failures = work.memory.failures;
        let tried = self.attempt(&source, work.memory, work.runner)?;
        save_memory(work.memory, &self.settings.paths(), work.runner);
        let speaks = |report: &RunReport| run_rejection(report, failures);
        let against = tried.rejection.or_else(|| tried.report.as_ref().and_then(speaks));
        // A stopped run says nothing; the next turn tries again, a limited number of times.
        let is_stopped = tried.report.as_ref().is_some_and(|report| report.canceled);
        let event = match against {
            Some(why) => Some(NodeEvent::RollBack(why)),
            None if is_stopped => None,
            None => Some(NodeEvent::Applied),
        };
        let ended = Some(TurnOutcome { report: tried.report, ..TurnOutcome::default() });
        Ok(ActionResult { retry_later: event.is_none(), event, outcome: ended })
    }

    /// Health of the new revision, by the checks that passed before it arrived.
    fn check_soak(&self, rollout_state: &RolloutState, work: &mut TurnWork<'_, '_>) -> NodeEvent {
        let current = match work.cache.current() {
            Ok(Some(current))
                if sync::plain_revision(&current.record().revision)
                    == rollout_state.node.current_version() =>
            {
                current
            }
            // Neither is caused by the revision: it is not checked and not blamed.
            Ok(_) => return moved_event(rollout_state),
            Err(error) => {
                work.runner
                    .warn(&format!("the health of the new revision is unknown: {}", error_chain(&error)));
                return NodeEvent::Boot;
            }
        };
        let trial = GenerationTrial::load(&self.settings.paths(), current.name());
        let before = trial.and_then(|trial| trial.before).unwrap_or_default();
        let lost = health::find_regressions(&before, &self.check_health(work.memory));
        save_memory(work.memory, &self.settings.paths(), work.runner);
        // Stopping the agent stops its checks too.
        if self.cancel.is_cancelled() {
            return NodeEvent::Tick;
        }
        if lost.requires_rollback() { NodeEvent::NotReady(lost.summary()) } else { NodeEvent::Ready }
    }

    /// Rolls back to a good generation and runs it. A revision that was never published needs no run.
    fn roll_back_order(
        &self,
        back: &str,
        rollout_state: &RolloutState,
        work: &mut TurnWork<'_, '_>,
    ) -> Result<ActionResult, AgentError> {
        let NodePhase::RollingBack { order, why, rejects, .. } = &rollout_state.node.phase else {
            return Ok(ActionResult::default());
        };
        let paths = self.settings.paths();
        let is_bad = order.to.parse::<Revision>().ok().filter(|_| *rejects);
        if let Some(bad) = &is_bad {
            self.quarantine(bad, why, work.memory, work.runner);
        }
        let current = work.cache.current().map_err(|error| AgentError::from_cache(&error))?;
        let on = current
            .as_ref()
            .map(|current| sync::plain_revision(&current.record().revision))
            .unwrap_or_default();
        let is_back = on == back;
        if is_back && !GenerationTrial::is_on_trial(&paths, work.cache, &order.to) {
            return Ok(NodeEvent::RolledBack.into());
        }
        let short = zagent_config::ids::short_revision(&order.to);
        if back.is_empty() {
            work.runner.warn(&format!("{why}; there is nothing to roll back to from {short}"));
            self.end_trial(work.runner);
            return Ok(NodeEvent::RolledBack.into());
        }
        let generation = match current.filter(|_| is_back) {
            Some(generation) => generation,
            None => match work.cache.rollback(Some(back)) {
                Ok(generation) => generation,
                Err(error) => {
                    work.runner
                        .warn(&format!("{why}; cannot roll back from {short} yet: {}", error_chain(&error)));
                    return Ok(ActionResult { retry_later: true, ..ActionResult::default() });
                }
            },
        };
        let ended = self.rerun_current(generation, (short, why), work.memory, work.runner)?;
        self.end_trial(work.runner);
        Ok(ActionResult { event: Some(NodeEvent::RolledBack), outcome: Some(ended), retry_later: false })
    }

    /// Takes what an order names; returns the reason when that is not possible.
    fn sync_to_order(
        &self,
        order: &RolloutOrder,
        preview: bool,
        orders: &OperatorOrders,
        work: &mut TurnWork<'_, '_>,
    ) -> Result<SyncOutcome, String> {
        let revision: Revision = order
            .to
            .parse()
            .map_err(|_| format!("`{}` is not a commit: a states rollout needs one", order.to))?;
        let constraint = RolloutConstraint::Take { revision, anyway: order.anyway };
        let options = SyncOptions { allow_rewind: order.anyway, preview, ..SyncOptions::default() };
        let runner = &mut *work.runner;
        let mut compiles = |top: &std::path::Path, revision: &str| runner.check_compiles(top, revision);
        let mut sync = StatesSync {
            settings: self.settings,
            cache: work.cache,
            memory: work.memory,
            orders,
            seed: self.seed,
            notes: Vec::new(),
            handover: None,
            check_compiles: &mut compiles,
        };
        sync.sync_to(&constraint, options, Timestamp::now()).map_err(|error| error_chain(&error))
    }

    fn begin_trial(&self, generation: &Generation, runner: &mut TurnRunner<'_>) {
        let paths = self.settings.paths();
        // Interrupted between publication and trial, it has none yet.
        if GenerationTrial::load(&paths, generation.name()).is_none()
            && let Err(error) = GenerationTrial::begin(&paths, generation.name())
        {
            runner.warn(&error_chain(&error));
        }
    }
}

/// An operator moved the node to another revision during the soak: that overrides the rollout.
fn moved_event(rollout_state: &RolloutState) -> NodeEvent {
    let why = "the node was moved to another revision manually".to_owned();
    match rollout_state.node.current_rollout() {
        Some(rollout) => NodeEvent::Withdraw(rollout.clone(), why),
        None => NodeEvent::Tick,
    }
}

/// Why a run counts against its revision. A failure where earlier runs failed is not new: the revision may be
/// part of the fix, and did no harm.
fn run_rejection(report: &RunReport, failures_before: u32) -> Option<String> {
    failed_states(report).filter(|_| failures_before < MIN_FAILED_RUNS)
}

/// What failed in a run.
fn failed_states(report: &RunReport) -> Option<String> {
    if report.is_success() || report.canceled {
        return None;
    }
    let bad = report.states.iter().filter(|state| state.status() == zagent_run::StateStatus::Failed);
    let ids: Vec<String> =
        bad.map(|state| format!("{}{}", state.id, state.exit_code_suffix())).take(3).collect();
    Some(format!("its run failed: {}", ids.join(", ")))
}

/// Current revision, as remotes name it.
fn current_revision(cache: &Cache) -> Option<String> {
    let current = cache.current().ok().flatten()?;
    Some(sync::plain_revision(&current.record().revision).to_owned())
}

#[cfg(test)]
mod tests {
    use zagent_rollout::phase::{NodeState, step};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    #[test]
    fn moving_a_soaking_node_does_not_quarantine_the_commit() {
        let rollout: zagent_config::ids::RolloutId = "r1".parse().unwrap();
        let order = RolloutOrder {
            rollout: Some(rollout.clone()),
            to: "b".into(),
            soak: zagent_rollout::Span::seconds(60),
            anyway: false,
            created: Timestamp::UNIX_EPOCH,
        };
        let led =
            [NodeEvent::Prepare(order), NodeEvent::Fetched, NodeEvent::Apply(rollout), NodeEvent::Applied];
        let node =
            led.into_iter().fold(NodeState::with_version("a"), |node, event| step(&node, event, at(0)).0);
        let mut rollout_state = RolloutState { node, ..RolloutState::default() };
        for second in 1..=3 {
            let event = moved_event(&rollout_state);
            rollout_state.node = step(&rollout_state.node, event, at(second)).0;
        }
        let NodePhase::RollingBack { rejects, why, .. } = &rollout_state.node.phase else {
            panic!("{rollout_state:?}")
        };
        assert!(!rejects && why.contains("moved to another revision"), "{why}");
        assert!(rollout_state.node.rejected.is_empty());
    }

    #[test]
    fn a_run_that_fails_where_runs_failed_before_is_nothing_new() {
        let mut report = zagent_run::samples::failed();
        assert!(report.states.iter().any(|state| state.result == Some(false)), "a run that failed");
        assert!(run_rejection(&report, 0).is_some_and(|why| why.starts_with("its run failed: ")));
        assert!(run_rejection(&report, MIN_FAILED_RUNS - 1).is_some(), "once or twice may be chance");
        if let Some(state) = report.states.iter_mut().find(|state| state.result == Some(false)) {
            state.changes.insert("retcode", 7);
        }
        assert!(run_rejection(&report, 0).is_some_and(|why| why.contains(" (exit code 7)")));
        assert_eq!(run_rejection(&report, MIN_FAILED_RUNS), None);
        report.states.clear();
        assert_eq!(run_rejection(&report, 0), None);
    }
}
