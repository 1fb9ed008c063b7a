//! A move from one file system to another: a copy, then the original is removed.

use std::path::{Path, PathBuf};

use crate::fs::{FileKind, FileMeta, FileSystem, FsError, Stat};

/// Copies an entry with all that is in it and removes the original. What was copied is removed again when it fails.
pub(crate) fn move_across(fs: &dyn FileSystem, from: &Path, to: &Path) -> Result<(), FsError> {
    if let Err(error) = copy(fs, from, to) {
        if fs.lstat(to)?.is_some_and(|stat| stat.kind == FileKind::Dir) {
            // The first error is the one to tell.
            let _ = fs.remove(to);
        }
        return Err(error);
    }
    fs.remove(from)
}

fn copy(fs: &dyn FileSystem, from: &Path, to: &Path) -> Result<(), FsError> {
    let mut left = vec![PathBuf::new()];
    let mut dirs: Vec<(PathBuf, Stat)> = Vec::new();
    while let Some(rest) = left.pop() {
        let (source, target) = (join(from, &rest), join(to, &rest));
        let missing = || FsError::new("move", &source, rustix::io::Errno::NOENT);
        let stat = fs.lstat(&source)?.ok_or_else(missing)?;
        let meta = FileMeta { mode: Some(stat.mode), uid: Some(stat.uid), gid: Some(stat.gid) };
        match stat.kind {
            FileKind::File => {
                fs.write(&target, &fs.read_for_change(&source)?, meta)?;
                fs.set_xattrs(&target, &fs.xattrs(&source)?)?;
                fs.set_times(&target, stat.atime, stat.mtime)?;
            }
            FileKind::Link => fs.symlink(&target, &fs.read_link(&source)?, meta)?,
            FileKind::Dir => {
                // Its own mode comes last: it may forbid to fill it.
                fs.make_dir(&target, FileMeta { mode: Some(0o700), ..meta })?;
                left.extend(fs.read_dir(&source)?.into_iter().map(|(name, _)| rest.join(name)));
                dirs.push((target, stat));
            }
            FileKind::Fifo | FileKind::Char | FileKind::Block => {
                fs.make_node(&target, stat.kind, stat.device, meta)?;
            }
            FileKind::Socket => return Err(FsError::new("move", &source, rustix::io::Errno::OPNOTSUPP)),
        }
    }
    for (dir, stat) in dirs.into_iter().rev() {
        fs.set_meta(&dir, FileMeta { mode: Some(stat.mode), ..FileMeta::default() }, false)?;
        fs.set_times(&dir, stat.atime, stat.mtime)?;
    }
    Ok(())
}

fn join(base: &Path, rest: &Path) -> PathBuf {
    if rest.as_os_str().is_empty() { base.to_owned() } else { base.join(rest) }
}
