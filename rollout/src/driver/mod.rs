//! One turn of a driver: read the record and the reports, take the step, write the record.
//!
//! Law: a driver never overwrites another writer. After a conflict it reads again, and stops if another driver is
//! active. A step that cannot be saved does not count as done: the rollout is aborted, and the caller gets an error
//! (held by `after_a_conflict_a_driver_reads_again_and_yields_to_another`,
//! `a_failed_step_write_aborts_and_a_failed_heartbeat_does_not`).

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use zagent_config::ids::{NodeId, RolloutId};

use crate::board::{BoardError, VersionToken};
use crate::driver_logic::{self, DriveStep};
use crate::record::{RolloutMode, RolloutRecord, RolloutStatus};
use crate::records::{Records, Reports, VersionedValue};

/// How often a turn reads again after a conflict.
const MAX_TRIES: usize = 4;
/// When to try again after conflicts only.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A driver.
pub struct RolloutDriver<'a> {
    /// Its id.
    pub id: String,
    /// The record store.
    pub records: &'a mut dyn Records,
    /// The report store.
    pub reports: &'a mut dyn Reports,
}

/// The result of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriveOutcome {
    /// The rollout continues.
    Continues {
        /// The present record.
        record: RolloutRecord,
        /// The time of the next turn.
        wait: Duration,
        /// What happened.
        notes: Vec<String>,
    },
    /// The rollout has ended.
    Finished(RolloutRecord),
    /// Another driver is active.
    SteppedAside {
        /// Its id.
        driver: String,
    },
}

/// Why a turn failed.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// The rollout does not exist, or no longer.
    #[error("the rollout {id} does not exist or was deleted; run `zagent rollout list` to see all rollouts")]
    Gone {
        /// Which.
        id: RolloutId,
    },
    /// This rollout needs no driver.
    #[error("the rollout {id} needs no driver: {why}")]
    NotDrivable {
        /// Which.
        id: RolloutId,
        /// Why.
        why: &'static str,
    },
    /// The record is not obeyed here.
    #[error("the rollout {id} is not driven: {why}")]
    NotAccepted {
        /// Which.
        id: RolloutId,
        /// Why, and how to fix it.
        why: String,
        /// True when it only waits for more signatures.
        is_incomplete: bool,
    },
    /// The record or the reports could not be read; nothing was changed.
    #[error(
        "cannot read the state of the rollout {id}; it continues from the same point when the board is readable again"
    )]
    ReadFailed {
        /// Which.
        id: RolloutId,
        /// Why.
        #[source]
        source: BoardError,
    },
    /// A step could not be saved.
    #[error("cannot save the progress of the rollout {id}; {end}")]
    WriteFailed {
        /// Which.
        id: RolloutId,
        /// What happened to the rollout.
        end: WriteFailureOutcome,
        /// Why.
        #[source]
        source: BoardError,
    },
}

/// What happened to a rollout whose record could not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFailureOutcome {
    /// It is aborted.
    Aborted,
    /// It could not be aborted either.
    NotAborted,
    /// Only a heartbeat is missing.
    HeartbeatMissed,
}

impl std::fmt::Display for WriteFailureOutcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Aborted => "it was aborted",
            Self::NotAborted => {
                "it could not be aborted either: nodes roll back what no driver confirms, and another driver \
                 takes over after a minute"
            }
            Self::HeartbeatMissed => "only a heartbeat is missing",
        })
    }
}

