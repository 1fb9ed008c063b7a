//! `docker.*` for containers: arguments as Salt names them in, what the program says out.

use zagent_config::{FunctionError, Value};

use crate::exec_function::{ExecFunction, change_fn, query_fn};
use crate::shared::docker_functions::{inspect_objects, list_objects, run_verb, with_engine};

pub(crate) const TABLE: &[ExecFunction] = &[
    query_fn("docker.version", "provider?", |m, a| {
        with_engine(m, a, |engine, tools, _| Ok(engine.run_checked(tools, &["--version".to_owned()])?.into()))
    }),
    query_fn("docker.ps", "all? provider?", |m, a| {
        list_objects(m, a, &["ps", "--no-trunc", "--format", "{{json .}}"])
    }),
    query_fn("docker.inspect", "name provider?", |m, a| {
        inspect_objects(m, a, &["container", "image", "network", "volume"])
    }),
    query_fn("docker.inspect_container", "name provider?", |m, a| inspect_objects(m, a, &["container"])),
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
];
