//! The plan of an ssh resource in, its states' outcomes out: plan and files are packed, run over there, and what comes back is read.
//!
//! Law: secrets of the managing node are not packed: only the pillar of the resource, and what was decrypted for it
//! (held by `no_secret_of_a_run_travels_further_than_it_must`).

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use zagent_compiler::{Chunk, FileTree, Plan};
use zagent_config::{Map, SecretMask, Value};
use zagent_host::CancelToken;
use zagent_resources::ssh::package::{PackedFile, RunPackage};
use zagent_resources::ssh::{LinkEvent, SshLink};
use zagent_run::history::record::receive_outcome;
use zagent_run::{RunOptions, RunProgress, RunTrigger, StateOutcome};

use super::resource_job::{NodeContext, ResourceJob};
use super::run_settings::{RemoteRunSettings, write_options};
use crate::compile_job::PlanWithPillar;

/// How files of the states are named in arguments.
const TREE_PREFIX: &str = "salt://";
/// The folder of external state modules in a tree.
const MODULES_FOLDER: &str = "_states/";

/// A run on an ssh resource.
pub(super) struct RemoteRun<'a> {
    pub(super) context: &'a NodeContext,
    pub(super) own: &'a ResourceJob,
    pub(super) link: &'a SshLink,
    pub(super) planned: &'a PlanWithPillar,
    pub(super) grains: &'a Map,
    pub(super) order: &'a RunOptions,
    pub(super) trigger: RunTrigger,
    pub(super) cancel: &'a CancelToken,
    pub(super) run: &'a str,
    pub(super) mask: &'a SecretMask,
    pub(super) progress: &'a dyn RunProgress,
}

impl RemoteRun<'_> {
    /// Runs it.
    pub(super) fn run(&self) -> Result<Vec<StateOutcome>, String> {
        let on_node: Vec<&str> =
            self.planned.plan.chunks.iter().filter(|chunk| chunk.runs_on_manager()).map(|c| &*c.id).collect();
        if let Some(first) = on_node.first() {
            return Err(format!(
                "the state `{first}` has `minion: true`, which ssh resources cannot run: give it to the managing node, or call \
                 `__minion__` in a template"
            ));
        }
        let package = self.package()?;
        let mut states = Vec::new();
        let mut foreign = 0_usize;
        let mut on_event = |event: LinkEvent| match event {
            LinkEvent::Started(tag) => self.progress.started(0, &tag),
            LinkEvent::State(sent) => match receive_outcome(sent, self.mask) {
                Some(outcome) => states.push(outcome),
                None => foreign += 1,
            },
        };
        let limit = self.context.settings.resources.timeout;
        let time = self.order.timeout.unwrap_or(limit);
        let files = &*self.own.job.states;
        let ended = self.link.run(&package, files, (time, self.cancel), &mut on_event);
        states.sort_by_key(|outcome| outcome.run_num);
        match ended {
            Ok(_) if foreign == 0 => Ok(states),
            Ok(_) => Err(format!("{foreign} of its answers are no outcomes of states")),
            // What was done until then is part of the report.
            Err(words) if states.is_empty() => Err(words),
            Err(words) => {
                let start = states.last().map_or_else(Default::default, end_of);
                let id = &self.own.job.node;
                let words = format!("the run is not complete: {words}");
                states.push(StateOutcome::resource_failed(id, &words, start, self.mask));
                Ok(states)
            }
        }
    }

    fn package(&self) -> Result<RunPackage, String> {
        let (context, job) = (self.context, &self.own.job);
        let settings = RemoteRunSettings {
            run: self.run.to_owned(),
            revision: job.revision.clone(),
            id: job.node.clone(),
            grains: self.grains.clone(),
            pillar: self.planned.pillar.as_map().cloned().unwrap_or_default(),
            order: self.order.clone(),
            trigger: self.trigger,
            schedule: context.settings.run.schedule,
            keep: context.settings.run.keep,
            commands: context.commands_allowed(),
            program_timeout: context.settings.limits.program_timeout,
            secrets: job.compiler.decrypted_secrets(),
            envs: job.states.envs(),
        };
        let mut about = write_options(&job.inputs.options);
        settings.write(&mut about);
        let files = named_files(&self.planned.plan, &*job.states)?;
        Ok(RunPackage { plan: self.planned.plan.clone(), about, files })
    }
}

