//! States of the module `schedule`: runs of the agent by its own clock, in a file of its configuration.
//!
//! Law: what the agent's clock cannot do is refused, never done in another way. A daemon that runs reads the file
//! at once (held by `jobs_become_entries`, `whatever_runs_the_agent_is_told_of_jobs`).

use std::path::{Path, PathBuf};

use zagent_config::paths::{CONFIG_DIR, FRAGMENTS_DIR};
use zagent_config::value::python_str;
use zagent_config::{Map, Value};

use crate::shared::yaml_map_file;
use crate::{
    ApplyResult, BuildResult, CheckResult, ChunkArgs, Effects, LockKey, State, StateCtx, StateError,
    StateModule,
};

/// Entries that are on.
const ENABLED_FILE: &str = "90-schedule.yaml";
/// Entries that are off: not read by the agent, whose files end in `.yaml`.
const DISABLED_FILE: &str = "90-schedule.off";
/// Functions whose work a run of the agent does.
const RUN_FUNCTIONS: [&str; 4] = ["state.apply", "state.sls", "state.highstate", "state.highstate_sls"];

/// The module `schedule`.
pub(crate) const MODULE: StateModule = StateModule {
    name: "schedule",
    build,
    functions: &[],
    undo: &[],
    description: include_str!("description.txt"),
};

/// The state that a function of this module makes; nothing when there is no such function.
fn build(fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    let want = match fun {
        "present" => match entry_from_args(args) {
            Ok(entry) => ScheduleFunction::Entry { entry, on: args.flag("enabled", true) },
            Err(failure) => return Some(Err(failure)),
        },
        "absent" => ScheduleFunction::Absent,
        "enabled" => ScheduleFunction::Enabled,
        "disabled" => ScheduleFunction::Disabled,
        _ => return None,
    };
    Some(Ok(Box::new(ScheduleState { name: args.name(), function: want })))
}

enum ScheduleFunction {
    Entry { entry: Map, on: bool },
    Absent,
    Enabled,
    Disabled,
}

struct ScheduleState {
    name: String,
    function: ScheduleFunction,
}

/// An entry as the configuration writes it, of what Salt calls a job.
fn entry_from_args(args: &ChunkArgs<'_>) -> Result<Map, StateError> {
    let mut entry = Map::new();
    let mut seconds = 0_i64;
    for (key, unit) in [("seconds", 1), ("minutes", 60), ("hours", 3600), ("days", 86400)] {
        let more = args.int(key)?.unwrap_or(0).checked_mul(unit).and_then(|n| seconds.checked_add(n));
        seconds =
            more.ok_or_else(|| StateError::new(format!("`{key}` is more than the agent's clock can count")))?;
    }
    match (seconds, args.text("cron")?) {
        (1.., None) => _ = entry.insert("every", format!("{seconds}s")),
        (0, Some(cron)) => _ = entry.insert("cron", cron),
        _ => {
            return Err(StateError::new(
                "the agent's clock needs either an interval (seconds, minutes, hours, days) or `cron`",
            ));
        }
    }
    let not =
        ["when", "once", "once_fmt", "range", "skip_during_range", "until", "after", "run_after_skip_range"];
    if let Some(key) = not.into_iter().find(|key| args.get(key).is_some()) {
        return Err(StateError::new(format!(
            "the agent's clock knows no `{key}`: use an interval or `cron`"
        )));
    }
    let function = args.text("function")?.or(args.text("job")?).unwrap_or_else(|| "state.apply".into());
    if !RUN_FUNCTIONS.contains(&function.as_str()) {
        return Err(StateError::new(format!(
            "the agent's clock starts runs (state.apply, state.highstate), not `{function}`: use `cron.present`"
        )));
    }
    let named = args.map("job_kwargs")?.unwrap_or_default();
    let mut names = args.texts("job_args")?.unwrap_or_default();
    if let Some(mods) = named.get("mods").filter(|_| names.is_empty()) {
        names = match mods {
            Value::List(mods) => mods.iter().map(python_str).collect(),
            other => vec![python_str(other)],
        };
    }
    let names: Vec<&str> =
        names.iter().flat_map(|n| n.split(',')).map(str::trim).filter(|n| !n.is_empty()).collect();
    if !names.is_empty() {
        entry.insert("sls", names.into_iter().map(Value::from).collect::<Value>());
    }
    if named.get("test").is_some_and(Value::is_truthy) {
        entry.insert("test", true);
    }
    match args.get("splay") {
        Some(Value::Map(map)) => {
            _ = entry.insert("splay", format!("{}s", map.get("end").map_or_else(|| "0".into(), python_str)));
        }
        Some(other) => _ = entry.insert("splay", format!("{}s", python_str(other))),
        None => {}
    }
    if let Some(most) = args.int("maxrunning")? {
        entry.insert("maxrunning", most);
    }
    Ok(entry)
}

