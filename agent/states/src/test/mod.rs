//! States of the module `test`: they answer from their arguments alone.
//!
//! A real run and a dry run each have their own answer, because that is what these states are for.

pub mod pillar;

use std::hash::{BuildHasher, RandomState};

use zagent_compiler::Compat;
use zagent_config::{Map, Value};

use super::{
    ApplyResult, BuildResult, CheckCost, CheckResult, ChunkArgs, Effects, State, StateCtx, StateError,
    StateModule,
};

/// The module `test`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "test",
    build,
    functions: &[],
    undo: &[],
    description: include_str!("description.txt"),
};

/// The state that a function of this module makes; nothing when there is no such function.
fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    let fun = match fun {
        "nop" => TestFunction::Nop,
        "succeed_without_changes" => TestFunction::Succeed,
        "succeed_with_changes" => TestFunction::SucceedChanged,
        "fail_without_changes" => TestFunction::Fail,
        "fail_with_changes" => TestFunction::FailChanged,
        "configurable_test_state" => TestFunction::Configurable,
        "show_notification" => TestFunction::Notification,
        "check_pillar" => TestFunction::Pillar,
        "mod_watch" => TestFunction::Watch,
        _ => return None,
    };
    Some(Ok(Box::new(TestState { fun, tag: args.chunk.tag(), args: args.chunk.args.clone() })))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TestFunction {
    Nop,
    Succeed,
    SucceedChanged,
    Fail,
    FailChanged,
    Configurable,
    Notification,
    Pillar,
    Watch,
}

struct TestState {
    fun: TestFunction,
    tag: String,
    args: Map,
}

/// What a state says: a result (none: it would change), changes and a comment.
struct TestReply {
    result: Option<bool>,
    changes: Map,
    comment: String,
}

impl TestReply {
    fn new(result: bool, comment: impl Into<String>) -> Self {
        Self { result: Some(result), changes: Map::new(), comment: comment.into() }
    }

    fn with_changes(self) -> Self {
        Self { changes: fake_changes(), ..self }
    }

    fn into_apply_result(self) -> Result<ApplyResult, StateError> {
        let done = ApplyResult::new(self.comment, self.changes);
        if self.result == Some(false) { Err(done.into()) } else { Ok(done) }
    }

    fn into_check_result(self) -> Result<CheckResult, StateError> {
        match self.result {
            None => Ok(CheckResult::drifted(self.comment, self.changes)),
            Some(true) => Ok(CheckResult { changes: self.changes, ..CheckResult::in_sync(self.comment) }),
            Some(false) => Err(ApplyResult::new(self.comment, self.changes).into()),
        }
    }
}

fn fake_changes() -> Map {
    let change = Map::from_iter([("old", "Unchanged"), ("new", "Something pretended to change")]);
    Map::from_iter([("testing", change)])
}

/// What Salt says of an argument that cannot be used.
fn argument_error(ctx: &StateCtx<'_>, words: &str) -> StateError {
    StateError::new(match ctx.compat {
        Compat::Salt => {
            format!("An exception occurred in this state: salt.exceptions.SaltInvocationError: {words}")
        }
        Compat::Strict => words.to_owned(),
    })
}

/// True or false, or one of them by chance.
enum FixedOrRandom {
    Fixed(bool),
    Random,
}

impl FixedOrRandom {
    fn pick(&self) -> bool {
        match self {
            Self::Fixed(value) => *value,
            Self::Random => RandomState::new().hash_one(0_u8) & 1 == 0,
        }
    }
}

impl TestState {
    fn comment(&self, default: &str) -> String {
        self.args.get("comment").map_or_else(|| default.to_owned(), zagent_host::command_options::value_text)
    }

    /// What a real run answers.
    fn run_reply(&self, ctx: &StateCtx<'_>) -> Result<TestReply, StateError> {
        Ok(match self.fun {
            TestFunction::Nop => TestReply::new(true, "Success!"),
            TestFunction::Succeed => TestReply::new(true, self.comment("Success!")),
            TestFunction::SucceedChanged => TestReply::new(true, self.comment("Success!")).with_changes(),
            TestFunction::Fail => TestReply::new(false, self.comment("Failure!")),
            TestFunction::FailChanged => TestReply::new(false, self.comment("Failure!")).with_changes(),
            TestFunction::Configurable => {
                let (changes, result) = self.configured_choices(ctx)?;
                let answer = TestReply::new(result.pick(), self.comment(""));
                if changes.pick() { answer.with_changes() } else { answer }
            }
            TestFunction::Notification => match self.args.get("text").filter(|t| t.is_truthy()) {
                Some(text) => TestReply::new(true, zagent_host::command_options::value_text(text)),
                None => return Err(argument_error(ctx, "Missing required argument text.")),
            },
            TestFunction::Pillar => {
                let (result, comment) =
                    pillar::check_pillar(&self.args, ctx.pillar).map_err(|w| argument_error(ctx, w))?;
                TestReply::new(result, comment)
            }
            TestFunction::Watch => self.watch_reply(ctx),
        })
    }

