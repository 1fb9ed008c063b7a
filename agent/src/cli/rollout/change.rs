//! `zagent rollout pause|resume|abort`: one word to a rollout, whoever drives it.
//!
//! Law: said against the record as it is, and said again when somebody else wrote meanwhile; saying it twice is as good as
//! once.

use jiff::Timestamp;
use zagent_config::ids::RolloutId;
use zagent_rollout::board::BoardError;
use zagent_rollout::drive;
use zagent_rollout::record::{Record, State};
use zagent_rollout::records::Records;

use super::place::{self, Place};
use crate::cli::pause::reason;
use crate::operate::who;
use crate::output::{Format, Ui, one_line};
use crate::report::{Exit, Trouble};

/// How often a change is tried again when others write at the same time.
const TRIES: usize = 20;

/// What is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// Finish what is applied, start nothing new.
    Pause,
    /// Go on.
    Resume,
    /// End it.
    Abort,
}

/// What the three take.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The rollout
    #[arg(value_name = "ID")]
    id: RolloutId,

    /// Why, for whoever wonders
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    #[command(flatten)]
    place: Place,
}

impl Args {
    pub(super) const fn format(&self) -> Format {
        self.place.format()
    }

    pub(super) fn run(&self, word: Word, ui: &mut Ui<'_>) -> Result<Exit, Trouble> {
        let settings = self.place.settings()?;
        let mut records = place::records(&settings)?;
        let why = match reason(self.reason.as_deref()) {
            Some(reason) => format!("by {}: {reason}", who()),
            None => format!("by {}", who()),
        };
        let record = say(records.as_mut(), &self.id, word, &why)?;
        self.place.print(&format!("{}\n", one_line(&words(&record, word))), &record, ui);
        Ok(Exit::Fine)
    }
}

/// Says it, again and again while others write.
pub(super) fn say(
    records: &mut dyn Records,
    id: &RolloutId,
    word: Word,
    why: &str,
) -> Result<Record, Trouble> {
    for _ in 0..TRIES {
        let held = super::held(records, id)?;
        let now = Timestamp::now();
        let next = match word {
            Word::Abort => drive::abort(&held.value, why, now),
            Word::Pause => drive::pause(&held.value, why, now).map_err(|refused| refusal(id, &refused))?,
            Word::Resume => drive::resume(&held.value, now).map_err(|refused| refusal(id, &refused))?,
        };
        if next == held.value {
            return Ok(next);
        }
        let note = format!("{} {why}", next.state.word());
        match records.put(&next, Some(&held.token), &note, true) {
            Ok(_) => return Ok(next),
            // Whether it was written shows when it is read again.
            Err(BoardError::Conflict { .. } | BoardError::Unknown { .. }) => {}
            Err(error) => return Err(place::trouble(error)),
        }
    }
    let message = format!("`{id}` is written by others all the time: nothing was said to it");
    Err(Trouble::locked(message, "try again"))
}

fn refusal(id: &RolloutId, refused: &drive::Refused) -> Trouble {
    let hint = Some(format!("`zagent rollout status {id}` shows it"));
    Trouble::Refusal { exit: Exit::Failed, message: crate::report::chain(refused), hint }
}

fn words(record: &Record, word: Word) -> String {
    let id = &record.id;
    let reason = record.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    match (word, record.state) {
        (Word::Abort, State::Aborted) => format!("{id} is aborted{reason}"),
        (Word::Abort, State::Completed) => format!("{id} was completed before: there is nothing to abort"),
        (Word::Abort, _) => {
            format!(
                "{id} is being aborted{reason} by its driver; if that is gone for a minute, abort it again"
            )
        }
        (Word::Pause, _) => {
            format!("{id} is paused{reason}: what is applied is finished, nothing new is begun")
        }
        (Word::Resume, _) => format!("{id} goes on"),
    }
}
