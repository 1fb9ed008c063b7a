//! A ground in, a run and its consequences out: the trial of what is new, who is told, a reboot.
//!
//! Law: what a new revision breaks is taken back: the host goes to the generation before, and the revision is not tried
//! again. A trial that was cut off goes on with the next run.

use jiff::Timestamp;
use zagent_cache::{Cache, Generation};
use zagent_config::Value;
use zagent_config::ids::Revision;
use zagent_config::settings::Occasion;

use super::course::Course;
use super::ground::{Ground, Hold};
use super::memory::{Memory, Why};
use super::sync;
use super::trial::{TRIES, Trial};
use super::turn::{Ended, Ran, Stage, Turn, keep};
use crate::health::{self, BETWEEN, Regressions};
use crate::operate::quarantine::{Quarantine, Quarantined};
use crate::operate::{reboot, windows};
use crate::output::local_zone;
use crate::report::{Exit, Trouble, chain};
use crate::run::{Outcome, Report, Standing, Trigger};
use crate::status;
use crate::tell::{Event, audit, occasions, webhook};

/// A run of something new or old.
pub(super) struct Tried {
    /// What it did; none when it was not even begun.
    pub(super) report: Option<Report>,
    /// True when what was run has not proved itself yet.
    pub(super) on_trial: bool,
    /// What speaks against it.
    pub(super) against: Option<String>,
}

/// The event by which a state asks for a reboot.
const REBOOT: &str = "zagent/reboot";

