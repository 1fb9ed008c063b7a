//! Why a tree could not be read.

use std::path::PathBuf;

/// A failed act on a repository; the cause is in `source`.
#[derive(Debug, thiserror::Error)]
pub enum RepositoryError {
    /// There is no repository there.
    #[error("`{dir}` is not in a Git repository")]
    NoRepository {
        /// Where it was looked for.
        dir: PathBuf,
        /// What the Git library said.
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
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// No commit by that name.
    #[error("no commit matches `{revision}`")]
    Revision {
        /// As it was written.
        revision: String,
        /// What the Git library said.
        #[source]
        source: Box<gix::Error>,
    },
    /// The store cannot be written or locked.
    #[error("cannot use `{dir}` as a Git object store")]
    Store {
        /// The store.
        dir: PathBuf,
        /// What the system said.
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
        /// What the Git library said.
        #[source]
        source: Box<gix::Error>,
    },
    /// The bytes of an object do not hash to its id.
    #[error("object {id} of `{path}` is damaged")]
    Damaged {
        /// The path in the tree.
        path: String,
        /// Its id.
        id: String,
    },
    /// A name that is refused.
    #[error("the tree contains a refused name: {name:?} ({why})")]
    Name {
        /// The path, as far as it is text.
        name: String,
        /// Why.
        why: &'static str,
    },
    /// The target of a symbolic link that is refused.
    #[error("the symlink `{path}` has a refused target ({why})")]
    Target {
        /// The link.
        path: String,
        /// Why.
        why: &'static str,
    },
    /// Two entries of one name.
    #[error("the tree contains `{path}` twice")]
    Duplicate {
        /// The path in the tree.
        path: String,
    },
    /// What is neither a file nor a directory nor a link.
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
    /// A symbolic link that leaves the tree.
    #[error("the symlink `{path}` points outside the tree, to `{target}`")]
    Link {
        /// The link.
        path: String,
        /// Where it points.
        target: String,
    },
    /// Links that lead over each other again and again.
    #[error("the tree has too many nested symlinks or a symlink loop; one of them is `{path}`")]
    LinkLoop {
        /// One of them.
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
    /// The word of the cause when the tree itself is at fault; `None` when it could not be read.
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
            | Self::Damaged { .. } => return None,
        })
    }
}
