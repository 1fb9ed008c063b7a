//! `file.directory`: a directory with this owner and mode, and what is below it.

pub mod recursion;

use std::path::{Path, PathBuf};

use zagent_compiler::Compat;
use zagent_config::{Map, Value};

use self::recursion::DirectoryRecurse;
use super::args::{exists, is_dir, reapply, reject_unsupported, stat, state_path};
use super::clean::{KeptPaths, topmost};
use super::filter::PathFilter;
use super::parents;
use super::perms::Perms;
use super::walk::{self, WalkLevel};
use crate::{
    ApplyResult, BuildResult, CheckCost, CheckResult, ChunkArgs, Effects, LockKey, State, StateCtx,
    StateError, Verdict,
};
use zagent_host::fs::{FileKind, Stat};

/// A directory that should be so.
#[derive(Debug)]
pub struct FileDirectory {
    path: PathBuf,
    perms: Perms,
    file_mode: Option<u32>,
    makedirs: bool,
    force: bool,
    backupname: Option<PathBuf>,
    allow_symlink: bool,
    children_only: bool,
    follow: bool,
    recurse: Option<DirectoryRecurse>,
    max_depth: Option<usize>,
    clean: bool,
    filter: PathFilter,
    require: Value,
    /// Nothing is known of it but that a package may bring it.
    is_assumed: bool,
}

/// What stands in the way of the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Obstacle {
    File,
    Link,
}

/// What would change, path by path, in Salt's order.
#[derive(Debug, Default)]
struct DirectoryPlan {
    changes: Vec<(PathBuf, Map)>,
    unmanaged: Vec<PathBuf>,
}

/// Makes the state.
pub fn build(args: &ChunkArgs<'_>) -> BuildResult {
    Ok(Box::new(FileDirectory::read(args)?))
}

impl FileDirectory {
    fn read(args: &ChunkArgs<'_>) -> Result<Self, StateError> {
        reject_unsupported(args, &["selinux"])?;
        let path = state_path(args, "Must provide name to file.directory")?;
        let max_depth = args.int("max_depth")?.map(|n| usize::try_from(n).unwrap_or(0));
        let clean = args.flag("clean", false);
        if max_depth.is_some() && clean {
            return Err(StateError::new("Cannot specify both max_depth and clean"));
        }
        let perms = Perms::read(args, &["dir_mode", "mode"])?;
        let file_mode = args.mode("file_mode")?.or(perms.mode);
        Ok(Self {
            path: trim_slash(path),
            perms,
            file_mode,
            makedirs: args.flag("makedirs", false),
            force: args.flag("force", false),
            backupname: args.text("backupname")?.map(PathBuf::from),
            allow_symlink: args.flag("allow_symlink", true),
            children_only: args.flag("children_only", false),
            follow: args.flag("follow_symlinks", false),
            recurse: DirectoryRecurse::read(args)?,
            max_depth,
            clean,
            filter: if clean { PathFilter::read(args)?.without_include() } else { PathFilter::default() },
            require: args.get("require").cloned().unwrap_or_default(),
            is_assumed: false,
        })
    }

    /// A directory of a tree that is copied as a whole.
    pub fn for_tree(path: PathBuf, perms: Perms) -> Self {
        Self {
            path,
            file_mode: perms.mode,
            perms,
            makedirs: true,
            force: false,
            backupname: None,
            allow_symlink: true,
            children_only: false,
            follow: false,
            recurse: None,
            max_depth: None,
            clean: false,
            filter: PathFilter::default(),
            require: Value::Null,
            is_assumed: false,
        }
    }

    fn obstacle(&self, ctx: &StateCtx<'_>, found: Option<&Stat>) -> Result<Option<Obstacle>, StateError> {
        let Some(found) = found else { return Ok(None) };
        match found.kind {
            FileKind::Dir => Ok(None),
            FileKind::Link => match ctx.fs.stat(&self.path)?.map(|end| end.kind) {
                Some(FileKind::File) => Ok(Some(Obstacle::File)),
                _ if !self.allow_symlink || self.force => Ok(Some(Obstacle::Link)),
                Some(FileKind::Dir) => Ok(None),
                _ => Err(self.occupied_error("leads nowhere")),
            },
            FileKind::File => Ok(Some(Obstacle::File)),
            _ => Err(self.occupied_error("is not a directory")),
        }
    }

