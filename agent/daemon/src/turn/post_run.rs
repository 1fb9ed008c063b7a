//! States source in, run and its consequences out: the trial of a new revision, notifications, a reboot.
//!
//! Law: a new revision that breaks the host is rolled back: the host returns to the previous generation, and the
//! revision is quarantined. An interrupted trial continues with the next run (held by
//! `a_revision_that_fails_health_checks_is_rolled_back_and_not_tried_again`, `a_missed_trial_is_done_later`).

#![expect(
    clippy::disallowed_methods,
    reason = "a step of the turn: it reads the clock and hands time to decisions"
)]

use jiff::Timestamp;
use zagent_cache::{Cache, Generation};
use zagent_config::Value;
use zagent_config::ids::Revision;
use zagent_config::settings::WebhookOccasion;

use super::{Turn, TurnOutcome, save_memory};
use crate::error::{AgentError, ExitStatus};
use crate::health;
use crate::health::{HealthStatus, RETRY_INTERVAL, Regressions};
use crate::held_revision::HoldReason;
use crate::memory::AgentMemory;
use crate::notify::{NotifyEvent, audit, run_occasions, webhook};
use crate::operator::quarantine::{Quarantine, QuarantinedRevision};
use crate::operator::{reboot, windows};
use crate::rollout_state::RolloutState;
use crate::states_source::{SourceGuard, StatesSource};
use crate::sync;
use crate::trial::{GenerationTrial, MAX_TRIES};
use crate::turn_runner::TurnRunner;
use zagent_config::error_chain;
use zagent_host::timezone::local_zone;
use zagent_run::history::History;
use zagent_run::{RunReport, RunTrigger, StateOutcome, StateStatus};

/// Result of a run on trial or not.
pub struct AttemptResult {
    /// Report; none when the run did not start.
    pub report: Option<RunReport>,
    /// True when the generation has not passed its health checks yet.
    pub(crate) on_trial: bool,
    /// Reason against it.
    pub(crate) rejection: Option<String>,
}

/// True when a run ended before its first state: another run is active, or its plan file does not fit.
fn never_started(error: &AgentError) -> bool {
    matches!(error.exit(), ExitStatus::Locked | ExitStatus::Refused)
}

/// Event by which a state requests a reboot.
const REBOOT_EVENT: &str = "zagent/reboot";

