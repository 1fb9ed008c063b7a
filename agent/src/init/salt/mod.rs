//! A Salt tree in, a report of what will and will not work out; and a states repository made from it.
//!
//! Law: the tree is only read, and nothing on the host is run or changed for the report: `cmd.run` in a template is told,
//! not called.

mod copy;
mod examine;
mod features;
mod find;
mod report;
mod report_text;
mod scan;
mod union_files;

use std::path::PathBuf;

use zagent_config::Map;
use zagent_config::salt_config::SaltConfig;

pub use copy::{CopySummary, copy_tree};
pub use examine::examine_tree;
pub use find::{FindTreeError, find_tree};
pub use report::{FunctionUse, SaltFeature, SaltReport, SaltSpot, SlsOutcome, SlsReport, SupportLevel};
pub use report_text::report_text;

/// Directories by environment, in the order of the configuration.
pub type SaltRoots = Vec<(String, Vec<PathBuf>)>;

/// A Salt tree: where it stands, and what its configuration says.
#[derive(Debug)]
pub struct SaltTree {
    /// The directory that was named.
    pub dir: PathBuf,
    /// The configuration, when there is one.
    pub config: Option<PathBuf>,
    /// All that it says, its fragments laid over it.
    pub opts: Map,
    /// What of it matters to compiling.
    pub settings: SaltConfig,
    /// The states.
    pub states: SaltRoots,
    /// The pillar.
    pub pillar: SaltRoots,
    /// Directories that the configuration names and that are not there.
    pub missing: Vec<PathBuf>,
}

/// True for what stands in a tree and is no part of it: Python, tests of a formula, hidden directories.
fn is_ignored(path: &str) -> bool {
    let mut parts = path.split('/');
    let file = parts.next_back().unwrap_or_default();
    file.starts_with('.')
        || parts.any(|p| p.starts_with(['_', '.']) || matches!(p, "test" | "tests" | "docs"))
}
