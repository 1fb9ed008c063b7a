//! Directory in, working states repository out; or Salt tree in, report of what works out.
//!
//! Law: an existing file is never written to (held by `existing_files_are_never_written_to`).

mod git;
pub mod salt;
mod signing;
mod starter_files;

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

pub use git::GitSetup;
pub use signing::{RepositorySigner, SigningSetup};
use starter_files::{BASE_FILES, EXAMPLE_FILES, StarterFile};

/// Result of a new repository.
#[derive(Debug)]
pub struct InitResult {
    /// Files written, relative to the repository root.
    pub written: Vec<String>,
    /// Files that already existed.
    pub kept: Vec<String>,
    /// Result of the Git setup.
    pub git: GitSetup,
    /// Result of the signing setup.
    pub signing: SigningSetup,
}

impl InitResult {
    fn new() -> Self {
        let signing =
            SigningSetup::Unsigned("git is not installed, or the directory is part of a repository".into());
        Self { written: Vec::new(), kept: Vec::new(), git: GitSetup::Untouched, signing }
    }
}

/// Why the repository cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// The directory is not empty.
    #[error("`{}` is not empty: it holds `{found}`", dir.display())]
    NotEmpty {
        /// The directory.
        dir: PathBuf,
        /// One of its entries.
        found: String,
    },
    /// The path is not a directory.
    #[error("`{}` is not a directory", .0.display())]
    NotADirectory(PathBuf),
    /// The target of a copy is inside the source.
    #[error("`{}` is inside the tree `{}`", target.display(), root.display())]
    Inside {
        /// The target.
        target: PathBuf,
        /// The tree.
        root: PathBuf,
    },
    /// A file cannot be written or read.
    #[error("cannot {what} `{}`", path.display())]
    Io {
        /// The operation.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

impl InitError {
    fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { what, path, source }
    }
}

/// Creates a repository in an empty or missing directory; with `force`, also in a directory with files. Its manifest is
/// signed with the key in a file, or with a new one.
///
/// # Errors
/// Fails when the directory is not empty, and when a file cannot be written.
pub fn init_repository(dir: &Path, force: bool, key: Option<&Path>) -> Result<InitResult, InitError> {
    require_empty(dir, force)?;
    let mut result = InitResult::new();
    for file in BASE_FILES.iter().chain(EXAMPLE_FILES) {
        write_starter(dir, file, &mut result)?;
    }
    commit_signed(dir, key, &mut result);
    Ok(result)
}

/// Signs and commits what was written. Files that existed before are not committed, so a manifest that lists them would
/// be refused by every node: then their owner decides.
fn commit_signed(dir: &Path, key: Option<&Path>, result: &mut InitResult) {
    let InitResult { written, kept, git, signing } = result;
    *git = git::setup_git(dir, || {
        *signing = if kept.is_empty() {
            signing::sign_repository(dir, key, None, written)
        } else {
            SigningSetup::Unsigned("the directory had files before".into())
        };
        written.clone()
    });
}

/// A repository fresh from `git init`, or cloned empty, counts as an empty directory.
fn require_empty(dir: &Path, force: bool) -> Result<(), InitError> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => {
            return Err(InitError::NotADirectory(dir.to_owned()));
        }
        Err(e) => return Err(InitError::io("read", dir)(e)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(InitError::io("read", dir))?.file_name();
        names.extend((name != ".git").then(|| name.to_string_lossy().into_owned()));
    }
    names.sort_unstable();
    match names.into_iter().next() {
        Some(found) if !force => Err(InitError::NotEmpty { dir: dir.to_owned(), found }),
        _ => Ok(()),
    }
}

fn write_starter(dir: &Path, file: &StarterFile, result: &mut InitResult) -> Result<(), InitError> {
    let path = dir.join(file.path);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(InitError::io("create the directory", parent))?;
    }
    let mut options = fs::OpenOptions::new();
    match options.write(true).create_new(true).mode(file.mode).open(&path) {
        Ok(mut open) => {
            open.write_all(file.text.as_bytes()).map_err(InitError::io("write", &path))?;
            result.written.push(file.path.to_owned());
        }
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => result.kept.push(file.path.to_owned()),
        Err(e) => return Err(InitError::io("write", &path)(e)),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_in_the_binary_are_the_files_in_the_source() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/init/repository");
        let mut disk = Vec::new();
        let mut open = vec![root.clone()];
        while let Some(dir) = open.pop() {
            for entry in fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    open.push(path);
                } else {
                    disk.push(
                        path.strip_prefix(&root)
                            .unwrap()
                            .to_str()
                            .unwrap()
                            .replace("gitignore", ".gitignore"),
                    );
                }
            }
        }
        let mut baked: Vec<_> = BASE_FILES.iter().chain(EXAMPLE_FILES).map(|f| f.path.to_owned()).collect();
        disk.sort_unstable();
        baked.sort_unstable();
        assert_eq!(disk, baked);
    }

    #[test]
    fn existing_files_are_never_written_to() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("README.md"), "mine").unwrap();
        let refused = init_repository(dir.path(), false, None).unwrap_err();
        assert!(matches!(&refused, InitError::NotEmpty { found, .. } if found == "README.md"), "{refused}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        let result = init_repository(dir.path(), true, None).unwrap();
        assert_eq!(result.kept, ["README.md"]);
        assert_eq!(fs::read_to_string(dir.path().join("README.md")).unwrap(), "mine");
        assert!(result.written.contains(&"states/top.sls".to_owned()));
        // A link to elsewhere counts as existing.
        let other = tempfile::tempdir().unwrap();
        let aim = other.path().join("aim");
        std::os::unix::fs::symlink(&aim, other.path().join("ci.sh")).unwrap();
        assert_eq!(init_repository(other.path(), true, None).unwrap().kept, ["ci.sh"]);
        assert!(!aim.exists());
        let file = dir.path().join("README.md");
        assert!(matches!(init_repository(&file, true, None), Err(InitError::NotADirectory(_))));
    }
}
