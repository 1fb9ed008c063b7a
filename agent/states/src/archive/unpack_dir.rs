//! What came out of an archive, on its way to where it belongs.
//!
//! Law: an archive comes out where nobody but the agent can reach it; what leaves that place goes through
//! `StateCtx::fs`, each entry noted as a file is (held by `links_may_not_lead_out`, `an_archive_is_unpacked_once`).

use std::collections::HashMap;
use std::io;
use std::path::{Component, Path, PathBuf};

use crate::file::owner::OwnerIds;
use crate::{StateCtx, StateError};
use zagent_host::fs::{FileKind, FileMeta, Stat};
use zagent_host::temp_file::PrivateTempDir;

/// A directory of the agent, gone when it is no longer held.
pub(crate) struct UnpackDir(PrivateTempDir);

fn io_failure(path: &Path) -> impl Fn(io::Error) -> StateError {
    let path = path.display().to_string();
    move |error| StateError::new(format!("cannot unpack to `{path}`: {error}"))
}

impl UnpackDir {
    /// An empty directory that only the agent may enter, in one of its own: nobody can put another in its place.
    pub(crate) fn new(ctx: &StateCtx<'_>) -> Result<Self, StateError> {
        let made = PrivateTempDir::in_agent_dir(ctx.machine, ctx.staging_dir, ".unpacked-");
        made.map(Self).map_err(io_failure(ctx.staging_dir))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Refuses links that lead out of what was unpacked.
    pub(crate) fn verify_links(&self, ctx: &StateCtx<'_>) -> Result<(), StateError> {
        self.verify_below(ctx, Path::new(""))
    }

    fn verify_below(&self, ctx: &StateCtx<'_>, dir: &Path) -> Result<(), StateError> {
        for (name, kind) in ctx.fs.read_dir(&self.path().join(dir))? {
            let own = dir.join(name);
            match kind {
                FileKind::Dir => self.verify_below(ctx, &own)?,
                FileKind::Link => {
                    let target = ctx.fs.read_link(&self.path().join(&own))?;
                    if escapes_root(&own, &target) {
                        let (own, target) = (own.display(), target.display());
                        let words = format!("`{own}` is a link to `{target}`, which lies outside");
                        return Err(StateError::new(format!("the archive is not unpacked: {words}")));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Puts everything into the target. Who is not asked for in `owner` stays who the archive says.
    pub(crate) fn move_into(
        self,
        ctx: &StateCtx<'_>,
        target: &Path,
        owner: OwnerIds,
    ) -> Result<(), StateError> {
        let mut way = TreeMover { ctx, owner, hardlinks: HashMap::new() };
        way.move_dir(self.path(), target)
    }
}

/// Entries on their way.
struct TreeMover<'a> {
    ctx: &'a StateCtx<'a>,
    owner: OwnerIds,
    /// Where a file with more than one name went first.
    hardlinks: HashMap<(u64, u64), PathBuf>,
}

impl TreeMover<'_> {
    /// Puts what is in one directory into another.
    fn move_dir(&mut self, from: &Path, to: &Path) -> Result<(), StateError> {
        let fs = self.ctx.fs;
        for (name, kind) in fs.read_dir(from)? {
            let (own, there) = (from.join(&name), to.join(&name));
            match fs.lstat(&there)? {
                Some(found) if found.kind == FileKind::Dir && kind == FileKind::Dir => {
                    self.move_dir(&own, &there)?;
                    continue;
                }
                Some(found)
                    if kind == FileKind::Dir || !matches!(found.kind, FileKind::File | FileKind::Link) =>
                {
                    fs.remove(&there)?;
                }
                _ => {}
            }
            self.move_entry(&own, &there)?;
        }
        Ok(())
    }

    fn meta_for(&self, stat: &Stat) -> FileMeta {
        let OwnerIds { uid, gid } = self.owner;
        // What runs as its owner was meant for the owner that the archive names.
        let lost = if stat.kind == FileKind::File && (uid.is_some() || gid.is_some()) { 0o6000 } else { 0 };
        let mode = (stat.kind != FileKind::Link).then_some(stat.mode & !lost);
        FileMeta { mode, uid: uid.or(Some(stat.uid)), gid: gid.or(Some(stat.gid)) }
    }

    /// Puts one entry, a directory with all that is in it.
    fn move_entry(&mut self, from: &Path, to: &Path) -> Result<(), StateError> {
        let fs = self.ctx.fs;
        let stat = fs.lstat(from)?.ok_or_else(|| io_failure(from)(io::ErrorKind::NotFound.into()))?;
        let meta = self.meta_for(&stat);
        match stat.kind {
            FileKind::File => {
                if fs.nlink(from)? > 1 {
                    if let Some(first) = self.hardlinks.get(&stat.id) {
                        return Ok(fs.hard_link(to, first)?);
                    }
                    self.hardlinks.insert(stat.id, to.to_owned());
                }
                fs.write(to, &fs.read_for_change(from)?, meta)?;
                fs.set_times(to, stat.atime, stat.mtime)?;
            }
            FileKind::Link => fs.symlink(to, &fs.read_link(from)?, meta)?,
            FileKind::Dir => {
                // Its own mode comes last: it may forbid to fill it.
                let filled = FileMeta { mode: meta.mode.map(|mode| mode | 0o700), ..meta };
                fs.make_dir(to, filled)?;
                self.move_dir(from, to)?;
                if filled != meta {
                    fs.set_meta(to, meta, false)?;
                }
            }
            FileKind::Fifo | FileKind::Char | FileKind::Block => {
                fs.make_node(to, stat.kind, stat.device, meta)?;
            }
            FileKind::Socket => {}
        }
        Ok(())
    }
}

/// True when a link at a path leads above where the path begins.
fn escapes_root(path: &Path, target: &Path) -> bool {
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
            assert_eq!(escapes_root(Path::new(path), Path::new(target)), expected, "{path} -> {target}");
        }
    }
}
