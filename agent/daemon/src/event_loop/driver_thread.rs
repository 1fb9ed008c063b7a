//! Rollouts without a driver in, progress of these rollouts out: the loop of a node with `driver: true`, in
//! its own thread.
//!
//! Law: it adopts stale rollouts and yields to an active driver. When the daemon ends, it stops: the record
//! stays as it is, and another driver adopts it.

use std::collections::BTreeMap;
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use zagent_config::backoff::Backoff;
use zagent_config::ids::RolloutId;
use zagent_config::settings::Settings;
use zagent_rollout::board_stores::BoardReports;
use zagent_rollout::driver::{DriveError, DriveOutcome, RolloutDriver, WriteFailureOutcome};
use zagent_rollout::records::{Records, Reports};

use crate::node_report;
use zagent_config::error_chain;

/// Scan interval for stale records.
const SCAN_INTERVAL: Duration = Duration::from_secs(60);
/// Backoff after an error of a rollout, initial and maximum: shorter than the heartbeat timeout, and short
/// enough that one failed write does not lead to a takeover.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(2), Duration::from_secs(30));
/// Stack for certificate checks and computations over a whole fleet.
const STACK_BYTES: usize = 4 << 20;

/// The thread; it ends when this is dropped, after its current step.
#[derive(Debug)]
pub struct DriverThread {
    /// Nothing is ever sent: a closed channel is the stop signal.
    _alive: Sender<()>,
}

impl DriverThread {
    /// Starts to look for rollouts without a driver.
    pub fn start(settings: Settings) -> io::Result<Self> {
        let (alive, stop) = channel();
        let thread = std::thread::Builder::new().name("drive".into()).stack_size(STACK_BYTES);
        thread.spawn(move || drive_rollouts(&settings, &stop))?;
        Ok(Self { _alive: alive })
    }
}

fn drive_rollouts(settings: &Settings, stop: &Receiver<()>) {
    let mut drive_loop = DriveLoop {
        me: format!("{}/daemon", settings.id),
        settings,
        stores: None,
        driven: BTreeMap::new(),
        scan_at: Instant::now(),
    };
    let mut said = None;
    loop {
        let wait = drive_loop.next_due().saturating_duration_since(Instant::now());
        match stop.recv_timeout(wait) {
            Err(RecvTimeoutError::Timeout) | Ok(()) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        // After a panic, rollouts are still driven: there may be no other driver.
        let went = std::panic::catch_unwind(AssertUnwindSafe(|| drive_loop.run_due())).unwrap_or_else(|_| {
            drive_loop.stores = None;
            tracing::error!("the rollout driver crashed and continues; the lines above show where");
            Err("it crashed".into())
        });
        // A board that is unreachable for an hour logs one line, not hundreds.
        if let Err(words) = &went
            && said.as_ref() != Some(words)
        {
            tracing::warn!("cannot drive rollouts: {words}");
        }
        said = went.err();
    }
}

/// Stores of rollouts and reports: opened once, so that nothing is read twice, and reopened after an error.
struct DriverStores {
    records: Box<dyn Records>,
    reports: Box<dyn Reports>,
}

/// A rollout driven by this node.
#[derive(Clone, Copy, Debug)]
struct DrivenRollout {
    /// Time of the next step.
    at: Instant,
    /// Errors in a row.
    failures: u32,
}

/// Rollouts driven here, and their due times.
struct DriveLoop<'s> {
    me: String,
    settings: &'s Settings,
    stores: Option<DriverStores>,
    driven: BTreeMap<RolloutId, DrivenRollout>,
    scan_at: Instant,
}

impl DriveLoop<'_> {
    /// When something is due.
    fn next_due(&self) -> Instant {
        self.driven.values().map(|ride| ride.at).min().unwrap_or(self.scan_at).min(self.scan_at)
    }

    /// Runs everything that is due.
    fn run_due(&mut self) -> Result<(), String> {
        let begun = Instant::now();
        let is_scan = begun >= self.scan_at;
        if is_scan {
            self.scan_at = begun + SCAN_INTERVAL;
        }
        let due: Vec<RolloutId> =
            self.driven.iter().filter(|(_, ride)| ride.at <= begun).map(|(id, _)| id.clone()).collect();
        // Whatever fails below, the next scan comes after a while.
        for id in &due {
            self.back_off(id, begun);
        }
        let Some(mut places) =
            self.stores.take().map_or_else(|| open_stores(self.settings), |places| Ok(Some(places)))?
        else {
            return Ok(());
        };
        let went = self.drive_due(due, is_scan, (begun, Timestamp::now()), &mut places);
        // What was read stays cached; a store that did not answer is reopened.
        if went == Ok(true) {
            self.stores = Some(places);
        }
        went.map(drop)
    }

    /// Steps each rollout, and those without a driver; false when a store did not answer.
    fn drive_due(
        &mut self,
        mut due: Vec<RolloutId>,
        is_scan: bool,
        (begun, now): (Instant, Timestamp),
        places: &mut DriverStores,
    ) -> Result<bool, String> {
        let DriverStores { records, reports } = places;
        let mut driver =
            RolloutDriver { id: self.me.clone(), records: records.as_mut(), reports: reports.as_mut() };
        if is_scan {
            let stale = driver.adoptable_rollouts(now).map_err(|error| error_chain(&error))?;
            due.extend(stale.into_iter().filter(|id| !self.driven.contains_key(id)));
        }
        let mut answers = true;
        for id in due {
            match driver.drive_once(&id, now) {
                Ok(DriveOutcome::Continues { wait, notes, .. }) => {
                    notes.iter().for_each(|note| tracing::info!(rollout = %id, "{note}"));
                    self.driven.insert(id, DrivenRollout { at: begun + wait, failures: 0 });
                }
                Ok(DriveOutcome::Finished(record)) => {
                    tracing::info!(rollout = %id, state = record.state.name(), "the rollout is over");
                    self.driven.remove(&id);
                }
                Ok(DriveOutcome::SteppedAside { driver }) => {
                    tracing::info!(rollout = %id, driver, "another driver took over");
                    self.driven.remove(&id);
                }
                Err(error) => {
                    tracing::warn!(rollout = %id, "{}", error_chain(&error));
                    let passes = matches!(
                        error,
                        DriveError::ReadFailed { .. }
                            | DriveError::WriteFailed { end: WriteFailureOutcome::HeartbeatMissed, .. }
                    );
                    answers &= !passes;
                    if !passes {
                        self.driven.remove(&id);
                    } else if !self.driven.contains_key(&id) {
                        // No other driver may exist for one that was just found: it is retried before the
                        // next scan.
                        self.back_off(&id, begun);
                    }
                }
            }
        }
        Ok(answers)
    }

    /// Leaves a rollout alone for a while, longer each time.
    fn back_off(&mut self, id: &RolloutId, begun: Instant) {
        let failures = self.driven.get(id).map_or(0, |ride| ride.failures);
        let at = begun + BACKOFF.delay(failures);
        self.driven.insert(id.clone(), DrivenRollout { at, failures: failures.saturating_add(1) });
    }
}

fn open_stores(settings: &Settings) -> Result<Option<DriverStores>, String> {
    let Some(records) = node_report::open_records(settings).map_err(|error| error_chain(&error))? else {
        return Ok(None);
    };
    let Some(reports) = BoardReports::open(settings).map_err(|error| error_chain(&error))? else {
        return Err("no board to read reports from: set `board`".into());
    };
    Ok(Some(DriverStores { records: Box::new(records), reports: Box::new(reports) }))
}

#[cfg(test)]
pub mod tests;
