//! States of the module `schedule`: runs of the agent by its own clock, in a file of its configuration.
//!
//! Law: what the agent's clock cannot do is refused, never done in another way. A daemon that runs reads the file at once.

use std::path::{Path, PathBuf};

use zagent_compiler::yaml::python_str;
use zagent_config::paths::{CONFIG_DIR, FRAGMENTS_DIR};
use zagent_config::{Map, Value};

use super::super::{Args, Built, Done, Failure, Look, Resource, Scene, State, Veil};
use super::kept;

/// Entries that are on.
const ON: &str = "90-schedule.yaml";
/// Entries that are off: not read by the agent, whose files end in `.yaml`.
const OFF: &str = "90-schedule.off";
/// Functions whose work a run of the agent does.
const RUNS: [&str; 4] = ["state.apply", "state.sls", "state.highstate", "state.highstate_sls"];

/// The state that a function of this module makes; nothing when there is no such function.
pub(super) fn build(fun: &str, args: &Args<'_>) -> Option<Built> {
    let want = match fun {
        "present" => match entry(args) {
            Ok(entry) => Want::Entry { entry, on: args.flag("enabled", true) },
            Err(failure) => return Some(Err(failure)),
        },
        "absent" => Want::Gone,
        "enabled" => Want::On,
        "disabled" => Want::Off,
        _ => return None,
    };
    Some(Ok(Box::new(Schedule { name: args.name(), want })))
}

enum Want {
    Entry { entry: Map, on: bool },
    Gone,
    On,
    Off,
}

struct Schedule {
    name: String,
    want: Want,
}