impl Turn<'_> {
    /// Runs, then checks the health of the host.
    pub(crate) fn converge_and_check(
        &self,
        cache: &Cache,
        source: StatesSource,
        memory: &mut AgentMemory,
        runner: &mut TurnRunner<'_>,
    ) -> Result<TurnOutcome, AgentError> {
        if self.test {
            let ran = runner.run(&source, self.trigger)?;
            return Ok(TurnOutcome { report: Some(ran), ..TurnOutcome::default() });
        }
        if runner.order.audit {
            return self.audit(&source, memory, runner);
        }
        // While a rollout judges the generation on trial, this is an ordinary run of it.
        let judged = RolloutState::read(&self.settings.paths())
            .is_ok_and(|rollout_state| rollout_state.is_judging(sync::plain_revision(&source.revision)));
        if judged {
            let ran = runner.run(&source, self.trigger)?;
            let told = self.note_run(&ran, None, memory, runner);
            self.note_reboot_request(&ran, runner);
            return Ok(self.finish_run(ran, told, memory, runner));
        }
        let tried = self.attempt(&source, memory, runner)?;
        if let Some(why) = &tried.rejection {
            return self.roll_back(cache, &source, why, memory, runner);
        }
        if tried.on_trial && !self.partial && tried.report.as_ref().is_some_and(|report| !report.canceled) {
            self.end_trial(runner);
        }
        save_memory(memory, &self.settings.paths(), runner);
        self.reboot_if_needed(runner);
        Ok(TurnOutcome { report: tried.report, ..TurnOutcome::default() })
    }

    /// Only looks, and reports like a real run. A generation on trial stays on trial until it is applied.
    fn audit(
        &self,
        source: &StatesSource,
        memory: &mut AgentMemory,
        runner: &mut TurnRunner<'_>,
    ) -> Result<TurnOutcome, AgentError> {
        let ran = runner.run(source, self.trigger)?;
        let told = self.note_run(&ran, None, memory, runner);
        self.check_health(memory);
        save_memory(memory, &self.settings.paths(), runner);
        told.join().iter().for_each(|error| runner.warn(&error_chain(error)));
        Ok(TurnOutcome { report: Some(ran), ..TurnOutcome::default() })
    }

    /// Runs, and returns the reason against a generation on trial.
    pub fn attempt(
        &self,
        source: &StatesSource,
        memory: &mut AgentMemory,
        runner: &mut TurnRunner<'_>,
    ) -> Result<AttemptResult, AgentError> {
        let trial = self.next_trial(source, runner);
        if trial.as_ref().is_some_and(|trial| trial.tries > MAX_TRIES) {
            let why = format!("{MAX_TRIES} runs of it were interrupted before they finished");
            return Ok(AttemptResult { report: None, on_trial: true, rejection: Some(why) });
        }
        let ran = match runner.run(source, self.trigger) {
            Ok(ran) => ran,
            Err(trouble) => {
                if let Some(trial) = trial.filter(|_| never_started(&trouble)) {
                    // It never started: that does not count as an attempt.
                    self.save_trial(&GenerationTrial { tries: trial.tries - 1, ..trial }, runner);
                }
                return Err(trouble);
            }
        };
        let told = self.note_run(&ran, None, memory, runner);
        self.note_reboot_request(&ran, runner);
        let before = trial.as_ref().and_then(|trial| trial.before.as_deref());
        let lost = self.find_regressions(before.unwrap_or_default(), &ran, memory);
        let is_bad = trial.is_some() && lost.requires_rollback();
        if !is_bad && lost != Regressions::default() {
            runner.warn(&lost.summary());
        }
        told.join().iter().for_each(|error| runner.warn(&error_chain(error)));
        Ok(AttemptResult {
            report: Some(ran),
            on_trial: trial.is_some(),
            rejection: is_bad.then(|| lost.summary()),
        })
    }

    /// The trial of the generation, one attempt further; the first attempt records the checks from before.
    fn next_trial(&self, source: &StatesSource, runner: &mut TurnRunner<'_>) -> Option<GenerationTrial> {
        let SourceGuard::Generation(generation, _) = &source.guard else { return None };
        let mut trial = GenerationTrial::load(&self.settings.paths(), generation.name())?;
        if trial.before.is_none() {
            trial.before =
                Some(health::run_checks(self.machine, &self.settings.health, RETRY_INTERVAL, self.cancel));
        }
        trial.tries += 1;
        self.save_trial(&trial, runner);
        Some(trial)
    }

    fn save_trial(&self, trial: &GenerationTrial, runner: &mut TurnRunner<'_>) {
        if let Err(error) = trial.save(&self.settings.paths()) {
            runner.warn(&error_chain(&error));
        }
    }

    pub(crate) fn end_trial(&self, runner: &mut TurnRunner<'_>) {
        if let Err(error) = GenerationTrial::end(&self.settings.paths()) {
            runner.warn(&error_chain(&error));
        }
    }

    /// Records a run for the status and the audit, and starts notifications.
    fn note_run(
        &self,
        ran: &RunReport,
        rolled_back: Option<&str>,
        memory: &mut AgentMemory,
        runner: &mut TurnRunner<'_>,
    ) -> webhook::PendingWebhooks {
        let failed_before = memory.failures > 0;
        memory.note_run(ran, self.partial);
        let path = self.settings.audit.clone().unwrap_or_else(|| self.settings.paths().audit());
        if let Err(error) = audit::write(&path, ran) {
            runner.warn(&error_chain(&error));
        }
        let mut occasions = run_occasions(ran, failed_before);
        occasions.extend(rolled_back.map(|_| WebhookOccasion::Rollback));
        let expiry = runner.expiry.clone().filter(|_| memory.is_expiry_due(ran.start));
        occasions.extend(expiry.as_ref().map(|_| WebhookOccasion::Expiry));
        let event = NotifyEvent::from_run(ran, &occasions, rolled_back.or(expiry.as_deref()));
        webhook::send_all(&self.settings.webhooks, &event, &webhook::WebhookBackoff::default(), self.cancel)
    }

    /// Checks that got worse since before; none when there is no earlier result.
    fn find_regressions(
        &self,
        before: &[health::HealthResult],
        report: &RunReport,
        memory: &mut AgentMemory,
    ) -> Regressions {
        if report.canceled || self.settings.health.is_empty() {
            return Regressions::default();
        }
        health::find_regressions(before, &self.check_health(memory))
    }

    /// Current health of the host, also saved for the status.
    pub(crate) fn check_health(&self, memory: &mut AgentMemory) -> Vec<health::HealthResult> {
        let found = health::run_checks(self.machine, &self.settings.health, RETRY_INTERVAL, self.cancel);
        let now = Timestamp::now();
        memory.health = found.iter().map(|verdict| HealthStatus::from_result(verdict, now)).collect();
        found
    }

    /// Rolls back to the previous generation, and quarantines the revision.
    fn roll_back(
        &self,
        cache: &Cache,
        bad: &StatesSource,
        why: &str,
        memory: &mut AgentMemory,
        runner: &mut TurnRunner<'_>,
    ) -> Result<TurnOutcome, AgentError> {
        let paths = self.settings.paths();
        self.end_trial(runner);
        let failed = TurnOutcome { rolled_back: true, ..TurnOutcome::default() };
        let Ok(revision) = sync::plain_revision(&bad.revision).parse::<Revision>() else {
            runner.warn(&format!("{why}; the baked states cannot be rolled back"));
            save_memory(memory, &paths, runner);
            return Ok(failed);
        };
        self.quarantine(&revision, why, memory, runner);
        self.note_rollback(bad, why, memory, runner);
        let back = match cache.rollback(None) {
            Ok(back) => back,
            Err(error) => {
                runner.warn(&format!("{why}; there is nothing to roll back to: {}", error_chain(&error)));
                save_memory(memory, &paths, runner);
                return Ok(failed);
            }
        };
        self.rerun_current(back, (revision.short(), why), memory, runner)
    }

    /// The history says of the last run of a revision that it was rolled back.
    fn note_rollback(
        &self,
        bad: &StatesSource,
        why: &str,
        memory: &AgentMemory,
        runner: &mut TurnRunner<'_>,
    ) {
        let Some(run) = memory.last_run.as_ref().filter(|run| run.revision == bad.revision) else { return };
        let history = History::new(&self.settings.paths(), self.settings.run.keep);
        if let Err(error) = history.record_rollback(&run.run, why) {
            runner.warn(&error_chain(&error));
        }
    }

    /// From now on the revision is left alone.
    pub fn quarantine(
        &self,
        bad: &Revision,
        why: &str,
        memory: &mut AgentMemory,
        runner: &mut TurnRunner<'_>,
    ) {
        let now = Timestamp::now();
        let run = memory.last_run.as_ref().map(|run| run.run.clone()).unwrap_or_default();
        let one = QuarantinedRevision { revision: bad.clone(), since: now, reason: why.to_owned(), run };
        if let Err(error) = Quarantine::add(&self.settings.paths(), one) {
            runner.warn(&error_chain(&error));
        }
        memory.hold_revision(bad.clone(), HoldReason::Quarantined, format!("it is quarantined: {why}"), now);
    }

    /// Runs the current generation again, and says why.
    pub(crate) fn rerun_current(
        &self,
        back: Generation,
        (bad, why): (&str, &str),
        memory: &mut AgentMemory,
        runner: &mut TurnRunner<'_>,
    ) -> Result<TurnOutcome, AgentError> {
        let paths = self.settings.paths();
        runner.warn(&format!("{why}: rolling back from {bad} to {}", back.record().short_revision()));
        memory.rollbacks += 1;
        // Whatever the following run does, the rollback is recorded.
        save_memory(memory, &paths, runner);
        let source = StatesSource::from_generation(back).map_err(|error| AgentError::from_cache(&error))?;
        let ran = runner.run(&source, RunTrigger::Rollout)?;
        let words = format!("rolled back from {bad}: {why}");
        let told = self.note_run(&ran, Some(&words), memory, runner);
        for verdict in self.check_health(memory).iter().filter(|verdict| !verdict.ok) {
            runner
                .warn(&format!("after the rollback, health check {} fails: {}", verdict.name, verdict.said));
        }
        save_memory(memory, &paths, runner);
        told.join().iter().for_each(|error| runner.warn(&error_chain(error)));
        Ok(TurnOutcome { report: Some(ran), rolled_back: true, ..TurnOutcome::default() })
    }

    /// A run without further consequences.
    fn finish_run(
        &self,
        ran: RunReport,
        told: webhook::PendingWebhooks,
        memory: &AgentMemory,
        runner: &mut TurnRunner<'_>,
    ) -> TurnOutcome {
        save_memory(memory, &self.settings.paths(), runner);
        told.join().iter().for_each(|error| runner.warn(&error_chain(error)));
        self.reboot_if_needed(runner);
        TurnOutcome { report: Some(ran), ..TurnOutcome::default() }
    }

    /// Records that a changed state requests a reboot: `fire_event: zagent/reboot`.
    fn note_reboot_request(&self, report: &RunReport, runner: &mut TurnRunner<'_>) {
        let asks = |state: &&StateOutcome| {
            state.status() == StateStatus::Changed
                && state.details.get("event").and_then(Value::as_str) == Some(REBOOT_EVENT)
        };
        let Some(state) = report.states.iter().find(asks) else { return };
        let reason = format!("the state `{}` requested it", state.id);
        let (paths, host) = (self.settings.paths(), zagent_host::reboot::RebootHost::default());
        if let Err(error) = zagent_host::reboot::request_reboot(&paths, &host, &reason, Timestamp::now()) {
            runner.warn(&error_chain(&error));
        }
    }

    /// Reboots the host when that is needed and allowed.
    fn reboot_if_needed(&self, runner: &mut TurnRunner<'_>) {
        let (paths, host) = (self.settings.paths(), zagent_host::reboot::RebootHost::default());
        let needed = match zagent_host::reboot::reboot_needed(&paths, &host) {
            Ok(needed) => needed,
            Err(error) => return runner.warn(&error_chain(&error)),
        };
        let Some(need) = needed else { return };
        let (rules, windows, now) = (&self.settings.reboot, &self.settings.windows, Timestamp::now());
        let standing = windows::window_state(windows, now, &local_zone());
        match reboot::decide(rules, Some(&need), windows, standing, now) {
            reboot::RebootDecision::Reboot { notice } => {
                runner.warn(&format!("rebooting: {}", need.reason));
                if let Err(error) = host.reboot(&need.reason, notice, self.cancel) {
                    runner.warn(&error_chain(&error));
                }
            }
            reboot::RebootDecision::Wait { why } => tracing::info!(need.reason, why, "a reboot is needed"),
            reboot::RebootDecision::Nothing => {}
        }
    }
}
