//! Users and groups in, what states about them and their files share out: what a look depends on, the directories of a
//! user, and the fields of undo notes.

use std::path::Path;

use zagent_config::{Map, Value};

use crate::{CheckResult, Effects, StateCtx, StateError};
use zagent_host::accounts::PasswdEntry;
use zagent_host::fs::FileMeta;

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

/// Makes the directory of a file of a user; how the file is owned.
pub(crate) fn make_user_dir(
    user: &PasswdEntry,
    path: &Path,
    ctx: &StateCtx<'_>,
) -> Result<FileMeta, StateError> {
    let (uid, gid) = (u32::try_from(user.uid).ok(), u32::try_from(user.gid).ok());
    if let Some(dir) = path.parent()
        && ctx.fs.stat(dir)?.is_none()
    {
        if let Some(above) = dir.parent() {
            make_dir_all(ctx, above, FileMeta { mode: Some(0o755), ..FileMeta::default() })?;
        }
        ctx.fs.make_dir(dir, FileMeta { mode: Some(0o700), uid, gid })?;
    }
    Ok(FileMeta { mode: Some(0o600), uid, gid })
}

/// A number of an undo note; -1 when it is not there.
pub(crate) fn int_field(map: &Map, key: &str) -> i64 {
    map.get(key).and_then(Value::as_int).unwrap_or(-1)
}

/// Texts of an undo note.
pub(crate) fn list_field(map: &Map, key: &str) -> Vec<String> {
    let list = map.get(key).and_then(Value::as_list).into_iter().flat_map(|l| l.iter());
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}
