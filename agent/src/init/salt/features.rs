//! Salt tree in, its features other than states out: parts of Salt that need a master, a bus or Python, and
//! their replacements.

use std::path::PathBuf;

use zagent_compiler::FileTree;

use super::find::{is_set, line_of};
use super::report::{SaltFeature, SaltSpot};
use super::{SaltTree, scan};

/// Directories of Python modules, and their replacements.
const PYTHON: &[(&str, &str)] = &[
    (
        "_modules",
        "custom template functions: provide their results as facts (`facts_dir`) or with an `ext_pillar` \
         program",
    ),
    (
        "_states",
        "rewrite them as executables: JSON on stdin, JSON on stdout (see `zagent explain` and the book, \
         External modules)",
    ),
    ("_grains", "use YAML files or executables in `facts_dir` for custom facts"),
    ("_pillar", "use an executable as external pillar: `ext_pillar` in zagent.yaml"),
    ("_tops", "use an executable as external top: `master_tops` in zagent.yaml"),
    ("_renderers", "use one of jinja, yaml, json, text, gpg and age"),
    ("_returners", "reports go to the history, to webhooks and to /metrics"),
    ("_beacons", "there is no event bus: use a systemd path or timer unit"),
    ("_engines", "there is no master to run them"),
    ("_runners", "there is no master to run them"),
    ("_utils", "only Python modules use them"),
    ("_proxy", "there are no proxy minions; see Resources in the book"),
];

/// Configuration options, and their replacements.
const OPTIONS: &[(&str, &str)] = &[
    (
        "reactor",
        "there is no event bus: every node converges by itself; start a run manually with `zagent trigger`",
    ),
    (
        "gitfs_remotes",
        "add the repositories to `source.remotes`; a node uses one repository, so merge them or vendor \
         formulas",
    ),
    ("hgfs_remotes", "move it to Git and add it to `source.remotes`"),
    ("svnfs_remotes", "move it to Git and add it to `source.remotes`"),
    ("s3.buckets", "move it to Git and add it to `source.remotes`"),
    (
        "ext_pillar",
        "executables only (`ext_pillar` in zagent.yaml): cmd_yaml and cmd_json work, others need a small \
         program",
    ),
    ("master_tops", "executables only (`master_tops` in zagent.yaml)"),
    ("mine_functions", "nodes cannot see each other: put shared data into pillar"),
    ("beacons", "there is no event bus: use a systemd path or timer unit"),
    ("engines", "there is no master to run them"),
    ("schedule", "use `schedule` in zagent.yaml: every or cron, splay, maxrunning"),
    ("return", "reports go to the history, to webhooks and to /metrics"),
    ("event_return", "reports go to the history, to webhooks and to /metrics"),
    ("syndic_master", "there is no master"),
    ("peer", "nodes do not communicate with each other"),
    ("peer_run", "nodes do not communicate with each other"),
];

const MINE: &str = "nodes cannot see each other: put shared data into pillar";
const ORCHESTRATE: &str =
    "there is no master to orchestrate: use requisites for the order within a node, rollouts across nodes";
const REACTOR: &str = "there is no event bus: every node converges by itself";
const BEACONS: &str = "there is no event bus: use a systemd path or timer unit";

/// Features of a tree other than states.
pub(super) fn find_features(
    tree: &SaltTree,
    states: &dyn FileTree,
    pillar: &dyn FileTree,
) -> Vec<SaltFeature> {
    let mut found = FeatureList(Vec::new());
    if let Some(config) = &tree.config {
        let shown = config.display().to_string();
        for (key, advice) in OPTIONS.iter().filter(|(key, _)| is_set(&tree.opts, key)) {
            found.add(&format!("option {key}"), advice, &shown, line_of(&tree.opts, key));
        }
    }
    for dir in python_dirs(tree) {
        let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some((_, advice)) = PYTHON.iter().find(|(known, _)| *known == name) else { continue };
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(&dir).into_iter().flatten().flatten().map(|e| e.path()).collect();
        files.retain(|f| f.extension().is_some_and(|e| e == "py"));
        files.sort_unstable();
        for file in files {
            found.add(&format!("Python in {name}"), advice, &file.display().to_string(), 1);
        }
    }
    for (files, is_pillar) in [(states, false), (pillar, true)] {
        each_sls(files, |shown, text| scan_sls(&mut found, shown, text, is_pillar));
    }
    found.0
}

/// Finds features in the text of one SLS.
fn scan_sls(found: &mut FeatureList, file: &str, text: &str, is_pillar: bool) {
    for (name, line) in scan::scan_functions(text) {
        if name == "mine.get" {
            found.add("the mine", MINE, file, line);
        }
    }
    if is_pillar {
        scan::scan_keys(text, &["mine_functions:"]).for_each(|line| found.add("the mine", MINE, file, line));
        scan::scan_keys(text, &["beacons:"]).for_each(|line| found.add("beacons", BEACONS, file, line));
        return;
    }
    let orchestrate =
        ["salt.state:", "salt.function:", "salt.runner:", "salt.wheel:", "salt.parallel_runners:"];
    scan::scan_keys(text, &orchestrate).for_each(|line| found.add("orchestration", ORCHESTRATE, file, line));
    let reactor = ["local.", "runner.", "wheel.", "caller.", "cmd.state.", "cmd.cmd."];
    scan::scan_keys(text, &reactor).for_each(|line| found.add("reactor SLS", REACTOR, file, line));
}

struct FeatureList(Vec<SaltFeature>);

impl FeatureList {
    fn add(&mut self, name: &str, advice: &'static str, file: &str, line: u32) {
        let spot = SaltSpot { file: file.to_owned(), line };
        match self.0.iter_mut().find(|f| f.name == name) {
            Some(feature) => feature.places.push(spot),
            None => self.0.push(SaltFeature { name: name.to_owned(), advice, places: vec![spot] }),
        }
    }
}

fn python_dirs(tree: &SaltTree) -> Vec<PathBuf> {
    let roots = tree.states.iter().flat_map(|(_, dirs)| dirs);
    let mut dirs: Vec<PathBuf> =
        roots.flat_map(|root| PYTHON.iter().map(|(name, _)| root.join(name))).collect();
    dirs.extend(PYTHON.iter().map(|(name, _)| tree.dir.join(name)));
    dirs.retain(|dir| dir.is_dir());
    dirs.sort_unstable();
    dirs.dedup();
    dirs
}

/// Every SLS of a tree: its display name and its text.
fn each_sls(files: &dyn FileTree, mut visit: impl FnMut(&str, &str)) {
    for env in files.envs() {
        let list = files.list(&env).unwrap_or_else(|_| std::sync::Arc::new([]));
        for path in list.iter().filter(|p| p.ends_with(".sls") && !super::is_ignored(p)) {
            if let Ok(Some(bytes)) = files.read(&env, path) {
                visit(&files.display(&env, path), &String::from_utf8_lossy(&bytes));
            }
        }
    }
}
