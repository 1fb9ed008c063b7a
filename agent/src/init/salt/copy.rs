//! Salt tree in, states repository with its files out: `states/`, `pillar/`, and `environments/NAME/` for
//! other environments.
//!
//! Law: the tree is only read; links are copied as links when they stay inside the tree, otherwise skipped and
//! reported (held by `a_salt_tree_is_assessed_and_copied_and_stays_unchanged`).

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

use zagent_config::settings::RunSchedule;

use super::SaltTree;
use crate::init::{
    GitSetup, InitError, InitResult, SigningSetup, git, require_empty, signing, starter_files, write_starter,
};
use zagent_compiler::BASE_ENV;

/// Version control directories, which are not part of a tree.
const VCS_DIRS: [&str; 3] = [".git", ".svn", ".hg"];
/// Maximum directory depth of a copy.
const MAX_DEPTH: usize = 64;

/// Result of a copy.
#[derive(Debug)]
pub struct CopySummary {
    /// Number of files written.
    pub files: usize,
    /// What was skipped, and why.
    pub skipped: Vec<String>,
    /// Environments other than `base`, for `environments:` in zagent.yaml.
    pub environments: Vec<String>,
    /// Result of the Git setup.
    pub git: GitSetup,
    /// Result of the signing setup.
    pub signing: SigningSetup,
}

/// Writes a states repository from a tree.
///
/// # Errors
/// Fails when the target is not empty or is inside the tree, and when a file cannot be copied.
pub fn copy_tree(tree: &SaltTree, target: &Path) -> Result<CopySummary, InitError> {
    require_empty(target, false)?;
    require_separate(tree, target)?;
    let mut work = TreeCopy { files: 0, skipped: Vec::new() };
    let mut environments = Vec::new();
    let all = tree.states.iter().chain(&tree.pillar).flat_map(|(_, dirs)| dirs);
    let others: Vec<PathBuf> = all.filter_map(|dir| dir.canonicalize().ok()).collect();
    for (roots, name) in [(&tree.states, "states"), (&tree.pillar, "pillar")] {
        for (env, dirs) in roots {
            if env != BASE_ENV && !environments.contains(env) {
                environments.push(env.clone());
            }
            let into =
                if env == BASE_ENV { target.to_owned() } else { target.join("environments").join(env) };
            work.copy_roots(dirs, &into.join(name), &others)?;
        }
    }
    let mut result = InitResult::new();
    for file in starter_files::BASE_FILES {
        write_starter(target, file, &mut result)?;
    }
    let git = git::setup_git(target, || {
        // Salt trees lean on the order that they are written in.
        let schedule = Some(RunSchedule::Declared);
        result.signing = signing::sign_repository(target, None, schedule, &mut result.written);
        vec![".".to_owned()]
    });
    Ok(CopySummary { files: work.files, skipped: work.skipped, environments, git, signing: result.signing })
}

/// A copy into the tree itself would change it and never end.
fn require_separate(tree: &SaltTree, target: &Path) -> Result<(), InitError> {
    let whole = std::path::absolute(target).map_err(InitError::io("find", target))?;
    let nearest = whole.ancestors().find(|p| p.exists()).unwrap_or(&whole);
    let real = nearest.canonicalize().map_err(InitError::io("find", nearest))?;
    for root in tree.states.iter().chain(&tree.pillar).flat_map(|(_, dirs)| dirs) {
        let root = root.canonicalize().map_err(InitError::io("find", root))?;
        if real.starts_with(&root) {
            return Err(InitError::Inside { target: target.to_owned(), root });
        }
    }
    Ok(())
}

struct TreeCopy {
    files: usize,
    skipped: Vec<String>,
}

impl TreeCopy {
    /// The first directory that has a file wins, as in Salt.
    fn copy_roots(&mut self, dirs: &[PathBuf], into: &Path, others: &[PathBuf]) -> Result<(), InitError> {
        for dir in dirs {
            let root = dir.canonicalize().map_err(InitError::io("find", dir))?;
            self.copy_dir(&CopyWalk { root: &root, others }, &root, into, 0)?;
        }
        Ok(())
    }

    fn copy_dir(
        &mut self,
        walk: &CopyWalk<'_>,
        from: &Path,
        into: &Path,
        depth: usize,
    ) -> Result<(), InitError> {
        if depth > MAX_DEPTH {
            self.skipped.push(format!("{}: nested too deeply", from.display()));
            return Ok(());
        }
        fs::create_dir_all(into).map_err(InitError::io("create the directory", into))?;
        let mut entries = Vec::new();
        for entry in fs::read_dir(from).map_err(InitError::io("read", from))? {
            entries.push(entry.map_err(InitError::io("read", from))?);
        }
        zagent_config::sorted::sort_by_key(&mut entries, fs::DirEntry::file_name);
        for entry in entries {
            let (path, to) = (entry.path(), into.join(entry.file_name()));
            let kind = entry.file_type().map_err(InitError::io("read", &path))?;
            if kind.is_dir() {
                let hidden = VCS_DIRS.iter().any(|h| entry.file_name() == *h);
                if !hidden && !walk.is_other_root(&path) {
                    self.copy_dir(walk, &path, &to, depth + 1)?;
                }
            } else if kind.is_file() {
                self.copy_file(&path, &to)?;
            } else if kind.is_symlink() {
                self.copy_link(walk.root, &path, &to)?;
            } else {
                self.skipped.push(format!("{}: neither a file nor a directory", path.display()));
            }
        }
        Ok(())
    }

    fn copy_file(&mut self, from: &Path, to: &Path) -> Result<(), InitError> {
        if to.symlink_metadata().is_ok() {
            self.skipped.push(format!("{}: an earlier root has the same file", from.display()));
            return Ok(());
        }
        fs::copy(from, to).map_err(InitError::io("copy", from))?;
        let mode =
            if from.metadata().is_ok_and(|m| m.permissions().mode() & 0o100 != 0) { 0o755 } else { 0o644 };
        fs::set_permissions(to, fs::Permissions::from_mode(mode)).map_err(InitError::io("write", to))?;
        self.files += 1;
        Ok(())
    }

    fn copy_link(&mut self, root: &Path, from: &Path, to: &Path) -> Result<(), InitError> {
        let aim = fs::read_link(from).map_err(InitError::io("read", from))?;
        let stays = !aim.is_absolute()
            && from.canonicalize().is_ok_and(|real| real.starts_with(root))
            && aim.components().all(|c| !matches!(c, Component::Prefix(_) | Component::RootDir));
        if !stays || to.symlink_metadata().is_ok() {
            self.skipped.push(format!("{}: a link that leaves its tree, or already exists", from.display()));
            return Ok(());
        }
        symlink(&aim, to).map_err(InitError::io("write", to))?;
        self.files += 1;
        Ok(())
    }
}

struct CopyWalk<'w> {
    root: &'w Path,
    others: &'w [PathBuf],
}

impl CopyWalk<'_> {
    /// A root inside another root is copied once.
    fn is_other_root(&self, dir: &Path) -> bool {
        self.others.iter().any(|other| other == dir && other != self.root)
    }
}
