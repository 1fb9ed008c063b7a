//! One turn of a driver: record and reports are read, the step is taken, the record is written.
//!
//! Law: nothing is written over somebody else's write. Whoever loses reads again, and steps aside where another drives.
//! A step that cannot be written down is not taken for done: the rollout is aborted, and whoever runs this is told.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use zagent_config::ids::{NodeId, RolloutId};

use crate::board::{BoardError, Token};
use crate::drive::{self, Step};
use crate::record::{Mode, Record, State};
use crate::records::{Held, Records, Reports};

/// How often a turn reads again after it lost.
const TRIES: usize = 4;
/// When to try again after it lost every time.
const AGAIN: Duration = Duration::from_secs(1);

/// A driver.
pub struct Driver<'a> {
    /// Who.
    pub id: String,
    /// Where records are.
    pub records: &'a mut dyn Records,
    /// Where nodes report.
    pub reports: &'a mut dyn Reports,
}

/// How a turn ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It goes on.
    Goes {
        /// The record as it is now.
        record: Record,
        /// When to look again.
        wait: Duration,
        /// What happened.
        notes: Vec<String>,
    },
    /// It is over.
    Over(Record),
    /// Another drives.
    SteppedAside {
        /// Who.
        driver: String,
    },
}

/// Why a turn failed.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// There is no such rollout, or no longer.
    #[error("there is no rollout {id} (any more): `zagent rollout list` shows those that are there")]
    Gone {
        /// Which.
        id: RolloutId,
    },
    /// Nobody drives such a rollout.
    #[error("the rollout {id} needs no driver: {why}")]
    Undriven {
        /// Which.
        id: RolloutId,
        /// Why.
        why: &'static str,
    },
    /// The record or the reports could not be read; nothing was changed.
    #[error("cannot see how the rollout {id} stands; it goes on where it is once this works again")]
    Unread {
        /// Which.
        id: RolloutId,
        /// Why.
        #[source]
        source: BoardError,
    },
    /// A step could not be written down.
    #[error("cannot write down how the rollout {id} goes on; {end}")]
    Unwritten {
        /// Which.
        id: RolloutId,
        /// What became of it.
        end: End,
        /// Why.
        #[source]
        source: BoardError,
    },
}

/// What became of a rollout whose record could not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It is aborted.
    Aborted,
    /// It could not be aborted either.
    Left,
    /// Only a heartbeat is missing.
    Unharmed,
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Aborted => "it was aborted",
            Self::Left => {
                "it could not be aborted either: nodes take back what nobody confirms, and another driver \
                 adopts it after a minute"
            }
            Self::Unharmed => "only a heartbeat is missing",
        })
    }
}

