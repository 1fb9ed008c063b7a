//! A made-up thing, changed and put back.

use std::sync::Mutex;

use super::*;
use crate::fs::{Disk, FileSystem as _};
use crate::states::stage::Stage;
use crate::undo::{Journal, Notes, Record};

/// A lamp: on, off or not there.
struct Lamp;

static LAMP: Mutex<Value> = Mutex::new(Value::Null);

impl Thing for Lamp {
    fn kind(&self) -> &'static str {
        "lamp"
    }

    fn look(&self, _: &Value, _: &Scene<'_>) -> Result<Value, Failure> {
        Ok(LAMP.lock().unwrap().clone())
    }

    fn put(&self, _: &Value, to: &Value, _: &Scene<'_>) -> Result<(), Failure> {
        *LAMP.lock().unwrap() = to.clone();
        Ok(())
    }
}

fn set(to: &str) -> Result<(), Failure> {
    *LAMP.lock().unwrap() = to.into();
    Ok(())
}

/// The notes of a journal, the last first.
fn notes(root: &std::path::Path, run: &str) -> Vec<ThingNote> {
    let notes = Notes::open(&root.join(run)).unwrap();
    let data = |record: &Record| match record {
        Record::Other { data, .. } => ThingNote::read(data),
        _ => None,
    };
    notes.records().iter().rev().filter_map(data).collect()
}

#[test]
fn a_thing_is_put_back_unless_somebody_else_changed_it() {
    let stage = Stage::new();
    let root = tempfile::tempdir().unwrap();
    let journal = Journal::create(root.path(), "one").unwrap();
    let disk = Disk::default();
    let scene = Scene { journal: Some(&journal), tag: "t", fs: &disk, ..stage.scene() };
    *LAMP.lock().unwrap() = Value::Null;
    scene.change(&Lamp, "hall", || set("off")).unwrap();
    scene.change(&Lamp, "hall", || set("on")).unwrap();
    let noted = notes(root.path(), "one");
    assert_eq!(noted.len(), 4, "before and after, twice");
    assert_eq!(noted[0].what(), "lamp hall");
    let many = ThingNote { key: "a b c d e f g h".into(), ..noted[0].clone() };
    assert_eq!(many.what(), "lamp a b c d e and 3 more");

    let back = |is_forced: bool, test: bool| {
        let mut returns = Returns::default();
        let mut told = Vec::new();
        for note in &noted {
            match returns.put(&Lamp, note, Course { is_forced, test }, &scene) {
                Ok(None) => {}
                Ok(Some(PutBack::Done(done))) => told.push(done.comment),
                Ok(Some(PutBack::Already)) => told.push("already".into()),
                Ok(Some(PutBack::Kept(why))) => told.push(why),
                Err(failure) => told.push(failure.done.comment),
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
struct Box;

impl Thing for Box {
    fn kind(&self) -> &'static str {
        "box"
    }

    fn look(&self, _: &Value, _: &Scene<'_>) -> Result<Value, Failure> {
        Ok("closed".into())
    }

    fn put(&self, _: &Value, _: &Value, _: &Scene<'_>) -> Result<(), Failure> {
        Err(Failure::new("thrown away"))
    }

    fn full(&self, _: &Value, _: &Scene<'_>) -> Result<Option<String>, Failure> {
        Ok(Some("there are letters in it".to_owned()))
    }
}

#[test]
fn what_holds_something_is_kept_even_when_forced() {
    let stage = Stage::new();
    let note = |how: How| ThingNote { thing: "box".into(), key: "blue".into(), how };
    let put = |before: Value, is_forced: bool| {
        let course = Course { is_forced, test: false };
        match Returns::default().put(&Box, &note(How::Before(before)), course, &stage.scene()) {
            Ok(Some(PutBack::Kept(why))) => why,
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
struct Nest;

impl Thing for Nest {
    fn kind(&self) -> &'static str {
        "nest"
    }

    fn look(&self, key: &Value, scene: &Scene<'_>) -> Result<Value, Failure> {
        let found = scene.fs.lstat(key.as_str().unwrap_or_default().as_ref())?;
        Ok(found.map_or(Value::Null, |_| "built".into()))
    }

    fn put(&self, key: &Value, _: &Value, scene: &Scene<'_>) -> Result<(), Failure> {
        Ok(scene.fs.remove(key.as_str().unwrap_or_default().as_ref())?)
    }

    fn imagine(&self, key: &Value, to: &Value, scene: &Scene<'_>) -> Result<(), Failure> {
        self.put(key, to, scene)
    }

    fn stays(&self, _: &Value, _: &Scene<'_>) -> Result<Option<String>, Failure> {
        Ok(Some("an egg stays".to_owned()))
    }
}

#[test]
fn a_dry_run_takes_files_away_that_go_with_a_thing() {
    let stage = Stage::new();
    let path = stage.path("nest");
    std::fs::write(&path, "").unwrap();
    let overlay = crate::fs::Overlay::new(std::sync::Arc::new(Disk::default()));
    let scene = Scene { fs: &overlay, ..stage.scene() };
    let note = ThingNote { thing: "nest".into(), key: path.as_str().into(), how: How::Before(Value::Null) };
    let put = |test| match Returns::default().put(&Nest, &note, Course { is_forced: false, test }, &scene) {
        Ok(Some(PutBack::Done(done))) => done.comment,
        other => format!("{other:?}"),
    };
    assert_eq!(put(true), format!("nest {path} would be put back; an egg stays"));
    assert!(stage.exists("nest") && overlay.lstat(path.as_ref()).unwrap().is_none());
}

#[test]
fn what_failed_half_way_is_noted_all_the_same() {
    let stage = Stage::new();
    let root = tempfile::tempdir().unwrap();
    let journal = Journal::create(root.path(), "one").unwrap();
    let scene = Scene { journal: Some(&journal), tag: "t", ..stage.scene() };
    let failed: Result<(), Failure> = scene.change(&Lamp, "attic", || Err(Failure::new("no ladder")));
    assert_eq!(failed.unwrap_err().done.comment, "no ladder");
    assert_eq!(notes(root.path(), "one").len(), 2);
    // Somebody else's notes are none of ours.
    assert_eq!(ThingNote::read(&serde_json::json!({"call": "revert", "module": "x"})), None);
}
