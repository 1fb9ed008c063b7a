//! Where a tree's files come from: directories, a commit, the binary itself. Each is the compiler's `Files`.

pub mod cached;
pub mod dir;

pub use cached::CachedFiles;
pub use dir::DirFiles;
