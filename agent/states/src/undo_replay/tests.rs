//! A made-up thing, changed and put back.

use std::sync::Mutex;

use super::*;
use crate::testing::StateTestBed;
use zagent_host::disk::Disk;
use zagent_host::fs::FileSystem as _;
use zagent_host::undo::{JournalReader, JournalRecord, UndoJournal};

/// A lamp: on, off or not there.
struct TestLamp;

static LAMP: Mutex<Value> = Mutex::new(Value::Null);

impl Undoable for TestLamp {
    fn kind(&self) -> &'static str {
        "lamp"
    }

    fn capture(&self, _: &Value, _: &StateCtx<'_>) -> Result<Value, StateError> {
        Ok(LAMP.lock().unwrap().clone())
    }

    fn restore(&self, _: &Value, to: &Value, _: &StateCtx<'_>) -> Result<(), StateError> {
        *LAMP.lock().unwrap() = to.clone();
        Ok(())
    }
}

fn set(to: &str) -> Result<(), StateError> {
    *LAMP.lock().unwrap() = to.into();
    Ok(())
}

/// The notes of a journal, the last first.
fn notes(root: &std::path::Path, run: &str) -> Vec<UndoNote> {
    let notes = JournalReader::open(&root.join(run)).unwrap();
    let data = |record: &JournalRecord| match record {
        JournalRecord::Other { data, .. } => UndoNote::read(data),
        _ => None,
    };
    notes.records().iter().rev().filter_map(data).collect()
}

#[test]
fn a_thing_is_put_back_unless_somebody_else_changed_it() {
    let test_bed = StateTestBed::new();
    let root = tempfile::tempdir().unwrap();
    let journal = UndoJournal::create(root.path(), "one").unwrap();
    let disk = Disk::default();
    let ctx = StateCtx { journal: Some(&journal), tag: "t", fs: &disk, ..test_bed.scene() };
    *LAMP.lock().unwrap() = Value::Null;
    ctx.with_undo(&TestLamp, "hall", || set("off")).unwrap();
    ctx.with_undo(&TestLamp, "hall", || set("on")).unwrap();
    let noted = notes(root.path(), "one");
    assert_eq!(noted.len(), 4, "before and after, twice");
    assert_eq!(noted[0].describe(), "lamp hall");
    let many = UndoNote { key: "a b c d e f g h".into(), ..noted[0].clone() };
    assert_eq!(many.describe(), "lamp a b c d e and 3 more");

    let back = |is_forced: bool, test: bool| {
        let mut returns = UndoReplay::default();
        let mut told = Vec::new();
        for note in &noted {
            match returns.restore_note(&TestLamp, note, RestoreOptions { is_forced, test }, &ctx) {
                Ok(None) => {}
                Ok(Some(RestoreOutcome::Restored(done))) => told.push(done.comment),
                Ok(Some(RestoreOutcome::AlreadyRestored)) => told.push("already".into()),
                Ok(Some(RestoreOutcome::Skipped(why))) => told.push(why),
                Err(failure) => told.push(failure.result.comment),
            }
        }
        told
    };
    set("broken").unwrap();
    assert_eq!(back(false, false), ["lamp hall was changed since", "lamp hall was changed since"]);
    set("on").unwrap();
    assert_eq!(back(false, true), ["lamp hall would be put back", "lamp hall would be put back"]);
    assert_eq!(*LAMP.lock().unwrap(), "on".into(), "a dry run changes nothing");
    assert_eq!(back(false, false), ["lamp hall put back", "lamp hall put back"]);
    assert_eq!(*LAMP.lock().unwrap(), Value::Null);
    // The revert is noted as well, so that it can be undone in its turn.
    assert_eq!(notes(root.path(), "one").len(), 8);
    set("broken").unwrap();
    assert_eq!(back(true, false)[1], "lamp hall put back");
}

/// A box that nobody may throw away: there is something in it.
struct TestBox;

