//! A compile and its dry run in, digests of everything they depended on out; two of these in, what changed out.
//!
//! Law: a record holds names and keyed digests, never a value (held by `a_plan_file_holds_no_secret`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use zagent_compiler::BASE_ENV;
use zagent_config::{Map, SecretMask, Value};

use super::managed_path::{ManagedPath, managed_paths};
use crate::compile_job::{CompileJob, PlanWithPillar};
use crate::local_key::LocalKey;
use crate::synced_states::PROCESS_GRAINS;
use zagent_run::plan_cache::trace::{TracedInput, TreeSide};
use zagent_run::{RunReport, StateOutcome};

/// Stands for a file that does not exist.
const MISSING: &str = "missing";
/// Stands for a file that was listed and not read.
const LISTED: &str = "listed";

/// Name and digest of each thing of one kind.
type Digests = BTreeMap<String, String>;

/// What a plan depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PlanRecord {
    /// Files of the trees.
    tree: Digests,
    /// Grains.
    facts: Digests,
    /// Values of the pillar, by key.
    pillar: Digests,
    /// Answers of functions that templates called.
    calls: Digests,
    /// What each state is to do.
    states: Digests,
    /// What the dry run says of each state.
    outcomes: Digests,
    /// The managed paths as they are on this host.
    paths: BTreeMap<String, ManagedPath>,
}

/// A dry run and what it was made from.
pub(crate) struct DryRun<'a> {
    pub(crate) job: &'a CompileJob,
    pub(crate) planned: &'a PlanWithPillar,
    /// Its report.
    pub(crate) report: &'a RunReport,
    pub(crate) mask: &'a SecretMask,
}

impl PlanRecord {
    /// Records a compile and its dry run.
    pub(crate) fn new(dry_run: &DryRun<'_>, key: &LocalKey) -> Self {
        let DryRun { planned, report, mask, .. } = dry_run;
        let mut record = Self { paths: managed_paths(planned, mask, key), ..Self::default() };
        record.add_trace(dry_run, key);
        let mut leaves = Vec::new();
        collect_leaves(&planned.pillar, String::new(), &mut leaves);
        for (name, value) in leaves {
            add(&mut record.pillar, mask.mask_string(&name), key.value_digest(value), key);
        }
        for chunk in &planned.plan.chunks {
            add(&mut record.states, mask.mask_string(&chunk.tag()), key.value_digest(&chunk.to_value()), key);
        }
        for outcome in &report.states {
            add(&mut record.outcomes, outcome.tag.clone(), outcome_digest(outcome, key), key);
        }
        record
    }

    fn add_trace(&mut self, dry_run: &DryRun<'_>, key: &LocalKey) {
        let DryRun { job, mask, .. } = dry_run;
        for input in job.trace.inputs().into_iter().chain(job.file_trace.inputs()) {
            match input {
                TracedInput::File(side, env, path) => {
                    let content = side.tree(&job.inputs).read(&env, &path);
                    let digest = match content {
                        Ok(Some(bytes)) => key.digest(&bytes),
                        Ok(None) => MISSING.into(),
                        Err(why) => key.digest(why.as_bytes()),
                    };
                    self.tree.insert(mask.mask_string(&tree_label(side, &env, &path)), digest);
                }
                TracedInput::List(side, env) => {
                    let list = side.tree(&job.inputs).list(&env);
                    for path in list.iter().flat_map(|paths| paths.iter()) {
                        let label = mask.mask_string(&tree_label(side, &env, path));
                        self.tree.entry(label).or_insert_with(|| LISTED.into());
                    }
                }
                TracedInput::Grain(name) => {
                    let value = job.inputs.host.grain(&name).unwrap_or_default();
                    self.facts.insert(mask.mask_string(&name), key.value_digest(&value));
                }
                TracedInput::AllGrains => {
                    let grains = job.inputs.host.grains();
                    for (name, value) in grains.as_map().into_iter().flat_map(Map::iter) {
                        let name = mask.mask_string(&name.json_key());
                        self.facts.insert(name, key.value_digest(value));
                    }
                }
                TracedInput::Call(function, digest) => {
                    add(&mut self.calls, function, key.digest(&digest), key);
                }
            }
        }
        self.facts.retain(|name, _| !PROCESS_GRAINS.contains(&name.as_str()));
        // A file that is read is a missing one, a listed one or both; what was read counts.
        self.tree.retain(|_, digest| digest != MISSING);
    }

