//! The undo journal of a run: what every change replaced, durable before the change is made; and the way back.
//!
//! Law: a journal is only ever added to. Each run has a directory of its own; a revert is a run too, with a journal of its
//! own, so that it can be reverted as well.

pub(crate) mod capture;
mod course;
mod frame;
mod journal;
mod notes;
mod position;
#[cfg(test)]
mod random;
mod raw;
mod record;
mod recover;
mod restore;
mod revert;
#[cfg(test)]
mod tests;

pub(crate) use journal::Draft;
pub use journal::{Journal, Mark};
pub use notes::{Notes, Past, list, prune};
pub use record::{Body, Change, Content, Dress, Entry, Note, Record, Temp, Times, Trace};
pub use recover::recover;
pub use revert::{Choice, Reverted, Step, Verdict, revert, revert_with};
