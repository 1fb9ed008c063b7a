//! `zagent rollout drive|step`: runs the driver in the foreground.
//!
//! Law: a driver always leaves the record so that another driver can continue; a stop signal ends the driver, never
//! the rollout (held by
//! `a_driver_that_dies_in_any_phase_is_followed_by_another_and_an_outage_delays_and_breaks_nothing`).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json as object;
use zagent_config::ids::RolloutId;
use zagent_rollout::board::BoardError;
use zagent_rollout::driver::{DriveError, DriveOutcome, RolloutDriver, WriteFailureOutcome};
use zagent_rollout::driver_logic::is_live;
use zagent_rollout::record::{self, RolloutRecord, RolloutStatus};

use super::board_args::{self, BoardArgs};
use super::progress::{self, RolloutProgress};
use super::{load_record, record_text};
use crate::output::{OutputFormat, Ui, one_line};
use zagent_config::error_chain;
use zagent_config::sorted::CollectSorted;
use zagent_daemon::drive_loop::{DriveEvent, DriveLoop, DrivePolicy, DriveReporter};
use zagent_daemon::error::{AgentError, ExitStatus};
use zagent_host::CancelToken;
use zagent_run::SignalWatcher;

/// Poll interval of a rollout, and the addition per node.
const POLL: (Duration, Duration) = (Duration::from_secs(1), Duration::from_millis(10));
/// Driver ID for single steps, so that the next job continues where the last one ended.
const STEP_DRIVER_ID: &str = "step";

/// Drive a rollout until it is over, or all rollouts without a driver
#[derive(Debug, clap::Args)]
pub(super) struct RolloutDriveArgs {
    /// Rollout ID; default: all rollouts without a driver
    #[arg(value_name = "ID")]
    id: Option<RolloutId>,

    /// Take over from an active driver
    #[arg(long, requires = "id")]
    adopt: bool,

    /// Driver name; default: user@node:process
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,

    #[command(flatten)]
    place: BoardArgs,
}

/// Take one step of a rollout, for repeated jobs: exits with 75 while more steps remain
#[derive(Debug, clap::Args)]
pub(super) struct RolloutStepArgs {
    /// Rollout ID
    #[arg(value_name = "ID")]
    id: RolloutId,

    /// Driver name; jobs that take turns must use the same name
    #[arg(long = "as", value_name = "NAME", default_value = STEP_DRIVER_ID)]
    name: String,

    #[command(flatten)]
    place: BoardArgs,
}

impl RolloutDriveArgs {
    pub(super) const fn format(&self) -> OutputFormat {
        self.place.format()
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let settings = self.place.settings()?;
        let (mut records, mut reports) =
            (board_args::open_records(&settings)?, board_args::open_reports(&settings)?);
        let me = self.name.clone().unwrap_or_else(|| board_args::driver_id(&settings));
        let driver = RolloutDriver { id: me, records: records.as_mut(), reports: reports.as_mut() };
        let mut drive = ForegroundDrive { driver, format: self.format() };
        let ids = match &self.id {
            Some(id) => {
                drive.ensure_may_drive(id, self.adopt)?;
                vec![id.clone()]
            }
            None => drive.driver.adoptable_rollouts(Timestamp::now()).map_err(board_args::to_agent_error)?,
        };
        if ids.is_empty() {
            self.place.print("nothing to drive: every rollout is over or has a driver\n", &object!([]), ui);
            return Ok(ExitStatus::Success);
        }
        let (records, exit) = drive.run_until_done(ids, ui)?;
        let texts: Vec<String> = records.iter().map(|record| format!("{}\n", end_summary(record))).collect();
        self.place.print(&texts.concat(), &records, ui);
        Ok(exit)
    }
}

