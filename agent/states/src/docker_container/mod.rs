//! States of the modules `docker_*`, by `docker` or `podman`.

pub mod engine;

pub mod objects;

use zagent_config::{Map, Value};

use crate::databases::NamedArgs;
use crate::docker_container::engine::{
    ContainerEngine, container_networks, create_args, differences, env_variables,
};
use crate::groups::stores::{
    ChangeFn, PlannedChange, StorePlan, StorePlanner, StorePlannerRow, StoreUndo, single_change,
};
use crate::{StateCtx, StateError, Undoable};
use zagent_host::exec::command_options::value_text;

const DATA_LOST: Option<&str> =
    Some("what was in a container, image or volume that is removed cannot come back");

pub const PLANNERS: &[StorePlannerRow] = &[
    (
        "docker_container",
        "running",
        plan_running as StorePlanner,
        Some("what was in a container that is replaced cannot come back"),
    ),
    ("docker_container", "stopped", plan_stopped, None),
    ("docker_container", "absent", plan_absent, DATA_LOST),
    ("docker_container", "run", plan_run, Some("nobody knows what a container does")),
    ("docker_image", "present", objects::image_present, None),
    ("docker_image", "absent", objects::image_absent, DATA_LOST),
    ("docker_network", "present", objects::network_present, None),
    (
        "docker_network",
        "absent",
        |g, s| objects::plan_absent(g, s, "network"),
        Some("a network that is removed cannot come back by itself"),
    ),
    ("docker_volume", "present", objects::volume_present, None),
    ("docker_volume", "absent", |g, s| objects::plan_absent(g, s, "volume"), DATA_LOST),
];

