//! Users and what is theirs: `user`, `group`, keys, crontabs, names of hosts, settings in files of sections.

mod at;
mod cron;
mod group;
mod hosts;
mod ini;
mod judge;
mod ssh;
#[cfg(test)]
mod tests;
mod text;
mod things;
mod user;
mod user_absent;

use std::path::Path;

use super::{Args, Built, Failure, Look, Scene, State, Thing, Veil};
use crate::fs::Meta;

/// The state that a function of these modules makes; nothing when there is no such function.
pub(super) fn build(state: &str, fun: &str, args: &Args<'_>) -> Option<Built> {
    match (state, fun) {
        ("user", "present") => Some(user::Present::read(args).map(boxed)),
        ("user", "absent") => Some(Ok(boxed(user_absent::Absent::read(args)))),
        ("group", "present") => Some(group::Present::read(args).map(boxed)),
        ("group", "absent") => Some(Ok(boxed(group::Absent::read(args)))),
        ("cron", _) => cron::Cron::read(fun, args).map(|s| s.map(boxed)),
        ("host", _) => edited(hosts::Hosts::read(fun, args)),
        ("alias", _) => edited(hosts::Alias::read(fun, args)),
        ("at", "present" | "watch") => Some(at::Present::read(fun, args).map(boxed)),
        ("at", "absent") => Some(at::Absent::read(args).map(boxed)),
        ("ssh_auth", _) => edited(ssh::Auth::read(fun, args)),
        ("ssh_known_hosts", _) => edited(ssh::KnownHost::read(fun, args)),
        ("ini", _) => edited(ini::Edits::read(fun, args)),
        _ => None,
    }
}

fn edited<T: text::Texts + 'static>(read: Option<Result<T, Failure>>) -> Option<Built> {
    read.map(|texts| texts.map(|texts| boxed(text::Edited(texts))))
}

/// What a revert can put back.
pub(super) const THINGS: &[&dyn Thing] = &[&things::USER, &things::GROUP, &cron::CRONTAB, &at::JOB];

fn boxed<S: State + 'static>(state: S) -> Box<dyn State> {
    Box::new(state)
}

/// What a look at users depends on: packages bring users and shells along.
fn seen() -> Veil {
    Veil::USERS | Veil::PACKAGES | Veil::FILES
}

/// True when only states of users and groups come before: each is about another user, so what was found holds.
fn holds(hidden: Veil) -> bool {
    hidden == Veil::USERS
}

/// True when only states of users and groups come before: of those it is known whom they make, so that who is missing stays
/// so. A number or a group that is taken may be given back by one that takes a user away.
fn is_missing_for_sure(hidden: Veil) -> bool {
    hidden == Veil::USERS
}

/// True when a user or a group would be made; only then a look tells the name as a change.
fn is_new(look: &Look) -> bool {
    look.changes.contains("name")
}

/// Makes a directory and those on the way to it that are not there.
fn make_dirs(scene: &Scene<'_>, dir: &Path, meta: Meta) -> Result<(), Failure> {
    let mut missing = Vec::new();
    for dir in dir.ancestors() {
        if scene.fs.stat(dir)?.is_some() {
            break;
        }
        missing.push(dir);
    }
    missing.into_iter().rev().try_for_each(|dir| Ok(scene.fs.make_dir(dir, meta)?))
}