impl RolloutStepArgs {
    pub(super) const fn format(&self) -> OutputFormat {
        self.place.format()
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let settings = self.place.settings()?;
        let (mut records, mut reports) =
            (board_args::open_records(&settings)?, board_args::open_reports(&settings)?);
        let (records, reports) = (records.as_mut(), reports.as_mut());
        let mut driver = RolloutDriver { id: self.name.clone(), records, reports };
        let now = Timestamp::now();
        match driver.drive_once(&self.id, now).map_err(to_agent_error)? {
            DriveOutcome::Finished(record) => {
                let data = object!({"over": true, "notes": [], "wait_seconds": null, "record": record});
                self.place.print(&format!("{}\n", end_summary(&record)), &data, ui);
                Ok(exit_status(&record))
            }
            DriveOutcome::Continues { record, wait, notes } => {
                let mut lines: Vec<String> = notes.iter().map(|note| one_line(note)).collect();
                lines.push(format!(
                    "{}; next poll in {}s",
                    record_text::waiting_text(&record, now),
                    wait.as_secs().max(1)
                ));
                let wait = wait.as_secs_f64();
                let data = object!({"over": false, "notes": notes, "wait_seconds": wait, "record": record});
                self.place.print(&format!("{}\n", lines.join("\n")), &data, ui);
                Ok(ExitStatus::Locked)
            }
            DriveOutcome::SteppedAside { driver } => {
                let data = object!({"over": false, "driver": driver});
                let words = format!("{driver} drives the rollout: nothing was done\n");
                self.place.print(&words, &data, ui);
                Ok(ExitStatus::Locked)
            }
        }
    }
}

/// A driver that runs until its rollouts are over.
pub(super) struct ForegroundDrive<'a> {
    /// The driver.
    pub(super) driver: RolloutDriver<'a>,
    /// Output format.
    pub(super) format: OutputFormat,
}

/// Prints what happens to rollouts, and collects how they ended.
struct DrivePrinter<'p, 'u> {
    ui: &'p mut Ui<'u>,
    live: BTreeMap<RolloutId, RolloutProgress>,
    last: BTreeMap<RolloutId, RolloutRecord>,
    done: Vec<RolloutRecord>,
    worst: ExitStatus,
    /// Errors of the rollouts that cannot be driven.
    errors: Vec<AgentError>,
    /// True when there is only one rollout: its error is that of the command.
    is_alone: bool,
}

impl DriveReporter for DrivePrinter<'_, '_> {
    fn report(&mut self, id: &RolloutId, event: DriveEvent<'_>, now: Timestamp) {
        match event {
            DriveEvent::Continues { record, .. } => self.show_record(id, record, now),
            DriveEvent::Retrying(error, wait) => {
                let words = format!("{}; retrying in {}s", one_line(&error_chain(error)), wait.as_secs());
                self.print_message(id, &words);
            }
            DriveEvent::Finished(record) => {
                self.show_record(id, record, now);
                self.finish(id);
            }
            DriveEvent::SteppedAside(driver) => {
                self.print_message(id, &format!("{driver} took over {id}: stopped driving it"));
                self.worst = worse_exit(self.worst, ExitStatus::Locked);
                self.finish(id);
            }
            DriveEvent::Failed(error) => {
                let error = to_agent_error(error);
                // An error in one rollout must not leave the others without a driver.
                if !self.is_alone {
                    let words = format!("stopped driving {id}: {}", error.summary());
                    self.print_message(id, &one_line(&words));
                }
                self.worst = worse_exit(self.worst, error.exit());
                self.errors.push(error);
                self.finish(id);
            }
        }
    }

    fn wait(&mut self, duration: Duration, cancel: &CancelToken) {
        progress::wait_redrawing(duration, self.live.values(), cancel);
    }
}

impl DrivePrinter<'_, '_> {
    fn show_record(&mut self, id: &RolloutId, record: &RolloutRecord, now: Timestamp) {
        if let Some(live) = self.live.get_mut(id) {
            live.show_record(record, now, self.ui);
        }
        self.last.insert(id.clone(), record.clone());
    }

    fn print_message(&mut self, id: &RolloutId, words: &str) {
        if let Some(live) = self.live.get(id) {
            live.print_message(words, self.ui);
        }
    }

    /// The rollout is not driven any more.
    fn finish(&mut self, id: &RolloutId) {
        if let Some(live) = self.live.remove(id) {
            live.finish();
        }
        let last = self.last.remove(id);
        self.worst = worse_exit(self.worst, last.as_ref().map_or(ExitStatus::Success, exit_status));
        self.done.extend(last);
    }
}

