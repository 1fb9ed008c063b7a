//! States of the module `grains`: facts of one's own, in a file of the facts directory.
//!
//! A fact is compared with what the host says of itself; only what stands in the file can be changed or taken away.

use std::path::Path;

use zagent_config::paths::DEFAULT_FACTS_DIR;
use zagent_config::value::python_str;
use zagent_config::value::traverse;
use zagent_config::{Map, Value};

use crate::shared::yaml_map_file;
use crate::{
    ApplyResult, BuildResult, CheckCost, CheckResult, ChunkArgs, Effects, LockKey, State, StateCtx,
    StateError, StateModule,
};

/// The file of facts that states set.
const GRAINS_FILE: &str = "grains.yaml";

/// The module `grains`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "grains",
    build,
    functions: &[],
    undo: &[],
    description: include_str!("description.txt"),
};

/// The state that a function of this module makes; nothing when there is no such function.
fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    let act = match fun {
        "present" => GrainsFunction::Present,
        "absent" => GrainsFunction::Absent,
        "append" => GrainsFunction::Append,
        "list_present" => GrainsFunction::ListPresent,
        "list_absent" => GrainsFunction::ListAbsent,
        "exists" => GrainsFunction::Exists,
        _ => return None,
    };
    let delimiter = args.chunk.args.get("delimiter").and_then(Value::as_str).unwrap_or(":");
    Some(Ok(Box::new(GrainsState {
        function: act,
        name: args.name().replace(delimiter, ":"),
        value: args.chunk.args.get("value").cloned().unwrap_or(Value::Null),
        flag: args.flag("destructive", false) || args.flag("convert", false),
        force: args.flag("force", false),
    })))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GrainsFunction {
    Present,
    Absent,
    Append,
    ListPresent,
    ListAbsent,
    Exists,
}

struct GrainsState {
    function: GrainsFunction,
    name: String,
    value: Value,
    /// `destructive` or `convert`.
    flag: bool,
    force: bool,
}

/// What is to be done.
enum GrainsPlan {
    InSync(String),
    /// What a dry run says, what is said once it was done, what changes, and the new value; nothing for one that goes.
    Set(String, String, Map, Option<Value>),
}

/// A map with one entry.
fn single(key: &str, value: Value) -> Map {
    Map::from_iter([(key, value)])
}

impl GrainsState {
    fn path(ctx: &StateCtx<'_>) -> std::path::PathBuf {
        yaml_map_file::configured_dir("facts_dir", ctx)
            .unwrap_or_else(|| DEFAULT_FACTS_DIR.into())
            .join(GRAINS_FILE)
    }

    /// The value now: what the file says, which the facts of this run do not know yet, or what the host says.
    fn current_value(&self, file: &Map, ctx: &StateCtx<'_>) -> Option<Value> {
        let written = traverse(&Value::from(file.clone()), &self.name, ":").cloned();
        written.or_else(|| {
            let (first, rest) = self.name.split_once(':').unwrap_or((&self.name, ""));
            // What was in the file when the run began and is not now is gone.
            let grain = ctx.host.grain(first)?;
            if rest.is_empty() { Some(grain) } else { traverse(&grain, rest, ":").cloned() }
        })
    }

    fn plan(&self, file: &Map, ctx: &StateCtx<'_>) -> Result<GrainsPlan, StateError> {
        let now = self.current_value(file, ctx);
        match (self.function, now) {
            (GrainsFunction::Exists, Some(_)) => Ok(GrainsPlan::InSync("Grain exists".into())),
            (GrainsFunction::Exists, None) => Err(StateError::new("Grain does not exist")),
            (GrainsFunction::Present, now) => self.plan_present(now),
            (GrainsFunction::Absent, now) => Ok(self.plan_absent(file, now)),
            (GrainsFunction::Append, now) => self.plan_append(now),
            (GrainsFunction::ListPresent | GrainsFunction::ListAbsent, now) => self.plan_list(now),
        }
    }

