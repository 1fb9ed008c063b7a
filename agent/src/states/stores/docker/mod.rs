//! States of the modules `docker_*`, by `docker` or `podman`.

mod others;

use zagent_config::{Map, Value};

use super::{Act, Deed, Kept, Plan, Planner, Row, changed};
use crate::host::command::shown;
use crate::host::functions::stores::Given;
use crate::host::functions::stores::docker::{Engine, create, differences, networks, variables};
use crate::states::{Failure, Scene, Thing};

const GONE: Option<&str> = Some("what was in a container, image or volume that is removed cannot come back");

pub(super) const TABLE: &[Row] = &[
    (
        "docker_container",
        "running",
        running as Planner,
        Some("what was in a container that is replaced cannot come back"),
    ),
    ("docker_container", "stopped", stopped, None),
    ("docker_container", "absent", absent, GONE),
    ("docker_container", "run", run, Some("nobody knows what a container does")),
    ("docker_image", "present", others::image_present, None),
    ("docker_image", "absent", others::image_absent, GONE),
    ("docker_network", "present", others::network_present, None),
    (
        "docker_network",
        "absent",
        |g, s| others::gone(g, s, "network"),
        Some("a network that is removed cannot come back by itself"),
    ),
    ("docker_volume", "present", others::volume_present, None),
    ("docker_volume", "absent", |g, s| others::gone(g, s, "volume"), GONE),
];

/// A container: which one it is, and whether it runs. One that was new is removed, one that was stopped starts again.
pub(super) static CONTAINER: Kept = Kept {
    kind: "docker_container",
    look: |given, scene| {
        let engine = Engine::new(given, &scene.tools());
        let found = engine.inspect(&scene.tools(), "container", &given.must("name")?)?;
        let told = |v: Value| {
            Map::from_iter([("id", part(&v, "Id")), ("running", (status(&v) == "running").into())])
        };
        Ok(found.map_or(Value::Null, |v| told(v).into()))
    },
    put: |given, to, scene| {
        let (tools, name) = (scene.tools(), given.must("name")?);
        let engine = Engine::new(given, &tools);
        let now = engine.inspect(&tools, "container", &name)?;
        let verb: &[&str] = match (to.as_map(), &now) {
            (None, _) => &["rm", "--force", "--"],
            (Some(was), Some(now)) if was.get("id") == Some(&part(now, "Id")) => {
                if was.get("running").is_some_and(Value::is_truthy) {
                    &["start", "--"]
                } else {
                    &["stop", "--"]
                }
            }
            _ => return Err(Failure::new("a container that was removed cannot come back")),
        };
        tell(&engine, scene, verb, &[name])
    },
    full: None,
};

/// An image, a network or a volume: one that was new is removed.
pub(super) static OTHER: Kept = Kept {
    kind: "docker",
    look: |given, scene| {
        let engine = Engine::new(given, &scene.tools());
        let found = engine.inspect(&scene.tools(), &given.must("type")?, &given.must("name")?)?;
        // `podman` writes some of them small.
        let told = |v: Value| {
            let all = ["Id", "id", "Name", "name"].iter().map(|key| part(&v, key));
            all.into_iter().find(|v| !v.is_null()).unwrap_or(Value::Bool(true))
        };
        Ok(found.map_or(Value::Null, told))
    },
    put: |given, to, scene| {
        let (kind, name) = (given.must("type")?, given.must("name")?);
        if !to.is_null() {
            return Err(Failure::new(format!("the {kind} {name} that was there cannot come back")));
        }
        tell(&Engine::new(given, &scene.tools()), scene, &[&kind, "rm", "--"], &[name])
    },
    full: Some(|given, scene| match &*given.must("type")? {
        "volume" => others::volume_full(given, scene),
        // The program refuses to remove others that are in use, and nothing is in them that could not be had again.
        _ => Ok(None),
    }),
};

