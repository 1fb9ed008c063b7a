//! States of the module `grains`: facts of one's own, in a file of the facts directory.
//!
//! Law: a fact is compared with what the host says of itself; only what stands in the file can be changed or taken away.

use std::path::Path;

use zagent_compiler::yaml::python_str;
use zagent_config::paths::DEFAULT_FACTS_DIR;
use zagent_config::value::traverse;
use zagent_config::{Map, Value};

use super::super::{Args, Built, Cost, Done, Failure, Look, Resource, Scene, State, Veil};
use super::kept;

/// The file of facts that states set.
const FILE: &str = "grains.yaml";

/// The state that a function of this module makes; nothing when there is no such function.
pub(super) fn build(fun: &str, args: &Args<'_>) -> Option<Built> {
    let act = match fun {
        "present" => Act::Present,
        "absent" => Act::Absent,
        "append" => Act::Append,
        "list_present" => Act::ListPresent,
        "list_absent" => Act::ListAbsent,
        "exists" => Act::Exists,
        _ => return None,
    };
    let delimiter = args.chunk.args.get("delimiter").and_then(Value::as_str).unwrap_or(":");
    Some(Ok(Box::new(Grain {
        act,
        name: args.name().replace(delimiter, ":"),
        value: args.chunk.args.get("value").cloned().unwrap_or(Value::Null),
        flag: args.flag("destructive", false) || args.flag("convert", false),
        force: args.flag("force", false),
    })))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Present,
    Absent,
    Append,
    ListPresent,
    ListAbsent,
    Exists,
}

struct Grain {
    act: Act,
    name: String,
    value: Value,
    /// `destructive` or `convert`.
    flag: bool,
    force: bool,
}

/// What is to be done.
enum Plan {
    Right(String),
    /// What a dry run says, what is said once it was done, what changes, and the new value; nothing for one that goes.
    Set(String, String, Map, Option<Value>),
}

impl Grain {
    fn path(scene: &Scene<'_>) -> std::path::PathBuf {
        kept::dir("facts_dir", scene).unwrap_or_else(|| DEFAULT_FACTS_DIR.into()).join(FILE)
    }

    /// The value now: what the file says, which the facts of this run do not know yet, or what the host says.
    fn now(&self, file: &Map, scene: &Scene<'_>) -> Option<Value> {
        let written = traverse(&Value::from(file.clone()), &self.name, ":").cloned();
        written.or_else(|| {
            let (first, rest) = self.name.split_once(':').unwrap_or((&self.name, ""));
            // What was in the file when the run began and is not now is gone.
            let grain = scene.host.grain(first)?;
            if rest.is_empty() { Some(grain) } else { traverse(&grain, rest, ":").cloned() }
        })
    }

    fn plan(&self, file: &Map, scene: &Scene<'_>) -> Result<Plan, Failure> {
        let (name, shown) = (&self.name, python_str(&self.value));
        let now = self.now(file, scene);
        let one = |key: &str, value: Value| Map::from_iter([(key, value)]);
        let wrong = |words: &str| Err(Failure::new(words));
        Ok(match (self.act, now) {
            (Act::Exists, Some(_)) => Plan::Right("Grain exists".into()),
            (Act::Exists, None) => return wrong("Grain does not exist"),
            (Act::Present, Some(now)) if now == self.value => Plan::Right("Grain is already set".into()),
            (Act::Present, now) => {
                let nests = |v: &Value| matches!(v, Value::Map(_) | Value::List(_));
                if now.as_ref().is_some_and(|n| nests(n) != nests(&self.value)) && !self.force {
                    return Err(Failure::new(format!(
                        "The key '{name}' exists but is a dict or a list. Use 'force=True' to overwrite."
                    )));
                }
                let (would, changes) = match now {
                    None => (format!("Grain {name} is set to be added"), one("new", name.as_str().into())),
                    Some(_) => {
                        let change = one(name, self.value.clone());
                        (format!("Grain {name} is set to be changed"), one("changed", change.into()))
                    }
                };
                Plan::Set(would, format!("Set grain {name} to {shown}"), changes, Some(self.value.clone()))
            }
            (Act::Absent, None) => Plan::Right(format!("Grain {name} does not exist")),
            (Act::Absent, Some(now)) if self.flag => {
                let written = traverse(&Value::from(file.clone()), name, ":").is_some();
                if !written {
                    // It was taken out of the file just now, or never was there.
                    return Ok(Plan::Right(format!(
                        "Grain {name} is not one that states set ({})",
                        python_str(&now)
                    )));
                }
                let changes = one("deleted", name.as_str().into());
                Plan::Set(
                    format!("Grain {name} is set to be deleted"),
                    format!("Grain {name} was deleted"),
                    changes,
                    None,
                )
            }
            (Act::Absent, Some(Value::Null)) => Plan::Right(format!("Grain {name} has no value")),
            (Act::Absent, Some(_)) => {
                let changes = Map::from_iter([("grain", Value::from(name.as_str())), ("value", Value::Null)]);
                let would = format!("Value for grain {name} is set to be deleted (None)");
                Plan::Set(
                    would,
                    format!("Value for grain {name} was set to None"),
                    changes,
                    Some(Value::Null),
                )
            }
            (Act::Append, None) => return Err(Failure::new(format!("Grain {name} does not exist"))),
            (Act::Append, Some(now)) => {
                let mut list = match now {
                    Value::List(list) => list.to_vec(),
                    Value::Null if self.flag => Vec::new(),
                    other if self.flag => vec![other],
                    _ => return Err(Failure::new(format!("Grain {name} is not a valid list"))),
                };
                if list.contains(&self.value) {
                    return Ok(Plan::Right(format!("Value {shown} is already in the list for grain {name}")));
                }
                list.push(self.value.clone());
                let would = format!("Value {shown} in grain {name} is set to be added");
                let did = format!("Value {shown} was added to grain {name}");
                Plan::Set(would, did, one("added", self.value.clone()), Some(list.into()))
            }
            (Act::ListPresent | Act::ListAbsent, now) => self.list(now)?,
        })
    }