    fn plan_present(&self, now: Option<Value>) -> Result<GrainsPlan, StateError> {
        let (name, shown) = (&self.name, python_str(&self.value));
        if now.as_ref() == Some(&self.value) {
            return Ok(GrainsPlan::InSync("Grain is already set".into()));
        }
        let nests = |v: &Value| matches!(v, Value::Map(_) | Value::List(_));
        if now.as_ref().is_some_and(|n| nests(n) != nests(&self.value)) && !self.force {
            return Err(StateError::new(format!(
                "The key '{name}' exists but is a dict or a list. Use 'force=True' to overwrite."
            )));
        }
        let (would, changes) = match now {
            None => (format!("Grain {name} is set to be added"), single("new", name.as_str().into())),
            Some(_) => {
                let change = single(name, self.value.clone());
                (format!("Grain {name} is set to be changed"), single("changed", change.into()))
            }
        };
        Ok(GrainsPlan::Set(would, format!("Set grain {name} to {shown}"), changes, Some(self.value.clone())))
    }

    fn plan_absent(&self, file: &Map, now: Option<Value>) -> GrainsPlan {
        let name = &self.name;
        match now {
            None => GrainsPlan::InSync(format!("Grain {name} does not exist")),
            Some(now) if self.flag => {
                if traverse(&Value::from(file.clone()), name, ":").is_none() {
                    // It was taken out of the file just now, or never was there.
                    return GrainsPlan::InSync(format!(
                        "Grain {name} is not one that states set ({})",
                        python_str(&now)
                    ));
                }
                GrainsPlan::Set(
                    format!("Grain {name} is set to be deleted"),
                    format!("Grain {name} was deleted"),
                    single("deleted", name.as_str().into()),
                    None,
                )
            }
            Some(Value::Null) => GrainsPlan::InSync(format!("Grain {name} has no value")),
            Some(_) => GrainsPlan::Set(
                format!("Value for grain {name} is set to be deleted (None)"),
                format!("Value for grain {name} was set to None"),
                Map::from_iter([("grain", Value::from(name.as_str())), ("value", Value::Null)]),
                Some(Value::Null),
            ),
        }
    }

    fn plan_append(&self, now: Option<Value>) -> Result<GrainsPlan, StateError> {
        let (name, shown) = (&self.name, python_str(&self.value));
        let mut list = match now {
            None => return Err(StateError::new(format!("Grain {name} does not exist"))),
            Some(Value::List(list)) => list.to_vec(),
            Some(Value::Null) if self.flag => Vec::new(),
            Some(other) if self.flag => vec![other],
            Some(_) => return Err(StateError::new(format!("Grain {name} is not a valid list"))),
        };
        if list.contains(&self.value) {
            return Ok(GrainsPlan::InSync(format!("Value {shown} is already in the list for grain {name}")));
        }
        list.push(self.value.clone());
        let would = format!("Value {shown} in grain {name} is set to be added");
        let did = format!("Value {shown} was added to grain {name}");
        Ok(GrainsPlan::Set(would, did, single("added", self.value.clone()), Some(list.into())))
    }

