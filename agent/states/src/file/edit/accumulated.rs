//! `file.accumulated`: texts that states collect for a file that another state writes.
//!
//! Collecting changes nothing on the host. The texts come out in the order of the plan, in whatever order the
//! states that collected them ran.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use zagent_compiler::{Chunk, name_text};
use zagent_config::Value;
use zagent_config::value::python_str;

use crate::{ApplyResult, CheckCost, CheckResult, ChunkArgs, State, StateCtx, StateError};

/// A text for a file.
pub(crate) struct FileAccumulated {
    name: String,
    file: PathBuf,
    texts: Vec<String>,
}

impl FileAccumulated {
    /// Reads `file.accumulated`.
    ///
    /// # Errors
    /// Fails with Salt's words when nobody would use the text.
    pub(crate) fn read(args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        let (name, chunk) = (args.name(), args.chunk);
        if name.is_empty() {
            return Err(StateError::new("Must provide name to file.accumulated"));
        }
        let text = args.get("text").ok_or_else(|| StateError::new("No text supplied for accumulator"))?;
        if !required_in(chunk).any(is_file) {
            let Chunk { sls, id, .. } = chunk;
            return Err(StateError::new(format!("Orphaned accumulator {name} in {sls}:{id}")));
        }
        let file = args.text("filename")?;
        let file =
            file.ok_or_else(|| StateError::new("Missing parameter filename for state file.accumulated"))?;
        Ok(Self { name, file: file.into(), texts: texts(text) })
    }
}

impl State for FileAccumulated {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let mut all = ctx.shared.accumulated.lock().unwrap_or_else(PoisonError::into_inner);
        let held = all.entry(self.file.clone()).or_default().entry(self.name.clone()).or_default();
        let before = held.len();
        for text in &self.texts {
            if !held.contains(text) {
                held.push(text.clone());
            }
        }
        if held.len() == before {
            return Ok(CheckResult::in_sync(""));
        }
        let (name, file) = (&self.name, self.file.display());
        Ok(CheckResult::in_sync(format!("Accumulator {name} for file {file} was charged by text")))
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        self.check(ctx).map(|checked| ApplyResult::new(checked.comment, checked.changes))
    }

    fn is_predictable(&self) -> bool {
        true
    }

    fn check_cost(&self) -> CheckCost {
        CheckCost::Light
    }
}

/// What was collected for a file: name by name, each with its texts.
pub(crate) fn texts_for_file(ctx: &StateCtx<'_>, file: &Path) -> Vec<(String, Vec<String>)> {
    let all = ctx.shared.accumulated.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(held) = all.get(file) else { return Vec::new() };
    let mut out: Vec<(String, Vec<String>)> = Vec::new();
    for chunk in accumulator_chunks(ctx, file) {
        let name = name_text(&chunk.name);
        let Some(charged) = held.get(&name) else { continue };
        let mine = chunk.args.get("text").map(texts).unwrap_or_default();
        let at = out.iter().position(|(n, _)| *n == name).unwrap_or_else(|| {
            out.push((name, Vec::new()));
            out.len() - 1
        });
        let list = &mut out[at].1;
        let fresh: Vec<String> =
            mine.into_iter().filter(|text| charged.contains(text) && !list.contains(text)).collect();
        list.extend(fresh);
    }
    add_unplanned(held, &mut out);
    out
}

/// Adds what no state of the plan accounts for.
fn add_unplanned(held: &BTreeMap<String, Vec<String>>, out: &mut Vec<(String, Vec<String>)>) {
    for (name, charged) in held {
        match out.iter_mut().find(|(n, _)| n == name) {
            None => out.push((name.clone(), charged.clone())),
            Some((_, list)) => {
                let fresh: Vec<String> = charged.iter().filter(|t| !list.contains(t)).cloned().collect();
                list.extend(fresh);
            }
        }
    }
}

/// The texts of a file that one state uses: of the accumulators that name it, or of all when none does.
pub(crate) fn texts_for_state(ctx: &StateCtx<'_>, file: &str, id: &str) -> Vec<String> {
    let file = Path::new(file);
    let all = texts_for_file(ctx, file);
    let mine: Vec<String> = accumulator_chunks(ctx, file)
        .filter(|chunk| required_in(chunk).any(|target| names_state(target, id)))
        .map(|chunk| name_text(&chunk.name))
        .collect();
    let is_chosen = |name: &String| mine.is_empty() || mine.contains(name);
    all.into_iter().filter(|(name, _)| is_chosen(name)).flat_map(|(_, texts)| texts).collect()
}

fn accumulator_chunks<'s>(ctx: &'s StateCtx<'_>, file: &'s Path) -> impl Iterator<Item = &'s Chunk> {
    ctx.plan.chunks.iter().filter(move |chunk| {
        &*chunk.state == "file"
            && &*chunk.fun == "accumulated"
            && chunk.args.get("filename").and_then(Value::as_str).is_some_and(|f| Path::new(f) == file)
    })
}

/// What a state puts itself before.
fn required_in(chunk: &Chunk) -> impl Iterator<Item = &Value> {
    let list = |key| chunk.args.get(key).and_then(Value::as_list).map_or(&[][..], |list| &list[..]);
    list("require_in").iter().chain(list("watch_in"))
}

fn is_file(target: &Value) -> bool {
    match target {
        Value::Map(map) => map.contains("file"),
        Value::Str(text) => text.contains("file"),
        _ => false,
    }
}

fn names_state(target: &Value, id: &str) -> bool {
    target.as_map().is_some_and(|map| map.values().any(|v| v.as_str() == Some(id)))
}

fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::List(items) => items.iter().map(python_str).collect(),
        other => vec![python_str(other)],
    }
}
