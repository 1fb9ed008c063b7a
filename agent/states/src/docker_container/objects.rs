//! Images, networks and volumes.

use zagent_config::{Map, Value};

use super::{DOCKER_OBJECT_UNDO, change_by_commands, json_field, to_strings, undo_key};
use crate::databases::NamedArgs;
use crate::docker_container::engine::ContainerEngine;
use crate::groups::stores::{PlannedChange, StorePlan, single_change};
use crate::{StateCtx, StateError};
use zagent_host::exec::command_options::value_text;

/// `nginx` is `nginx:latest`; what has a tag or a digest stays.
fn with_tag(name: &str, tag: Option<String>) -> String {
    let last = name.rsplit('/').next().unwrap_or(name);
    match tag {
        Some(tag) => format!("{name}:{tag}"),
        None if last.contains([':', '@']) => name.to_owned(),
        None => format!("{name}:latest"),
    }
}

pub fn image_present(given: &NamedArgs<'_>, ctx: &StateCtx<'_>) -> Result<StorePlan, StateError> {
    let (tools, name) = (ctx.tools(), given.require_text("name")?);
    let engine = ContainerEngine::new(given, &tools);
    let image = with_tag(&name, given.text("tag"));
    if !given.is_enabled("force") && engine.inspect(&tools, "image", &image)?.is_some() {
        return Ok(StorePlan::InSync(format!("Image {image} already present")));
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
    Ok(StorePlan::Change(PlannedChange {
        preview_comment: format!("Image {image} will be {verb}"),
        done_comment: format!("Image {image} was {verb}"),
        failure_prefix: format!("Encountered error: {image} cannot be {verb}"),
        changes: single_change(&image, verb),
        undoable: Some((&DOCKER_OBJECT_UNDO, undo_key(given, "image", &image))),
        run_change: change_by_commands(engine, vec![all]),
    }))
}

pub fn image_absent(given: &NamedArgs<'_>, ctx: &StateCtx<'_>) -> Result<StorePlan, StateError> {
    let (tools, name) = (ctx.tools(), given.require_text("name")?);
    let engine = ContainerEngine::new(given, &tools);
    let mut there = Vec::new();
    for image in given.text_list("images").unwrap_or_else(|| vec![name.clone()]) {
        if engine.inspect(&tools, "image", &image)?.is_some() {
            there.push(image);
        }
    }
    if there.is_empty() {
        return Ok(StorePlan::InSync(format!("Image '{name}' is not present")));
    }
    let mut remove = to_strings(&["image", "rm"]);
    remove.extend(given.is_enabled("force").then(|| "--force".to_owned()));
    remove.push("--".to_owned());
    remove.extend(there.iter().cloned());
    Ok(StorePlan::Change(PlannedChange {
        preview_comment: format!("The following image(s) will be removed: {}", there.join(", ")),
        done_comment: format!("The following image(s) were removed: {}", there.join(", ")),
        failure_prefix: "Failed to remove".to_owned(),
        changes: single_change("removed", there.into_iter().map(Value::from).collect::<Vec<_>>()),
        undoable: None,
        run_change: change_by_commands(engine, vec![remove]),
    }))
}

pub fn network_present(given: &NamedArgs<'_>, ctx: &StateCtx<'_>) -> Result<StorePlan, StateError> {
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
    if let (Some(now), Some(driver)) = (&now, given.text("driver")) {
        let has = [json_field(now, "Driver"), json_field(now, "driver")]
            .iter()
            .find(|v| !v.is_null())
            .map(value_text)
            .unwrap_or_default();
        if has != driver {
            return Err(StateError::new(format!(
                "Network '{name}' is there with the driver '{has}', not '{driver}'"
            )));
        }
    }
    if now.is_some() && joining.is_empty() {
        return Ok(StorePlan::InSync(format!(
            "Network '{name}' already exists, and is configured as specified"
        )));
    }
    let mut all = Vec::new();
    if now.is_none() {
        let mut make = to_strings(&["network", "create"]);
        for (key, option) in [
            ("driver", "--driver"),
            ("subnet", "--subnet"),
            ("gateway", "--gateway"),
            ("ip_range", "--ip-range"),
        ] {
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
        make.extend(to_strings(&["--", &name]));
        all.push(make);
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
    Ok(StorePlan::Change(PlannedChange {
        preview_comment: format!("Network '{name}' will be {verb}"),
        done_comment: format!("Network '{name}' {verb}"),
        failure_prefix: format!("Failed to make network '{name}'"),
        changes,
        undoable: Some((&DOCKER_OBJECT_UNDO, undo_key(given, "network", &name))),
        run_change: change_by_commands(engine, all),
    }))
}

pub fn volume_present(given: &NamedArgs<'_>, ctx: &StateCtx<'_>) -> Result<StorePlan, StateError> {
    let (tools, name) = (ctx.tools(), given.require_text("name")?);
    let engine = ContainerEngine::new(given, &tools);
    let mut all = Vec::new();
    if let Some(now) = engine.inspect(&tools, "volume", &name)? {
        let has = value_text(&json_field(&now, "Driver"));
        let Some(driver) = given.text("driver").filter(|d| *d != has) else {
            return Ok(StorePlan::InSync(format!("Volume '{name}' already exists.")));
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
    Ok(StorePlan::Change(PlannedChange {
        preview_comment: format!("The volume '{name}' will be created"),
        done_comment: format!("Volume '{name}' created"),
        failure_prefix: format!("Failed to create volume '{name}'"),
        changes: single_change("created", name.as_str()),
        undoable: Some((&DOCKER_OBJECT_UNDO, undo_key(given, "volume", &name))),
        run_change: change_by_commands(engine, all),
    }))
}

/// Why a volume is not taken away: something is in it, or nobody can tell.
pub fn volume_keep_reason(given: &NamedArgs<'_>, ctx: &StateCtx<'_>) -> Result<Option<String>, StateError> {
    let (tools, name) = (ctx.tools(), given.require_text("name")?);
    let engine = ContainerEngine::new(given, &tools);
    let Some(now) = engine.inspect(&tools, "volume", &name)? else { return Ok(None) };
    let users = to_strings(&["ps", "--all", "--quiet", "--filter", &format!("volume={name}")]);
    if !engine.run_checked(&tools, &users)?.is_empty() {
        return Ok(Some("containers use the volume".to_owned()));
    }
    let place = std::path::PathBuf::from(value_text(&json_field(&now, "Mountpoint")));
    let is_local = value_text(&json_field(&now, "Driver")) == "local" && place.is_absolute();
    // One that is mounted only when used, or is on another host, cannot be looked into.
    let is_plain = matches!(json_field(&now, "Options"), Value::Null)
        || json_field(&now, "Options").as_map().is_some_and(Map::is_empty);
    if !is_local || !is_plain || ctx.fs.stat(&place)?.is_none() {
        return Ok(Some("what is in the volume cannot be seen".to_owned()));
    }
    Ok((!ctx.fs.read_dir(&place)?.is_empty()).then(|| "there is something in the volume".to_owned()))
}

/// Networks and volumes that go.
pub fn plan_absent(given: &NamedArgs<'_>, ctx: &StateCtx<'_>, kind: &str) -> Result<StorePlan, StateError> {
    let (tools, name) = (ctx.tools(), given.require_text("name")?);
    let engine = ContainerEngine::new(given, &tools);
    let noun = if kind == "network" { "Network" } else { "Volume" };
    if engine.inspect(&tools, kind, &name)?.is_none() {
        return Ok(StorePlan::InSync(format!("{noun} '{name}' already absent")));
    }
    Ok(StorePlan::Change(PlannedChange {
        preview_comment: format!("The {kind} '{name}' will be removed"),
        done_comment: format!("Removed {kind} '{name}'"),
        failure_prefix: format!("Failed to remove {kind} '{name}'"),
        changes: single_change("removed", true),
        undoable: None,
        run_change: change_by_commands(engine, vec![to_strings(&[kind, "rm", "--", &name])]),
    }))
}
