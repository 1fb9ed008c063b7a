//! Random changes and looks, and a picture of what they leave.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use crate::fs::{FileKind, FileMeta, FileSystem, FsError, Stat};

/// Times below this were set by a test, not by the clock.
const SET_BY_TEST: i128 = 1_000_000;

const PATHS: [&str; 18] = [
    "a", "b", "c", "d", "d/a", "d/b", "d/e", "d/e/a", "d/e/f", "d/e/f/a", "l", "l/a", "l/e/a", "m", "m/a",
    "d/../a", "d/l/a", ".",
];
const TARGETS: [&str; 9] = ["a", "d", "d/e", "../d", "l", "m", "e", ".", "nowhere"];

/// One of them.
#[derive(Clone, Debug)]
pub enum FsAction {
    /// Writes a file: path, seed of its content, owner and mode.
    Write(usize, u8, FileMeta),
    /// Makes a directory.
    MakeDir(usize, FileMeta),
    /// Makes a symbolic link: path and target.
    Symlink(usize, usize, FileMeta),
    /// Makes another name for a file: new path and existing one.
    HardLink(usize, usize),
    /// Makes a named pipe.
    Fifo(usize, FileMeta),
    /// Moves an entry: old path and new one.
    Rename(usize, usize),
    /// Removes an entry and all below it.
    Remove(usize),
    /// Sets owner and mode; a link is followed when it is true.
    SetMeta(usize, FileMeta, bool),
    /// Sets the time of the last change.
    SetTimes(usize, u8),
    /// Sets an extended attribute of a file.
    SetXattr(usize, u8),
    /// Looks at an entry, links not followed.
    Lstat(usize),
    /// Looks at an entry, links followed.
    Stat(usize),
    /// Reads a file.
    Read(usize),
    /// Compares a file with content from a seed.
    Compare(usize, u8),
    /// Reads the target of a symbolic link.
    ReadLink(usize),
    /// Lists a directory.
    ReadDir(usize),
    /// Reads the extended attributes.
    Xattrs(usize),
}

fn meta() -> impl Strategy<Value = FileMeta> {
    let me = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let is_root = me.0 == 0;
    let mode = proptest::option::of(prop::sample::select(vec![0o700, 0o755, 0o777, 0o1777, 0o2775, 0o4755]));
    let uid = proptest::option::of(prop::sample::select(if is_root { vec![0, 12345] } else { vec![me.0] }));
    let gid = proptest::option::of(prop::sample::select(if is_root { vec![0, 54321] } else { vec![me.1] }));
    (mode, uid, gid).prop_map(|(mode, uid, gid)| FileMeta { mode, uid, gid })
}

/// Any of them.
pub(crate) fn fs_action() -> impl Strategy<Value = FsAction> {
    let path = || 0..PATHS.len();
    prop_oneof![
        3 => (path(), any::<u8>(), meta()).prop_map(|(path, content, meta)| FsAction::Write(path, content, meta)),
        3 => (path(), meta()).prop_map(|(path, meta)| FsAction::MakeDir(path, meta)),
        3 => (path(), 0..TARGETS.len(), meta()).prop_map(|(path, to, meta)| FsAction::Symlink(path, to, meta)),
        2 => (path(), path()).prop_map(|(path, to)| FsAction::HardLink(path, to)),
        1 => (path(), meta()).prop_map(|(path, meta)| FsAction::Fifo(path, meta)),
        3 => (path(), path()).prop_map(|(path, to)| FsAction::Rename(path, to)),
        2 => path().prop_map(FsAction::Remove),
        2 => (path(), meta(), any::<bool>()).prop_map(|(path, meta, follow)| FsAction::SetMeta(path, meta, follow)),
        1 => (path(), any::<u8>()).prop_map(|(path, time)| FsAction::SetTimes(path, time)),
        1 => (path(), any::<u8>()).prop_map(|(path, value)| FsAction::SetXattr(path, value)),
        1 => path().prop_map(FsAction::Lstat),
        1 => path().prop_map(FsAction::Stat),
        1 => path().prop_map(FsAction::Read),
        1 => (path(), any::<u8>()).prop_map(|(path, content)| FsAction::Compare(path, content)),
        1 => path().prop_map(FsAction::ReadLink),
        1 => path().prop_map(FsAction::ReadDir),
        1 => path().prop_map(FsAction::Xattrs),
    ]
}