    fn plan_list(&self, now: Option<Value>) -> Result<GrainsPlan, StateError> {
        let (name, shown) = (&self.name, python_str(&self.value));
        let is_new = now.as_ref().is_none_or(|v| !v.is_truthy());
        let list = match now {
            Some(Value::List(list)) => list.to_vec(),
            Some(other) if other.is_truthy() => {
                return Err(StateError::new(format!("Grain {name} is not a valid list")));
            }
            _ if self.function == GrainsFunction::ListAbsent => {
                return Ok(GrainsPlan::InSync(format!("Grain {name} does not exist")));
            }
            _ => Vec::new(),
        };
        let values = match &self.value {
            Value::List(values) => values.to_vec(),
            one => vec![one.clone()],
        };
        if self.function == GrainsFunction::ListPresent {
            let new: Vec<Value> = values.into_iter().filter(|v| !list.contains(v)).collect();
            if new.is_empty() {
                return Ok(GrainsPlan::InSync(format!("Value {shown} is already in grain {name}")));
            }
            let all: Value = list.into_iter().chain(new).collect();
            let would = if is_new {
                format!("Grain {name} is set to be added")
            } else {
                format!("Value {shown} is set to be appended to grain {name}")
            };
            let changes =
                Map::from_iter([("new", Value::from(Map::from_iter([(name.as_str(), all.clone())])))]);
            return Ok(GrainsPlan::Set(
                would,
                format!("Append value {shown} to grain {name}"),
                changes,
                Some(all),
            ));
        }
        let gone: Vec<Value> = values.iter().filter(|v| list.contains(v)).cloned().collect();
        let say = |how: &str| {
            let line = |v: &Value| {
                let v_shown = python_str(v);
                if gone.contains(v) {
                    format!("Value {v_shown} {}", how.replace("{}", &format!("grain {name}")))
                } else {
                    format!("Value {v_shown} is absent from grain {name}")
                }
            };
            values.iter().map(line).collect::<Vec<_>>().join("\n")
        };
        if gone.is_empty() {
            return Ok(GrainsPlan::InSync(say("")));
        }
        let rest: Value = list.into_iter().filter(|v| !gone.contains(v)).collect();
        let changes = Map::from_iter([("deleted", Value::from(gone.clone()))]);
        Ok(GrainsPlan::Set(
            say("in {} is set to be deleted"),
            say("was deleted from {}"),
            changes,
            Some(rest),
        ))
    }
}

/// Puts a value at a path, or takes away what is there.
fn set_at_path(map: &mut Map, path: &str, value: Option<Value>) {
    match path.split_once(':') {
        None => match value {
            Some(value) => _ = map.insert(path, value),
            None => _ = map.remove(path),
        },
        Some((first, rest)) => {
            let mut inner = map.get(first).and_then(Value::as_map).cloned().unwrap_or_default();
            set_at_path(&mut inner, rest, value);
            map.insert(first, inner);
        }
    }
}

impl State for GrainsState {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let file = yaml_map_file::read(&Self::path(ctx), ctx)?;
        Ok(match self.plan(&file, ctx)? {
            GrainsPlan::InSync(comment) => CheckResult::in_sync(comment),
            GrainsPlan::Set(would, _, changes, _) => CheckResult::drifted(would, changes),
        })
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let mut file = yaml_map_file::read(&Self::path(ctx), ctx)?;
        match self.plan(&file, ctx)? {
            GrainsPlan::InSync(comment) => Ok(ApplyResult::new(comment, Map::new())),
            GrainsPlan::Set(_, did, changes, value) => {
                // A value below another keeps its neighbours.
                if let Some((first, _)) = self.name.split_once(':')
                    && !file.contains(first)
                    && let Some(whole @ Value::Map(_)) = ctx.host.grain(first)
                {
                    file.insert(first, whole);
                }
                set_at_path(&mut file, &self.name, value);
                yaml_map_file::write(&Self::path(ctx), &file, ctx)?;
                Ok(ApplyResult::new(did, changes))
            }
        }
    }

    fn is_predictable(&self) -> bool {
        true
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        // Wherever it is: there is one.
        vec![LockKey::Path(Path::new(DEFAULT_FACTS_DIR).join(GRAINS_FILE))]
    }

    fn reads(&self) -> Effects {
        Effects::FILES
    }

    fn check_cost(&self) -> CheckCost {
        CheckCost::Light
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_below_others() {
        let mut map = Map::new();
        set_at_path(&mut map, "a:b", Some(1.into()));
        set_at_path(&mut map, "a:c", Some(2.into()));
        set_at_path(&mut map, "a:b", None);
        assert_eq!(serde_json::to_string(&Value::from(map)).unwrap(), r#"{"a":{"c":2}}"#);
    }
}
