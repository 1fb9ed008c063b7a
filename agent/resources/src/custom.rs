//! A type of one's own: `_resources/TYPE` of the states repository is any executable, JSON in and JSON out.
//!
//! It reads one request and prints one answer:
//!
//! | request | answer |
//! |---|---|
//! | `{"call": "init", "type", "config"}` | `{"functions": ["mod.fun", …], "states": ["mod", …]}` |
//! | `{"call": "discover", "type", "config"}` | `{"ids": ["a", …]}` |
//! | `{"call": "grains", "resource": {"type", "id"}, "config"}` | `{"grains": {…}}` |
//! | `{"call": "ping", "resource", "config"}` | `{"result": true}` |
//! | `{"call": "call", "resource", "config", "function", "args", "kwargs"}` | `{"result": …}` |
//!
//! Any answer may be `{"error": "words"}` instead. For the modules in `states` it is called as an external state module is
//! (`check`, `apply`, `revert`), with the resource in `resource`.
//!
//! Law: an executable has a time limit and a cap on what it prints; anything but an answer is an error in words
//! (held by `a_custom_type_that_floods_is_cut_off`, `anything_but_an_answer_is_an_error`).

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use zagent_compiler::{BASE_ENV, CallError, FileTree, FunctionCall};
use zagent_config::resources::{CustomType, ResourceName, id_fault};
use zagent_config::value::python_str;
use zagent_config::{Map, Value, error_chain};
use zagent_host::Machine;
use zagent_host::exec::{ExecCommand, ExitReason};

use crate::ResourceError;

/// The folder of executables in a states repository.
pub const FOLDER: &str = "_resources/";
/// Maximum number of functions or state modules that a type may offer.
const MAX_OFFERS: usize = 500;
/// How much of what an executable complained about is shown.
const MAX_STDERR_SHOWN: usize = 400;

/// The types that a states tree provides.
///
/// # Errors
/// Fails with a message when the tree cannot be listed.
pub fn provided_types(tree: &dyn FileTree) -> Result<Vec<String>, String> {
    let files = tree.list(BASE_ENV)?;
    let names = files.iter().filter_map(|path| path.strip_prefix(FOLDER));
    Ok(names.filter(|name| !name.contains('/')).map(str::to_owned).collect())
}

/// What limits an executable.
#[derive(Clone, Copy, Debug)]
pub struct CustomLimits {
    /// How long one call may take.
    pub timeout: Duration,
    /// Maximum size of one answer, in bytes.
    pub max_output: usize,
}

/// A type whose executable can be called.
#[derive(Clone, Debug)]
pub struct CustomProgram {
    kind: String,
    config: Value,
    program: PathBuf,
    limits: CustomLimits,
    machine: Machine,
    /// The execution functions that it answers.
    pub functions: Arc<[String]>,
    /// The state modules that it provides.
    pub states: Arc<[String]>,
}

impl CustomProgram {
    /// Installs the executable of a type below `cache` and initialises the type.
    ///
    /// # Errors
    /// Fails when there is no such executable, or its answer is not one.
    pub fn load(
        declared: &CustomType,
        tree: &dyn FileTree,
        cache: &std::path::Path,
        machine: &Machine,
        limits: CustomLimits,
    ) -> Result<Self, ResourceError> {
        let kind = declared.kind.clone();
        let fault = |message: String| ResourceError::Type { kind: kind.clone(), message };
        let path = format!("{FOLDER}{kind}");
        let content = tree.read(BASE_ENV, &path).map_err(fault)?;
        let content = content.ok_or_else(|| fault(format!("there is no executable `{path}`")))?;
        let program = zagent_states::external::install_program(cache, &content).map_err(fault)?;
        let mut loaded = Self {
            kind: kind.clone(),
            config: declared.config.clone(),
            program,
            limits,
            machine: machine.clone(),
            functions: Arc::new([]),
            states: Arc::new([]),
        };
        let answer = loaded.ask("init", None, Map::new())?;
        loaded.functions = loaded.offers(&answer, "functions")?;
        loaded.states = loaded.offers(&answer, "states")?;
        Ok(loaded)
    }

