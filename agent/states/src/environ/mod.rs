//! States of the module `environ`: variables that the commands of later states see.
//!
//! Law: the agent's own environment is never changed; what a run sets ends with the run. A variable that commands
//! do not inherit is not there (held by `clippy.toml`, `later_commands_see_what_was_set`).

pub(crate) mod functions;

use std::sync::PoisonError;

use zagent_compiler::Compat;
use zagent_config::{Map, Value, child_process};

use super::{
    ApplyResult, BuildResult, CheckCost, CheckResult, ChunkArgs, Effects, State, StateCtx, StateError,
    StateModule,
};
use zagent_host::command_options::value_text;

/// The module `environ`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "environ",
    build,
    functions: functions::TABLE,
    undo: &[],
    description: include_str!("description.txt"),
};

/// The state that a function of this module makes; nothing when there is no such function.
fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    (fun == "setenv").then(|| {
        if args.flag("clear_all", false) {
            return Err(StateError::new("`clear_all` would take away what the agent itself needs"));
        }
        let wanted = match args.chunk.args.get("value") {
            Some(value @ (Value::Str(_) | Value::Bool(false))) => {
                Map::from_iter([(Value::from(args.name()), value.clone())])
            }
            Some(Value::Map(map)) => (**map).clone(),
            _ => return Err(StateError::new("Environ value must be string, dict or False")),
        };
        let names: Vec<String> = wanted.keys().map(value_text).collect();
        if let Some(name) = names.iter().find(|n| n.is_empty() || n.contains(['=', '\0'])) {
            return Err(StateError::new(format!("`{name}` cannot be the name of a variable")));
        }
        let unsets = args.flag("false_unsets", false);
        Ok(Box::new(EnvironSetenv { wanted, unsets }) as Box<dyn State>)
    })
}

struct EnvironSetenv {
    wanted: Map,
    /// False takes a variable away instead of emptying it.
    unsets: bool,
}

impl EnvironSetenv {
    /// What differs: a text to set, null to take away.
    fn pending_changes(&self, ctx: &StateCtx<'_>) -> Map {
        let shared = ctx.shared.environment.lock().unwrap_or_else(PoisonError::into_inner);
        let now = |name: &str| match shared.get(name) {
            Some(set) => set.clone(),
            None => child_process::inherited_value(name).map(|value| value.to_string_lossy().into_owned()),
        };
        let mut changes = Map::new();
        for (key, value) in self.wanted.iter() {
            let current = now(&value_text(key));
            let wanted = match value {
                Value::Bool(false) if self.unsets => None,
                Value::Bool(false) => Some(String::new()),
                other => Some(value_text(other)),
            };
            // Salt takes a variable that is not there for one that is empty.
            let is_empty = ctx.compat == Compat::Salt && current.is_none() && wanted.as_deref() == Some("");
            if current != wanted && !(is_empty && value.as_str().is_some()) {
                changes.insert(key.clone(), wanted.map_or(Value::Null, Value::from));
            }
        }
        changes
    }
}

impl State for EnvironSetenv {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let changes = self.pending_changes(ctx);
        if changes.is_empty() {
            return Ok(CheckResult::in_sync("Environ values were already set with the correct values"));
        }
        Ok(CheckResult::drifted("Environ values will be changed", changes))
    }

    fn preview(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let look = self.check(ctx)?;
        if look.changes.is_empty() {
            return Ok(CheckResult::in_sync("Environ values are already set with the correct values"));
        }
        Ok(look)
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let changes = self.pending_changes(ctx);
        let mut shared = ctx.shared.environment.lock().unwrap_or_else(PoisonError::into_inner);
        for (key, value) in changes.iter() {
            shared.insert(value_text(key), value.as_str().map(str::to_owned));
        }
        Ok(ApplyResult::new("Environ values were set", changes))
    }

    fn reads(&self) -> Effects {
        Effects::NONE
    }

    fn check_cost(&self) -> CheckCost {
        CheckCost::Light
    }
}

#[cfg(test)]
pub mod tests;
