//! `file.accumulated`: texts that states collect for a file that another state writes.
//!
//! Law: collecting changes nothing on the host. The texts come out in the order of the plan, in whatever order the states that
//! collected them ran.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use zagent_compiler::yaml::python_str;
use zagent_compiler::{Chunk, name_text};
use zagent_config::Value;

use crate::states::{Args, Cost, Done, Failure, Look, Scene, State};

/// A text for a file.
pub(super) struct Accumulated {
    name: String,
    file: PathBuf,
    texts: Vec<String>,
}

impl Accumulated {
    /// Reads `file.accumulated`.
    ///
    /// # Errors
    /// Fails with Salt's words when nobody would use the text.
    pub(super) fn read(args: &Args<'_>) -> Result<Self, Failure> {
        let (name, chunk) = (args.name(), args.chunk);
        if name.is_empty() {
            return Err(Failure::new("Must provide name to file.accumulated"));
        }
        let text = args.get("text").ok_or_else(|| Failure::new("No text supplied for accumulator"))?;
        if !targets(chunk).any(is_file) {
            let Chunk { sls, id, .. } = chunk;
            return Err(Failure::new(format!("Orphaned accumulator {name} in {sls}:{id}")));
        }
        let file = args.text("filename")?;
        let file =
            file.ok_or_else(|| Failure::new("Missing parameter filename for state file.accumulated"))?;
        Ok(Self { name, file: file.into(), texts: texts(text) })
    }
}

impl State for Accumulated {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let mut all = scene.shared.accumulated.lock().unwrap_or_else(PoisonError::into_inner);
        let held = all.entry(self.file.clone()).or_default().entry(self.name.clone()).or_default();
        let before = held.len();
        for text in &self.texts {
            if !held.contains(text) {
                held.push(text.clone());
            }
        }
        if held.len() == before {
            return Ok(Look::right(""));
        }
        let (name, file) = (&self.name, self.file.display());
        Ok(Look::right(format!("Accumulator {name} for file {file} was charged by text")))
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        self.check(scene).map(|look| Done::new(look.comment, look.changes))
    }

    fn is_foreseeable(&self) -> bool {
        true
    }

    fn cost(&self) -> Cost {
        Cost::Light
    }
}

/// What was collected for a file: name by name, each with its texts.
pub(in crate::states::file) fn of_file(scene: &Scene<'_>, file: &Path) -> Vec<(String, Vec<String>)> {
    let all = scene.shared.accumulated.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(held) = all.get(file) else { return Vec::new() };
    let mut out: Vec<(String, Vec<String>)> = Vec::new();
    for chunk in chunks(scene, file) {
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
    unplanned(held, &mut out);
    out
}

/// Adds what no state of the plan accounts for.
fn unplanned(held: &BTreeMap<String, Vec<String>>, out: &mut Vec<(String, Vec<String>)>) {
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
pub(super) fn for_state(scene: &Scene<'_>, file: &str, id: &str) -> Vec<String> {
    let file = Path::new(file);
    let all = of_file(scene, file);
    let mine: Vec<String> = chunks(scene, file)
        .filter(|chunk| targets(chunk).any(|target| names(target, id)))
        .map(|chunk| name_text(&chunk.name))
        .collect();
    let is_chosen = |name: &String| mine.is_empty() || mine.contains(name);
    all.into_iter().filter(|(name, _)| is_chosen(name)).flat_map(|(_, texts)| texts).collect()
}

fn chunks<'s>(scene: &'s Scene<'_>, file: &'s Path) -> impl Iterator<Item = &'s Chunk> {
    scene.plan.chunks.iter().filter(move |chunk| {
        &*chunk.state == "file"
            && &*chunk.fun == "accumulated"
            && chunk.args.get("filename").and_then(Value::as_str).is_some_and(|f| Path::new(f) == file)
    })
}

/// What a state puts itself before.
fn targets(chunk: &Chunk) -> impl Iterator<Item = &Value> {
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

fn names(target: &Value, id: &str) -> bool {
    target.as_map().is_some_and(|map| map.values().any(|v| v.as_str() == Some(id)))
}

fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::List(items) => items.iter().map(python_str).collect(),
        other => vec![python_str(other)],
    }
}
