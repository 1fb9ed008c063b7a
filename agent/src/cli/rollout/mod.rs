//! `zagent rollout`: plan, start, show, control and drive rollouts, one file per command.
//!
//! Law: a record is changed only by compare-and-swap on what was read; a writer that loses reads again (held by
//! `a_change_is_retried_until_it_is_written`).

mod board_args;
mod change;
mod draft;
mod drive;
mod events;
mod plan_view;
mod progress;
pub(super) mod record_text;
mod resolve;
mod rollout_view;
mod sign;
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

pub(super) use self::board_args::{
    BoardArgs, open_board_reports, open_records_for_review, open_reports, to_agent_error,
};
pub(super) use self::record_text::short_version;
pub(super) use self::rollout_view::{node_state_text, node_state_word};
use crate::output::{OutputFormat, Ui};
use zagent_daemon::error::{AgentError, ExitStatus};

/// Roll out an agent version or a states commit, batch by batch
#[derive(Debug, clap::Args)]
pub(super) struct RolloutArgs {
    #[command(subcommand)]
    verb: RolloutCliCommand,
}

#[derive(Debug, Subcommand)]
enum RolloutCliCommand {
    /// Show the batches and any problems; writes nothing
    Plan(Box<start::RolloutPlanArgs>),
    /// Start a rollout and drive it, unless `--detach` is given
    Start(Box<start::RolloutStartArgs>),
    /// Show the state of a rollout and what to do next
    Status(status::RolloutStatusArgs),
    /// List active rollouts
    List(status::RolloutListArgs),
    /// Follow a rollout until it is over
    Watch(watch::RolloutWatchArgs),
    /// Add a signature to the order of a rollout, for fleets with `trust.threshold`
    Sign(sign::RolloutSignArgs),
    /// Finish nodes in progress, start no new ones
    Pause(change::RolloutChangeArgs),
    /// Resume a paused rollout
    Resume(change::RolloutChangeArgs),
    /// Abort a rollout: nodes that are not confirmed roll back
    Abort(change::RolloutChangeArgs),
    /// Drive a rollout until it is over, or all rollouts without a driver
    Drive(drive::RolloutDriveArgs),
    /// Take one step of a rollout, for repeated jobs: exits with 75 while more steps remain
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
            RolloutCliCommand::Sign(args) => args.format(),
            RolloutCliCommand::Pause(args)
            | RolloutCliCommand::Resume(args)
            | RolloutCliCommand::Abort(args) => args.format(),
            RolloutCliCommand::Drive(args) => args.format(),
            RolloutCliCommand::Step(args) => args.format(),
        }
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        match &self.verb {
            RolloutCliCommand::Plan(args) => args.run(ui),
            RolloutCliCommand::Start(args) => args.run(ui),
            RolloutCliCommand::Status(args) => args.run(ui),
            RolloutCliCommand::List(args) => args.run(ui),
            RolloutCliCommand::Watch(args) => args.run(ui),
            RolloutCliCommand::Sign(args) => args.run(ui),
            RolloutCliCommand::Pause(args) => args.run(change::RolloutAction::Pause, ui),
            RolloutCliCommand::Resume(args) => args.run(change::RolloutAction::Resume, ui),
            RolloutCliCommand::Abort(args) => args.run(change::RolloutAction::Abort, ui),
            RolloutCliCommand::Drive(args) => args.run(ui),
            RolloutCliCommand::Step(args) => args.run(ui),
        }
    }
}

/// Loads one rollout by ID.
fn load_record(
    records: &mut dyn Records,
    id: &RolloutId,
) -> Result<VersionedValue<RolloutRecord>, AgentError> {
    if let Some(held) = records.get(id).map_err(to_agent_error)? {
        return Ok(held);
    }
    let all = records.list().map_err(to_agent_error)?;
    let near = nearest(id.as_str(), all.iter().map(|held| held.value.id.as_str()));
    let hint = match near {
        Some(near) => format!("did you mean `{near}`? list the rollouts with `zagent rollout list --all`"),
        None => "list the rollouts with `zagent rollout list --all`".into(),
    };
    Err(AgentError::usage_hint(format!("no rollout `{id}`"), hint))
}

/// Loads one rollout by ID; without an ID, the active one, otherwise the newest.
fn pick_record(
    records: &mut dyn Records,
    id: Option<&RolloutId>,
) -> Result<VersionedValue<RolloutRecord>, AgentError> {
    if let Some(id) = id {
        return load_record(records, id);
    }
    let mut all = records.list().map_err(to_agent_error)?;
    zagent_config::sorted::sort_by_key(&mut all, |held| held.value.created);
    let now = Timestamp::now();
    let active: Vec<String> =
        all.iter().filter(|h| is_active(&h.value, now)).map(|h| h.value.id.to_string()).collect();
    if active.len() > 1 {
        let hint = "give the ID of one of them";
        return Err(AgentError::usage_hint(
            format!("more than one active rollout: {}", active.join(", ")),
            hint,
        ));
    }
    let one = all.iter().position(|held| is_active(&held.value, now)).or(all.len().checked_sub(1));
    match one {
        Some(index) => Ok(all.swap_remove(index)),
        None => Err(AgentError::usage_hint("no rollout yet", "preview one with `zagent rollout plan`")),
    }
}

/// True while a rollout needs work.
fn is_active(record: &RolloutRecord, now: Timestamp) -> bool {
    !record.state.is_final() && !record.dry_run && !is_clock_done(record, now)
}

/// True when every node had its turn in a clock rollout, which is never marked as completed.
fn is_clock_done(record: &RolloutRecord, now: Timestamp) -> bool {
    let goes = record.mode == RolloutMode::Clock && record.state == RolloutStatus::Rolling;
    goes && clock_end(record).is_some_and(|end| end <= now)
}

/// When the last node of a clock rollout has started and finished its soak.
fn clock_end(record: &RolloutRecord) -> Option<Timestamp> {
    let begin = record.started?;
    let length = waves::total_spread(record).saturating_add(record.soak_time.0);
    begin.saturating_add(SignedDuration::try_from(length).ok()?).ok()
}

#[cfg(test)]
mod tests;
