//! What the execution functions `docker.*` share: arguments as Salt names them in, what the program says out.

use zagent_compiler::functions::FunctionArgs;
use zagent_config::{FunctionError, Value};

use super::docker::ContainerEngine;
use crate::named_args::{self, NamedArgs};
use zagent_host::{Machine, Tools};

pub(crate) type DockerResult = Result<Value, FunctionError>;

/// Runs a body with the program that the arguments name.
pub(crate) fn with_engine(
    machine: &Machine,
    args: &FunctionArgs<Value>,
    body: impl FnOnce(&ContainerEngine, &Tools<'_>, &NamedArgs<'_>) -> DockerResult,
) -> DockerResult {
    let tools = Tools::new(machine);
    named_args::with_bound_args(args, |named_args| {
        body(&ContainerEngine::new(named_args, &tools), &tools, named_args)
    })
}

/// What the program lists.
pub(crate) fn list_objects(machine: &Machine, args: &FunctionArgs<Value>, words: &[&str]) -> DockerResult {
    with_engine(machine, args, |engine, tools, named_args| {
        let mut words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
        words.extend(named_args.is_enabled("all").then(|| "--all".to_owned()));
        let text = engine.run_checked(tools, &words)?;
        let read = |l: &str| {
            Value::from_json_str(l)
                .map_err(|e| FunctionError::failed(format!("{} said no JSON: {e}", engine.0)))
        };
        // Podman writes one list, Docker a line for each.
        if text.starts_with('[') {
            return read(&text);
        }
        text.lines().map(read).collect::<Result<Vec<_>, _>>().map(Value::from)
    })
}

/// What the program shows of the first of these kinds that has the name.
pub(crate) fn inspect_objects(machine: &Machine, args: &FunctionArgs<Value>, kinds: &[&str]) -> DockerResult {
    with_engine(machine, args, |engine, tools, named_args| {
        let name = named_args.require_text("name")?;
        for kind in kinds {
            if let Some(found) = engine.inspect(tools, kind, &name)? {
                return Ok(found);
            }
        }
        Err(FunctionError::failed(format!("there is no `{name}`")))
    })
}

/// Runs a command on the object that the arguments name.
pub(crate) fn run_verb(machine: &Machine, args: &FunctionArgs<Value>, verb: &str) -> DockerResult {
    with_engine(machine, args, |engine, tools, named_args| {
        let mut words = vec![verb.to_owned()];
        words.extend(named_args.is_enabled("force").then(|| "--force".to_owned()));
        words.extend(["--".to_owned(), named_args.require_text("name")?]);
        engine.run_checked(tools, &words).map(|_| true.into())
    })
}
