//! `file.symlink`: a link that points there.

use std::path::{Path, PathBuf};

use zagent_compiler::Compat;
use zagent_config::{Map, Value};

use super::asked::{is_there, named, once_more, required};
use super::owner::{Owner, group_name, user_name};
use super::parents;
use super::preflight::{as_dry_run, preflight};
use crate::fs::{Kind, Meta, Stat};
use crate::states::{Args, Built, Cost, Done, Failure, Look, Resource, Scene, Standing, State};

/// A link that should point there.
#[derive(Debug)]
pub(super) struct Symlink {
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
pub(super) fn build(args: &Args<'_>) -> Built {
    let owner = Owner::read(args)?;
    let path = named(args, "Must provide name to file.symlink")?;
    Ok(Box::new(Symlink {
        path,
        target: required(args, "target")?,
        owner,
        dir_mode: args.mode("mode")?,
        force: args.flag("force", false),
        atomic: args.flag("atomic", false),
        makedirs: args.flag("makedirs", false),
        inherit: args.flag("inherit_user_and_group", false),
        backupname: args.text("backupname")?,
    }))
}

impl Symlink {
    /// A link of a tree that is copied as a whole.
    pub(super) fn of_tree(
        path: PathBuf,
        target: String,
        owner: Owner,
        mode: Option<u32>,
        force: bool,
    ) -> Self {
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
    fn wanted(&self, compat: Compat, found: Option<&Stat>) -> Owner {
        match (compat, found) {
            (Compat::Strict, _) => self.owner.clone(),
            (Compat::Salt, Some(found)) if self.inherit => self.owner.or_ids(found.uid, found.gid),
            (Compat::Salt, _) => self.owner.or_own(),
        }
    }

    fn found(&self, scene: &Scene<'_>) -> Result<Option<(Stat, Option<PathBuf>)>, Failure> {
        let Some(found) = scene.fs.lstat(&self.path)? else { return Ok(None) };
        let target = match found.kind {
            Kind::Link => Some(scene.fs.read_link(&self.path)?),
            _ => None,
        };
        Ok(Some((found, target)))
    }

    fn points(&self, target: &Path) -> bool {
        normal(target) == normal(Path::new(&self.target))
    }

    /// Fails when nobody allows for what stands in the way.
    fn may_replace(&self, scene: &Scene<'_>, found: &Stat) -> Result<(), Failure> {
        let path = self.path.display();
        if let Some(backup) = self.backup()? {
            if is_there(scene, &backup)? && !self.force {
                return Err(Failure::new(format!(
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
            Kind::File => "File",
            Kind::Dir => "Directory",
            _ => "File system entry",
        };
        Err(Failure::new(format!("{what} exists where the symlink {path} should be")))
    }

    fn backup(&self) -> Result<Option<PathBuf>, Failure> {
        let Some(name) = &self.backupname else { return Ok(None) };
        if Path::new(name).is_absolute() {
            return Ok(Some(name.into()));
        }
        if name.contains('/') {
            return Err(Failure::new(format!("Backupname must be an absolute path or a file name: {name}")));
        }
        Ok(Some(self.path.with_file_name(name)))
    }

    fn make_way(&self, scene: &Scene<'_>, found: &Stat) -> Result<(), Failure> {
        self.may_replace(scene, found)?;
        if let Some(backup) = self.backup()? {
            if is_there(scene, &backup)? {
                scene.fs.remove(&backup)?;
            }
            return Ok(scene.fs.rename(&self.path, &backup)?);
        }
        if found.kind == Kind::Dir {
            // Salt cannot do this either: a directory is more than a link may cost.
            let (path, target) = (self.path.display(), &self.target);
            return Err(Failure::new(format!(
                "Unable to create new symlink {path} -> {target}: [Errno 21] Is a directory: '{path}'"
            )));
        }
        Ok(())
    }

    fn note_parents(&self, scene: &Scene<'_>, comment: &mut String) -> Result<(), Failure> {
        if parents::is_there(scene, &self.path)? {
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
fn normal(path: &Path) -> PathBuf {
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

fn owned_by(found: &Stat) -> String {
    let text = |value: Value| zagent_compiler::name_text(&value);
    format!("{}:{}", text(user_name(found.uid)), text(group_name(found.gid)))
}

impl State for Symlink {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        preflight(&self.owner)?;
        let (path, target) = (self.path.to_string_lossy().into_owned(), &self.target);
        let one = |key: &str, value: &str| -> Map { [(key, value)].into_iter().collect() };
        match self.found(scene)? {
            None => {
                let mut comment = format!("Symlink {path} to {target} is set for creation");
                self.note_parents(scene, &mut comment)?;
                Ok(Look::drift(comment, one("new", &path)))
            }
            Some((found, Some(to))) if self.points(&to) => {
                let wanted = self.wanted(scene.compat, Some(&found));
                if wanted.is_right(&found) {
                    return Ok(Look::right(format!(
                        "Symlink {path} is present and owned by {}",
                        owned_by(&found)
                    )));
                }
                let (old, new) = (owned_by(&found), wanted.shown(&found));
                let comment = format!(
                    "The symlink {path} is present, but the ownership of the symlink would be changed from {old} to {new}"
                );
                Ok(Look::drift(comment, one("ownership", &old)))
            }
            Some((_, Some(_))) => {
                let comment = format!("Link {path} target is set to be changed to {target}");
                Ok(Look::drift(comment, one("change", &path)))
            }
            Some((found, None)) => {
                self.may_replace(scene, &found)?;
                let comment = format!(
                    "The file or directory {path} is set for removal to make way for a new symlink targeting {target}"
                );
                Ok(Look::drift(comment, Map::new()))
            }
        }
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        preflight(&self.owner)?;
        let found = self.found(scene)?;
        let wanted = self.wanted(scene.compat, found.as_ref().map(|(found, _)| found));
        let ids = wanted.ids()?;
        let meta = Meta { mode: None, uid: ids.uid, gid: ids.gid };
        let (path, target) = (self.path.display(), &self.target);
        match &found {
            Some((found, Some(to))) if self.points(to) => {
                scene.fs.set_meta(&self.path, meta, false)?;
                let owner = wanted.shown(found);
                let changes = [("ownership", owner.as_str())].into_iter().collect();
                return Ok(Done::new(format!("Set ownership of symlink {path} to {owner}"), changes));
            }
            Some((found, None)) => self.make_way(scene, found)?,
            _ => {}
        }
        if !parents::is_there(scene, &self.path)? {
            if !self.makedirs {
                let parent = self.path.parent().unwrap_or(&self.path).display();
                return Err(Failure::new(format!("Directory {parent} for symlink is not present")));
            }
            parents::make(scene, &self.path, Meta { mode: self.dir_mode, ..meta })?;
        }
        scene.fs.symlink(&self.path, Path::new(target), meta)?;
        let changes = [("new", self.path.to_string_lossy().as_ref())].into_iter().collect();
        Ok(Done::new(format!("Created new symlink {path} -> {target}"), changes))
    }

    fn preview(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let mut look = self.check(scene).map_err(as_dry_run(&self.path, "symlink"))?;
        if look.standing == Standing::Right {
            look.comment = format!("The symlink {} is present", self.path.display());
        }
        Ok(look)
    }

    fn react(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        once_more(self, scene)
    }

    fn is_foreseeable(&self) -> bool {
        true
    }

    fn cost(&self) -> Cost {
        Cost::Light
    }

    fn resources(&self) -> Vec<Resource> {
        vec![Resource::Path(self.path.clone())]
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
            assert_eq!(normal(Path::new(text)), Path::new(expected), "{text}");
        }
    }
}
