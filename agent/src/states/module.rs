//! States of the module `module`: execution functions, called while states run.
//!
//! Law: only functions that are there are called, and all of those that are named are looked for before the first runs.

use zagent_compiler::{Call, CallError, Compat, schema};
use zagent_config::{Map, Value};

use super::{Args, Built, Done, Failure, Look, Scene, State, Veil};
use crate::host::command::shown;

/// The state that a function of this module makes; nothing when there is no such function.
pub(super) fn build(fun: &str, args: &Args<'_>) -> Option<Built> {
    let waits = match fun {
        "run" => false,
        "wait" | "watch" => true,
        _ => return None,
    };
    let own = |key: &str| !key.starts_with("__") && (key == "timeout" || schema::keyword(key).is_none());
    let mut given = args.chunk.args.clone();
    given.retain(|entry| entry.key.as_str().is_some_and(own));
    Some(Ok(Box::new(Module { waits, name: args.name(), given })))
}

struct Module {
    /// It runs only for a watch.
    waits: bool,
    name: String,
    /// The arguments that are not every state's.
    given: Map,
}

impl Module {
    /// The old way: the name is the function, the arguments are its own. The new way: every argument is a function.
    fn is_old(&self) -> bool {
        self.given.is_empty() || self.given.keys().any(|k| !k.as_str().is_some_and(|k| k.contains('.')))
    }

    /// The functions and what stands behind each, the new way; `test.ping:2` is one more call of `test.ping`.
    fn calls(&self) -> impl Iterator<Item = (&str, &str, &Value)> {
        self.given.iter().filter_map(|(key, value)| {
            let key = key.as_str()?;
            Some((key, key.split(':').next().unwrap_or(key), value))
        })
    }

    fn would(&self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let known = scene.host.functions();
        let has = |name: &str| known.contains(&name);
        if self.is_old() {
            if !has(&self.name) {
                return Err(Failure::new(format!("Module function {} is not available", self.name)));
            }
            return Ok(Look::drift(format!("Module function {} is set to execute", self.name), Map::new()));
        }
        let names = |there: bool| {
            self.calls().map(|(_, name, _)| name).filter(|n| has(n) == there).collect::<Vec<_>>()
        };
        let (missing, there) = (names(false), names(true));
        if !missing.is_empty() {
            let many = many(missing.len(), scene.compat);
            return Err(Failure::new(format!("Unavailable function{many}: {}.", missing.join(", "))));
        }
        let many = many(there.len(), scene.compat);
        Ok(Look::drift(format!("Function{many} {} to be executed.", there.join(", ")), Map::new()))
    }

    fn execute(&self, scene: &Scene<'_>) -> Result<Done, Failure> {
        self.would(scene)?;
        if self.is_old() { self.execute_old(scene) } else { self.execute_new(scene) }
    }

    fn execute_old(&self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let name = &self.name;
        let mut call = Call { function: name.clone(), args: Vec::new(), kwargs: Map::new() };
        for (key, value) in self.given.iter() {
            match (key.as_str().unwrap_or_default(), value) {
                ("args", Value::List(list)) => call.args.extend(list.iter().cloned()),
                ("kwargs", Value::Map(map)) => {
                    map.iter().for_each(|(k, v)| _ = call.kwargs.insert(k.clone(), v.clone()));
                }
                ("returner", _) => {}
                // A state has a name and a function of its own, so those of the called function go by another key.
                (key, value) => {
                    let plain = key.strip_prefix("m_").filter(|k| RENAMED.contains(k)).unwrap_or(key);
                    call.kwargs.insert(plain, value.clone());
                }
            }
        }
        let value = scene.host.act(&call).map_err(|e| {
            Failure::new(match lacking(&e) {
                Some(argument) => format!("The following arguments are missing: {argument}"),
                None => {
                    format!("Module function {name} threw an exception. Exception: {}", words(&e, name))
                }
            })
        })?;
        let fine = is_fine(&value);
        let done = Done::new(format!("Module function {name} executed"), Map::from_iter([("ret", value)]));
        if fine { Ok(done) } else { Err(done.into()) }
    }

