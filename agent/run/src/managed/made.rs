//! The undo journal of a run in, what the states of this run themselves made out.
//!
//! Law: what something else made during the run, such as a file of a package, was not made by zagent (held by
//! `what_something_else_makes_during_a_run_is_not_ours`).

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use zagent_compiler::name_text;
use zagent_config::{Map, Value};
use zagent_host::undo::record::{JournalRecord, SavedEntry};
use zagent_host::undo::{JournalReader, created_entries};
use zagent_states::UndoNote;
use zagent_states::managed::{ThingName, package_base};

use crate::{StateOutcome, StateStatus};

/// What the journal of a run tells of things.
#[derive(Default)]
pub(super) struct MadeThings<'j> {
    /// What was at a path before the run, for what stands there after it.
    paths: HashMap<&'j Path, &'j SavedEntry>,
    /// By name, whether an account was absent before it was first changed.
    users: BTreeMap<String, bool>,
    groups: BTreeMap<String, bool>,
}

impl<'j> MadeThings<'j> {
    pub(super) fn new(journal: &'j JournalReader, things: &[&ThingName]) -> Self {
        let paths = created_entries(journal).into_iter().map(|one| (one.path, one.before)).collect();
        let mut made = Self { paths, ..Self::default() };
        let accounts: Vec<_> =
            things.iter().filter(|thing| matches!(thing.kind.as_str(), "user" | "group")).collect();
        if accounts.is_empty() {
            return made;
        }
        for record in journal.records() {
            let JournalRecord::Other { data, .. } = record else { continue };
            let Some(note) = UndoNote::read(data) else { continue };
            for thing in &accounts {
                let Some(was_absent) = note.was_absent(&thing.kind, &thing.name) else { continue };
                let of_kind = if thing.kind == "user" { &mut made.users } else { &mut made.groups };
                of_kind.entry(thing.name.clone()).or_insert(was_absent);
            }
        }
        made
    }

    /// What stood at a path before this run; none when the run did not make or replace it.
    pub(super) fn before(&self, path: &str) -> Option<&'j SavedEntry> {
        self.paths.get(Path::new(path)).copied()
    }

    /// True when a state made a thing that was absent before the run.
    pub(super) fn is_made(&self, thing: &ThingName, outcome: Option<&StateOutcome>) -> bool {
        let Some(outcome) = outcome.filter(|outcome| outcome.status() == StateStatus::Changed) else {
            return false;
        };
        match thing.kind.as_str() {
            "user" => self.users.get(&thing.name) == Some(&true),
            "group" => self.groups.get(&thing.name) == Some(&true),
            "pkg" => is_new_package(&thing.name, &outcome.changes),
            _ if thing.is_path() => self.before(&thing.name) == Some(&SavedEntry::Absent),
            _ => true,
        }
    }
}

/// True when the changes of a state name a package with no version before.
fn is_new_package(name: &str, changes: &Map) -> bool {
    let nested = changes.get("installed").and_then(Value::as_map);
    let is_new = |(key, change): (&_, &Value)| {
        let old = change.as_map().and_then(|change| change.get("old"));
        package_base(&name_text(key)) == package_base(name) && old.is_some_and(|old| !old.is_truthy())
    };
    changes.iter().any(is_new) || nested.is_some_and(|nested| nested.iter().any(is_new))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_package_without_an_earlier_version_is_new() {
        let changes = |text: &str| {
            let Value::Map(map) = Value::from_json_str(text).unwrap() else { panic!("{text}") };
            (*map).clone()
        };
        for (text, want) in [
            (r#"{"vim": {"old": "", "new": "9"}}"#, true),
            (r#"{"vim:amd64": {"old": "", "new": "9"}}"#, true),
            (r#"{"installed": {"vim": {"old": "", "new": "9"}}}"#, true),
            (r#"{"vim": {"old": "8", "new": "9"}}"#, false),
            (r#"{"vim-common": {"old": "", "new": "9"}}"#, false),
            ("{}", false),
        ] {
            assert_eq!(is_new_package("vim", &changes(text)), want, "{text}");
        }
    }
}
