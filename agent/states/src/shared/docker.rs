//! What the modules `docker_*` share: the program `docker` or `podman`, its commands as changes, and the undo of images,
//! networks and volumes.

use std::time::Duration;

use zagent_config::{FunctionError, Map, Value};

use super::planned_state::{ChangeFn, PlannedChange, StatePlan, single_change, to_strings};
use super::store_undo::StoreUndo;
use crate::named_args::NamedArgs;
use crate::{StateCtx, StateError};
use zagent_host::Tools;
use zagent_host::command_options::value_text;
use zagent_host::temp_file::PrivateTempFile;

/// How long it may take, an image that has to be fetched included.
const PULL_TIMEOUT: Duration = Duration::from_secs(3600);

/// Why what is removed cannot be undone.
pub(crate) const DATA_LOST: &str =
    "what was in a container, image or volume that is removed cannot come back";

/// The program.
#[derive(Clone, Debug)]
pub(crate) struct ContainerEngine(pub String);

impl ContainerEngine {
    /// `provider:`, or the one that is there.
    pub(crate) fn new(named_args: &NamedArgs<'_>, tools: &Tools<'_>) -> Self {
        let there = || {
            if tools.which("docker").is_none() && tools.which("podman").is_some() {
                "podman"
            } else {
                "docker"
            }
        };
        Self(named_args.text("provider").unwrap_or_else(|| there().to_owned()))
    }

    /// What it shows of a `container`, `image`, `network` or `volume`; none when there is no such one.
    pub(crate) fn inspect(
        &self,
        tools: &Tools<'_>,
        kind: &str,
        name: &str,
    ) -> Result<Option<Value>, FunctionError> {
        let output = tools.run_query(&self.0, &[kind, "inspect", "--", name])?;
        if output.is_success() {
            let all = Value::from_json_str(&output.stdout)
                .map_err(|e| FunctionError::failed(format!("{} said no JSON: {e}", self.0)))?;
            return Ok(all.as_list().and_then(|l| l.iter().next().cloned()));
        }
        if is_not_found(kind, name, output.code, output.message()) {
            return Ok(None);
        }
        Err(FunctionError::failed(output.message().to_owned()))
    }

    /// Makes or runs a container. Its variables go by a file that only we can read, since everybody sees words; those of
    /// several lines, which a file cannot hold, by the program's own environment.
    pub(crate) fn run_with_env(
        &self,
        tools: &Tools<'_>,
        args: &[String],
        variables: &[String],
    ) -> Result<String, FunctionError> {
        let Some((verb, rest)) = args.split_first().filter(|_| !variables.is_empty()) else {
            return self.run_checked(tools, args);
        };
        let (long, plain): (Vec<&String>, Vec<&String>) = variables.iter().partition(|v| v.contains('\n'));
        let text: String = plain.iter().map(|line| format!("{line}\n")).collect();
        let file = PrivateTempFile::new(tools.machine, text.as_bytes(), ".env", None)
            .map_err(|e| FunctionError::failed(format!("cannot write the variables: {e}")))?;
        let mut words = vec![verb.clone(), format!("--env-file={}", file.path().display())];
        words.extend(long.iter().map(|v| format!("--env={}", variable_name(v))));
        words.extend(rest.iter().cloned());
        let mut command = Tools::command(&self.0, &words, PULL_TIMEOUT);
        let pairs = long.iter().filter_map(|v| v.split_once('='));
        command.env.extend(pairs.map(|(name, value)| (name.into(), value.into())));
        let output = tools.run(command)?;
        if output.is_success() {
            return Ok(output.stdout.trim().to_owned());
        }
        Err(FunctionError::failed(format!(
            "`{}` ended with code {}: {}",
            self.0,
            output.code,
            output.message()
        )))
    }

    /// Tells it to do something.
    pub(crate) fn run_checked(&self, tools: &Tools<'_>, args: &[String]) -> Result<String, FunctionError> {
        Ok(tools.run_checked(&self.0, args)?.stdout.trim().to_owned())
    }
}

/// True when the program says that there is no such one; whatever else went wrong is no answer.
fn is_not_found(kind: &str, name: &str, code: i32, words: &str) -> bool {
    let words = words.to_ascii_lowercase();
    let output = [
        format!("no such {kind}"),
        "no such object".to_owned(),
        format!("{kind} {} not found", name.to_ascii_lowercase()),
        format!("{kind} not found"),
        format!("{kind} not known"),
    ];
    matches!(code, 1 | 125) && output.iter().any(|s| words.contains(s))
}

