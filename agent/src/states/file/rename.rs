//! `file.rename`: an entry under another path.

use std::path::PathBuf;

use zagent_config::Map;

use super::asked::{expanded, is_there, named, once_more, required};
use super::copy::copy;
use super::parents;
use crate::fs::Meta;
use crate::states::{Args, Built, Cost, Done, Failure, Look, Resource, Scene, State};

/// An entry that should be elsewhere.
#[derive(Debug)]
struct Rename {
    path: PathBuf,
    source: PathBuf,
    force: bool,
    makedirs: bool,
}

/// Makes the state.
pub(super) fn build(args: &Args<'_>) -> Built {
    Ok(Box::new(Rename {
        path: named(args, "Must provide name to file.rename")?,
        source: expanded(&required(args, "source")?),
        force: args.flag("force", false),
        makedirs: args.flag("makedirs", false),
    }))
}

impl Rename {
    /// Moves it, over to another file system too.
    fn carry(&self, scene: &Scene<'_>) -> Result<(), Failure> {
        match scene.fs.rename(&self.source, &self.path) {
            Err(error) if error.source.kind() == std::io::ErrorKind::CrossesDevices => {
                let found = scene.fs.lstat(&self.source)?;
                let meta = found.map_or_else(Meta::default, |found| Meta {
                    mode: Some(found.mode),
                    uid: Some(found.uid),
                    gid: Some(found.gid),
                });
                copy(scene, &self.source, &self.path, meta)?;
                Ok(scene.fs.remove(&self.source)?)
            }
            moved => Ok(moved?),
        }
    }
}

impl State for Rename {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let (source, path) = (self.source.display(), self.path.display());
        if !is_there(scene, &self.source)? {
            return Ok(Look::right(format!("Source file \"{source}\" has already been moved out of place")));
        }
        if !self.force && is_there(scene, &self.path)? {
            return Ok(Look::right(format!("The target file \"{path}\" exists and will not be overwritten")));
        }
        Ok(Look::drift(format!("File \"{source}\" is set to be moved to \"{path}\""), Map::new()))
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        if !parents::is_there(scene, &self.path)? {
            if !self.makedirs {
                let parent = self.path.parent().unwrap_or(&self.path).display();
                return Err(Failure::new(format!("The target directory {parent} is not present")));
            }
            parents::make(scene, &self.path, Meta::default())?;
        }
        if is_there(scene, &self.path)? {
            if !self.force {
                let path = self.path.display();
                return Err(Failure::new(format!(
                    "The target file \"{path}\" exists and will not be overwritten"
                )));
            }
            scene.fs.remove(&self.path)?;
        }
        self.carry(scene)?;
        let mut changes = Map::new();
        changes.insert(self.path.to_string_lossy().into_owned(), self.source.to_string_lossy().into_owned());
        Ok(Done::new(format!("Moved \"{}\" to \"{}\"", self.source.display(), self.path.display()), changes))
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
        vec![Resource::Path(self.path.clone()), Resource::Path(self.source.clone())]
    }
}
