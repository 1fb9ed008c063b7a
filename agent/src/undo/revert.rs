//! The journal of a run in, the host as it was before out.
//!
//! Law: the last change is undone first, so that everything is found as the change left it. What somebody else changed since
//! is not overwritten unless asked for; what is already as it was is left alone, so that a revert that was interrupted can
//! simply be done again.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zagent_config::{Map, Value};

use super::course::{Courses, Was};
use super::notes::Notes;
use super::position::Positions;
use super::record::{Change, Entry, Note, Record};
use super::restore::{finish, restore};
use crate::fs::{FileSystem, FsError, Kind};
use crate::report::chain;

/// What to revert, and how.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// Also overwrite what was changed since by other hands.
    pub is_forced: bool,
    /// Only these states, by tag; all when none.
    pub tags: Option<BTreeSet<String>>,
}

impl Choice {
    pub(super) fn includes(&self, tag: &str) -> bool {
        self.tags.as_ref().is_none_or(|tags| tags.contains(tag))
    }
}

/// What became of one change.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It is as it was.
    Restored,
    /// It was new and is gone.
    Removed,
    /// It was as before already.
    Already,
    /// It was left alone; the text says why.
    Kept(String),
    /// It cannot be undone; the text says why.
    Irreversible(String),
    /// It is no file: whoever noted it has to undo it.
    Other(serde_json::Value),
    /// It was no file, and whoever noted it undid it.
    Undone {
        /// What they say.
        comment: String,
        /// What changed by that.
        changes: Map,
    },
    /// It could not be undone; the text says why.
    Failed(String),
}

/// One change and what became of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Its place in the order of the run.
    pub seq: u64,
    /// Where, if it was a file.
    pub path: Option<PathBuf>,
    /// What became of it.
    pub verdict: Verdict,
}

/// What became of the changes of one state.
#[derive(Clone, Debug, PartialEq)]
pub struct Reverted {
    /// The state's tag.
    pub tag: String,
    /// Its changes, the last one first.
    pub steps: Vec<Step>,
}

impl Reverted {
    /// False when something was left alone or could not be undone though it should.
    #[must_use]
    pub fn is_success(&self) -> bool {
        let is_open =
            |verdict: &Verdict| matches!(verdict, Verdict::Kept(_) | Verdict::Failed(_) | Verdict::Other(_));
        !self.steps.iter().any(|step| is_open(&step.verdict))
    }

    /// What changed: each path with `restored` or `removed`.
    #[must_use]
    pub fn changes(&self) -> Map {
        let mut changes = Map::new();
        for step in &self.steps {
            let word = match &step.verdict {
                Verdict::Restored => "restored",
                Verdict::Removed => "removed",
                Verdict::Undone { changes: more, .. } => {
                    more.iter().for_each(|(key, value)| drop(changes.insert(key.clone(), value.clone())));
                    continue;
                }
                _ => continue,
            };
            if let Some(path) = &step.path {
                changes.insert(&*path.to_string_lossy(), Value::from(word));
            }
        }
        changes
    }

    /// All of it in words, one line for each thing that is worth one.
    #[must_use]
    pub fn comment(&self) -> String {
        let mut lines = Vec::new();
        for Step { path, verdict, .. } in &self.steps {
            let is_file = path.is_some();
            let path = path.as_deref().unwrap_or(Path::new("")).display();
            let line = match verdict {
                Verdict::Failed(why) if !is_file => why.clone(),
                Verdict::Undone { comment, .. } if comment.is_empty() => "undone".to_owned(),
                Verdict::Undone { comment, .. } => comment.clone(),
                Verdict::Other(_) => "a change that is of no file was not undone".to_owned(),
                Verdict::Restored => format!("{path} restored"),
                Verdict::Removed => format!("{path} removed"),
                Verdict::Kept(why) if !is_file => format!("left alone: {why}"),
                Verdict::Kept(why) => format!("{path} left alone: {why}"),
                Verdict::Irreversible(why) => why.clone(),
                Verdict::Failed(why) => format!("{path} not restored: {why}"),
                Verdict::Already => continue,
            };
            if lines.last() != Some(&line) {
                lines.push(line);
            }
        }
        if lines.is_empty() { "Everything is as it was before".to_owned() } else { lines.join("\n") }
    }
}

