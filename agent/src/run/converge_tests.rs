//! States that are made up, run to their end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::states::stage::{Stage, chunk};

/// A state that does what its name says, and counts its calls.
struct Act {
    what: &'static str,
    looks: Arc<AtomicUsize>,
    acts: Arc<AtomicUsize>,
}

impl State for Act {
    fn check(&mut self, _: &Scene<'_>) -> Result<Look, Failure> {
        let before = self.looks.fetch_add(1, Ordering::Relaxed);
        match self.what {
            "panics when it looks" => panic!("no {}", "sight"),
            "panics with something else" => std::panic::panic_any(7_u8),
            "is right" => Ok(Look::right("fine")),
            "cannot look" | "cannot ever look" => Err(Failure::new("blind")),
            "is mended" if before > 0 => Ok(Look::right("fine")),
            "breaks when it looks again" if before > 0 => Err(Failure::new("gone")),
            "nobody knows" => Ok(Look::unknown("fog")),
            _ => Ok(Look::drift("it would change", Map::from_iter([("x", "y")]))),
        }
    }

    fn apply(&mut self, _: &Scene<'_>) -> Result<Done, Failure> {
        self.acts.fetch_add(1, Ordering::Relaxed);
        let done = Done::new("done", Map::from_iter([("x", "y")]));
        match self.what {
            "panics when it acts" => panic!("no hands"),
            "fails half-way" => Err(done.into()),
            _ => Ok(done),
        }
    }

    fn is_lasting(&self) -> bool {
        self.what != "is an act"
    }

    fn sees(&self) -> Veil {
        Veil::SERVICES | Veil::USERS
    }

    fn veils(&self) -> Veil {
        Veil::SERVICES
    }

    fn holds(&self, _: &Look, hidden: Veil) -> bool {
        hidden == Veil::USERS
    }

    fn is_lost(&self, hidden: Veil) -> bool {
        self.what == "cannot ever look" && hidden == Veil::USERS
    }

    fn foresee(&mut self, _: &Scene<'_>) -> Result<Look, Failure> {
        Ok(Look::drift("it would react", Map::from_iter([("x", "y")])))
    }
}

/// How often a made-up state looked and acted.
type Calls = [Arc<AtomicUsize>; 2];

fn task(what: &'static str, args: &str, how: How) -> (Task<'static>, Calls) {
    let (looks, acts) = (Arc::default(), Arc::default());
    let state = Act { what, looks: Arc::clone(&looks), acts: Arc::clone(&acts) };
    let chunk = chunk("test.nop", "made up", args);
    let task = Task {
        index: 0,
        tag: chunk.tag(),
        chunk: std::borrow::Cow::Owned(chunk),
        state: Some(Box::new(state)),
        looked: None,
        how,
        react: Reacts::No,
        listener: false,
        shadow: Shadow::default(),
        start: Timestamp::now(),
        begun: Instant::now(),
    };
    (task, [looks, acts])
}

/// Runs a made-up state; its result, its words, whether it changed something, and how often it looked and acted.
fn run(what: &'static str, args: &str, how: How, stage: &Stage) -> (Option<bool>, String, bool, [usize; 2]) {
    let (mut task, calls) = task(what, args, how);
    let ended = task.run(&stage.scene());
    let calls = calls.map(|count| count.load(Ordering::Relaxed));
    (ended.result, ended.done.comment, !ended.done.changes.is_empty(), calls)
}

#[test]
fn behind_a_veil_only_what_is_seen_counts() {
    let stage = Stage::strict();
    let rows = [
        ("is right", Veil::NONE, false, Some(true), false, Veil::NONE),
        ("changes", Veil::NONE, false, None, false, Veil::SERVICES),
        // What it does not look at, and what holds all the same.
        ("changes", Veil::KERNEL, false, None, false, Veil::SERVICES),
        ("is right", Veil::USERS, false, Some(true), false, Veil::NONE),
        // What it looks at may be otherwise by then.
        ("is right", Veil::SERVICES, false, None, true, Veil::SERVICES),
        ("changes", Veil::PACKAGE, false, None, true, Veil::SERVICES),
        ("cannot look", Veil::SERVICES, false, None, true, Veil::SERVICES),
        ("cannot look", Veil::KERNEL, false, Some(false), false, Veil::NONE),
        ("cannot ever look", Veil::USERS, false, Some(false), false, Veil::NONE),
        ("cannot ever look", Veil::SERVICES, false, None, true, Veil::SERVICES),
        // Either it changes or it reacts.
        ("is right", Veil::SERVICES, true, None, false, Veil::SERVICES),
    ];
    for (what, veil, react, result, unknown, left) in rows {
        let shadow = Shadow { veil, any: !veil.is_none(), ..Shadow::default() };
        let (mut task, _) = task(what, "{}", How::Foresee);
        (task.shadow, task.react) = (shadow, if react { Reacts::Yes } else { Reacts::No });
        let ended = task.run(&stage.scene());
        let found = (ended.result, ended.unknown, ended.veil);
        assert_eq!(found, (result, unknown, left), "{what} behind {veil:?}: {}", ended.done.comment);
    }
}

/// What a real state foresees behind a veil: its result, whether that is unknown, and its words.
fn foreseen(asked: (&str, &str, &str), veil: Veil, scene: &Scene<'_>) -> (Option<bool>, bool, String) {
    let (mut task, _) = task("is right", "{}", How::Foresee);
    let chunk = chunk(asked.0, asked.1, asked.2);
    (task.state, task.tag) = (Some(crate::states::stage::built(&chunk)), chunk.tag());
    task.shadow = Shadow { veil, any: !veil.is_none(), ..Shadow::default() };
    let ended = task.run(scene);
    (ended.result, ended.unknown, ended.done.comment)
}

