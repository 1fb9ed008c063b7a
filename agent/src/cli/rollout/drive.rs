//! `zagent rollout drive|step`: the driver at work, in the foreground.
//!
//! Law: whoever drives leaves the record such that another can go on; being told to stop ends the driving, never the
//! rollout.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json as object;
use zagent_config::ids::RolloutId;
use zagent_rollout::board::BoardError;
use zagent_rollout::drive::{HEARTBEAT, is_live};
use zagent_rollout::driver::{DriveError, Driver, End, Turn};
use zagent_rollout::record::{self, Record, State};

use super::live::{self, Live};
use super::place::{self, Place};
use super::{held, words};
use crate::host::Cancel;
use crate::output::{Format, Ui, one_line};
use crate::report::{Exit, Trouble, chain};
use crate::run::Signals;

/// How long a board that does not answer is left alone, at first and at most.
const REST: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(30));
/// How long between two looks at a rollout that somebody watches, and how much longer for each of its nodes: what a look
/// costs the board grows with them.
const LOOK: Duration = Duration::from_secs(1);
const A_NODE: Duration = Duration::from_millis(10);
/// The name of whoever takes single steps, so that the next job goes on where the last one ended.
const STEPPER: &str = "step";

/// Drive a rollout until it is over, or those that nobody drives
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The rollout; default: all that nobody drives
    #[arg(value_name = "ID")]
    id: Option<RolloutId>,

    /// Take it over from a driver that is still there
    #[arg(long, requires = "id")]
    adopt: bool,

    /// The name to drive under; default: user@node:process
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,

    #[command(flatten)]
    place: Place,
}

/// Take one step of a rollout, for jobs that come back: exits with 75 while there is more to do
#[derive(Debug, clap::Args)]
pub(super) struct StepArgs {
    /// The rollout
    #[arg(value_name = "ID")]
    id: RolloutId,

    /// The name to drive under; jobs that take turns need the same one
    #[arg(long = "as", value_name = "NAME", default_value = STEPPER)]
    name: String,

    #[command(flatten)]
    place: Place,
}