/// `A` of `A=b`.
pub(crate) fn variable_name(variable: &str) -> &str {
    variable.split('=').next().unwrap_or_default()
}

/// An image, a network or a volume: one that was new is removed.
pub(crate) static DOCKER_OBJECT_UNDO: StoreUndo = StoreUndo {
    kind: "docker",
    login: None,
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
        "volume" => volume_keep_reason(given, ctx),
        // The program refuses to remove others that are in use, and nothing is in them that could not be had again.
        _ => Ok(None),
    }),
};

/// A part of what the program shows; null when it is missing.
pub(crate) fn json_field(value: &Value, place: &str) -> Value {
    zagent_config::value::traverse(value, place, ".").cloned().unwrap_or(Value::Null)
}

/// Runs a command of the program with more words.
pub(crate) fn run_engine(
    engine: &ContainerEngine,
    ctx: &StateCtx<'_>,
    verb: &[&str],
    rest: &[String],
) -> Result<(), StateError> {
    let words: Vec<String> = verb.iter().map(|w| (*w).to_owned()).chain(rest.iter().cloned()).collect();
    Ok(engine.run_checked(&ctx.tools(), &words).map(|_| ())?)
}

/// The undo key of an object.
pub(crate) fn undo_key(given: &NamedArgs<'_>, kind: &str, name: &str) -> Value {
    let mut key = Map::from_iter([("name", Value::from(name)), ("type", Value::from(kind))]);
    if let Some(provider) = given.text("provider") {
        key.insert("provider", provider);
    }
    key.into()
}

/// A change by several commands.
pub(crate) fn change_by_commands(engine: ContainerEngine, all: Vec<Vec<String>>) -> ChangeFn {
    change_with_env(engine, all, Vec::new())
}

/// The same; the container that one of them makes has these variables.
pub(crate) fn change_with_env(
    engine: ContainerEngine,
    all: Vec<Vec<String>>,
    variables: Vec<String>,
) -> ChangeFn {
    Box::new(move |ctx| run_each(&engine, ctx, &all, &variables))
}

/// Runs commands one after the other; one that makes a container gets the variables.
pub(crate) fn run_each(
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

/// Why a volume is not removed: something is in it, or that is unknown.
fn volume_keep_reason(given: &NamedArgs<'_>, ctx: &StateCtx<'_>) -> Result<Option<String>, StateError> {
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

/// Plans a network or a volume that has to go.
pub(crate) fn plan_object_absent(
    given: &NamedArgs<'_>,
    ctx: &StateCtx<'_>,
    kind: &str,
) -> Result<StatePlan, StateError> {
    let (tools, name) = (ctx.tools(), given.require_text("name")?);
    let engine = ContainerEngine::new(given, &tools);
    let noun = if kind == "network" { "Network" } else { "Volume" };
    if engine.inspect(&tools, kind, &name)?.is_none() {
        return Ok(StatePlan::InSync(format!("{noun} '{name}' already absent")));
    }
    Ok(StatePlan::Change(PlannedChange {
        preview_comment: format!("The {kind} '{name}' will be removed"),
        done_comment: format!("Removed {kind} '{name}'"),
        failure_prefix: format!("Failed to remove {kind} '{name}'"),
        changes: single_change("removed", true),
        undoable: None,
        run_change: change_by_commands(engine, vec![to_strings(&[kind, "rm", "--", &name])]),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_is_only_what_is_said_to_be() {
        let all = [
            ("container", 1, "Error: No such container: web"),
            ("container", 1, "Error response from daemon: No such container: web"),
            ("container", 125, "Error: no such container \"web\""),
            ("image", 1, "Error response from daemon: No such image: web:latest"),
            ("image", 125, "Error: web: image not known"),
            ("network", 1, "Error response from daemon: network web not found"),
            (
                "network",
                125,
                "Error: network web: unable to find network with name or ID web: network not found",
            ),
            ("volume", 1, "Error response from daemon: get web: no such volume"),
            ("volume", 125, "Error: no such volume web"),
        ];
        for (kind, code, words) in all {
            assert!(is_not_found(kind, "web", code, words), "{words}");
        }
        let others = [
            (1, "error during connect: dial tcp: lookup dockerr: no such host"),
            (1, "dial unix /var/run/docker.sock: connect: no such file or directory"),
            (127, "no such container"),
            (125, "Error: unable to inspect \"web\": database is locked"),
        ];
        for (code, words) in others {
            assert!(!is_not_found("container", "web", code, words), "{words}");
        }
    }
}