    fn execute_new(&self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let (mut failures, mut successes) = (Vec::new(), Vec::new());
        let mut changes = Map::new();
        for (key, function, given) in self.calls() {
            let value = match scene.host.act(&new_call(function, given)) {
                Ok(value) => value,
                Err(e) => {
                    let why = lacking(&e).map(|a| format!("Missing arguments: {a}"));
                    failures.push(format!("'{key}' failed: {}", why.unwrap_or_else(|| words(&e, function))));
                    continue;
                }
            };
            let comment = value.as_map().map(|m| m.get("comment").map(shown));
            match (is_fine(&value), comment) {
                (true, comment) => {
                    let said = match comment {
                        Some(comment) => comment.unwrap_or_else(|| "Success".into()),
                        None => shown(&value),
                    };
                    successes.push(format!("{key}: {said}"));
                    changes.insert(key, value);
                }
                (false, Some(comment)) => {
                    let said = comment.unwrap_or_else(|| "(error message N/A)".into());
                    failures.push(format!("'{key}' failed: {said}"));
                }
                (false, None) => failures.push(format!("'{key}': {}", shown(&value))),
            }
        }
        let failed = !failures.is_empty();
        failures.append(&mut successes);
        let done = Done::new(failures.join(", "), changes);
        if failed { Err(done.into()) } else { Ok(done) }
    }
}

const RENAMED: [&str; 5] = ["name", "fun", "names", "state", "saltenv"];

/// Salt writes the word True for a plural.
const fn many(count: usize, compat: Compat) -> &'static str {
    match (count, compat) {
        (0 | 1, _) => "",
        (_, Compat::Salt) => "True",
        (_, Compat::Strict) => "s",
    }
}

/// The call of one function, the new way: a list of positional arguments and of mappings with named ones.
fn new_call(function: &str, given: &Value) -> Call {
    let mut call = Call { function: function.to_owned(), args: Vec::new(), kwargs: Map::new() };
    let items: Vec<&Value> = match given {
        Value::Null => Vec::new(),
        Value::List(list) => list.iter().collect(),
        other => vec![other],
    };
    for item in items {
        match item {
            Value::Map(map) => map.iter().for_each(|(k, v)| _ = call.kwargs.insert(k.clone(), v.clone())),
            other => call.args.push(other.clone()),
        }
    }
    call
}

/// The argument that a call lacked, when that was all that was wrong.
fn lacking(error: &CallError) -> Option<&str> {
    let CallError::Failed(words) = error else { return None };
    words.split_once("needs the argument `")?.1.strip_suffix('`')
}

fn words(error: &CallError, function: &str) -> String {
    match error {
        CallError::Unknown => format!("there is no function `{function}`"),
        CallError::Forbidden(words) | CallError::Failed(words) => words.clone(),
    }
}

/// A false answer, or one that holds `result: false` or an exit code, is a failure.
fn is_fine(value: &Value) -> bool {
    match value {
        Value::Bool(fine) => *fine,
        Value::Map(map) => map.iter().all(|(key, value)| match (key.as_str(), value) {
            (Some("result"), Value::Bool(false)) => false,
            (Some("retcode"), code) => *code == Value::Int(0) || *code == Value::Bool(false),
            (_, Value::Map(_)) => is_fine(value),
            _ => true,
        }),
        _ => true,
    }
}

impl State for Module {
    fn about(&self) -> Option<Value> {
        (!self.is_old()).then(|| self.calls().map(|(key, _, _)| Value::from(key)).collect())
    }

    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        if self.waits { Ok(Look::right("")) } else { self.would(scene) }
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        self.execute(scene)
    }

    fn foresee(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        self.would(scene)
    }

    fn sees(&self) -> Veil {
        // Which functions there are depends on programs.
        Veil::FILES | Veil::BROUGHT
    }

    fn holds(&self, _: &Look, _: Veil) -> bool {
        true
    }

    fn irreversible(&self) -> Option<&'static str> {
        Some("what a function did cannot be undone")
    }

    fn is_lasting(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests;
