//! A directory in, all that is below it out; links are told, not followed.

use std::path::{Path, PathBuf};

use crate::{StateCtx, StateError};
use zagent_host::fs::FileKind;

/// Entries of one walk before it gives up.
const MAX_ENTRIES: usize = 5_000_000;

/// An entry below a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WalkEntry {
    /// Where it is.
    pub path: PathBuf,
    /// What it is.
    pub kind: FileKind,
    /// True when it is a directory, or a link to one.
    pub is_dir: bool,
}

/// One directory of a walk: its files first, then its directories, as Salt goes through them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WalkLevel {
    /// What is no directory.
    pub files: Vec<WalkEntry>,
    /// Directories, and links to some.
    pub dirs: Vec<WalkEntry>,
}

/// All directories from the top down, at most `depth` deep; nothing when the top is not there.
///
/// # Errors
/// Fails when one cannot be read.
pub(crate) fn walk_levels(
    ctx: &StateCtx<'_>,
    top: &Path,
    depth: Option<usize>,
) -> Result<Vec<WalkLevel>, StateError> {
    let mut levels = Vec::new();
    let mut todo = vec![(top.to_owned(), 0)];
    let mut count = 0;
    if ctx.fs.stat(top)?.is_none_or(|found| found.kind != FileKind::Dir) {
        return Ok(levels);
    }
    while let Some((dir, deep)) = todo.pop() {
        if depth.is_some_and(|depth| deep >= depth) {
            continue;
        }
        let (mut files, mut dirs) = (Vec::new(), Vec::new());
        for (name, kind) in ctx.fs.read_dir(&dir)? {
            let path = dir.join(name);
            let is_dir = match kind {
                FileKind::Dir => true,
                FileKind::Link => ctx.fs.stat(&path)?.is_some_and(|found| found.kind == FileKind::Dir),
                _ => false,
            };
            if is_dir { &mut dirs } else { &mut files }.push(WalkEntry { path, kind, is_dir });
        }
        count += files.len() + dirs.len();
        if count > MAX_ENTRIES {
            return Err(StateError::new(format!("more than {MAX_ENTRIES} entries below {}", top.display())));
        }
        todo.extend(
            dirs.iter().rev().filter(|e| e.kind == FileKind::Dir).map(|e| (e.path.clone(), deep + 1)),
        );
        levels.push(WalkLevel { files, dirs });
    }
    Ok(levels)
}
