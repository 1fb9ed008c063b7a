//! Rollouts that nobody drives in, rollouts that go on out: the loop of a node with `driver: true`, in a thread of its own.
//!
//! Law: it adopts what is stale and steps aside for whoever drives. When the daemon ends it just stops: the record stays as
//! it is, and another adopts it.

use std::collections::BTreeMap;
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use zagent_config::ids::RolloutId;
use zagent_config::settings::Settings;
use zagent_rollout::board_stores::BoardReports;
use zagent_rollout::driver::{DriveError, DriveOutcome, RolloutDriver, WriteFailureOutcome};
use zagent_rollout::records::{Records, Reports};

use crate::node_report;
use zagent_config::error_chain;

/// How often stale records are looked for.
const SCAN_INTERVAL: Duration = Duration::from_secs(60);
/// How long after trouble a rollout is looked at again, at first and at most: sooner than its heartbeat is missed, and soon
/// enough that nobody takes it over because of one write that failed.
const BACKOFF: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(30));
/// Certificates are checked on this stack, and fleets are reckoned with.
const STACK_BYTES: usize = 4 << 20;

/// The thread; it ends when this is dropped, with what it does just then.
#[derive(Debug)]
pub struct DriverThread {
    /// Nothing is ever sent: that the other end is gone is the word to stop.
    _alive: Sender<()>,
}

impl DriverThread {
    /// Begins to look for rollouts that nobody drives.
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
        // Whatever falls over in there, rollouts are driven on: nobody else may be there to do it.
        let went = std::panic::catch_unwind(AssertUnwindSafe(|| drive_loop.run_due())).unwrap_or_else(|_| {
            drive_loop.stores = None;
            tracing::error!("driving rollouts fell over; the lines above say where. It goes on");
            Err("it fell over".into())
        });
        // A board that is away for an hour is one line, not hundreds.
        if let Err(words) = &went
            && said.as_ref() != Some(words)
        {
            tracing::warn!("rollouts are not driven: {words}");
        }
        said = went.err();
    }
}

/// Where rollouts and reports are: opened once, for what was read is not read again, and anew after trouble.
struct DriverStores {
    records: Box<dyn Records>,
    reports: Box<dyn Reports>,
}

/// A rollout that this node drives.
#[derive(Clone, Copy, Debug)]
struct DrivenRollout {
    /// When it is looked at next.
    at: Instant,
    /// How long it is left alone after the next trouble.
    backoff: Duration,
}

/// What is driven here, and when.
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

    /// Everything that is due.
    fn run_due(&mut self) -> Result<(), String> {
        let begun = Instant::now();
        let is_scan = begun >= self.scan_at;
        if is_scan {
            self.scan_at = begun + SCAN_INTERVAL;
        }
        let due: Vec<RolloutId> =
            self.driven.iter().filter(|(_, ride)| ride.at <= begun).map(|(id, _)| id.clone()).collect();
        // Whatever goes wrong below, the next look comes after a while.
        for id in &due {
            self.back_off(id, begun);
        }
        let Some(mut places) =
            self.stores.take().map_or_else(|| open_stores(self.settings), |places| Ok(Some(places)))?
        else {
            return Ok(());
        };
        let went = self.drive_due(due, is_scan, (begun, Timestamp::now()), &mut places);
        // What was read stays known; what did not answer is opened anew.
        if went == Ok(true) {
            self.stores = Some(places);
        }
        went.map(drop)
    }

    /// Looks at each, and at those that nobody drives; false when a place did not answer.
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
                    self.driven.insert(id, DrivenRollout { at: begun + wait, backoff: BACKOFF.0 });
                }
                Ok(DriveOutcome::Finished(record)) => {
                    tracing::info!(rollout = %id, state = record.state.name(), "the rollout is over");
                    self.driven.remove(&id);
                }
                Ok(DriveOutcome::SteppedAside { driver }) => {
                    tracing::info!(rollout = %id, driver, "another drives it");
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
                        // Nobody else is there to drive one that was just found: it is tried again before the next scan.
                        self.back_off(&id, begun);
                    }
                }
            }
        }
        Ok(answers)
    }

    /// Leaves a rollout alone for a while, longer each time.
    fn back_off(&mut self, id: &RolloutId, begun: Instant) {
        let rest = self.driven.get(id).map_or(BACKOFF.0, |ride| ride.backoff);
        self.driven
            .insert(id.clone(), DrivenRollout { at: begun + rest, backoff: (rest * 2).min(BACKOFF.1) });
    }
}

fn open_stores(settings: &Settings) -> Result<Option<DriverStores>, String> {
    let Some(records) = node_report::open_records(settings).map_err(|error| error_chain(&error))? else {
        return Ok(None);
    };
    let Some(reports) = BoardReports::open(settings).map_err(|error| error_chain(&error))? else {
        return Err("there is no board to read reports from: set `board`".into());
    };
    Ok(Some(DriverStores { records: Box::new(records), reports: Box::new(reports) }))
}

#[cfg(test)]
pub mod tests;
