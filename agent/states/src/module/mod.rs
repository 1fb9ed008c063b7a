//! States of the module `module`: execution functions, called while states run.
//!
//! Law: only functions that are there are called, and all of those that are named are looked for before the first
//! runs (held by `both_ways_of_calling`).

use zagent_compiler::{CallError, Compat, FunctionCall, schema};
use zagent_config::{Map, Value};

use super::{
    ApplyResult, BuildResult, CheckResult, ChunkArgs, Effects, State, StateCtx, StateError, StateModule,
};
use zagent_host::command_options::value_text;

/// The module `module`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "module",
    build,
    functions: &[],
    undo: &[],
    description: include_str!("description.txt"),
};

/// The state that a function of this module makes; nothing when there is no such function.
fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    let waits = match fun {
        "run" => false,
        "wait" | "watch" => true,
        _ => return None,
    };
    let own = |key: &str| !key.starts_with("__") && (key == "timeout" || schema::keyword(key).is_none());
    let mut given = args.chunk.args.clone();
    given.retain(|entry| entry.key.as_str().is_some_and(own));
    Some(Ok(Box::new(ModuleRun { watch_only: waits, name: args.name(), call_args: given })))
}

struct ModuleRun {
    /// It runs only for a watch.
    watch_only: bool,
    name: String,
    /// The arguments that are not every state's.
    call_args: Map,
}

impl ModuleRun {
    /// The old way: the name is the function, the arguments are its own. The new way: every argument is a function.
    fn is_legacy_style(&self) -> bool {
        self.call_args.is_empty()
            || self.call_args.keys().any(|k| !k.as_str().is_some_and(|k| k.contains('.')))
    }

    /// The functions and what stands behind each, the new way; `test.ping:2` is one more call of `test.ping`.
    fn calls(&self) -> impl Iterator<Item = (&str, &str, &Value)> {
        self.call_args.iter().filter_map(|(key, value)| {
            let key = key.as_str()?;
            Some((key, key.split(':').next().unwrap_or(key), value))
        })
    }

    fn predict_calls(&self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let known = ctx.host.functions();
        let has = |name: &str| known.contains(&name);
        if self.is_legacy_style() {
            if !has(&self.name) {
                return Err(StateError::new(format!("Module function {} is not available", self.name)));
            }
            return Ok(CheckResult::drifted(
                format!("Module function {} is set to execute", self.name),
                Map::new(),
            ));
        }
        let names = |there: bool| {
            self.calls().map(|(_, name, _)| name).filter(|n| has(n) == there).collect::<Vec<_>>()
        };
        let (missing, there) = (names(false), names(true));
        if !missing.is_empty() {
            let many = plural_suffix(missing.len(), ctx.compat);
            return Err(StateError::new(format!("Unavailable function{many}: {}.", missing.join(", "))));
        }
        let many = plural_suffix(there.len(), ctx.compat);
        Ok(CheckResult::drifted(format!("Function{many} {} to be executed.", there.join(", ")), Map::new()))
    }

    fn execute(&self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        self.predict_calls(ctx)?;
        if self.is_legacy_style() { self.execute_legacy(ctx) } else { self.execute_calls(ctx) }
    }