    fn occupied_error(&self, what: &str) -> StateError {
        StateError::new(format!("Specified location {} exists and {what}", self.path.display()))
    }

    /// Fails when nobody allows for what stands in the way.
    fn may_replace(&self, ctx: &StateCtx<'_>, obstacle: Obstacle) -> Result<(), StateError> {
        match &self.backupname {
            Some(backup) if !self.force && exists(ctx, backup)? => Err(StateError::new(format!(
                "File exists where the backup target {} should go",
                backup.display()
            ))),
            None if !self.force => Err(self.occupied_error(match obstacle {
                Obstacle::File => "is a file",
                Obstacle::Link => "is a symlink",
            })),
            _ => Ok(()),
        }
    }

    fn check_obstacle(&self, ctx: &StateCtx<'_>, obstacle: Obstacle) -> Result<CheckResult, StateError> {
        self.may_replace(ctx, obstacle)?;
        let path = self.path.display();
        let mut changes = Map::new();
        let comment = match &self.backupname {
            Some(backup) => {
                let backup_shown = backup.display();
                if exists(ctx, backup)? {
                    changes.insert(
                        "forced",
                        format!("Existing file at backup path {backup_shown} would be removed"),
                    );
                }
                changes.insert("backup", format!("{path} would be renamed to {backup_shown}"));
                format!("{path} would be backed up and replaced with a new directory")
            }
            None => {
                let what = if obstacle == Obstacle::File { "File" } else { "Symlink" };
                changes.insert("forced", format!("{what} would be forcibly replaced"));
                predicted_comment(&[(self.path.clone(), new_dir_changes())])
            }
        };
        changes.insert(self.shown_path(), new_dir_changes());
        Ok(CheckResult::drifted(comment, changes))
    }

    fn shown_path(&self) -> String {
        self.path.to_string_lossy().into_owned()
    }

    /// Owner and mode of the directory itself. Salt forgets here what `recurse` does not name.
    fn own_perms(&self, compat: Compat) -> Perms {
        match self.recurse {
            Some(recurse) if compat == Compat::Salt => recurse.restrict_perms(&self.perms, self.perms.mode),
            _ => self.perms.clone(),
        }
    }

    fn plan(
        &self,
        ctx: &StateCtx<'_>,
        found: &Stat,
        levels: &[WalkLevel],
    ) -> Result<DirectoryPlan, StateError> {
        let mut plan = DirectoryPlan::default();
        if let Some(recurse) = self.recurse {
            self.walk_entries(ctx, &recurse, levels, |path, found, perms| {
                plan.note(path, perms.changes(ctx.machine, found));
                Ok(())
            })?;
        }
        if !self.children_only {
            plan.note(&self.path, self.own_perms(ctx.compat).changes(ctx.machine, found));
        }
        if self.clean {
            let keep = KeptPaths::find_required(ctx, &self.path, &self.require)?;
            for path in keep.unmanaged_paths(&self.path, levels, &self.filter) {
                let mut removed = Map::new();
                removed.insert("removed", "Removed due to clean");
                plan.note(path, removed);
                plan.unmanaged.push(path.to_owned());
            }
        }
        Ok(plan)
    }

    /// Goes through all that `recurse` is about.
    fn walk_entries(
        &self,
        ctx: &StateCtx<'_>,
        recurse: &DirectoryRecurse,
        levels: &[WalkLevel],
        mut with: impl FnMut(&Path, &Stat, &Perms) -> Result<(), StateError>,
    ) -> Result<(), StateError> {
        let of_files = recurse.restrict_perms(&self.perms, self.file_mode);
        let of_dirs = recurse.restrict_perms(&self.perms, self.perms.mode);
        for level in levels {
            let files = level.files.iter().filter(|_| !recurse.ignore_files).map(|e| (e, &of_files));
            let dirs = level.dirs.iter().filter(|_| !recurse.ignore_dirs).map(|e| (e, &of_dirs));
            for (entry, perms) in files.chain(dirs) {
                // A link that leads nowhere, or an entry that has just gone, has nothing to set.
                if let Some(found) = stat(ctx, &entry.path, self.follow)? {
                    with(&entry.path, &found, perms)?;
                }
            }
        }
        Ok(())
    }

