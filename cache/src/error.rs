//! Why a tree could not be read.

use std::path::PathBuf;

/// A failed act on a repository; the cause is in `source`.
#[derive(Debug, thiserror::Error)]
pub enum Error {
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
    /// A symbolic link that leaves the tree.
    #[error("the link `{path}` leaves the tree: it points at `{target}`")]
    Link {
        /// The link.
        path: String,
        /// Where it points.
        target: String,
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
    /// More files than allowed.
    #[error("the tree holds more than {limit} files")]
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
