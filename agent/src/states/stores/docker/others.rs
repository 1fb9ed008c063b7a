//! Images, networks and volumes.

use zagent_config::{Map, Value};

use super::super::{Act, Plan, changed};
use super::{OTHER, commands, key, part, words};
use crate::host::command::shown;
use crate::host::functions::stores::Given;
use crate::host::functions::stores::docker::Engine;
use crate::states::{Failure, Scene};

/// `nginx` is `nginx:latest`; what has a tag or a digest stays.
fn tagged(name: &str, tag: Option<String>) -> String {
    let last = name.rsplit('/').next().unwrap_or(name);
    match tag {
        Some(tag) => format!("{name}:{tag}"),
        None if last.contains([':', '@']) => name.to_owned(),
        None => format!("{name}:latest"),
    }
}

pub(super) fn image_present(given: &Given<'_>, scene: &Scene<'_>) -> Result<Plan, Failure> {
    let (tools, name) = (scene.tools(), given.must("name")?);
    let engine = Engine::new(given, &tools);
    let image = tagged(&name, given.text("tag"));
    if !given.is("force") && engine.inspect(&tools, "image", &image)?.is_some() {
        return Ok(Plan::Right(format!("Image {image} already present")));
    }
    let (verb, all) = if let Some(dir) = given.text("build") {
        let mut build = words(&["build", "--tag", &image]);
        build.extend(given.text("dockerfile").map(|f| format!("--file={f}")));
        build.extend(words(&["--", &dir]));
        ("built", build)
    } else if let Some(file) = given.text("load") {
        ("loaded", words(&["load", "--input", &file]))
    } else {
        ("pulled", words(&["pull", "--", &image]))
    };
    Ok(Plan::Act(Act {
        would: format!("Image {image} will be {verb}"),
        did: format!("Image {image} was {verb}"),
        fails: format!("Encountered error: {image} cannot be {verb}"),
        changes: changed(&image, verb),
        thing: Some((&OTHER, key(given, "image", &image))),
        act: commands(engine, vec![all]),
    }))
}

pub(super) fn image_absent(given: &Given<'_>, scene: &Scene<'_>) -> Result<Plan, Failure> {
    let (tools, name) = (scene.tools(), given.must("name")?);
    let engine = Engine::new(given, &tools);
    let mut there = Vec::new();
    for image in given.texts("images").unwrap_or_else(|| vec![name.clone()]) {
        if engine.inspect(&tools, "image", &image)?.is_some() {
            there.push(image);
        }
    }
    if there.is_empty() {
        return Ok(Plan::Right(format!("Image '{name}' is not present")));
    }
    let mut remove = words(&["image", "rm"]);
    remove.extend(given.is("force").then(|| "--force".to_owned()));
    remove.push("--".to_owned());
    remove.extend(there.iter().cloned());
    Ok(Plan::Act(Act {
        would: format!("The following image(s) will be removed: {}", there.join(", ")),
        did: format!("The following image(s) were removed: {}", there.join(", ")),
        fails: "Failed to remove".to_owned(),
        changes: changed("removed", there.into_iter().map(Value::from).collect::<Vec<_>>()),
        thing: None,
        act: commands(engine, vec![remove]),
    }))
}

pub(super) fn network_present(given: &Given<'_>, scene: &Scene<'_>) -> Result<Plan, Failure> {
    let (tools, name) = (scene.tools(), given.must("name")?);
    let engine = Engine::new(given, &tools);
    let now = engine.inspect(&tools, "network", &name)?;
    let members = now.as_ref().map(|n| part(n, "Containers"));
    let is_in = |one: &String| {
        let all = members.as_ref().and_then(Value::as_map);
        all.is_some_and(|all| {
            all.iter().any(|(id, v)| shown(id) == *one || v.get("Name").map(shown).as_ref() == Some(one))
        })
    };
    let joining: Vec<String> =
        given.texts("containers").unwrap_or_default().into_iter().filter(|c| !is_in(c)).collect();
    if let (Some(now), Some(driver)) = (&now, given.text("driver")) {
        let has = [part(now, "Driver"), part(now, "driver")]
            .iter()
            .find(|v| !v.is_null())
            .map(shown)
            .unwrap_or_default();
        if has != driver {
            return Err(Failure::new(format!(
                "Network '{name}' is there with the driver '{has}', not '{driver}'"
            )));
        }
    }
    if now.is_some() && joining.is_empty() {
        return Ok(Plan::Right(format!("Network '{name}' already exists, and is configured as specified")));
    }
    let mut all = Vec::new();
    if now.is_none() {
        let mut make = words(&["network", "create"]);
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
            make.extend(given.is(key).then(|| option.to_owned()));
        }
        for (key, option) in [("driver_opts", "--opt"), ("options", "--opt"), ("labels", "--label")] {
            make.extend(given.pairs(key).iter().map(|(k, v)| format!("{option}={}={}", shown(k), shown(v))));
        }
        make.extend(words(&["--", &name]));
        all.push(make);
    }
    all.extend(joining.iter().map(|c| words(&["network", "connect", "--", &name, c])));
    let mut changes = Map::new();
    if now.is_none() {
        changes.insert("created", true);
    }
    if !joining.is_empty() {
        changes.insert("connected", joining.into_iter().map(Value::from).collect::<Vec<_>>());
    }
    let verb = if now.is_none() { "created" } else { "updated" };
    Ok(Plan::Act(Act {
        would: format!("Network '{name}' will be {verb}"),
        did: format!("Network '{name}' {verb}"),
        fails: format!("Failed to make network '{name}'"),
        changes,
        thing: Some((&OTHER, key(given, "network", &name))),
        act: commands(engine, all),
    }))
}