/// The entries of both files.
struct ScheduleEntries {
    enabled: Map,
    disabled: Map,
}

/// Where the agent reads pieces of its configuration.
fn schedule_dir(ctx: &StateCtx<'_>) -> Result<PathBuf, StateError> {
    yaml_map_file::configured_dir("fragments_dir", ctx).ok_or_else(|| {
        StateError::new(format!(
            "the configuration is one file (--config), which states do not write: schedules need {CONFIG_DIR}/{FRAGMENTS_DIR}"
        ))
    })
}

impl ScheduleEntries {
    fn read(ctx: &StateCtx<'_>) -> Result<Self, StateError> {
        let dir = schedule_dir(ctx)?;
        let inner = |name: &str| -> Result<Map, StateError> {
            let all = yaml_map_file::read(&dir.join(name), ctx)?;
            Ok(all.get("schedule").and_then(Value::as_map).cloned().unwrap_or_default())
        };
        Ok(Self { enabled: inner(ENABLED_FILE)?, disabled: inner(DISABLED_FILE)? })
    }

    fn write(&self, ctx: &StateCtx<'_>) -> Result<(), StateError> {
        let dir = schedule_dir(ctx)?;
        for (name, entries) in [(ENABLED_FILE, &self.enabled), (DISABLED_FILE, &self.disabled)] {
            let mut all = Map::new();
            if !entries.is_empty() {
                all.insert("schedule", entries.clone());
            }
            yaml_map_file::write(&dir.join(name), &all, ctx)?;
        }
        Ok(())
    }
}

/// What is said before and after, what changes, and the entries as they should be.
type ScheduleChange = (String, String, Map, ScheduleEntries);

impl ScheduleState {
    /// What is to be done; only words when all is right.
    fn plan(&self, ctx: &StateCtx<'_>) -> Result<Result<ScheduleChange, String>, StateError> {
        let name = &self.name;
        let mut all = ScheduleEntries::read(ctx)?;
        let now = all.enabled.get(name).or_else(|| all.disabled.get(name)).cloned();
        let is_on = all.enabled.contains(name);
        let one = |value: Value| Map::from_iter([(name.as_str(), value)]);
        let found = match (&self.function, now) {
            (ScheduleFunction::Entry { entry, on }, now) => {
                let same = now.as_ref().and_then(Value::as_map) == Some(entry) && is_on == *on;
                if same {
                    return Ok(Err(format!("Job {name} in correct state")));
                }
                all.enabled.remove(name);
                all.disabled.remove(name);
                if *on { &mut all.enabled } else { &mut all.disabled }.insert(name.as_str(), entry.clone());
                match now {
                    None => (
                        format!("Job: {name} would be added to schedule."),
                        format!("Adding new job {name} to schedule"),
                        one("added".into()),
                    ),
                    Some(old) => {
                        let change = Map::from_iter([("old", old), ("new", Value::from(entry.clone()))]);
                        (
                            format!("Job: {name} would be modified in schedule."),
                            format!("Modifying job {name} in schedule"),
                            one(change.into()),
                        )
                    }
                }
            }
            (_, None) => return Ok(Err(format!("Job {name} not present in schedule"))),
            (ScheduleFunction::Absent, Some(_)) => {
                all.enabled.remove(name);
                all.disabled.remove(name);
                (
                    format!("Job: {name} would be deleted from schedule."),
                    format!("Removed job {name} from schedule"),
                    one("removed".into()),
                )
            }
            (ScheduleFunction::Enabled, Some(_)) if is_on => {
                return Ok(Err(format!("Job {name} is enabled already")));
            }
            (ScheduleFunction::Disabled, Some(_)) if !is_on => {
                return Ok(Err(format!("Job {name} is disabled already")));
            }
            (ScheduleFunction::Enabled, Some(entry)) => {
                all.disabled.remove(name);
                all.enabled.insert(name.as_str(), entry);
                (
                    format!("Job: {name} would be enabled in schedule."),
                    format!("Enabled job {name} from schedule"),
                    one("enabled".into()),
                )
            }
            (ScheduleFunction::Disabled, Some(entry)) => {
                all.enabled.remove(name);
                all.disabled.insert(name.as_str(), entry);
                (
                    format!("Job: {name} would be disabled in schedule."),
                    format!("Disabled job {name} from schedule"),
                    one("disabled".into()),
                )
            }
        };
        let (would, did, changes) = found;
        Ok(Ok((would, did, changes, all)))
    }
}

