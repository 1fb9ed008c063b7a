//! What a run on a resource needs beside its plan, as one mapping, and back: both ends of the connection read it here.

use std::time::Duration;

use zagent_compiler::{Compat, CompileOptions, CompiledResource};
use zagent_config::mask::Secret;
use zagent_config::settings::RunSchedule;
use zagent_config::{Map, Value};
use zagent_run::{RunOptions, RunTrigger};

/// What a run on a resource needs beside its plan.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RemoteRunSettings {
    /// The name of the run.
    pub(crate) run: String,
    /// Description of where the states come from.
    pub(crate) revision: String,
    /// The id of the resource.
    pub(crate) id: String,
    /// Its grains.
    pub(crate) grains: Map,
    /// Its pillar.
    pub(crate) pillar: Map,
    /// Options of the run.
    pub(crate) order: RunOptions,
    /// What triggered it.
    pub(crate) trigger: RunTrigger,
    /// The order of states, when the options do not say.
    pub(crate) schedule: RunSchedule,
    /// How many journals are kept.
    pub(crate) keep: usize,
    /// Whether templates may run commands of their own.
    pub(crate) commands: bool,
    /// How long a program of a function may take.
    pub(crate) program_timeout: Duration,
    /// What was decrypted for this resource.
    pub(crate) secrets: Vec<Secret>,
    /// The environments of the states.
    pub(crate) envs: Vec<String>,
}

/// The part of the compile options that rendering templates of files depends on.
pub(crate) fn write_options(options: &CompileOptions) -> Map {
    let manager = options.resource.as_ref().map(|resource| resource.manager.as_str()).unwrap_or_default();
    let kind = options.resource.as_ref().map(|resource| resource.kind.as_str()).unwrap_or_default();
    Map::from_iter([
        ("salt", Value::from(options.compat == Compat::Salt)),
        ("kind", kind.into()),
        ("manager", manager.into()),
        ("renderer", options.renderer.as_str().into()),
        ("jinja_env", options.jinja_env.clone().into()),
        ("jinja_sls_env", options.jinja_sls_env.clone().into()),
        ("opts", options.opts.clone().into()),
        ("nodegroups", options.nodegroups.clone().into()),
        ("resources_key", options.resources_key.as_str().into()),
    ])
}

/// The compile options of a run with these settings.
pub(crate) fn read_options(about: &Map, settings: &RemoteRunSettings) -> CompileOptions {
    let map = |key: &str| about.get(key).and_then(Value::as_map).cloned().unwrap_or_default();
    let text = |key: &str| about.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    CompileOptions {
        id: settings.id.clone(),
        compat: if read_flag(about, "salt") { Compat::Salt } else { Compat::Strict },
        renderer: text("renderer"),
        jinja_env: map("jinja_env"),
        jinja_sls_env: map("jinja_sls_env"),
        opts: map("opts"),
        nodegroups: map("nodegroups"),
        resources_key: text("resources_key"),
        resource: Some(CompiledResource {
            kind: text("kind"),
            manager: text("manager"),
            pillar: Some(settings.pillar.clone()),
        }),
        ..CompileOptions::default()
    }
}

impl RemoteRunSettings {
    /// Adds it to a mapping.
    pub(crate) fn write(&self, about: &mut Map) {
        let order = &self.order;
        let optional = |text: Option<&str>| text.map_or(Value::Null, Value::from);
        let rows: [(&str, Value); 21] = [
            ("run", self.run.as_str().into()),
            ("revision", self.revision.as_str().into()),
            ("id", self.id.as_str().into()),
            ("grains", self.grains.clone().into()),
            ("pillar", self.pillar.clone().into()),
            ("test", order.test.into()),
            ("audit", order.audit.into()),
            ("reverts", order.revert.is_some().into()),
            ("revert", optional(order.revert.as_ref().and_then(|run| run.as_deref()))),
            ("force", order.force.into()),
            ("state", optional(order.state.as_deref())),
            ("own_schedule", optional(order.schedule.map(RunSchedule::name))),
            ("timeout", order.timeout.map_or(Value::Null, seconds)),
            ("jobs", order.jobs.map_or(Value::Null, |jobs| count(jobs as u64))),
            ("trigger", self.trigger.as_str().into()),
            ("schedule", self.schedule.name().into()),
            ("keep", count(self.keep as u64)),
            ("commands", self.commands.into()),
            ("program_timeout", seconds(self.program_timeout)),
            ("secrets", self.secrets.iter().map(|secret| Value::from(secret.expose())).collect()),
            ("envs", self.envs.iter().map(|env| Value::from(env.as_str())).collect()),
        ];
        for (key, value) in rows {
            about.insert(key, value);
        }
    }

