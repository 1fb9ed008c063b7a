//! `file.directory`: a directory with this owner and mode, and what is below it.

mod recursion;

use std::path::{Path, PathBuf};

use zagent_compiler::Compat;
use zagent_config::{Map, Value};

use self::recursion::Recurse;
use super::asked::{is_dir, is_there, named, once_more, refuse, stat};
use super::clean::{Keep, topmost};
use super::filter::Filter;
use super::parents;
use super::perms::Perms;
use super::walk::{self, Level};
use crate::fs::{Kind, Stat};
use crate::states::{Args, Built, Cost, Done, Failure, Look, Resource, Scene, Standing, State, Veil};

/// A directory that should be so.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    perms: Perms,
    file_mode: Option<u32>,
    makedirs: bool,
    force: bool,
    backupname: Option<PathBuf>,
    allow_symlink: bool,
    children_only: bool,
    follow: bool,
    recurse: Option<Recurse>,
    max_depth: Option<usize>,
    clean: bool,
    filter: Filter,
    require: Value,
    /// Nothing is known of it but that a package may bring it.
    is_supposed: bool,
}

/// What stands in the way of the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Obstacle {
    File,
    Link,
}

/// What would change, path by path, in Salt's order.
#[derive(Debug, Default)]
struct Plan {
    changes: Vec<(PathBuf, Map)>,
    strangers: Vec<PathBuf>,
}

/// Makes the state.
pub(super) fn build(args: &Args<'_>) -> Built {
    Ok(Box::new(Directory::read(args)?))
}

impl Directory {
    fn read(args: &Args<'_>) -> Result<Self, Failure> {
        refuse(args, &["selinux"])?;
        let path = named(args, "Must provide name to file.directory")?;
        let max_depth = args.int("max_depth")?.map(|n| usize::try_from(n).unwrap_or(0));
        let clean = args.flag("clean", false);
        if max_depth.is_some() && clean {
            return Err(Failure::new("Cannot specify both max_depth and clean"));
        }
        let perms = Perms::read(args, &["dir_mode", "mode"])?;
        let file_mode = args.mode("file_mode")?.or(perms.mode);
        Ok(Self {
            path: trimmed(path),
            perms,
            file_mode,
            makedirs: args.flag("makedirs", false),
            force: args.flag("force", false),
            backupname: args.text("backupname")?.map(PathBuf::from),
            allow_symlink: args.flag("allow_symlink", true),
            children_only: args.flag("children_only", false),
            follow: args.flag("follow_symlinks", false),
            recurse: Recurse::read(args)?,
            max_depth,
            clean,
            filter: if clean { Filter::read(args)?.without_include() } else { Filter::default() },
            require: args.get("require").cloned().unwrap_or_default(),
            is_supposed: false,
        })
    }

