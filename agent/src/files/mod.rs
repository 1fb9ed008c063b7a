//! Sources of a tree's files: directories, a commit, the binary itself. Each is a `FileTree` of the compiler.

mod cached;
mod dir;
mod embedded;
mod git;
mod repo_layout;

pub use cached::CachedFiles;
pub use dir::DirFiles;
pub use embedded::{EmbeddedFiles, starter_pillar, starter_states};
pub use git::GitFiles;
pub use repo_layout::{RepoLayout, RepoLayoutError, RepoSource, read_manifest};

/// Environment that every tree has.
pub const BASE: &str = "base";
