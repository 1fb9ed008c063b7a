//! A record and the reports of the nodes in, the next record out.
//!
//! Law: total and pure. Every record has a result, however strange it is; a final record never changes; the same
//! reports at the same time change a record once (held by `strange_records_have_a_result`,
//! `pure_modules_do_not_touch_the_machine`).

mod control;
mod evaluation;
#[cfg(test)]
mod holds;
mod limits;
mod node_reports;
#[cfg(test)]
mod properties;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use zagent_config::ids::NodeId;

pub use self::control::{ControlRefused, abort, pause, resume};
pub use self::limits::{
    APPLY_LIMIT, CONFIRM_LIMIT, LATE_GRACE, PREPARE_LIMIT, RUN_LIMIT, SLOW_LIMIT, SOAK_EXTRA,
};

use self::evaluation::Evaluation;
use crate::phase::saturating_after;
use crate::record::{DriverLease, RolloutMode, RolloutRecord};
use crate::report::NodeReport;

/// The interval of driver heartbeats.
pub const HEARTBEAT: Duration = Duration::from_secs(10);
/// A driver without a heartbeat for this long is gone: any other driver may take over.
pub const STALE_AFTER: Duration = Duration::from_secs(60);
/// When the next heartbeat is due: early enough that a slow write is still within [`HEARTBEAT`].
const HEARTBEAT_DUE: Duration = Duration::from_secs(8);
/// The shortest time between two checks.
const MIN_WAIT: Duration = Duration::from_secs(1);

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriveStep {
    /// The record; unchanged when there is nothing to write.
    pub record: RolloutRecord,
    /// What happened, one sentence each.
    pub notes: Vec<String>,
    /// False when only a heartbeat was written.
    pub lasting: bool,
    /// The time of the next check.
    pub wait: Duration,
}

/// True when this record needs a driver and has none.
#[must_use]
pub fn is_adoptable(record: &RolloutRecord, now: Timestamp) -> bool {
    let is_live = record.driver.as_ref().is_some_and(|driver| is_live(driver, now));
    !record.state.is_final() && !record.dry_run && record.mode == RolloutMode::Driver && !is_live
}

/// True when a driver had a heartbeat recently.
#[must_use]
pub fn is_live(driver: &DriverLease, now: Timestamp) -> bool {
    // A heartbeat far in the future comes from a clock that cannot be trusted.
    now < saturating_after(driver.heartbeat, STALE_AFTER)
        && driver.heartbeat <= saturating_after(now, STALE_AFTER * 10)
}

/// True when the driver `me` may move this record on.
pub(crate) fn may_drive(record: &RolloutRecord, me: &str, now: Timestamp) -> bool {
    let is_live_here = record.driver.as_ref().is_some_and(|driver| driver.id == me);
    !record.state.is_final()
        && !record.dry_run
        && record.mode == RolloutMode::Driver
        && (is_live_here || is_adoptable(record, now))
}

/// One check of a rollout by the driver `me`. A record with another active driver is unchanged.
#[must_use]
pub fn step(
    record: &RolloutRecord,
    reports: &BTreeMap<NodeId, NodeReport>,
    me: &str,
    now: Timestamp,
) -> DriveStep {
    let mut look = Evaluation::new(record.clone(), reports, now);
    if may_drive(record, me, now) {
        adopt(&mut look, me, now);
        look.advance_all();
        let is_due = |driver: &DriverLease| {
            now >= saturating_after(driver.heartbeat, HEARTBEAT_DUE) || driver.heartbeat > now
        };
        if look.record != *record || look.record.driver.as_ref().is_some_and(is_due) {
            look.record.driver = Some(DriverLease { id: me.to_owned(), heartbeat: now });
        }
    }
    let beat =
        look.record.driver.as_ref().map_or(now, |driver| saturating_after(driver.heartbeat, HEARTBEAT_DUE));
    let next = look.phase_end().filter(|moment| *moment > now).map_or(beat, |moment| moment.min(beat));
    let wait =
        Duration::try_from(next.duration_since(now)).unwrap_or_default().clamp(MIN_WAIT, HEARTBEAT_DUE);
    let Evaluation { record: mut next, notes, .. } = look;
    if next != *record {
        next.serial = record.serial.saturating_add(1);
    }
    DriveStep { record: next, lasting: !notes.is_empty(), notes, wait }
}

/// Takes over a rollout without a driver, or one whose driver was away for a while.
fn adopt(look: &mut Evaluation<'_>, me: &str, now: Timestamp) {
    let note = match &look.record.driver {
        Some(driver) if driver.id == me || is_live(driver, now) => return,
        Some(driver) => {
            format!("{me} takes over from {}, last heartbeat at {:.0}", driver.id, driver.heartbeat)
        }
        None => {
            format!("{me} drives: {} nodes in {} batches", look.record.nodes.len(), look.record.batches.len())
        }
    };
    look.notes.push(note);
    look.record.driver = Some(DriverLease { id: me.to_owned(), heartbeat: now });
}
