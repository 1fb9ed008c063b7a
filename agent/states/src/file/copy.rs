//! `file.copy`: a copy of a file or directory of this host.

use std::path::{Path, PathBuf};

use zagent_compiler::Compat;
use zagent_config::Map;

use super::args::{exists, is_dir, reapply, required_text, state_path};
use super::owner::Owner;
use super::parents;
use super::perms::{Perms, octal_mode};
use crate::{
    ApplyResult, BuildResult, CheckCost, CheckResult, ChunkArgs, LockKey, State, StateCtx, StateError,
};
use zagent_host::Machine;
use zagent_host::fs::{FileKind, FileMeta, Stat};

/// Nested directories of one copy before it gives up.
const MAX_DEPTH: usize = 256;

/// A path that should be a copy of another.
#[derive(Debug)]
struct FileCopy {
    name: PathBuf,
    source: PathBuf,
    perms: Perms,
    dir_mode: Option<u32>,
    preserve: bool,
    force: bool,
    makedirs: bool,
    subdir: bool,
}

/// Makes the state.
pub fn build(args: &ChunkArgs<'_>) -> BuildResult {
    Ok(Box::new(FileCopy {
        name: state_path(args, "Must provide name to file.copy")?,
        source: super::args::expand_home(&required_text(args, "source")?),
        perms: Perms::read(args, &["mode"])?,
        dir_mode: args.mode("dir_mode")?,
        preserve: args.flag("preserve", false),
        force: args.flag("force", false),
        makedirs: args.flag("makedirs", false),
        subdir: args.flag("subdir", false),
    }))
}

impl FileCopy {
    fn source_stat(&self, ctx: &StateCtx<'_>) -> Result<Stat, StateError> {
        let missing = || StateError::new(format!("Source file \"{}\" is not present", self.source.display()));
        ctx.fs.stat(&self.source)?.ok_or_else(missing)
    }

    /// Where the copy goes.
    fn destination(&self, ctx: &StateCtx<'_>) -> Result<PathBuf, StateError> {
        match self.source.file_name() {
            Some(name) if self.subdir && is_dir(ctx, &self.name)? => Ok(self.name.join(name)),
            _ => Ok(self.name.clone()),
        }
    }

    fn kept_comment(path: &Path) -> String {
        format!("The target file \"{}\" exists and will not be overwritten", path.display())
    }

    /// True when a copy that is there holds what its source holds; nobody compares directories.
    fn is_same(&self, ctx: &StateCtx<'_>, source: &Stat, path: &Path) -> Result<bool, StateError> {
        if source.kind != FileKind::File {
            return Ok(false);
        }
        let content = ctx.fs.read(&self.source)?;
        Ok(ctx.fs.compare(path, &content)?.is_some_and(|(_, is_same)| is_same))
    }

    /// Owner and mode of the copy.
    fn meta(&self, ctx: &StateCtx<'_>, source: &Stat) -> Result<FileMeta, StateError> {
        if self.preserve {
            return Ok(FileMeta { mode: Some(source.mode), uid: Some(source.uid), gid: Some(source.gid) });
        }
        let meta = self.perms.meta(ctx.machine)?;
        let gid = self.owner(ctx).ids(ctx.machine)?.gid;
        Ok(FileMeta { mode: Some(self.perms.mode.unwrap_or(source.mode)), gid, ..meta })
    }

    /// Who should own the copy: Salt gives it the main group of a user that is asked for alone.
    fn owner(&self, ctx: &StateCtx<'_>) -> Owner {
        let owner = &self.perms.owner;
        let is_salt = ctx.compat == Compat::Salt && owner.user().is_some();
        if is_salt { owner.or_current_user(ctx.machine) } else { owner.clone() }
    }

    fn note_metadata(&self, ctx: &StateCtx<'_>, source: &Stat, changes: &mut Map) {
        let machine: &Machine = ctx.machine;
        let own = rustix::process::geteuid().as_raw();
        if self.preserve {
            return;
        }
        if let Some(user) = self.perms.owner.user().filter(|who| who.uid(machine) != Some(own)) {
            changes.insert("user", user);
        }
        let own = rustix::process::getegid().as_raw();
        if let Some(group) = self.owner(ctx).group().filter(|who| who.gid(machine) != Some(own)) {
            let name = group.gid(machine).map(|gid| super::owner::group_name(machine, gid));
            changes.insert("group", name.unwrap_or_else(|| group.into()));
        }
        if let Some(mode) = self.perms.mode.filter(|mode| *mode != source.mode) {
            changes.insert("mode", octal_mode(mode));
        }
    }
}