impl Turn<'_> {
    /// Runs, and looks whether the host is well afterwards.
    pub(super) fn converge(
        &self,
        cache: &Cache,
        ground: Ground,
        memory: &mut Memory,
        stage: &mut dyn Stage,
    ) -> Result<Ended, Trouble> {
        if self.test {
            let ran = stage.run(&ground, self.trigger)?;
            return Ok(Ended { report: Some(ran.report), ..Ended::default() });
        }
        // While a rollout judges what is on trial, this is just a run of it.
        let judged = Course::read(&self.settings.paths())
            .is_ok_and(|course| course.judges(sync::plain(&ground.revision)));
        if judged {
            let ran = stage.run(&ground, self.trigger)?;
            let told = self.note(&ran, false, None, memory, stage);
            self.ask_for_reboot(&ran.report, stage);
            return Ok(self.ended(ran, told, memory, stage));
        }
        let tried = self.attempt(&ground, memory, stage)?;
        if let Some(why) = &tried.against {
            return self.taken_back(cache, &ground, why, memory, stage);
        }
        if tried.on_trial && !self.partial && tried.report.as_ref().is_some_and(|report| !report.canceled) {
            self.end_trial(stage);
        }
        keep(memory, &self.settings.paths(), stage);
        self.reboot(stage);
        Ok(Ended { report: tried.report, ..Ended::default() })
    }

    /// Runs, and tells what speaks against what is on trial.
    pub(super) fn attempt(
        &self,
        ground: &Ground,
        memory: &mut Memory,
        stage: &mut dyn Stage,
    ) -> Result<Tried, Trouble> {
        let trial = self.trial(ground, stage);
        if trial.as_ref().is_some_and(|trial| trial.tries > TRIES) {
            let why = format!("{TRIES} runs of it were cut off before they came to an end");
            return Ok(Tried { report: None, on_trial: true, against: Some(why) });
        }
        let ran = match stage.run(ground, self.trigger) {
            Ok(ran) => ran,
            Err(trouble) => {
                if let Some(trial) = trial.filter(|_| trouble.exit() == Exit::Locked) {
                    // It never began: that is no try.
                    self.keep_trial(&Trial { tries: trial.tries - 1, ..trial }, stage);
                }
                return Err(trouble);
            }
        };
        let told = self.note(&ran, trial.is_some(), None, memory, stage);
        self.ask_for_reboot(&ran.report, stage);
        let before = trial.as_ref().and_then(|trial| trial.before.as_deref());
        let lost = self.regressions(before.unwrap_or_default(), &ran.report, memory);
        let is_bad = trial.is_some() && lost.is_rollback();
        if !is_bad && lost != Regressions::default() {
            stage.warn(&lost.words());
        }
        told.join().iter().for_each(|error| stage.warn(&chain(error)));
        Ok(Tried {
            report: Some(ran.report),
            on_trial: trial.is_some(),
            against: is_bad.then(|| lost.words()),
        })
    }

    /// The trial of the generation, one try further; the checks of before are made with the first.
    fn trial(&self, ground: &Ground, stage: &mut dyn Stage) -> Option<Trial> {
        let Hold::Generation(generation, _) = &ground.held else { return None };
        let mut trial = Trial::of(&self.settings.paths(), generation.name())?;
        if trial.before.is_none() {
            trial.before = Some(health::check(&self.settings.health, BETWEEN, self.cancel));
        }
        trial.tries += 1;
        self.keep_trial(&trial, stage);
        Some(trial)
    }

    fn keep_trial(&self, trial: &Trial, stage: &mut dyn Stage) {
        if let Err(error) = trial.keep(&self.settings.paths()) {
            stage.warn(&chain(&error));
        }
    }

    pub(super) fn end_trial(&self, stage: &mut dyn Stage) {
        if let Err(error) = Trial::end(&self.settings.paths()) {
            stage.warn(&chain(&error));
        }
    }

    /// Notes a run for the status and the audit, and begins to tell whoever wants to be told.
    fn note(
        &self,
        ran: &Ran,
        news: bool,
        rolled_back: Option<&str>,
        memory: &mut Memory,
        stage: &mut dyn Stage,
    ) -> webhook::Telling {
        let failed_before = memory.failures > 0;
        memory.ran(&ran.report, news, self.partial);
        let path = self.settings.audit.clone().unwrap_or_else(|| self.settings.paths().audit());
        if let Err(error) = audit::write(&path, &ran.report, &ran.mask) {
            stage.warn(&chain(&error));
        }
        let mut occasions = occasions(&ran.report, failed_before);
        occasions.extend(rolled_back.map(|_| Occasion::Rollback));
        let event = Event::of_run(&ran.report, &occasions, rolled_back, &ran.mask);
        webhook::tell(&self.settings.webhooks, &event, &webhook::Pace::default(), self.cancel)
    }

    /// What got worse since before; nothing when nobody looked then.
    fn regressions(&self, before: &[health::Verdict], report: &Report, memory: &mut Memory) -> Regressions {
        if report.canceled || self.settings.health.is_empty() {
            return Regressions::default();
        }
        health::regressions(before, &self.look_at_health(memory))
    }

    /// How the host does now, for the status too.
    pub(super) fn look_at_health(&self, memory: &mut Memory) -> Vec<health::Verdict> {
        let found = health::check(&self.settings.health, BETWEEN, self.cancel);
        let now = Timestamp::now();
        memory.health = found.iter().map(|verdict| status::Verdict::of(verdict, now)).collect();
        found
    }

    /// Goes back to the generation before, and leaves the revision alone from now on.
    fn taken_back(
        &self,
        cache: &Cache,
        bad: &Ground,
        why: &str,
        memory: &mut Memory,
        stage: &mut dyn Stage,
    ) -> Result<Ended, Trouble> {
        let paths = self.settings.paths();
        self.end_trial(stage);
        let failed = Ended { rolled_back: true, ..Ended::default() };
        let Ok(revision) = sync::plain(&bad.revision).parse::<Revision>() else {
            stage.warn(&format!("{why}; the states of the image cannot be rolled back"));
            keep(memory, &paths, stage);
            return Ok(failed);
        };
        self.condemn(&revision, why, memory, stage);
        let back = match cache.rollback(None) {
            Ok(back) => back,
            Err(error) => {
                stage.warn(&format!("{why}; there is nothing to roll back to: {}", chain(&error)));
                keep(memory, &paths, stage);
                return Ok(failed);
            }
        };
        self.run_back(back, (revision.short(), why), memory, stage)
    }

    /// From now on the revision is left alone.
    pub(super) fn condemn(&self, bad: &Revision, why: &str, memory: &mut Memory, stage: &mut dyn Stage) {
        let now = Timestamp::now();
        let run = memory.last_run.as_ref().map(|run| run.run.clone()).unwrap_or_default();
        let one = Quarantined { revision: bad.clone(), since: now, reason: why.to_owned(), run };
        if let Err(error) = Quarantine::add(&self.settings.paths(), one) {
            stage.warn(&chain(&error));
        }
        memory.hold(bad.clone(), Why::Quarantined, format!("it is quarantined: {why}"), now);
    }

    /// Runs the generation that is current again, and tells why.
    pub(super) fn run_back(
        &self,
        back: Generation,
        (bad, why): (&str, &str),
        memory: &mut Memory,
        stage: &mut dyn Stage,
    ) -> Result<Ended, Trouble> {
        let paths = self.settings.paths();
        stage.warn(&format!("{why}: rolling back from {bad} to {}", back.record().short()));
        memory.rollbacks += 1;
        // Whatever becomes of the run that follows: that the revision is gone is known.
        keep(memory, &paths, stage);
        let ground = Ground::of(back).map_err(|error| Trouble::of_cache(&error))?;
        let ran = stage.run(&ground, Trigger::Rollout)?;
        let words = format!("rolled back from {bad}: {why}");
        let told = self.note(&ran, true, Some(&words), memory, stage);
        for verdict in self.look_at_health(memory).iter().filter(|verdict| !verdict.ok) {
            stage.warn(&format!("after the rollback, health check {} fails: {}", verdict.name, verdict.said));
        }
        keep(memory, &paths, stage);
        told.join().iter().for_each(|error| stage.warn(&chain(error)));
        Ok(Ended { report: Some(ran.report), rolled_back: true, ..Ended::default() })
    }

    /// A run that nothing else follows from.
    fn ended(&self, ran: Ran, told: webhook::Telling, memory: &Memory, stage: &mut dyn Stage) -> Ended {
        keep(memory, &self.settings.paths(), stage);
        told.join().iter().for_each(|error| stage.warn(&chain(error)));
        self.reboot(stage);
        Ended { report: Some(ran.report), ..Ended::default() }
    }

    /// Notes that a state which changed something wants the host rebooted: `fire_event: zagent/reboot`.
    fn ask_for_reboot(&self, report: &Report, stage: &mut dyn Stage) {
        let asks = |state: &&Outcome| {
            state.standing() == Standing::Changed
                && state.details.get("event").and_then(Value::as_str) == Some(REBOOT)
        };
        let Some(state) = report.states.iter().find(asks) else { return };
        let reason = format!("the state `{}` asked for it", state.id);
        let (paths, host) = (self.settings.paths(), reboot::Host::default());
        if let Err(error) = reboot::ask(&paths, &host, &reason, Timestamp::now()) {
            stage.warn(&chain(&error));
        }
    }

    /// Reboots the host when that is needed, allowed and wanted.
    fn reboot(&self, stage: &mut dyn Stage) {
        let (paths, host) = (self.settings.paths(), reboot::Host::default());
        let needed = match reboot::needed(&paths, &host) {
            Ok(needed) => needed,
            Err(error) => return stage.warn(&chain(&error)),
        };
        let Some(need) = needed else { return };
        let (rules, windows, now) = (&self.settings.reboot, &self.settings.windows, Timestamp::now());
        let standing = windows::is_open(windows, now, &local_zone());
        match reboot::decide(rules, Some(&need), windows, standing, now) {
            reboot::Decision::Reboot { notice } => {
                stage.warn(&format!("rebooting: {}", need.reason));
                if let Err(error) = host.carry_out(&need.reason, notice, self.cancel) {
                    stage.warn(&chain(&error));
                }
            }
            reboot::Decision::Wait { why } => tracing::info!(need.reason, why, "a reboot is needed"),
            reboot::Decision::Nothing => {}
        }
    }
}
