//! A record and what nodes report in, the record as it goes on out.
//!
//! Law: total and pure. Any record, however strange, is answered; what is final stays as it is; the same reports at the
//! same time change a record once.

mod asked;
mod heard;
#[cfg(test)]
mod holds;
#[cfg(test)]
mod laws;
mod limits;
mod look;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use zagent_config::ids::NodeId;

pub use self::asked::{Refused, abort, pause, resume};
pub use self::limits::{APPLY_LIMIT, CONFIRM_LIMIT, GRACE, PREPARE_LIMIT, RUN_LIMIT, SOAK_LATE};

use self::look::Look;
use crate::phase::after;
use crate::record::{Driver, Mode, Record};
use crate::report::Report;

/// A driver says at least so often that it is there.
pub const HEARTBEAT: Duration = Duration::from_secs(10);
/// A driver that has not said so for this long is gone: anybody may adopt its rollout.
pub const STALE: Duration = Duration::from_secs(60);
/// When the next heartbeat is due: early enough that a slow write is still within [`HEARTBEAT`].
const BEAT: Duration = Duration::from_secs(8);
/// No look follows another sooner.
const SOON: Duration = Duration::from_secs(1);

/// What follows from a look at a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The record; as it was when there is nothing to write.
    pub record: Record,
    /// What happened, one sentence each.
    pub notes: Vec<String>,
    /// False when only a heartbeat was written.
    pub lasting: bool,
    /// When to look again.
    pub wait: Duration,
}

/// True when somebody has to drive this record and nobody does.
#[must_use]
pub fn is_adoptable(record: &Record, now: Timestamp) -> bool {
    let is_live = record.driver.as_ref().is_some_and(|driver| is_live(driver, now));
    !record.state.is_final() && !record.dry_run && record.mode == Mode::Driver && !is_live
}

/// True when a driver said lately that it is there.
#[must_use]
pub fn is_live(driver: &Driver, now: Timestamp) -> bool {
    // One that was heard long after now has a clock that cannot be trusted.
    now < after(driver.heartbeat, STALE) && driver.heartbeat <= after(now, STALE * 10)
}

/// True when the driver `me` may move this record on.
pub(crate) fn is_ours(record: &Record, me: &str, now: Timestamp) -> bool {
    let is_live_here = record.driver.as_ref().is_some_and(|driver| driver.id == me);
    !record.state.is_final()
        && !record.dry_run
        && record.mode == Mode::Driver
        && (is_live_here || is_adoptable(record, now))
}

/// One look at a rollout by the driver `me`. A record that another drives stays as it is.
#[must_use]
pub fn step(record: &Record, reports: &BTreeMap<NodeId, Report>, me: &str, now: Timestamp) -> Step {
    let mut look = Look::new(record.clone(), reports, now);
    if is_ours(record, me, now) {
        adopt(&mut look, me, now);
        look.go_on();
        let is_due = |driver: &Driver| now >= after(driver.heartbeat, BEAT) || driver.heartbeat > now;
        if look.record != *record || look.record.driver.as_ref().is_some_and(is_due) {
            look.record.driver = Some(Driver { id: me.to_owned(), heartbeat: now });
        }
    }
    let beat = look.record.driver.as_ref().map_or(now, |driver| after(driver.heartbeat, BEAT));
    let next = look.next_moment().filter(|moment| *moment > now).map_or(beat, |moment| moment.min(beat));
    let wait = Duration::try_from(next.duration_since(now)).unwrap_or_default().clamp(SOON, BEAT);
    let Look { record: mut next, notes, .. } = look;
    if next != *record {
        next.serial = record.serial.saturating_add(1);
    }
    Step { record: next, lasting: !notes.is_empty(), notes, wait }
}

/// Takes over a rollout that nobody drives, or that its driver left for a while.
fn adopt(look: &mut Look<'_>, me: &str, now: Timestamp) {
    let note = match &look.record.driver {
        Some(driver) if driver.id == me || is_live(driver, now) => return,
        Some(driver) => {
            format!("{me} takes over from {}, last heard of at {:.0}", driver.id, driver.heartbeat)
        }
        None => {
            format!("{me} drives: {} nodes in {} batches", look.record.nodes.len(), look.record.batches.len())
        }
    };
    look.notes.push(note);
    look.record.driver = Some(Driver { id: me.to_owned(), heartbeat: now });
}
