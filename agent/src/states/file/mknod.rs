//! `file.mknod`: a pipe or device.

use std::path::PathBuf;

use zagent_config::Map;

use super::asked::{named, once_more, required};
use super::parents;
use super::perms::Perms;
use crate::fs::{Kind, Meta, Stat};
use crate::states::{Args, Built, Cost, Done, Failure, Look, Resource, Scene, State};

/// The mode when none is given.
const MODE: u32 = 0o600;

/// A pipe or device that should be there.
#[derive(Debug)]
struct Node {
    path: PathBuf,
    kind: Kind,
    device: (u32, u32),
    perms: Perms,
}

/// Makes the state.
pub(super) fn build(args: &Args<'_>) -> Built {
    let ntype = required(args, "ntype")?;
    let kind = match ntype.as_str() {
        "c" => Kind::Char,
        "b" => Kind::Block,
        "p" => Kind::Fifo,
        _ => {
            return Err(Failure::new(format!(
                "Node type unavailable: '{ntype}'. Available node types are character ('c'), block ('b'), and pipe ('p')"
            )));
        }
    };
    let mut perms = Perms::read(args, &["mode"])?;
    perms.mode.get_or_insert(MODE);
    let path = named(args, "Must provide name to file.mknod")?;
    Ok(Box::new(Node { path, kind, device: (number(args, "major")?, number(args, "minor")?), perms }))
}

fn number(args: &Args<'_>, key: &str) -> Result<u32, Failure> {
    let number = args.int(key)?.unwrap_or(0);
    u32::try_from(number).map_err(|_| Failure::new(format!("`{key}` must be a device number, not {number}")))
}

impl Node {
    const fn what(&self) -> (&'static str, &'static str) {
        match self.kind {
            Kind::Char => ("Character device", "character device"),
            Kind::Block => ("Block device", "block device"),
            _ => ("Fifo pipe", "fifo pipe"),
        }
    }

    /// The node; nothing when there is none yet.
    fn found(&self, scene: &Scene<'_>) -> Result<Option<Stat>, Failure> {
        let (path, (title, what)) = (self.path.display(), self.what());
        match scene.fs.stat(&self.path)? {
            None => Ok(None),
            Some(found) if found.kind == Kind::File => {
                Err(Failure::new(format!("File {path} exists and is not a {what}. Refusing to continue")))
            }
            Some(found) if found.kind != self.kind => {
                Err(Failure::new(format!("File {path} exists and cannot be overwritten")))
            }
            Some(found) if self.kind != Kind::Fifo && found.device != self.device => {
                let (major, minor) = found.device;
                Err(Failure::new(format!(
                    "{title} {path} exists and has a different major/minor {major}/{minor}. Refusing to continue"
                )))
            }
            found => Ok(found),
        }
    }
}

impl State for Node {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let (path, title) = (self.path.display(), self.what().0);
        match self.found(scene)? {
            None => Ok(Look::drift(format!("{title} {path} is set to be created"), Map::new())),
            Some(found) if self.perms.is_right(&found) => {
                Ok(Look::right(format!("{title} {path} is in the correct state")))
            }
            Some(found) => Ok(Look::drift("", self.perms.changes(&found))),
        }
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let meta = self.perms.meta()?;
        if let Some(found) = self.found(scene)? {
            scene.fs.set_meta(&self.path, meta, true)?;
            return Ok(Done::new("", self.perms.changes(&found)));
        }
        parents::make(scene, &self.path, Meta { mode: None, ..meta })?;
        scene.fs.make_node(&self.path, self.kind, self.device, meta)?;
        let mut changes = Map::new();
        changes.insert("new", format!("{} {} created.", self.what().0, self.path.display()));
        Ok(Done::new("", changes))
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
