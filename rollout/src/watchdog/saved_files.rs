//! Files of the watchdog: a value in, a file with a check sum out; a file in, its value or its damage out.
//!
//! Law: a file whose content changed by itself is damaged, also when it still parses. Files without a check sum are from
//! versions that wrote none, and those versions read the files of this one (held by
//! `every_flipped_bit_is_found_unless_it_changes_nothing`, `older_and_newer_versions_read_each_others_files`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde::de::{DeserializeOwned, Error as _};
use serde_json::Value;
use zagent_config::json_file::{self, JsonFileError};
use zagent_config::paths::Paths;

use super::error_chain;
use super::saved_state::{DamageNote, SavedWatchdog};
use crate::phase::NodeState;
use crate::recovery::{KnownWrites, RecoveredNode, SavedCopy, recover};
use crate::slots::Slots;
use zagent_config::sorted::CollectSorted;

/// The member with the check sum.
const CHECK: &str = "check";
/// The member with the number of the write.
const SEQUENCE: &str = "sequence";
/// How long a person is told of damage that was repaired.
const NOTE_AGE: SignedDuration = SignedDuration::from_hours(7 * 24);

/// A value as it was written.
pub(super) struct SealedValue<T> {
    pub(super) value: T,
    /// The number of the write; `None` in a file of an older version.
    pub(super) sequence: Option<u64>,
}

/// Replaces a file.
pub(super) fn write_sealed(path: &Path, value: &impl Serialize, sequence: u64) -> Result<(), JsonFileError> {
    let failed =
        |error: serde_json::Error| JsonFileError::Write { path: path.to_owned(), source: error.into() };
    let mut members = match serde_json::to_value(value).map_err(failed)? {
        Value::Object(members) => members,
        _ => return Err(failed(serde_json::Error::custom("it is not a map"))),
    };
    members.insert(SEQUENCE.into(), sequence.into());
    let check = check_sum(&members).map_err(failed)?;
    members.insert(CHECK.into(), check.into());
    json_file::write(path, &members)
}

/// Reads a file; `None` when it does not exist.
pub(super) fn read_sealed<T: DeserializeOwned>(path: &Path) -> Result<Option<SealedValue<T>>, JsonFileError> {
    let damaged = |source| JsonFileError::Damaged { path: path.to_owned(), source };
    let Some(mut members) = json_file::read::<serde_json::Map<String, Value>>(path)? else { return Ok(None) };
    if let Some(written) = members.remove(CHECK)
        && written != check_sum(&members).map_err(damaged)?
    {
        return Err(damaged(serde_json::Error::custom("its check sum does not match")));
    }
    let sequence = members.remove(SEQUENCE).and_then(|number| number.as_u64());
    let value = serde_json::from_value(Value::Object(members)).map_err(damaged)?;
    Ok(Some(SealedValue { value, sequence }))
}

/// The same for every order of the members.
fn check_sum(members: &serde_json::Map<String, Value>) -> Result<String, serde_json::Error> {
    let sorted: BTreeMap<_, _> = members.iter().into_map();
    Ok(blake3::hash(&serde_json::to_vec(&sorted)?).to_hex().to_string())
}

/// What the last watchdog saved about the node, whole or not; `sequence` is a write that certainly happened. Nothing is
/// changed.
///
/// # Errors
/// Fails when permission is denied: everything else is damage.
pub(super) fn read_node(
    paths: &Paths,
    slots: &Slots,
    sequence: u64,
    now: Timestamp,
) -> Result<RecoveredNode, JsonFileError> {
    // In this order, because a running watchdog writes them in the other one.
    let second = read_copy(&paths.phase_copy(), true)?;
    let first = read_copy(&paths.phase(), false)?;
    let known = KnownWrites { sequence, has_slots: slots.has_any() };
    Ok(recover(first, second, known, &slots.built_in().version, now))
}

/// A copy of the state. No version ever wrote one without a number to the second place.
fn read_copy(path: &Path, is_second: bool) -> Result<SavedCopy, JsonFileError> {
    match read_sealed::<NodeState>(path) {
        Ok(None) => Ok(SavedCopy::Missing),
        Ok(Some(found)) if found.value.running.is_empty() => {
            Ok(SavedCopy::Damaged("it names no version".into()))
        }
        Ok(Some(found)) if is_second && found.sequence.is_none() => {
            Ok(SavedCopy::Damaged("it has no number".into()))
        }
        Ok(Some(SealedValue { value, sequence })) => Ok(SavedCopy::Whole { node: Box::new(value), sequence }),
        Err(error) if error.is_permission() => Err(error),
        Err(error) => Ok(SavedCopy::Damaged(cause(&error))),
    }
}

