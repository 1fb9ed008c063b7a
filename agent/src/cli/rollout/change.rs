//! `zagent rollout pause|resume|abort`: one word to a rollout, whoever drives it.
//!
//! Law: said against the record as it is, and said again when somebody else wrote meanwhile; saying it twice is as good as
//! once.

use jiff::Timestamp;
use zagent_config::ids::RolloutId;
use zagent_rollout::board::BoardError;
use zagent_rollout::driver_logic;
use zagent_rollout::record::{RolloutRecord, RolloutStatus};
use zagent_rollout::records::Records;

use super::board_args::{self, BoardArgs};
use crate::cli::pause::clean_reason;
use crate::output::{OutputFormat, Ui, one_line};
use zagent_daemon::error::{CliError, ExitStatus};
use zagent_daemon::operator::current_user;

/// How often a change is tried again when others write at the same time.
const MAX_ATTEMPTS: usize = 20;

/// What is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RolloutAction {
    /// Finish what is applied, start nothing new.
    Pause,
    /// Go on.
    Resume,
    /// End it.
    Abort,
}

/// What the three take.
#[derive(Debug, clap::Args)]
pub(super) struct RolloutChangeArgs {
    /// The rollout
    #[arg(value_name = "ID")]
    id: RolloutId,

    /// Why, for whoever wonders
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    place: BoardArgs,
}

impl RolloutChangeArgs {
    pub(super) const fn format(&self) -> OutputFormat {
        self.place.format()
    }

    pub(super) fn run(&self, word: RolloutAction, ui: &mut Ui<'_>) -> Result<ExitStatus, CliError> {
        let settings = self.place.settings()?;
        let mut records = board_args::open_records(&settings)?;
        let why = match clean_reason(self.reason.as_deref()) {
            Some(reason) => format!("by {}: {reason}", current_user()),
            None => format!("by {}", current_user()),
        };
        let record = apply_action(records.as_mut(), &self.id, word, &why)?;
        self.place.print(&format!("{}\n", one_line(&action_text(&record, word))), &record, ui);
        Ok(ExitStatus::Success)
    }
}

/// Says it, again and again while others write.
pub(super) fn apply_action(
    records: &mut dyn Records,
    id: &RolloutId,
    word: RolloutAction,
    why: &str,
) -> Result<RolloutRecord, CliError> {
    for _ in 0..MAX_ATTEMPTS {
        let held = super::load_record(records, id)?;
        let now = Timestamp::now();
        let next = match word {
            RolloutAction::Abort => driver_logic::abort(&held.value, why, now),
            RolloutAction::Pause => {
                driver_logic::pause(&held.value, why, now).map_err(|refused| refused_error(id, &refused))?
            }
            RolloutAction::Resume => {
                driver_logic::resume(&held.value, now).map_err(|refused| refused_error(id, &refused))?
            }
        };
        if next == held.value {
            return Ok(next);
        }
        let note = format!("{} {why}", next.state.name());
        match records.put(&next, Some(&held.token), &note, true) {
            Ok(_) => return Ok(next),
            // Whether it was written shows when it is read again.
            Err(BoardError::Conflict { .. } | BoardError::Unknown { .. }) => {}
            Err(error) => return Err(board_args::to_cli_error(error)),
        }
    }
    let message = format!("`{id}` is written by others all the time: nothing was said to it");
    Err(CliError::locked(message, "try again"))
}

fn refused_error(id: &RolloutId, refused: &driver_logic::ControlRefused) -> CliError {
    let hint = Some(format!("`zagent rollout status {id}` shows it"));
    CliError::Refusal { exit: ExitStatus::Failed, message: zagent_config::error_chain(refused), hint }
}

fn action_text(record: &RolloutRecord, word: RolloutAction) -> String {
    let id = &record.id;
    let reason = record.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    match (word, record.state) {
        (RolloutAction::Abort, RolloutStatus::Aborted) => format!("{id} is aborted{reason}"),
        (RolloutAction::Abort, RolloutStatus::Completed) => {
            format!("{id} was completed before: there is nothing to abort")
        }
        (RolloutAction::Abort, _) => {
            format!(
                "{id} is being aborted{reason} by its driver; if that is gone for a minute, abort it again"
            )
        }
        (RolloutAction::Pause, _) => {
            format!("{id} is paused{reason}: what is applied is finished, nothing new is begun")
        }
        (RolloutAction::Resume, _) => format!("{id} goes on"),
    }
}
