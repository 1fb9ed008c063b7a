//! The journal of a run in, the files and directories that it left and that are new or rewritten out.

use std::collections::BTreeMap;
use std::path::Path;

use super::journal_reader::JournalReader;
use super::record::{ExpectedEntry, FileChange, JournalRecord, SavedEntry};

/// What a run left at a path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CreatedEntry<'j> {
    /// The tag of the state that wrote it last.
    pub tag: &'j str,
    /// Where.
    pub path: &'j Path,
    /// True for a directory.
    pub is_dir: bool,
    /// True for a link.
    pub is_link: bool,
    /// What was there before the run.
    pub before: &'j SavedEntry,
}

/// The entries that a run made or replaced and that are still there at its end, by path.
#[must_use]
pub fn created_entries(notes: &JournalReader) -> Vec<CreatedEntry<'_>> {
    let mut found: BTreeMap<&Path, (&SavedEntry, Option<CreatedEntry<'_>>)> = BTreeMap::new();
    for record in notes.records() {
        let JournalRecord::Note(note) = record else { continue };
        let (before, after) = match &note.change {
            FileChange::Replace { before, after } => (before, Some(after)),
            FileChange::Move { before, .. } => (before, None),
            _ => continue,
        };
        let (first, last) = found.entry(&note.path).or_insert((before, None));
        *last = after.filter(|after| **after != ExpectedEntry::Absent).map(|after| CreatedEntry {
            tag: &note.tag,
            path: &note.path,
            is_dir: matches!(after, ExpectedEntry::Dir { .. }),
            is_link: matches!(after, ExpectedEntry::Link { .. }),
            before: first,
        });
    }
    found.into_values().filter_map(|(_, last)| last).collect()
}
