//! Salt tree in, report of what works and what does not out; also creates a states repository from it.
//!
//! Law: the tree is only read, and the report runs and changes nothing on the host: `cmd.run` in a template is
//! reported, not called (held by `a_salt_tree_is_assessed_and_copied_and_stays_unchanged`).

mod copy;
mod examine;
mod features;
mod find;
mod pillar_example;
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

/// A Salt tree: its location and its configuration.
#[derive(Debug)]
pub struct SaltTree {
    /// The given directory.
    pub dir: PathBuf,
    /// Configuration, when there is one.
    pub config: Option<PathBuf>,
    /// All its options, with fragments applied.
    pub opts: Map,
    /// Its options that affect compiling.
    pub settings: SaltConfig,
    /// The states.
    pub states: SaltRoots,
    /// The pillar.
    pub pillar: SaltRoots,
    /// Directories that the configuration names and that do not exist.
    pub missing: Vec<PathBuf>,
}

/// True for entries that are not part of a tree: Python, tests of a formula, hidden directories.
fn is_ignored(path: &str) -> bool {
    let mut parts = path.split('/');
    let file = parts.next_back().unwrap_or_default();
    file.starts_with('.')
        || parts.any(|p| p.starts_with(['_', '.']) || matches!(p, "test" | "tests" | "docs"))
}