/// Copies an entry with all that is below it. The entry itself gets `meta`, what is below it the owner of it.
///
/// # Errors
/// Fails when something cannot be read or written.
pub(crate) fn copy_entry(
    ctx: &StateCtx<'_>,
    from: &Path,
    to: &Path,
    meta: FileMeta,
) -> Result<(), StateError> {
    let mut todo = vec![(from.to_owned(), to.to_owned(), 0)];
    while let Some((from, to, depth)) = todo.pop() {
        let found = if depth == 0 { ctx.fs.stat(&from)? } else { ctx.fs.lstat(&from)? };
        let Some(found) = found else { continue };
        let mode = if depth == 0 { meta.mode.or(Some(found.mode)) } else { Some(found.mode) };
        let meta = FileMeta { mode, ..meta };
        match found.kind {
            FileKind::File => {
                let content = match depth {
                    0 => ctx.fs.read(&from)?,
                    _ => ctx.fs.read_for_change(&from)?,
                };
                ctx.fs.write(&to, &content, meta)?;
                if depth > 0 {
                    ctx.fs.set_times(&to, found.atime, found.mtime)?;
                }
            }
            FileKind::Link => {
                ctx.fs.symlink(&to, &ctx.fs.read_link(&from)?, FileMeta { mode: None, ..meta })?;
            }
            FileKind::Dir if depth < MAX_DEPTH => {
                ctx.fs.make_dir(&to, meta)?;
                let names = ctx.fs.read_dir(&from)?;
                todo.extend(
                    names.into_iter().rev().map(|(name, _)| (from.join(&name), to.join(&name), depth + 1)),
                );
            }
            FileKind::Dir => return Err(StateError::new(format!("{} is too deep to copy", from.display()))),
            kind => ctx.fs.make_node(&to, kind, found.device, meta)?,
        }
    }
    Ok(())
}

impl State for FileCopy {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        let source = self.source_stat(ctx)?;
        let path = self.destination(ctx)?;
        if exists(ctx, &path)? {
            if !self.force {
                return Ok(CheckResult::in_sync(Self::kept_comment(&path)));
            }
            // Salt copies again whatever is there.
            if ctx.compat == Compat::Strict && self.is_same(ctx, &source, &path)? {
                return Ok(CheckResult::in_sync(Self::kept_comment(&path)));
            }
        }
        let (source, path) = (self.source.display(), path.display());
        Ok(CheckResult::drifted(format!("File \"{source}\" is set to be copied to \"{path}\""), Map::new()))
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        let source = self.source_stat(ctx)?;
        let path = self.destination(ctx)?;
        let meta = self.meta(ctx, &source)?;
        let mut comment = format!("Copied \"{}\" to \"{}\"", self.source.display(), self.name.display());
        if let Some(found) = ctx.fs.lstat(&path)? {
            if !self.force {
                return Ok(ApplyResult::new(Self::kept_comment(&path), Map::new()));
            }
            if self.is_same(ctx, &source, &path)? {
                comment.push_str(" - files are identical but force flag is set");
            }
            if found.kind != FileKind::File || source.kind != FileKind::File {
                ctx.fs.remove(&path)?;
            }
        }
        if !parents::parent_exists(ctx, &path)? {
            if !self.makedirs {
                let parent = path.parent().unwrap_or(&path).display();
                return Err(StateError::new(format!("The target directory {parent} is not present")));
            }
            let mode = self.dir_mode.or_else(|| meta.mode.map(parents::mode_for_dirs));
            parents::make_parents(ctx, &path, FileMeta { mode, ..meta })?;
        }
        copy_entry(ctx, &self.source, &path, meta)?;
        let mut changes = Map::new();
        changes.insert(path.to_string_lossy().into_owned(), self.source.to_string_lossy().into_owned());
        self.note_metadata(ctx, &source, &mut changes);
        Ok(ApplyResult::new(comment, changes))
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
        vec![LockKey::Path(self.name.clone())]
    }
}