/// A container: which one it is, and whether it runs. One that was new is removed, one that was stopped starts again.
pub static DOCKER_CONTAINER_UNDO: StoreUndo = StoreUndo {
    kind: "docker_container",
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

/// An image, a network or a volume: one that was new is removed.
pub static DOCKER_OBJECT_UNDO: StoreUndo = StoreUndo {
    kind: "docker",
    capture: |given, ctx| {
        let engine = ContainerEngine::new(given, &ctx.tools());
        let found =
            engine.inspect(&ctx.tools(), &given.require_text("type")?, &given.require_text("name")?)?;
        // `podman` writes some of them small.
        let told = |v: Value| {
            let all = ["Id", "id", "Name", "name"].iter().map(|key| json_field(&v, key));
            all.into_iter().find(|v| !v.is_null()).unwrap_or(Value::Bool(true))
        };
        Ok(found.map_or(Value::Null, told))
    },
    restore: |given, to, ctx| {
        let (kind, name) = (given.require_text("type")?, given.require_text("name")?);
        if !to.is_null() {
            return Err(StateError::new(format!("the {kind} {name} that was there cannot come back")));
        }
        run_engine(&ContainerEngine::new(given, &ctx.tools()), ctx, &[&kind, "rm", "--"], &[name])
    },
    keep_reason: Some(|given, ctx| match &*given.require_text("type")? {
        "volume" => objects::volume_keep_reason(given, ctx),
        // The program refuses to remove others that are in use, and nothing is in them that could not be had again.
        _ => Ok(None),
    }),
};

fn json_field(value: &Value, place: &str) -> Value {
    zagent_config::value::traverse(value, place, ".").cloned().unwrap_or(Value::Null)
}

fn container_status(value: &Value) -> String {
    value_text(&json_field(value, "State.Status"))
}

fn run_engine(
    engine: &ContainerEngine,
    ctx: &StateCtx<'_>,
    verb: &[&str],
    rest: &[String],
) -> Result<(), StateError> {
    let words: Vec<String> = verb.iter().map(|w| (*w).to_owned()).chain(rest.iter().cloned()).collect();
    Ok(engine.run_checked(&ctx.tools(), &words).map(|_| ())?)
}

fn undo_key(given: &NamedArgs<'_>, kind: &str, name: &str) -> Value {
    let mut key = Map::from_iter([("name", Value::from(name)), ("type", Value::from(kind))]);
    if let Some(provider) = given.text("provider") {
        key.insert("provider", provider);
    }
    key.into()
}

fn container_key(given: &NamedArgs<'_>, name: &str) -> Option<(&'static dyn Undoable, Value)> {
    Some((&DOCKER_CONTAINER_UNDO, undo_key(given, "container", name)))
}

/// An act of several commands.
fn change_by_commands(engine: ContainerEngine, all: Vec<Vec<String>>) -> ChangeFn {
    change_with_env(engine, all, Vec::new())
}

/// The same; the container that one of them makes has these variables.
fn change_with_env(engine: ContainerEngine, all: Vec<Vec<String>>, variables: Vec<String>) -> ChangeFn {
    Box::new(move |ctx| run_each(&engine, ctx, &all, &variables))
}

fn run_each(
    engine: &ContainerEngine,
    ctx: &StateCtx<'_>,
    all: &[Vec<String>],
    variables: &[String],
) -> Result<(), StateError> {
    for words in all {
        match words.first().map(String::as_str) {
            Some("create" | "run") => engine.run_with_env(&ctx.tools(), words, variables)?,
            _ => engine.run_checked(&ctx.tools(), words)?,
        };
    }
    Ok(())
}

/// An act that puts one container in the place of another: the old one goes once the new one has started, and comes back when
/// it has not.
struct ContainerSwap {
    engine: ContainerEngine,
    name: String,
    timeout: String,
    /// How the new one is called meanwhile.
    temp_name: String,
    /// The old one ran.
    was_up: bool,
    /// Makes the new one.
    create_commands: Vec<Vec<String>>,
    variables: Vec<String>,
    /// What comes after.
    start_commands: Vec<Vec<String>>,
}

impl ContainerSwap {
    fn run(&self, ctx: &StateCtx<'_>) -> Result<(), StateError> {
        let (tools, engine) = (ctx.tools(), &self.engine);
        let drop_new =
            || run_engine(engine, ctx, &["rm", "--force", "--"], std::slice::from_ref(&self.temp_name));
        if engine.inspect(&tools, "container", &self.temp_name)?.is_some() {
            drop_new()?;
        }
        if let Err(failure) = run_each(engine, ctx, &self.create_commands, &self.variables) {
            // Half of a new one is of no use; the old one stays, and why is said.
            let _ = drop_new();
            return Err(failure);
        }
        let old = format!("{}-zagent-old", self.name);
        if engine.inspect(&tools, "container", &old)?.is_some() {
            run_engine(engine, ctx, &["rm", "--force", "--"], std::slice::from_ref(&old))?;
        }
        engine.run_checked(&tools, &to_strings(&["stop", "--time", &self.timeout, "--", &self.name]))?;
        // One that removes itself is gone when it has stopped.
        let has_old = engine.inspect(&tools, "container", &self.name)?.is_some();
        if has_old {
            engine.run_checked(&tools, &to_strings(&["rename", "--", &self.name, &old]))?;
        }
        let swapped = engine.run_checked(&tools, &to_strings(&["rename", "--", &self.temp_name, &self.name]));
        let is_named = swapped.is_ok();
        let started =
            swapped.map_err(StateError::from).and_then(|_| run_each(engine, ctx, &self.start_commands, &[]));
        match started {
            Ok(()) if has_old => run_engine(engine, ctx, &["rm", "--force", "--"], &[old]),
            Err(failure) if has_old => Err(self.roll_back(ctx, &old, is_named, failure)),
            other => other,
        }
    }

    /// Puts the old one back; says why, and how far that went.
    fn roll_back(&self, ctx: &StateCtx<'_>, old: &str, is_named: bool, failure: StateError) -> StateError {
        let new = if is_named { &self.name } else { &self.temp_name };
        let mut acts =
            vec![to_strings(&["rm", "--force", "--", new]), to_strings(&["rename", "--", old, &self.name])];
        acts.extend(self.was_up.then(|| to_strings(&["start", "--", &self.name])));
        let how = match run_each(&self.engine, ctx, &acts, &[]) {
            Ok(()) => "the old container is back".to_owned(),
            Err(more) => {
                format!("the old container is `{old}`, and could not be put back: {}", more.result.comment)
            }
        };
        StateError::new(format!("{}; {how}", failure.result.comment))
    }
}

fn to_strings(all: &[&str]) -> Vec<String> {
    all.iter().map(|w| (*w).to_owned()).collect()
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

/// The argument by which a watch asks for a signal.
pub const SIGNAL_ARG: &str = "__signal__";

fn plan_running(given: &NamedArgs<'_>, ctx: &StateCtx<'_>) -> Result<StorePlan, StateError> {
    let (tools, name) = (ctx.tools(), given.require_text("name")?);
    let engine = ContainerEngine::new(given, &tools);
    let now = engine.inspect(&tools, "container", &name)?;
    let starts = given.flag("start").unwrap_or(true);
    let image = match (given.text("image"), &now) {
        (Some(image), _) => image,
        (None, Some(now)) => value_text(&json_field(now, "Config.Image")),
        (None, None) => return Err(StateError::new("The 'image' argument is required")),
    };
    let mut differing = Map::new();
    if let Some(now) = &now {
        let found = engine.inspect(&tools, "image", &image)?;
        differing = differences(given, now, found.as_ref())?;
        if given.get("image").is_some()
            && found.as_ref().is_none_or(|i| json_field(i, "Id") != json_field(now, "Image"))
        {
            let new = found.map_or(Value::from(image.as_str()), |i| json_field(&i, "Id"));
            differing.insert("Image", Map::from_iter([("old", json_field(now, "Image")), ("new", new)]));
        }
    }
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
            return Ok(StorePlan::InSync(format!("Container '{name}' is already configured as specified")));
        }
        (Some(_), false) if is_up => ("sent a signal", "Sent signal to"),
        (Some(_), false) => ("started", "Started"),
    };
    Ok(StorePlan::Change(PlannedChange {
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

fn plan_stopped(given: &NamedArgs<'_>, ctx: &StateCtx<'_>) -> Result<StorePlan, StateError> {
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
        return Ok(StorePlan::InSync(format!("{who} {how}")));
    }
    Ok(StorePlan::Change(PlannedChange {
        preview_comment: format!("The following container(s) will be stopped: {}", up.join(", ")),
        done_comment: format!("The following container(s) were stopped: {}", up.join(", ")),
        failure_prefix: "Failed to stop".to_owned(),
        changes,
        undoable: if up.len() == 1 { container_key(given, &up[0]) } else { None },
        run_change: change_by_commands(engine, all),
    }))
}

fn plan_absent(given: &NamedArgs<'_>, ctx: &StateCtx<'_>) -> Result<StorePlan, StateError> {
    let (tools, name) = (ctx.tools(), given.require_text("name")?);
    let engine = ContainerEngine::new(given, &tools);
    let Some(now) = engine.inspect(&tools, "container", &name)? else {
        return Ok(StorePlan::InSync(format!("Container '{name}' does not exist")));
    };
    if container_status(&now) == "running" && !given.is_enabled("force") {
        return Err(StateError::new("Container is running, set force to True to forcibly remove it"));
    }
    Ok(StorePlan::Change(PlannedChange {
        preview_comment: format!("Container '{name}' will be removed"),
        done_comment: format!("Removed container '{name}'"),
        failure_prefix: format!("Failed to remove container '{name}'"),
        changes: single_change("removed", vec![json_field(&now, "Id")]),
        undoable: None,
        run_change: change_by_commands(engine, vec![to_strings(&["rm", "--force", "--", &name])]),
    }))
}

fn plan_run(given: &NamedArgs<'_>, ctx: &StateCtx<'_>) -> Result<StorePlan, StateError> {
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
    Ok(StorePlan::Change(PlannedChange {
        preview_comment: format!("Container '{name}' will be run"),
        done_comment: format!("Container '{name}' was run"),
        failure_prefix: "Encountered error running container".to_owned(),
        changes: single_change(&name, "Run"),
        undoable: None,
        run_change: change_with_env(engine, all, env_variables(given)),
    }))
}

#[cfg(test)]
mod tests {
    use crate::testing::{StateTestBed, apply_chunk, chunk};

    /// A program that keeps its containers as files: `NAME` holds whether it runs. `start` of what has a file `broken` fails.
    const ENGINE: &str = r#"#!/bin/sh
cd "$(dirname "$0")/all" || exit 1
echo "$*" >> ../said
verb=$1; shift
case $verb in
container|image) name=$3
    test $verb = image && echo '[{"Id": "i2", "Config": {}}]' && exit
    test -e "$name" || { echo "Error: No such container: $name" >&2; exit 1; }
    echo "[{\"Id\": \"$(cat $name.id)\", \"Image\": \"i1\", \"Config\": {}, \"HostConfig\": {}, \"State\": {\"Status\": \"$(cat $name)\"}}]" ;;
create) name=${1#--name=}; echo created > $name; echo new > $name.id ;;
stop) echo exited > $4 ;;
start) test -e ../broken && test "$(cat $2.id)" = new && { echo "port is taken" >&2; exit 125; }; echo running > $2 ;;
rename) mv $2 $3; mv $2.id $3.id ;;
rm) rm $3 $3.id ;;
kill) echo "$*" > ../killed ;;
esac
"#;

    fn stage() -> (StateTestBed, String) {
        let test_bed = StateTestBed::new();
        let engine = test_bed.path("engine");
        std::fs::write(&engine, ENGINE).unwrap();
        std::fs::set_permissions(&engine, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        std::fs::create_dir(test_bed.path("all")).unwrap();
        std::fs::write(test_bed.path("all/web"), "running").unwrap();
        std::fs::write(test_bed.path("all/web.id"), "old").unwrap();
        (test_bed, engine)
    }

    fn containers(test_bed: &StateTestBed) -> Vec<String> {
        let names = std::fs::read_dir(test_bed.path("all"))
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap());
        let names = names.filter(|n| !n.ends_with(".id"));
        let read =
            |n: &str| std::fs::read_to_string(test_bed.path(&format!("all/{n}"))).unwrap().trim().to_owned();
        let mut all: Vec<String> =
            names.map(|n| format!("{n} {} {}", read(&format!("{n}.id")), read(&n))).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn the_old_container_goes_once_the_new_one_runs() {
        let (test_bed, engine) = stage();
        let chunk = chunk(
            "docker_container.running",
            "web",
            &format!(r#"{{"image": "x:2", "provider": "{engine}"}}"#),
        );
        let said = apply_chunk(&chunk, &test_bed.scene());
        assert!(said.starts_with("true \"Replaced container 'web'\""), "{said}");
        assert_eq!(containers(&test_bed), ["web new running"]);
        let acts = std::fs::read_to_string(test_bed.path("said")).unwrap();
        let at =
            |line: &str| acts.lines().position(|l| l == line).unwrap_or_else(|| panic!("{line}: {acts}"));
        assert!(at("start -- web") < at("rm --force -- web-zagent-old"), "{acts}");
    }

    #[test]
    fn the_old_container_comes_back_when_the_new_one_does_not_start() {
        let (test_bed, engine) = stage();
        std::fs::write(test_bed.path("broken"), "").unwrap();
        let chunk = chunk(
            "docker_container.running",
            "web",
            &format!(r#"{{"image": "x:2", "provider": "{engine}"}}"#),
        );
        let said = apply_chunk(&chunk, &test_bed.scene());
        assert!(
            said.starts_with("false") && said.contains("port is taken; the old container is back"),
            "{said}"
        );
        assert_eq!(containers(&test_bed), ["web old running"]);
    }

    #[test]
    fn a_watch_may_send_a_signal() {
        let (test_bed, engine) = stage();
        for (action, sends) in [("SIGHUP", true), ("force", false)] {
            let args = format!(r#"{{"provider": "{engine}", "watch_action": "{action}"}}"#);
            let chunk = chunk("docker_container.running", "web", &args);
            let done = crate::testing::build_state(&chunk).react(&test_bed.scene()).unwrap();
            assert_eq!(std::fs::read_to_string(test_bed.path("killed")).is_ok(), sends, "{}", done.comment);
            let _ = std::fs::remove_file(test_bed.path("killed"));
            assert_eq!(containers(&test_bed), [if sends { "web old running" } else { "web new running" }]);
        }
    }
}
