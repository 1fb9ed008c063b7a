//! The journal of a run in, the host as it was before out.
//!
//! Law: the last change is undone first, so that everything is found as the change left it. What somebody else
//! changed since is not overwritten unless asked for; what is already as it was is left alone, so that a revert
//! that was interrupted can simply be done again (held by `what_other_hands_changed_is_kept_unless_forced`,
//! `a_second_revert_has_nothing_to_do`).

#![expect(clippy::disallowed_methods, reason = "a revert says how long each change took to undo")]

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use zagent_config::{Map, Value};

use super::journal_reader::JournalReader;
use super::path_history::{KnownEntry, PathHistories};
use super::position::Positions;
use super::record::{ChangeNote, FileChange, JournalRecord, SavedEntry};
use super::restore::{restore_attributes, restore_entry};
use crate::fs::{FileKind, FileSystem, FsError, Stat};
use zagent_config::error_chain;

/// What to revert, and how.
#[derive(Clone, Debug, Default)]
pub struct RevertOptions {
    /// Also overwrite what was changed since by other hands.
    pub is_forced: bool,
    /// Only these states, by tag; all when none.
    pub tags: Option<BTreeSet<String>>,
}

impl RevertOptions {
    /// True when the changes of the state with this tag are to be reverted.
    pub fn includes(&self, tag: &str) -> bool {
        self.tags.as_ref().is_none_or(|tags| tags.contains(tag))
    }
}

/// What became of one change.
#[derive(Clone, Debug, PartialEq)]
pub enum UndoOutcome {
    /// It is as it was.
    Restored,
    /// It was new and is gone.
    Removed,
    /// It was as before already.
    AlreadyRestored,
    /// It was left alone; the text says why.
    LeftAlone(String),
    /// It cannot be undone; the text says why.
    Irreversible(String),
    /// It is no file: the state that noted it has to undo it.
    Other(serde_json::Value),
    /// It was no file, and the state that noted it undid it.
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
pub struct RevertStep {
    /// Its place in the order of the run.
    pub seq: u64,
    /// Where, if it was a file.
    pub path: Option<PathBuf>,
    /// What became of it.
    pub outcome: UndoOutcome,
    /// Why earlier attempts failed.
    pub failed_attempts: Vec<String>,
    /// When it began, counted from the start of the revert.
    pub begun: Duration,
    /// How long it took, with all attempts.
    pub took: Duration,
    /// The file as it is now, when one was restored.
    pub restored: Option<Stat>,
}

/// Whether to try a state again: its tag, and how often it was tried. It waits before it answers.
pub type TryAgain<'a> = &'a dyn Fn(&str, u64) -> bool;

/// What became of the changes of one state.
#[derive(Clone, Debug, PartialEq)]
pub struct RevertedState {
    /// The state's tag.
    pub tag: String,
    /// Its changes, the last one first.
    pub steps: Vec<RevertStep>,
}

impl RevertedState {
    /// False when something was left alone or could not be undone though it should.
    #[must_use]
    pub fn is_success(&self) -> bool {
        let is_open = |verdict: &UndoOutcome| {
            matches!(verdict, UndoOutcome::LeftAlone(_) | UndoOutcome::Failed(_) | UndoOutcome::Other(_))
        };
        !self.steps.iter().any(|step| is_open(&step.outcome))
    }

    /// When it began, counted from the start of the revert.
    #[must_use]
    pub fn begun(&self) -> Duration {
        self.steps.iter().map(|step| step.begun).min().unwrap_or_default()
    }

    /// How long its steps took together.
    #[must_use]
    pub fn took(&self) -> Duration {
        self.steps.iter().map(|step| step.took).sum()
    }