impl Driver<'_> {
    /// Looks once, and moves the rollout on when it is time. Does not wait.
    ///
    /// # Errors
    /// Fails when the rollout is gone or needs no driver, and when the board cannot be read or written.
    pub fn turn(&mut self, id: &RolloutId, now: Timestamp) -> Result<Turn, DriveError> {
        let unread = |source| DriveError::Unread { id: id.clone(), source };
        let mut lost: Option<(Record, Token, Step)> = None;
        // How often somebody else had really written meanwhile.
        let mut races = 0;
        // What was written when the answer got lost.
        let mut unsure: Option<Step> = None;
        for _ in 0..TRIES {
            let held = self.records.get(id).map_err(unread)?;
            let Some(Held { value: record, token }) = held else {
                return Err(DriveError::Gone { id: id.clone() });
            };
            if let Some(step) = unsure.take().filter(|step| step.record == record) {
                return Ok(ended(step));
            }
            if let Some(turn) = self.not_ours(&record, now)? {
                return Ok(turn);
            }
            // Who lost to nobody has lost nothing but its patience.
            races += usize::from(lost.as_ref().is_some_and(|(_, before, _)| *before != token));
            self.reports.expect(&record);
            let reports = self.reports.all(record.component).map_err(unread)?;
            let mut step = drive::step(&record, &reports, &self.id, now);
            if step.record == record {
                return Ok(ended(step));
            }
            pin_keys(&mut step.record, &self.reports.keys());
            match self.records.put(&step.record, Some(&token), &self.note(&step), step.lasting) {
                Ok(_) => return Ok(ended(step)),
                Err(BoardError::Conflict { .. }) => {}
                Err(BoardError::Unknown { .. }) => unsure = Some(step.clone()),
                Err(source) => return Err(self.unwritten(&record, &token, &step, source, now)),
            }
            lost = Some((record, token, step));
        }
        let (record, token, step) = lost.ok_or_else(|| DriveError::Gone { id: id.clone() })?;
        if races == 0 && unsure.is_none() {
            let message = "it calls every write a lost race, and nobody else has written: look at its locks and its disk".into();
            let source = BoardError::Refused { board: "of rollouts".into(), message };
            return Err(self.unwritten(&record, &token, &step, source, now));
        }
        Ok(Turn::Goes { record, wait: AGAIN, notes: vec![] })
    }

    /// The rollouts that nobody drives although somebody must, and those that this driver drove before it was started anew: an
    /// agent that drives is replaced by the rollouts that it drives.
    ///
    /// # Errors
    /// Fails when the records cannot be read.
    pub fn stale(&mut self, now: Timestamp) -> Result<Vec<RolloutId>, BoardError> {
        let all = self.records.list()?;
        Ok(all
            .into_iter()
            .filter(|held| drive::is_ours(&held.value, &self.id, now))
            .map(|held| held.value.id)
            .collect())
    }

    /// Stops driving: whoever goes on need not wait until this driver counts as gone. Without that write it does, and no more.
    ///
    /// # Errors
    /// Fails when the record cannot be read or written.
    pub fn let_go(&mut self, id: &RolloutId) -> Result<(), BoardError> {
        let Some(Held { value: record, token }) = self.records.get(id)? else { return Ok(()) };
        if record.state.is_final() || record.driver.as_ref().is_none_or(|driver| driver.id != self.id) {
            return Ok(());
        }
        let next = Record { driver: None, serial: record.serial.saturating_add(1), ..record };
        self.records.put(&next, Some(&token), &format!("{} stops driving", self.id), true).map(drop)
    }

    /// The end of a turn where there is nothing for this driver to do.
    fn not_ours(&self, record: &Record, now: Timestamp) -> Result<Option<Turn>, DriveError> {
        let undriven = |why| Err(DriveError::Undriven { id: record.id.clone(), why });
        if record.state.is_final() {
            return Ok(Some(Turn::Over(record.clone())));
        }
        if record.dry_run {
            return undriven("it is a dry run");
        }
        if record.mode == Mode::Clock {
            return undriven("its nodes go by the clock");
        }
        let other =
            record.driver.as_ref().filter(|driver| driver.id != self.id && drive::is_live(driver, now));
        Ok(other.map(|driver| Turn::SteppedAside { driver: driver.id.clone() }))
    }

    fn note(&self, step: &Step) -> String {
        match step.notes.as_slice() {
            [] => format!("heartbeat of {}", self.id),
            [one] => one.clone(),
            // The last one tells where it ended: that is the line that a log shows.
            [.., last] => format!("{last}\n\n{}", step.notes.join("\n")),
        }
    }

    fn unwritten(
        &mut self,
        record: &Record,
        token: &Token,
        step: &Step,
        source: BoardError,
        now: Timestamp,
    ) -> DriveError {
        let end = if step.lasting {
            let why = format!("the driver {} could not write: {source}", self.id);
            let mut aborted = record.clone();
            (aborted.state, aborted.finished) = (State::Aborted, Some(now));
            (aborted.reason, aborted.serial) = (Some(why.clone()), record.serial.saturating_add(1));
            match self.records.put(&aborted, Some(token), &format!("aborted: {why}"), true) {
                Ok(_) => End::Aborted,
                Err(_) => End::Left,
            }
        } else {
            End::Unharmed
        };
        DriveError::Unwritten { id: record.id.clone(), end, source }
    }
}

/// Notes the keys that nodes sign with, each once: from then on the record holds every driver to them.
fn pin_keys(record: &mut Record, keys: &BTreeMap<NodeId, String>) {
    for (id, progress) in record.nodes.iter_mut().filter(|(_, progress)| progress.key.is_none()) {
        progress.key = keys.get(id).cloned();
    }
}

/// What a step that is written down means for whoever asked for it.
fn ended(step: Step) -> Turn {
    if step.record.state.is_final() {
        return Turn::Over(step.record);
    }
    Turn::Goes { record: step.record, wait: step.wait, notes: step.notes }
}

#[cfg(test)]
mod tests;