    fn levels(&self, ctx: &StateCtx<'_>) -> Result<Vec<WalkLevel>, StateError> {
        if self.recurse.is_none() && !self.clean {
            return Ok(Vec::new());
        }
        walk::walk_levels(ctx, &self.path, self.max_depth)
    }

    fn remove_obstacle(&self, ctx: &StateCtx<'_>, obstacle: Obstacle) -> Result<Map, StateError> {
        self.may_replace(ctx, obstacle)?;
        let mut changes = Map::new();
        if let Some(backup) = &self.backupname {
            if exists(ctx, backup)? {
                ctx.fs.remove(backup)?;
            }
            ctx.fs.rename(&self.path, backup)?;
            return Ok(changes);
        }
        ctx.fs.remove(&self.path)?;
        let what = if obstacle == Obstacle::File { "File" } else { "Symlink" };
        changes.insert("forced", format!("{what} was forcibly replaced"));
        Ok(changes)
    }

    fn make_directory(&self, ctx: &StateCtx<'_>, mut changes: Map) -> Result<ApplyResult, StateError> {
        changes.insert(self.shown_path(), new_dir_changes());
        let meta = self.perms.meta(ctx.machine)?;
        if !parents::parent_exists(ctx, &self.path)? {
            if !self.makedirs {
                let comment = format!("No directory to create {} in", self.path.display());
                return Err(ApplyResult::new(comment, changes).into());
            }
            parents::make_parents(ctx, &self.path, meta)?;
        }
        ctx.fs.make_dir(&self.path, meta)?;
        Ok(ApplyResult::new("", changes))
    }

    fn apply_plan(&self, ctx: &StateCtx<'_>, found: &Stat) -> Result<ApplyResult, StateError> {
        let levels = self.levels(ctx)?;
        let plan = self.plan(ctx, found, &levels)?;
        let mut changes = plan.changes_map();
        if self.recurse.is_some_and(|r| r.silent) {
            changes = Map::new();
            changes.insert("recursion", "Changes silenced");
        }
        if !self.children_only {
            set_perms(ctx, &self.path, found, &self.perms, self.follow, &mut changes)?;
        }
        if let Some(recurse) = self.recurse {
            self.walk_entries(ctx, &recurse, &levels, |path, found, perms| {
                set_perms(ctx, path, found, perms, self.follow, &mut changes)
            })?;
        }
        let path = self.path.display();
        let mut comment = match self.children_only {
            true => format!("Directory {path}/* updated"),
            false => format!("Directory {path} updated"),
        };
        if !plan.unmanaged.is_empty() {
            changes.insert("removed", remove_all(ctx, &plan.unmanaged)?);
            comment = format!("Files cleaned from directory {path}");
        }
        Ok(ApplyResult::new(comment, changes))
    }
}

/// Removes paths, and tells which.
///
/// # Errors
/// Fails when one cannot be removed.
pub fn remove_all(ctx: &StateCtx<'_>, paths: &[PathBuf]) -> Result<Value, StateError> {
    let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    let mut removed = Vec::new();
    for path in topmost(&paths) {
        ctx.fs.remove(path)?;
        removed.push(Value::from(path.to_string_lossy().into_owned()));
    }
    Ok(removed.into())
}

/// Sets what differs, and notes it as Salt does: the last value of each kind.
fn set_perms(
    ctx: &StateCtx<'_>,
    path: &Path,
    found: &Stat,
    perms: &Perms,
    follow: bool,
    changes: &mut Map,
) -> Result<(), StateError> {
    if perms.matches(ctx.machine, found) {
        return Ok(());
    }
    let mut meta = perms.meta(ctx.machine)?;
    if found.kind == FileKind::Link {
        meta.mode = None;
    }
    ctx.fs.set_meta(path, meta, follow)?;
    for (key, value) in perms.changes(ctx.machine, found).iter() {
        changes.insert(key.clone(), value.clone());
    }
    Ok(())
}

impl DirectoryPlan {
    fn note(&mut self, path: &Path, changes: Map) {
        if !changes.is_empty() {
            self.changes.push((path.to_owned(), changes));
        }
    }

    fn changes_map(&self) -> Map {
        let shown = |path: &PathBuf| path.to_string_lossy().into_owned();
        self.changes.iter().map(|(path, changes)| (shown(path), changes.clone())).collect()
    }
}

fn new_dir_changes() -> Map {
    [("directory", "new")].into_iter().collect()
}