/// When a state ended; what it says of its duration may be anything.
fn end_of(outcome: &StateOutcome) -> Timestamp {
    outcome.start.checked_add(outcome.duration).unwrap_or(outcome.start)
}

/// The files of the states that a plan names: sources, directories with all that is in them, and state modules of the tree.
pub(super) fn named_files(plan: &Plan, tree: &dyn FileTree) -> Result<Vec<PackedFile>, String> {
    let mut named = BTreeSet::new();
    for chunk in &plan.chunks {
        named.insert((zagent_compiler::BASE_ENV.to_owned(), format!("{MODULES_FOLDER}{}", chunk.state)));
        collect_names(chunk, &Value::from(chunk.args.clone()), &mut named);
        collect_names(chunk, &chunk.name, &mut named);
    }
    let mut files = BTreeMap::new();
    let mut add = |env: &str, path: &str, link: Option<&str>| -> Result<bool, String> {
        let key = (env.to_owned(), path.to_owned());
        if files.contains_key(&key) {
            return Ok(true);
        }
        let content = if link.is_none() { tree.read(env, path)? } else { None };
        let exists = content.is_some();
        let digest = content.map(|bytes| blake3::hash(&bytes).to_hex().to_string()).unwrap_or_default();
        let (env, path) = key.clone();
        let mode = tree.mode(&env, &path);
        files.insert(key, PackedFile { env, path, digest, mode, link: link.map(str::to_owned) });
        Ok(exists)
    };
    let mut below = BTreeSet::new();
    for (env, path) in &named {
        if !tree.has(env, path) {
            below.insert((env, path.trim_end_matches('/')));
        } else {
            add(env, path, None)?;
        }
    }
    let envs: BTreeSet<&String> = below.iter().map(|(env, _)| *env).collect();
    for env in envs.into_iter().filter(|env| tree.envs().contains(env)) {
        let is_below = |path: &str| {
            below.iter().any(|(of, dir)| {
                *of == env
                    && path.strip_prefix(dir).is_some_and(|rest| dir.is_empty() || rest.starts_with('/'))
            })
        };
        for path in tree.list(env)?.iter().filter(|path| is_below(path)) {
            add(env, path, None)?;
        }
        for (path, to) in tree.links(env)?.iter().filter(|(path, _)| is_below(path)) {
            add(env, path, Some(to))?;
        }
        let is_wanted =
            |path: &&String| is_below(path) || below.iter().any(|(of, dir)| *of == env && path == dir);
        for path in tree.dirs(env)?.iter().filter(is_wanted) {
            add(env, path, None)?;
        }
    }
    Ok(files.into_values().collect())
}

/// Adds every path of the tree that a value names.
fn collect_names(chunk: &Chunk, value: &Value, named: &mut BTreeSet<(String, String)>) {
    match value {
        Value::Str(text) => {
            let Some(path) = text.strip_prefix(TREE_PREFIX) else { return };
            let (path, env) = ["?saltenv=", "?env="]
                .into_iter()
                .find_map(|mark| path.split_once(mark))
                .map_or((path, None), |(path, env)| (path, Some(env)));
            let given = chunk.args.get("saltenv").and_then(Value::as_str);
            let env = env.or(given).unwrap_or(&chunk.env).to_owned();
            named.insert((env, path.trim_start_matches('/').trim_start_matches('|').to_owned()));
        }
        Value::List(list) => list.iter().for_each(|value| collect_names(chunk, value, named)),
        Value::Map(map) => map.iter().for_each(|(key, value)| {
            collect_names(chunk, key, named);
            collect_names(chunk, value, named);
        }),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_duration_that_lies_is_no_panic() {
        let mut outcome = StateOutcome::no_resource_states("a", Timestamp::default());
        outcome.duration = Duration::from_secs(1);
        assert_eq!(end_of(&outcome), Timestamp::from_second(1).unwrap());
        outcome.duration = Duration::from_micros(u64::MAX);
        assert_eq!(end_of(&outcome), Timestamp::default());
    }
}
