//! Errors while reading a tree from a repository.

use std::path::PathBuf;

/// A failed operation on a repository; the cause is in `source`.
#[derive(Debug, thiserror::Error)]
pub enum RepositoryError {
    /// The repository does not exist.
    #[error("`{dir}` is not in a Git repository")]
    NoRepository {
        /// The directory that was searched.
        dir: PathBuf,
        /// The Git library error.
        #[source]
        source: Box<gix::Error>,
    },
    /// The directory is outside the repository's work tree.
    #[error("`{dir}` is outside the work tree of its repository")]
    Outside {
        /// The directory.
        dir: PathBuf,
    },
    /// A path could not be resolved.
    #[error("cannot resolve `{path}`")]
    Resolve {
        /// The path.
        path: PathBuf,
        /// The operating system error.
        #[source]
        source: std::io::Error,
    },
    /// No commit has that name.
    #[error("no commit matches `{revision}`")]
    Revision {
        /// The revision as written.
        revision: String,
        /// The Git library error.
        #[source]
        source: Box<gix::Error>,
    },
    /// The store cannot be written or locked.
    #[error("cannot use `{dir}` as a Git object store")]
    Store {
        /// The store.
        dir: PathBuf,
        /// The operating system error.
        #[source]
        source: std::io::Error,
    },
    /// A commit that cannot be used.
    #[error("commit {revision} cannot be used: {why}")]
    Commit {
        /// Its id.
        revision: String,
        /// Why.
        why: String,
    },
    /// An object is missing or damaged.
    #[error("cannot read `{path}` at {commit}")]
    Object {
        /// The path in the tree.
        path: String,
        /// The commit.
        commit: String,
        /// The Git library error.
        #[source]
        source: Box<gix::Error>,
    },
    /// The content of a file cannot be written.
    #[error("cannot copy `{path}`")]
    Copy {
        /// The path in the tree.
        path: String,
        /// The operating system error.
        #[source]
        source: std::io::Error,
    },
    /// The bytes of an object do not hash to its id.
    #[error("object {id} of `{path}` is damaged")]
    Damaged {
        /// The path in the tree.
        path: String,
        /// Its id.
        id: String,
    },
    /// A refused name.
    #[error("the tree contains a refused name: {name:?} ({why})")]
    Name {
        /// The path, as far as it is valid text.
        name: String,
        /// Why.
        why: &'static str,
    },
    /// A symlink with a refused target.
    #[error("the symlink `{path}` has a refused target ({why})")]
    Target {
        /// The link.
        path: String,
        /// Why.
        why: &'static str,
    },
    /// Two entries with the same name.
    #[error("the tree contains `{path}` twice")]
    Duplicate {
        /// The path in the tree.
        path: String,
    },
    /// An entry that is neither a file, a directory nor a symlink.
    #[error("`{path}` is a {kind}; only files, directories and symlinks are allowed")]
    Special {
        /// The path in the tree.
        path: String,
        /// What it is.
        kind: &'static str,
    },
    /// A submodule, whose files are not in this repository.
    #[error(
        "`{path}` is a submodule, and nodes cannot read submodules; copy its files into the repository (git subtree)"
    )]
    Submodule {
        /// The path in the tree.
        path: String,
    },
    /// A symlink that points outside the tree.
    #[error("the symlink `{path}` points outside the tree, to `{target}`")]
    Link {
        /// The link.
        path: String,
        /// Where it points.
        target: String,
    },
    /// A symlink loop, or too many nested symlinks.
    #[error("the tree has too many nested symlinks or a symlink loop; one of them is `{path}`")]
    LinkLoop {
        /// One of the symlinks.
        path: String,
    },
    /// A file that is too large.
    #[error("`{path}` has {size} bytes, and the limit is {limit}")]
    TooLarge {
        /// The path in the tree.
        path: String,
        /// Its size.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// All files together are too large.
    #[error("the files in the tree exceed the total limit of {limit} bytes")]
    TooMuch {
        /// The limit.
        limit: u64,
    },
    /// More files than allowed.
    #[error("the tree contains more than {limit} files or directories")]
    TooMany {
        /// The limit.
        limit: usize,
    },
    /// Directories nested too deeply.
    #[error("`{path}` is nested more than {limit} directories deep")]
    TooDeep {
        /// The path in the tree.
        path: String,
        /// The limit.
        limit: usize,
    },
}

impl RepositoryError {
    /// The refusal code when the tree itself is refused; `None` when it could not be read.
    #[must_use]
    pub fn refusal_code(&self) -> Option<&'static str> {
        Some(match self {
            Self::Name { .. } => "name",
            Self::Link { .. } | Self::Target { .. } | Self::LinkLoop { .. } => "link",
            Self::Duplicate { .. } => "duplicate",
            Self::Special { .. } => "special",
            Self::Submodule { .. } => "submodule",
            Self::TooLarge { .. } => "too-large",
            Self::TooMuch { .. } => "too-much",
            Self::TooMany { .. } => "too-many",
            Self::TooDeep { .. } => "too-deep",
            Self::NoRepository { .. }
            | Self::Outside { .. }
            | Self::Resolve { .. }
            | Self::Revision { .. }
            | Self::Store { .. }
            | Self::Commit { .. }
            | Self::Object { .. }
            | Self::Copy { .. }
            | Self::Damaged { .. } => return None,
        })
    }
}