    /// The ids of its resources.
    ///
    /// # Errors
    /// Fails when its answer is not a list of ids.
    pub fn discover(&self) -> Result<Vec<ResourceName>, ResourceError> {
        let answer = self.ask("discover", None, Map::new())?;
        let ids = answer.get("ids").and_then(Value::as_list);
        let ids = ids.ok_or_else(|| self.fault("the answer to `discover` has no list `ids`"))?;
        let mut names: Vec<ResourceName> = Vec::new();
        for id in ids.iter().map(python_str) {
            if let Some(why) = id_fault(&id) {
                let message =
                    format!("`{}` cannot be the id of a resource: {why}", zagent_config::sanitize(&id));
                return Err(self.fault(message));
            }
            let name = ResourceName::new(&self.kind, id);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// The grains of one resource.
    ///
    /// # Errors
    /// Fails when its answer is not a mapping.
    pub fn grains(&self, name: &ResourceName) -> Result<Map, ResourceError> {
        let answer = self.ask("grains", Some(name), Map::new())?;
        let grains = answer.get("grains").and_then(Value::as_map).cloned();
        let mut grains =
            grains.ok_or_else(|| self.fault("the answer to `grains` has no mapping `grains`"))?;
        grains.insert("resource_type", name.kind.as_str());
        grains.insert("resource_id", name.id.as_str());
        Ok(grains)
    }

    /// Whether one resource answers.
    ///
    /// # Errors
    /// Fails when the executable does.
    pub fn ping(&self, name: &ResourceName) -> Result<bool, ResourceError> {
        let answer = self.ask("ping", Some(name), Map::new())?;
        Ok(answer.get("result").is_some_and(Value::is_truthy))
    }

    /// Calls a function of one resource; `None` when the type has no such function.
    pub(crate) fn call(&self, name: &ResourceName, call: &FunctionCall) -> Option<Result<Value, CallError>> {
        if !self.functions.contains(&call.function) {
            return None;
        }
        let request = Map::from_iter([
            ("function", Value::from(call.function.as_str())),
            ("args", call.args.iter().cloned().collect()),
            ("kwargs", call.kwargs.clone().into()),
        ]);
        let answer = self.ask("call", Some(name), request);
        let answer = answer.map_err(|error| CallError::Failed(error_chain(&error)));
        Some(answer.map(|answer| answer.get("result").cloned().unwrap_or_default()))
    }

    fn offers(&self, answer: &Map, key: &str) -> Result<Arc<[String]>, ResourceError> {
        let list = match answer.get(key) {
            None | Some(Value::Null) => return Ok(Arc::new([])),
            Some(Value::List(list)) => list,
            Some(_) => return Err(self.fault(format!("`{key}` in the answer to `init` is not a list"))),
        };
        if list.len() > MAX_OFFERS {
            return Err(self.fault(format!("the answer to `init` offers more than {MAX_OFFERS} {key}")));
        }
        Ok(list.iter().map(python_str).collect())
    }

    fn fault(&self, message: impl Into<String>) -> ResourceError {
        ResourceError::Type { kind: self.kind.clone(), message: message.into() }
    }

    fn ask(&self, call: &str, name: Option<&ResourceName>, more: Map) -> Result<Map, ResourceError> {
        let mut request = Map::from_iter([
            ("call", Value::from(call)),
            ("type", Value::from(self.kind.as_str())),
            ("config", self.config.clone()),
        ]);
        if let Some(name) = name {
            request.insert("resource", identity(name));
        }
        for (key, value) in more.iter() {
            request.insert(key.clone(), value.clone());
        }
        let mut command = ExecCommand::new(&self.program);
        command.stdin = serde_json::to_vec(&Value::from(request)).unwrap_or_default();
        command.timeout = Some(self.limits.timeout);
        command.output_cap = self.limits.max_output;
        command.cwd = Some("/".into());
        let outcome = self.machine.run(&command).map_err(|error| self.fault(error_chain(&error)))?;
        let stderr = String::from_utf8_lossy(&outcome.stderr);
        let words: String = zagent_config::sanitize(stderr.trim()).chars().take(MAX_STDERR_SHOWN).collect();
        let said = if words.is_empty() { String::new() } else { format!(": {words}") };
        match outcome.reason {
            ExitReason::Exited(0) if outcome.truncated => {
                let limit = self.limits.max_output;
                Err(self.fault(format!("the answer to `{call}` is larger than {limit} bytes")))
            }
            ExitReason::Exited(0) => self.parse(call, &outcome.stdout),
            ExitReason::Exited(code) => Err(self.fault(format!("`{call}` exited with code {code}{said}"))),
            ExitReason::Signaled(signal) => Err(self.fault(format!("signal {signal} ended `{call}`{said}"))),
            ExitReason::TimedOut => {
                Err(self.fault(format!("`{call}` took longer than {:?}", self.limits.timeout)))
            }
            ExitReason::Cancelled => Err(self.fault(format!("`{call}` was stopped"))),
        }
    }

    fn parse(&self, call: &str, stdout: &[u8]) -> Result<Map, ResourceError> {
        let text = String::from_utf8_lossy(stdout);
        let Ok(Value::Map(answer)) = Value::from_json_str(text.trim()) else {
            return Err(self.fault(format!("the answer to `{call}` is not a JSON object")));
        };
        match answer.get("error") {
            Some(error) if !error.is_null() => Err(self.fault(python_str(error))),
            _ => Ok(Arc::unwrap_or_clone(answer)),
        }
    }
}

pub(crate) fn identity(name: &ResourceName) -> Value {
    Map::from_iter([("type", Value::from(name.kind.as_str())), ("id", Value::from(name.id.as_str()))]).into()
}

#[cfg(test)]
mod tests;
