//! The undo journal of a run: what every change replaced, durable before the change is made; and the way back.
//!
//! Law: a journal is only ever added to. Each run has a directory of its own; a revert is a run too, with a journal of its
//! own, so that it can be reverted as well.

pub(crate) mod capture;
mod frame;
mod journal;
mod journal_reader;
mod path_history;
mod position;
#[cfg(test)]
mod proptests;
mod raw_serde;
mod record;
mod recover;
mod restore;
mod revert;
#[cfg(test)]
mod tests;

pub(crate) use journal::ChangeDraft;
pub use journal::{JournalOffset, UndoJournal};
pub use journal_reader::{JournalReader, UndoableRun, list_runs, prune_runs};
pub use record::{
    BodyRange, ChangeNote, ExpectedEntry, FileChange, FileTimes, JournalRecord, OwnerMode, SavedContent,
    SavedEntry, TempName,
};
pub use recover::recover;
pub use revert::{RevertOptions, RevertStep, RevertedState, UndoOutcome, revert, revert_with};
