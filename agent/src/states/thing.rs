//! Something of the host that is no file, such as a user or a service: how it is in, the same put back later out.
//!
//! Law: how a thing was is in the journal before it changes, and how it was left is noted after. A revert puts it back only
//! when it still is as it was left, unless that is forced; what holds data that came since is never taken away. It notes in
//! its turn what it does.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use zagent_config::{Map, Value};

use super::{Done, Failure, Scene};

/// A kind of things that can be looked at and put back. What a look gives is JSON-like and says all that `put` needs;
/// null stands for a thing that is not there.
pub trait Thing: Sync {
    /// The name of the kind in the journal, such as `service`; never changes once it was written.
    fn kind(&self) -> &'static str;

    /// How it is now.
    ///
    /// # Errors
    /// Fails when it cannot be looked at.
    fn look(&self, key: &Value, scene: &Scene<'_>) -> Result<Value, Failure>;

    /// Makes it so again, from whatever it is now.
    ///
    /// # Errors
    /// Fails when it cannot be made so.
    fn put(&self, key: &Value, to: &Value, scene: &Scene<'_>) -> Result<(), Failure>;

    /// Why it is not taken away again although it was new: it holds what came since and could not come back. By default
    /// nothing is lost.
    ///
    /// # Errors
    /// Fails when it cannot be looked at.
    fn full(&self, key: &Value, scene: &Scene<'_>) -> Result<Option<String>, Failure> {
        let _ = (key, scene);
        Ok(None)
    }

    /// Does to imagined files what `put` would do to real ones, so that a dry run of a revert goes on as the revert would.
    /// By default no files go with it.
    ///
    /// # Errors
    /// Fails when it cannot be imagined.
    fn imagine(&self, key: &Value, to: &Value, scene: &Scene<'_>) -> Result<(), Failure> {
        let _ = (key, to, scene);
        Ok(())
    }

    /// What stays behind when it is taken away, in words; asked before. By default nothing.
    ///
    /// # Errors
    /// Fails when it cannot be looked at.
    fn stays(&self, key: &Value, scene: &Scene<'_>) -> Result<Option<String>, Failure> {
        let _ = (key, scene);
        Ok(None)
    }

    /// True when a thing that is `now` so counts as being `then` so. By default what is equal.
    fn is_same(&self, now: &Value, then: &Value) -> bool {
        now == then
    }

    /// What people see of how it is: a secret is not shown. By default all of it.
    fn shown(&self, how: &Value) -> Value {
        how.clone()
    }
}

/// The key of what is looked after by another than the host's own provider: `ssh (sysv)`. Without one it is the name alone.
pub(super) fn keyed(name: &str, provider: Option<&str>) -> String {
    provider.map_or_else(|| name.to_owned(), |by| format!("{name} ({by})"))
}

/// The name and the provider of a key; neither names of packages nor of services have brackets.
pub(super) fn key_parts(key: &Value) -> (&str, Option<&str>) {
    let text = key.as_str().unwrap_or_default();
    let parts = text.strip_suffix(')').and_then(|t| t.rsplit_once(" ("));
    parts.map_or((text, None), |(name, by)| (name, Some(by)))
}

/// How many names of a long key are shown.
const SHOWN: usize = 5;

/// What the journal holds of a thing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThingNote {
    thing: String,
    key: Value,
    #[serde(flatten)]
    how: How,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum How {
    /// It was so, and was about to change.
    Before(Value),
    /// It was left so.
    After(Value),
}

impl ThingNote {
    /// The note of a journal; none when it is of somebody else.
    #[must_use]
    pub fn read(data: &serde_json::Value) -> Option<Self> {
        serde_json::from_value(data.clone()).ok()
    }

    /// What it is about, such as `service ssh`.
    #[must_use]
    pub fn what(&self) -> String {
        let key = zagent_compiler::name_text(&self.key);
        let names: Vec<&str> = key.split(' ').collect();
        // A transaction of packages is known by its first few.
        match names.get(..SHOWN).filter(|_| names.len() > SHOWN + 1) {
            Some(first) => format!("{} {} and {} more", self.thing, first.join(" "), names.len() - SHOWN),
            None => format!("{} {key}", self.thing),
        }
    }
}

impl Scene<'_> {
    /// Changes a thing: notes how it is, lets `act` change it, notes how it was left. What was done before `act` failed is
    /// noted too.
    ///
    /// # Errors
    /// Fails when the thing cannot be looked at or noted, and as `act` does.
    pub fn change<T>(
        &self,
        thing: &dyn Thing,
        key: impl Into<Value>,
        act: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let key = key.into();
        let Some(journal) = self.journal else { return act() };
        let note = |how: How| -> Result<(), Failure> {
            let note = ThingNote { thing: thing.kind().to_owned(), key: key.clone(), how };
            let data = serde_json::to_value(&note)
                .map_err(|e| Failure::new(format!("cannot note how {} is: {e}", note.what())))?;
            Ok(journal.other(self.tag, data)?)
        };
        note(How::Before(thing.look(&key, self)?))?;
        let answer = act();
        // What was done was done; a look that fails only means that a revert cannot tell who changed it since.
        if let Ok(after) = thing.look(&key, self) {
            note(How::After(after))?;
        }
        answer
    }
}

/// What became of a thing that was to be put back.
#[derive(Debug)]
pub enum PutBack {
    /// It is as it was.
    Done(Done),
    /// It was so already.
    Already,
    /// It stays: somebody else changed it since, or it holds what cannot come back.
    Kept(String),
}

/// Things on their way back, the last change first.
#[derive(Debug, Default)]
pub struct Returns {
    /// How each was left by the change that is undone next.
    left: HashMap<(String, String), Value>,
    /// What a dry run has put back.
    imagined: HashMap<(String, String), Value>,
}

impl Returns {
    /// Takes the next note; nothing when it was only about how a thing was left.
    ///
    /// # Errors
    /// Fails when the thing cannot be put back, or nobody knows its kind.
    pub fn take(
        &mut self,
        note: &ThingNote,
        is_forced: bool,
        test: bool,
        scene: &Scene<'_>,
    ) -> Result<Option<PutBack>, Failure> {
        let thing = super::things().find(|t| t.kind() == note.thing);
        let thing =
            thing.ok_or_else(|| Failure::new(format!("nobody knows how to put {} back", note.what())))?;
        self.put(thing, note, Course { is_forced, test }, scene)
    }