    /// What differs now, most specific causes first; empty when the plan fits.
    pub(crate) fn changes_to(&self, now: &Self) -> Vec<String> {
        let mut causes = Vec::new();
        for (name, how) in differences(&self.tree, &now.tree) {
            causes.push(format!("tree: the file `{name}` {how}"));
        }
        for (name, how) in differences(&self.facts, &now.facts) {
            causes.push(format!("facts: the grain `{name}` {how}"));
        }
        for (name, how) in differences(&self.pillar, &now.pillar) {
            causes.push(format!("pillar: the key `{name}` {how}"));
        }
        for (name, how) in differences(&self.calls, &now.calls) {
            causes.push(format!("facts: the answer of `{name}` in a template {how}"));
        }
        if causes.is_empty() {
            for (tag, how) in differences(&self.states, &now.states) {
                causes.push(format!("plan: the state {} {how}", state_label(tag)));
            }
        }
        for (path, how) in self.path_changes(now) {
            causes.push(format!("host: `{path}` {how}"));
        }
        // A state that would act differently is only named when nothing above explains it.
        if causes.is_empty() {
            for (tag, how) in differences(&self.outcomes, &now.outcomes) {
                let how = if how == CHANGED { "would now do something else" } else { how };
                causes.push(format!("host: the state {} {how}", state_label(tag)));
            }
        }
        causes
    }

    fn path_changes<'r>(&'r self, now: &'r Self) -> Vec<(&'r str, String)> {
        let mut changes = Vec::new();
        for (path, before) in &self.paths {
            match now.paths.get(path) {
                Some(after) if after != before => changes.push((path.as_str(), before.difference(after))),
                _ => {}
            }
        }
        changes
    }
}

/// Adds a digest; two things with one name are one thing.
fn add(digests: &mut Digests, name: String, digest: String, key: &LocalKey) {
    let both = match digests.get(&name) {
        Some(earlier) => key.digest(format!("{earlier}{digest}").as_bytes()),
        None => digest,
    };
    digests.insert(name, both);
}

/// Word for a thing whose digest differs.
const CHANGED: &str = "changed";

fn differences<'d>(before: &'d Digests, after: &'d Digests) -> Vec<(&'d str, &'static str)> {
    let mut all = Vec::new();
    for (name, digest) in before {
        match after.get(name) {
            None => all.push((name.as_str(), "was removed")),
            // What is read only on one side says nothing about its content.
            Some(now) if now == LISTED || digest == LISTED => {}
            Some(now) if now != digest => all.push((name.as_str(), CHANGED)),
            Some(_) => {}
        }
    }
    let is_new = |(name, _): &(&'d String, &'d String)| !before.contains_key(*name);
    all.extend(after.iter().filter(is_new).map(|(name, _)| (name.as_str(), "was added")));
    all
}

fn tree_label(side: TreeSide, env: &str, path: &str) -> String {
    match env {
        BASE_ENV => format!("{}/{path}", side.name()),
        env => format!("{env}:{}/{path}", side.name()),
    }
}

/// `file_|-motd_|-/etc/motd_|-managed` in, `motd (file.managed)` out.
fn state_label(tag: &str) -> String {
    let mut parts = tag.split("_|-");
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(state), Some(id), Some(_), Some(fun)) => format!("`{id}` ({state}.{fun})"),
        _ => format!("`{tag}`"),
    }
}

/// Every value of a pillar that is not a mapping, by its key.
fn collect_leaves<'v>(value: &'v Value, key: String, leaves: &mut Vec<(String, &'v Value)>) {
    match value {
        Value::Map(map) if !map.is_empty() => {
            for (name, value) in map.iter() {
                let name = name.json_key();
                let key = if key.is_empty() { name } else { format!("{key}:{name}") };
                collect_leaves(value, key, leaves);
            }
        }
        value => leaves.push((key, value)),
    }
}

/// Digest of what a state would do; when it was checked does not matter.
fn outcome_digest(outcome: &StateOutcome, key: &LocalKey) -> String {
    let mut bytes = format!(
        "{:?} {} {:?}\n{}\n{}\n",
        outcome.result, outcome.unknown, outcome.skip, outcome.comment, outcome.diff
    )
    .into_bytes();
    Value::from(outcome.changes.clone()).to_bytes(&mut bytes);
    key.digest(&bytes)
}