impl Undoable for TestBox {
    fn kind(&self) -> &'static str {
        "box"
    }

    fn capture(&self, _: &Value, _: &StateCtx<'_>) -> Result<Value, StateError> {
        Ok("closed".into())
    }

    fn restore(&self, _: &Value, _: &Value, _: &StateCtx<'_>) -> Result<(), StateError> {
        Err(StateError::new("thrown away"))
    }

    fn removal_blocker(&self, _: &Value, _: &StateCtx<'_>) -> Result<Option<String>, StateError> {
        Ok(Some("there are letters in it".to_owned()))
    }
}

#[test]
fn what_holds_something_is_kept_even_when_forced() {
    let test_bed = StateTestBed::new();
    let note = |how: UndoSnapshot| UndoNote { thing: "box".into(), key: "blue".into(), snapshot: how };
    let put = |before: Value, is_forced: bool| {
        let course = RestoreOptions { is_forced, test: false };
        match UndoReplay::default().restore_note(
            &TestBox,
            &note(UndoSnapshot::Before(before)),
            course,
            &test_bed.scene(),
        ) {
            Ok(Some(RestoreOutcome::Skipped(why))) => why,
            other => format!("{other:?}"),
        }
    };
    for is_forced in [false, true] {
        assert_eq!(put(Value::Null, is_forced), "box blue is kept: there are letters in it");
    }
    // What was there before is only put back.
    assert!(put("open".into(), false).contains("thrown away"));
}

/// A nest: a directory of files that nobody noted.
struct TestNest;

impl Undoable for TestNest {
    fn kind(&self) -> &'static str {
        "nest"
    }

    fn capture(&self, key: &Value, ctx: &StateCtx<'_>) -> Result<Value, StateError> {
        let found = ctx.fs.lstat(key.as_str().unwrap_or_default().as_ref())?;
        Ok(found.map_or(Value::Null, |_| "built".into()))
    }

    fn restore(&self, key: &Value, _: &Value, ctx: &StateCtx<'_>) -> Result<(), StateError> {
        Ok(ctx.fs.remove(key.as_str().unwrap_or_default().as_ref())?)
    }

    fn simulate_restore(&self, key: &Value, to: &Value, ctx: &StateCtx<'_>) -> Result<(), StateError> {
        self.restore(key, to, ctx)
    }

    fn leftovers(&self, _: &Value, _: &StateCtx<'_>) -> Result<Option<String>, StateError> {
        Ok(Some("an egg stays".to_owned()))
    }
}

#[test]
fn a_dry_run_takes_files_away_that_go_with_a_thing() {
    let test_bed = StateTestBed::new();
    let path = test_bed.path("nest");
    std::fs::write(&path, "").unwrap();
    let overlay = zagent_host::fs::Overlay::new(std::sync::Arc::new(Disk::default()));
    let ctx = StateCtx { fs: &overlay, ..test_bed.scene() };
    let note = UndoNote {
        thing: "nest".into(),
        key: path.as_str().into(),
        snapshot: UndoSnapshot::Before(Value::Null),
    };
    let put = |test| match UndoReplay::default().restore_note(
        &TestNest,
        &note,
        RestoreOptions { is_forced: false, test },
        &ctx,
    ) {
        Ok(Some(RestoreOutcome::Restored(done))) => done.comment,
        other => format!("{other:?}"),
    };
    assert_eq!(put(true), format!("nest {path} would be put back; an egg stays"));
    assert!(test_bed.exists("nest") && overlay.lstat(path.as_ref()).unwrap().is_none());
}

#[test]
fn what_failed_half_way_is_noted_all_the_same() {
    let test_bed = StateTestBed::new();
    let root = tempfile::tempdir().unwrap();
    let journal = UndoJournal::create(root.path(), "one").unwrap();
    let ctx = StateCtx { journal: Some(&journal), tag: "t", ..test_bed.scene() };
    let failed: Result<(), StateError> =
        ctx.with_undo(&TestLamp, "attic", || Err(StateError::new("no ladder")));
    assert_eq!(failed.unwrap_err().result.comment, "no ladder");
    assert_eq!(notes(root.path(), "one").len(), 2);
    // Somebody else's notes are none of ours.
    assert_eq!(UndoNote::read(&serde_json::json!({"call": "revert", "module": "x"})), None);
}
