//! The undo journal of a run: what every change replaced, durable before the change is made; and the way back.
//!
//! Law: a journal is only ever added to. Each run has a directory of its own; a revert is a run too, with a journal
//! of its own, so that it can be reverted as well (held by
//! `a_revert_restores_everything_and_a_revert_of_it_does_it_again`, `whatever_a_run_did_is_undone`).

pub mod capture;
pub(crate) mod created;
pub mod frame;
pub mod journal;
pub(crate) mod journal_reader;
pub(crate) mod path_history;
pub mod position;
pub(crate) mod raw_serde;
pub mod record;
pub mod recover;
pub mod restore;
pub mod revert;
#[cfg(test)]
pub mod tests;

pub use created::{CreatedEntry, created_entries};
pub(crate) use journal::ChangeDraft;
pub(crate) use journal::JournalOffset;
pub use journal::UndoJournal;
pub use journal_reader::{JournalReader, UndoableRun, list_runs, prune_runs};
pub(crate) use record::{ExpectedEntry, FileChange, OwnerMode, TempName};
pub use record::{FileTimes, JournalRecord};
pub use recover::recover;
pub use revert::{RevertOptions, RevertedState, TryAgain, UndoOutcome, revert, revert_with};