fn part(value: &Value, place: &str) -> Value {
    zagent_config::value::traverse(value, place, ".").cloned().unwrap_or(Value::Null)
}

fn status(value: &Value) -> String {
    shown(&part(value, "State.Status"))
}

fn tell(engine: &Engine, scene: &Scene<'_>, verb: &[&str], rest: &[String]) -> Result<(), Failure> {
    let words: Vec<String> = verb.iter().map(|w| (*w).to_owned()).chain(rest.iter().cloned()).collect();
    Ok(engine.tell(&scene.tools(), &words).map(|_| ())?)
}

fn key(given: &Given<'_>, kind: &str, name: &str) -> Value {
    let mut key = Map::from_iter([("name", Value::from(name)), ("type", Value::from(kind))]);
    if let Some(provider) = given.text("provider") {
        key.insert("provider", provider);
    }
    key.into()
}

fn container_key(given: &Given<'_>, name: &str) -> Option<(&'static dyn Thing, Value)> {
    Some((&CONTAINER, key(given, "container", name)))
}

/// An act of several commands.
fn commands(engine: Engine, all: Vec<Vec<String>>) -> Deed {
    commands_with(engine, all, Vec::new())
}

/// The same; the container that one of them makes has these variables.
fn commands_with(engine: Engine, all: Vec<Vec<String>>, variables: Vec<String>) -> Deed {
    Box::new(move |scene| each(&engine, scene, &all, &variables))
}

fn each(
    engine: &Engine,
    scene: &Scene<'_>,
    all: &[Vec<String>],
    variables: &[String],
) -> Result<(), Failure> {
    for words in all {
        match words.first().map(String::as_str) {
            Some("create" | "run") => engine.tell_with(&scene.tools(), words, variables)?,
            _ => engine.tell(&scene.tools(), words)?,
        };
    }
    Ok(())
}

/// An act that puts one container in the place of another: the old one goes once the new one has started, and comes back when
/// it has not.
struct Swap {
    engine: Engine,
    name: String,
    timeout: String,
    /// How the new one is called meanwhile.
    meanwhile: String,
    /// The old one ran.
    was_up: bool,
    /// Makes the new one.
    makes: Vec<Vec<String>>,
    variables: Vec<String>,
    /// What comes after.
    ends: Vec<Vec<String>>,
}

impl Swap {
    fn run(&self, scene: &Scene<'_>) -> Result<(), Failure> {
        let (tools, engine) = (scene.tools(), &self.engine);
        let drop_new =
            || tell(engine, scene, &["rm", "--force", "--"], std::slice::from_ref(&self.meanwhile));
        if engine.inspect(&tools, "container", &self.meanwhile)?.is_some() {
            drop_new()?;
        }
        if let Err(failure) = each(engine, scene, &self.makes, &self.variables) {
            // Half of a new one is of no use; the old one stays, and why is said.
            let _ = drop_new();
            return Err(failure);
        }
        let old = format!("{}-zagent-old", self.name);
        if engine.inspect(&tools, "container", &old)?.is_some() {
            tell(engine, scene, &["rm", "--force", "--"], std::slice::from_ref(&old))?;
        }
        engine.tell(&tools, &words(&["stop", "--time", &self.timeout, "--", &self.name]))?;
        // One that removes itself is gone when it has stopped.
        let has_old = engine.inspect(&tools, "container", &self.name)?.is_some();
        if has_old {
            engine.tell(&tools, &words(&["rename", "--", &self.name, &old]))?;
        }
        let swapped = engine.tell(&tools, &words(&["rename", "--", &self.meanwhile, &self.name]));
        let is_named = swapped.is_ok();
        let started = swapped.map_err(Failure::from).and_then(|_| each(engine, scene, &self.ends, &[]));
        match started {
            Ok(()) if has_old => tell(engine, scene, &["rm", "--force", "--"], &[old]),
            Err(failure) if has_old => Err(self.back(scene, &old, is_named, failure)),
            other => other,
        }
    }