/// The rest of the saved state, and what is wrong with its file.
///
/// # Errors
/// Fails when permission is denied: everything else is damage.
pub(super) fn read_watchdog(paths: &Paths) -> Result<(Option<SavedWatchdog>, Option<String>), JsonFileError> {
    match read_sealed::<SavedWatchdog>(&paths.watchdog()) {
        Ok(found) => {
            let saved =
                found.map(|found| SavedWatchdog { sequence: found.sequence.unwrap_or(0), ..found.value });
            Ok((saved, None))
        }
        Err(error) if error.is_permission() => Err(error),
        Err(error) => Ok((None, Some(format!("is damaged ({})", cause(&error))))),
    }
}

/// The reason without the name of the file.
fn cause(error: &JsonFileError) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), error_chain)
}

/// Moves a damaged file aside, for an investigation: `phase` becomes `phase.damaged`.
pub(super) fn move_aside(path: &Path) {
    let aside = path.with_extension("damaged");
    if std::fs::symlink_metadata(path).is_err() {
        return;
    }
    let gone = |path: &PathBuf| match std::fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
        Err(_) => Ok(()),
    };
    if let Err(error) = gone(&aside).and_then(|()| std::fs::rename(path, &aside)) {
        // The next write replaces it; without an investigation.
        tracing::warn!(path = %path.display(), %error, "cannot move a damaged file aside");
    }
}

impl DamageNote {
    /// True while people should know of it.
    pub(super) fn is_recent(&self, now: Timestamp) -> bool {
        now.duration_since(self.at).abs() < NOTE_AGE
    }
}

/// What is wrong with the files of the watchdog, or was in the last days, one line each with what it means. Reads only;
/// files that this user may not read are left out.
#[must_use]
pub fn file_problems(paths: &Paths, built_in: crate::slots::AgentProgram, now: Timestamp) -> Vec<String> {
    let (saved, damaged) = read_watchdog(paths).unwrap_or_default();
    let SavedWatchdog { damage, installed, sequence, .. } = saved.unwrap_or_default();
    let mut problems: Vec<String> =
        damage.into_iter().filter(|note| note.is_recent(now)).map(|note| note.text).collect();
    problems.extend(damaged.map(|problem| watchdog_note(&problem)));
    let slots = Slots::new(paths.slots(), installed.unwrap_or(built_in));
    if let Ok(found) = read_node(paths, &slots, sequence, now) {
        problems.extend(node_notes(&found));
    }
    problems
}

/// What is wrong with the copies of the state, with their names.
pub(super) fn node_notes(found: &RecoveredNode) -> Vec<String> {
    let first = found.first.iter().map(|problem| format!("state/phase {problem}"));
    let second = found.second.iter().map(|problem| format!("trust/phase {problem}"));
    first.chain(second).collect()
}

/// What a damaged `state/watchdog` means.
pub(super) fn watchdog_note(problem: &str) -> String {
    format!("state/watchdog {problem}: a running agent is found and stopped; nothing else is lost")
}

#[cfg(test)]
mod tests {
    use zagent_config::durable::testing::{check_cuts, check_syncs};

    use super::*;

