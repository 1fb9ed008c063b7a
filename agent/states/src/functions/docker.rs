//! `docker.*`: containers, images, networks and volumes, by the program `docker` or `podman`.

use zagent_config::FunctionError;
use zagent_config::Value;

use super::{ExecFunction, change_fn, query_fn};
use crate::databases::NamedArgs;
use crate::docker_container::engine::ContainerEngine;
use crate::named_args;
use zagent_host::{Machine, Tools};

/// The execution functions of `docker`.
pub(crate) const TABLE: &[ExecFunction] = &[
    query_fn("docker.version", "provider?", |m, a| {
        with_engine(m, a, |engine, tools, _| Ok(engine.run_checked(tools, &["--version".to_owned()])?.into()))
    }),
    query_fn("docker.ps", "all? provider?", |m, a| {
        list_objects(m, a, &["ps", "--no-trunc", "--format", "{{json .}}"])
    }),
    query_fn("docker.images", "provider?", |m, a| {
        list_objects(m, a, &["images", "--no-trunc", "--format", "{{json .}}"])
    }),
    query_fn("docker.inspect", "name provider?", |m, a| {
        inspect_objects(m, a, &["container", "image", "network", "volume"])
    }),
    query_fn("docker.inspect_container", "name provider?", |m, a| inspect_objects(m, a, &["container"])),
    query_fn("docker.inspect_image", "name provider?", |m, a| inspect_objects(m, a, &["image"])),
    query_fn("docker.inspect_network", "name provider?", |m, a| inspect_objects(m, a, &["network"])),
    query_fn("docker.inspect_volume", "name provider?", |m, a| inspect_objects(m, a, &["volume"])),
    query_fn("docker.exists", "name provider?", |m, a| {
        with_engine(m, a, |engine, tools, named_args| {
            Ok(engine.inspect(tools, "container", &named_args.require_text("name")?)?.is_some().into())
        })
    }),
    query_fn("docker.state", "name provider?", |m, a| {
        with_engine(m, a, |engine, tools, named_args| {
            let found = engine.inspect(tools, "container", &named_args.require_text("name")?)?;
            let found = found.ok_or_else(|| FunctionError::failed("there is no such container"))?;
            Ok(zagent_config::value::traverse(&found, "State.Status", ".").cloned().unwrap_or(Value::Null))
        })
    }),
    change_fn("docker.start", "name provider?", |m, a| run_verb(m, a, "start")),
    change_fn("docker.stop", "name provider?", |m, a| run_verb(m, a, "stop")),
    change_fn("docker.restart", "name provider?", |m, a| run_verb(m, a, "restart")),
    change_fn("docker.rm", "name force? provider?", |m, a| run_verb(m, a, "rm")),
    change_fn("docker.rmi", "name force? provider?", |m, a| run_verb(m, a, "rmi")),
    change_fn("docker.pull", "name provider?", |m, a| run_verb(m, a, "pull")),
];

type DockerResult = Result<Value, FunctionError>;
type BoundArgs = zagent_compiler::functions::FunctionArgs<Value>;

fn with_engine(
    machine: &Machine,
    args: &BoundArgs,
    body: impl FnOnce(&ContainerEngine, &Tools<'_>, &NamedArgs<'_>) -> DockerResult,
) -> DockerResult {
    let tools = Tools::new(machine);
    named_args::with_bound_args(args, |named_args| {
        body(&ContainerEngine::new(named_args, &tools), &tools, named_args)
    })
}

fn list_objects(machine: &Machine, args: &BoundArgs, words: &[&str]) -> DockerResult {
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

fn inspect_objects(machine: &Machine, args: &BoundArgs, kinds: &[&str]) -> DockerResult {
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

fn run_verb(machine: &Machine, args: &BoundArgs, verb: &str) -> DockerResult {
    with_engine(machine, args, |engine, tools, named_args| {
        let mut words = vec![verb.to_owned()];
        words.extend(named_args.is_enabled("force").then(|| "--force".to_owned()));
        words.extend(["--".to_owned(), named_args.require_text("name")?]);
        engine.run_checked(tools, &words).map(|_| true.into())
    })
}
