//! `file.copy`: a copy of a file or directory of this host.

use std::path::{Path, PathBuf};

use zagent_compiler::Compat;
use zagent_config::Map;

use super::asked::{is_dir, is_there, named, once_more, required};
use super::parents;
use super::perms::{Perms, octal};
use crate::fs::{Kind, Meta, Stat};
use crate::states::{Args, Built, Cost, Done, Failure, Look, Resource, Scene, State};

/// Nested directories of one copy before it gives up.
const DEPTH: usize = 256;

/// A path that should be a copy of another.
#[derive(Debug)]
struct Copy {
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
pub(super) fn build(args: &Args<'_>) -> Built {
    Ok(Box::new(Copy {
        name: named(args, "Must provide name to file.copy")?,
        source: super::asked::expanded(&required(args, "source")?),
        perms: Perms::read(args, &["mode"])?,
        dir_mode: args.mode("dir_mode")?,
        preserve: args.flag("preserve", false),
        force: args.flag("force", false),
        makedirs: args.flag("makedirs", false),
        subdir: args.flag("subdir", false),
    }))
}

impl Copy {
    fn source(&self, scene: &Scene<'_>) -> Result<Stat, Failure> {
        let missing = || Failure::new(format!("Source file \"{}\" is not present", self.source.display()));
        scene.fs.stat(&self.source)?.ok_or_else(missing)
    }

    /// Where the copy goes.
    fn path(&self, scene: &Scene<'_>) -> Result<PathBuf, Failure> {
        match self.source.file_name() {
            Some(name) if self.subdir && is_dir(scene, &self.name)? => Ok(self.name.join(name)),
            _ => Ok(self.name.clone()),
        }
    }

    fn left_alone(path: &Path) -> String {
        format!("The target file \"{}\" exists and will not be overwritten", path.display())
    }

    /// True when a copy that is there holds what its source holds; nobody compares directories.
    fn is_same(&self, scene: &Scene<'_>, source: &Stat, path: &Path) -> Result<bool, Failure> {
        if source.kind != Kind::File {
            return Ok(false);
        }
        let content = scene.fs.read(&self.source)?;
        Ok(scene.fs.compare(path, &content)?.is_some_and(|(_, is_same)| is_same))
    }

    /// Owner and mode of the copy.
    fn meta(&self, source: &Stat) -> Result<Meta, Failure> {
        if self.preserve {
            return Ok(Meta { mode: Some(source.mode), uid: Some(source.uid), gid: Some(source.gid) });
        }
        let meta = self.perms.meta()?;
        Ok(Meta { mode: Some(self.perms.mode.unwrap_or(source.mode)), ..meta })
    }

    fn note(&self, source: &Stat, changes: &mut Map) {
        let own = rustix::process::geteuid().as_raw();
        if self.preserve {
            return;
        }
        if let Some(user) = self.perms.owner.user().filter(|who| who.uid() != Some(own)) {
            changes.insert("user", user);
        }
        let own = rustix::process::getegid().as_raw();
        if let Some(group) = self.perms.owner.group().filter(|who| who.gid() != Some(own)) {
            changes.insert("group", group);
        }
        if let Some(mode) = self.perms.mode.filter(|mode| *mode != source.mode) {
            changes.insert("mode", octal(mode));
        }
    }
}

/// Copies an entry with all that is below it. The entry itself gets `meta`, what is below it the owner of it.
///
/// # Errors
/// Fails when something cannot be read or written.
pub(super) fn copy(scene: &Scene<'_>, from: &Path, to: &Path, meta: Meta) -> Result<(), Failure> {
    let mut todo = vec![(from.to_owned(), to.to_owned(), 0)];
    while let Some((from, to, depth)) = todo.pop() {
        let found = if depth == 0 { scene.fs.stat(&from)? } else { scene.fs.lstat(&from)? };
        let Some(found) = found else { continue };
        let mode = if depth == 0 { meta.mode.or(Some(found.mode)) } else { Some(found.mode) };
        let meta = Meta { mode, ..meta };
        match found.kind {
            Kind::File => {
                let content = match depth {
                    0 => scene.fs.read(&from)?,
                    _ => scene.fs.read_for_change(&from)?,
                };
                scene.fs.write(&to, &content, meta)?;
                if depth > 0 {
                    scene.fs.set_times(&to, found.atime, found.mtime)?;
                }
            }
            Kind::Link => scene.fs.symlink(&to, &scene.fs.read_link(&from)?, Meta { mode: None, ..meta })?,
            Kind::Dir if depth < DEPTH => {
                scene.fs.make_dir(&to, meta)?;
                let names = scene.fs.read_dir(&from)?;
                todo.extend(
                    names.into_iter().rev().map(|(name, _)| (from.join(&name), to.join(&name), depth + 1)),
                );
            }
            Kind::Dir => return Err(Failure::new(format!("{} is too deep to copy", from.display()))),
            kind => scene.fs.make_node(&to, kind, found.device, meta)?,
        }
    }
    Ok(())
}

impl State for Copy {
    fn check(&mut self, scene: &Scene<'_>) -> Result<Look, Failure> {
        let source = self.source(scene)?;
        let path = self.path(scene)?;
        if is_there(scene, &path)? {
            if !self.force {
                return Ok(Look::right(Self::left_alone(&path)));
            }
            // Salt copies again whatever is there.
            if scene.compat == Compat::Strict && self.is_same(scene, &source, &path)? {
                return Ok(Look::right(Self::left_alone(&path)));
            }
        }
        let (source, path) = (self.source.display(), path.display());
        Ok(Look::drift(format!("File \"{source}\" is set to be copied to \"{path}\""), Map::new()))
    }

    fn apply(&mut self, scene: &Scene<'_>) -> Result<Done, Failure> {
        let source = self.source(scene)?;
        let path = self.path(scene)?;
        let meta = self.meta(&source)?;
        let mut comment = format!("Copied \"{}\" to \"{}\"", self.source.display(), self.name.display());
        if let Some(found) = scene.fs.lstat(&path)? {
            if !self.force {
                return Ok(Done::new(Self::left_alone(&path), Map::new()));
            }
            if self.is_same(scene, &source, &path)? {
                comment.push_str(" - files are identical but force flag is set");
            }
            if found.kind != Kind::File || source.kind != Kind::File {
                scene.fs.remove(&path)?;
            }
        }
        if !parents::is_there(scene, &path)? {
            if !self.makedirs {
                let parent = path.parent().unwrap_or(&path).display();
                return Err(Failure::new(format!("The target directory {parent} is not present")));
            }
            let mode = self.dir_mode.or_else(|| meta.mode.map(parents::mode_for_dirs));
            parents::make(scene, &path, Meta { mode, ..meta })?;
        }
        copy(scene, &self.source, &path, meta)?;
        let mut changes = Map::new();
        changes.insert(path.to_string_lossy().into_owned(), self.source.to_string_lossy().into_owned());
        self.note(&source, &mut changes);
        Ok(Done::new(comment, changes))
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
        vec![Resource::Path(self.name.clone())]
    }
}
