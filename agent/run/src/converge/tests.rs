//! States that are made up, run to their end.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use zagent_states::testing::{StateTestBed, chunk};

/// A state that does what its name says, and counts its calls.
struct FakeState {
    what: &'static str,
    looks: Arc<AtomicUsize>,
    acts: Arc<AtomicUsize>,
}

impl State for FakeState {
    fn check(&mut self, _: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let before = self.looks.fetch_add(1, Ordering::Relaxed);
        match self.what {
            "panics when it looks" => panic!("no {}", "sight"),
            "panics with something else" => std::panic::panic_any(7_u8),
            "is right" => Ok(CheckResult::in_sync("fine")),
            "cannot look" | "cannot ever look" => Err(StateError::new("blind")),
            "is mended" if before > 0 => Ok(CheckResult::in_sync("fine")),
            "breaks when it looks again" if before > 0 => Err(StateError::new("gone")),
            "nobody knows" => Ok(CheckResult::unknown("fog")),
            _ => Ok(CheckResult::drifted("it would change", Map::from_iter([("x", "y")]))),
        }
    }

    fn apply(&mut self, _: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        self.acts.fetch_add(1, Ordering::Relaxed);
        let done = ApplyResult::new("done", Map::from_iter([("x", "y")]));
        match self.what {
            "panics when it acts" => panic!("no hands"),
            "fails half-way" => Err(done.into()),
            _ => Ok(done),
        }
    }

    fn is_convergent(&self) -> bool {
        self.what != "is an act"
    }

    fn reads(&self) -> Effects {
        Effects::SERVICES | Effects::USERS
    }

    fn writes(&self) -> Effects {
        Effects::SERVICES
    }

    fn still_valid(&self, _: &CheckResult, hidden: Effects) -> bool {
        hidden == Effects::USERS
    }

    fn fails_regardless(&self, hidden: Effects) -> bool {
        self.what == "cannot ever look" && hidden == Effects::USERS
    }

    fn predict_reaction(&mut self, _: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        Ok(CheckResult::drifted("it would react", Map::from_iter([("x", "y")])))
    }
}

/// How often a made-up state looked and acted.
type Calls = [Arc<AtomicUsize>; 2];

fn task(what: &'static str, args: &str, how: ConvergeMode) -> (StateTask<'static>, Calls) {
    let (looks, acts) = (Arc::default(), Arc::default());
    let state = FakeState { what, looks: Arc::clone(&looks), acts: Arc::clone(&acts) };
    let chunk = chunk("test.nop", "made up", args);
    let task = StateTask {
        index: 0,
        tag: chunk.tag(),
        chunk: std::borrow::Cow::Owned(chunk),
        state: Some(Box::new(state)),
        check_result: None,
        mode: how,
        should_react: ShouldReact::No,
        is_listener: false,
        is_denied: false,
        prior_effects: PriorEffects::default(),
        causes: Vec::new(),
        uncertain: None,
        start: Timestamp::now(),
        started_at: Instant::now(),
    };
    (task, [looks, acts])
}

/// Runs a made-up state; its result, its words, whether it changed something, and how often it looked and acted.
fn run(
    what: &'static str,
    args: &str,
    how: ConvergeMode,
    test_bed: &StateTestBed,
) -> (Option<bool>, String, bool, [usize; 2]) {
    let (mut task, calls) = task(what, args, how);
    let ended = task.run(&test_bed.scene());
    let calls = calls.map(|count| count.load(Ordering::Relaxed));
    (ended.result, ended.done.comment, !ended.done.changes.is_empty(), calls)
}

#[test]
fn behind_a_veil_only_what_is_seen_counts() {
    let test_bed = StateTestBed::strict();
    let rows = [
        ("is right", Effects::NONE, false, Some(true), false, Effects::NONE),
        ("changes", Effects::NONE, false, None, false, Effects::SERVICES),
        // What it does not look at, and what holds all the same.
        ("changes", Effects::KERNEL, false, None, false, Effects::SERVICES),
        ("is right", Effects::USERS, false, Some(true), false, Effects::NONE),
        // What it looks at may be otherwise by then.
        ("is right", Effects::SERVICES, false, None, true, Effects::SERVICES),
        ("changes", Effects::PACKAGE_CHANGE, false, None, true, Effects::SERVICES),
        ("cannot look", Effects::SERVICES, false, None, true, Effects::SERVICES),
        ("cannot look", Effects::KERNEL, false, Some(false), false, Effects::NONE),
        ("cannot ever look", Effects::USERS, false, Some(false), false, Effects::NONE),
        ("cannot ever look", Effects::SERVICES, false, None, true, Effects::SERVICES),
        // Either it changes or it reacts.
        ("is right", Effects::SERVICES, true, None, false, Effects::SERVICES),
    ];
    for (what, veil, react, result, unknown, left) in rows {
        let shadow = PriorEffects { unpredicted: veil, any: !veil.is_none(), ..PriorEffects::default() };
        let (mut task, _) = task(what, "{}", ConvergeMode::Simulate);
        (task.prior_effects, task.should_react) =
            (shadow, if react { ShouldReact::Yes } else { ShouldReact::No });
        let ended = task.run(&test_bed.scene());
        let found = (ended.result, ended.unknown, ended.unpredicted);
        assert_eq!(found, (result, unknown, left), "{what} behind {veil:?}: {}", ended.done.comment);
    }
}