    /// A directory of a tree that is copied as a whole.
    pub(super) fn of_tree(path: PathBuf, perms: Perms) -> Self {
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
            filter: Filter::default(),
            require: Value::Null,
            is_supposed: false,
        }
    }

    fn obstacle(&self, scene: &Scene<'_>, found: Option<&Stat>) -> Result<Option<Obstacle>, Failure> {
        let Some(found) = found else { return Ok(None) };
        match found.kind {
            Kind::Dir => Ok(None),
            Kind::Link => match scene.fs.stat(&self.path)?.map(|end| end.kind) {
                Some(Kind::File) => Ok(Some(Obstacle::File)),
                _ if !self.allow_symlink || self.force => Ok(Some(Obstacle::Link)),
                Some(Kind::Dir) => Ok(None),
                _ => Err(self.occupied("leads nowhere")),
            },
            Kind::File => Ok(Some(Obstacle::File)),
            _ => Err(self.occupied("is not a directory")),
        }
    }

    fn occupied(&self, what: &str) -> Failure {
        Failure::new(format!("Specified location {} exists and {what}", self.path.display()))
    }

    /// Fails when nobody allows for what stands in the way.
    fn may_replace(&self, scene: &Scene<'_>, obstacle: Obstacle) -> Result<(), Failure> {
        match &self.backupname {
            Some(backup) if !self.force && is_there(scene, backup)? => Err(Failure::new(format!(
                "File exists where the backup target {} should go",
                backup.display()
            ))),
            None if !self.force => Err(self.occupied(match obstacle {
                Obstacle::File => "is a file",
                Obstacle::Link => "is a symlink",
            })),
            _ => Ok(()),
        }
    }

    fn look_at_obstacle(&self, scene: &Scene<'_>, obstacle: Obstacle) -> Result<Look, Failure> {
        self.may_replace(scene, obstacle)?;
        let path = self.path.display();
        let mut changes = Map::new();
        let comment = match &self.backupname {
            Some(backup) => {
                let backup_shown = backup.display();
                if is_there(scene, backup)? {
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
                announced(&[(self.path.clone(), new_dir())])
            }
        };
        changes.insert(self.shown(), new_dir());
        Ok(Look::drift(comment, changes))
    }

    fn shown(&self) -> String {
        self.path.to_string_lossy().into_owned()
    }

    /// Owner and mode of the directory itself. Salt forgets here what `recurse` does not name.
    fn own_perms(&self, compat: Compat) -> Perms {
        match self.recurse {
            Some(recurse) if compat == Compat::Salt => recurse.limited(&self.perms, self.perms.mode),
            _ => self.perms.clone(),
        }
    }

    fn plan(&self, scene: &Scene<'_>, found: &Stat, levels: &[Level]) -> Result<Plan, Failure> {
        let mut plan = Plan::default();
        if let Some(recurse) = self.recurse {
            self.below(scene, &recurse, levels, |path, found, perms| {
                plan.note(path, perms.changes(found));
                Ok(())
            })?;
        }
        if !self.children_only {
            plan.note(&self.path, self.own_perms(scene.compat).changes(found));
        }
        if self.clean {
            let keep = Keep::find(scene, &self.path, &self.require)?;
            for path in keep.strangers(&self.path, levels, &self.filter) {
                let mut removed = Map::new();
                removed.insert("removed", "Removed due to clean");
                plan.note(path, removed);
                plan.strangers.push(path.to_owned());
            }
        }
        Ok(plan)
    }

    /// Goes through all that `recurse` is about.
    fn below(
        &self,
        scene: &Scene<'_>,
        recurse: &Recurse,
        levels: &[Level],
        mut with: impl FnMut(&Path, &Stat, &Perms) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let of_files = recurse.limited(&self.perms, self.file_mode);
        let of_dirs = recurse.limited(&self.perms, self.perms.mode);
        for level in levels {
            let files = level.files.iter().filter(|_| !recurse.ignore_files).map(|e| (e, &of_files));
            let dirs = level.dirs.iter().filter(|_| !recurse.ignore_dirs).map(|e| (e, &of_dirs));
            for (entry, perms) in files.chain(dirs) {
                // A link that leads nowhere, or an entry that has just gone, has nothing to set.
                if let Some(found) = stat(scene, &entry.path, self.follow)? {
                    with(&entry.path, &found, perms)?;
                }
            }
        }
        Ok(())
    }

    fn levels(&self, scene: &Scene<'_>) -> Result<Vec<Level>, Failure> {
        if self.recurse.is_none() && !self.clean {
            return Ok(Vec::new());
        }
        walk::levels(scene, &self.path, self.max_depth)
    }

    fn remove_obstacle(&self, scene: &Scene<'_>, obstacle: Obstacle) -> Result<Map, Failure> {
        self.may_replace(scene, obstacle)?;
        let mut changes = Map::new();
        if let Some(backup) = &self.backupname {
            if is_there(scene, backup)? {
                scene.fs.remove(backup)?;
            }
            scene.fs.rename(&self.path, backup)?;
            return Ok(changes);
        }
        scene.fs.remove(&self.path)?;
        let what = if obstacle == Obstacle::File { "File" } else { "Symlink" };
        changes.insert("forced", format!("{what} was forcibly replaced"));
        Ok(changes)
    }

    fn make(&self, scene: &Scene<'_>, mut changes: Map) -> Result<Done, Failure> {
        changes.insert(self.shown(), new_dir());
        let meta = self.perms.meta()?;
        if !parents::is_there(scene, &self.path)? {
            if !self.makedirs {
                let comment = format!("No directory to create {} in", self.path.display());
                return Err(Done::new(comment, changes).into());
            }
            parents::make(scene, &self.path, meta)?;
        }
        scene.fs.make_dir(&self.path, meta)?;
        Ok(Done::new("", changes))
    }

    fn change(&self, scene: &Scene<'_>, found: &Stat) -> Result<Done, Failure> {
        let levels = self.levels(scene)?;
        let plan = self.plan(scene, found, &levels)?;
        let mut changes = plan.shown();
        if self.recurse.is_some_and(|r| r.silent) {
            changes = Map::new();
            changes.insert("recursion", "Changes silenced");
        }
        if !self.children_only {
            set(scene, &self.path, found, &self.perms, self.follow, &mut changes)?;
        }
        if let Some(recurse) = self.recurse {
            self.below(scene, &recurse, &levels, |path, found, perms| {
                set(scene, path, found, perms, self.follow, &mut changes)
            })?;
        }
        let path = self.path.display();
        let mut comment = match self.children_only {
            true => format!("Directory {path}/* updated"),
            false => format!("Directory {path} updated"),
        };
        if !plan.strangers.is_empty() {
            changes.insert("removed", remove_all(scene, &plan.strangers)?);
            comment = format!("Files cleaned from directory {path}");
        }
        Ok(Done::new(comment, changes))
    }
}

