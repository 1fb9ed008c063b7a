//! `file.absent`, `file.exists` and `file.missing`: what must not be, and what must (not) be there already.

use std::path::{Path, PathBuf};

use zagent_compiler::Compat;
use zagent_config::Map;

use super::args::{reapply, state_path};
use crate::{
    ApplyResult, BuildResult, CheckCost, CheckResult, ChunkArgs, LockKey, State, StateCtx, StateError,
};
use zagent_host::fs::FileKind;

/// A path where nothing should be.
#[derive(Debug)]
struct FileAbsent {
    path: PathBuf,
}

/// A path where something should (not) be; nothing is changed.
#[derive(Debug)]
struct FileExistence {
    path: PathBuf,
    should_exist: bool,
}

/// Makes `file.absent`.
pub(crate) fn build_absent(args: &ChunkArgs<'_>) -> BuildResult {
    let path = state_path(args, "Must provide name to file.absent")?;
    if path == Path::new("/") {
        return Err(StateError::new("Refusing to make \"/\" absent"));
    }
    Ok(Box::new(FileAbsent { path }))
}

/// Makes `file.exists` and `file.missing`.
pub(crate) fn build_existence(args: &ChunkArgs<'_>, should_exist: bool) -> BuildResult {
    let name = args.name();
    if name.is_empty() {
        return Err(StateError::new(format!("Must provide name to file.{}", args.chunk.fun)));
    }
    // Salt takes a relative path here: nobody can say relative to what.
    let path = args.path("name").ok().flatten().unwrap_or_else(|| name.into());
    Ok(Box::new(FileExistence { path, should_exist }))
}

impl FileAbsent {
    fn removed_changes(&self) -> Map {
        [("removed", self.path.to_string_lossy().as_ref())].into_iter().collect()
    }
}

impl State for FileAbsent {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let path = self.path.display();
        match ctx.fs.lstat(&self.path)?.map(|found| found.kind) {
            None => Ok(CheckResult::in_sync(format!("File {path} is not present"))),
            // Salt overlooks pipes, sockets and devices.
            Some(kind)
                if ctx.compat == Compat::Salt
                    && !matches!(kind, FileKind::File | FileKind::Dir | FileKind::Link) =>
            {
                Ok(CheckResult::in_sync(format!("File {path} is not present")))
            }
            Some(FileKind::Dir) => Ok(CheckResult::drifted(
                format!("Directory {path} is set for removal"),
                self.removed_changes(),
            )),
            Some(_) => {
                Ok(CheckResult::drifted(format!("File {path} is set for removal"), self.removed_changes()))
            }
        }
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let path = self.path.display();
        let what = match ctx.fs.lstat(&self.path)?.map(|found| found.kind) {
            None => return Ok(ApplyResult::new(format!("File {path} is not present"), Map::new())),
            Some(FileKind::Dir) => "directory",
            Some(_) => "file",
        };
        ctx.fs.remove(&self.path)?;
        Ok(ApplyResult::new(format!("Removed {what} {path}"), self.removed_changes()))
    }

    fn react(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        reapply(self, ctx)
    }

    fn is_predictable(&self) -> bool {
        true
    }

    fn check_cost(&self) -> CheckCost {
        CheckCost::Light
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        vec![LockKey::Path(self.path.clone())]
    }
}

impl State for FileExistence {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let path = self.path.display();
        let exists = ctx.fs.stat(&self.path)?.is_some();
        match (exists, self.should_exist) {
            (true, true) => Ok(CheckResult::in_sync(format!("Path {path} exists"))),
            (false, false) => Ok(CheckResult::in_sync(format!("Path {path} is missing"))),
            (false, true) => Err(StateError::new(format!("Specified path {path} does not exist"))),
            (true, false) => Err(StateError::new(format!("Specified path {path} exists"))),
        }
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        self.check(ctx).map(|checked| ApplyResult::new(checked.comment, checked.changes))
    }

    fn is_predictable(&self) -> bool {
        true
    }

    fn check_cost(&self) -> CheckCost {
        CheckCost::Light
    }
}
