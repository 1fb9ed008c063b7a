//! What comes from elsewhere or goes there: `git`, `http`, `event`, certificates, schedules, facts.

use crate::{BuildResult, ChunkArgs, Undoable};

/// The state that a function of these modules makes; nothing when there is no such function.
pub fn build(state: &str, fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    match state {
        "event" => crate::event::build(fun, args),
        "git" => crate::git::build(fun, args),
        "grains" => crate::grains::build(fun, args),
        "http" => crate::http::build(fun, args),
        "logrotate" => crate::logrotate::build(fun, args),
        "schedule" => crate::schedule::build(fun, args),
        "x509" => crate::x509::build(fun, args),
        _ => None,
    }
}

/// What a revert can put back.
pub const UNDOABLES: &[&dyn Undoable] = &[&crate::git::GIT_REPO_UNDO, &crate::git::GIT_CONFIG_UNDO];