    fn place() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state/phase");
        (dir, path)
    }

    fn sample() -> NodeState {
        let mut node = NodeState::with_version("0.2.0");
        node.previous = Some("0.1.0".into());
        node.rejected.insert("0.3.0".into(), "it exits".into());
        node
    }

    #[test]
    fn every_flipped_bit_is_found_unless_it_changes_nothing() {
        let (_dir, path) = place();
        write_sealed(&path, &sample(), 7).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let found = read_sealed::<NodeState>(&path).unwrap().unwrap();
        assert_eq!((&found.value, found.sequence), (&sample(), Some(7)));
        let mut unnoticed = 0;
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << bit;
                std::fs::write(&path, &flipped).unwrap();
                if let Ok(found) = read_sealed::<NodeState>(&path) {
                    unnoticed += 1;
                    assert_eq!(found.unwrap().value, sample(), "byte {at}, bit {bit}");
                }
            }
        }
        // The name of the check sum itself: then there is none.
        assert!(unnoticed <= 5 * 8, "{unnoticed}");
        for cut in 0..bytes.len() - 1 {
            std::fs::write(&path, &bytes[..cut]).unwrap();
            assert!(read_sealed::<NodeState>(&path).is_err(), "{cut} bytes");
        }
    }

    #[test]
    fn older_and_newer_versions_read_each_others_files() {
        let (_dir, path) = place();
        json_file::write(&path, &sample()).unwrap();
        let found = read_sealed::<NodeState>(&path).unwrap().unwrap();
        assert_eq!((found.value, found.sequence), (sample(), None));
        write_sealed(&path, &sample(), 7).unwrap();
        assert_eq!(json_file::read::<NodeState>(&path).unwrap(), Some(sample()));
    }

    #[test]
    fn anything_in_the_place_of_a_file_is_damage_and_is_moved_aside() {
        let (_dir, path) = place();
        std::fs::create_dir_all(path.join("inside")).unwrap();
        for _ in 0..2 {
            assert!(matches!(read_copy(&path, false).unwrap(), SavedCopy::Damaged(_)));
            move_aside(&path);
            assert!(!path.exists() && path.with_extension("damaged").exists());
            std::os::unix::fs::symlink("/dev/null", &path).unwrap();
        }
        std::fs::remove_file(&path).unwrap();
        move_aside(&path);
        assert_eq!(read_copy(&path, false).unwrap(), SavedCopy::Missing);
    }

    /// The confirmed version, the trial and the rejected versions are in the first two of these.
    #[test]
    fn every_sync_of_every_file_is_needed() {
        let of = |path: fn(&Paths) -> PathBuf| {
            let setup = || {
                let dir = tempfile::tempdir().unwrap();
                let root = dir.path().to_owned();
                // An older value: what is lost must not hide behind an empty place.
                write_sealed(&path(&Paths::new(&root)), &NodeState::with_version("0.1.0"), 6).unwrap();
                ((dir, path(&Paths::new(&root))), root)
            };
            check_syncs(
                setup,
                |(_, path)| write_sealed(path, &sample(), 7),
                |(_, path)| match read_sealed::<NodeState>(path) {
                    Ok(Some(found)) if found.value == sample() => Ok(()),
                    found => Err(format!("{:?}", found.map(|found| found.map(|found| found.value)))),
                },
            )
        };
        assert_eq!(of(Paths::phase), ["file state/phase.new", "dir state"]);
        assert_eq!(of(Paths::phase_copy), ["file trust/phase.new", "dir trust"]);
        assert_eq!(of(Paths::watchdog), ["file state/watchdog.new", "dir state"]);
    }

    /// A power cut between any two syncs of the two copies: the node continues with what was confirmed before or after.
    #[test]
    fn a_power_cut_at_any_moment_of_a_save_leaves_a_confirmed_version() {
        let slots = |root: &Path| {
            let path = root.join("usr-bin-zagent");
            Slots::new(root.join("slots"), crate::slots::AgentProgram { version: "0.0.1".into(), path })
        };
        let old = || NodeState::with_version("0.1.0");
        let save = |paths: &Paths, node: &NodeState, number| {
            write_sealed(&paths.phase(), node, number)?;
            write_sealed(&paths.phase_copy(), node, number)
        };
        let setup = || {
            let dir = tempfile::tempdir().unwrap();
            let root = dir.path().to_owned();
            save(&Paths::new(&root), &old(), 1).unwrap();
            (dir, root)
        };
        let cuts = check_cuts(
            setup,
            |dir| save(&Paths::new(dir.path()), &sample(), 2),
            |dir| {
                let found = read_node(&Paths::new(dir.path()), &slots(dir.path()), 1, Timestamp::UNIX_EPOCH);
                let found = found.map_err(|error| error.to_string())?;
                match found.is_damaged() || ![old(), sample()].contains(&found.node) {
                    true => Err(format!("{found:?}")),
                    false => Ok(()),
                }
            },
        );
        assert!(cuts > 3, "{cuts}");
    }

    #[test]
    fn problems_are_told_with_what_they_mean_and_not_forever() {
        let dir = tempfile::tempdir().unwrap();
        let paths = Paths::new(dir.path());
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let program =
            || crate::slots::AgentProgram { version: "0.1.0".into(), path: "/usr/bin/zagent".into() };
        let problems = || file_problems(&paths, program(), now);
        assert_eq!(problems(), Vec::<String>::new(), "a new node");
        write_sealed(&paths.phase(), &sample(), 7).unwrap();
        write_sealed(&paths.phase_copy(), &sample(), 7).unwrap();
        assert_eq!(problems(), Vec::<String>::new());
        std::fs::write(paths.phase(), "").unwrap();
        std::fs::write(paths.watchdog(), "{").unwrap();
        let found = problems();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].starts_with("state/watchdog is damaged (EOF"), "{found:?}");
        assert!(found[1].starts_with("state/phase is damaged (EOF"), "{found:?}");
        assert!(found[1].ends_with("): 0.2.0, the last confirmed version, runs"), "{found:?}");
        write_sealed(&paths.phase(), &sample(), 8).unwrap();
        let note = |days: i64| DamageNote {
            text: format!("{days} days ago"),
            at: now - SignedDuration::from_hours(days * 24),
        };
        let saved = SavedWatchdog { damage: vec![note(1), note(8)], ..SavedWatchdog::default() };
        write_sealed(&paths.watchdog(), &saved, 1).unwrap();
        assert_eq!(problems(), ["1 days ago"]);
    }
}
