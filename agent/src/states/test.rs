//! States of the module `test`: they answer from their arguments alone.
//!
//! Law: a real run and a dry run each have their own answer, because that is what these states are for.

mod pillar;

use std::hash::{BuildHasher, RandomState};

use zagent_compiler::Compat;
use zagent_config::{Map, Value};

use super::{Args, Built, Cost, Done, Failure, Look, Scene, State, Veil};

/// The state that a function of this module makes; nothing when there is no such function.
pub(super) fn build(fun: &str, args: &Args<'_>) -> Option<Built> {
    let fun = match fun {
        "nop" => Fun::Nop,
        "succeed_without_changes" => Fun::Succeed,
        "succeed_with_changes" => Fun::SucceedChanged,
        "fail_without_changes" => Fun::Fail,
        "fail_with_changes" => Fun::FailChanged,
        "configurable_test_state" => Fun::Configurable,
        "show_notification" => Fun::Notification,
        "check_pillar" => Fun::Pillar,
        "mod_watch" => Fun::Watch,
        _ => return None,
    };
    Some(Ok(Box::new(Test { fun, tag: args.chunk.tag(), args: args.chunk.args.clone() })))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fun {
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

struct Test {
    fun: Fun,
    tag: String,
    args: Map,
}

/// What a state says: a result (none: it would change), changes and a comment.
struct Answer {
    result: Option<bool>,
    changes: Map,
    comment: String,
}

impl Answer {
    fn new(result: bool, comment: impl Into<String>) -> Self {
        Self { result: Some(result), changes: Map::new(), comment: comment.into() }
    }

    fn changed(self) -> Self {
        Self { changes: pretended(), ..self }
    }

    fn done(self) -> Result<Done, Failure> {
        let done = Done::new(self.comment, self.changes);
        if self.result == Some(false) { Err(done.into()) } else { Ok(done) }
    }

    fn look(self) -> Result<Look, Failure> {
        match self.result {
            None => Ok(Look::drift(self.comment, self.changes)),
            Some(true) => Ok(Look { changes: self.changes, ..Look::right(self.comment) }),
            Some(false) => Err(Done::new(self.comment, self.changes).into()),
        }
    }
}

fn pretended() -> Map {
    let change = Map::from_iter([("old", "Unchanged"), ("new", "Something pretended to change")]);
    Map::from_iter([("testing", change)])
}

/// What Salt says of an argument that cannot be used.
fn refused(scene: &Scene<'_>, words: &str) -> Failure {
    Failure::new(match scene.compat {
        Compat::Salt => {
            format!("An exception occurred in this state: salt.exceptions.SaltInvocationError: {words}")
        }
        Compat::Strict => words.to_owned(),
    })
}

/// True or false, or one of them by chance.
enum Choice {
    Fixed(bool),
    Random,
}

impl Choice {
    fn toss(&self) -> bool {
        match self {
            Self::Fixed(value) => *value,
            Self::Random => RandomState::new().hash_one(0_u8) & 1 == 0,
        }
    }
}

impl Test {
    fn comment(&self, default: &str) -> String {
        self.args.get("comment").map_or_else(|| default.to_owned(), crate::host::command::shown)
    }

    /// What a real run answers.
    fn real(&self, scene: &Scene<'_>) -> Result<Answer, Failure> {
        Ok(match self.fun {
            Fun::Nop => Answer::new(true, "Success!"),
            Fun::Succeed => Answer::new(true, self.comment("Success!")),
            Fun::SucceedChanged => Answer::new(true, self.comment("Success!")).changed(),
            Fun::Fail => Answer::new(false, self.comment("Failure!")),
            Fun::FailChanged => Answer::new(false, self.comment("Failure!")).changed(),
            Fun::Configurable => {
                let (changes, result) = self.configured(scene)?;
                let answer = Answer::new(result.toss(), self.comment(""));
                if changes.toss() { answer.changed() } else { answer }
            }
            Fun::Notification => match self.args.get("text").filter(|t| t.is_truthy()) {
                Some(text) => Answer::new(true, crate::host::command::shown(text)),
                None => return Err(refused(scene, "Missing required argument text.")),
            },
            Fun::Pillar => {
                let (result, comment) =
                    pillar::check(&self.args, scene.pillar).map_err(|w| refused(scene, w))?;
                Answer::new(result, comment)
            }
            Fun::Watch => self.watched(scene),
        })
    }

    /// What a dry run answers; it differs from the real one in words, and for some in the result.
    fn dry(&self, scene: &Scene<'_>) -> Result<Answer, Failure> {
        let would = |comment: &str| Answer { result: None, changes: pretended(), comment: comment.into() };
        Ok(match self.fun {
            Fun::SucceedChanged => would("If we weren't testing, this would be successful with changes"),
            Fun::FailChanged => would("If we weren't testing, this would be failed with changes"),
            Fun::Fail => Answer::new(false, "If we weren't testing, this would be a failure!"),
            Fun::Configurable => {
                let (changes, result) = self.configured(scene)?;
                let may_fail = self.args.get("allow_test_mode_failure").is_some_and(Value::is_truthy);
                let comment = match self.comment("") {
                    none if none.is_empty() => "This is a test".into(),
                    comment => comment,
                };
                let result = match (&changes, result) {
                    (_, Choice::Fixed(false)) if may_fail => Some(false),
                    (Choice::Fixed(false), _) => Some(true),
                    _ => None,
                };
                let answer = Answer { result, changes: Map::new(), comment };
                if matches!(changes, Choice::Fixed(true)) { answer.changed() } else { answer }
            }
            _ => self.real(scene)?,
        })
    }

    /// `changes` and `result` of a configurable state.
    fn configured(&self, scene: &Scene<'_>) -> Result<(Choice, Choice), Failure> {
        let choice = |key: &str| match self.args.get(key) {
            None => Ok(Choice::Fixed(true)),
            Some(Value::Bool(value)) => Ok(Choice::Fixed(*value)),
            Some(Value::Str(word)) if word.eq_ignore_ascii_case("random") => Ok(Choice::Random),
            Some(_) => {
                let words = format!(
                    "You have specified the state option '{key}' with invalid arguments. It must be either True, False, or \
                     'Random'"
                );
                Err(refused(scene, &words))
            }
        };
        let choices = (choice("changes")?, choice("result")?);
        match self.args.get("warnings") {
            None | Some(Value::Null | Value::Str(_) | Value::List(_)) => Ok(choices),
            Some(_) => {
                let words = "You have specified the state option 'warnings' with invalid arguments. It must be a string or a \
                             list of strings";
                Err(refused(scene, words))
            }
        }
    }

    /// What a watch answers: `result`, `comment` and `changes` may be given.
    fn watched(&self, scene: &Scene<'_>) -> Answer {
        let fired = || {
            let list: Value = scene.shared.fired(&self.tag).into_iter().map(Value::from).collect();
            Map::from_iter([("Requisites with changes", list)])
        };
        let changes = match self.args.get("changes") {
            None => fired(),
            Some(Value::Map(map)) => (**map).clone(),
            Some(_) => {
                return Answer::new(
                    false,
                    "An exception occurred in this state: 'Changes' should be a dictionary.",
                );
            }
        };
        let result = self.args.get("result").is_none_or(Value::is_truthy);
        Answer { result: Some(result), changes, comment: self.comment("Watch statement fired.") }
    }

    fn with_warnings(&self, done: Done) -> Done {
        match self.args.get("warnings").filter(|_| self.fun == Fun::Configurable) {
            Some(one @ Value::Str(_)) => done.with("warnings", Value::from(vec![one.clone()])),
            Some(list @ Value::List(_)) => done.with("warnings", list.clone()),
            _ => done,
        }
    }
}

impl State for Test {
    fn is_foreseeable(&self) -> bool {
        true
    }

    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let is_random = |key| {
            self.args.get(key).and_then(Value::as_str).is_some_and(|w| w.eq_ignore_ascii_case("random"))
        };
        if self.fun == Fun::Configurable && (is_random("changes") || is_random("result")) {
            self.configured(scene)?;
            return Ok(Look::unknown("its outcome is left to chance"));
        }
        let real = self.real(scene)?;
        match real.result {
            Some(true) if real.changes.is_empty() && !self.args.contains("warnings") => real.look(),
            // It is neither right nor wrong yet: what it has to say is its act.
            _ => Ok(Look::drift(self.dry(scene)?.comment, real.changes)),
        }
    }

    fn preview(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        if let Ok(look @ Look { standing: super::Standing::Unknown(_), .. }) = self.check(scene) {
            return Ok(look);
        }
        self.dry(scene)?.look()
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        match self.real(scene)?.done() {
            Ok(done) => Ok(self.with_warnings(done)),
            Err(failure) => Err(self.with_warnings(failure.done).into()),
        }
    }

    fn foresee(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        self.watched(scene).look()
    }

    fn react(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        self.watched(scene).done()
    }

    fn sees(&self) -> Veil {
        Veil::NONE
    }

    fn is_lasting(&self) -> bool {
        false
    }

    fn cost(&self) -> Cost {
        Cost::Instant
    }
}

#[cfg(test)]
mod tests;
