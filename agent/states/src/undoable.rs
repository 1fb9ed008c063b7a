//! Something of the host that is no file, such as a user or a service: how it is in, the same put back later out.
//!
//! Law: how a thing was is in the journal before it changes, and how it was left is noted after (held by
//! `what_failed_half_way_is_noted_all_the_same`).

use serde::{Deserialize, Serialize};
use zagent_config::Value;

use crate::{StateCtx, StateError};

/// A kind of things that can be looked at and put back. What a look gives is JSON-like and says all that `put` needs;
/// null stands for a thing that is not there.
pub(crate) trait Undoable: Sync {
    /// The name of the kind in the journal, such as `service`; never changes once it was written.
    fn kind(&self) -> &'static str;

    /// False for a key that another one of the same kind looks after.
    fn handles(&self, key: &Value) -> bool {
        let _ = key;
        true
    }

    /// How it is now.
    ///
    /// # Errors
    /// Fails when it cannot be looked at.
    fn capture(&self, key: &Value, ctx: &StateCtx<'_>) -> Result<Value, StateError>;

    /// Makes it so again, from whatever it is now.
    ///
    /// # Errors
    /// Fails when it cannot be made so.
    fn restore(&self, key: &Value, to: &Value, ctx: &StateCtx<'_>) -> Result<(), StateError>;

    /// Why it is not taken away again although it was new: it holds what came since and could not come back. By default
    /// nothing is lost.
    ///
    /// # Errors
    /// Fails when it cannot be looked at.
    fn removal_blocker(&self, key: &Value, ctx: &StateCtx<'_>) -> Result<Option<String>, StateError> {
        let _ = (key, ctx);
        Ok(None)
    }

    /// Does to imagined files what `put` would do to real ones, so that a dry run of a revert goes on as the revert would.
    /// By default no files go with it.
    ///
    /// # Errors
    /// Fails when it cannot be imagined.
    fn simulate_restore(&self, key: &Value, to: &Value, ctx: &StateCtx<'_>) -> Result<(), StateError> {
        let _ = (key, to, ctx);
        Ok(())
    }

    /// What stays behind when it is taken away, in words; asked before. By default nothing.
    ///
    /// # Errors
    /// Fails when it cannot be looked at.
    fn leftovers(&self, key: &Value, ctx: &StateCtx<'_>) -> Result<Option<String>, StateError> {
        let _ = (key, ctx);
        Ok(None)
    }

    /// True when a thing that is `now` so counts as being `then` so. By default what is equal.
    fn is_same(&self, now: &Value, then: &Value) -> bool {
        now == then
    }

    /// What people see of how it is: a secret is not shown. By default all of it.
    fn redacted(&self, how: &Value) -> Value {
        how.clone()
    }
}

/// The key of what is looked after by another than the host's own provider: `ssh (sysv)`. Without one it is the name alone.
pub(crate) fn key_with_provider(name: &str, provider: Option<&str>) -> String {
    provider.map_or_else(|| name.to_owned(), |by| format!("{name} ({by})"))
}

/// The name and the provider of a key; neither names of packages nor of services have brackets.
pub(crate) fn split_key(key: &Value) -> (&str, Option<&str>) {
    let text = key.as_str().unwrap_or_default();
    let parts = text.strip_suffix(')').and_then(|t| t.rsplit_once(" ("));
    parts.map_or((text, None), |(name, by)| (name, Some(by)))
}

/// How many names of a long key are shown.
const NAMES_SHOWN: usize = 5;

/// What the journal holds of a thing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UndoNote {
    pub(crate) thing: String,
    pub(crate) key: Value,
    #[serde(flatten)]
    pub(crate) snapshot: UndoSnapshot,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum UndoSnapshot {
    /// It was so, and was about to change.
    Before(Value),
    /// It was left so.
    After(Value),
}

impl UndoNote {
    /// The note of a journal; none when it is of somebody else.
    #[must_use]
    pub fn read(data: &serde_json::Value) -> Option<Self> {
        serde_json::from_value(data.clone()).ok()
    }

    /// For a note from before a change of this thing: true when it was not there.
    #[must_use]
    pub fn was_absent(&self, kind: &str, name: &str) -> Option<bool> {
        let UndoSnapshot::Before(how) = &self.snapshot else { return None };
        (self.thing == kind && self.key.as_str() == Some(name)).then_some(*how == Value::Null)
    }

    /// What it is about, such as `service ssh`.
    #[must_use]
    pub fn describe(&self) -> String {
        let key = zagent_compiler::name_text(&self.key);
        let names: Vec<&str> = key.split(' ').collect();
        // A transaction of packages is known by its first few.
        match names.get(..NAMES_SHOWN).filter(|_| names.len() > NAMES_SHOWN + 1) {
            Some(first) => {
                format!("{} {} and {} more", self.thing, first.join(" "), names.len() - NAMES_SHOWN)
            }
            None => format!("{} {key}", self.thing),
        }
    }
}

impl StateCtx<'_> {
    /// Changes a thing: notes how it is, lets `act` change it, notes how it was left. What was done before `act` failed is
    /// noted too.
    ///
    /// # Errors
    /// Fails when the thing cannot be looked at or noted, and as `act` does.
    pub(crate) fn with_undo<T>(
        &self,
        thing: &dyn Undoable,
        key: impl Into<Value>,
        act: impl FnOnce() -> Result<T, StateError>,
    ) -> Result<T, StateError> {
        let key = key.into();
        let Some(journal) = self.journal else { return act() };
        let note = |how: UndoSnapshot| -> Result<(), StateError> {
            let note = UndoNote { thing: thing.kind().to_owned(), key: key.clone(), snapshot: how };
            let data = serde_json::to_value(&note)
                .map_err(|e| StateError::new(format!("cannot note how {} is: {e}", note.describe())))?;
            Ok(journal.note_other(self.tag, data)?)
        };
        note(UndoSnapshot::Before(thing.capture(&key, self)?))?;
        let answer = act();
        // What was done was done; a look that fails only means that a revert cannot tell who changed it since.
        if let Ok(after) = thing.capture(&key, self) {
            note(UndoSnapshot::After(after))?;
        }
        answer
    }
}