/// Undoes what a run did, the last change first. `fs` gives the files to work on for the tag of a state: a disk with a
/// journal of its own, or an overlay to see what would happen.
#[must_use]
pub fn revert(notes: &Notes, fs: &dyn Fn(&str) -> Arc<dyn FileSystem>, choice: &Choice) -> Vec<Reverted> {
    revert_with(notes, fs, &|_, data| Verdict::Other(data.clone()), choice)
}

/// The same with somebody who undoes what is no file, by the tag of the state and what it noted.
#[must_use]
pub fn revert_with(
    notes: &Notes,
    fs: &dyn Fn(&str) -> Arc<dyn FileSystem>,
    other: &dyn Fn(&str, &serde_json::Value) -> Verdict,
    choice: &Choice,
) -> Vec<Reverted> {
    let courses = Courses::new(notes, choice);
    // What cannot be looked at now cannot later either, and says so then.
    let positions = Positions::find(&courses, &*fs("")).unwrap_or_default();
    let way = Way { notes, is_forced: choice.is_forced, courses, positions };
    let mut states: Vec<Reverted> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for record in notes.records().iter().rev() {
        let (Some(tag), Some(seq)) = (record.tag(), record.seq()) else { continue };
        if !choice.includes(tag) {
            continue;
        }
        let (path, verdict) = match record {
            Record::Note(note) => {
                let answer = way.undo(&*fs(tag), note);
                (Some(note.path.clone()), answer.unwrap_or_else(|error| Verdict::Failed(chain(&error))))
            }
            Record::Irreversible { why, .. } => (None, Verdict::Irreversible(why.clone())),
            Record::Other { data, .. } => (None, other(tag, data)),
            Record::Begin { .. } | Record::End { .. } => continue,
        };
        let place = *places.entry(tag.to_owned()).or_insert_with(|| {
            states.push(Reverted { tag: tag.to_owned(), steps: Vec::new() });
            states.len() - 1
        });
        states[place].steps.push(Step { seq, path, verdict });
    }
    states
}

struct Way<'a> {
    notes: &'a Notes,
    is_forced: bool,
    courses: Courses<'a>,
    positions: Positions<'a>,
}

/// How what is there now compares with what a change did.
enum Sight {
    /// As the change left it.
    Left,
    /// As before the change.
    Before,
    /// Neither.
    Foreign,
    /// There is nothing.
    Gone,
}

impl Way<'_> {
    fn undo(&self, fs: &dyn FileSystem, note: &Note) -> Result<Verdict, FsError> {
        let path = &*note.path;
        let sight = see(fs, path, &note.change)?;
        let is_undone = match self.positions.of(path) {
            Some(position) => note.seq > position,
            // A move is told by what is at its end. Otherwise, better too little than too much.
            None if matches!((&note.change, &sight), (Change::Move { .. }, Sight::Left)) => false,
            None => self.courses.is_back(fs, path, note.seq)?,
        };
        if is_undone {
            return self.already(fs, note);
        }
        match sight {
            Sight::Left => {}
            Sight::Before => return touch_up(fs, path, &note.change),
            Sight::Foreign if self.is_forced => {}
            Sight::Foreign => return Ok(Verdict::Kept("it was changed since".to_owned())),
            Sight::Gone if self.is_forced && matches!(note.change, Change::Replace { .. }) => {}
            Sight::Gone => return Ok(Verdict::Kept("it was removed since".to_owned())),
        }
        match &note.change {
            Change::Replace { before, .. } => return restore(fs, self.notes, note, path, before),
            Change::Move { to, before, .. } => return self.move_back(fs, note, to, before),
            Change::Dress { before, .. } => fs.set_meta(path, (*before).into(), false)?,
            Change::Times { before, .. } => fs.set_times(path, before.atime, before.mtime)?,
            Change::Attrs { before, .. } => {
                let now = fs.attrs(path)?.unwrap_or_default();
                fs.set_attrs(path, &without(before, &now), &without(&now, before))?;
            }
            Change::Xattrs { before, .. } => fs.set_xattrs(path, before)?,
        }
        Ok(Verdict::Restored)
    }

    /// Undone before, but perhaps not to the end: what had moved may be back and what it had covered still missing, and a
    /// file may be there without its time.
    fn already(&self, fs: &dyn FileSystem, note: &Note) -> Result<Verdict, FsError> {
        match &note.change {
            Change::Move { to, before, .. } => {
                let is_covered = matches!(before, Entry::Absent) || fs.lstat(to)?.is_some();
                if !is_covered
                    && self.positions.of(to).is_none()
                    && !self.courses.is_back(fs, to, note.seq)?
                {
                    return restore(fs, self.notes, note, to, before);
                }
            }
            Change::Replace { before: before @ Entry::File { times, .. }, .. } => {
                let now = fs.lstat(&note.path)?.map(|now| now.mtime);
                if now != Some(times.mtime)
                    && self.courses.is_next(&note.path, note.seq, self.positions.of(&note.path))
                    && Was::Entry(before).is_at(fs, &note.path, None)?
                {
                    return touch_up(fs, &note.path, &note.change);
                }
            }
            _ => {}
        }
        Ok(Verdict::Already)
    }

    fn move_back(
        &self,
        fs: &dyn FileSystem,
        note: &Note,
        to: &Path,
        before: &Entry,
    ) -> Result<Verdict, FsError> {
        if fs.lstat(&note.path)?.is_some() {
            return Ok(Verdict::Kept("something else is there now".to_owned()));
        }
        fs.rename(to, &note.path)?;
        match before {
            Entry::Absent => Ok(Verdict::Restored),
            before => restore(fs, self.notes, note, to, before),
        }
    }
}