impl Args {
    pub(super) const fn format(&self) -> Format {
        self.place.format()
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<Exit, Trouble> {
        let settings = self.place.settings()?;
        let (mut records, mut reports) = (place::records(&settings)?, place::reports(&settings)?);
        let me = self.name.clone().unwrap_or_else(|| place::me(&settings));
        let driver = Driver { id: me, records: records.as_mut(), reports: reports.as_mut() };
        let mut wheel = Wheel { driver, format: self.format() };
        let ids = match &self.id {
            Some(id) => {
                wheel.may_drive(id, self.adopt)?;
                vec![id.clone()]
            }
            None => wheel.driver.stale(Timestamp::now()).map_err(place::trouble)?,
        };
        if ids.is_empty() {
            self.place.print("nothing to drive: every rollout is over or has a driver\n", &object!([]), ui);
            return Ok(Exit::Fine);
        }
        let (records, exit) = wheel.drive(ids, ui)?;
        let texts: Vec<String> = records.iter().map(|record| format!("{}\n", ended(record))).collect();
        self.place.print(&texts.concat(), &records, ui);
        Ok(exit)
    }
}

impl StepArgs {
    pub(super) const fn format(&self) -> Format {
        self.place.format()
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<Exit, Trouble> {
        let settings = self.place.settings()?;
        let (mut records, mut reports) = (place::records(&settings)?, place::reports(&settings)?);
        let (records, reports) = (records.as_mut(), reports.as_mut());
        let mut driver = Driver { id: self.name.clone(), records, reports };
        let now = Timestamp::now();
        match driver.turn(&self.id, now).map_err(trouble)? {
            Turn::Over(record) => {
                let data = object!({"over": true, "notes": [], "wait_seconds": null, "record": record});
                self.place.print(&format!("{}\n", ended(&record)), &data, ui);
                Ok(exit(&record))
            }
            Turn::Goes { record, wait, notes } => {
                let mut lines: Vec<String> = notes.iter().map(|note| one_line(note)).collect();
                lines.push(format!(
                    "{}; look again in {}s",
                    words::waits(&record, now),
                    wait.as_secs().max(1)
                ));
                let wait = wait.as_secs_f64();
                let data = object!({"over": false, "notes": notes, "wait_seconds": wait, "record": record});
                self.place.print(&format!("{}\n", lines.join("\n")), &data, ui);
                Ok(Exit::Locked)
            }
            Turn::SteppedAside { driver } => {
                let data = object!({"over": false, "driver": driver});
                let words = format!("{driver} drives it: nothing was done\n");
                self.place.print(&words, &data, ui);
                Ok(Exit::Locked)
            }
        }
    }
}

/// A driver that stays.
pub(super) struct Wheel<'a> {
    /// The driver.
    pub(super) driver: Driver<'a>,
    /// How the answer is printed.
    pub(super) format: Format,
}

/// A rollout that is being driven.
struct Ride {
    id: RolloutId,
    live: Live,
    last: Option<Record>,
    /// How long the board is left alone after it did not answer.
    rest: Duration,
}

/// What became of a ride after a turn.
enum After {
    Wait(Duration),
    Over,
    Aside(String),
}

impl Wheel<'_> {
    /// Makes sure that this driver may drive it, and takes it over when that is wanted.
    fn may_drive(&mut self, id: &RolloutId, adopt: bool) -> Result<(), Trouble> {
        loop {
            let found = held(self.driver.records, id)?;
            let now = Timestamp::now();
            let other = found.value.driver.as_ref();
            let Some(other) = other.filter(|d| d.id != self.driver.id && is_live(d, now)) else {
                return Ok(());
            };
            if found.value.state.is_final() {
                return Ok(());
            }
            if !adopt {
                let message = format!("`{id}` is driven by {}", other.id);
                let hint = format!("`zagent rollout watch {id}` follows it; `--adopt` takes it over");
                return Err(Trouble::locked(message, hint));
            }
            let note = format!("{} takes over from {}", self.driver.id, other.id);
            let mut next = found.value.clone();
            next.driver = Some(record::Driver { id: self.driver.id.clone(), heartbeat: now });
            next.serial += 1;
            match self.driver.records.put(&next, Some(&found.token), &note, true) {
                Ok(_) => return Ok(()),
                Err(BoardError::Conflict { .. } | BoardError::Unknown { .. }) => {}
                Err(error) => return Err(place::trouble(error)),
            }
        }
    }

    /// Drives until all are over, another drives, or somebody says stop.
    pub(super) fn drive(
        &mut self,
        ids: Vec<RolloutId>,
        ui: &mut Ui<'_>,
    ) -> Result<(Vec<Record>, Exit), Trouble> {
        let cancel = Arc::new(Cancel::new());
        let _signals = Signals::watch(&cancel);
        let named = ids.len() > 1;
        let is_alone = !named;
        let ride = |id| Ride { id, live: Live::new(self.format, named, ui), last: None, rest: REST.0 };
        let mut rides: Vec<Ride> = ids.into_iter().map(ride).collect();
        let (mut done, mut worst) = (Vec::new(), Exit::Fine);
        while !rides.is_empty() {
            let mut wait = HEARTBEAT;
            let mut left = Vec::new();
            for mut ride in rides {
                match self.turn(&mut ride, ui) {
                    Ok(After::Wait(time)) => {
                        wait = wait.min(time);
                        left.push(ride);
                        continue;
                    }
                    Err(trouble) if is_alone => {
                        ride.live.end();
                        return Err(trouble);
                    }
                    // What is wrong with one is no reason to leave the others without a driver.
                    Err(trouble) => {
                        let words = format!("{} is not driven any more: {}", ride.id, trouble.words());
                        ride.live.say(&one_line(&words), ui);
                        worst = worse(worst, trouble.exit());
                    }
                    Ok(After::Over) => {}
                    Ok(After::Aside(driver)) => {
                        let words = format!("{driver} drives {} now: stepped aside", ride.id);
                        ride.live.say(&words, ui);
                        worst = worse(worst, Exit::Locked);
                    }
                }
                ride.live.end();
                worst = worse(worst, ride.last.as_ref().map_or(Exit::Fine, exit));
                done.extend(ride.last);
            }
            rides = left;
            if !rides.is_empty() {
                live::rest(wait, rides.iter().map(|ride| &ride.live), &cancel);
            }
            if cancel.is_said() {
                worst = worse(worst, Exit::Locked);
                for ride in rides {
                    ride.live.end();
                    let left = self.driver.let_go(&ride.id).is_ok();
                    ui.say(&stopped(&ride.id, left));
                    done.extend(ride.last);
                }
                break;
            }
        }
        Ok((done, worst))
    }

