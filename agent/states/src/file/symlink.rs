//! `file.symlink`: a link that points there.

use std::path::{Path, PathBuf};

use zagent_compiler::Compat;
use zagent_config::{Map, Value};

use super::args::{exists, reapply, required_text, state_path};
use super::link_preflight::{dry_run_error, verify_owner};
use super::owner::{Owner, group_name, user_name};
use super::parents;
use crate::{
    ApplyResult, BuildResult, CheckCost, CheckResult, ChunkArgs, LockKey, State, StateCtx, StateError,
    Verdict,
};
use zagent_host::Machine;
use zagent_host::fs::{FileKind, FileMeta, Stat};

/// A link that should point there.
#[derive(Debug)]
pub struct FileSymlink {
    path: PathBuf,
    target: String,
    owner: Owner,
    dir_mode: Option<u32>,
    force: bool,
    atomic: bool,
    makedirs: bool,
    inherit: bool,
    backupname: Option<String>,
}

/// Makes the state.
pub fn build(args: &ChunkArgs<'_>) -> BuildResult {
    let owner = Owner::read(args)?;
    let path = state_path(args, "Must provide name to file.symlink")?;
    Ok(Box::new(FileSymlink {
        path,
        target: required_text(args, "target")?,
        owner,
        dir_mode: args.mode("mode")?,
        force: args.flag("force", false),
        atomic: args.flag("atomic", false),
        makedirs: args.flag("makedirs", false),
        inherit: args.flag("inherit_user_and_group", false),
        backupname: args.text("backupname")?,
    }))
}

impl FileSymlink {
    /// A link of a tree that is copied as a whole.
    pub fn for_tree(path: PathBuf, target: String, owner: Owner, mode: Option<u32>, force: bool) -> Self {
        Self {
            path,
            target,
            owner,
            dir_mode: mode,
            force,
            atomic: false,
            makedirs: true,
            inherit: false,
            backupname: None,
        }
    }

    /// Who should own the link. Salt means who runs it when the state does not say.
    fn desired_owner(&self, ctx: &StateCtx<'_>, found: Option<&Stat>) -> Owner {
        match (ctx.compat, found) {
            (Compat::Strict, _) => self.owner.clone(),
            (Compat::Salt, Some(found)) if self.inherit => self.owner.or_ids(found.uid, found.gid),
            (Compat::Salt, _) => self.owner.or_current_user(ctx.machine),
        }
    }

    fn current_link(&self, ctx: &StateCtx<'_>) -> Result<Option<(Stat, Option<PathBuf>)>, StateError> {
        let Some(found) = ctx.fs.lstat(&self.path)? else { return Ok(None) };
        let target = match found.kind {
            FileKind::Link => Some(ctx.fs.read_link(&self.path)?),
            _ => None,
        };
        Ok(Some((found, target)))
    }

    fn points_to(&self, target: &Path) -> bool {
        normalize_path(target) == normalize_path(Path::new(&self.target))
    }

    /// Fails when nobody allows for what stands in the way.
    fn may_replace(&self, ctx: &StateCtx<'_>, found: &Stat) -> Result<(), StateError> {
        let path = self.path.display();
        if let Some(backup) = self.backup_path()? {
            if exists(ctx, &backup)? && !self.force {
                return Err(StateError::new(format!(
                    "Symlink & backup dest exists and Force not set. {path} -> {} - backup: {}",
                    self.target,
                    backup.display()
                )));
            }
            return Ok(());
        }
        if self.force || self.atomic {
            return Ok(());
        }
        let what = match found.kind {
            FileKind::File => "File",
            FileKind::Dir => "Directory",
            _ => "File system entry",
        };
        Err(StateError::new(format!("{what} exists where the symlink {path} should be")))
    }

    fn backup_path(&self) -> Result<Option<PathBuf>, StateError> {
        let Some(name) = &self.backupname else { return Ok(None) };
        if Path::new(name).is_absolute() {
            return Ok(Some(name.into()));
        }
        if name.contains('/') {
            return Err(StateError::new(format!(
                "Backupname must be an absolute path or a file name: {name}"
            )));
        }
        Ok(Some(self.path.with_file_name(name)))
    }

    fn clear_path(&self, ctx: &StateCtx<'_>, found: &Stat) -> Result<(), StateError> {
        self.may_replace(ctx, found)?;
        if let Some(backup) = self.backup_path()? {
            if exists(ctx, &backup)? {
                ctx.fs.remove(&backup)?;
            }
            return Ok(ctx.fs.rename(&self.path, &backup)?);
        }
        if found.kind == FileKind::Dir {
            // Salt cannot do this either: a directory is more than a link may cost.
            let (path, target) = (self.path.display(), &self.target);
            return Err(StateError::new(format!(
                "Unable to create new symlink {path} -> {target}: [Errno 21] Is a directory: '{path}'"
            )));
        }
        Ok(())
    }

