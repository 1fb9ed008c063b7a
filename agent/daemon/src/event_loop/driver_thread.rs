//! Rollouts without a driver in, progress of these rollouts out: the loop of a node with `driver: true`, in
//! its own thread.
//!
//! Law: it adopts stale rollouts and yields to an active driver. When the daemon ends, it stops: the record stays
//! as it is, and another driver adopts it (held by
//! `a_driver_node_adopts_a_rollout_without_a_driver_and_completes_it`).

use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use zagent_config::ids::RolloutId;
use zagent_config::settings::Settings;
use zagent_rollout::board_stores::BoardReports;
use zagent_rollout::driver::RolloutDriver;
use zagent_rollout::records::{Records, Reports};

use crate::drive_loop::{DriveEvent, DriveLoop, DrivePolicy, DriveReporter};
use crate::node_report;
use zagent_config::error_chain;

/// Scan interval for stale records.
const SCAN_INTERVAL: Duration = Duration::from_secs(60);
/// Stack for certificate checks and computations over a whole fleet.
const STACK_BYTES: usize = 4 << 20;

/// The thread; it ends when this is dropped, after its current step.
#[derive(Debug)]
pub(crate) struct DriverThread {
    /// Nothing is ever sent: a closed channel is the stop signal.
    _alive: Sender<()>,
}

impl DriverThread {
    /// Starts to look for rollouts without a driver.
    pub(crate) fn start(settings: Settings) -> io::Result<Self> {
        let (alive, stop) = channel();
        let thread = std::thread::Builder::new().name("drive".into()).stack_size(STACK_BYTES);
        thread.spawn(move || drive_rollouts(&settings, &stop))?;
        Ok(Self { _alive: alive })
    }
}

fn drive_rollouts(settings: &Settings, stop: &Receiver<()>) {
    let mut drive_loop = StaleRollouts::new(settings);
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

/// Rollouts driven here, and the search for more.
struct StaleRollouts<'s> {
    me: String,
    settings: &'s Settings,
    stores: Option<DriverStores>,
    rollouts: DriveLoop,
    scan_at: Instant,
}

/// Logs what happens to rollouts.
struct DriveLog;

impl DriveReporter for DriveLog {
    fn report(&mut self, id: &RolloutId, event: DriveEvent<'_>, _now: Timestamp) {
        match event {
            DriveEvent::Continues { notes, .. } => {
                notes.iter().for_each(|note| tracing::info!(rollout = %id, "{note}"));
            }
            DriveEvent::Finished(record) => {
                tracing::info!(rollout = %id, state = record.state.name(), "the rollout is over");
            }
            DriveEvent::SteppedAside(driver) => {
                tracing::info!(rollout = %id, driver, "another driver took over");
            }
            DriveEvent::Retrying(error, _) => tracing::warn!(rollout = %id, "{}", error_chain(error)),
            DriveEvent::Failed(error) => tracing::warn!(rollout = %id, "{}", error_chain(&error)),
        }
    }
}

impl<'s> StaleRollouts<'s> {
    fn new(settings: &'s Settings) -> Self {
        let policy = DrivePolicy { retry_first: true, poll: None };
        Self {
            me: format!("{}/daemon", settings.id),
            settings,
            stores: None,
            rollouts: DriveLoop::new(policy),
            scan_at: Instant::now(),
        }
    }

    /// When something is due.
    fn next_due(&self) -> Instant {
        self.rollouts.next_due().unwrap_or(self.scan_at).min(self.scan_at)
    }

    /// Runs everything that is due.
    fn run_due(&mut self) -> Result<(), String> {
        let begun = Instant::now();
        let is_scan = begun >= self.scan_at;
        if is_scan {
            self.scan_at = begun + SCAN_INTERVAL;
        }
        // Whatever fails below, the next scan and the next steps come after a while.
        let due = self.rollouts.take_due(begun);
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
            due.extend(stale.into_iter().filter(|id| !self.rollouts.contains(id)));
        }
        let mut answers = true;
        for id in due {
            answers &= self.rollouts.step(&mut driver, &id, (begun, now), &mut DriveLog);
        }
        Ok(answers)
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
pub(crate) mod tests;
