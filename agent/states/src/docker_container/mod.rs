//! States of the module `docker_container`, by `docker` or `podman`.

pub(crate) mod engine;
pub(crate) mod functions;
mod swap;
#[cfg(test)]
mod tests;

use zagent_config::{Map, Value};

use self::engine::{container_networks, create_args, differences, env_variables};
use self::swap::ContainerSwap;
use crate::named_args::NamedArgs;
use crate::shared::docker::{
    ContainerEngine, DATA_LOST, change_by_commands, change_with_env, json_field, run_engine, undo_key,
};
use crate::shared::planned_state::{PlannedChange, StatePlan, single_change, to_strings};
use crate::shared::store_plan::{ReactionArgs, RunsAlways, StoreFunction, StoreModule};
use crate::shared::store_undo::StoreUndo;
use crate::state_module::StateModule;
use crate::{BuildResult, ChunkArgs, StateCtx, StateError, Undoable};
use zagent_host::Tools;
use zagent_host::command_options::value_text;

/// The module `docker_container`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "docker_container",
    build,
    functions: functions::TABLE,
    undo: &[&DOCKER_CONTAINER_UNDO],
    description: include_str!("description.txt"),
};

static STATES: StoreModule = StoreModule::new(
    &[
        StoreFunction::new("running", plan_running)
            .irreversible("what was in a container that is replaced cannot come back")
            .runs(RunsAlways::WhenForced)
            .reacts(REACTION),
        StoreFunction::new("stopped", plan_stopped),
        StoreFunction::new("absent", plan_absent).irreversible(DATA_LOST),
        StoreFunction::new("run", plan_run)
            .irreversible("nobody knows what a container does")
            .runs(RunsAlways::Always),
    ],
    None,
);

/// Makes the state of a function of this module; nothing when there is no such function.
pub(crate) fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    STATES.build(fun, args)
}

/// The argument by which a reaction asks for a signal.
const SIGNAL_ARG: &str = "__signal__";

/// A reaction replaces the container, or sends the signal that is asked for.
const REACTION: ReactionArgs = ReactionArgs {
    set: |args| {
        let action = args.get("watch_action").and_then(Value::as_str).filter(|action| *action != "force");
        match action.map(str::to_owned) {
            Some(signal) => args.insert(SIGNAL_ARG, signal),
            None => args.insert("force", true),
        };
    },
    reset: |args| {
        args.remove("force");
        args.remove(SIGNAL_ARG);
    },
};

/// A container: which one it is, and whether it runs. One that was new is removed, one that was stopped starts again.
pub(crate) static DOCKER_CONTAINER_UNDO: StoreUndo = StoreUndo {
    kind: "docker_container",
    login: None,
    capture: |given, ctx| {
        let engine = ContainerEngine::new(given, &ctx.tools());
        let found = engine.inspect(&ctx.tools(), "container", &given.require_text("name")?)?;
        let told = |v: Value| {
            Map::from_iter([
                ("id", json_field(&v, "Id")),
                ("running", (container_status(&v) == "running").into()),
            ])
        };
        Ok(found.map_or(Value::Null, |v| told(v).into()))
    },
    restore: |given, to, ctx| {
        let (tools, name) = (ctx.tools(), given.require_text("name")?);
        let engine = ContainerEngine::new(given, &tools);
        let now = engine.inspect(&tools, "container", &name)?;
        let verb: &[&str] = match (to.as_map(), &now) {
            (None, _) => &["rm", "--force", "--"],
            (Some(was), Some(now)) if was.get("id") == Some(&json_field(now, "Id")) => {
                if was.get("running").is_some_and(Value::is_truthy) {
                    &["start", "--"]
                } else {
                    &["stop", "--"]
                }
            }
            _ => return Err(StateError::new("a container that was removed cannot come back")),
        };
        run_engine(&engine, ctx, verb, &[name])
    },
    keep_reason: None,
};

fn container_status(value: &Value) -> String {
    value_text(&json_field(value, "State.Status"))
}

fn container_key(given: &NamedArgs<'_>, name: &str) -> Option<(&'static dyn Undoable, Value)> {
    Some((&DOCKER_CONTAINER_UNDO, undo_key(given, "container", name)))
}

/// What makes a container that is called so, and puts it into its networks.
fn create_commands(given: &NamedArgs<'_>, called: &str, image: &str) -> Result<Vec<Vec<String>>, StateError> {
    let mut all =
        vec![to_strings(&["create"]).into_iter().chain(create_args(given, called, image)?).collect()];
    let own = usize::from(given.get("network_mode").is_none());
    let more = if given.is_enabled("network_disabled") { Vec::new() } else { container_networks(given)? };
    for network in more.iter().skip(own) {
        let mut connect = to_strings(&["network", "connect"]);
        connect.extend(network.option_words("--alias"));
        connect.extend(to_strings(&["--", &network.name, called]));
        all.push(connect);
    }
    Ok(all)
}

