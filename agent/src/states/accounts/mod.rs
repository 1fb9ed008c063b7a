//! Users and what is theirs: `user`, `group`, keys, crontabs, names of hosts, settings in files of sections.

mod account_checks;
mod at;
mod cron;
mod group;
mod hosts;
mod ini;
mod ssh;
#[cfg(test)]
mod tests;
mod text_file;
mod undo;
mod user;
mod user_absent;

use std::path::Path;

use super::{BuildResult, CheckResult, ChunkArgs, Effects, State, StateCtx, StateError, Undoable};
use crate::fs::FileMeta;

/// The state that a function of these modules makes; nothing when there is no such function.
pub(super) fn build(state: &str, fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    match (state, fun) {
        ("user", "present") => Some(user::UserPresent::from_args(args).map(boxed)),
        ("user", "absent") => Some(Ok(boxed(user_absent::UserAbsent::from_args(args)))),
        ("group", "present") => Some(group::GroupPresent::from_args(args).map(boxed)),
        ("group", "absent") => Some(Ok(boxed(group::GroupAbsent::from_args(args)))),
        ("cron", _) => cron::CronState::for_function(fun, args).map(|s| s.map(boxed)),
        ("host", _) => text_file_state(hosts::HostState::for_function(fun, args)),
        ("alias", _) => text_file_state(hosts::AliasState::for_function(fun, args)),
        ("at", "present" | "watch") => Some(at::AtPresent::from_args(fun, args).map(boxed)),
        ("at", "absent") => Some(at::AtAbsent::from_args(args).map(boxed)),
        ("ssh_auth", _) => text_file_state(ssh::SshAuthState::for_function(fun, args)),
        ("ssh_known_hosts", _) => text_file_state(ssh::SshKnownHostsState::for_function(fun, args)),
        ("ini", _) => text_file_state(ini::IniState::for_function(fun, args)),
        _ => None,
    }
}

fn text_file_state<T: text_file::TextFile + 'static>(
    read: Option<Result<T, StateError>>,
) -> Option<BuildResult> {
    read.map(|texts| texts.map(|texts| boxed(text_file::TextFileState(texts))))
}

/// What a revert can put back.
pub(super) const UNDOABLES: &[&dyn Undoable] =
    &[&undo::USER_UNDO, &undo::GROUP_UNDO, &cron::CRONTAB_UNDO, &at::AT_JOB_UNDO];

fn boxed<S: State + 'static>(state: S) -> Box<dyn State> {
    Box::new(state)
}

/// What a look at users depends on: packages bring users and shells along.
fn account_reads() -> Effects {
    Effects::USERS | Effects::PACKAGES | Effects::FILES
}

/// True when only states of users and groups come before: each is about another user, so what was found holds.
fn is_still_valid(hidden: Effects) -> bool {
    hidden == Effects::USERS
}

/// True when only states of users and groups come before: of those it is known whom they make, so that who is missing stays
/// so. A number or a group that is taken may be given back by one that takes a user away.
fn is_surely_missing(hidden: Effects) -> bool {
    hidden == Effects::USERS
}

/// True when a user or a group would be made; only then a look tells the name as a change.
fn would_create(look: &CheckResult) -> bool {
    look.changes.contains("name")
}

/// Makes a directory and those on the way to it that are not there.
fn make_dir_all(ctx: &StateCtx<'_>, dir: &Path, meta: FileMeta) -> Result<(), StateError> {
    let mut missing = Vec::new();
    for dir in dir.ancestors() {
        if ctx.fs.stat(dir)?.is_some() {
            break;
        }
        missing.push(dir);
    }
    missing.into_iter().rev().try_for_each(|dir| Ok(ctx.fs.make_dir(dir, meta)?))
}
