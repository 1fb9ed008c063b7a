//! States of the module `docker_volume`, by `docker` or `podman`.

pub(crate) mod functions;

use crate::named_args::NamedArgs;
use crate::shared::docker::{
    ContainerEngine, DATA_LOST, DOCKER_OBJECT_UNDO, change_by_commands, json_field, plan_object_absent,
    undo_key,
};
use crate::shared::planned_state::{PlannedChange, StatePlan, single_change, to_strings};
use crate::shared::store_plan::{StoreFunction, StoreModule};
use crate::state_module::StateModule;
use crate::{BuildResult, ChunkArgs, StateCtx, StateError};
use zagent_host::command_options::value_text;

/// The module `docker_volume`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "docker_volume",
    build,
    functions: functions::TABLE,
    undo: &[&DOCKER_OBJECT_UNDO],
    description: include_str!("description.txt"),
};

static STATES: StoreModule = StoreModule::new(
    &[
        StoreFunction::new("present", volume_present),
        StoreFunction::new("absent", |given, ctx| plan_object_absent(given, ctx, "volume"))
            .irreversible(DATA_LOST),
    ],
    None,
);

/// Makes the state of a function of this module; nothing when there is no such function.
pub(crate) fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    STATES.build(fun, args)
}

fn volume_present(given: &NamedArgs<'_>, ctx: &StateCtx<'_>) -> Result<StatePlan, StateError> {
    let (tools, name) = (ctx.tools(), given.require_text("name")?);
    let engine = ContainerEngine::new(given, &tools);
    let mut all = Vec::new();
    if let Some(now) = engine.inspect(&tools, "volume", &name)? {
        let has = value_text(&json_field(&now, "Driver"));
        let Some(driver) = given.text("driver").filter(|d| *d != has) else {
            return Ok(StatePlan::InSync(format!("Volume '{name}' already exists.")));
        };
        if !given.is_enabled("force") {
            let words = format!(
                "Driver for existing volume '{name}' ('{has}') does not match specified driver ('{driver}')"
            );
            return Err(StateError::new(format!("{words} and force is False")));
        }
        all.push(to_strings(&["volume", "rm", "--", &name]));
    }
    let mut make = to_strings(&["volume", "create"]);
    make.extend(given.text("driver").map(|d| format!("--driver={d}")));
    make.extend(
        given.pairs("driver_opts").iter().map(|(k, v)| format!("--opt={}={}", value_text(k), value_text(v))),
    );
    make.extend(to_strings(&["--", &name]));
    all.push(make);
    Ok(StatePlan::Change(PlannedChange {
        preview_comment: format!("The volume '{name}' will be created"),
        done_comment: format!("Volume '{name}' created"),
        failure_prefix: format!("Failed to create volume '{name}'"),
        changes: single_change("created", name.as_str()),
        undoable: Some((&DOCKER_OBJECT_UNDO, undo_key(given, "volume", &name))),
        run_change: change_by_commands(engine, all),
    }))
}