    /// Puts the old one back; says why, and how far that went.
    fn back(&self, scene: &Scene<'_>, old: &str, is_named: bool, failure: Failure) -> Failure {
        let new = if is_named { &self.name } else { &self.meanwhile };
        let mut acts = vec![words(&["rm", "--force", "--", new]), words(&["rename", "--", old, &self.name])];
        acts.extend(self.was_up.then(|| words(&["start", "--", &self.name])));
        let how = match each(&self.engine, scene, &acts, &[]) {
            Ok(()) => "the old container is back".to_owned(),
            Err(more) => {
                format!("the old container is `{old}`, and could not be put back: {}", more.done.comment)
            }
        };
        Failure::new(format!("{}; {how}", failure.done.comment))
    }
}

fn words(all: &[&str]) -> Vec<String> {
    all.iter().map(|w| (*w).to_owned()).collect()
}

/// What makes a container that is called so, and puts it into its networks.
fn made(given: &Given<'_>, called: &str, image: &str) -> Result<Vec<Vec<String>>, Failure> {
    let mut all = vec![words(&["create"]).into_iter().chain(create(given, called, image)?).collect()];
    let own = usize::from(given.get("network_mode").is_none());
    let more = if given.is("network_disabled") { Vec::new() } else { networks(given)? };
    for network in more.iter().skip(own) {
        let mut connect = words(&["network", "connect"]);
        connect.extend(network.options("--alias"));
        connect.extend(words(&["--", &network.name, called]));
        all.push(connect);
    }
    Ok(all)
}

/// The argument by which a watch asks for a signal.
pub(super) const SIGNAL: &str = "__signal__";

fn running(given: &Given<'_>, scene: &Scene<'_>) -> Result<Plan, Failure> {
    let (tools, name) = (scene.tools(), given.must("name")?);
    let engine = Engine::new(given, &tools);
    let now = engine.inspect(&tools, "container", &name)?;
    let starts = given.flag("start").unwrap_or(true);
    let image = match (given.text("image"), &now) {
        (Some(image), _) => image,
        (None, Some(now)) => shown(&part(now, "Config.Image")),
        (None, None) => return Err(Failure::new("The 'image' argument is required")),
    };
    let mut differing = Map::new();
    if let Some(now) = &now {
        let found = engine.inspect(&tools, "image", &image)?;
        differing = differences(given, now, found.as_ref())?;
        if given.get("image").is_some() && found.as_ref().is_none_or(|i| part(i, "Id") != part(now, "Image"))
        {
            let new = found.map_or(Value::from(image.as_str()), |i| part(&i, "Id"));
            differing.insert("Image", Map::from_iter([("old", part(now, "Image")), ("new", new)]));
        }
    }
    let is_up = now.as_ref().is_some_and(|n| status(n) == "running");
    let replaces = now.is_some() && (!differing.is_empty() || given.is("force"));
    let mut changes = Map::new();
    let (mut makes, mut ends) = (Vec::new(), Vec::new());
    // A new one is made beside the old one: nothing is lost when it cannot be had.
    let called = if replaces { format!("{name}-zagent-new") } else { name.clone() };
    if now.is_none() || replaces {
        let id = now.as_ref().map_or(("added", name.as_str().into()), |now| ("removed", part(now, "Id")));
        changes.insert("container_id", Map::from_iter([id]));
        makes = made(given, &called, &image)?;
    }
    if starts && (!is_up || replaces) {
        ends.push(words(&["start", "--", &name]));
        let old = now.as_ref().map_or(Value::Null, |n| status(n).into());
        changes.insert("state", Map::from_iter([("old", old), ("new", "running".into())]));
    }
    if !differing.is_empty() {
        changes.insert("container", differing);
    }
    // Somebody watched: it is told so by a signal instead of being replaced.
    if let Some(signal) = given.text(SIGNAL).filter(|_| is_up && !replaces) {
        ends.push(words(&["kill", &format!("--signal={signal}"), "--", &name]));
        changes.insert("signal", signal);
    }
    let (verb, past) = match (&now, replaces) {
        (None, _) => ("created", "Created"),
        (Some(_), true) => ("replaced", "Replaced"),
        (Some(_), false) if ends.is_empty() => {
            return Ok(Plan::Right(format!("Container '{name}' is already configured as specified")));
        }
        (Some(_), false) if is_up => ("sent a signal", "Sent signal to"),
        (Some(_), false) => ("started", "Started"),
    };
    Ok(Plan::Act(Act {
        would: format!("Container '{name}' will be {verb}"),
        did: format!("{past} container '{name}'"),
        fails: format!("Failed to run container '{name}'"),
        changes,
        thing: container_key(given, &name),
        act: if replaces {
            let timeout = given.text("shutdown_timeout").unwrap_or_else(|| "10".into());
            let variables = variables(given);
            let swap =
                Swap { engine, name, timeout, meanwhile: called, was_up: is_up, makes, variables, ends };
            Box::new(move |scene| swap.run(scene))
        } else {
            makes.extend(ends);
            commands_with(engine, makes, variables(given))
        },
    }))
}

