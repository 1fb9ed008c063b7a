//! A mapping that the agent keeps in a file of its own: facts that states set, entries of the schedule.
//!
//! Law: the file is YAML that the agent reads like any other; only these states write it.

use std::path::{Path, PathBuf};

use zagent_compiler::Call;
use zagent_config::{Map, Value};

use super::super::{Failure, Scene};
use crate::fs::Meta;
use crate::states::file::parents;

/// The directory that the configuration names for such files; nothing when it names none.
pub(super) fn dir(option: &str, scene: &Scene<'_>) -> Option<PathBuf> {
    let call = Call { function: "test.get_opts".into(), args: Vec::new(), kwargs: Map::new() };
    let opts = scene.host.call(&call).ok()?;
    opts.as_map()?.get(option).and_then(Value::as_str).map(PathBuf::from)
}

/// What the file holds; an empty mapping when it is not there.
pub(super) fn read(path: &Path, scene: &Scene<'_>) -> Result<Map, Failure> {
    if scene.fs.stat(path)?.is_none() {
        return Ok(Map::new());
    }
    let bytes = scene.fs.read(path)?;
    let text = String::from_utf8_lossy(&bytes);
    let limits = zagent_compiler::Limits::default();
    match zagent_compiler::yaml::load(&text, &limits) {
        Ok(Value::Null) => Ok(Map::new()),
        Ok(Value::Map(map)) => Ok((*map).clone()),
        Ok(other) => Err(Failure::new(format!("`{}` holds {}, not a mapping", path.display(), other.kind()))),
        Err(error) => Err(Failure::new(format!("`{}` cannot be read: {}", path.display(), error.message))),
    }
}

/// Writes it, or takes the file away when nothing is left.
pub(super) fn write(path: &Path, map: &Map, scene: &Scene<'_>) -> Result<(), Failure> {
    if map.is_empty() {
        return if scene.fs.stat(path)?.is_some() { Ok(scene.fs.remove(path)?) } else { Ok(()) };
    }
    parents::make(scene, path, Meta { mode: Some(0o755), ..Meta::default() })?;
    // JSON is YAML.
    let json = serde_json::to_string_pretty(&Value::from(map.clone()))
        .map_err(|e| Failure::new(format!("`{}` cannot be written: {e}", path.display())))?;
    let text = format!("# States write this file; what others write here is lost.\n{json}\n");
    let meta = Meta { mode: Some(0o644), ..Meta::default() };
    Ok(scene.fs.write(path, text.as_bytes(), meta)?)
}
