//! A Salt tree in, a report of what will and will not work out; and a states repository made from it.
//!
//! Law: the tree is only read, and nothing on the host is run or changed for the report: `cmd.run` in a template is told,
//! not called.

mod copy;
mod examine;
mod features;
mod find;
mod report;
mod scan;
mod text;
mod union;

use std::path::PathBuf;

use zagent_config::Map;
use zagent_config::salt_config::SaltConfig;

pub use copy::{Copied, copy};
pub use examine::examine;
pub use find::{FindError, find};
pub use report::{Feature, Level, Outcome, Report, Sls, Spot, Use};
pub use text::text;

/// Directories by environment, in the order of the configuration.
pub type Roots = Vec<(String, Vec<PathBuf>)>;

/// A Salt tree: where it stands, and what its configuration says.
#[derive(Debug)]
pub struct Tree {
    /// The directory that was named.
    pub dir: PathBuf,
    /// The configuration, when there is one.
    pub config: Option<PathBuf>,
    /// All that it says, its fragments laid over it.
    pub opts: Map,
    /// What of it matters to compiling.
    pub settings: SaltConfig,
    /// The states.
    pub states: Roots,
    /// The pillar.
    pub pillar: Roots,
    /// Directories that the configuration names and that are not there.
    pub missing: Vec<PathBuf>,
}

/// True for what stands in a tree and is no part of it: Python, tests of a formula, hidden directories.
fn is_aside(path: &str) -> bool {
    let mut parts = path.split('/');
    let file = parts.next_back().unwrap_or_default();
    file.starts_with('.')
        || parts.any(|p| p.starts_with(['_', '.']) || matches!(p, "test" | "tests" | "docs"))
}
