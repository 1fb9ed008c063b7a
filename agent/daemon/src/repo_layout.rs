//! States repository in, location of its trees out: `roots:` of the manifest, `states/` and `pillar/`, or a
//! flat tree.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use zagent_cache::CommitTree;
use zagent_compiler::FileTree;
use zagent_config::Diagnostics;
use zagent_config::manifest::{Manifest, ManifestRoots};
use zagent_config::paths::tree;

use crate::git_tree::GitFiles;
use zagent_states::file_tree::DirFiles;

/// A repository: on disk, or at a commit.
#[derive(Clone)]
pub enum RepoSource {
    /// A directory.
    Dir(PathBuf),
    /// A commit's tree.
    Commit(Arc<CommitTree>),
}

/// Location of the trees, relative to the repository root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepoLayout {
    /// The states.
    pub states: String,
    /// The pillar.
    pub pillar: String,
}

/// Why a directory is not a states repository.
#[derive(Debug, thiserror::Error)]
pub enum RepoLayoutError {
    /// Nothing that looks like states.
    #[error("`{0}` holds no states: neither `states/top.sls` nor `top.sls` nor a manifest with `roots:`")]
    NoStates(String),
    /// The manifest cannot be read.
    #[error("cannot read `{path}`: {why}")]
    Manifest {
        /// Its path.
        path: String,
        /// What is wrong.
        why: String,
    },
    /// The manifest has errors.
    #[error("{0}")]
    Faults(Diagnostics),
}

impl RepoSource {
    /// Content of a file; `None` when it does not exist.
    ///
    /// # Errors
    /// Fails when the file exists and cannot be read.
    pub fn read(&self, path: &str) -> Result<Option<Vec<u8>>, String> {
        match self {
            Self::Dir(root) => {
                DirFiles::base(root).read(zagent_compiler::BASE_ENV, path).map(|b| b.map(|b| b.to_vec()))
            }
            Self::Commit(commit) => commit.read(path).map_err(|e| zagent_config::error_chain(&e)),
        }
    }

    /// Files directly in a directory, by name, sorted.
    ///
    /// # Errors
    /// Fails when the directory exists and cannot be read.
    pub fn list_names(&self, dir: &str) -> Result<Vec<String>, String> {
        let list = self.files(dir).list(zagent_compiler::BASE_ENV)?;
        Ok(list.iter().filter(|name| !name.contains('/')).cloned().collect())
    }

    /// One of its directories as a file tree.
    #[must_use]
    pub fn files(&self, dir: &str) -> Arc<dyn FileTree> {
        match self {
            Self::Dir(root) => Arc::new(DirFiles::base(join_dir(root, dir)).below(root)),
            Self::Commit(tree) => Arc::new(GitFiles::new(Arc::clone(tree), dir)),
        }
    }

    /// True when the file exists.
    #[must_use]
    pub fn has(&self, path: &str) -> bool {
        match self {
            Self::Dir(root) => root.join(path).is_file(),
            Self::Commit(tree) => tree.contains(path),
        }
    }

    /// Display name.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Dir(root) => root.display().to_string(),
            Self::Commit(tree) => zagent_config::ids::short_revision(tree.commit_id()).to_owned(),
        }
    }
}

/// A directory below another, without dots that would clutter messages.
fn join_dir(root: &Path, dir: &str) -> PathBuf {
    let whole = root.join(dir);
    let plain: PathBuf = whole.components().filter(|c| *c != std::path::Component::CurDir).collect();
    if plain.as_os_str().is_empty() { PathBuf::from(".") } else { plain }
}

impl RepoLayout {
    /// Finds the trees of a repository.
    ///
    /// # Errors
    /// Fails when nothing looks like states, or the manifest is invalid.
    pub fn find(source: &RepoSource) -> Result<Self, RepoLayoutError> {
        if let Some(layout) =
            read_manifest(source)?.and_then(|manifest| Self::from_manifest(source, &manifest))
        {
            return Ok(layout);
        }
        let pillar = "pillar".to_owned();
        if source.has("states/top.sls") {
            return Ok(Self { states: "states".into(), pillar });
        }
        if source.has("salt/top.sls") {
            return Ok(Self { states: "salt".into(), pillar });
        }
        if source.has("top.sls") {
            return Ok(Self { states: ".".into(), pillar });
        }
        // States without a top file are a tree too: `--sls` selects what to compile.
        match source {
            RepoSource::Dir(root) if root.join("states").is_dir() => {
                Ok(Self { states: "states".into(), pillar })
            }
            RepoSource::Commit(tree) if tree.list().any(|p| p.starts_with("states/")) => {
                Ok(Self { states: "states".into(), pillar })
            }
            _ => Err(RepoLayoutError::NoStates(source.name())),
        }
    }

