//! What the states of this folder have in common: how they read their name, and how they answer a watch.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use zagent_config::Value;

use crate::{ApplyResult, ChunkArgs, State, StateCtx, StateError, Verdict};
use zagent_host::fs::{FileKind, Stat};

/// The path that a state is about.
///
/// # Errors
/// Fails in Salt's words when it is empty or not absolute.
pub(crate) fn state_path(args: &ChunkArgs<'_>, empty: &str) -> Result<PathBuf, StateError> {
    match args.get("name") {
        Some(Value::Str(name)) if name.is_empty() => Err(StateError::new(empty)),
        _ => args.path("name")?.ok_or_else(|| StateError::new(empty)),
    }
}

/// A text that must be given.
///
/// # Errors
/// Fails when it is missing or no text.
pub(crate) fn required_text(args: &ChunkArgs<'_>, key: &str) -> Result<String, StateError> {
    args.text(key)?.ok_or_else(|| missing_argument(args, key))
}

/// The failure for an argument that must be given.
pub(crate) fn missing_argument(args: &ChunkArgs<'_>, key: &str) -> StateError {
    StateError::new(format!("Missing parameter {key} for state file.{}\n", args.chunk.fun))
}

/// The environment whose files a state means.
///
/// # Errors
/// Fails when `saltenv` is no text.
pub fn saltenv(args: &ChunkArgs<'_>) -> Result<Arc<str>, StateError> {
    Ok(args.text("saltenv")?.map_or_else(|| Arc::clone(&args.chunk.env), Into::into))
}

/// A failure for what is asked for and not done here.
///
/// # Errors
/// Fails when one of the arguments is given.
pub(crate) fn reject_unsupported(args: &ChunkArgs<'_>, keys: &[&str]) -> Result<(), StateError> {
    match keys.iter().find(|key| args.get(key).is_some_and(Value::is_truthy)) {
        Some(key) => {
            Err(StateError::new(format!("`{key}` is not supported by file.{} here", args.chunk.fun)))
        }
        None => Ok(()),
    }
}

/// Answers a watch: these states have no answer of their own, so they look again, and act when there is something to do.
///
/// # Errors
/// Fails as the state does.
pub(crate) fn reapply(state: &mut dyn State, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
    let checked = state.check(ctx)?;
    match checked.verdict {
        Verdict::InSync => Ok(ApplyResult::new(checked.comment, checked.changes)),
        Verdict::Drifted | Verdict::Unknown(_) => state.apply(ctx),
    }
}

/// True when there is something, links not followed.
///
/// # Errors
/// Fails when it cannot be looked at.
pub fn exists(ctx: &StateCtx<'_>, path: &Path) -> Result<bool, StateError> {
    Ok(ctx.fs.lstat(path)?.is_some())
}

/// What stands at a path, links followed when asked to.
///
/// # Errors
/// Fails when it cannot be looked at.
pub fn stat(ctx: &StateCtx<'_>, path: &Path, follow: bool) -> Result<Option<Stat>, StateError> {
    Ok(if follow { ctx.fs.stat(path)? } else { ctx.fs.lstat(path)? })
}

/// True when a directory stands at a path, links followed.
///
/// # Errors
/// Fails when it cannot be looked at.
pub fn is_dir(ctx: &StateCtx<'_>, path: &Path) -> Result<bool, StateError> {
    Ok(ctx.fs.stat(path)?.is_some_and(|found| found.kind == FileKind::Dir))
}

/// A path with `~` as the home directory of who runs this.
pub(crate) fn expand_home(text: &str) -> PathBuf {
    match (text.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => PathBuf::from(home).join(rest),
        _ => text.into(),
    }
}
