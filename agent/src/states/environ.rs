//! States of the module `environ`: variables that the commands of later states see.
//!
//! Law: the agent's own environment stays as it is; a run ends with what it set.

use std::sync::PoisonError;

use zagent_config::{Map, Value};

use super::{Args, Built, Cost, Done, Failure, Look, Scene, State, Veil};
use crate::host::command::shown;

/// The state that a function of this module makes; nothing when there is no such function.
pub(super) fn build(fun: &str, args: &Args<'_>) -> Option<Built> {
    (fun == "setenv").then(|| {
        if args.flag("clear_all", false) {
            return Err(Failure::new("`clear_all` would take away what the agent itself needs"));
        }
        let wanted = match args.chunk.args.get("value") {
            Some(value @ (Value::Str(_) | Value::Bool(false))) => {
                Map::from_iter([(Value::from(args.name()), value.clone())])
            }
            Some(Value::Map(map)) => (**map).clone(),
            _ => return Err(Failure::new("Environ value must be string, dict or False")),
        };
        let names: Vec<String> = wanted.keys().map(shown).collect();
        if let Some(name) = names.iter().find(|n| n.is_empty() || n.contains(['=', '\0'])) {
            return Err(Failure::new(format!("`{name}` cannot be the name of a variable")));
        }
        let unsets = args.flag("false_unsets", false);
        Ok(Box::new(SetEnv { wanted, unsets }) as Box<dyn State>)
    })
}

struct SetEnv {
    wanted: Map,
    /// False takes a variable away instead of emptying it.
    unsets: bool,
}

impl SetEnv {
    /// What differs: a text to set, null to take away.
    fn changes(&self, scene: &Scene<'_>) -> Map {
        let shared = scene.shared.environment.lock().unwrap_or_else(PoisonError::into_inner);
        let now = |name: &str| match shared.get(name) {
            Some(set) => set.clone(),
            None => std::env::var(name).ok(),
        };
        let mut changes = Map::new();
        for (key, value) in self.wanted.iter() {
            let current = now(&shown(key));
            let wanted = match value {
                Value::Bool(false) if self.unsets => None,
                Value::Bool(false) => Some(String::new()),
                other => Some(shown(other)),
            };
            if current != wanted {
                changes.insert(key.clone(), wanted.map_or(Value::Null, Value::from));
            }
        }
        changes
    }
}

impl State for SetEnv {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let changes = self.changes(scene);
        if changes.is_empty() {
            return Ok(Look::right("Environ values were already set with the correct values"));
        }
        Ok(Look::drift("Environ values will be changed", changes))
    }

    fn preview(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let look = self.check(scene)?;
        if look.changes.is_empty() {
            return Ok(Look::right("Environ values are already set with the correct values"));
        }
        Ok(look)
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let changes = self.changes(scene);
        let mut shared = scene.shared.environment.lock().unwrap_or_else(PoisonError::into_inner);
        for (key, value) in changes.iter() {
            shared.insert(shown(key), value.as_str().map(str::to_owned));
        }
        Ok(Done::new("Environ values were set", changes))
    }

    fn sees(&self) -> Veil {
        Veil::NONE
    }

    fn cost(&self) -> Cost {
        Cost::Light
    }
}

#[cfg(test)]
mod tests;
