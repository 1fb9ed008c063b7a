//! A directory in, the repository that contains it out.

use std::path::{Path, PathBuf};

use crate::{CacheLimits, CommitTree, RepositoryError};

/// A repository, and the requested part of it.
pub struct GitRepository {
    inner: gix::ThreadSafeRepository,
    prefix: String,
}

impl GitRepository {
    /// Finds the repository that contains `dir`; trees then start at `dir`.
    ///
    /// # Errors
    /// Fails when no repository contains it.
    pub fn discover(dir: &Path) -> Result<Self, RepositoryError> {
        let dir =
            dir.canonicalize().map_err(|source| RepositoryError::Resolve { path: dir.into(), source })?;
        let inner = gix::ThreadSafeRepository::discover(&dir)
            .map_err(|source| RepositoryError::NoRepository { dir: dir.clone(), source: Box::new(source) })?;
        let prefix = path_prefix(&inner, &dir)?;
        Ok(Self { inner, prefix })
    }

    /// The files of the commit that `revision` names: a branch, a tag, an id, `HEAD~1`.
    ///
    /// # Errors
    /// Fails when the commit does not exist, or its tree is refused.
    pub fn read_tree(&self, revision: &str, limits: CacheLimits) -> Result<CommitTree, RepositoryError> {
        CommitTree::open(&self.inner, revision, &self.prefix, limits)
    }

    /// The requested directory, relative to the root of the repository; empty for the root.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }
}

/// The path of `dir` from the root of the work tree; empty in a bare repository.
fn path_prefix(repo: &gix::ThreadSafeRepository, dir: &Path) -> Result<String, RepositoryError> {
    let local = repo.to_thread_local();
    let Some(work) = local.workdir() else {
        return Ok(String::new());
    };
    let work = work
        .canonicalize()
        .map_err(|source| RepositoryError::Resolve { path: PathBuf::from(work), source })?;
    let inside = dir.strip_prefix(&work).map_err(|_| RepositoryError::Outside { dir: dir.into() })?;
    let parts: Option<Vec<&str>> = inside.components().map(|c| c.as_os_str().to_str()).collect();
    parts.map(|p| p.join("/")).ok_or_else(|| RepositoryError::Outside { dir: dir.into() })
}
