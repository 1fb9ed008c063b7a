//! `zagent rollout`: plan, start, look at, steer and drive rollouts, one file a verb.
//!
//! Law: a record is changed only by compare-and-swap on what was read; whoever loses looks again.

mod change;
mod draft;
mod drive;
mod live;
mod look;
mod news;
mod page;
mod place;
mod resolve;
mod sheet;
mod start;
mod watch;
mod words;

use clap::Subcommand;
use jiff::{SignedDuration, Timestamp};
use zagent_config::ids::RolloutId;
use zagent_config::suggest::nearest;
use zagent_rollout::record::{Mode, Record, State};
use zagent_rollout::records::{Held, Records};
use zagent_rollout::waves;

pub(super) use self::page::{doing, says};
pub(super) use self::place::{Place, board_of, reports, trouble};
pub(super) use self::words::version;
use crate::output::{Format, Ui};
use crate::report::{Exit, Trouble};

/// Roll out a version of the agent or a commit of the states, batch by batch
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show who would come when, and what stands in the way; writes nothing
    Plan(start::PlanArgs),
    /// Begin a rollout, and drive it unless told otherwise
    Start(Box<start::Args>),
    /// Tell how a rollout stands and what to do about it
    Status(look::StatusArgs),
    /// Print the rollouts under way
    List(look::ListArgs),
    /// Follow a rollout until it is over
    Watch(watch::Args),
    /// Finish what is applied and start nothing new
    Pause(change::Args),
    /// Go on after a pause
    Resume(change::Args),
    /// End a rollout: what is not confirmed goes back
    Abort(change::Args),
    /// Drive a rollout until it is over, or those that nobody drives
    Drive(drive::Args),
    /// Take one step of a rollout, for jobs that come back: exits with 75 while there is more to do
    Step(drive::StepArgs),
}

impl Args {
    pub(super) const fn format(&self) -> Format {
        match &self.verb {
            Verb::Plan(args) => args.format(),
            Verb::Start(args) => args.format(),
            Verb::Status(args) => args.format(),
            Verb::List(args) => args.format(),
            Verb::Watch(args) => args.format(),
            Verb::Pause(args) | Verb::Resume(args) | Verb::Abort(args) => args.format(),
            Verb::Drive(args) => args.format(),
            Verb::Step(args) => args.format(),
        }
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<Exit, Trouble> {
        match &self.verb {
            Verb::Plan(args) => args.run(ui),
            Verb::Start(args) => args.run(ui),
            Verb::Status(args) => args.run(ui),
            Verb::List(args) => args.run(ui),
            Verb::Watch(args) => args.run(ui),
            Verb::Pause(args) => args.run(change::Word::Pause, ui),
            Verb::Resume(args) => args.run(change::Word::Resume, ui),
            Verb::Abort(args) => args.run(change::Word::Abort, ui),
            Verb::Drive(args) => args.run(ui),
            Verb::Step(args) => args.run(ui),
        }
    }
}

/// One rollout by its name.
fn held(records: &mut dyn Records, id: &RolloutId) -> Result<Held<Record>, Trouble> {
    if let Some(held) = records.get(id).map_err(trouble)? {
        return Ok(held);
    }
    let all = records.list().map_err(trouble)?;
    let near = nearest(id.as_str(), all.iter().map(|held| held.value.id.as_str()));
    let hint = match near {
        Some(near) => format!("did you mean `{near}`? `zagent rollout list --all` prints them"),
        None => "`zagent rollout list --all` prints them".into(),
    };
    Err(Trouble::usage_hint(format!("there is no rollout `{id}`"), hint))
}

/// One rollout by its name; without one, the one under way, else the newest.
fn picked(records: &mut dyn Records, id: Option<&RolloutId>) -> Result<Held<Record>, Trouble> {
    if let Some(id) = id {
        return held(records, id);
    }
    let mut all = records.list().map_err(trouble)?;
    all.sort_by_key(|held| held.value.created);
    let now = Timestamp::now();
    let active: Vec<String> =
        all.iter().filter(|h| is_active(&h.value, now)).map(|h| h.value.id.to_string()).collect();
    if active.len() > 1 {
        let hint = "name one of them";
        return Err(Trouble::usage_hint(format!("several are under way: {}", active.join(", ")), hint));
    }
    let one = all.iter().position(|held| is_active(&held.value, now)).or(all.len().checked_sub(1));
    match one {
        Some(index) => Ok(all.swap_remove(index)),
        None => Err(Trouble::usage_hint(
            "there is no rollout yet",
            "`zagent rollout plan` shows what one would do",
        )),
    }
}

/// True while there is something to do about a rollout.
fn is_active(record: &Record, now: Timestamp) -> bool {
    !record.state.is_final() && !record.dry_run && !is_spent(record, now)
}

/// True when everybody had a turn in a rollout by the clock: such a one is never said to be over.
fn is_spent(record: &Record, now: Timestamp) -> bool {
    let goes = record.mode == Mode::Clock && record.state == State::Rolling;
    goes && ends(record).is_some_and(|end| end <= now)
}

/// When the last node of a rollout by the clock has begun and proved itself.
fn ends(record: &Record) -> Option<Timestamp> {
    let begin = record.started?;
    let length = waves::spread(record).saturating_add(record.soak_time.0);
    begin.saturating_add(SignedDuration::try_from(length).ok()?).ok()
}

#[cfg(test)]
mod tests;
