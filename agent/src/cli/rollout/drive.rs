//! `zagent rollout drive|step`: runs the driver in the foreground.
//!
//! Law: a driver always leaves the record so that another driver can continue; a stop signal ends the driver,
//! never the rollout.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::json as object;
use zagent_config::backoff::Backoff;
use zagent_config::ids::RolloutId;
use zagent_rollout::board::BoardError;
use zagent_rollout::driver::{DriveError, DriveOutcome, RolloutDriver, WriteFailureOutcome};
use zagent_rollout::driver_logic::{HEARTBEAT, is_live};
use zagent_rollout::record::{self, RolloutRecord, RolloutStatus};

use super::board_args::{self, BoardArgs};
use super::progress::{self, RolloutProgress};
use super::{load_record, record_text};
use crate::output::{OutputFormat, Ui, one_line};
use zagent_config::error_chain;
use zagent_daemon::error::{CliError, ExitStatus};
use zagent_host::CancelToken;
use zagent_run::SignalWatcher;

/// Backoff while a board does not answer: initial and maximum.
const BACKOFF: Backoff = Backoff::new(Duration::from_secs(2), Duration::from_secs(30));
/// Poll interval of a rollout, and the addition per node: the cost of a poll for the board grows with the
/// nodes.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
const POLL_PER_NODE: Duration = Duration::from_millis(10);
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

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, CliError> {
        let settings = self.place.settings()?;
        let (mut records, mut reports) =
            (board_args::open_records(&settings)?, board_args::open_reports(&settings)?);
        let me = self.name.clone().unwrap_or_else(|| board_args::driver_id(&settings));
        let driver = RolloutDriver { id: me, records: records.as_mut(), reports: reports.as_mut() };
        let mut drive_loop = CliDriveLoop { driver, format: self.format() };
        let ids = match &self.id {
            Some(id) => {
                drive_loop.ensure_may_drive(id, self.adopt)?;
                vec![id.clone()]
            }
            None => {
                drive_loop.driver.adoptable_rollouts(Timestamp::now()).map_err(board_args::to_cli_error)?
            }
        };
        if ids.is_empty() {
            self.place.print("nothing to drive: every rollout is over or has a driver\n", &object!([]), ui);
            return Ok(ExitStatus::Success);
        }
        let (records, exit) = drive_loop.run_until_done(ids, ui)?;
        let texts: Vec<String> = records.iter().map(|record| format!("{}\n", end_summary(record))).collect();
        self.place.print(&texts.concat(), &records, ui);
        Ok(exit)
    }
}

impl RolloutStepArgs {
    pub(super) const fn format(&self) -> OutputFormat {
        self.place.format()
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, CliError> {
        let settings = self.place.settings()?;
        let (mut records, mut reports) =
            (board_args::open_records(&settings)?, board_args::open_reports(&settings)?);
        let (records, reports) = (records.as_mut(), reports.as_mut());
        let mut driver = RolloutDriver { id: self.name.clone(), records, reports };
        let now = Timestamp::now();
        match driver.drive_once(&self.id, now).map_err(to_cli_error)? {
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
pub(super) struct CliDriveLoop<'a> {
    /// The driver.
    pub(super) driver: RolloutDriver<'a>,
    /// Output format.
    pub(super) format: OutputFormat,
}

/// A rollout with this driver.
struct CliDrivenRollout {
    id: RolloutId,
    live: RolloutProgress,
    last: Option<RolloutRecord>,
    /// How often in a row the board did not answer.
    failures: u32,
}

/// Result of one step.
enum CliDriveStep {
    Wait(Duration),
    Finished,
    SteppedAside(String),
}

impl CliDriveLoop<'_> {
    /// Checks that this driver may drive the rollout, and takes over on request.
    fn ensure_may_drive(&mut self, id: &RolloutId, adopt: bool) -> Result<(), CliError> {
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
                return Err(CliError::locked(message, hint));
            }
            let note = format!("{} takes over from {}", self.driver.id, other.id);
            let mut next = found.value.clone();
            next.driver = Some(record::DriverLease { id: self.driver.id.clone(), heartbeat: now });
            next.serial += 1;
            match self.driver.records.put(&next, Some(&found.token), &note, true) {
                Ok(_) => return Ok(()),
                Err(BoardError::Conflict { .. } | BoardError::Unknown { .. }) => {}
                Err(error) => return Err(board_args::to_cli_error(error)),
            }
        }
    }

