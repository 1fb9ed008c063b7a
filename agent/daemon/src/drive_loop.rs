//! Rollouts in, steps of each when it is due out: the loop of every driver, in the daemon and in the foreground.
//!
//! A rollout whose board does not answer is left alone for a while, longer each time, and is not given up.

#![expect(clippy::disallowed_methods, reason = "the loop waits by the clock")]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use zagent_config::backoff::Backoff;
use zagent_config::ids::RolloutId;
use zagent_host::CancelToken;
use zagent_rollout::driver::{DriveError, DriveOutcome, RolloutDriver, WriteFailureOutcome};
use zagent_rollout::driver_logic::HEARTBEAT;
use zagent_rollout::record::RolloutRecord;

/// Backoff after an error of a rollout, initial and maximum: shorter than the heartbeat timeout, and short
/// enough that one failed write does not lead to a takeover.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(2), Duration::from_secs(30));

/// What a driver does besides the steps themselves.
#[derive(Clone, Copy, Debug, Default)]
pub struct DrivePolicy {
    /// True to retry also a rollout that was never read: there may be no other driver.
    pub retry_first: bool,
    /// Poll interval of a rollout, and the addition per node, when someone watches: the cost of a poll for the
    /// board grows with the nodes.
    pub poll: Option<(Duration, Duration)>,
}