    fn from_manifest(source: &RepoSource, manifest: &Manifest) -> Option<Self> {
        let ManifestRoots { states, pillar } = &manifest.roots;
        if states.is_none() && pillar.is_none() {
            return None;
        }
        let root = |said: &Option<String>, default: &str| said.clone().unwrap_or_else(|| default.to_owned());
        // A moved pillar says nothing about the location of the states.
        let states = match states {
            None if !source.has("states/top.sls") && source.has("top.sls") => ".".to_owned(),
            said => root(said, tree::STATES),
        };
        Some(Self { states, pillar: root(pillar, tree::PILLAR) })
    }
}

/// True for the top of a states repository: it holds a manifest, or `states/top.sls`. A directory with a `top.sls` of its
/// own and no manifest is a states tree.
#[must_use]
pub fn is_repository(dir: &Path) -> bool {
    let has = |path: &str| dir.join(path).is_file();
    has(tree::MANIFEST) || has("states/top.sls") && !has("top.sls")
}

/// The states repository that holds a directory: the directory itself, or the nearest one above it.
#[must_use]
pub fn enclosing_repository(dir: &Path) -> Option<&Path> {
    dir.ancestors().find(|dir| is_repository(dir))
}

/// Manifest of a repository, when there is one.
///
/// # Errors
/// Fails when it exists and cannot be read or parsed.
pub fn read_manifest(source: &RepoSource) -> Result<Option<Manifest>, RepoLayoutError> {
    let path = Path::new(&source.name()).join(tree::MANIFEST).display().to_string();
    let broken = |why: String| RepoLayoutError::Manifest { path: path.clone(), why };
    let Some(bytes) = source.read(tree::MANIFEST).map_err(broken)? else { return Ok(None) };
    Manifest::read(&path, &bytes).map(Some).map_err(RepoLayoutError::Faults)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Result<RepoLayout, RepoLayoutError> {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let full = dir.path().join(path);
            std::fs::create_dir_all(full.parent().unwrap()).unwrap();
            std::fs::write(full, text).unwrap();
        }
        RepoLayout::find(&RepoSource::Dir(dir.path().into()))
    }

    #[test]
    fn trees_are_found_in_every_layout() {
        let layout = |states: &str, pillar: &str| RepoLayout { states: states.into(), pillar: pillar.into() };
        assert_eq!(found(&[("states/top.sls", "")]).unwrap(), layout("states", "pillar"));
        assert_eq!(found(&[("top.sls", ""), ("pillar/top.sls", "")]).unwrap(), layout(".", "pillar"));
        assert_eq!(found(&[("states/web.sls", "")]).unwrap(), layout("states", "pillar"));
        let manifest = "schema: 1\nroots: {states: srv/salt, pillar: srv/pillar}\n";
        assert_eq!(found(&[("manifest.yaml", manifest)]).unwrap(), layout("srv/salt", "srv/pillar"));
        assert_eq!(
            found(&[("manifest.yaml", "schema: 1\n"), ("top.sls", "")]).unwrap(),
            layout(".", "pillar")
        );
    }

    #[test]
    fn a_repository_is_found_from_below() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().join("repo");
        let deep = top.join("states/web/files");
        std::fs::create_dir_all(&deep).unwrap();
        let found = || enclosing_repository(&deep).map(Path::to_owned);
        assert_eq!(found(), None);
        std::fs::write(top.join("states/top.sls"), "").unwrap();
        assert_eq!(found(), Some(top.clone()));
        std::fs::write(top.join("top.sls"), "").unwrap();
        assert_eq!(found(), None, "a tree with an SLS directory `states`");
        std::fs::write(top.join("manifest.yaml"), "schema: 1\n").unwrap();
        assert_eq!(found(), Some(top));
    }

    #[test]
    fn a_missing_repository_is_reported() {
        assert!(matches!(found(&[("readme", "")]), Err(RepoLayoutError::NoStates(_))));
        for manifest in ["schema: 1\nroots: {states: ../x}\n", "a: [", "schema: 1\nsurprise: 1\n"] {
            assert!(
                matches!(found(&[("manifest.yaml", manifest)]), Err(RepoLayoutError::Faults(_))),
                "{manifest}"
            );
        }
    }
}