    /// What is worth knowing about it beside the changes: how many entries were restored and removed, bytes and mode of
    /// what was restored, attempts when there were several.
    #[must_use]
    pub fn details(&self) -> Map {
        let count = |is_so: fn(&UndoOutcome) -> bool| {
            let number = self.steps.iter().filter(|step| is_so(&step.outcome)).count();
            Value::Int(i64::try_from(number).unwrap_or(i64::MAX))
        };
        let mut details = Map::new();
        details
            .insert("restored", count(|o| matches!(o, UndoOutcome::Restored | UndoOutcome::Undone { .. })));
        details.insert("removed", count(|o| matches!(o, UndoOutcome::Removed)));
        let mut files: HashMap<&Path, &Stat> = HashMap::new();
        for step in &self.steps {
            if let (Some(path), Some(stat)) = (&step.path, &step.restored) {
                files.insert(path, stat);
            }
        }
        if !files.is_empty() {
            let bytes: u64 = files.values().map(|stat| stat.size).sum();
            details.insert("bytes", Value::Int(i64::try_from(bytes).unwrap_or(i64::MAX)));
        }
        if let ([stat], 1) = (&*files.values().collect::<Vec<_>>(), files.len()) {
            details.insert("mode", format!("{:04o}", stat.mode));
        }
        let tries = self.steps.iter().map(|step| step.failed_attempts.len()).max().unwrap_or(0) + 1;
        if tries > 1 {
            details.insert("attempts", Value::Int(i64::try_from(tries).unwrap_or(i64::MAX)));
        }
        details
    }

