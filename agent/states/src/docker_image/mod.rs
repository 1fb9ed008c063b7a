//! States of the module `docker_image`, by `docker` or `podman`.

pub(crate) mod functions;

use zagent_config::Value;

use crate::named_args::NamedArgs;
use crate::shared::docker::{ContainerEngine, DATA_LOST, DOCKER_OBJECT_UNDO, change_by_commands, undo_key};
use crate::shared::planned_state::{PlannedChange, StatePlan, single_change, to_strings};
use crate::shared::store_plan::{RunsAlways, StoreFunction, StoreModule};
use crate::state_module::StateModule;
use crate::{BuildResult, ChunkArgs, StateCtx, StateError};

/// The module `docker_image`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "docker_image",
    build,
    functions: functions::TABLE,
    undo: &[&DOCKER_OBJECT_UNDO],
    description: include_str!("description.txt"),
};

static STATES: StoreModule = StoreModule::new(
    &[
        StoreFunction::new("present", image_present).runs(RunsAlways::WhenForced),
        StoreFunction::new("absent", image_absent).irreversible(DATA_LOST),
    ],
    None,
);

/// Makes the state of a function of this module; nothing when there is no such function.
pub(crate) fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    STATES.build(fun, args)
}

/// `nginx` is `nginx:latest`; what has a tag or a digest stays.
fn with_tag(name: &str, tag: Option<String>) -> String {
    let last = name.rsplit('/').next().unwrap_or(name);
    match tag {
        Some(tag) => format!("{name}:{tag}"),
        None if last.contains([':', '@']) => name.to_owned(),
        None => format!("{name}:latest"),
    }
}

fn image_present(given: &NamedArgs<'_>, ctx: &StateCtx<'_>) -> Result<StatePlan, StateError> {
    let (tools, name) = (ctx.tools(), given.require_text("name")?);
    let engine = ContainerEngine::new(given, &tools);
    let image = with_tag(&name, given.text("tag"));
    if !given.is_enabled("force") && engine.inspect(&tools, "image", &image)?.is_some() {
        return Ok(StatePlan::InSync(format!("Image {image} already present")));
    }
    let (verb, all) = if let Some(dir) = given.text("build") {
        let mut build = to_strings(&["build", "--tag", &image]);
        build.extend(given.text("dockerfile").map(|f| format!("--file={f}")));
        build.extend(to_strings(&["--", &dir]));
        ("built", build)
    } else if let Some(file) = given.text("load") {
        ("loaded", to_strings(&["load", "--input", &file]))
    } else {
        ("pulled", to_strings(&["pull", "--", &image]))
    };
    Ok(StatePlan::Change(PlannedChange {
        preview_comment: format!("Image {image} will be {verb}"),
        done_comment: format!("Image {image} was {verb}"),
        failure_prefix: format!("Encountered error: {image} cannot be {verb}"),
        changes: single_change(&image, verb),
        undoable: Some((&DOCKER_OBJECT_UNDO, undo_key(given, "image", &image))),
        run_change: change_by_commands(engine, vec![all]),
    }))
}

fn image_absent(given: &NamedArgs<'_>, ctx: &StateCtx<'_>) -> Result<StatePlan, StateError> {
    let (tools, name) = (ctx.tools(), given.require_text("name")?);
    let engine = ContainerEngine::new(given, &tools);
    let mut there = Vec::new();
    for image in given.text_list("images").unwrap_or_else(|| vec![name.clone()]) {
        if engine.inspect(&tools, "image", &image)?.is_some() {
            there.push(image);
        }
    }
    if there.is_empty() {
        return Ok(StatePlan::InSync(format!("Image '{name}' is not present")));
    }
    let mut remove = to_strings(&["image", "rm"]);
    remove.extend(given.is_enabled("force").then(|| "--force".to_owned()));
    remove.push("--".to_owned());
    remove.extend(there.iter().cloned());
    Ok(StatePlan::Change(PlannedChange {
        preview_comment: format!("The following image(s) will be removed: {}", there.join(", ")),
        done_comment: format!("The following image(s) were removed: {}", there.join(", ")),
        failure_prefix: "Failed to remove".to_owned(),
        changes: single_change("removed", there.into_iter().map(Value::from).collect::<Vec<_>>()),
        undoable: None,
        run_change: change_by_commands(engine, vec![remove]),
    }))
}
