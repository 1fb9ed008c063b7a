//! `zagent rollout`: plan, start, look at, steer and drive rollouts, one file a verb.
//!
//! Law: a record is changed only by compare-and-swap on what was read; whoever loses looks again.

mod board_args;
mod change;
mod draft;
mod drive;
mod events;
mod plan_view;
mod progress;
mod record_text;
mod resolve;
mod rollout_view;
mod start;
mod status;
mod watch;

use clap::Subcommand;
use jiff::{SignedDuration, Timestamp};
use zagent_config::ids::RolloutId;
use zagent_config::suggest::nearest;
use zagent_rollout::record::{RolloutMode, RolloutRecord, RolloutStatus};
use zagent_rollout::records::{Records, VersionedValue};
use zagent_rollout::waves;

pub(super) use self::board_args::{BoardArgs, open_board_reports, open_reports, to_cli_error};
pub(super) use self::record_text::short_version;
pub(super) use self::rollout_view::{node_state_text, node_state_word};
use crate::output::{OutputFormat, Ui};
use zagent_daemon::error::{CliError, ExitStatus};

/// Roll out a version of the agent or a commit of the states, batch by batch
#[derive(Debug, clap::Args)]
pub(super) struct RolloutArgs {
    #[command(subcommand)]
    verb: RolloutCliCommand,
}

#[derive(Debug, Subcommand)]
enum RolloutCliCommand {
    /// Show who would come when, and what stands in the way; writes nothing
    Plan(start::RolloutPlanArgs),
    /// Begin a rollout, and drive it unless told otherwise
    Start(Box<start::RolloutStartArgs>),
    /// Tell how a rollout stands and what to do about it
    Status(status::RolloutStatusArgs),
    /// Print the rollouts under way
    List(status::RolloutListArgs),
    /// Follow a rollout until it is over
    Watch(watch::RolloutWatchArgs),
    /// Finish what is applied and start nothing new
    Pause(change::RolloutChangeArgs),
    /// Go on after a pause
    Resume(change::RolloutChangeArgs),
    /// End a rollout: what is not confirmed goes back
    Abort(change::RolloutChangeArgs),
    /// Drive a rollout until it is over, or those that nobody drives
    Drive(drive::RolloutDriveArgs),
    /// Take one step of a rollout, for jobs that come back: exits with 75 while there is more to do
    Step(drive::RolloutStepArgs),
}

impl RolloutArgs {
    pub(super) const fn format(&self) -> OutputFormat {
        match &self.verb {
            RolloutCliCommand::Plan(args) => args.format(),
            RolloutCliCommand::Start(args) => args.format(),
            RolloutCliCommand::Status(args) => args.format(),
            RolloutCliCommand::List(args) => args.format(),
            RolloutCliCommand::Watch(args) => args.format(),
            RolloutCliCommand::Pause(args)
            | RolloutCliCommand::Resume(args)
            | RolloutCliCommand::Abort(args) => args.format(),
            RolloutCliCommand::Drive(args) => args.format(),
            RolloutCliCommand::Step(args) => args.format(),
        }
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, CliError> {
        match &self.verb {
            RolloutCliCommand::Plan(args) => args.run(ui),
            RolloutCliCommand::Start(args) => args.run(ui),
            RolloutCliCommand::Status(args) => args.run(ui),
            RolloutCliCommand::List(args) => args.run(ui),
            RolloutCliCommand::Watch(args) => args.run(ui),
            RolloutCliCommand::Pause(args) => args.run(change::RolloutAction::Pause, ui),
            RolloutCliCommand::Resume(args) => args.run(change::RolloutAction::Resume, ui),
            RolloutCliCommand::Abort(args) => args.run(change::RolloutAction::Abort, ui),
            RolloutCliCommand::Drive(args) => args.run(ui),
            RolloutCliCommand::Step(args) => args.run(ui),
        }
    }
}

/// One rollout by its name.
fn load_record(records: &mut dyn Records, id: &RolloutId) -> Result<VersionedValue<RolloutRecord>, CliError> {
    if let Some(held) = records.get(id).map_err(to_cli_error)? {
        return Ok(held);
    }
    let all = records.list().map_err(to_cli_error)?;
    let near = nearest(id.as_str(), all.iter().map(|held| held.value.id.as_str()));
    let hint = match near {
        Some(near) => format!("did you mean `{near}`? `zagent rollout list --all` prints them"),
        None => "`zagent rollout list --all` prints them".into(),
    };
    Err(CliError::usage_hint(format!("there is no rollout `{id}`"), hint))
}

/// One rollout by its name; without one, the one under way, else the newest.
fn pick_record(
    records: &mut dyn Records,
    id: Option<&RolloutId>,
) -> Result<VersionedValue<RolloutRecord>, CliError> {
    if let Some(id) = id {
        return load_record(records, id);
    }
    let mut all = records.list().map_err(to_cli_error)?;
    all.sort_by_key(|held| held.value.created);
    let now = Timestamp::now();
    let active: Vec<String> =
        all.iter().filter(|h| is_active(&h.value, now)).map(|h| h.value.id.to_string()).collect();
    if active.len() > 1 {
        let hint = "name one of them";
        return Err(CliError::usage_hint(format!("several are under way: {}", active.join(", ")), hint));
    }
    let one = all.iter().position(|held| is_active(&held.value, now)).or(all.len().checked_sub(1));
    match one {
        Some(index) => Ok(all.swap_remove(index)),
        None => Err(CliError::usage_hint(
            "there is no rollout yet",
            "`zagent rollout plan` shows what one would do",
        )),
    }
}

/// True while there is something to do about a rollout.
fn is_active(record: &RolloutRecord, now: Timestamp) -> bool {
    !record.state.is_final() && !record.dry_run && !is_clock_done(record, now)
}

/// True when everybody had a turn in a rollout by the clock: such a one is never said to be over.
fn is_clock_done(record: &RolloutRecord, now: Timestamp) -> bool {
    let goes = record.mode == RolloutMode::Clock && record.state == RolloutStatus::Rolling;
    goes && clock_end(record).is_some_and(|end| end <= now)
}

/// When the last node of a rollout by the clock has begun and proved itself.
fn clock_end(record: &RolloutRecord) -> Option<Timestamp> {
    let begin = record.started?;
    let length = waves::total_spread(record).saturating_add(record.soak_time.0);
    begin.saturating_add(SignedDuration::try_from(length).ok()?).ok()
}

#[cfg(test)]
mod tests;