    /// What changed: each path with `restored` or `removed`.
    #[must_use]
    pub fn changes(&self) -> Map {
        let mut changes = Map::new();
        for step in &self.steps {
            let word = match &step.outcome {
                UndoOutcome::Restored => "restored",
                UndoOutcome::Removed => "removed",
                UndoOutcome::Undone { changes: more, .. } => {
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
        for RevertStep { path, outcome: verdict, failed_attempts, .. } in &self.steps {
            for (n, why) in failed_attempts.iter().enumerate() {
                lines.push(format!("attempt {} failed: {why}", n + 1));
            }
            let is_file = path.is_some();
            let path = path.as_deref().unwrap_or(Path::new("")).display();
            let line = match verdict {
                UndoOutcome::Failed(why) if !is_file => why.clone(),
                UndoOutcome::Undone { comment, .. } if comment.is_empty() => "undone".to_owned(),
                UndoOutcome::Undone { comment, .. } => comment.clone(),
                UndoOutcome::Other(_) => "a change that is of no file was not undone".to_owned(),
                UndoOutcome::Restored => format!("{path} restored"),
                UndoOutcome::Removed => format!("{path} removed"),
                UndoOutcome::LeftAlone(why) if !is_file => format!("left alone: {why}"),
                UndoOutcome::LeftAlone(why) => format!("{path} left alone: {why}"),
                UndoOutcome::Irreversible(why) => why.clone(),
                UndoOutcome::Failed(why) => format!("{path} not restored: {why}"),
                UndoOutcome::AlreadyRestored => continue,
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
pub fn revert(
    notes: &JournalReader,
    fs: &dyn Fn(&str) -> Arc<dyn FileSystem>,
    choice: &RevertOptions,
) -> Vec<RevertedState> {
    revert_with(notes, fs, &|_, data| UndoOutcome::Other(data.clone()), &|_, _| false, choice)
}

/// The same with somebody who undoes what is no file, by the tag of the state and what it noted, and somebody who says
/// whether a change that could not be undone is tried again.
#[must_use]
pub fn revert_with(
    notes: &JournalReader,
    fs: &dyn Fn(&str) -> Arc<dyn FileSystem>,
    other: &dyn Fn(&str, &serde_json::Value) -> UndoOutcome,
    again: TryAgain<'_>,
    choice: &RevertOptions,
) -> Vec<RevertedState> {
    let clock = Instant::now();
    let histories = PathHistories::new(notes, choice);
    // What cannot be looked at now cannot later either, and says so then.
    let positions = Positions::find(&histories, &*fs("")).unwrap_or_default();
    let way = Reverter { notes, is_forced: choice.is_forced, histories, positions };
    let mut states: Vec<RevertedState> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for record in notes.records().iter().rev() {
        let (Some(tag), Some(seq)) = (record.tag(), record.seq()) else { continue };
        if !choice.includes(tag) {
            continue;
        }
        let begun = clock.elapsed();
        let Some(step) = way.undo_record(record, &*fs(tag), (other, again)) else { continue };
        let step = RevertStep { seq, begun, took: clock.elapsed().saturating_sub(begun), ..step };
        let place = *places.entry(tag.to_owned()).or_insert_with(|| {
            states.push(RevertedState { tag: tag.to_owned(), steps: Vec::new() });
            states.len() - 1
        });
        states[place].steps.push(step);
    }
    states
}

struct Reverter<'a> {
    notes: &'a JournalReader,
    is_forced: bool,
    histories: PathHistories<'a>,
    positions: Positions<'a>,
}

/// How what is there now compares with what a change did.
enum EntryState {
    /// As the change left it.
    AsApplied,
    /// As before the change.
    AsBefore,
    /// Neither.
    ChangedSince,
    /// There is nothing.
    Missing,
}

/// Who undoes what is no file, and who says whether to try again.
type Helpers<'h> = (&'h dyn Fn(&str, &serde_json::Value) -> UndoOutcome, TryAgain<'h>);

impl Reverter<'_> {
    /// Undoes one record, again while it fails and somebody says so; nothing for a record that is no change.
    fn undo_record(
        &self,
        record: &JournalRecord,
        fs: &dyn FileSystem,
        (other, again): Helpers<'_>,
    ) -> Option<RevertStep> {
        let tag = record.tag()?;
        let mut failed_attempts = Vec::new();
        let (path, outcome) = loop {
            let (path, outcome) = match record {
                JournalRecord::Note(note) => {
                    let answer = self.undo_change(fs, note);
                    let outcome = answer.unwrap_or_else(|error| UndoOutcome::Failed(error_chain(&error)));
                    (Some(note.path.clone()), outcome)
                }
                JournalRecord::Irreversible { why, .. } => (None, UndoOutcome::Irreversible(why.clone())),
                JournalRecord::Other { data, .. } => (None, other(tag, data)),
                JournalRecord::Begin { .. } | JournalRecord::End { .. } => return None,
            };
            match outcome {
                UndoOutcome::Failed(why) if again(tag, failed_attempts.len() as u64 + 1) => {
                    failed_attempts.push(why);
                }
                outcome => break (path, outcome),
            }
        };
        let restored = match (&path, &outcome) {
            (Some(path), UndoOutcome::Restored) => fs.lstat(path).ok().flatten(),
            _ => None,
        };
        let restored = restored.filter(|stat| stat.kind == FileKind::File);
        let (seq, begun, took) = (record.seq()?, Duration::ZERO, Duration::ZERO);
        Some(RevertStep { seq, path, outcome, failed_attempts, begun, took, restored })
    }

    fn undo_change(&self, fs: &dyn FileSystem, note: &ChangeNote) -> Result<UndoOutcome, FsError> {
        let path = &*note.path;
        let entry_state = compare_entry(fs, path, &note.change)?;
        let is_undone = match self.positions.for_path(path) {
            Some(position) => note.seq > position,
            // A move is told by what is at its end. Otherwise, better too little than too much.
            None if matches!(
                (&note.change, &entry_state),
                (FileChange::Move { .. }, EntryState::AsApplied)
            ) =>
            {
                false
            }
            None => self.histories.is_restored(fs, path, note.seq)?,
        };
        if is_undone {
            return self.complete_undo(fs, note);
        }
        match entry_state {
            EntryState::AsApplied => {}
            EntryState::AsBefore => return finish_restore(fs, path, &note.change),
            EntryState::ChangedSince if self.is_forced => {}
            EntryState::ChangedSince => return Ok(UndoOutcome::LeftAlone("it was changed since".to_owned())),
            EntryState::Missing if self.is_forced && matches!(note.change, FileChange::Replace { .. }) => {}
            EntryState::Missing => return Ok(UndoOutcome::LeftAlone("it was removed since".to_owned())),
        }
        match &note.change {
            FileChange::Replace { before, .. } => return restore_entry(fs, self.notes, note, path, before),
            FileChange::Move { to, before, .. } => return self.move_back(fs, note, to, before),
            FileChange::Dress { before, .. } => fs.set_meta(path, (*before).into(), false)?,
            FileChange::Times { before, .. } => fs.set_times(path, before.atime, before.mtime)?,
            FileChange::Attrs { before, .. } => {
                let now = fs.attrs(path)?.unwrap_or_default();
                fs.set_attrs(path, &chars_without(before, &now), &chars_without(&now, before))?;
            }
            FileChange::Xattrs { before, .. } => fs.set_xattrs(path, before)?,
        }
        Ok(UndoOutcome::Restored)
    }

    /// Undone before, but perhaps not to the end: what had moved may be back and what it had covered still missing, and a
    /// file may be there without its time.
    fn complete_undo(&self, fs: &dyn FileSystem, note: &ChangeNote) -> Result<UndoOutcome, FsError> {
        match &note.change {
            FileChange::Move { to, before, .. } => {
                let is_covered = matches!(before, SavedEntry::Absent) || fs.lstat(to)?.is_some();
                if !is_covered
                    && self.positions.for_path(to).is_none()
                    && !self.histories.is_restored(fs, to, note.seq)?
                {
                    return restore_entry(fs, self.notes, note, to, before);
                }
            }
            FileChange::Replace { before: before @ SavedEntry::File { times, .. }, .. } => {
                let now = fs.lstat(&note.path)?.map(|now| now.mtime);
                if now != Some(times.mtime)
                    && self.histories.is_next_change(
                        &note.path,
                        note.seq,
                        self.positions.for_path(&note.path),
                    )
                    && KnownEntry::Saved(before).matches_path(fs, &note.path, None)?
                {
                    return finish_restore(fs, &note.path, &note.change);
                }
            }
            _ => {}
        }
        Ok(UndoOutcome::AlreadyRestored)
    }

    fn move_back(
        &self,
        fs: &dyn FileSystem,
        note: &ChangeNote,
        to: &Path,
        before: &SavedEntry,
    ) -> Result<UndoOutcome, FsError> {
        if fs.lstat(&note.path)?.is_some() {
            return Ok(UndoOutcome::LeftAlone("something else is there now".to_owned()));
        }
        fs.rename(to, &note.path)?;
        match before {
            SavedEntry::Absent => Ok(UndoOutcome::Restored),
            before => restore_entry(fs, self.notes, note, to, before),
        }
    }
}

fn compare_entry(fs: &dyn FileSystem, path: &Path, change: &FileChange) -> Result<EntryState, FsError> {
    let now = fs.lstat(path)?;
    let (is_left, is_before) = match change {
        FileChange::Replace { before, after } => {
            let is_left = KnownEntry::Expected(after).matches_path(fs, path, None)?;
            (is_left, !is_left && KnownEntry::Saved(before).matches_path(fs, path, None)?)
        }
        FileChange::Move { to, after, .. } => {
            return Ok(match (KnownEntry::Expected(after).matches_path(fs, to, None)?, fs.lstat(to)?) {
                (true, _) => EntryState::AsApplied,
                (false, Some(_)) => EntryState::ChangedSince,
                (false, None) => EntryState::Missing,
            });
        }
        _ if now.is_none() => return Ok(EntryState::Missing),
        FileChange::Dress { before, after } => {
            (now.is_some_and(|now| after.matches(&now)), now.is_some_and(|now| before.matches(&now)))
        }
        // Following it would lead to something else.
        FileChange::Times { .. } | FileChange::Attrs { .. } | FileChange::Xattrs { .. }
            if now.is_some_and(|now| now.kind == FileKind::Link) =>
        {
            (false, false)
        }
        FileChange::Times { before, after } => {
            let is = |mtime| now.is_some_and(|now| now.mtime == mtime);
            // Whatever is put into a directory changes its time, also what is taken out of it again; and only files are
            // made again with the time that they had.
            let is_loose = now.is_some_and(|now| now.kind != FileKind::File);
            (is(after.mtime) || is_loose && !is(before.mtime), is(before.mtime))
        }
        FileChange::Attrs { before, after } => {
            let now = fs.attrs(path)?;
            (now.as_ref() == Some(after), now.as_ref() == Some(before))
        }
        FileChange::Xattrs { before, after } => {
            let now = fs.xattrs(path)?;
            (now == *after, now == *before)
        }
    };
    Ok(match (is_left, is_before) {
        (true, _) => EntryState::AsApplied,
        (false, true) => EntryState::AsBefore,
        (false, false) if now.is_none() => EntryState::Missing,
        (false, false) => EntryState::ChangedSince,
    })
}

/// Makes the last touches that a revert which was cut off did not come to.
fn finish_restore(fs: &dyn FileSystem, path: &Path, change: &FileChange) -> Result<UndoOutcome, FsError> {
    let FileChange::Replace { before: SavedEntry::File { times, xattrs, attrs, .. }, .. } = change else {
        return Ok(UndoOutcome::AlreadyRestored);
    };
    restore_attributes(fs, path, xattrs, attrs.as_deref(), times)?;
    Ok(UndoOutcome::Restored)
}

fn chars_without(letters: &str, others: &str) -> String {
    letters.chars().filter(|letter| !others.contains(*letter)).collect()
}
