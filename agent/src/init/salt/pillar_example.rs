//! A Salt tree in, the pillar that its formulas document out: `pillar.example` beside the states.

use std::path::{Path, PathBuf};

use zagent_compiler::TreeLimits;
use zagent_config::Map;

use super::SaltTree;

/// The names under which formulas document their pillar.
const NAMES: [&str; 3] = ["pillar.example", "pillar.example.sls", "pillar-example.sls"];

/// A documented pillar.
pub(super) struct PillarExample {
    /// Its file.
    pub(super) file: String,
    /// What it holds.
    pub(super) data: Map,
}

/// The examples in the given directory, in the directories directly below it, and beside the states. One that is no
/// YAML mapping is left out: it is documentation only.
pub(super) fn find(tree: &SaltTree) -> Vec<PillarExample> {
    let mut dirs: Vec<PathBuf> = vec![tree.dir.clone()];
    dirs.extend(subdirectories(&tree.dir));
    for root in tree.states.iter().flat_map(|(_, roots)| roots) {
        dirs.push(root.clone());
        dirs.extend(subdirectories(root));
        dirs.extend(root.parent().map(Path::to_owned));
    }
    let mut found: Vec<PillarExample> = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    for path in dirs.iter().flat_map(|dir| NAMES.map(|name| dir.join(name))) {
        let Ok(real) = path.canonicalize() else { continue };
        if !seen.insert(real) {
            continue;
        }
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        if let Some(data) = parse(&text) {
            found.push(PillarExample { file: path.display().to_string(), data });
        }
    }
    found
}

fn parse(text: &str) -> Option<Map> {
    zagent_compiler::yaml::load(text, &TreeLimits::default())
        .ok()?
        .as_map()
        .filter(|map| !map.is_empty())
        .cloned()
}

fn subdirectories(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut dirs: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    dirs.sort_unstable();
    dirs
}
