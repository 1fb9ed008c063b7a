//! Users and what is theirs: `user`, `group`, keys, crontabs, names of hosts, settings in files of sections.

use std::path::Path;

use crate::{BuildResult, CheckResult, ChunkArgs, Effects, State, StateCtx, StateError, Undoable};
use zagent_host::fs::FileMeta;

/// The state that a function of these modules makes; nothing when there is no such function.
pub fn build(state: &str, fun: &str, args: &ChunkArgs<'_>) -> Option<BuildResult> {
    match (state, fun) {
        ("user", "present") => Some(crate::user::UserPresent::from_args(args).map(boxed)),
        ("user", "absent") => Some(Ok(boxed(crate::user::absent::UserAbsent::from_args(args)))),
        ("group", "present") => Some(crate::group::GroupPresent::from_args(args).map(boxed)),
        ("group", "absent") => Some(Ok(boxed(crate::group::GroupAbsent::from_args(args)))),
        ("cron", _) => crate::cron::CronState::for_function(fun, args).map(|s| s.map(boxed)),
        ("host", _) => text_file_state(crate::host::HostState::for_function(fun, args)),
        ("alias", _) => text_file_state(crate::host::AliasState::for_function(fun, args)),
        ("at", "present" | "watch") => Some(crate::at::AtPresent::from_args(fun, args).map(boxed)),
        ("at", "absent") => Some(crate::at::AtAbsent::from_args(args).map(boxed)),
        ("ssh_auth", _) => text_file_state(crate::ssh_auth::SshAuthState::for_function(fun, args)),
        ("ssh_known_hosts", _) => {
            text_file_state(crate::ssh_auth::SshKnownHostsState::for_function(fun, args))
        }
        ("ini", _) => text_file_state(crate::ini::IniState::for_function(fun, args)),
        _ => None,
    }
}

fn text_file_state<T: crate::shared::text_file::TextFile + 'static>(
    read: Option<Result<T, StateError>>,
) -> Option<BuildResult> {
    read.map(|texts| texts.map(|texts| boxed(crate::shared::text_file::TextFileState(texts))))
}

/// What a revert can put back.
pub const UNDOABLES: &[&dyn Undoable] = &[
    &crate::user::undo::USER_UNDO,
    &crate::user::undo::GROUP_UNDO,
    &crate::cron::CRONTAB_UNDO,
    &crate::at::AT_JOB_UNDO,
];

fn boxed<S: State + 'static>(state: S) -> Box<dyn State> {
    Box::new(state)
}

/// What a look at users depends on: packages bring users and shells along.
pub(crate) fn account_reads() -> Effects {
    Effects::USERS | Effects::PACKAGES | Effects::FILES
}

/// True when only states of users and groups come before: each is about another user, so what was found holds.
pub(crate) fn is_still_valid(hidden: Effects) -> bool {
    hidden == Effects::USERS
}

/// True when only states of users and groups come before: of those it is known whom they make, so that who is missing stays
/// so. A number or a group that is taken may be given back by one that takes a user away.
pub(crate) fn is_surely_missing(hidden: Effects) -> bool {
    hidden == Effects::USERS
}

/// True when a user or a group would be made; only then a look tells the name as a change.
pub(crate) fn would_create(look: &CheckResult) -> bool {
    look.changes.contains("name")
}

/// Makes a directory and those on the way to it that are not there.
pub(crate) fn make_dir_all(ctx: &StateCtx<'_>, dir: &Path, meta: FileMeta) -> Result<(), StateError> {
    let mut missing = Vec::new();
    for dir in dir.ancestors() {
        if ctx.fs.stat(dir)?.is_some() {
            break;
        }
        missing.push(dir);
    }
    missing.into_iter().rev().try_for_each(|dir| Ok(ctx.fs.make_dir(dir, meta)?))
}
