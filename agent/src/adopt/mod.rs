//! A plan and its dry run in, what a first run would overwrite on this host out, and copies of it.
//!
//! Law: only copies are made, in a directory that must not exist before (held by `adopt_shows_and_saves_what_would_be_lost`).

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Component, Path, PathBuf};

use zagent_compiler::Plan;
use zagent_run::{RunReport, StateOutcome, StateStatus};
use zagent_states::managed::managed_things;

/// Something that is there and that a run would change.
#[derive(Clone, Debug)]
pub struct Overwrite<'r> {
    /// The state.
    pub outcome: &'r StateOutcome,
    /// The files and links that it would change or remove, and directories that it would take away; empty for what is no
    /// file.
    pub paths: Vec<PathBuf>,
}

/// What a run would change that is there already, in the order of the run.
#[must_use]
pub fn overwrites<'r>(plan: &Plan, report: &'r RunReport) -> Vec<Overwrite<'r>> {
    let declared: BTreeMap<String, Vec<PathBuf>> =
        plan.chunks.iter().map(|chunk| (chunk.tag(), declared_paths(chunk))).collect();
    let would_change =
        |outcome: &&StateOutcome| matches!(outcome.status(), StateStatus::WouldChange | StateStatus::Unknown);
    let changing = report.states.iter().filter(would_change);
    let found = changing.filter_map(|outcome| {
        let mut paths = declared.get(&outcome.tag).cloned().unwrap_or_default();
        let named = outcome.changes.iter().filter_map(|(key, _)| key.as_str());
        paths.extend(named.filter(|key| key.starts_with('/')).map(PathBuf::from));
        paths.sort();
        paths.dedup();
        let is_about_files = !paths.is_empty();
        let goes = |path: &Path| takes_directory_away(outcome, path);
        paths.retain(|path| fs::symlink_metadata(path).is_ok_and(|meta| !meta.is_dir() || goes(path)));
        (!is_about_files || !paths.is_empty()).then_some(Overwrite { outcome, paths })
    });
    found.collect()
}

/// True when a state puts nothing, a link or a file in the place of a directory: all that is in it goes. A state that
/// manages a directory changes only its owner and mode, or names the files in it that it changes.
fn takes_directory_away(outcome: &StateOutcome, path: &Path) -> bool {
    outcome.state == "file"
        && !matches!(outcome.fun.as_str(), "directory" | "recurse")
        && Path::new(&outcome.name).components().eq(path.components())
}

fn declared_paths(chunk: &zagent_compiler::Chunk) -> Vec<PathBuf> {
    let managed = managed_things(chunk).into_iter().filter(|managed| managed.thing.is_path());
    let mut paths: Vec<PathBuf> = managed.map(|managed| PathBuf::from(managed.thing.name)).collect();
    if (&*chunk.state, &*chunk.fun) == ("file", "absent") {
        paths.push(PathBuf::from(zagent_compiler::name_text(&chunk.name)));
    }
    paths
}

/// Copies files, links and directories with all that is in them below a new directory, at the paths that they have on the host. Says how many.
///
/// # Errors
/// Fails when the directory exists or something cannot be copied, with its path.
pub fn back_up(overwrites: &[Overwrite<'_>], dir: &Path) -> Result<usize, (PathBuf, io::Error)> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error| (path, error)
    };
    // Old contents may be secret.
    fs::create_dir(dir).map_err(failed(dir))?;
    fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).map_err(failed(dir))?;
    let mut count = 0;
    for path in overwrites.iter().flat_map(|one| &one.paths) {
        count += copy(path, dir).map_err(failed(path))?;
    }
    Ok(count)
}

/// Copies what stands at a path, with owner and mode; says how many files and links that are.
fn copy(path: &Path, dir: &Path) -> io::Result<usize> {
    let below: PathBuf = path.components().filter(|part| matches!(part, Component::Normal(_))).collect();
    let target = dir.join(below);
    if let Some(parent) = target.parent() {
        fs::create_dir_all(parent)?;
    }
    let mut count = 0;
    copy_entry(path, &target, (dir, &mut count))?;
    Ok(count)
}

/// Copies an entry, and what is in a directory; what was copied already stays.
fn copy_entry(path: &Path, target: &Path, (dir, count): (&Path, &mut usize)) -> io::Result<()> {
    let meta = fs::symlink_metadata(path)?;
    if meta.is_dir() {
        // The copies may lie inside of what is copied.
        if fs::canonicalize(path)? == fs::canonicalize(dir)? {
            return Ok(());
        }
        if fs::symlink_metadata(target).is_err() {
            fs::create_dir(target)?;
        }
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            copy_entry(&entry.path(), &target.join(entry.file_name()), (dir, &mut *count))?;
        }
        chown(target, Some(meta.uid()), Some(meta.gid()))?;
        return fs::set_permissions(target, meta.permissions());
    }
    if fs::symlink_metadata(target).is_err() {
        *count += usize::from(copy_leaf(path, target, &meta)?);
    }
    Ok(())
}

/// Copies a file or a link; false for pipes, sockets and devices.
fn copy_leaf(path: &Path, target: &Path, meta: &fs::Metadata) -> io::Result<bool> {
    if meta.is_symlink() {
        symlink(fs::read_link(path)?, target)?;
        lchown(target, Some(meta.uid()), Some(meta.gid()))?;
        return Ok(true);
    }
    if !meta.is_file() {
        return Ok(false);
    }
    fs::copy(path, target)?;
    chown(target, Some(meta.uid()), Some(meta.gid()))?;
    fs::set_permissions(target, meta.permissions())?;
    Ok(true)
}