fn stopped(given: &Given<'_>, scene: &Scene<'_>) -> Result<Plan, Failure> {
    let (tools, name) = (scene.tools(), given.must("name")?);
    let engine = Engine::new(given, &tools);
    let names = given.texts("containers").unwrap_or_else(|| vec![name.clone()]);
    let (mut up, mut missing) = (Vec::new(), Vec::new());
    let (mut all, mut changes) = (Vec::new(), Map::new());
    for one in &names {
        let Some(now) = engine.inspect(&tools, "container", one)? else {
            missing.push(one.clone());
            continue;
        };
        match &*status(&now) {
            "paused" if !given.is("unpause") => {
                return Err(Failure::new(format!(
                    "Container '{one}' is paused; `unpause: true` lets it be stopped"
                )));
            }
            "paused" => all.push(words(&["unpause", "--", one])),
            "running" | "restarting" => {}
            _ => continue,
        }
        all.push(words(&[
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
                Map::from_iter([("old", status(&now)), ("new", "stopped".to_owned())]),
            )]),
        );
        up.push(one.clone());
    }
    if !missing.is_empty() && given.is("error_on_absent") {
        return Err(Failure::new(format!("The following container(s) are absent: {}", missing.join(", "))));
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
        return Ok(Plan::Right(format!("{who} {how}")));
    }
    Ok(Plan::Act(Act {
        would: format!("The following container(s) will be stopped: {}", up.join(", ")),
        did: format!("The following container(s) were stopped: {}", up.join(", ")),
        fails: "Failed to stop".to_owned(),
        changes,
        thing: if up.len() == 1 { container_key(given, &up[0]) } else { None },
        act: commands(engine, all),
    }))
}

fn absent(given: &Given<'_>, scene: &Scene<'_>) -> Result<Plan, Failure> {
    let (tools, name) = (scene.tools(), given.must("name")?);
    let engine = Engine::new(given, &tools);
    let Some(now) = engine.inspect(&tools, "container", &name)? else {
        return Ok(Plan::Right(format!("Container '{name}' does not exist")));
    };
    if status(&now) == "running" && !given.is("force") {
        return Err(Failure::new("Container is running, set force to True to forcibly remove it"));
    }
    Ok(Plan::Act(Act {
        would: format!("Container '{name}' will be removed"),
        did: format!("Removed container '{name}'"),
        fails: format!("Failed to remove container '{name}'"),
        changes: changed("removed", vec![part(&now, "Id")]),
        thing: None,
        act: commands(engine, vec![words(&["rm", "--force", "--", &name])]),
    }))
}

