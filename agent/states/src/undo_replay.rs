//! Notes about things of the host in, the things as they were before the run out.
//!
//! Law: a revert puts a thing back only when it still is as it was left, unless that is forced; what holds data
//! that came since is never taken away. It notes in its turn what it does (held by
//! `a_thing_is_put_back_unless_somebody_else_changed_it`, `what_holds_something_is_kept_even_when_forced`).

use std::collections::HashMap;

use zagent_config::{Map, Value};

use crate::registry::undoables;
use crate::undoable::{UndoNote, UndoSnapshot, Undoable};
use crate::{ApplyResult, StateCtx, StateError};

/// What became of a thing that was to be put back.
#[derive(Debug)]
pub enum RestoreOutcome {
    /// It is as it was.
    Restored(ApplyResult),
    /// It was so already.
    AlreadyRestored,
    /// It stays: somebody else changed it since, or it holds what cannot come back.
    Skipped(String),
}

/// Things on their way back, the last change first.
#[derive(Debug, Default)]
pub struct UndoReplay {
    /// How each was left by the change that is undone next.
    left_as: HashMap<(String, String), Value>,
    /// What a dry run has put back.
    simulated: HashMap<(String, String), Value>,
}

impl UndoReplay {
    /// Takes the next note; nothing when it was only about how a thing was left.
    ///
    /// # Errors
    /// Fails when the thing cannot be put back, or nobody knows its kind.
    pub fn replay_note(
        &mut self,
        note: &UndoNote,
        is_forced: bool,
        test: bool,
        ctx: &StateCtx<'_>,
    ) -> Result<Option<RestoreOutcome>, StateError> {
        let mut all = undoables();
        let thing = all.find(|thing| thing.kind() == note.thing && thing.handles(&note.key));
        let thing = thing
            .ok_or_else(|| StateError::new(format!("nobody knows how to put {} back", note.describe())))?;
        self.restore_note(thing, note, RestoreOptions { is_forced, test }, ctx)
    }

    fn restore_note(
        &mut self,
        thing: &dyn Undoable,
        note: &UndoNote,
        options: RestoreOptions,
        ctx: &StateCtx<'_>,
    ) -> Result<Option<RestoreOutcome>, StateError> {
        let key = (note.thing.clone(), zagent_compiler::name_text(&note.key));
        let before = match &note.snapshot {
            UndoSnapshot::After(after) => {
                self.left_as.insert(key, after.clone());
                return Ok(None);
            }
            UndoSnapshot::Before(before) => before,
        };
        // In a dry run what was put back before is only imagined.
        let imagined = self.simulated.get(&key).cloned();
        let now = imagined.map_or_else(|| thing.capture(&note.key, ctx), Ok)?;
        let left = self.left_as.remove(&key);
        if thing.is_same(&now, before) {
            return Ok(Some(RestoreOutcome::AlreadyRestored));
        }
        if left.is_some_and(|left| !thing.is_same(&now, &left)) && !options.is_forced {
            return Ok(Some(RestoreOutcome::Skipped(format!("{} was changed since", note.describe()))));
        }
        // Even who forces a revert does not mean data.
        if before.is_null()
            && let Some(why) = thing.removal_blocker(&note.key, ctx)?
        {
            return Ok(Some(RestoreOutcome::Skipped(format!("{} is kept: {why}", note.describe()))));
        }
        let change = Map::from_iter([("old", thing.redacted(&now)), ("new", thing.redacted(before))]);
        let changes = Map::from_iter([(note.describe().as_str(), Value::from(change))]);
        let stays = if before.is_null() { thing.leftovers(&note.key, ctx)? } else { None };
        let stays = stays.map_or_else(String::new, |what| format!("; {what}"));
        let word = if options.test {
            thing.simulate_restore(&note.key, before, ctx)?;
            self.simulated.insert(key, before.clone());
            "would be put back"
        } else {
            ctx.with_undo(thing, note.key.clone(), || thing.restore(&note.key, before, ctx))?;
            "put back"
        };
        Ok(Some(RestoreOutcome::Restored(ApplyResult::new(
            format!("{} {word}{stays}", note.describe()),
            changes,
        ))))
    }
}

/// How things are put back.
#[derive(Clone, Copy, Debug)]
struct RestoreOptions {
    /// Also what somebody else changed since.
    is_forced: bool,
    /// Only as it would be.
    test: bool,
}

#[cfg(test)]
mod tests;
