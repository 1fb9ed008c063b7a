//! The undo journal of a run: what every change replaced, durable before the change is made; and the way back.
//!
//! Law: a journal is only ever added to. Each run has a directory of its own; a revert is a run too, with a journal of its
//! own, so that it can be reverted as well.

pub mod capture;
pub mod frame;
pub mod journal;
pub mod journal_reader;
pub mod path_history;
pub mod position;
#[cfg(test)]
pub mod proptests;
pub mod raw_serde;
pub mod record;
pub mod recover;
pub mod restore;
pub mod revert;
#[cfg(test)]
pub mod tests;

pub use journal::ChangeDraft;
pub use journal::{JournalOffset, UndoJournal};
pub use journal_reader::{JournalReader, UndoableRun, list_runs, prune_runs};
pub use record::{
    BodyRange, ChangeNote, ExpectedEntry, FileChange, FileTimes, JournalRecord, OwnerMode, SavedContent,
    SavedEntry, TempName,
};
pub use recover::recover;
pub use revert::{RevertOptions, RevertStep, RevertedState, UndoOutcome, revert, revert_with};