/// What a real state foresees behind a veil: its result, whether that is unknown, and its words.
fn simulated(asked: (&str, &str, &str), veil: Effects, ctx: &StateCtx<'_>) -> (Option<bool>, bool, String) {
    let (mut task, _) = task("is right", "{}", ConvergeMode::Simulate);
    let chunk = chunk(asked.0, asked.1, asked.2);
    (task.state, task.tag) = (Some(zagent_states::testing::build_state(&chunk)), chunk.tag());
    task.prior_effects = PriorEffects { unpredicted: veil, any: !veil.is_none(), ..PriorEffects::default() };
    let ended = task.run(ctx);
    (ended.result, ended.unknown, ended.done.comment)
}

#[test]
fn a_package_is_taken_to_bring_a_directory_and_an_owner() {
    let test_bed = StateTestBed::strict();
    let overlay = zagent_host::fs::Overlay::new(Arc::new(zagent_host::disk::Disk::default()));
    let ctx = StateCtx { fs: &overlay, ..test_bed.scene() };
    let (dir, file) = (test_bed.path("brought"), test_bed.path("brought/conf"));
    let args = r#"{"contents": "x", "user": "nobody-has-this"}"#;
    let (result, unknown, words) = simulated(("file.managed", &file, args), Effects::PACKAGE_CHANGE, &ctx);
    assert_eq!((result, unknown), (None, false), "{words}");
    let lacks = format!("the user nobody-has-this and the directory {dir}");
    assert!(words.ends_with(&format!("\nA package before it is taken to bring {lacks}")), "{words}");
    let data = r#"{"dataset": {"a": 1}, "formatter": "json"}"#;
    let beside = test_bed.path("brought/too/data");
    let (result, unknown, words) =
        simulated(("file.serialize", &beside, data), Effects::PACKAGE_CHANGE, &ctx);
    assert_eq!((result, unknown), (None, false), "{words}");
    // Nobody knows more of the directory than that.
    let (_, unknown, words) = simulated(("file.directory", &dir, "{}"), Effects::PACKAGE_CHANGE, &ctx);
    assert!(unknown, "{words}");
    // A command may do anything, and what nothing brings is missing.
    let other = test_bed.path("other/conf");
    let (_, unknown, words) =
        simulated(("file.managed", &other, args), Effects::PACKAGE_CHANGE | Effects::FILES, &ctx);
    assert!(unknown && words.contains("may be others by then"), "{words}");
    let (result, unknown, words) = simulated(("file.managed", &other, args), Effects::NONE, &ctx);
    assert_eq!((result, unknown), (Some(false), false), "{words}");
}

#[test]
fn what_watches_something_unknown_is_told_by_what_it_does_itself() {
    let test_bed = StateTestBed::strict();
    for (what, unknown) in [("changes", false), ("is right", true), ("cannot look", false)] {
        let (mut task, _) = task(what, "{}", ConvergeMode::Simulate);
        task.should_react = ShouldReact::Maybe;
        let ended = task.run(&test_bed.scene());
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
        let ended = run(what, "{}", ConvergeMode::Apply, &StateTestBed::strict());
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
        for how in [ConvergeMode::CheckOnly, ConvergeMode::Simulate] {
            let ended = run(what, "{}", how, &StateTestBed::strict());
            assert_eq!((ended.0, ended.3), (result, calls), "{what} {how:?}");
        }
    }
}

#[test]
fn a_panic_is_the_failure_of_that_state() {
    let fault = "a fault inside zagent stopped this state: ";
    for (what, how, words) in [
        ("panics when it looks", ConvergeMode::Apply, "no sight"),
        ("panics when it looks", ConvergeMode::Simulate, "no sight"),
        ("panics when it acts", ConvergeMode::Apply, "no hands"),
        ("panics with something else", ConvergeMode::CheckOnly, "no words"),
    ] {
        let (result, comment, ..) = run(what, "{}", how, &StateTestBed::strict());
        assert_eq!((result, comment), (Some(false), format!("{fault}{words}")), "{what}");
    }
}

#[test]
fn only_a_change_is_tried_again() {
    let test_bed = StateTestBed::strict();
    let retry = r#"{"retry": {"attempts": 3, "interval": 0}}"#;
    let (result, comment, _, calls) = run("fails half-way", retry, ConvergeMode::Apply, &test_bed);
    let tried = |n: u8| {
        format!("Attempt {n}: Returned a result of \"False\", with the following comment: \"done\"\n")
    };
    assert_eq!((result, comment), (Some(false), format!("{}{}done", tried(1), tried(2))));
    assert_eq!(calls, [3, 3]);
    for how in [ConvergeMode::CheckOnly, ConvergeMode::Simulate] {
        assert_eq!(run("cannot look", retry, how, &test_bed).3, [1, 0], "{how:?}");
    }
    test_bed.cancel.cancel();
    let (result, comment, _, calls) = run("fails half-way", retry, ConvergeMode::Apply, &test_bed);
    assert_eq!(
        (result, comment.as_str(), calls),
        (Some(false), "done", [1, 1]),
        "nobody tries again once it is stopped"
    );
}