#[test]
fn a_package_is_taken_to_bring_a_directory_and_an_owner() {
    let stage = Stage::strict();
    let overlay = crate::fs::Overlay::new(Arc::new(crate::fs::Disk::default()));
    let scene = Scene { fs: &overlay, ..stage.scene() };
    let (dir, file) = (stage.path("brought"), stage.path("brought/conf"));
    let args = r#"{"contents": "x", "user": "nobody-has-this"}"#;
    let (result, unknown, words) = foreseen(("file.managed", &file, args), Veil::PACKAGE, &scene);
    assert_eq!((result, unknown), (None, false), "{words}");
    let lacks = format!("the user nobody-has-this and the directory {dir}");
    assert!(words.ends_with(&format!("\nA package before it is taken to bring {lacks}")), "{words}");
    let data = r#"{"dataset": {"a": 1}, "formatter": "json"}"#;
    let beside = stage.path("brought/too/data");
    let (result, unknown, words) = foreseen(("file.serialize", &beside, data), Veil::PACKAGE, &scene);
    assert_eq!((result, unknown), (None, false), "{words}");
    // Nobody knows more of the directory than that.
    let (_, unknown, words) = foreseen(("file.directory", &dir, "{}"), Veil::PACKAGE, &scene);
    assert!(unknown, "{words}");
    // A command may do anything, and what nothing brings is missing.
    let other = stage.path("other/conf");
    let (_, unknown, words) = foreseen(("file.managed", &other, args), Veil::PACKAGE | Veil::FILES, &scene);
    assert!(unknown && words.contains("may be others by then"), "{words}");
    let (result, unknown, words) = foreseen(("file.managed", &other, args), Veil::NONE, &scene);
    assert_eq!((result, unknown), (Some(false), false), "{words}");
}

#[test]
fn what_watches_something_unknown_is_told_by_what_it_does_itself() {
    let stage = Stage::strict();
    for (what, unknown) in [("changes", false), ("is right", true), ("cannot look", false)] {
        let (mut task, _) = task(what, "{}", How::Foresee);
        task.react = Reacts::Perhaps;
        let ended = task.run(&stage.scene());
        assert_eq!(ended.unknown, unknown, "{what}: {}", ended.done.comment);
    }
}

#[test]
fn look_change_and_look_again() {
    let still = "done\nIt was applied, and is still not as it should be: it would change";
    let rows = [
        ("is right", Some(true), "fine", false, [1, 0]),
        ("is mended", Some(true), "done", true, [2, 1]),
        ("is an act", Some(true), "done", true, [1, 1]),
        ("stays wrong", Some(false), still, true, [2, 1]),
        (
            "breaks when it looks again",
            Some(false),
            "done\nIt was applied, and is still not as it should be: gone",
            true,
            [2, 1],
        ),
        ("cannot look", Some(false), "blind", false, [1, 0]),
        ("fails half-way", Some(false), "done", true, [1, 1]),
        ("nobody knows", Some(true), "done", true, [2, 1]),
    ];
    for (what, result, comment, changed, calls) in rows {
        let ended = run(what, "{}", How::Apply, &Stage::strict());
        assert_eq!(ended, (result, comment.to_owned(), changed, calls), "{what}");
    }
}

#[test]
fn a_look_alone_changes_nothing() {
    let rows = [
        ("is right", Some(true), [1, 0]),
        ("stays wrong", None, [1, 0]),
        ("nobody knows", None, [1, 0]),
        ("cannot look", Some(false), [1, 0]),
    ];
    for (what, result, calls) in rows {
        for how in [How::Look, How::Foresee] {
            let ended = run(what, "{}", how, &Stage::strict());
            assert_eq!((ended.0, ended.3), (result, calls), "{what} {how:?}");
        }
    }
}

#[test]
fn a_panic_is_the_failure_of_that_state() {
    let fault = "a fault inside zagent stopped this state: ";
    for (what, how, words) in [
        ("panics when it looks", How::Apply, "no sight"),
        ("panics when it looks", How::Foresee, "no sight"),
        ("panics when it acts", How::Apply, "no hands"),
        ("panics with something else", How::Look, "no words"),
    ] {
        let (result, comment, ..) = run(what, "{}", how, &Stage::strict());
        assert_eq!((result, comment), (Some(false), format!("{fault}{words}")), "{what}");
    }
}

#[test]
fn only_a_change_is_tried_again() {
    let stage = Stage::strict();
    let retry = r#"{"retry": {"attempts": 3, "interval": 0}}"#;
    let (result, comment, _, calls) = run("fails half-way", retry, How::Apply, &stage);
    let tried = |n: u8| {
        format!("Attempt {n}: Returned a result of \"False\", with the following comment: \"done\"\n")
    };
    assert_eq!((result, comment), (Some(false), format!("{}{}done", tried(1), tried(2))));
    assert_eq!(calls, [3, 3]);
    for how in [How::Look, How::Foresee] {
        assert_eq!(run("cannot look", retry, how, &stage).3, [1, 0], "{how:?}");
    }
    stage.cancel.say();
    let (result, comment, _, calls) = run("fails half-way", retry, How::Apply, &stage);
    assert_eq!(
        (result, comment.as_str(), calls),
        (Some(false), "done", [1, 1]),
        "nobody tries again once it is stopped"
    );
}