impl ForegroundDrive<'_> {
    /// Checks that this driver may drive the rollout, and takes over on request.
    fn ensure_may_drive(&mut self, id: &RolloutId, adopt: bool) -> Result<(), AgentError> {
        loop {
            let found = load_record(self.driver.records, id)?;
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
                let hint = format!("follow it with `zagent rollout watch {id}`, or take over with `--adopt`");
                return Err(AgentError::locked(message, hint));
            }
            let note = format!("{} takes over from {}", self.driver.id, other.id);
            let mut next = found.value.clone();
            next.driver = Some(record::DriverLease { id: self.driver.id.clone(), heartbeat: now });
            next.serial += 1;
            match self.driver.records.put(&next, Some(&found.token), &note, true) {
                Ok(_) => return Ok(()),
                Err(BoardError::Conflict { .. } | BoardError::Unknown { .. }) => {}
                Err(error) => return Err(board_args::to_agent_error(error)),
            }
        }
    }

    /// Drives until all rollouts are over, another driver takes over, or a stop signal arrives.
    pub(super) fn run_until_done(
        &mut self,
        ids: Vec<RolloutId>,
        ui: &mut Ui<'_>,
    ) -> Result<(Vec<RolloutRecord>, ExitStatus), AgentError> {
        let cancel = Arc::new(CancelToken::new());
        let _signals = SignalWatcher::watch(&cancel);
        let is_alone = ids.len() <= 1;
        let live = |id: &RolloutId| (id.clone(), RolloutProgress::new(self.format, !is_alone, ui));
        let mut printer = DrivePrinter {
            live: ids.iter().map(live).into_map(),
            ui,
            last: BTreeMap::new(),
            done: Vec::new(),
            worst: ExitStatus::Success,
            errors: Vec::new(),
            is_alone,
        };
        let mut drive_loop = DriveLoop::new(DrivePolicy { retry_first: false, poll: Some(POLL) });
        let left = drive_loop.run_until_done(&mut self.driver, ids, &cancel, &mut printer);
        if let Some(error) = printer.errors.pop().filter(|_| is_alone) {
            return Err(error);
        }
        let DrivePrinter { ui, mut live, mut last, mut done, mut worst, .. } = printer;
        if cancel.is_cancelled() {
            worst = worse_exit(worst, ExitStatus::Locked);
        }
        for id in left {
            live.remove(&id).into_iter().for_each(RolloutProgress::finish);
            let released = self.driver.release(&id).is_ok();
            ui.message(&stopped_text(&id, released));
            done.extend(last.remove(&id));
        }
        Ok((done, worst))
    }
}

/// Message for a driver that stops.
fn stopped_text(id: &RolloutId, left: bool) -> String {
    // A record that could not be written still names this driver.
    let adopt = if left { "" } else { " --adopt" };
    format!(
        "stopped driving; {id} is not aborted. Continue: zagent rollout drive {id}{adopt}   \
         Abort: zagent rollout abort {id}"
    )
}

/// Result of a rollout on one line.
pub(super) fn end_summary(record: &RolloutRecord) -> String {
    let reason = record.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    one_line(&format!("{} {}{reason}; {}", record.id, record.state.name(), record_text::counts_text(record)))
}

/// Exit code of a rollout: success, aborted, or not over yet.
pub(super) const fn exit_status(record: &RolloutRecord) -> ExitStatus {
    match record.state {
        RolloutStatus::Completed => ExitStatus::Success,
        RolloutStatus::Aborted => ExitStatus::Failed,
        _ => ExitStatus::Locked,
    }
}

/// The more important of two exit codes: failed, then not over, then success.
fn worse_exit(one: ExitStatus, other: ExitStatus) -> ExitStatus {
    let weight = |exit: ExitStatus| match exit {
        ExitStatus::Success => 0,
        ExitStatus::Locked => 1,
        _ => 2,
    };
    if weight(other) > weight(one) { other } else { one }
}

/// Turns a drive error into an error with a hint.
fn to_agent_error(error: DriveError) -> AgentError {
    let message = error_chain(&error);
    match error {
        DriveError::Gone { .. } => {
            AgentError::usage_hint(message, "list the rollouts with `zagent rollout list --all`")
        }
        DriveError::NotDrivable { id, .. } => {
            AgentError::usage_hint(message, format!("follow it with `zagent rollout watch {id}`"))
        }
        DriveError::NotAccepted { id, .. } => AgentError::Refusal {
            exit: ExitStatus::Refused,
            message,
            hint: Some(format!("show it with `zagent rollout status {id}`")),
        },
        DriveError::ReadFailed { source, .. } => match board_args::to_agent_error(source) {
            AgentError::Refusal { exit, hint, .. } => AgentError::Refusal { exit, message, hint },
            other => other,
        },
        DriveError::WriteFailed { id, end, .. } => {
            let exit = if end == WriteFailureOutcome::Aborted {
                ExitStatus::Failed
            } else {
                ExitStatus::Unreachable
            };
            let hint = Some(format!("check it with `zagent rollout status {id}`"));
            AgentError::Refusal { exit, message, hint }
        }
    }
}
