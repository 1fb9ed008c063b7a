//! A directory in, the repository that holds it out.

use std::path::{Path, PathBuf};

use crate::{Error, Limits, Tree};

/// A repository, and the part of it that was asked for.
pub struct Repository {
    inner: gix::ThreadSafeRepository,
    prefix: String,
}

impl Repository {
    /// Finds the repository that holds `dir`; trees are then seen from `dir` on.
    ///
    /// # Errors
    /// Fails when no repository holds it.
    pub fn discover(dir: &Path) -> Result<Self, Error> {
        let dir = dir.canonicalize().map_err(|source| Error::Resolve { path: dir.into(), source })?;
        let inner = gix::ThreadSafeRepository::discover(&dir)
            .map_err(|source| Error::NoRepository { dir: dir.clone(), source: Box::new(source) })?;
        let prefix = prefix(&inner, &dir)?;
        Ok(Self { inner, prefix })
    }

    /// The files of the commit that `revision` names: a branch, a tag, an id, `HEAD~1`.
    ///
    /// # Errors
    /// Fails when there is no such commit, or its tree is refused.
    pub fn tree(&self, revision: &str, limits: Limits) -> Result<Tree, Error> {
        Tree::open(&self.inner, revision, &self.prefix, limits)
    }

    /// The directory that was asked for, from the root of the repository; empty for the root.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }
}

/// The path of `dir` from the root of the work tree; a bare repository has no inside.
fn prefix(repo: &gix::ThreadSafeRepository, dir: &Path) -> Result<String, Error> {
    let local = repo.to_thread_local();
    let Some(work) = local.workdir() else {
        return Ok(String::new());
    };
    let work = work.canonicalize().map_err(|source| Error::Resolve { path: PathBuf::from(work), source })?;
    let inside = dir.strip_prefix(&work).map_err(|_| Error::Outside { dir: dir.into() })?;
    let parts: Option<Vec<&str>> = inside.components().map(|c| c.as_os_str().to_str()).collect();
    parts.map(|p| p.join("/")).ok_or_else(|| Error::Outside { dir: dir.into() })
}