/// What a step led to.
pub enum DriveEvent<'a> {
    /// The rollout continues.
    Continues {
        /// Its record.
        record: &'a RolloutRecord,
        /// What was done.
        notes: &'a [String],
    },
    /// It is over.
    Finished(&'a RolloutRecord),
    /// Another driver took over.
    SteppedAside(&'a str),
    /// The board did not answer; the step is repeated after this time.
    Retrying(&'a DriveError, Duration),
    /// It cannot be driven.
    Failed(DriveError),
}

/// Receives what happens to each rollout.
pub trait DriveReporter {
    /// Reports a step.
    fn report(&mut self, id: &RolloutId, event: DriveEvent<'_>, now: Timestamp);

    /// Waits for a duration or a stop signal.
    fn wait(&mut self, duration: Duration, cancel: &CancelToken) {
        cancel.wait(duration);
    }
}

/// A driven rollout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DrivenRollout {
    /// Time of the next step.
    pub(crate) at: Instant,
    /// Errors in a row.
    pub(crate) failures: u32,
    /// True when its record was read at least once.
    has_record: bool,
    /// Position among rollouts that are due at the same time.
    order: usize,
}

/// Driven rollouts, and their due times.
#[derive(Debug, Default)]
pub struct DriveLoop {
    pub(crate) driven: BTreeMap<RolloutId, DrivenRollout>,
    policy: DrivePolicy,
}

impl DriveLoop {
    /// No rollout yet.
    #[must_use]
    pub fn new(policy: DrivePolicy) -> Self {
        Self { driven: BTreeMap::new(), policy }
    }

    /// True when this rollout is driven here.
    #[must_use]
    pub fn contains(&self, id: &RolloutId) -> bool {
        self.driven.contains_key(id)
    }

    /// When the next step is due.
    #[must_use]
    pub fn next_due(&self) -> Option<Instant> {
        self.driven.values().map(|driven| driven.at).min()
    }

    /// The rollouts that are due. Each is left alone for a while, whatever happens to its step.
    pub(crate) fn take_due(&mut self, now: Instant) -> Vec<RolloutId> {
        let due = self.driven.iter().filter(|(_, driven)| driven.at <= now);
        let mut due: Vec<(usize, RolloutId)> = due.map(|(id, driven)| (driven.order, id.clone())).collect();
        due.sort_unstable();
        for (_, id) in &due {
            self.back_off(id, now);
        }
        due.into_iter().map(|(_, id)| id).collect()
    }

    /// Steps one rollout; false when a store did not answer.
    pub fn step(
        &mut self,
        driver: &mut RolloutDriver<'_>,
        id: &RolloutId,
        (begun, now): (Instant, Timestamp),
        reporter: &mut dyn DriveReporter,
    ) -> bool {
        match driver.drive_once(id, now) {
            Ok(DriveOutcome::Continues { record, wait, notes }) => {
                reporter.report(id, DriveEvent::Continues { record: &record, notes: &notes }, now);
                let at = begun + self.poll_wait(wait, &record);
                let order = self.driven.get(id).map_or(0, |driven| driven.order);
                let driven = DrivenRollout { at, failures: 0, has_record: true, order };
                self.driven.insert(id.clone(), driven);
            }
            Ok(DriveOutcome::Finished(record)) => {
                self.driven.remove(id);
                reporter.report(id, DriveEvent::Finished(&record), now);
            }
            Ok(DriveOutcome::SteppedAside { driver }) => {
                self.driven.remove(id);
                reporter.report(id, DriveEvent::SteppedAside(&driver), now);
            }
            Err(error) => {
                let passes = is_temporary(&error);
                let known = self.driven.get(id);
                // One that lacks signatures was read.
                let is_read = matches!(error, DriveError::NotAccepted { .. });
                let has_record = is_read || known.is_some_and(|driven| driven.has_record);
                if passes && (self.policy.retry_first || has_record) {
                    // One that was just found was not left alone yet: it is retried before the next scan.
                    let wait = match known {
                        Some(driven) => driven.at.saturating_duration_since(begun),
                        None => self.back_off(id, begun),
                    };
                    reporter.report(id, DriveEvent::Retrying(&error, wait), now);
                } else {
                    self.driven.remove(id);
                    reporter.report(id, DriveEvent::Failed(error), now);
                }
                return !passes;
            }
        }
        true
    }

    /// Drives these rollouts until all are over or have another driver. Returns those that are left after a
    /// stop signal.
    pub fn run_until_done(
        &mut self,
        driver: &mut RolloutDriver<'_>,
        ids: Vec<RolloutId>,
        cancel: &CancelToken,
        reporter: &mut dyn DriveReporter,
    ) -> Vec<RolloutId> {
        let at = Instant::now();
        for (order, id) in ids.into_iter().enumerate() {
            self.driven.insert(id, DrivenRollout { at, failures: 0, has_record: false, order });
        }
        while !cancel.is_cancelled() {
            let begun = Instant::now();
            for id in self.take_due(begun) {
                self.step(driver, &id, (begun, Timestamp::now()), reporter);
            }
            let Some(next) = self.next_due() else { return Vec::new() };
            reporter.wait(next.saturating_duration_since(Instant::now()).min(HEARTBEAT), cancel);
        }
        let mut left: Vec<_> = std::mem::take(&mut self.driven).into_iter().collect();
        zagent_config::sorted::sort_by_key(&mut left, |(_, driven)| driven.order);
        left.into_iter().map(|(id, _)| id).collect()
    }

    fn poll_wait(&self, wait: Duration, record: &RolloutRecord) -> Duration {
        let Some((interval, per_node)) = self.policy.poll else { return wait };
        let nodes = record.batches.iter().map(Vec::len).sum::<usize>();
        wait.min(interval.saturating_add(per_node.saturating_mul(u32::try_from(nodes).unwrap_or(u32::MAX))))
    }

    /// Leaves a rollout alone for a while, longer each time.
    fn back_off(&mut self, id: &RolloutId, begun: Instant) -> Duration {
        let new = DrivenRollout { at: begun, failures: 0, has_record: false, order: 0 };
        let driven = self.driven.entry(id.clone()).or_insert(new);
        let rest = BACKOFF.delay(driven.failures);
        (driven.at, driven.failures) = (begun + rest, driven.failures.saturating_add(1));
        rest
    }
}

/// True for an error after which nodes continue for a while and the board may answer again.
const fn is_temporary(error: &DriveError) -> bool {
    matches!(
        error,
        DriveError::ReadFailed { .. }
            | DriveError::NotAccepted { is_incomplete: true, .. }
            | DriveError::WriteFailed { end: WriteFailureOutcome::HeartbeatMissed, .. }
    )
}