    /// What a dry run answers; it differs from the real one in words, and for some in the result.
    fn dry_run_reply(&self, ctx: &StateCtx<'_>) -> Result<TestReply, StateError> {
        let would =
            |comment: &str| TestReply { result: None, changes: fake_changes(), comment: comment.into() };
        Ok(match self.fun {
            TestFunction::SucceedChanged => {
                would("If we weren't testing, this would be successful with changes")
            }
            TestFunction::FailChanged => would("If we weren't testing, this would be failed with changes"),
            TestFunction::Fail => TestReply::new(false, "If we weren't testing, this would be a failure!"),
            TestFunction::Configurable => {
                let (changes, result) = self.configured_choices(ctx)?;
                let may_fail = self.args.get("allow_test_mode_failure").is_some_and(Value::is_truthy);
                let comment = match self.comment("") {
                    none if none.is_empty() => "This is a test".into(),
                    comment => comment,
                };
                let result = match (&changes, result) {
                    (_, FixedOrRandom::Fixed(false)) if may_fail => Some(false),
                    (FixedOrRandom::Fixed(false), _) => Some(true),
                    _ => None,
                };
                let answer = TestReply { result, changes: Map::new(), comment };
                if matches!(changes, FixedOrRandom::Fixed(true)) { answer.with_changes() } else { answer }
            }
            _ => self.run_reply(ctx)?,
        })
    }

    /// `changes` and `result` of a configurable state.
    fn configured_choices(&self, ctx: &StateCtx<'_>) -> Result<(FixedOrRandom, FixedOrRandom), StateError> {
        let choice = |key: &str| match self.args.get(key) {
            None => Ok(FixedOrRandom::Fixed(true)),
            Some(Value::Bool(value)) => Ok(FixedOrRandom::Fixed(*value)),
            Some(Value::Str(word)) if word.eq_ignore_ascii_case("random") => Ok(FixedOrRandom::Random),
            Some(_) => {
                let words = format!(
                    "You have specified the state option '{key}' with invalid arguments. It must be either True, False, or \
                     'Random'"
                );
                Err(argument_error(ctx, &words))
            }
        };
        let choices = (choice("changes")?, choice("result")?);
        match self.args.get("warnings") {
            None | Some(Value::Null | Value::Str(_) | Value::List(_)) => Ok(choices),
            Some(_) => {
                let words = "You have specified the state option 'warnings' with invalid arguments. It must be a string or a \
                             list of strings";
                Err(argument_error(ctx, words))
            }
        }
    }

    /// What a watch answers: `result`, `comment` and `changes` may be given.
    fn watch_reply(&self, ctx: &StateCtx<'_>) -> TestReply {
        let fired = || {
            let list: Value = ctx.shared.watched_changes(&self.tag).into_iter().map(Value::from).collect();
            Map::from_iter([("Requisites with changes", list)])
        };
        let changes = match self.args.get("changes") {
            None => fired(),
            Some(Value::Map(map)) => (**map).clone(),
            Some(_) => {
                return TestReply::new(
                    false,
                    "An exception occurred in this state: 'Changes' should be a dictionary.",
                );
            }
        };
        let result = self.args.get("result").is_none_or(Value::is_truthy);
        TestReply { result: Some(result), changes, comment: self.comment("Watch statement fired.") }
    }

    fn with_warnings(&self, done: ApplyResult) -> ApplyResult {
        match self.args.get("warnings").filter(|_| self.fun == TestFunction::Configurable) {
            Some(one @ Value::Str(_)) => done.with_detail("warnings", Value::from(vec![one.clone()])),
            Some(list @ Value::List(_)) => done.with_detail("warnings", list.clone()),
            _ => done,
        }
    }
}

impl State for TestState {
    fn is_predictable(&self) -> bool {
        true
    }

    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let is_random = |key| {
            self.args.get(key).and_then(Value::as_str).is_some_and(|w| w.eq_ignore_ascii_case("random"))
        };
        if self.fun == TestFunction::Configurable && (is_random("changes") || is_random("result")) {
            self.configured_choices(ctx)?;
            return Ok(CheckResult::unknown("its outcome is left to chance"));
        }
        let real = self.run_reply(ctx)?;
        match real.result {
            Some(true) if real.changes.is_empty() && !self.args.contains("warnings") => {
                real.into_check_result()
            }
            // It is neither right nor wrong yet: what it has to say is its act.
            _ => Ok(CheckResult::drifted(self.dry_run_reply(ctx)?.comment, real.changes)),
        }
    }

    fn preview(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        if let Ok(checked @ CheckResult { verdict: super::Verdict::Unknown(_), .. }) = self.check(ctx) {
            return Ok(checked);
        }
        self.dry_run_reply(ctx)?.into_check_result()
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        match self.run_reply(ctx)?.into_apply_result() {
            Ok(done) => Ok(self.with_warnings(done)),
            Err(failure) => Err(self.with_warnings(failure.result).into()),
        }
    }

    fn predict_reaction(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        self.watch_reply(ctx).into_check_result()
    }

    fn react(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        self.watch_reply(ctx).into_apply_result()
    }

    fn reads(&self) -> Effects {
        Effects::NONE
    }

    fn is_convergent(&self) -> bool {
        false
    }

    fn check_cost(&self) -> CheckCost {
        CheckCost::Instant
    }
}

#[cfg(test)]
pub mod tests;
