//! `file.hardlink`: another name for a file.

use std::path::{Path, PathBuf};

use zagent_compiler::Compat;
use zagent_config::Map;

use super::asked::{named, once_more, required};
use super::owner::Owner;
use super::parents;
use super::preflight::{as_dry_run, preflight, told};
use crate::fs::{Kind, Meta};
use crate::states::{Args, Built, Cost, Done, Failure, Look, Resource, Scene, Standing, State};

/// A path that should be another name for a file.
#[derive(Debug)]
struct Hardlink {
    path: PathBuf,
    target: PathBuf,
    owner: Owner,
    dir_mode: Option<u32>,
    force: bool,
    makedirs: bool,
}

/// How things stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Now {
    Missing,
    Same,
    /// A name for another file, which has more names.
    OtherLink,
    /// A file of its own.
    File,
}

/// Makes the state.
pub(super) fn build(args: &Args<'_>) -> Built {
    let target = required(args, "target")?;
    let path = named(args, "Must provide name to file.hardlink");
    let mut faults: Vec<String> = path.as_ref().err().map(|f| f.done.comment.clone()).into_iter().collect();
    if !target.starts_with('/') {
        faults.push(format!("Specified target {target} is not an absolute path"));
    }
    told(&faults)?;
    Ok(Box::new(Hardlink {
        path: path?,
        target: target.into(),
        owner: Owner::read(args)?,
        dir_mode: args.mode("dir_mode")?,
        force: args.flag("force", false),
        makedirs: args.flag("makedirs", false),
    }))
}

impl Hardlink {
    fn now(&self, scene: &Scene<'_>) -> Result<Now, Failure> {
        preflight(&self.owner)?;
        let dir = |path: &Path, way: &str| {
            Err(Failure::new(format!("Unable to hard link {way} directory {}", path.display())))
        };
        let found = scene.fs.stat(&self.path)?;
        if found.is_some_and(|found| found.kind == Kind::Dir) {
            return dir(&self.path, "to");
        }
        let Some(target) = scene.fs.stat(&self.target)? else {
            return Err(Failure::new(format!(
                "Target {} for hard link does not exist",
                self.target.display()
            )));
        };
        if target.kind == Kind::Dir {
            return dir(&self.target, "from");
        }
        match scene.fs.lstat(&self.path)? {
            None => Ok(Now::Missing),
            Some(found) if found.id == target.id => Ok(Now::Same),
            Some(_) if scene.fs.names(&self.path)? > 1 => Ok(Now::OtherLink),
            Some(_) => Ok(Now::File),
        }
    }

    fn occupied(&self) -> Failure {
        Failure::new(format!("File exists where the hard link {} should be", self.path.display()))
    }
}

impl State for Hardlink {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let now = self.now(scene)?;
        let (path, target) = (self.path.to_string_lossy().into_owned(), self.target.display());
        let one = |key: &str| -> Map { [(key, path.as_str())].into_iter().collect() };
        match now {
            Now::Same => {
                Ok(Look::right(format!("Target of hard link {path} is already pointing to {target}")))
            }
            Now::Missing => {
                Ok(Look::drift(format!("Hard link {path} to {target} is set for creation"), one("new")))
            }
            Now::OtherLink => {
                Ok(Look::drift(format!("Link {path} target is set to be changed to {target}"), one("change")))
            }
            Now::File if self.force => {
                let comment = format!(
                    "The file or directory {path} is set for removal to make way for a new hard link targeting {target}"
                );
                Ok(Look::drift(comment, Map::new()))
            }
            Now::File => Err(self.occupied()),
        }
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let now = self.now(scene)?;
        let (path, target) = (self.path.display(), self.target.display());
        let mut changes = Map::new();
        match now {
            Now::File if !self.force => return Err(self.occupied()),
            Now::File => {
                changes.insert("forced", "File for hard link was forcibly replaced");
            }
            _ => {}
        }
        if !parents::is_there(scene, &self.path)? {
            if !self.makedirs {
                let parent = self.path.parent().unwrap_or(&self.path).display();
                return Err(Failure::new(format!("Directory {parent} for hard link is not present")));
            }
            let owner = if scene.compat == Compat::Salt { self.owner.or_own() } else { self.owner.clone() };
            let ids = owner.ids()?;
            parents::make(scene, &self.path, Meta { mode: self.dir_mode, uid: ids.uid, gid: ids.gid })?;
        }
        scene.fs.hard_link(&self.path, &self.target)?;
        changes.insert("new", self.path.to_string_lossy().into_owned());
        let comment = match now {
            Now::OtherLink => format!("Set target of hard link {path} -> {target}"),
            _ => format!("Created new hard link {path} -> {target}"),
        };
        Ok(Done::new(comment, changes))
    }

    fn preview(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let mut look = self.check(scene).map_err(as_dry_run(&self.path, "hard link"))?;
        if look.standing == Standing::Right {
            let (path, target) = (self.path.display(), self.target.display());
            look.comment = format!("The hard link {path} is presently targetting {target}");
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