    fn turn(&mut self, ride: &mut Ride, ui: &mut Ui<'_>) -> Result<After, Trouble> {
        let now = Timestamp::now();
        match self.driver.turn(&ride.id, now) {
            Ok(Turn::Goes { record, wait, .. }) => {
                ride.live.tell(&record, now, ui);
                let wait = wait.min(LOOK.saturating_add(A_NODE.saturating_mul(nodes(&record))));
                (ride.last, ride.rest) = (Some(record), REST.0);
                Ok(After::Wait(wait))
            }
            Ok(Turn::Over(record)) => {
                ride.live.tell(&record, now, ui);
                ride.last = Some(record);
                Ok(After::Over)
            }
            Ok(Turn::SteppedAside { driver }) => Ok(After::Aside(driver)),
            // Nodes hold out without a driver for a while: one that began well does not give up at once.
            Err(error @ (DriveError::Unread { .. } | DriveError::Unwritten { end: End::Unharmed, .. }))
                if ride.last.is_some() =>
            {
                let wait = ride.rest;
                ride.rest = (wait * 2).min(REST.1);
                ride.live.say(&format!("{}; again in {}s", one_line(&chain(&error)), wait.as_secs()), ui);
                Ok(After::Wait(wait))
            }
            Err(error) => Err(trouble(error)),
        }
    }
}

/// How many nodes are asked about in one look.
fn nodes(record: &Record) -> u32 {
    u32::try_from(words::total(record)).unwrap_or(u32::MAX)
}

/// What whoever stops driving should know.
fn stopped(id: &RolloutId, left: bool) -> String {
    // A record that could not be written still names this driver.
    let adopt = if left { "" } else { " --adopt" };
    format!(
        "stopped driving; {id} is not aborted. Go on: zagent rollout drive {id}{adopt}   End it: zagent rollout abort {id}"
    )
}

/// How a rollout ended, in one line.
pub(super) fn ended(record: &Record) -> String {
    let reason = record.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    one_line(&format!("{} {}{reason}; {}", record.id, record.state.word(), words::counts(record)))
}

/// The exit code of a rollout: fine, aborted, or not over yet.
pub(super) const fn exit(record: &Record) -> Exit {
    match record.state {
        State::Completed => Exit::Fine,
        State::Aborted => Exit::Failed,
        _ => Exit::Locked,
    }
}

/// The one of two exit codes that says more: failed, then not over, then fine.
fn worse(one: Exit, other: Exit) -> Exit {
    let weight = |exit: Exit| match exit {
        Exit::Fine => 0,
        Exit::Locked => 1,
        _ => 2,
    };
    if weight(other) > weight(one) { other } else { one }
}

/// A turn that could not be taken, and a way out.
fn trouble(error: DriveError) -> Trouble {
    let message = chain(&error);
    match error {
        DriveError::Gone { .. } => Trouble::usage_hint(message, "`zagent rollout list --all` prints them"),
        DriveError::Undriven { id, .. } => {
            Trouble::usage_hint(message, format!("`zagent rollout watch {id}` follows it"))
        }
        DriveError::Unread { source, .. } => match place::trouble(source) {
            Trouble::Refusal { exit, hint, .. } => Trouble::Refusal { exit, message, hint },
            other => other,
        },
        DriveError::Unwritten { id, end, .. } => {
            let exit = if end == End::Aborted { Exit::Failed } else { Exit::Unreachable };
            let hint = Some(format!("`zagent rollout status {id}` shows how it stands"));
            Trouble::Refusal { exit, message, hint }
        }
    }
}