pub(super) fn volume_present(given: &Given<'_>, scene: &Scene<'_>) -> Result<Plan, Failure> {
    let (tools, name) = (scene.tools(), given.must("name")?);
    let engine = Engine::new(given, &tools);
    let mut all = Vec::new();
    if let Some(now) = engine.inspect(&tools, "volume", &name)? {
        let has = shown(&part(&now, "Driver"));
        let Some(driver) = given.text("driver").filter(|d| *d != has) else {
            return Ok(Plan::Right(format!("Volume '{name}' already exists.")));
        };
        if !given.is("force") {
            let words = format!(
                "Driver for existing volume '{name}' ('{has}') does not match specified driver ('{driver}')"
            );
            return Err(Failure::new(format!("{words} and force is False")));
        }
        all.push(words(&["volume", "rm", "--", &name]));
    }
    let mut make = words(&["volume", "create"]);
    make.extend(given.text("driver").map(|d| format!("--driver={d}")));
    make.extend(given.pairs("driver_opts").iter().map(|(k, v)| format!("--opt={}={}", shown(k), shown(v))));
    make.extend(words(&["--", &name]));
    all.push(make);
    Ok(Plan::Act(Act {
        would: format!("The volume '{name}' will be created"),
        did: format!("Volume '{name}' created"),
        fails: format!("Failed to create volume '{name}'"),
        changes: changed("created", name.as_str()),
        thing: Some((&OTHER, key(given, "volume", &name))),
        act: commands(engine, all),
    }))
}

/// Why a volume is not taken away: something is in it, or nobody can tell.
pub(super) fn volume_full(given: &Given<'_>, scene: &Scene<'_>) -> Result<Option<String>, Failure> {
    let (tools, name) = (scene.tools(), given.must("name")?);
    let engine = Engine::new(given, &tools);
    let Some(now) = engine.inspect(&tools, "volume", &name)? else { return Ok(None) };
    let users = words(&["ps", "--all", "--quiet", "--filter", &format!("volume={name}")]);
    if !engine.tell(&tools, &users)?.is_empty() {
        return Ok(Some("containers use the volume".to_owned()));
    }
    let place = std::path::PathBuf::from(shown(&part(&now, "Mountpoint")));
    let is_local = shown(&part(&now, "Driver")) == "local" && place.is_absolute();
    // One that is mounted only when used, or is on another host, cannot be looked into.
    let is_plain = matches!(part(&now, "Options"), Value::Null)
        || part(&now, "Options").as_map().is_some_and(Map::is_empty);
    if !is_local || !is_plain || scene.fs.stat(&place)?.is_none() {
        return Ok(Some("what is in the volume cannot be seen".to_owned()));
    }
    Ok((!scene.fs.read_dir(&place)?.is_empty()).then(|| "there is something in the volume".to_owned()))
}

/// Networks and volumes that go.
pub(super) fn gone(given: &Given<'_>, scene: &Scene<'_>, kind: &str) -> Result<Plan, Failure> {
    let (tools, name) = (scene.tools(), given.must("name")?);
    let engine = Engine::new(given, &tools);
    let noun = if kind == "network" { "Network" } else { "Volume" };
    if engine.inspect(&tools, kind, &name)?.is_none() {
        return Ok(Plan::Right(format!("{noun} '{name}' already absent")));
    }
    Ok(Plan::Act(Act {
        would: format!("The {kind} '{name}' will be removed"),
        did: format!("Removed {kind} '{name}'"),
        fails: format!("Failed to remove {kind} '{name}'"),
        changes: changed("removed", true),
        thing: None,
        act: commands(engine, vec![words(&[kind, "rm", "--", &name])]),
    }))
}