    fn execute_legacy(&self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let name = &self.name;
        let mut call = FunctionCall { function: name.clone(), args: Vec::new(), kwargs: Map::new() };
        for (key, value) in self.call_args.iter() {
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
        let value = ctx.host.call_mutating(&call).map_err(|e| {
            StateError::new(match missing_argument(&e) {
                Some(argument) => format!("The following arguments are missing: {argument}"),
                None => {
                    format!(
                        "Module function {name} threw an exception. Exception: {}",
                        call_error_text(&e, name)
                    )
                }
            })
        })?;
        let fine = is_success(&value);
        let done =
            ApplyResult::new(format!("Module function {name} executed"), Map::from_iter([("ret", value)]));
        if fine { Ok(done) } else { Err(done.into()) }
    }

    fn execute_calls(&self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let (mut failures, mut successes) = (Vec::new(), Vec::new());
        let mut changes = Map::new();
        for (key, function, given) in self.calls() {
            let value = match ctx.host.call_mutating(&build_call(function, given)) {
                Ok(value) => value,
                Err(e) => {
                    let why = missing_argument(&e).map(|a| format!("Missing arguments: {a}"));
                    failures.push(format!(
                        "'{key}' failed: {}",
                        why.unwrap_or_else(|| call_error_text(&e, function))
                    ));
                    continue;
                }
            };
            let comment = value.as_map().map(|m| m.get("comment").map(value_text));
            match (is_success(&value), comment) {
                (true, comment) => {
                    let said = match comment {
                        Some(comment) => comment.unwrap_or_else(|| "Success".into()),
                        None => value_text(&value),
                    };
                    successes.push(format!("{key}: {said}"));
                    changes.insert(key, value);
                }
                (false, Some(comment)) => {
                    let said = comment.unwrap_or_else(|| "(error message N/A)".into());
                    failures.push(format!("'{key}' failed: {said}"));
                }
                (false, None) => failures.push(format!("'{key}': {}", value_text(&value))),
            }
        }
        let failed = !failures.is_empty();
        failures.append(&mut successes);
        let done = ApplyResult::new(failures.join(", "), changes);
        if failed { Err(done.into()) } else { Ok(done) }
    }
}

const RENAMED: [&str; 5] = ["name", "fun", "names", "state", "saltenv"];

/// Salt writes the word True for a plural.
const fn plural_suffix(count: usize, compat: Compat) -> &'static str {
    match (count, compat) {
        (0 | 1, _) => "",
        (_, Compat::Salt) => "True",
        (_, Compat::Strict) => "s",
    }
}

/// The call of one function, the new way: a list of positional arguments and of mappings with named ones.
fn build_call(function: &str, given: &Value) -> FunctionCall {
    let mut call = FunctionCall { function: function.to_owned(), args: Vec::new(), kwargs: Map::new() };
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
fn missing_argument(error: &CallError) -> Option<&str> {
    let CallError::Failed(words) = error else { return None };
    words.split_once("needs the argument `")?.1.strip_suffix('`')
}

fn call_error_text(error: &CallError, function: &str) -> String {
    match error {
        CallError::Unknown => format!("there is no function `{function}`"),
        CallError::Forbidden(words) | CallError::Failed(words) => words.clone(),
        CallError::Unavailable { message, hint } => format!("{message}; {hint}"),
    }
}

/// A false answer, or one that holds `result: false` or an exit code, is a failure.
fn is_success(value: &Value) -> bool {
    match value {
        Value::Bool(fine) => *fine,
        Value::Map(map) => map.iter().all(|(key, value)| match (key.as_str(), value) {
            (Some("result"), Value::Bool(false)) => false,
            (Some("retcode"), code) => *code == Value::Int(0) || *code == Value::Bool(false),
            (_, Value::Map(_)) => is_success(value),
            _ => true,
        }),
        _ => true,
    }
}

impl State for ModuleRun {
    fn subject(&self) -> Option<Value> {
        (!self.is_legacy_style()).then(|| self.calls().map(|(key, _, _)| Value::from(key)).collect())
    }

    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        if self.watch_only { Ok(CheckResult::in_sync("")) } else { self.predict_calls(ctx) }
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        self.execute(ctx)
    }

    fn predict_reaction(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        self.predict_calls(ctx)
    }

    fn reads(&self) -> Effects {
        // Which functions there are depends on programs.
        Effects::FILES | Effects::PACKAGE_FILES
    }

    fn still_valid(&self, _: &CheckResult, _: Effects) -> bool {
        true
    }

    fn irreversible_reason(&self) -> Option<&'static str> {
        Some("what a function did cannot be undone")
    }

    fn is_convergent(&self) -> bool {
        false
    }
}

#[cfg(test)]
pub mod tests;