/// Removes paths, and tells which.
///
/// # Errors
/// Fails when one cannot be removed.
pub(super) fn remove_all(scene: &Scene<'_>, paths: &[PathBuf]) -> Result<Value, Failure> {
    let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    let mut removed = Vec::new();
    for path in topmost(&paths) {
        scene.fs.remove(path)?;
        removed.push(Value::from(path.to_string_lossy().into_owned()));
    }
    Ok(removed.into())
}

/// Sets what differs, and notes it as Salt does: the last value of each kind.
fn set(
    scene: &Scene<'_>,
    path: &Path,
    found: &Stat,
    perms: &Perms,
    follow: bool,
    changes: &mut Map,
) -> Result<(), Failure> {
    if perms.is_right(found) {
        return Ok(());
    }
    let mut meta = perms.meta()?;
    if found.kind == Kind::Link {
        meta.mode = None;
    }
    scene.fs.set_meta(path, meta, follow)?;
    for (key, value) in perms.changes(found).iter() {
        changes.insert(key.clone(), value.clone());
    }
    Ok(())
}

impl Plan {
    fn note(&mut self, path: &Path, changes: Map) {
        if !changes.is_empty() {
            self.changes.push((path.to_owned(), changes));
        }
    }

    fn shown(&self) -> Map {
        let shown = |path: &PathBuf| path.to_string_lossy().into_owned();
        self.changes.iter().map(|(path, changes)| (shown(path), changes.clone())).collect()
    }
}

fn new_dir() -> Map {
    [("directory", "new")].into_iter().collect()
}

/// What will change, line by line.
fn announced(changes: &[(PathBuf, Map)]) -> String {
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
fn trimmed(path: PathBuf) -> PathBuf {
    match path.to_str().and_then(|text| text.strip_suffix('/')) {
        Some("") | None => path,
        Some(text) => text.into(),
    }
}

impl State for Directory {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        self.is_supposed = scene.is_dry() && scene.shared.is_supposed(&self.path);
        let found = stat(scene, &self.path, self.follow)?;
        // Without a link on the way the common case is this one look.
        if found.is_some_and(|found| found.kind != Kind::Dir) || self.force {
            let itself = scene.fs.lstat(&self.path)?;
            if let Some(obstacle) = self.obstacle(scene, itself.as_ref())? {
                return self.look_at_obstacle(scene, obstacle);
            }
        }
        let Some(found) = found else {
            let changes = [(self.path.clone(), new_dir())];
            let shown = [(self.shown(), new_dir())].into_iter().collect();
            return Ok(Look::drift(announced(&changes), shown));
        };
        let levels = self.levels(scene)?;
        let is_alone = self.recurse.is_none() && !self.clean;
        let plan = match is_alone && (self.children_only || self.perms.is_right(&found)) {
            true => Plan::default(),
            false => self.plan(scene, &found, &levels)?,
        };
        if plan.changes.is_empty() {
            return Ok(Look::right(format!("The directory {} is in the correct state", self.path.display())));
        }
        Ok(Look::drift(announced(&plan.changes), plan.shown()))
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        self.perms.owner.ids()?;
        let itself = scene.fs.lstat(&self.path)?;
        let changes = match self.obstacle(scene, itself.as_ref())? {
            Some(obstacle) => self.remove_obstacle(scene, obstacle)?,
            None => Map::new(),
        };
        match stat(scene, &self.path, self.follow)? {
            Some(found) if is_dir(scene, &self.path)? => self.change(scene, &found),
            _ => self.make(scene, changes),
        }
    }

    fn react(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        once_more(self, scene)
    }

    fn is_foreseeable(&self) -> bool {
        true
    }

    fn holds(&self, look: &Look, hidden: Veil) -> bool {
        // A package may bring a directory, and leaves one alone that is there.
        let is_there = look.standing == Standing::Right && !self.clean && self.recurse.is_none();
        !self.is_supposed && (hidden == Veil::USERS || is_there && !hidden.meets(Veil::FILES))
    }

    fn settles(&self) -> bool {
        !self.clean && self.recurse.is_none()
    }

    fn suppose(&self, scene: &Scene<'_>) -> Result<Vec<String>, Failure> {
        let mut lacks = self.perms.owner.suppose(scene);
        if !self.makedirs {
            lacks.extend(parents::suppose(scene, &self.path)?);
        }
        Ok(lacks)
    }

    fn may_come(&self, look: &Look) -> bool {
        // Below these, packages bring nothing that they do not take for theirs.
        let is_peoples = ["/home", "/root", "/srv"].iter().any(|dir| self.path.starts_with(dir));
        self.is_supposed || look.standing != Standing::Right && !is_peoples
    }

    fn cost(&self) -> Cost {
        if self.recurse.is_some() || self.clean { Cost::Heavy } else { Cost::Light }
    }

    fn resources(&self) -> Vec<Resource> {
        vec![Resource::Path(self.path.clone())]
    }
}
