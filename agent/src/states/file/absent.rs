//! `file.absent`, `file.exists` and `file.missing`: what must not be, and what must (not) be there already.

use std::path::{Path, PathBuf};

use zagent_compiler::Compat;
use zagent_config::Map;

use super::asked::{named, once_more};
use crate::fs::Kind;
use crate::states::{Args, Built, Cost, Done, Failure, Look, Resource, Scene, State};

/// A path where nothing should be.
#[derive(Debug)]
struct Absent {
    path: PathBuf,
}

/// A path where something should (not) be; nothing is changed.
#[derive(Debug)]
struct Claim {
    path: PathBuf,
    should_exist: bool,
}

/// Makes `file.absent`.
pub(super) fn absent(args: &Args<'_>) -> Built {
    let path = named(args, "Must provide name to file.absent")?;
    if path == Path::new("/") {
        return Err(Failure::new("Refusing to make \"/\" absent"));
    }
    Ok(Box::new(Absent { path }))
}

/// Makes `file.exists` and `file.missing`.
pub(super) fn claim(args: &Args<'_>, should_exist: bool) -> Built {
    let name = args.name();
    if name.is_empty() {
        return Err(Failure::new(format!("Must provide name to file.{}", args.chunk.fun)));
    }
    // Salt takes a relative path here: nobody can say relative to what.
    let path = args.path("name").ok().flatten().unwrap_or_else(|| name.into());
    Ok(Box::new(Claim { path, should_exist }))
}

impl Absent {
    fn removed(&self) -> Map {
        [("removed", self.path.to_string_lossy().as_ref())].into_iter().collect()
    }
}

impl State for Absent {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let path = self.path.display();
        match scene.fs.lstat(&self.path)?.map(|found| found.kind) {
            None => Ok(Look::right(format!("File {path} is not present"))),
            // Salt overlooks pipes, sockets and devices.
            Some(kind)
                if scene.compat == Compat::Salt && !matches!(kind, Kind::File | Kind::Dir | Kind::Link) =>
            {
                Ok(Look::right(format!("File {path} is not present")))
            }
            Some(Kind::Dir) => {
                Ok(Look::drift(format!("Directory {path} is set for removal"), self.removed()))
            }
            Some(_) => Ok(Look::drift(format!("File {path} is set for removal"), self.removed())),
        }
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let path = self.path.display();
        let what = match scene.fs.lstat(&self.path)?.map(|found| found.kind) {
            None => return Ok(Done::new(format!("File {path} is not present"), Map::new())),
            Some(Kind::Dir) => "directory",
            Some(_) => "file",
        };
        scene.fs.remove(&self.path)?;
        Ok(Done::new(format!("Removed {what} {path}"), self.removed()))
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

impl State for Claim {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let path = self.path.display();
        let exists = scene.fs.stat(&self.path)?.is_some();
        match (exists, self.should_exist) {
            (true, true) => Ok(Look::right(format!("Path {path} exists"))),
            (false, false) => Ok(Look::right(format!("Path {path} is missing"))),
            (false, true) => Err(Failure::new(format!("Specified path {path} does not exist"))),
            (true, false) => Err(Failure::new(format!("Specified path {path} exists"))),
        }
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        self.check(scene).map(|look| Done::new(look.comment, look.changes))
    }

    fn is_foreseeable(&self) -> bool {
        true
    }

    fn cost(&self) -> Cost {
        Cost::Light
    }
}