    fn note_parents(&self, ctx: &StateCtx<'_>, comment: &mut String) -> Result<(), StateError> {
        if parents::parent_exists(ctx, &self.path)? {
            return Ok(());
        }
        let parent = self.path.parent().unwrap_or(&self.path).display();
        comment.push_str(&match self.makedirs {
            true => format!("\n{parent} will be created"),
            false => format!("\nDirectory {parent} for symlink is not present"),
        });
        Ok(())
    }
}

/// A path without `.`, empty parts and, as far as the text tells, `..`.
fn normalize_path(path: &Path) -> PathBuf {
    use std::path::Component;
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => match out.components().next_back() {
                Some(Component::Normal(_)) => {
                    out.pop();
                }
                Some(Component::RootDir) => {}
                _ => out.push(".."),
            },
            other => out.push(other),
        }
    }
    out
}

fn owner_text(machine: &Machine, found: &Stat) -> String {
    let text = |value: Value| zagent_compiler::name_text(&value);
    format!("{}:{}", text(user_name(machine, found.uid)), text(group_name(machine, found.gid)))
}

impl State for FileSymlink {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        verify_owner(ctx.machine, &self.owner)?;
        let (path, target) = (self.path.to_string_lossy().into_owned(), &self.target);
        let one = |key: &str, value: &str| -> Map { [(key, value)].into_iter().collect() };
        match self.current_link(ctx)? {
            None => {
                let mut comment = format!("Symlink {path} to {target} is set for creation");
                self.note_parents(ctx, &mut comment)?;
                Ok(CheckResult::drifted(comment, one("new", &path)))
            }
            Some((found, Some(to))) if self.points_to(&to) => {
                let wanted = self.desired_owner(ctx, Some(&found));
                if wanted.matches(ctx.machine, &found) {
                    return Ok(CheckResult::in_sync(format!(
                        "Symlink {path} is present and owned by {}",
                        owner_text(ctx.machine, &found)
                    )));
                }
                let (old, new) = (owner_text(ctx.machine, &found), wanted.describe(ctx.machine, &found));
                let comment = format!(
                    "The symlink {path} is present, but the ownership of the symlink would be changed from {old} to {new}"
                );
                Ok(CheckResult::drifted(comment, one("ownership", &old)))
            }
            Some((_, Some(_))) => {
                let comment = format!("Link {path} target is set to be changed to {target}");
                Ok(CheckResult::drifted(comment, one("change", &path)))
            }
            Some((found, None)) => {
                self.may_replace(ctx, &found)?;
                let comment = format!(
                    "The file or directory {path} is set for removal to make way for a new symlink targeting {target}"
                );
                Ok(CheckResult::drifted(comment, Map::new()))
            }
        }
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        verify_owner(ctx.machine, &self.owner)?;
        let found = self.current_link(ctx)?;
        let wanted = self.desired_owner(ctx, found.as_ref().map(|(found, _)| found));
        let ids = wanted.ids(ctx.machine)?;
        let meta = FileMeta { mode: None, uid: ids.uid, gid: ids.gid };
        let (path, target) = (self.path.display(), &self.target);
        match &found {
            Some((found, Some(to))) if self.points_to(to) => {
                ctx.fs.set_meta(&self.path, meta, false)?;
                let owner = wanted.describe(ctx.machine, found);
                let changes = [("ownership", owner.as_str())].into_iter().collect();
                return Ok(ApplyResult::new(format!("Set ownership of symlink {path} to {owner}"), changes));
            }
            Some((found, None)) => self.clear_path(ctx, found)?,
            _ => {}
        }
        if !parents::parent_exists(ctx, &self.path)? {
            if !self.makedirs {
                let parent = self.path.parent().unwrap_or(&self.path).display();
                return Err(StateError::new(format!("Directory {parent} for symlink is not present")));
            }
            parents::make_parents(ctx, &self.path, FileMeta { mode: self.dir_mode, ..meta })?;
        }
        ctx.fs.symlink(&self.path, Path::new(target), meta)?;
        let changes = [("new", self.path.to_string_lossy().as_ref())].into_iter().collect();
        Ok(ApplyResult::new(format!("Created new symlink {path} -> {target}"), changes))
    }

    fn preview(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let mut checked = self.check(ctx).map_err(dry_run_error(&self.path, "symlink"))?;
        if checked.verdict == Verdict::InSync {
            checked.comment = format!("The symlink {} is present", self.path.display());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_compared_as_text_leads() {
        for (text, expected) in
            [("/t/", "/t"), ("/a/../t", "/t"), ("../x/./y", "../x/y"), ("a/../../b", "../b"), ("/../x", "/x")]
        {
            assert_eq!(normalize_path(Path::new(text)), Path::new(expected), "{text}");
        }
    }
}
