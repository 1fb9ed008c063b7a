//! `file.rename`: an entry under another path.

use std::path::PathBuf;

use zagent_config::Map;

use super::args::{exists, expand_home, reapply, required_text, state_path};
use super::copy::copy_entry;
use super::parents;
use crate::{
    ApplyResult, BuildResult, CheckCost, CheckResult, ChunkArgs, LockKey, State, StateCtx, StateError,
};
use zagent_host::fs::FileMeta;

/// An entry that should be elsewhere.
#[derive(Debug)]
struct FileRename {
    path: PathBuf,
    source: PathBuf,
    force: bool,
    makedirs: bool,
}

/// Makes the state.
pub fn build(args: &ChunkArgs<'_>) -> BuildResult {
    Ok(Box::new(FileRename {
        path: state_path(args, "Must provide name to file.rename")?,
        source: expand_home(&required_text(args, "source")?),
        force: args.flag("force", false),
        makedirs: args.flag("makedirs", false),
    }))
}

impl FileRename {
    /// Moves it, over to another file system too.
    fn move_entry(&self, ctx: &StateCtx<'_>) -> Result<(), StateError> {
        match ctx.fs.rename(&self.source, &self.path) {
            Err(error) if error.source.kind() == std::io::ErrorKind::CrossesDevices => {
                let found = ctx.fs.lstat(&self.source)?;
                let meta = found.map_or_else(FileMeta::default, |found| FileMeta {
                    mode: Some(found.mode),
                    uid: Some(found.uid),
                    gid: Some(found.gid),
                });
                copy_entry(ctx, &self.source, &self.path, meta)?;
                Ok(ctx.fs.remove(&self.source)?)
            }
            moved => Ok(moved?),
        }
    }
}

impl State for FileRename {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let (source, path) = (self.source.display(), self.path.display());
        if !exists(ctx, &self.source)? {
            return Ok(CheckResult::in_sync(format!(
                "Source file \"{source}\" has already been moved out of place"
            )));
        }
        if !self.force && exists(ctx, &self.path)? {
            return Ok(CheckResult::in_sync(format!(
                "The target file \"{path}\" exists and will not be overwritten"
            )));
        }
        Ok(CheckResult::drifted(format!("File \"{source}\" is set to be moved to \"{path}\""), Map::new()))
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        if !parents::parent_exists(ctx, &self.path)? {
            if !self.makedirs {
                let parent = self.path.parent().unwrap_or(&self.path).display();
                return Err(StateError::new(format!("The target directory {parent} is not present")));
            }
            parents::make_parents(ctx, &self.path, FileMeta::default())?;
        }
        if exists(ctx, &self.path)? {
            if !self.force {
                let path = self.path.display();
                return Err(StateError::new(format!(
                    "The target file \"{path}\" exists and will not be overwritten"
                )));
            }
            ctx.fs.remove(&self.path)?;
        }
        self.move_entry(ctx)?;
        let mut changes = Map::new();
        changes.insert(self.path.to_string_lossy().into_owned(), self.source.to_string_lossy().into_owned());
        Ok(ApplyResult::new(
            format!("Moved \"{}\" to \"{}\"", self.source.display(), self.path.display()),
            changes,
        ))
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
        vec![LockKey::Path(self.path.clone()), LockKey::Path(self.source.clone())]
    }
}