/// An entry as the configuration writes it, of what Salt calls a job.
fn entry(args: &Args<'_>) -> Result<Map, Failure> {
    let mut entry = Map::new();
    let mut seconds = 0_i64;
    for (key, unit) in [("seconds", 1), ("minutes", 60), ("hours", 3600), ("days", 86400)] {
        let more = args.int(key)?.unwrap_or(0).checked_mul(unit).and_then(|n| seconds.checked_add(n));
        seconds =
            more.ok_or_else(|| Failure::new(format!("`{key}` is more than the agent's clock can count")))?;
    }
    match (seconds, args.text("cron")?) {
        (1.., None) => _ = entry.insert("every", format!("{seconds}s")),
        (0, Some(cron)) => _ = entry.insert("cron", cron),
        _ => {
            return Err(Failure::new(
                "the agent's clock needs either an interval (seconds, minutes, hours, days) or `cron`",
            ));
        }
    }
    let not =
        ["when", "once", "once_fmt", "range", "skip_during_range", "until", "after", "run_after_skip_range"];
    if let Some(key) = not.into_iter().find(|key| args.get(key).is_some()) {
        return Err(Failure::new(format!("the agent's clock knows no `{key}`: use an interval or `cron`")));
    }
    let function = args.text("function")?.or(args.text("job")?).unwrap_or_else(|| "state.apply".into());
    if !RUNS.contains(&function.as_str()) {
        return Err(Failure::new(format!(
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
struct Entries {
    on: Map,
    off: Map,
}

/// Where the agent reads pieces of its configuration.
fn dir(scene: &Scene<'_>) -> Result<PathBuf, Failure> {
    kept::dir("fragments_dir", scene).ok_or_else(|| {
        Failure::new(format!(
            "the configuration is one file (--config), which states do not write: schedules need {CONFIG_DIR}/{FRAGMENTS_DIR}"
        ))
    })
}

impl Entries {
    fn read(scene: &Scene<'_>) -> Result<Self, Failure> {
        let dir = dir(scene)?;
        let inner = |name: &str| -> Result<Map, Failure> {
            let all = kept::read(&dir.join(name), scene)?;
            Ok(all.get("schedule").and_then(Value::as_map).cloned().unwrap_or_default())
        };
        Ok(Self { on: inner(ON)?, off: inner(OFF)? })
    }

    fn write(&self, scene: &Scene<'_>) -> Result<(), Failure> {
        let dir = dir(scene)?;
        for (name, entries) in [(ON, &self.on), (OFF, &self.off)] {
            let mut all = Map::new();
            if !entries.is_empty() {
                all.insert("schedule", entries.clone());
            }
            kept::write(&dir.join(name), &all, scene)?;
        }
        Ok(())
    }
}

/// What is said before and after, what changes, and the entries as they should be.
type Change = (String, String, Map, Entries);

impl Schedule {
    /// What is to be done; only words when all is right.
    fn plan(&self, scene: &Scene<'_>) -> Result<Result<Change, String>, Failure> {
        let name = &self.name;
        let mut all = Entries::read(scene)?;
        let now = all.on.get(name).or_else(|| all.off.get(name)).cloned();
        let is_on = all.on.contains(name);
        let one = |value: Value| Map::from_iter([(name.as_str(), value)]);
        let found = match (&self.want, now) {
            (Want::Entry { entry, on }, now) => {
                let same = now.as_ref().and_then(Value::as_map) == Some(entry) && is_on == *on;
                if same {
                    return Ok(Err(format!("Job {name} in correct state")));
                }
                all.on.remove(name);
                all.off.remove(name);
                if *on { &mut all.on } else { &mut all.off }.insert(name.as_str(), entry.clone());
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
            (Want::Gone, Some(_)) => {
                all.on.remove(name);
                all.off.remove(name);
                (
                    format!("Job: {name} would be deleted from schedule."),
                    format!("Removed job {name} from schedule"),
                    one("removed".into()),
                )
            }
            (Want::On, Some(_)) if is_on => return Ok(Err(format!("Job {name} is enabled already"))),
            (Want::Off, Some(_)) if !is_on => return Ok(Err(format!("Job {name} is disabled already"))),
            (Want::On, Some(entry)) => {
                all.off.remove(name);
                all.on.insert(name.as_str(), entry);
                (
                    format!("Job: {name} would be enabled in schedule."),
                    format!("Enabled job {name} from schedule"),
                    one("enabled".into()),
                )
            }
            (Want::Off, Some(entry)) => {
                all.on.remove(name);
                all.off.insert(name.as_str(), entry);
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
const UNITS: [&str; 2] = ["zagent.service", "zagent-watchdog.service"];

impl State for Schedule {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        Ok(match self.plan(scene)? {
            Ok((would, _, changes, _)) => Look::drift(would, changes),
            Err(right) => Look::right(right),
        })
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let (_, did, changes, entries) = match self.plan(scene)? {
            Ok(plan) => plan,
            Err(right) => return Ok(Done::new(right, Map::new())),
        };
        entries.write(scene)?;
        let tools = scene.tools();
        if !scene.is_dry() && tools.which("systemctl").is_some() {
            // Who does not run reads it when it starts.
            for unit in UNITS {
                if tools.ask("systemctl", &["is-active", "--quiet", unit])?.is_fine() {
                    tools.must("systemctl", &["reload", "--no-block", unit])?;
                }
            }
        }
        Ok(Done::new(did, changes))
    }

    fn is_foreseeable(&self) -> bool {
        true
    }

    fn resources(&self) -> Vec<Resource> {
        vec![Resource::Path(Path::new(CONFIG_DIR).join(FRAGMENTS_DIR).join(ON))]
    }

    fn sees(&self) -> Veil {
        Veil::FILES
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::stage::chunk;
    use super::*;

    #[test]
    fn whatever_runs_the_agent_is_told_of_jobs() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../dist/systemd");
        let runs_on = |text: &str| text.contains("\nType=notify") && text.contains("\nExecReload=");
        let units = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
        let mut units: Vec<String> = units
            .filter(|path| runs_on(&std::fs::read_to_string(path).unwrap()))
            .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
            .collect();
        units.sort_unstable_by_key(String::len);
        assert_eq!(units, UNITS);
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
            let got = match entry(&Args::new(&chunk)) {
                Ok(entry) => serde_json::to_string(&Value::from(entry)).unwrap(),
                Err(failure) => failure.done.comment,
            };
            assert!(got.contains(want), "{args}: {got}");
        }
    }
}