/// What of a container is not as declared, its image included.
fn container_differences(
    given: &NamedArgs<'_>,
    now: &Value,
    image: &str,
    (engine, tools): (&ContainerEngine, &Tools<'_>),
) -> Result<Map, StateError> {
    let found = engine.inspect(tools, "image", image)?;
    let mut differing = differences(given, now, found.as_ref())?;
    if given.get("image").is_some()
        && found.as_ref().is_none_or(|i| json_field(i, "Id") != json_field(now, "Image"))
    {
        let new = found.map_or(Value::from(image), |i| json_field(&i, "Id"));
        differing.insert("Image", Map::from_iter([("old", json_field(now, "Image")), ("new", new)]));
    }
    Ok(differing)
}

fn plan_running(given: &NamedArgs<'_>, ctx: &StateCtx<'_>) -> Result<StatePlan, StateError> {
    let (tools, name) = (ctx.tools(), given.require_text("name")?);
    let engine = ContainerEngine::new(given, &tools);
    let now = engine.inspect(&tools, "container", &name)?;
    let starts = given.flag("start").unwrap_or(true);
    let image = match (given.text("image"), &now) {
        (Some(image), _) => image,
        (None, Some(now)) => value_text(&json_field(now, "Config.Image")),
        (None, None) => return Err(StateError::new("The 'image' argument is required")),
    };
    let differing = match &now {
        Some(now) => container_differences(given, now, &image, (&engine, &tools))?,
        None => Map::new(),
    };
    let is_up = now.as_ref().is_some_and(|n| container_status(n) == "running");
    let replaces = now.is_some() && (!differing.is_empty() || given.is_enabled("force"));
    let mut changes = Map::new();
    let (mut makes, mut ends) = (Vec::new(), Vec::new());
    // A new one is made beside the old one: nothing is lost when it cannot be had.
    let called = if replaces { format!("{name}-zagent-new") } else { name.clone() };
    if now.is_none() || replaces {
        let id =
            now.as_ref().map_or(("added", name.as_str().into()), |now| ("removed", json_field(now, "Id")));
        changes.insert("container_id", Map::from_iter([id]));
        makes = create_commands(given, &called, &image)?;
    }
    if starts && (!is_up || replaces) {
        ends.push(to_strings(&["start", "--", &name]));
        let old = now.as_ref().map_or(Value::Null, |n| container_status(n).into());
        changes.insert("state", Map::from_iter([("old", old), ("new", "running".into())]));
    }
    if !differing.is_empty() {
        changes.insert("container", differing);
    }
    // Somebody watched: it is told so by a signal instead of being replaced.
    if let Some(signal) = given.text(SIGNAL_ARG).filter(|_| is_up && !replaces) {
        ends.push(to_strings(&["kill", &format!("--signal={signal}"), "--", &name]));
        changes.insert("signal", signal);
    }
    let (verb, past) = match (&now, replaces) {
        (None, _) => ("created", "Created"),
        (Some(_), true) => ("replaced", "Replaced"),
        (Some(_), false) if ends.is_empty() => {
            return Ok(StatePlan::InSync(format!("Container '{name}' is already configured as specified")));
        }
        (Some(_), false) if is_up => ("sent a signal", "Sent signal to"),
        (Some(_), false) => ("started", "Started"),
    };
    Ok(StatePlan::Change(PlannedChange {
        preview_comment: format!("Container '{name}' will be {verb}"),
        done_comment: format!("{past} container '{name}'"),
        failure_prefix: format!("Failed to run container '{name}'"),
        changes,
        undoable: container_key(given, &name),
        run_change: if replaces {
            let timeout = given.text("shutdown_timeout").unwrap_or_else(|| "10".into());
            let variables = env_variables(given);
            let swap = ContainerSwap {
                engine,
                name,
                timeout,
                temp_name: called,
                was_up: is_up,
                create_commands: makes,
                variables,
                start_commands: ends,
            };
            Box::new(move |ctx| swap.run(ctx))
        } else {
            makes.extend(ends);
            change_with_env(engine, makes, env_variables(given))
        },
    }))
}

fn plan_stopped(given: &NamedArgs<'_>, ctx: &StateCtx<'_>) -> Result<StatePlan, StateError> {
    let (tools, name) = (ctx.tools(), given.require_text("name")?);
    let engine = ContainerEngine::new(given, &tools);
    let names = given.text_list("containers").unwrap_or_else(|| vec![name.clone()]);
    let (mut up, mut missing) = (Vec::new(), Vec::new());
    let (mut all, mut changes) = (Vec::new(), Map::new());
    for one in &names {
        let Some(now) = engine.inspect(&tools, "container", one)? else {
            missing.push(one.clone());
            continue;
        };
        match &*container_status(&now) {
            "paused" if !given.is_enabled("unpause") => {
                return Err(StateError::new(format!(
                    "Container '{one}' is paused; `unpause: true` lets it be stopped"
                )));
            }
            "paused" => all.push(to_strings(&["unpause", "--", one])),
            "running" | "restarting" => {}
            _ => continue,
        }
        all.push(to_strings(&[
            "stop",
            "--time",
            &given.text("shutdown_timeout").unwrap_or_else(|| "10".into()),
            "--",
            one,
        ]));
        changes.insert(
            one.as_str(),
            Map::from_iter([(
                "state",
                Map::from_iter([("old", container_status(&now)), ("new", "stopped".to_owned())]),
            )]),
        );
        up.push(one.clone());
    }
    if !missing.is_empty() && given.is_enabled("error_on_absent") {
        return Err(StateError::new(format!(
            "The following container(s) are absent: {}",
            missing.join(", ")
        )));
    }
    if up.is_empty() {
        let who = if names.len() == 1 {
            format!("Container '{}' is", names[0])
        } else {
            "All specified containers are".to_owned()
        };
        let how = match (missing.is_empty(), missing.len() == names.len()) {
            (true, _) => "stopped",
            (false, true) => "absent",
            (false, false) => "absent or stopped",
        };
        return Ok(StatePlan::InSync(format!("{who} {how}")));
    }
    Ok(StatePlan::Change(PlannedChange {
        preview_comment: format!("The following container(s) will be stopped: {}", up.join(", ")),
        done_comment: format!("The following container(s) were stopped: {}", up.join(", ")),
        failure_prefix: "Failed to stop".to_owned(),
        changes,
        undoable: if up.len() == 1 { container_key(given, &up[0]) } else { None },
        run_change: change_by_commands(engine, all),
    }))
}

fn plan_absent(given: &NamedArgs<'_>, ctx: &StateCtx<'_>) -> Result<StatePlan, StateError> {
    let (tools, name) = (ctx.tools(), given.require_text("name")?);
    let engine = ContainerEngine::new(given, &tools);
    let Some(now) = engine.inspect(&tools, "container", &name)? else {
        return Ok(StatePlan::InSync(format!("Container '{name}' does not exist")));
    };
    if container_status(&now) == "running" && !given.is_enabled("force") {
        return Err(StateError::new("Container is running, set force to True to forcibly remove it"));
    }
    Ok(StatePlan::Change(PlannedChange {
        preview_comment: format!("Container '{name}' will be removed"),
        done_comment: format!("Removed container '{name}'"),
        failure_prefix: format!("Failed to remove container '{name}'"),
        changes: single_change("removed", vec![json_field(&now, "Id")]),
        undoable: None,
        run_change: change_by_commands(engine, vec![to_strings(&["rm", "--force", "--", &name])]),
    }))
}

fn plan_run(given: &NamedArgs<'_>, ctx: &StateCtx<'_>) -> Result<StatePlan, StateError> {
    let (tools, name, image) = (ctx.tools(), given.require_text("name")?, given.require_text("image")?);
    let engine = ContainerEngine::new(given, &tools);
    let mut all = Vec::new();
    if engine.inspect(&tools, "container", &name)?.is_some() {
        if !given.is_enabled("replace") {
            let words = "Run with replace=True to remove the existing container";
            return Err(StateError::new(format!(
                "Encountered error running container: Container '{name}' exists. {words}"
            )));
        }
        all.push(to_strings(&["rm", "--force", "--", &name]));
    }
    let mut run = to_strings(&["run"]);
    run.extend(given.is_enabled("bg").then(|| "--detach".to_owned()));
    run.extend(create_args(given, &name, &image)?);
    all.push(run);
    Ok(StatePlan::Change(PlannedChange {
        preview_comment: format!("Container '{name}' will be run"),
        done_comment: format!("Container '{name}' was run"),
        failure_prefix: "Encountered error running container".to_owned(),
        changes: single_change(&name, "Run"),
        undoable: None,
        run_change: change_with_env(engine, all, env_variables(given)),
    }))
}