/// What runs the agent: by itself, or as a child of the watchdog, which passes the word on.
const AGENT_UNITS: [&str; 2] = ["zagent.service", "zagent-watchdog.service"];

impl State for ScheduleState {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        Ok(match self.plan(ctx)? {
            Ok((would, _, changes, _)) => CheckResult::drifted(would, changes),
            Err(right) => CheckResult::in_sync(right),
        })
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let (_, did, changes, entries) = match self.plan(ctx)? {
            Ok(plan) => plan,
            Err(right) => return Ok(ApplyResult::new(right, Map::new())),
        };
        entries.write(ctx)?;
        let tools = ctx.tools();
        if !ctx.is_dry() && tools.which("systemctl").is_some() {
            // Who does not run reads it when it starts.
            for unit in AGENT_UNITS {
                if tools.run_query("systemctl", &["is-active", "--quiet", unit])?.is_success() {
                    tools.run_checked("systemctl", &["reload", "--no-block", unit])?;
                }
            }
        }
        Ok(ApplyResult::new(did, changes))
    }

    fn is_predictable(&self) -> bool {
        true
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        vec![LockKey::Path(Path::new(CONFIG_DIR).join(FRAGMENTS_DIR).join(ENABLED_FILE))]
    }

    fn reads(&self) -> Effects {
        Effects::FILES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::chunk;

    #[test]
    fn whatever_runs_the_agent_is_told_of_jobs() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist/systemd");
        let runs_on = |text: &str| text.contains("\nType=notify") && text.contains("\nExecReload=");
        let units = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
        let mut units: Vec<String> = units
            .filter(|path| runs_on(&std::fs::read_to_string(path).unwrap()))
            .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
            .collect();
        units.sort_unstable_by_key(String::len);
        assert_eq!(units, AGENT_UNITS);
    }

    #[test]
    fn jobs_become_entries() {
        for (args, want) in [
            (r#"{"function": "state.apply", "hours": 1, "minutes": 30}"#, r#"{"every":"5400s"}"#),
            (
                r#"{"function": "state.sls", "cron": "5 4 * * *", "job_args": ["web,db"], "job_kwargs": {"test": true}, "splay": 10}"#,
                r#"{"cron":"5 4 * * *","sls":["web","db"],"test":true,"splay":"10s"}"#,
            ),
            (r#"{"function": "test.ping", "seconds": 5}"#, "use `cron.present`"),
            (r#"{"function": "state.apply"}"#, "either an interval"),
            (r#"{"function": "state.apply", "seconds": 5, "when": "5:00pm"}"#, "knows no `when`"),
        ] {
            let chunk = chunk("schedule.present", "x", args);
            let got = match entry_from_args(&ChunkArgs::new(&chunk)) {
                Ok(entry) => serde_json::to_string(&Value::from(entry)).unwrap(),
                Err(failure) => failure.result.comment,
            };
            assert!(got.contains(want), "{args}: {got}");
        }
    }
}
