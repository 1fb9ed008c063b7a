//! Where a tree's files come from: directories, a commit, the binary itself. Each is the compiler's `Files`.

mod baked;
mod dir;
mod git;
mod layout;
mod remembered;

pub use baked::{BakedFiles, starter_pillar, starter_states};
pub use dir::DirFiles;
pub use git::GitFiles;
pub use layout::{Layout, LayoutError, Source, manifest};
pub use remembered::RememberedFiles;

/// The environment that every tree has.
pub const BASE: &str = "base";
