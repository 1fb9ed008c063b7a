//! `file.touch`: a file that is there, with new times. An act: it is done on every run, as in Salt.

use std::path::PathBuf;

use jiff::Timestamp;
use zagent_compiler::Compat;
use zagent_config::Map;

use super::asked::{named, once_more};
use super::parents;
use crate::fs::{Kind, Meta, Stat};
use crate::states::{Args, Built, Cost, Done, Failure, Look, Resource, Scene, State};

/// Nanoseconds in a second.
const SECOND: f64 = 1e9;

/// A file with times.
#[derive(Debug)]
struct Touch {
    path: PathBuf,
    atime: Option<i128>,
    mtime: Option<i128>,
    makedirs: bool,
}

/// Makes the state.
pub(super) fn build(args: &Args<'_>) -> Built {
    Ok(Box::new(Touch {
        path: named(args, "Must provide name to file.touch")?,
        atime: time(args, "atime")?,
        mtime: time(args, "mtime")?,
        makedirs: args.flag("makedirs", false),
    }))
}

fn time(args: &Args<'_>, key: &str) -> Result<Option<i128>, Failure> {
    if let Ok(Some(seconds)) = args.int(key) {
        return Ok(Some(i128::from(seconds) * 1_000_000_000));
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "what is too large becomes the largest time there is"
    )]
    let nanoseconds = |seconds: f64| (seconds * SECOND) as i128;
    match args.number(key) {
        Ok(seconds) => Ok(seconds.map(nanoseconds)),
        Err(_) => Err(Failure::new("atime and mtime must be integers")),
    }
}

impl Touch {
    fn is_right(&self, compat: Compat, found: &Stat) -> bool {
        let times = [(self.atime, found.atime), (self.mtime, found.mtime)];
        let is_given = self.atime.is_some() && self.mtime.is_some();
        compat == Compat::Strict && is_given && times.iter().all(|(wanted, found)| *wanted == Some(*found))
    }

    fn note(&self, key: &str) -> Map {
        [(key, self.path.to_string_lossy().as_ref())].into_iter().collect()
    }
}

impl State for Touch {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let path = self.path.display();
        match scene.fs.stat(&self.path)? {
            None => Ok(Look::drift(format!("File {path} is set to be created"), self.note("new"))),
            Some(found) if self.is_right(scene.compat, &found) => {
                Ok(Look::right(format!("File {path} exists and has the correct times")))
            }
            Some(_) => {
                Ok(Look::drift(format!("Times set to be updated on file {path}"), self.note("touched")))
            }
        }
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let path = self.path.display();
        if !parents::is_there(scene, &self.path)? {
            if !self.makedirs {
                return Err(Failure::new(format!("Directory not present to touch file {path}")));
            }
            parents::make(scene, &self.path, Meta::default())?;
        }
        let found = scene.fs.stat(&self.path)?;
        if found.is_none() {
            scene.fs.write(&self.path, b"", Meta::default())?;
        }
        let now = Timestamp::now().as_nanosecond();
        scene.fs.set_times(&self.path, self.atime.unwrap_or(now), self.mtime.unwrap_or(now))?;
        Ok(match found.map(|found| found.kind) {
            None => Done::new(format!("Created empty file {path}"), self.note("new")),
            Some(Kind::Dir) => Done::new(format!("Updated times on directory {path}"), self.note("touched")),
            Some(_) => Done::new(format!("Updated times on file {path}"), self.note("touched")),
        })
    }

    fn react(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        once_more(self, scene)
    }

    fn is_lasting(&self) -> bool {
        false
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
