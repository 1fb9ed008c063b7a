//! `file.hardlink`: another name for a file.

use std::path::{Path, PathBuf};

use zagent_compiler::Compat;
use zagent_config::Map;

use super::args::{reapply, required_text, state_path};
use super::link_preflight::{dry_run_error, fail_with_faults, verify_owner};
use super::owner::Owner;
use super::parents;
use crate::{
    ApplyResult, BuildResult, CheckCost, CheckResult, ChunkArgs, LockKey, State, StateCtx, StateError,
    Verdict,
};
use zagent_host::fs::{FileKind, FileMeta};

/// A path that should be another name for a file.
#[derive(Debug)]
struct FileHardlink {
    path: PathBuf,
    target: PathBuf,
    owner: Owner,
    dir_mode: Option<u32>,
    force: bool,
    makedirs: bool,
}

/// How things stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HardlinkStatus {
    Missing,
    Same,
    /// A name for another file, which has more names.
    OtherLink,
    /// A file of its own.
    File,
}

/// Makes the state.
pub fn build(args: &ChunkArgs<'_>) -> BuildResult {
    let target = required_text(args, "target")?;
    let path = state_path(args, "Must provide name to file.hardlink");
    let mut faults: Vec<String> = path.as_ref().err().map(|f| f.result.comment.clone()).into_iter().collect();
    if !target.starts_with('/') {
        faults.push(format!("Specified target {target} is not an absolute path"));
    }
    fail_with_faults(&faults)?;
    Ok(Box::new(FileHardlink {
        path: path?,
        target: target.into(),
        owner: Owner::read(args)?,
        dir_mode: args.mode("dir_mode")?,
        force: args.flag("force", false),
        makedirs: args.flag("makedirs", false),
    }))
}

impl FileHardlink {
    fn current_status(&self, ctx: &StateCtx<'_>) -> Result<HardlinkStatus, StateError> {
        verify_owner(ctx.machine, &self.owner)?;
        let dir = |path: &Path, way: &str| {
            Err(StateError::new(format!("Unable to hard link {way} directory {}", path.display())))
        };
        let found = ctx.fs.stat(&self.path)?;
        if found.is_some_and(|found| found.kind == FileKind::Dir) {
            return dir(&self.path, "to");
        }
        let Some(target) = ctx.fs.stat(&self.target)? else {
            return Err(StateError::new(format!(
                "Target {} for hard link does not exist",
                self.target.display()
            )));
        };
        if target.kind == FileKind::Dir {
            return dir(&self.target, "from");
        }
        match ctx.fs.lstat(&self.path)? {
            None => Ok(HardlinkStatus::Missing),
            Some(found) if found.id == target.id => Ok(HardlinkStatus::Same),
            Some(_) if ctx.fs.nlink(&self.path)? > 1 => Ok(HardlinkStatus::OtherLink),
            Some(_) => Ok(HardlinkStatus::File),
        }
    }

    fn occupied_error(&self) -> StateError {
        StateError::new(format!("File exists where the hard link {} should be", self.path.display()))
    }
}

impl State for FileHardlink {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let now = self.current_status(ctx)?;
        let (path, target) = (self.path.to_string_lossy().into_owned(), self.target.display());
        let one = |key: &str| -> Map { [(key, path.as_str())].into_iter().collect() };
        match now {
            HardlinkStatus::Same => Ok(CheckResult::in_sync(format!(
                "Target of hard link {path} is already pointing to {target}"
            ))),
            HardlinkStatus::Missing => Ok(CheckResult::drifted(
                format!("Hard link {path} to {target} is set for creation"),
                one("new"),
            )),
            HardlinkStatus::OtherLink => Ok(CheckResult::drifted(
                format!("Link {path} target is set to be changed to {target}"),
                one("change"),
            )),
            HardlinkStatus::File if self.force => {
                let comment = format!(
                    "The file or directory {path} is set for removal to make way for a new hard link targeting {target}"
                );
                Ok(CheckResult::drifted(comment, Map::new()))
            }
            HardlinkStatus::File => Err(self.occupied_error()),
        }
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let now = self.current_status(ctx)?;
        let (path, target) = (self.path.display(), self.target.display());
        let mut changes = Map::new();
        match now {
            HardlinkStatus::File if !self.force => return Err(self.occupied_error()),
            HardlinkStatus::File => {
                changes.insert("forced", "File for hard link was forcibly replaced");
            }
            _ => {}
        }
        if !parents::parent_exists(ctx, &self.path)? {
            if !self.makedirs {
                let parent = self.path.parent().unwrap_or(&self.path).display();
                return Err(StateError::new(format!("Directory {parent} for hard link is not present")));
            }
            let owner = if ctx.compat == Compat::Salt {
                self.owner.or_current_user(ctx.machine)
            } else {
                self.owner.clone()
            };
            let ids = owner.ids(ctx.machine)?;
            parents::make_parents(
                ctx,
                &self.path,
                FileMeta { mode: self.dir_mode, uid: ids.uid, gid: ids.gid },
            )?;
        }
        ctx.fs.hard_link(&self.path, &self.target)?;
        changes.insert("new", self.path.to_string_lossy().into_owned());
        let comment = match now {
            HardlinkStatus::OtherLink => format!("Set target of hard link {path} -> {target}"),
            _ => format!("Created new hard link {path} -> {target}"),
        };
        Ok(ApplyResult::new(comment, changes))
    }

    fn preview(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let mut checked = self.check(ctx).map_err(dry_run_error(&self.path, "hard link"))?;
        if checked.verdict == Verdict::InSync {
            let (path, target) = (self.path.display(), self.target.display());
            checked.comment = format!("The hard link {path} is presently targetting {target}");
        }
        Ok(checked)
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
