//! What people ask of a rollout: its end, a pause, and to go on.
//!
//! Law: asking twice is as good as once; nothing leads out of a final state.

use std::time::Duration;

use jiff::Timestamp;

use super::is_live;
use crate::phase::after;
use crate::record::{BatchPhase, Mode, Record, State};

/// Why a rollout cannot be paused or resumed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the rollout {id} is {state}: it can no longer be {wanted}")]
pub struct Refused {
    /// Which rollout.
    pub id: String,
    /// Where it stands.
    pub state: &'static str,
    /// What was asked for.
    pub wanted: &'static str,
}

impl Refused {
    fn new(record: &Record, wanted: &'static str) -> Self {
        Self { id: record.id.to_string(), state: record.state.word(), wanted }
    }
}

/// The record of a rollout that somebody ends. What is confirmed stays; the driver, or whoever adopts it, finishes the rest.
/// Where nobody drives, or whoever did is gone, this is the end.
#[must_use]
pub fn abort(record: &Record, why: &str, now: Timestamp) -> Record {
    let is_driven = record.driver.as_ref().is_some_and(|driver| is_live(driver, now));
    let ends = !is_driven || record.dry_run || record.mode == Mode::Clock;
    let was_asked = record.state == State::Aborting;
    if record.state.is_final() || (was_asked && !ends) {
        return record.clone();
    }
    let mut next = record.clone();
    next.serial = record.serial.saturating_add(1);
    if !was_asked {
        next.reason = Some(why.to_owned());
    }
    next.state = State::Aborting;
    if ends {
        (next.state, next.finished) = (State::Aborted, Some(now));
    }
    next
}

/// The record of a rollout that starts nothing new until it is resumed. A batch that was told to switch is still finished.
///
/// # Errors
/// Refuses what is over, or about to be.
pub fn pause(record: &Record, why: &str, now: Timestamp) -> Result<Record, Refused> {
    match record.state {
        State::Paused => Ok(record.clone()),
        State::Created | State::Rolling => {
            let mut next = record.clone();
            next.serial = record.serial.saturating_add(1);
            (next.state, next.reason) = (State::Paused, Some(why.to_owned()));
            if record.mode == Mode::Clock {
                next.phase_since = Some(now);
            }
            Ok(next)
        }
        State::Completed | State::Aborting | State::Aborted => Err(Refused::new(record, "paused")),
    }
}

/// The record of a rollout that goes on. The time that nodes have to prepare begins anew.
///
/// # Errors
/// Refuses what is over, or about to be.
pub fn resume(record: &Record, now: Timestamp) -> Result<Record, Refused> {
    match record.state {
        State::Created | State::Rolling => Ok(record.clone()),
        State::Paused => {
            let mut next = record.clone();
            next.serial = record.serial.saturating_add(1);
            next.reason = None;
            next.state = if record.started.is_some() { State::Rolling } else { State::Created };
            match (record.mode, record.phase, record.phase_since) {
                // The waves that would have begun meanwhile begin later, not all at once.
                (Mode::Clock, _, Some(since)) => {
                    let rested = Duration::try_from(now.duration_since(since)).unwrap_or_default();
                    next.started = record.started.map(|started| after(started, rested));
                    next.phase_since = None;
                }
                (Mode::Driver, BatchPhase::Prepare, Some(_)) => next.phase_since = Some(now),
                _ => {}
            }
            Ok(next)
        }
        State::Completed | State::Aborting | State::Aborted => Err(Refused::new(record, "resumed")),
    }
}
