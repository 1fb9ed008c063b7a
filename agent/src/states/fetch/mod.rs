//! What comes from elsewhere or goes there: `git`, `http`, `event`, certificates, schedules, facts.

mod event;
mod git;
mod grains;
mod http;
mod logrotate;
mod schedule;
mod x509;
mod yaml_map_file;

use super::{BuildResult, ChunkArgs, Undoable};

/// The state that a function of these modules makes; nothing when there is no such function.
pub(super) fn build(state: &str, fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    match state {
        "event" => event::build(fun, args),
        "git" => git::build(fun, args),
        "grains" => grains::build(fun, args),
        "http" => http::build(fun, args),
        "logrotate" => logrotate::build(fun, args),
        "schedule" => schedule::build(fun, args),
        "x509" => x509::build(fun, args),
        _ => None,
    }
}

/// What a revert can put back.
pub(super) const UNDOABLES: &[&dyn Undoable] = &[&git::GIT_REPO_UNDO, &git::GIT_CONFIG_UNDO];