    /// Reads it from a mapping; `None` when something is missing.
    pub(crate) fn read(about: &Map) -> Option<Self> {
        let text = |key: &str| about.get(key).and_then(Value::as_str).map(str::to_owned);
        let map = |key: &str| about.get(key).and_then(Value::as_map).cloned();
        let number = |key: &str| about.get(key).and_then(Value::as_int).and_then(|n| u64::try_from(n).ok());
        let texts = |key: &str| -> Option<Vec<String>> {
            about.get(key)?.as_list()?.iter().map(|value| value.as_str().map(str::to_owned)).collect()
        };
        let triggers =
            [RunTrigger::Timer, RunTrigger::Git, RunTrigger::Manual, RunTrigger::Drift, RunTrigger::Rollout];
        let trigger = text("trigger")?;
        Some(Self {
            run: text("run")?,
            revision: text("revision")?,
            id: text("id")?,
            grains: map("grains")?,
            pillar: map("pillar")?,
            order: RunOptions {
                test: read_flag(about, "test"),
                audit: read_flag(about, "audit"),
                revert: read_flag(about, "reverts").then(|| text("revert")),
                force: read_flag(about, "force"),
                state: text("state"),
                schedule: text("own_schedule").and_then(|name| RunSchedule::find(&name)),
                timeout: number("timeout").map(Duration::from_secs),
                jobs: number("jobs").and_then(|n| usize::try_from(n).ok()),
                prune: None,
            },
            trigger: triggers.into_iter().find(|known| known.as_str() == trigger)?,
            schedule: RunSchedule::find(&text("schedule")?)?,
            keep: number("keep").and_then(|n| usize::try_from(n).ok())?,
            commands: read_flag(about, "commands"),
            program_timeout: Duration::from_secs(number("program_timeout")?),
            secrets: texts("secrets")?.into_iter().map(Secret::from).collect(),
            envs: texts("envs")?,
        })
    }
}

fn read_flag(about: &Map, key: &str) -> bool {
    about.get(key).is_some_and(Value::is_truthy)
}

fn count(number: u64) -> Value {
    Value::Int(i64::try_from(number).unwrap_or(i64::MAX))
}

fn seconds(time: Duration) -> Value {
    count(time.as_secs().max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_a_run_arrive_unchanged() {
        let settings = RemoteRunSettings {
            run: "20260101T000000-ab".into(),
            revision: "abc".into(),
            id: "web-01".into(),
            grains: Map::from_iter([("os", Value::from("Debian"))]),
            pillar: Map::from_iter([("a", Value::from(1))]),
            order: RunOptions {
                test: true,
                audit: false,
                revert: Some(Some("20260101T000000-aa".into())),
                force: true,
                state: Some("motd".into()),
                schedule: Some(RunSchedule::Ordered),
                timeout: Some(Duration::from_secs(7)),
                jobs: Some(3),
                prune: None,
            },
            trigger: RunTrigger::Git,
            schedule: RunSchedule::Levels,
            keep: 5,
            commands: true,
            program_timeout: Duration::from_secs(9),
            secrets: vec![Secret::from("hunter2".to_owned())],
            envs: vec!["base".into(), "dev".into()],
        };
        let mut about = Map::new();
        settings.write(&mut about);
        assert_eq!(RemoteRunSettings::read(&about), Some(settings.clone()));
        let plain = RemoteRunSettings { order: RunOptions::default(), ..settings };
        let mut about = Map::new();
        plain.write(&mut about);
        assert_eq!(RemoteRunSettings::read(&about), Some(plain));
        assert_eq!(RemoteRunSettings::read(&Map::new()), None);
    }
}