fn run(given: &Given<'_>, scene: &Scene<'_>) -> Result<Plan, Failure> {
    let (tools, name, image) = (scene.tools(), given.must("name")?, given.must("image")?);
    let engine = Engine::new(given, &tools);
    let mut all = Vec::new();
    if engine.inspect(&tools, "container", &name)?.is_some() {
        if !given.is("replace") {
            let words = "Run with replace=True to remove the existing container";
            return Err(Failure::new(format!(
                "Encountered error running container: Container '{name}' exists. {words}"
            )));
        }
        all.push(words(&["rm", "--force", "--", &name]));
    }
    let mut run = words(&["run"]);
    run.extend(given.is("bg").then(|| "--detach".to_owned()));
    run.extend(create(given, &name, &image)?);
    all.push(run);
    Ok(Plan::Act(Act {
        would: format!("Container '{name}' will be run"),
        did: format!("Container '{name}' was run"),
        fails: "Encountered error running container".to_owned(),
        changes: changed(&name, "Run"),
        thing: None,
        act: commands_with(engine, all, variables(given)),
    }))
}

#[cfg(test)]
mod tests {
    use crate::states::stage::{Stage, apply, chunk};

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

    fn stage() -> (Stage, String) {
        let stage = Stage::new();
        let engine = stage.path("engine");
        std::fs::write(&engine, ENGINE).unwrap();
        std::fs::set_permissions(&engine, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        std::fs::create_dir(stage.path("all")).unwrap();
        std::fs::write(stage.path("all/web"), "running").unwrap();
        std::fs::write(stage.path("all/web.id"), "old").unwrap();
        (stage, engine)
    }

    fn containers(stage: &Stage) -> Vec<String> {
        let names = std::fs::read_dir(stage.path("all"))
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap());
        let names = names.filter(|n| !n.ends_with(".id"));
        let read =
            |n: &str| std::fs::read_to_string(stage.path(&format!("all/{n}"))).unwrap().trim().to_owned();
        let mut all: Vec<String> =
            names.map(|n| format!("{n} {} {}", read(&format!("{n}.id")), read(&n))).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn the_old_container_goes_once_the_new_one_runs() {
        let (stage, engine) = stage();
        let chunk = chunk(
            "docker_container.running",
            "web",
            &format!(r#"{{"image": "x:2", "provider": "{engine}"}}"#),
        );
        let said = apply(&chunk, &stage.scene());
        assert!(said.starts_with("true \"Replaced container 'web'\""), "{said}");
        assert_eq!(containers(&stage), ["web new running"]);
        let acts = std::fs::read_to_string(stage.path("said")).unwrap();
        let at =
            |line: &str| acts.lines().position(|l| l == line).unwrap_or_else(|| panic!("{line}: {acts}"));
        assert!(at("start -- web") < at("rm --force -- web-zagent-old"), "{acts}");
    }

    #[test]
    fn the_old_container_comes_back_when_the_new_one_does_not_start() {
        let (stage, engine) = stage();
        std::fs::write(stage.path("broken"), "").unwrap();
        let chunk = chunk(
            "docker_container.running",
            "web",
            &format!(r#"{{"image": "x:2", "provider": "{engine}"}}"#),
        );
        let said = apply(&chunk, &stage.scene());
        assert!(
            said.starts_with("false") && said.contains("port is taken; the old container is back"),
            "{said}"
        );
        assert_eq!(containers(&stage), ["web old running"]);
    }

    #[test]
    fn a_watch_may_send_a_signal() {
        let (stage, engine) = stage();
        for (action, sends) in [("SIGHUP", true), ("force", false)] {
            let args = format!(r#"{{"provider": "{engine}", "watch_action": "{action}"}}"#);
            let chunk = chunk("docker_container.running", "web", &args);
            let done = crate::states::stage::built(&chunk).react(&stage.scene()).unwrap();
            assert_eq!(std::fs::read_to_string(stage.path("killed")).is_ok(), sends, "{}", done.comment);
            let _ = std::fs::remove_file(stage.path("killed"));
            assert_eq!(containers(&stage), [if sends { "web old running" } else { "web new running" }]);
        }
    }
}
