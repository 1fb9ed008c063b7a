//! Where a tree's files come from: directories, a commit, the binary itself. Each is the compiler's `Files`.

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
