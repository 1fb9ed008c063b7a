//! A mapping that the agent keeps in a file of its own: facts that states set, entries of the schedule.
//!
//! The file is YAML that the agent reads like any other; only these states write it.

use std::path::{Path, PathBuf};

use zagent_compiler::FunctionCall;
use zagent_config::{Map, Value};

use super::super::{StateCtx, StateError};
use crate::file::parents;
use zagent_host::fs::FileMeta;

/// The directory that the configuration names for such files; nothing when it names none.
pub fn configured_dir(option: &str, ctx: &StateCtx<'_>) -> Option<PathBuf> {
    let call = FunctionCall { function: "test.get_opts".into(), args: Vec::new(), kwargs: Map::new() };
    let opts = ctx.host.call(&call).ok()?;
    opts.as_map()?.get(option).and_then(Value::as_str).map(PathBuf::from)
}

/// What the file holds; an empty mapping when it is not there.
pub fn read(path: &Path, ctx: &StateCtx<'_>) -> Result<Map, StateError> {
    if ctx.fs.stat(path)?.is_none() {
        return Ok(Map::new());
    }
    let bytes = ctx.fs.read(path)?;
    let text = String::from_utf8_lossy(&bytes);
    let limits = zagent_compiler::TreeLimits::default();
    match zagent_compiler::yaml::load(&text, &limits) {
        Ok(Value::Null) => Ok(Map::new()),
        Ok(Value::Map(map)) => Ok((*map).clone()),
        Ok(other) => {
            Err(StateError::new(format!("`{}` holds {}, not a mapping", path.display(), other.kind())))
        }
        Err(error) => Err(StateError::new(format!("`{}` cannot be read: {}", path.display(), error.message))),
    }
}

/// Writes it, or takes the file away when nothing is left.
pub fn write(path: &Path, map: &Map, ctx: &StateCtx<'_>) -> Result<(), StateError> {
    if map.is_empty() {
        return if ctx.fs.stat(path)?.is_some() { Ok(ctx.fs.remove(path)?) } else { Ok(()) };
    }
    parents::make_parents(ctx, path, FileMeta { mode: Some(0o755), ..FileMeta::default() })?;
    // JSON is YAML.
    let json = serde_json::to_string_pretty(&Value::from(map.clone()))
        .map_err(|e| StateError::new(format!("`{}` cannot be written: {e}", path.display())))?;
    let text = format!("# States write this file; what others write here is lost.\n{json}\n");
    let meta = FileMeta { mode: Some(0o644), ..FileMeta::default() };
    Ok(ctx.fs.write(path, text.as_bytes(), meta)?)
}