fn shown<T: Debug>(answer: Result<T, FsError>) -> String {
    match answer {
        Ok(value) => format!("{value:?}"),
        Err(error) => format!("cannot {}: {:?}", error.act, error.source.kind()),
    }
}

fn stat_shown(stat: Stat) -> String {
    let Stat { kind, mode, uid, gid, size, mtime, device, .. } = stat;
    let size = if kind == FileKind::Dir { 0 } else { size };
    // Only files get their times back when they are made again.
    let mtime = if mtime < SET_BY_TEST && kind == FileKind::File { mtime } else { 0 };
    format!("{kind:?} {mode:o} {uid}:{gid} {size} {mtime} {device:?}")
}

/// Content of one of a few sizes.
fn content(seed: u8) -> Vec<u8> {
    vec![seed % 3; usize::from(seed % 4)]
}

/// Does it, and says in words what came of it.
pub fn apply_action(fs: &dyn FileSystem, root: &Path, act: &FsAction) -> String {
    let at = |path: &usize| root.join(PATHS[*path]);
    match act {
        FsAction::Write(path, seed, meta) => shown(fs.write(&at(path), &content(*seed), *meta)),
        FsAction::MakeDir(path, meta) => shown(fs.make_dir(&at(path), *meta)),
        FsAction::Symlink(path, to, meta) => shown(fs.symlink(&at(path), Path::new(TARGETS[*to]), *meta)),
        FsAction::HardLink(path, to) => shown(fs.hard_link(&at(path), &at(to))),
        FsAction::Fifo(path, meta) => shown(fs.make_node(&at(path), FileKind::Fifo, (0, 0), *meta)),
        FsAction::Rename(path, to) => shown(fs.rename(&at(path), &at(to))),
        // Not the place itself: both would refuse to work on in nothing.
        FsAction::Remove(path) if PATHS[*path] == "." => String::new(),
        FsAction::Remove(path) => shown(fs.remove(&at(path))),
        FsAction::SetMeta(path, meta, follow) => shown(fs.set_meta(&at(path), *meta, *follow)),
        FsAction::SetTimes(path, time) => shown(fs.set_times(&at(path), 0, i128::from(*time))),
        FsAction::SetXattr(path, value) => {
            // Where nothing is set, nothing is compared: not every file system keeps them on everything.
            let is_file = fs.stat(&at(path)).ok().flatten().is_some_and(|stat| stat.kind == FileKind::File);
            if !is_file {
                return String::new();
            }
            shown(fs.set_xattrs(&at(path), &[("user.test".into(), vec![*value])]))
        }
        FsAction::Lstat(path) => shown(fs.lstat(&at(path)).map(|stat| stat.map(stat_shown))),
        FsAction::Stat(path) => shown(fs.stat(&at(path)).map(|stat| stat.map(stat_shown))),
        FsAction::Read(path) => shown(fs.read(&at(path))),
        FsAction::Compare(path, seed) => {
            let answer = fs.compare(&at(path), &content(*seed));
            shown(answer.map(|found| found.map(|(stat, is_same)| (stat_shown(stat), is_same))))
        }
        FsAction::ReadLink(path) => shown(fs.read_link(&at(path))),
        FsAction::ReadDir(path) => shown(fs.read_dir(&at(path))),
        FsAction::Xattrs(path) => shown(fs.xattrs(&at(path))),
    }
}

/// All that is below a directory, in words.
pub fn snapshot(fs: &dyn FileSystem, root: &Path) -> BTreeMap<PathBuf, String> {
    let mut picture = BTreeMap::new();
    let mut ids = Vec::new();
    let mut left = vec![root.to_owned()];
    while let Some(path) = left.pop() {
        let stat = fs.lstat(&path).unwrap().unwrap();
        // Which names are one file, without saying which.
        let same = ids.iter().position(|id| *id == stat.id).unwrap_or(ids.len());
        ids.push(stat.id);
        let inside = match stat.kind {
            FileKind::Dir => {
                let names = fs.read_dir(&path).unwrap();
                left.extend(names.iter().map(|(name, _)| path.join(name)));
                format!("{names:?}")
            }
            FileKind::File => format!("{:?} {:?}", fs.read(&path).unwrap(), fs.xattrs(&path).unwrap()),
            FileKind::Link => format!("{:?}", fs.read_link(&path).unwrap()),
            _ => String::new(),
        };
        let name = path.strip_prefix(root).unwrap().to_owned();
        picture.insert(name, format!("{same} {} {inside}", stat_shown(stat)));
    }
    picture
}
