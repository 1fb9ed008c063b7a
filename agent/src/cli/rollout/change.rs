//! `zagent rollout pause|resume|abort`: changes a rollout, independent of its driver.
//!
//! Law: a change is a compare-and-swap on the current record, retried when another writer wins; it is safe to
//! repeat (held by `a_change_is_retried_until_it_is_written`,
//! `a_failed_node_aborts_the_rollout_and_abort_is_safe_to_repeat`).

use jiff::Timestamp;
use zagent_config::ids::RolloutId;
use zagent_rollout::board::BoardError;
use zagent_rollout::driver_logic;
use zagent_rollout::record::{RolloutRecord, RolloutStatus};
use zagent_rollout::records::Records;

use super::board_args::{self, BoardArgs};
use crate::cli::pause::clean_reason;
use crate::output::{OutputFormat, Ui, one_line};
use zagent_daemon::error::{AgentError, ExitStatus};
use zagent_daemon::operator::current_user;

/// Maximum attempts when others write at the same time.
pub(super) const MAX_ATTEMPTS: usize = 20;

/// Change to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RolloutAction {
    /// Finish nodes in progress, start no new ones.
    Pause,
    /// Continue.
    Resume,
    /// Abort the rollout.
    Abort,
}

/// Arguments of the three commands.
#[derive(Debug, clap::Args)]
pub(super) struct RolloutChangeArgs {
    /// Rollout ID
    #[arg(value_name = "ID")]
    id: RolloutId,

    /// Reason, shown in `zagent rollout status`
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    place: BoardArgs,
}

impl RolloutChangeArgs {
    pub(super) const fn format(&self) -> OutputFormat {
        self.place.format()
    }

    pub(super) fn run(&self, word: RolloutAction, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let settings = self.place.settings()?;
        let mut records = board_args::open_records_for_review(&settings)?;
        let why = match clean_reason(self.reason.as_deref()) {
            Some(reason) => format!("by {}: {reason}", current_user()),
            None => format!("by {}", current_user()),
        };
        let record = apply_action(records.as_mut(), &self.id, word, &why)?;
        self.place.print(&format!("{}\n", one_line(&action_text(&record, word))), &record, ui);
        Ok(ExitStatus::Success)
    }
}

/// Applies the change, retrying while others write.
pub(super) fn apply_action(
    records: &mut dyn Records,
    id: &RolloutId,
    word: RolloutAction,
    why: &str,
) -> Result<RolloutRecord, AgentError> {
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
            // The next read shows whether it was written.
            Err(BoardError::Conflict { .. } | BoardError::Unknown { .. }) => {}
            Err(error) => return Err(board_args::to_agent_error(error)),
        }
    }
    let message = format!("others keep writing `{id}`: it was not changed");
    Err(AgentError::locked(message, "try again"))
}

fn refused_error(id: &RolloutId, refused: &driver_logic::ControlRefused) -> AgentError {
    let hint = Some(format!("`zagent rollout status {id}` shows it"));
    AgentError::Refusal { exit: ExitStatus::Failed, message: zagent_config::error_chain(refused), hint }
}

fn action_text(record: &RolloutRecord, word: RolloutAction) -> String {
    let id = &record.id;
    let reason = record.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    match (word, record.state) {
        (RolloutAction::Abort, RolloutStatus::Aborted) => format!("{id} is aborted{reason}"),
        (RolloutAction::Abort, RolloutStatus::Completed) => {
            format!("{id} is already completed: nothing to abort")
        }
        (RolloutAction::Abort, _) => {
            format!(
                "the driver of {id} is aborting it{reason}; if the driver is gone for a minute, run abort \
                 again"
            )
        }
        (RolloutAction::Pause, _) => {
            format!("{id} is paused{reason}: nodes in progress finish, no new ones start")
        }
        (RolloutAction::Resume, _) => format!("{id} is resumed"),
    }
}