    fn put(
        &mut self,
        thing: &dyn Thing,
        note: &ThingNote,
        course: Course,
        scene: &Scene<'_>,
    ) -> Result<Option<PutBack>, Failure> {
        let key = (note.thing.clone(), zagent_compiler::name_text(&note.key));
        let before = match &note.how {
            How::After(after) => {
                self.left.insert(key, after.clone());
                return Ok(None);
            }
            How::Before(before) => before,
        };
        // In a dry run what was put back before is only imagined.
        let imagined = self.imagined.get(&key).cloned();
        let now = imagined.map_or_else(|| thing.look(&note.key, scene), Ok)?;
        let left = self.left.remove(&key);
        if thing.is_same(&now, before) {
            return Ok(Some(PutBack::Already));
        }
        if left.is_some_and(|left| !thing.is_same(&now, &left)) && !course.is_forced {
            return Ok(Some(PutBack::Kept(format!("{} was changed since", note.what()))));
        }
        // Even who forces a revert does not mean data.
        if before.is_null()
            && let Some(why) = thing.full(&note.key, scene)?
        {
            return Ok(Some(PutBack::Kept(format!("{} is kept: {why}", note.what()))));
        }
        let change = Map::from_iter([("old", thing.shown(&now)), ("new", thing.shown(before))]);
        let changes = Map::from_iter([(note.what().as_str(), Value::from(change))]);
        let stays = if before.is_null() { thing.stays(&note.key, scene)? } else { None };
        let stays = stays.map_or_else(String::new, |what| format!("; {what}"));
        let word = if course.test {
            thing.imagine(&note.key, before, scene)?;
            self.imagined.insert(key, before.clone());
            "would be put back"
        } else {
            scene.change(thing, note.key.clone(), || thing.put(&note.key, before, scene))?;
            "put back"
        };
        Ok(Some(PutBack::Done(Done::new(format!("{} {word}{stays}", note.what()), changes))))
    }
}

/// How things are put back.
#[derive(Clone, Copy, Debug)]
struct Course {
    /// Also what somebody else changed since.
    is_forced: bool,
    /// Only as it would be.
    test: bool,
}

#[cfg(test)]
#[path = "thing_tests.rs"]
mod tests;