impl RolloutDriver<'_> {
    /// Checks the rollout once, and moves it on if it is time. Does not wait.
    ///
    /// # Errors
    /// Fails when the rollout was deleted or needs no driver, and when the board cannot be read or written.
    pub fn drive_once(&mut self, id: &RolloutId, now: Timestamp) -> Result<DriveOutcome, DriveError> {
        let unread = |source| match source {
            BoardError::NotAccepted { message, is_incomplete, .. } => {
                DriveError::NotAccepted { id: id.clone(), why: message, is_incomplete }
            }
            source => DriveError::ReadFailed { id: id.clone(), source },
        };
        let mut lost: Option<(RolloutRecord, VersionToken, DriveStep)> = None;
        // How often someone else really wrote in the meantime.
        let mut races = 0;
        // What was written when the answer was lost.
        let mut unsure: Option<DriveStep> = None;
        for _ in 0..MAX_TRIES {
            let held = self.records.get(id).map_err(unread)?;
            let Some(VersionedValue { value: record, token }) = held else {
                return Err(DriveError::Gone { id: id.clone() });
            };
            if let Some(step) = unsure.take().filter(|step| step.record == record) {
                return Ok(step_outcome(step));
            }
            if let Some(turn) = self.step_aside(&record, now)? {
                return Ok(turn);
            }
            // A conflict without another writer: nothing was lost, try again.
            races += usize::from(lost.as_ref().is_some_and(|(_, before, _)| *before != token));
            self.reports.pin_keys(&record);
            let reports = self.reports.latest_reports(record.component).map_err(unread)?;
            let mut step = driver_logic::step(&record, &reports, &self.id, now);
            if step.record == record {
                return Ok(step_outcome(step));
            }
            pin_keys(&mut step.record, &self.reports.signing_keys());
            match self.records.put(&step.record, Some(&token), &self.commit_note(&step), step.lasting) {
                Ok(_) => return Ok(step_outcome(step)),
                Err(BoardError::Conflict { .. }) => {}
                Err(BoardError::Unknown { .. }) => unsure = Some(step.clone()),
                Err(source) => return Err(self.handle_write_failure(&record, &token, &step, source, now)),
            }
            lost = Some((record, token, step));
        }
        let (record, token, step) = lost.ok_or_else(|| DriveError::Gone { id: id.clone() })?;
        if races == 0 && unsure.is_none() {
            let message = "it reports every write as a conflict, although nobody else wrote: check its locks and its disk"
                .into();
            let source = BoardError::Refused { board: "of rollouts".into(), message };
            return Err(self.handle_write_failure(&record, &token, &step, source, now));
        }
        Ok(DriveOutcome::Continues { record, wait: RETRY_AFTER, notes: vec![] })
    }

    /// The rollouts that need a driver and have none, and those that this driver had before its restart: a rollout can
    /// replace the agent that drives it.
    ///
    /// # Errors
    /// Fails when the records cannot be read.
    pub fn adoptable_rollouts(&mut self, now: Timestamp) -> Result<Vec<RolloutId>, BoardError> {
        let all = self.records.list()?;
        Ok(all
            .into_iter()
            .filter(|held| driver_logic::may_drive(&held.value, &self.id, now))
            .map(|held| held.value.id)
            .collect())
    }

    /// Stops driving, so that the next driver need not wait for the timeout. If this write fails, the next driver
    /// waits.
    ///
    /// # Errors
    /// Fails when the record cannot be read or written.
    pub fn release(&mut self, id: &RolloutId) -> Result<(), BoardError> {
        let Some(VersionedValue { value: record, token }) = self.records.get(id)? else { return Ok(()) };
        if record.state.is_final() || record.driver.as_ref().is_none_or(|driver| driver.id != self.id) {
            return Ok(());
        }
        let next = RolloutRecord { driver: None, serial: record.serial.saturating_add(1), ..record };
        self.records.put(&next, Some(&token), &format!("{} stops driving", self.id), true).map(drop)
    }

    /// The end of a turn without work for this driver.
    fn step_aside(&self, record: &RolloutRecord, now: Timestamp) -> Result<Option<DriveOutcome>, DriveError> {
        let undriven = |why| Err(DriveError::NotDrivable { id: record.id.clone(), why });
        if record.state.is_final() {
            return Ok(Some(DriveOutcome::Finished(record.clone())));
        }
        if record.dry_run {
            return undriven("it is a dry run");
        }
        if record.mode == RolloutMode::Clock {
            return undriven("it is in clock mode");
        }
        let other = record
            .driver
            .as_ref()
            .filter(|driver| driver.id != self.id && driver_logic::is_live(driver, now));
        Ok(other.map(|driver| DriveOutcome::SteppedAside { driver: driver.id.clone() }))
    }

    fn commit_note(&self, step: &DriveStep) -> String {
        match step.notes.as_slice() {
            [] => format!("heartbeat of {}", self.id),
            [one] => one.clone(),
            // The last note says where the turn ended: a log shows that line.
            [.., last] => format!("{last}\n\n{}", step.notes.join("\n")),
        }
    }

    fn handle_write_failure(
        &mut self,
        record: &RolloutRecord,
        token: &VersionToken,
        step: &DriveStep,
        source: BoardError,
        now: Timestamp,
    ) -> DriveError {
        let end = if step.lasting {
            let why = format!("the driver {} cannot write: {source}", self.id);
            let mut aborted = record.clone();
            (aborted.state, aborted.finished) = (RolloutStatus::Aborted, Some(now));
            (aborted.reason, aborted.serial) = (Some(why.clone()), record.serial.saturating_add(1));
            match self.records.put(&aborted, Some(token), &format!("aborted: {why}"), true) {
                Ok(_) => WriteFailureOutcome::Aborted,
                Err(_) => WriteFailureOutcome::NotAborted,
            }
        } else {
            WriteFailureOutcome::HeartbeatMissed
        };
        DriveError::WriteFailed { id: record.id.clone(), end, source }
    }
}

/// Records the keys that nodes sign with, each once: from then on every driver requires them.
fn pin_keys(record: &mut RolloutRecord, keys: &BTreeMap<NodeId, String>) {
    for (id, progress) in record.nodes.iter_mut().filter(|(_, progress)| progress.key.is_none()) {
        progress.key = keys.get(id).cloned();
    }
}

/// The result for the caller of a step that was saved.
fn step_outcome(step: DriveStep) -> DriveOutcome {
    if step.record.state.is_final() {
        return DriveOutcome::Finished(step.record);
    }
    DriveOutcome::Continues { record: step.record, wait: step.wait, notes: step.notes }
}

#[cfg(test)]
mod tests;