fn see(fs: &dyn FileSystem, path: &Path, change: &Change) -> Result<Sight, FsError> {
    let now = fs.lstat(path)?;
    let (is_left, is_before) = match change {
        Change::Replace { before, after } => {
            let is_left = Was::Trace(after).is_at(fs, path, None)?;
            (is_left, !is_left && Was::Entry(before).is_at(fs, path, None)?)
        }
        Change::Move { to, after, .. } => {
            return Ok(match (Was::Trace(after).is_at(fs, to, None)?, fs.lstat(to)?) {
                (true, _) => Sight::Left,
                (false, Some(_)) => Sight::Foreign,
                (false, None) => Sight::Gone,
            });
        }
        _ if now.is_none() => return Ok(Sight::Gone),
        Change::Dress { before, after } => {
            (now.is_some_and(|now| after.fits(&now)), now.is_some_and(|now| before.fits(&now)))
        }
        // Following it would lead to something else.
        Change::Times { .. } | Change::Attrs { .. } | Change::Xattrs { .. }
            if now.is_some_and(|now| now.kind == Kind::Link) =>
        {
            (false, false)
        }
        Change::Times { before, after } => {
            let is = |mtime| now.is_some_and(|now| now.mtime == mtime);
            // Whatever is put into a directory changes its time, also what is taken out of it again; and only files are
            // made again with the time that they had.
            let is_loose = now.is_some_and(|now| now.kind != Kind::File);
            (is(after.mtime) || is_loose && !is(before.mtime), is(before.mtime))
        }
        Change::Attrs { before, after } => {
            let now = fs.attrs(path)?;
            (now.as_ref() == Some(after), now.as_ref() == Some(before))
        }
        Change::Xattrs { before, after } => {
            let now = fs.xattrs(path)?;
            (now == *after, now == *before)
        }
    };
    Ok(match (is_left, is_before) {
        (true, _) => Sight::Left,
        (false, true) => Sight::Before,
        (false, false) if now.is_none() => Sight::Gone,
        (false, false) => Sight::Foreign,
    })
}

/// Makes the last touches that a revert which was cut off did not come to.
fn touch_up(fs: &dyn FileSystem, path: &Path, change: &Change) -> Result<Verdict, FsError> {
    let Change::Replace { before: Entry::File { times, xattrs, attrs, .. }, .. } = change else {
        return Ok(Verdict::Already);
    };
    finish(fs, path, xattrs, attrs.as_deref(), times)?;
    Ok(Verdict::Restored)
}

fn without(letters: &str, others: &str) -> String {
    letters.chars().filter(|letter| !others.contains(*letter)).collect()
}
