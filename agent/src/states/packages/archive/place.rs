//! What came out of an archive, on its way to where it belongs.
//!
//! Law: an archive comes out where nobody but the agent can reach it; what leaves that place goes through `Scene::fs`, each
//! entry noted as a file is.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use tempfile::TempDir;

use crate::fs::{Kind, Meta, Stat};
use crate::states::file::owner::Ids;
use crate::states::{Failure, Scene};

/// A directory of the agent, gone when it is no longer held.
pub(super) struct Unpacked(TempDir);

fn told(path: &Path) -> impl Fn(io::Error) -> Failure {
    let path = path.display().to_string();
    move |error| Failure::new(format!("cannot unpack to `{path}`: {error}"))
}

impl Unpacked {
    /// An empty directory that only the agent may enter, in one of its own: nobody can put another in its place.
    pub(super) fn new(scene: &Scene<'_>) -> Result<Self, Failure> {
        fs::create_dir_all(scene.spare).map_err(told(scene.spare))?;
        let made = tempfile::Builder::new().prefix(".unpacked-").tempdir_in(scene.spare);
        made.map(Self).map_err(told(scene.spare))
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Refuses links that lead out of what was unpacked.
    pub(super) fn verify(&self, scene: &Scene<'_>) -> Result<(), Failure> {
        self.verify_below(scene, Path::new(""))
    }

    fn verify_below(&self, scene: &Scene<'_>, dir: &Path) -> Result<(), Failure> {
        for (name, kind) in scene.fs.read_dir(&self.path().join(dir))? {
            let own = dir.join(name);
            match kind {
                Kind::Dir => self.verify_below(scene, &own)?,
                Kind::Link => {
                    let target = scene.fs.read_link(&self.path().join(&own))?;
                    if leads_out(&own, &target) {
                        let (own, target) = (own.display(), target.display());
                        let words = format!("`{own}` is a link to `{target}`, which lies outside");
                        return Err(Failure::new(format!("the archive is not unpacked: {words}")));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Puts everything into the target. Who is not asked for in `owner` stays who the archive says.
    pub(super) fn settle(self, scene: &Scene<'_>, target: &Path, owner: Ids) -> Result<(), Failure> {
        let mut way = Way { scene, owner, names: HashMap::new() };
        way.fill(self.path(), target)
    }
}

/// Entries on their way.
struct Way<'a> {
    scene: &'a Scene<'a>,
    owner: Ids,
    /// Where a file with more than one name went first.
    names: HashMap<(u64, u64), PathBuf>,
}

impl Way<'_> {
    /// Puts what is in one directory into another.
    fn fill(&mut self, from: &Path, to: &Path) -> Result<(), Failure> {
        let fs = self.scene.fs;
        for (name, kind) in fs.read_dir(from)? {
            let (own, there) = (from.join(&name), to.join(&name));
            match fs.lstat(&there)? {
                Some(found) if found.kind == Kind::Dir && kind == Kind::Dir => {
                    self.fill(&own, &there)?;
                    continue;
                }
                Some(found) if kind == Kind::Dir || !matches!(found.kind, Kind::File | Kind::Link) => {
                    fs.remove(&there)?;
                }
                _ => {}
            }
            self.put(&own, &there)?;
        }
        Ok(())
    }

    fn meta(&self, stat: &Stat) -> Meta {
        let Ids { uid, gid } = self.owner;
        // What runs as its owner was meant for the owner that the archive names.
        let lost = if stat.kind == Kind::File && (uid.is_some() || gid.is_some()) { 0o6000 } else { 0 };
        let mode = (stat.kind != Kind::Link).then_some(stat.mode & !lost);
        Meta { mode, uid: uid.or(Some(stat.uid)), gid: gid.or(Some(stat.gid)) }
    }

    /// Puts one entry, a directory with all that is in it.
    fn put(&mut self, from: &Path, to: &Path) -> Result<(), Failure> {
        let fs = self.scene.fs;
        let stat = fs.lstat(from)?.ok_or_else(|| told(from)(io::ErrorKind::NotFound.into()))?;
        let meta = self.meta(&stat);
        match stat.kind {
            Kind::File => {
                if fs.names(from)? > 1 {
                    if let Some(first) = self.names.get(&stat.id) {
                        return Ok(fs.hard_link(to, first)?);
                    }
                    self.names.insert(stat.id, to.to_owned());
                }
                fs.write(to, &fs.read_for_change(from)?, meta)?;
                fs.set_times(to, stat.atime, stat.mtime)?;
            }
            Kind::Link => fs.symlink(to, &fs.read_link(from)?, meta)?,
            Kind::Dir => {
                // Its own mode comes last: it may forbid to fill it.
                let filled = Meta { mode: meta.mode.map(|mode| mode | 0o700), ..meta };
                fs.make_dir(to, filled)?;
                self.fill(from, to)?;
                if filled != meta {
                    fs.set_meta(to, meta, false)?;
                }
            }
            Kind::Fifo | Kind::Char | Kind::Block => fs.make_node(to, stat.kind, stat.device, meta)?,
            Kind::Socket => {}
        }
        Ok(())
    }
}

/// True when a link at a path leads above where the path begins.
fn leads_out(path: &Path, target: &Path) -> bool {
    let mut depth = path.components().count() as isize - 1;
    for part in target.components() {
        match part {
            Component::ParentDir => depth -= 1,
            Component::Normal(_) => depth += 1,
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return true,
        }
        if depth < 0 {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_may_not_lead_out() {
        let table = [
            ("a", "b", false),
            ("a/b", "../c", false),
            ("a/b", "../../c", true),
            ("a", "../c", true),
            ("a", "/etc/passwd", true),
            ("a/b/c", "../../x/../y", false),
        ];
        for (path, target, expected) in table {
            assert_eq!(leads_out(Path::new(path), Path::new(target)), expected, "{path} -> {target}");
        }
    }
}