    /// Drives until all rollouts are over, another driver takes over, or a stop signal arrives.
    pub(super) fn run_until_done(
        &mut self,
        ids: Vec<RolloutId>,
        ui: &mut Ui<'_>,
    ) -> Result<(Vec<RolloutRecord>, ExitStatus), CliError> {
        let cancel = Arc::new(CancelToken::new());
        let _signals = SignalWatcher::watch(&cancel);
        let named = ids.len() > 1;
        let is_alone = !named;
        let driven = |id| CliDrivenRollout {
            id,
            live: RolloutProgress::new(self.format, named, ui),
            last: None,
            failures: 0,
        };
        let mut all_driven: Vec<CliDrivenRollout> = ids.into_iter().map(driven).collect();
        let (mut done, mut worst) = (Vec::new(), ExitStatus::Success);
        while !all_driven.is_empty() {
            let mut wait = HEARTBEAT;
            let mut left = Vec::new();
            for mut driven in all_driven {
                match self.drive_step(&mut driven, ui) {
                    Ok(CliDriveStep::Wait(time)) => {
                        wait = wait.min(time);
                        left.push(driven);
                        continue;
                    }
                    Err(cli_error) if is_alone => {
                        driven.live.finish();
                        return Err(cli_error);
                    }
                    // An error in one rollout must not leave the others without a driver.
                    Err(cli_error) => {
                        let words = format!("stopped driving {}: {}", driven.id, cli_error.summary());
                        driven.live.print_message(&one_line(&words), ui);
                        worst = worse_exit(worst, cli_error.exit());
                    }
                    Ok(CliDriveStep::Finished) => {}
                    Ok(CliDriveStep::SteppedAside(driver)) => {
                        let words = format!("{driver} took over {}: stopped driving it", driven.id);
                        driven.live.print_message(&words, ui);
                        worst = worse_exit(worst, ExitStatus::Locked);
                    }
                }
                driven.live.finish();
                worst = worse_exit(worst, driven.last.as_ref().map_or(ExitStatus::Success, exit_status));
                done.extend(driven.last);
            }
            all_driven = left;
            if !all_driven.is_empty() {
                progress::wait_redrawing(wait, all_driven.iter().map(|driven| &driven.live), &cancel);
            }
            if cancel.is_cancelled() {
                worst = worse_exit(worst, ExitStatus::Locked);
                for driven in all_driven {
                    driven.live.finish();
                    let left = self.driver.release(&driven.id).is_ok();
                    ui.message(&stopped_text(&driven.id, left));
                    done.extend(driven.last);
                }
                break;
            }
        }
        Ok((done, worst))
    }

    fn drive_step(
        &mut self,
        driven: &mut CliDrivenRollout,
        ui: &mut Ui<'_>,
    ) -> Result<CliDriveStep, CliError> {
        let now = Timestamp::now();
        match self.driver.drive_once(&driven.id, now) {
            Ok(DriveOutcome::Continues { record, wait, .. }) => {
                driven.live.show_record(&record, now, ui);
                let wait = wait
                    .min(POLL_INTERVAL.saturating_add(POLL_PER_NODE.saturating_mul(polled_nodes(&record))));
                (driven.last, driven.failures) = (Some(record), 0);
                Ok(CliDriveStep::Wait(wait))
            }
            Ok(DriveOutcome::Finished(record)) => {
                driven.live.show_record(&record, now, ui);
                driven.last = Some(record);
                Ok(CliDriveStep::Finished)
            }
            Ok(DriveOutcome::SteppedAside { driver }) => Ok(CliDriveStep::SteppedAside(driver)),
            // Nodes continue without a driver for a while, so a driver that started well does not give up at
            // once.
            Err(
                error @ (DriveError::ReadFailed { .. }
                | DriveError::WriteFailed { end: WriteFailureOutcome::HeartbeatMissed, .. }),
            ) if driven.last.is_some() => {
                let wait = BACKOFF.delay(driven.failures);
                driven.failures = driven.failures.saturating_add(1);
                driven.live.print_message(
                    &format!("{}; retrying in {}s", one_line(&error_chain(&error)), wait.as_secs()),
                    ui,
                );
                Ok(CliDriveStep::Wait(wait))
            }
            Err(error) => Err(to_cli_error(error)),
        }
    }
}

/// Number of nodes read in one poll.
fn polled_nodes(record: &RolloutRecord) -> u32 {
    u32::try_from(record_text::node_count(record)).unwrap_or(u32::MAX)
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
fn to_cli_error(error: DriveError) -> CliError {
    let message = error_chain(&error);
    match error {
        DriveError::Gone { .. } => {
            CliError::usage_hint(message, "list the rollouts with `zagent rollout list --all`")
        }
        DriveError::NotDrivable { id, .. } => {
            CliError::usage_hint(message, format!("follow it with `zagent rollout watch {id}`"))
        }
        DriveError::ReadFailed { source, .. } => match board_args::to_cli_error(source) {
            CliError::Refusal { exit, hint, .. } => CliError::Refusal { exit, message, hint },
            other => other,
        },
        DriveError::WriteFailed { id, end, .. } => {
            let exit = if end == WriteFailureOutcome::Aborted {
                ExitStatus::Failed
            } else {
                ExitStatus::Unreachable
            };
            let hint = Some(format!("check it with `zagent rollout status {id}`"));
            CliError::Refusal { exit, message, hint }
        }
    }
}
