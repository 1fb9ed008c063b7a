//! States of the module `docker_network`, by `docker` or `podman`.

pub(crate) mod functions;

use zagent_config::{Map, Value};

use crate::named_args::NamedArgs;
use crate::shared::docker::{
    ContainerEngine, DOCKER_OBJECT_UNDO, change_by_commands, json_field, plan_object_absent, undo_key,
};
use crate::shared::planned_state::{PlannedChange, StatePlan, to_strings};
use crate::shared::store_plan::{StoreFunction, StoreModule};
use crate::state_module::StateModule;
use crate::{BuildResult, ChunkArgs, StateCtx, StateError};
use zagent_host::command_options::value_text;

/// The module `docker_network`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "docker_network",
    build,
    functions: functions::TABLE,
    undo: &[&DOCKER_OBJECT_UNDO],
    description: include_str!("description.txt"),
};

static STATES: StoreModule = StoreModule::new(
    &[
        StoreFunction::new("present", network_present),
        StoreFunction::new("absent", |given, ctx| plan_object_absent(given, ctx, "network"))
            .irreversible("a network that is removed cannot come back by itself"),
    ],
    None,
);

/// Makes the state of a function of this module; nothing when there is no such function.
pub(crate) fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    STATES.build(fun, args)
}

/// The words that create a network.
fn create_command(given: &NamedArgs<'_>, name: &str) -> Vec<String> {
    let mut make = to_strings(&["network", "create"]);
    for (key, option) in
        [("driver", "--driver"), ("subnet", "--subnet"), ("gateway", "--gateway"), ("ip_range", "--ip-range")]
    {
        make.extend(given.text(key).map(|v| format!("{option}={v}")));
    }
    for (key, option) in
        [("internal", "--internal"), ("attachable", "--attachable"), ("enable_ipv6", "--ipv6")]
    {
        make.extend(given.is_enabled(key).then(|| option.to_owned()));
    }
    for (key, option) in [("driver_opts", "--opt"), ("options", "--opt"), ("labels", "--label")] {
        make.extend(
            given.pairs(key).iter().map(|(k, v)| format!("{option}={}={}", value_text(k), value_text(v))),
        );
    }
    make.extend(to_strings(&["--", name]));
    make
}

/// Refuses a network whose driver is another than the declared one: it cannot be changed.
fn verify_driver(given: &NamedArgs<'_>, now: &Value, name: &str) -> Result<(), StateError> {
    let Some(driver) = given.text("driver") else { return Ok(()) };
    let has = [json_field(now, "Driver"), json_field(now, "driver")]
        .iter()
        .find(|v| !v.is_null())
        .map(value_text)
        .unwrap_or_default();
    if has == driver {
        return Ok(());
    }
    Err(StateError::new(format!("Network '{name}' is there with the driver '{has}', not '{driver}'")))
}

fn network_present(given: &NamedArgs<'_>, ctx: &StateCtx<'_>) -> Result<StatePlan, StateError> {
    let (tools, name) = (ctx.tools(), given.require_text("name")?);
    let engine = ContainerEngine::new(given, &tools);
    let now = engine.inspect(&tools, "network", &name)?;
    let members = now.as_ref().map(|n| json_field(n, "Containers"));
    let is_in = |one: &String| {
        let all = members.as_ref().and_then(Value::as_map);
        all.is_some_and(|all| {
            all.iter()
                .any(|(id, v)| value_text(id) == *one || v.get("Name").map(value_text).as_ref() == Some(one))
        })
    };
    let joining: Vec<String> =
        given.text_list("containers").unwrap_or_default().into_iter().filter(|c| !is_in(c)).collect();
    if let Some(now) = &now {
        verify_driver(given, now, &name)?;
    }
    if now.is_some() && joining.is_empty() {
        return Ok(StatePlan::InSync(format!(
            "Network '{name}' already exists, and is configured as specified"
        )));
    }
    let mut all = Vec::new();
    if now.is_none() {
        all.push(create_command(given, &name));
    }
    all.extend(joining.iter().map(|c| to_strings(&["network", "connect", "--", &name, c])));
    let mut changes = Map::new();
    if now.is_none() {
        changes.insert("created", true);
    }
    if !joining.is_empty() {
        changes.insert("connected", joining.into_iter().map(Value::from).collect::<Vec<_>>());
    }
    let verb = if now.is_none() { "created" } else { "updated" };
    Ok(StatePlan::Change(PlannedChange {
        preview_comment: format!("Network '{name}' will be {verb}"),
        done_comment: format!("Network '{name}' {verb}"),
        failure_prefix: format!("Failed to make network '{name}'"),
        changes,
        undoable: Some((&DOCKER_OBJECT_UNDO, undo_key(given, "network", &name))),
        run_change: change_by_commands(engine, all),
    }))
}
