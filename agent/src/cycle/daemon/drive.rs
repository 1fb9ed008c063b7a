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
use zagent_rollout::driver::{DriveError, Driver, End, Turn};
use zagent_rollout::records::{Records, Reports};
use zagent_rollout::stores::BoardReports;

use crate::cycle::me;
use crate::report::chain;

/// How often stale records are looked for.
const SCAN: Duration = Duration::from_secs(60);
/// How long after trouble a rollout is looked at again, at first and at most: sooner than its heartbeat is missed, and soon
/// enough that nobody takes it over because of one write that failed.
const REST: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(30));
/// Certificates are checked on this stack, and fleets are reckoned with.
const STACK: usize = 4 << 20;

/// The thread; it ends when this is dropped, with what it does just then.
#[derive(Debug)]
pub(super) struct Drives {
    /// Nothing is ever sent: that the other end is gone is the word to stop.
    _alive: Sender<()>,
}

impl Drives {
    /// Begins to look for rollouts that nobody drives.
    pub(super) fn start(settings: Settings) -> io::Result<Self> {
        let (alive, stop) = channel();
        let thread = std::thread::Builder::new().name("drive".into()).stack_size(STACK);
        thread.spawn(move || drive(&settings, &stop))?;
        Ok(Self { _alive: alive })
    }
}

fn drive(settings: &Settings, stop: &Receiver<()>) {
    let mut wheel = Wheel {
        me: format!("{}/daemon", settings.id),
        settings,
        places: None,
        driven: BTreeMap::new(),
        scan_at: Instant::now(),
    };
    let mut said = None;
    loop {
        let wait = wheel.next().saturating_duration_since(Instant::now());
        match stop.recv_timeout(wait) {
            Err(RecvTimeoutError::Timeout) | Ok(()) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        // Whatever falls over in there, rollouts are driven on: nobody else may be there to do it.
        let went = std::panic::catch_unwind(AssertUnwindSafe(|| wheel.round())).unwrap_or_else(|_| {
            wheel.places = None;
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
struct Places {
    records: Box<dyn Records>,
    reports: Box<dyn Reports>,
}

/// A rollout that this node drives.
#[derive(Clone, Copy, Debug)]
struct Ride {
    /// When it is looked at next.
    at: Instant,
    /// How long it is left alone after the next trouble.
    rest: Duration,
}

/// What is driven here, and when.
struct Wheel<'s> {
    me: String,
    settings: &'s Settings,
    places: Option<Places>,
    driven: BTreeMap<RolloutId, Ride>,
    scan_at: Instant,
}

impl Wheel<'_> {
    /// When something is due.
    fn next(&self) -> Instant {
        self.driven.values().map(|ride| ride.at).min().unwrap_or(self.scan_at).min(self.scan_at)
    }

    /// Everything that is due.
    fn round(&mut self) -> Result<(), String> {
        let begun = Instant::now();
        let is_scan = begun >= self.scan_at;
        if is_scan {
            self.scan_at = begun + SCAN;
        }
        let due: Vec<RolloutId> =
            self.driven.iter().filter(|(_, ride)| ride.at <= begun).map(|(id, _)| id.clone()).collect();
        // Whatever goes wrong below, the next look comes after a while.
        for id in &due {
            self.put_off(id, begun);
        }
        let Some(mut places) =
            self.places.take().map_or_else(|| open(self.settings), |places| Ok(Some(places)))?
        else {
            return Ok(());
        };
        let went = self.turns(due, is_scan, (begun, Timestamp::now()), &mut places);
        // What was read stays known; what did not answer is opened anew.
        if went == Ok(true) {
            self.places = Some(places);
        }
        went.map(drop)
    }

    /// Looks at each, and at those that nobody drives; false when a place did not answer.
    fn turns(
        &mut self,
        mut due: Vec<RolloutId>,
        is_scan: bool,
        (begun, now): (Instant, Timestamp),
        places: &mut Places,
    ) -> Result<bool, String> {
        let Places { records, reports } = places;
        let mut driver = Driver { id: self.me.clone(), records: records.as_mut(), reports: reports.as_mut() };
        if is_scan {
            let stale = driver.stale(now).map_err(|error| chain(&error))?;
            due.extend(stale.into_iter().filter(|id| !self.driven.contains_key(id)));
        }
        let mut answers = true;
        for id in due {
            match driver.turn(&id, now) {
                Ok(Turn::Goes { wait, notes, .. }) => {
                    notes.iter().for_each(|note| tracing::info!(rollout = %id, "{note}"));
                    self.driven.insert(id, Ride { at: begun + wait, rest: REST.0 });
                }
                Ok(Turn::Over(record)) => {
                    tracing::info!(rollout = %id, state = record.state.word(), "the rollout is over");
                    self.driven.remove(&id);
                }
                Ok(Turn::SteppedAside { driver }) => {
                    tracing::info!(rollout = %id, driver, "another drives it");
                    self.driven.remove(&id);
                }
                Err(error) => {
                    tracing::warn!(rollout = %id, "{}", chain(&error));
                    let passes = matches!(
                        error,
                        DriveError::Unread { .. } | DriveError::Unwritten { end: End::Unharmed, .. }
                    );
                    answers &= !passes;
                    if !passes {
                        self.driven.remove(&id);
                    } else if !self.driven.contains_key(&id) {
                        // Nobody else is there to drive one that was just found: it is tried again before the next scan.
                        self.put_off(&id, begun);
                    }
                }
            }
        }
        Ok(answers)
    }

    /// Leaves a rollout alone for a while, longer each time.
    fn put_off(&mut self, id: &RolloutId, begun: Instant) {
        let rest = self.driven.get(id).map_or(REST.0, |ride| ride.rest);
        self.driven.insert(id.clone(), Ride { at: begun + rest, rest: (rest * 2).min(REST.1) });
    }
}

fn open(settings: &Settings) -> Result<Option<Places>, String> {
    let Some(records) = me::records(settings).map_err(|error| chain(&error))? else { return Ok(None) };
    let Some(reports) = BoardReports::open(settings).map_err(|error| chain(&error))? else {
        return Err("there is no board to read reports from: set `board`".into());
    };
    Ok(Some(Places { records: Box::new(records), reports: Box::new(reports) }))
}

#[cfg(test)]
mod tests;
