//! `clean`: a directory in, what is in it and belongs to nobody out.
//!
//! Law: what another state of the plan answers for is never removed, nor any directory on the way to it (held by
//! `what_leads_to_a_kept_path_is_kept`).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use zagent_compiler::{Chunk, Compat, name_text};
use zagent_config::Value;

use super::filter::PathFilter;
use super::recurse;
use super::walk::{self, WalkLevel};
use crate::{ChunkArgs, StateCtx, StateError};
use zagent_config::sorted::CollectSorted;
use zagent_host::fs::FileKind;

/// What is kept in a directory.
#[derive(Debug, Default)]
pub(crate) struct KeptPaths {
    paths: BTreeSet<PathBuf>,
}

impl KeptPaths {
    /// What the states keep that this one requires; unless Salt's own verdict is asked for, all that any file state of the
    /// plan makes there. Otherwise each run would remove what a later state makes again.
    ///
    /// # Errors
    /// Fails when what is kept cannot be looked at.
    pub(crate) fn find_required(ctx: &StateCtx<'_>, dir: &Path, require: &Value) -> Result<Self, StateError> {
        let mut keep = Self::default();
        for chunk in ctx.plan.chunks.iter().filter(|c| &*c.state == "file" && !c.prereq.check) {
            let name = name_text(&chunk.name);
            let is_required = is_required(require, &chunk.id, &name);
            let is_neighbour = ctx.compat == Compat::Strict && creates_path(chunk);
            if !is_required && !is_neighbour {
                continue;
            }
            let path = PathBuf::from(name.trim_end_matches('/'));
            if path == dir || !path.is_absolute() {
                continue;
            }
            if path.starts_with(dir) && ctx.fs.stat(&path)?.is_some_and(|found| found.kind == FileKind::Dir) {
                keep.add_dir(ctx, chunk, &path)?;
            }
            keep.add(path);
        }
        Ok(keep)
    }

    /// Keeps a path, and the directories on the way to it.
    pub(crate) fn add(&mut self, path: PathBuf) {
        for parent in path.ancestors().skip(1) {
            if !self.paths.insert(parent.to_owned()) {
                break;
            }
        }
        self.paths.insert(path);
    }

    fn add_dir(&mut self, ctx: &StateCtx<'_>, chunk: &Chunk, path: &Path) -> Result<(), StateError> {
        if &*chunk.fun == "recurse" {
            let files = recurse::source_tree(&ChunkArgs::new(chunk), ctx)?;
            files.paths().for_each(|path| self.add(path));
            return Ok(());
        }
        // A directory that cleans itself knows better what belongs in it.
        if chunk.args.get("clean").is_some_and(Value::is_truthy) && ctx.compat == Compat::Strict {
            return Ok(());
        }
        for level in walk::walk_levels(ctx, path, None)? {
            level.files.into_iter().chain(level.dirs).for_each(|entry| self.add(entry.path));
        }
        Ok(())
    }

    /// What is neither kept nor excluded.
    pub(crate) fn unmanaged_paths<'l>(
        &self,
        dir: &Path,
        levels: &'l [WalkLevel],
        filter: &PathFilter,
    ) -> Vec<&'l Path> {
        let entries = levels.iter().flat_map(|level| level.files.iter().chain(&level.dirs));
        let is_stranger = |path: &Path| {
            let below = path.strip_prefix(dir).unwrap_or(path).to_string_lossy();
            !self.paths.contains(path) && !filter.excludes(&below)
        };
        entries.map(|entry| entry.path.as_path()).filter(|path| is_stranger(path)).collect()
    }
}

/// Of several paths those that are not below another one.
pub(crate) fn topmost<'p>(paths: &[&'p Path]) -> Vec<&'p Path> {
    let all: BTreeSet<&Path> = paths.iter().copied().into_set();
    all.iter().copied().filter(|path| !path.ancestors().skip(1).any(|above| all.contains(above))).collect()
}

/// True for states that leave something at their name.
fn creates_path(chunk: &Chunk) -> bool {
    !matches!(
        &*chunk.fun,
        "absent" | "missing" | "tidied" | "not_cached" | "cached" | "accumulated" | "exists"
    )
}

fn is_required(require: &Value, id: &str, name: &str) -> bool {
    let Value::List(items) = require else { return false };
    items.iter().any(|item| match item {
        Value::Map(map) => map.get("file").is_some_and(|v| {
            let wanted = name_text(v);
            wanted == id || wanted == name
        }),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_topmost_are_removed() {
        let paths = ["/d/a", "/d/s", "/d/s/x", "/d/sx"].map(Path::new);
        assert_eq!(topmost(&paths), ["/d/a", "/d/s", "/d/sx"].map(Path::new));
    }

    #[test]
    fn what_leads_to_a_kept_path_is_kept() {
        let mut keep = KeptPaths::default();
        keep.add("/d/s/x".into());
        assert!(keep.paths.contains(Path::new("/d/s")) && keep.paths.contains(Path::new("/")));
        assert!(!keep.paths.contains(Path::new("/d/t")));
    }
}
