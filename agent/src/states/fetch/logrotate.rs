//! `logrotate.set`: one directive of logrotate's configuration, or of one block in it.
//!
//! Law: only the line that is asked for changes; whatever else stands in the files stays.

use std::path::{Path, PathBuf};

use zagent_config::{Map, Value};

use super::super::{Args, Built, Done, Failure, Look, Resource, Scene, State, Veil};
use crate::fs::{Kind, Meta};
use crate::host::rotation::{self, changed, value_of};

/// The state that a function of this module makes; nothing when there is no such function.
pub(super) fn build(fun: &str, args: &Args<'_>) -> Option<Built> {
    (fun == "set").then(|| Set::read(args).map(|s| Box::new(s) as Box<dyn State>))
}

struct Set {
    file: PathBuf,
    /// The block, when it is about one.
    block: Option<String>,
    directive: String,
    wanted: Value,
}

impl Set {
    fn read(args: &Args<'_>) -> Result<Self, Failure> {
        let key = args.text("key")?.ok_or_else(|| Failure::new("`key` is missing"))?;
        let value = args.chunk.args.get("value").cloned().unwrap_or(Value::Null);
        let file = args.path("conf_file")?.unwrap_or_else(|| rotation::CONF.into());
        let setting = args.get("setting").cloned();
        let (block, directive, wanted) = match setting {
            Some(setting) => (Some(key), zagent_compiler::yaml::python_str(&value), setting),
            None => (None, key, value),
        };
        Ok(Self { file, block, directive, wanted: rotation::even(wanted) })
    }

    /// The files, the first of which is the one that includes the others.
    fn files(&self, scene: &Scene<'_>) -> Result<Vec<(PathBuf, String)>, Failure> {
        let text = |path: &Path| -> Result<String, Failure> {
            Ok(String::from_utf8_lossy(&scene.fs.read(path)?).into_owned())
        };
        let main = text(&self.file)?;
        let mut files = Vec::new();
        for included in rotation::includes(&main) {
            let path = PathBuf::from(included);
            match scene.fs.stat(&path)?.map(|s| s.kind) {
                Some(Kind::Dir) => {
                    for (name, kind) in scene.fs.read_dir(&path)? {
                        if kind == Kind::File {
                            files.push((path.join(&name), text(&path.join(name))?));
                        }
                    }
                }
                Some(_) => files.push((path.clone(), text(&path)?)),
                None => {}
            }
        }
        files.insert(0, (self.file.clone(), main));
        Ok(files)
    }

    /// The file that has to change, its new text, and the old value; nothing when all is right.
    fn differs(&self, scene: &Scene<'_>) -> Result<Option<(PathBuf, String, Value)>, Failure> {
        let files = self.files(scene)?;
        let block = self.block.as_deref();
        let at = match block {
            Some(block) => files.iter().position(|(_, text)| rotation::has_block(text, block)),
            None => files.iter().position(|(_, text)| value_of(text, None, &self.directive).is_some()),
        };
        let (path, text) = &files[at.unwrap_or(0)];
        let now = value_of(text, block, &self.directive).unwrap_or(Value::Bool(false));
        if now == self.wanted {
            return Ok(None);
        }
        Ok(Some((path.clone(), changed(text, block, &self.directive, &self.wanted), now)))
    }

    fn words(&self, how: &str) -> String {
        let wanted = zagent_compiler::yaml::python_str(&self.wanted);
        match (&self.block, how) {
            (None, "did") => format!("Set command '{}' value: {wanted}", self.directive),
            (None, how) => format!("Command '{}' {how} value: {wanted}", self.directive),
            (Some(block), "did") => {
                format!("Set block '{block}' command '{}' value: {wanted}", self.directive)
            }
            (Some(block), how) => {
                format!("Block '{block}' command '{}' {how} value: {wanted}", self.directive)
            }
        }
    }
}

impl State for Set {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        Ok(match self.differs(scene)? {
            None => Look::right(self.words("already has")),
            Some((_, _, now)) => {
                let changes = Map::from_iter([("old", now), ("new", self.wanted.clone())]);
                Look::drift(self.words("will be set to"), changes)
            }
        })
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let Some((path, text, now)) = self.differs(scene)? else { return Ok(Done::default()) };
        scene.fs.write(&path, text.as_bytes(), Meta::default())?;
        let changes = Map::from_iter([("old", now), ("new", self.wanted.clone())]);
        Ok(Done::new(self.words("did"), changes))
    }

    fn is_foreseeable(&self) -> bool {
        true
    }

    fn resources(&self) -> Vec<Resource> {
        // Which of the files it is shows only when they are read.
        vec![Resource::Path(self.file.clone()), Resource::Path("/etc/logrotate.d".into())]
    }

    fn sees(&self) -> Veil {
        Veil::FILES | Veil::BROUGHT
    }
}
