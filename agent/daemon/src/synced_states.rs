//! A run in, the cause of each change out: drift of the host, or something new in the states.
//!
//! Kept per state: a digest of what it asked for when the host was last as it asks. A state that asks for the same and finds
//! something else has drifted; one that asks for something else is an intended change, also when it is never applied.
//!
//! Law: only a run of all states of the node moves this memory, and a run without news writes nothing (held by
//! `drift_and_change_are_told_apart_state_by_state`).

use std::cell::OnceCell;
use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Serialize};
use zagent_compiler::{Chunk, Requisite};
use zagent_config::json_file::{self, JsonFileError};
use zagent_config::paths::Paths;
use zagent_config::{Map, Value};

use crate::compile_job::{CompileJob, PlanWithPillar};
use crate::local_key::LocalKey;
use zagent_run::{ChangeCause, RunReport, StateOutcome, StateStatus};

/// Modules whose states act whenever they run: that they ran says nothing about the host.
const ACTING_MODULES: [&str; 5] = ["cmd", "event", "exec", "module", "test"];
/// Arguments by which a state reads pillar, grains and other files while it runs.
const CONTEXT_ARGUMENTS: [&str; 3] = ["template", "contents_pillar", "contents_grains"];
/// Grains that differ between two processes on the same host.
pub(crate) const PROCESS_GRAINS: [&str; 2] = ["cwd", "pid"];
/// In front of a file of the state tree.
const TREE_SCHEME: &str = "salt://";

/// What states asked for when the host was last as they ask, by state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct SyncedStates {
    states: BTreeMap<String, String>,
}

/// A plan and its inputs.
pub(crate) struct DesiredStates<'a> {
    job: &'a CompileJob,
    planned: &'a PlanWithPillar,
    key: &'a LocalKey,
    context: OnceCell<String>,
}

impl SyncedStates {
    /// Reads it. A missing or invalid file counts as empty: every difference is then an intended change.
    pub(crate) fn load(paths: &Paths) -> Self {
        json_file::read(&paths.synced_states()).ok().flatten().unwrap_or_default()
    }

    /// Writes it, unless it is unchanged.
    pub(crate) fn save(&self, paths: &Paths, before: &Self) -> Result<(), JsonFileError> {
        if self == before { Ok(()) } else { json_file::write(&paths.synced_states(), self) }
    }

    /// Sets the causes of a report, and remembers what is in sync now.
    pub(crate) fn note_run(&mut self, desired: &DesiredStates<'_>, report: &mut RunReport) {
        let mut all = desired.digests();
        // What is declared no more is forgotten.
        let names: HashSet<&String> = all.values().map(|(name, _)| name).collect();
        self.states.retain(|name, _| names.contains(name));
        for state in &mut report.states {
            let Some((name, digest)) = all.remove(&state.tag) else { continue };
            let was_synced = self.states.get(&name) == Some(&digest);
            if is_change(state) {
                state.cause = Some(if was_synced { ChangeCause::Drift } else { ChangeCause::Change });
            }
            if is_synced(state) {
                self.states.insert(name, digest);
            }
        }
    }
}

fn is_change(state: &StateOutcome) -> bool {
    matches!(state.status(), StateStatus::Changed | StateStatus::WouldChange)
}

/// True when the host is as the state asks.
fn is_synced(state: &StateOutcome) -> bool {
    match state.status() {
        StateStatus::Unchanged => true,
        StateStatus::Changed => !ACTING_MODULES.contains(&state.state.as_str()),
        _ => false,
    }
}

impl<'a> DesiredStates<'a> {
    pub(crate) const fn new(job: &'a CompileJob, planned: &'a PlanWithPillar, key: &'a LocalKey) -> Self {
        Self { job, planned, key, context: OnceCell::new() }
    }

    /// By tag: a name that holds no secret, and what the state asks for.
    fn digests(&self) -> BTreeMap<String, (String, String)> {
        let chunks = self.planned.plan.chunks.iter().filter(|chunk| !chunk.prereq.check);
        chunks
            .map(|chunk| {
                let tag = chunk.tag();
                let name = self.key.digest(tag.as_bytes());
                (tag, (name, self.digest(chunk)))
            })
            .collect()
    }

    /// Digest of what a state asks for: its arguments without requisites and order, the files that they name, and what a
    /// template may read.
    fn digest(&self, chunk: &Chunk) -> String {
        let is_requisite = |name: &str| {
            Requisite::ALL
                .iter()
                .any(|kind| name.strip_prefix(kind.key()).is_some_and(|rest| matches!(rest, "" | "_in")))
        };
        let mut bytes = format!("{}.{}\n", chunk.state, chunk.fun).into_bytes();
        chunk.name.to_bytes(&mut bytes);
        for (name, value) in chunk.args.iter().filter(|(name, _)| !name.as_str().is_some_and(is_requisite)) {
            name.to_bytes(&mut bytes);
            value.to_bytes(&mut bytes);
            self.add_sources(chunk, value, &mut bytes);
        }
        if CONTEXT_ARGUMENTS.iter().any(|name| chunk.args.contains(name)) {
            bytes.extend_from_slice(self.context().as_bytes());
        }
        self.key.digest(&bytes)
    }

    /// Adds the content of files of the state tree; the revision for what is not one file.
    fn add_sources(&self, chunk: &Chunk, value: &Value, bytes: &mut Vec<u8>) {
        match value {
            Value::Str(text) => {
                let Some(rest) = text.strip_prefix(TREE_SCHEME) else { return };
                let path = rest.split('?').next().unwrap_or(rest);
                match self.job.states.read(&chunk.env, path) {
                    Ok(Some(content)) => bytes.extend_from_slice(blake3::hash(&content).as_bytes()),
                    _ => bytes.extend_from_slice(self.job.revision.as_bytes()),
                }
            }
            Value::List(list) => list.iter().for_each(|value| self.add_sources(chunk, value, bytes)),
            Value::Map(map) => map.iter().for_each(|(_, value)| self.add_sources(chunk, value, bytes)),
            _ => {}
        }
    }

    /// Digest of the revision, the pillar and the grains.
    fn context(&self) -> &str {
        self.context.get_or_init(|| {
            let mut bytes = self.job.revision.clone().into_bytes();
            self.planned.pillar.to_bytes(&mut bytes);
            let grains = self.job.inputs.host.grains();
            for (name, value) in grains.as_map().into_iter().flat_map(Map::iter) {
                if !name.as_str().is_some_and(|name| PROCESS_GRAINS.contains(&name)) {
                    name.to_bytes(&mut bytes);
                    value.to_bytes(&mut bytes);
                }
            }
            self.key.digest(&bytes)
        })
    }
}