    fn list(&self, now: Option<Value>) -> Result<Plan, Failure> {
        let (name, shown) = (&self.name, python_str(&self.value));
        let is_new = now.as_ref().is_none_or(|v| !v.is_truthy());
        let list = match now {
            Some(Value::List(list)) => list.to_vec(),
            Some(other) if other.is_truthy() => {
                return Err(Failure::new(format!("Grain {name} is not a valid list")));
            }
            _ if self.act == Act::ListAbsent => {
                return Ok(Plan::Right(format!("Grain {name} does not exist")));
            }
            _ => Vec::new(),
        };
        let values = match &self.value {
            Value::List(values) => values.to_vec(),
            one => vec![one.clone()],
        };
        if self.act == Act::ListPresent {
            let new: Vec<Value> = values.into_iter().filter(|v| !list.contains(v)).collect();
            if new.is_empty() {
                return Ok(Plan::Right(format!("Value {shown} is already in grain {name}")));
            }
            let all: Value = list.into_iter().chain(new).collect();
            let would = if is_new {
                format!("Grain {name} is set to be added")
            } else {
                format!("Value {shown} is set to be appended to grain {name}")
            };
            let changes =
                Map::from_iter([("new", Value::from(Map::from_iter([(name.as_str(), all.clone())])))]);
            return Ok(Plan::Set(would, format!("Append value {shown} to grain {name}"), changes, Some(all)));
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
            return Ok(Plan::Right(say("")));
        }
        let rest: Value = list.into_iter().filter(|v| !gone.contains(v)).collect();
        let changes = Map::from_iter([("deleted", Value::from(gone.clone()))]);
        Ok(Plan::Set(say("in {} is set to be deleted"), say("was deleted from {}"), changes, Some(rest)))
    }
}

/// Puts a value at a path, or takes away what is there.
fn put(map: &mut Map, path: &str, value: Option<Value>) {
    match path.split_once(':') {
        None => match value {
            Some(value) => _ = map.insert(path, value),
            None => _ = map.remove(path),
        },
        Some((first, rest)) => {
            let mut inner = map.get(first).and_then(Value::as_map).cloned().unwrap_or_default();
            put(&mut inner, rest, value);
            map.insert(first, inner);
        }
    }
}

impl State for Grain {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let file = kept::read(&Self::path(scene), scene)?;
        Ok(match self.plan(&file, scene)? {
            Plan::Right(comment) => Look::right(comment),
            Plan::Set(would, _, changes, _) => Look::drift(would, changes),
        })
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let mut file = kept::read(&Self::path(scene), scene)?;
        match self.plan(&file, scene)? {
            Plan::Right(comment) => Ok(Done::new(comment, Map::new())),
            Plan::Set(_, did, changes, value) => {
                // A value below another keeps its neighbours.
                if let Some((first, _)) = self.name.split_once(':')
                    && !file.contains(first)
                    && let Some(whole @ Value::Map(_)) = scene.host.grain(first)
                {
                    file.insert(first, whole);
                }
                put(&mut file, &self.name, value);
                kept::write(&Self::path(scene), &file, scene)?;
                Ok(Done::new(did, changes))
            }
        }
    }

    fn is_foreseeable(&self) -> bool {
        true
    }

    fn resources(&self) -> Vec<Resource> {
        // Wherever it is: there is one.
        vec![Resource::Path(Path::new(DEFAULT_FACTS_DIR).join(FILE))]
    }

    fn sees(&self) -> Veil {
        Veil::FILES
    }

    fn cost(&self) -> Cost {
        Cost::Light
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_below_others() {
        let mut map = Map::new();
        put(&mut map, "a:b", Some(1.into()));
        put(&mut map, "a:c", Some(2.into()));
        put(&mut map, "a:b", None);
        assert_eq!(serde_json::to_string(&Value::from(map)).unwrap(), r#"{"a":{"c":2}}"#);
    }
}