/// What will change, line by line.
fn predicted_comment(changes: &[(PathBuf, Map)]) -> String {
    let mut text = "The following files will be changed:\n".to_owned();
    for (path, changes) in changes {
        for (key, value) in changes.iter() {
            let (key, value) = (zagent_compiler::name_text(key), zagent_compiler::name_text(value));
            text.push_str(&format!("{}: {key} - {value}\n", path.display()));
        }
    }
    text
}

/// The path without a final slash, as Salt names it.
fn trim_slash(path: PathBuf) -> PathBuf {
    match path.to_str().and_then(|text| text.strip_suffix('/')) {
        Some("") | None => path,
        Some(text) => text.into(),
    }
}

impl State for FileDirectory {
    fn check(&mut self, ctx: &StateCtx<'_>) -> Result<CheckResult, StateError> {
        self.is_assumed = ctx.is_dry() && ctx.shared.is_assumed_dir(&self.path);
        let found = stat(ctx, &self.path, self.follow)?;
        // Without a link on the way the common case is this one look.
        if found.is_some_and(|found| found.kind != FileKind::Dir) || self.force {
            let itself = ctx.fs.lstat(&self.path)?;
            if let Some(obstacle) = self.obstacle(ctx, itself.as_ref())? {
                return self.check_obstacle(ctx, obstacle);
            }
        }
        let Some(found) = found else {
            let changes = [(self.path.clone(), new_dir_changes())];
            let shown = [(self.shown_path(), new_dir_changes())].into_iter().collect();
            return Ok(CheckResult::drifted(predicted_comment(&changes), shown));
        };
        let levels = self.levels(ctx)?;
        let is_alone = self.recurse.is_none() && !self.clean;
        let plan = match is_alone && (self.children_only || self.perms.matches(ctx.machine, &found)) {
            true => DirectoryPlan::default(),
            false => self.plan(ctx, &found, &levels)?,
        };
        if plan.changes.is_empty() {
            return Ok(CheckResult::in_sync(format!(
                "The directory {} is in the correct state",
                self.path.display()
            )));
        }
        Ok(CheckResult::drifted(predicted_comment(&plan.changes), plan.changes_map()))
    }

    fn apply(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        self.perms.owner.ids(ctx.machine)?;
        let itself = ctx.fs.lstat(&self.path)?;
        let changes = match self.obstacle(ctx, itself.as_ref())? {
            Some(obstacle) => self.remove_obstacle(ctx, obstacle)?,
            None => Map::new(),
        };
        match stat(ctx, &self.path, self.follow)? {
            Some(found) if is_dir(ctx, &self.path)? => self.apply_plan(ctx, &found),
            _ => self.make_directory(ctx, changes),
        }
    }

    fn react(&mut self, ctx: &StateCtx<'_>) -> Result<ApplyResult, StateError> {
        reapply(self, ctx)
    }

    fn is_predictable(&self) -> bool {
        true
    }

    fn still_valid(&self, checked: &CheckResult, hidden: Effects) -> bool {
        // A package may bring a directory, and leaves one alone that is there.
        let is_there = checked.verdict == Verdict::InSync && !self.clean && self.recurse.is_none();
        !self.is_assumed && (hidden == Effects::USERS || is_there && !hidden.intersects(Effects::FILES))
    }

    fn is_deterministic(&self) -> bool {
        !self.clean && self.recurse.is_none()
    }

    fn assume(&self, ctx: &StateCtx<'_>) -> Result<Vec<String>, StateError> {
        let mut lacks = self.perms.owner.assume_accounts(ctx);
        if !self.makedirs {
            lacks.extend(parents::assume_parent(ctx, &self.path)?);
        }
        Ok(lacks)
    }

    fn package_may_provide(&self, checked: &CheckResult) -> bool {
        // Below these, packages bring nothing that they do not take for theirs.
        let is_peoples = ["/home", "/root", "/srv"].iter().any(|dir| self.path.starts_with(dir));
        self.is_assumed || checked.verdict != Verdict::InSync && !is_peoples
    }

    fn check_cost(&self) -> CheckCost {
        if self.recurse.is_some() || self.clean { CheckCost::Heavy } else { CheckCost::Light }
    }

    fn lock_keys(&self) -> Vec<LockKey> {
        vec![LockKey::Path(self.path.clone())]
    }
}
