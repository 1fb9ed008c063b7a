//! Why a tree could not be read.

use std::path::PathBuf;

/// A failed act on a repository; the cause is in `source`.
#[derive(Debug, thiserror::Error)]
pub enum RepositoryError {
    /// There is no repository there.
    #[error("no Git repository holds `{dir}`")]
    NoRepository {
        /// Where it was looked for.
        dir: PathBuf,
        /// What the Git library said.
        #[source]
        source: Box<gix::Error>,
    },
    /// The directory is outside the repository's work tree.
    #[error("`{dir}` does not lie in the work tree of its repository")]
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
    #[error("`{revision}` names no commit")]
    Revision {
        /// As it was written.
        revision: String,
        /// What the Git library said.
        #[source]
        source: Box<gix::Error>,
    },
    /// The store cannot be written or locked.
    #[error("cannot use `{dir}` as a store of Git objects")]
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
    #[error("the tree holds a name that is refused: {name:?} ({why})")]
    Name {
        /// The path, as far as it is text.
        name: String,
        /// Why.
        why: &'static str,
    },
    /// The target of a symbolic link that is refused.
    #[error("the link `{path}` has a target that is refused ({why})")]
    Target {
        /// The link.
        path: String,
        /// Why.
        why: &'static str,
    },
    /// Two entries of one name.
    #[error("the tree holds `{path}` twice")]
    Duplicate {
        /// The path in the tree.
        path: String,
    },
    /// What is neither a file nor a directory nor a link.
    #[error("`{path}` is a {kind}; only files, directories and links can be states")]
    Special {
        /// The path in the tree.
        path: String,
        /// What it is.
        kind: &'static str,
    },
    /// A submodule, whose files are not in this repository.
    #[error(
        "`{path}` is a submodule, whose files the node cannot see; copy them into the repository (git subtree)"
    )]
    Submodule {
        /// The path in the tree.
        path: String,
    },
    /// A symbolic link that leaves the tree.
    #[error("the link `{path}` leaves the tree: it points at `{target}`")]
    Link {
        /// The link.
        path: String,
        /// Where it points.
        target: String,
    },
    /// Links that lead over each other again and again.
    #[error("the links of the tree lead over each other too often to be followed; one of them is `{path}`")]
    LinkLoop {
        /// One of them.
        path: String,
    },
    /// A file that is too large.
    #[error("`{path}` has {size} bytes, more than the {limit} that are allowed")]
    TooLarge {
        /// The path in the tree.
        path: String,
        /// Its size.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// All files together are too large.
    #[error("the files of the tree have more than the {limit} bytes that are allowed together")]
    TooMuch {
        /// The limit.
        limit: u64,
    },
    /// More files than allowed.
    #[error("the tree holds more than {limit} files or directories")]
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
