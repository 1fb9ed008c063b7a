//! Directories on the way to a path: are they there, and how they are made.

use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use crate::{StateCtx, StateError};
use zagent_host::fs::{FileKind, FileMeta};

/// True when the directory that a path stands in is there.
///
/// # Errors
/// Fails when it cannot be looked at.
pub(crate) fn parent_exists(ctx: &StateCtx<'_>, path: &Path) -> Result<bool, StateError> {
    let Some(parent) = path.parent() else { return Ok(true) };
    Ok(ctx.fs.stat(parent)?.is_some_and(|found| found.kind == FileKind::Dir))
}

/// Makes the directories on the way to a path that are not there yet.
///
/// # Errors
/// Fails when one cannot be made.
pub(crate) fn make_parents(ctx: &StateCtx<'_>, path: &Path, meta: FileMeta) -> Result<(), StateError> {
    match path.parent() {
        Some(parent) => make_dir_all(ctx, parent, meta),
        None => Ok(()),
    }
}

/// Makes a directory and those on the way to it.
///
/// # Errors
/// Fails when one cannot be made.
pub(crate) fn make_dir_all(ctx: &StateCtx<'_>, dir: &Path, meta: FileMeta) -> Result<(), StateError> {
    let mut missing: Vec<PathBuf> = Vec::new();
    for dir in dir.ancestors() {
        match ctx.fs.stat(dir)? {
            None => missing.push(dir.to_owned()),
            Some(found) if found.kind == FileKind::Dir => break,
            Some(_) => {
                return Err(StateError::new(format!(
                    "The path '{}' already exists and is not a directory",
                    dir.display()
                )));
            }
        }
    }
    missing.iter().rev().try_for_each(|dir| make_dir(ctx, dir, meta))
}

/// Lets a dry run take the directory that a path stands in for there, and says which that is; nothing when it is.
///
/// # Errors
/// Fails when something else is in its way.
pub(crate) fn assume_parent(ctx: &StateCtx<'_>, path: &Path) -> Result<Option<String>, StateError> {
    let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) else { return Ok(None) };
    if parent_exists(ctx, path)? {
        return Ok(None);
    }
    let mut missing = Vec::new();
    for dir in parent.ancestors() {
        if ctx.fs.stat(dir)?.is_some() {
            break;
        }
        missing.push(dir.to_owned());
    }
    make_dir_all(ctx, parent, FileMeta::default())?;
    ctx.shared.assumed_dirs.lock().unwrap_or_else(PoisonError::into_inner).extend(missing);
    Ok(Some(format!("the directory {}", parent.display())))
}

/// Makes one directory; another state that needs it too may be quicker.
fn make_dir(ctx: &StateCtx<'_>, dir: &Path, meta: FileMeta) -> Result<(), StateError> {
    match ctx.fs.make_dir(dir, meta) {
        Err(error) if error.source.kind() == std::io::ErrorKind::AlreadyExists => {
            let is_dir = ctx.fs.stat(dir)?.is_some_and(|found| found.kind == FileKind::Dir);
            if is_dir { Ok(()) } else { Err(error.into()) }
        }
        made => Ok(made?),
    }
}

/// The mode that directories get when only the mode of a file is given: who may read it may also go in.
pub(crate) fn mode_for_dirs(mode: u32) -> u32 {
    let mut dirs = mode & 0o777;
    for shift in [0, 3, 6] {
        if (mode >> shift) & 0o7 != 0 {
            dirs |= 1 << shift;
        }
    }
    dirs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_read_may_go_in() {
        for (file, dir) in
            [(0o644, 0o755), (0o640, 0o750), (0o600, 0o700), (0o400, 0o500), (0, 0), (0o4755, 0o755)]
        {
            assert_eq!(mode_for_dirs(file), dir, "{file:o}");
        }
    }
}
