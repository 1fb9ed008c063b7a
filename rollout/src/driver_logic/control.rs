//! Requests of people to a rollout: abort, pause and resume.
//!
//! Law: every request is safe to repeat; a final status never changes (held by
//! `rollout/src/driver_logic/properties.rs`).

use std::time::Duration;

use jiff::Timestamp;

use super::is_live;
use crate::phase::saturating_after;
use crate::record::{BatchPhase, RolloutMode, RolloutRecord, RolloutStatus};

/// Why a rollout cannot be paused or resumed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the rollout {id} is {state}: it can no longer be {wanted}")]
pub struct ControlRefused {
    /// Which rollout.
    pub id: String,
    /// Where it stands.
    pub state: &'static str,
    /// The request.
    pub wanted: &'static str,
}

impl ControlRefused {
    fn new(record: &RolloutRecord, wanted: &'static str) -> Self {
        Self { id: record.id.to_string(), state: record.state.name(), wanted }
    }
}

/// The record after an abort request. Confirmed nodes keep the new version; the driver, or the next one, finishes the
/// rest. Without an active driver, the rollout ends at once.
#[must_use]
pub fn abort(record: &RolloutRecord, why: &str, now: Timestamp) -> RolloutRecord {
    let is_driven = record.driver.as_ref().is_some_and(|driver| is_live(driver, now));
    let ends = !is_driven || record.dry_run || record.mode == RolloutMode::Clock;
    let was_asked = record.state == RolloutStatus::Aborting;
    if record.state.is_final() || (was_asked && !ends) {
        return record.clone();
    }
    let mut next = record.clone();
    next.serial = record.serial.saturating_add(1);
    if !was_asked {
        next.reason = Some(why.to_owned());
    }
    next.state = RolloutStatus::Aborting;
    if ends {
        (next.state, next.finished) = (RolloutStatus::Aborted, Some(now));
    }
    next
}

/// The record of a rollout that starts nothing new until it is resumed. A batch that was told to switch is still
/// finished.
///
/// # Errors
/// Refuses a rollout that has ended, or is about to end.
pub fn pause(record: &RolloutRecord, why: &str, now: Timestamp) -> Result<RolloutRecord, ControlRefused> {
    match record.state {
        RolloutStatus::Paused => Ok(record.clone()),
        RolloutStatus::Created | RolloutStatus::Rolling => {
            let mut next = record.clone();
            next.serial = record.serial.saturating_add(1);
            (next.state, next.reason) = (RolloutStatus::Paused, Some(why.to_owned()));
            if record.mode == RolloutMode::Clock {
                next.phase_since = Some(now);
            }
            Ok(next)
        }
        RolloutStatus::Completed | RolloutStatus::Aborting | RolloutStatus::Aborted => {
            Err(ControlRefused::new(record, "paused"))
        }
    }
}

/// The record of a resumed rollout. The time limit to prepare starts again.
///
/// # Errors
/// Refuses a rollout that has ended, or is about to end.
pub fn resume(record: &RolloutRecord, now: Timestamp) -> Result<RolloutRecord, ControlRefused> {
    match record.state {
        RolloutStatus::Created | RolloutStatus::Rolling => Ok(record.clone()),
        RolloutStatus::Paused => {
            let mut next = record.clone();
            next.serial = record.serial.saturating_add(1);
            next.reason = None;
            next.state =
                if record.started.is_some() { RolloutStatus::Rolling } else { RolloutStatus::Created };
            match (record.mode, record.phase, record.phase_since) {
                // The waves that would have started in the meantime start later, not all at once.
                (RolloutMode::Clock, _, Some(since)) => {
                    let rested = Duration::try_from(now.duration_since(since)).unwrap_or_default();
                    next.started = record.started.map(|started| saturating_after(started, rested));
                    next.phase_since = None;
                }
                (RolloutMode::Driver, BatchPhase::Prepare, Some(_)) => next.phase_since = Some(now),
                _ => {}
            }
            Ok(next)
        }
        RolloutStatus::Completed | RolloutStatus::Aborting | RolloutStatus::Aborted => {
            Err(ControlRefused::new(record, "resumed"))
        }
    }
}
