//! A command and one of its arguments in, the names that exist for it out: state functions, codes, SLS files, state IDs, runs,
//! nodes, rollouts.
//!
//! Whatever cannot be read has no names: an error in the middle of a command line helps nobody.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use zagent_config::settings::Settings;
use zagent_daemon::repo_layout::{RepoLayout, RepoSource};
use zagent_run::history::History;

use crate::check::Inventory;
use crate::cli::node::BoardContent;
use crate::cli::rollout::open_records_for_review;
use crate::cli::status::with_installed_root;
use crate::cli::{checkout, settings};

/// How long a remote or a board may take: somebody waits for the answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// How deep and how many SLS files are looked for.
const MAX_DEPTH: usize = 8;
const MAX_FILES: usize = 20_000;
/// Number of runs to name.
const MAX_RUNS: usize = 50;

/// Names for an argument of a command, such as `history` and `run`.
pub(super) fn existing(command: &str, argument: &str) -> Vec<String> {
    match (command, argument) {
        (_, "sls") | ("show sls", "names") => sls_names(),
        ("state.apply" | "state.sls" | "state.show_sls", "words") => sls_names(),
        ("state.single", "words") => functions(),
        ("state.sls_id", "words") | ("run", "state") => state_ids(),
        ("explain", "what") => [functions(), codes(), state_ids()].concat(),
        ("history", "run") | ("run", "revert") => runs(),
        ("node show" | "node forget", "id") => within_patience(reporting_nodes),
        (_, "node") => recorded_hosts(),
        (command, "id") if command.starts_with("rollout ") => within_patience(rollouts),
        _ => Vec::new(),
    }
}

fn functions() -> Vec<String> {
    let modules = zagent_states::schema().modules();
    let named = modules.iter().flat_map(|module| module.functions().map(|one| (module.name, one.name)));
    named.map(|(module, name)| format!("{module}.{name}")).collect()
}

fn codes() -> Vec<String> {
    zagent_config::codes::all().map(|code| code.id.to_owned()).collect()
}

fn node_settings() -> Option<Settings> {
    settings::load(None).ok().map(with_installed_root)
}

/// SLS files of the checkout, otherwise those that this node runs.
fn sls_names() -> Vec<String> {
    let top = match checkout::checkout() {
        Ok(Some(top)) => Some(top),
        _ => node_settings().map(|settings| settings.paths().current()),
    };
    let Some(top) = top else { return Vec::new() };
    let Ok(layout) = RepoLayout::find(&RepoSource::Dir(top.clone())) else { return Vec::new() };
    let mut found = BTreeSet::new();
    add_sls(&top.join(layout.states), "", 0, &mut found);
    found.into_iter().collect()
}

fn add_sls(dir: &Path, dotted: &str, depth: usize, found: &mut BTreeSet<String>) {
    let Ok(entries) = dir.read_dir() else { return };
    for entry in entries.flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        if name.starts_with('.') || found.len() >= MAX_FILES {
            continue;
        }
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        match name.strip_suffix(".sls") {
            Some("top") if depth == 0 => {}
            Some("init") if depth > 0 => {
                found.insert(dotted.trim_end_matches('.').to_owned());
            }
            Some(stem) if !is_dir => {
                found.insert(format!("{dotted}{stem}"));
            }
            _ if is_dir && depth < MAX_DEPTH => {
                add_sls(&entry.path(), &format!("{dotted}{name}."), depth + 1, found);
            }
            _ => {}
        }
    }
}

fn history() -> Option<History> {
    node_settings().map(|settings| History::new(&settings.paths(), settings.run.keep))
}

fn runs() -> Vec<String> {
    let listed = history().and_then(|history| history.list(MAX_RUNS).ok());
    let mut names: Vec<String> =
        listed.map(|answer| answer.found.into_iter().map(|head| head.run).collect()).unwrap_or_default();
    names.push("last".to_owned());
    names
}

/// IDs of the last run; history masks what must not be shown.
fn state_ids() -> Vec<String> {
    let last = history().and_then(|history| history.get("last").ok());
    last.map(|answer| answer.found.report.states.into_iter().map(|one| one.id).collect()).unwrap_or_default()
}

fn recorded_hosts() -> Vec<String> {
    let Ok(Some(top)) = checkout::checkout() else { return Vec::new() };
    let inventory = Inventory::read(&RepoSource::Dir(top));
    inventory.map(|read| read.nodes.into_iter().map(|node| node.name).collect()).unwrap_or_default()
}

fn reporting_nodes() -> Option<Vec<String>> {
    let board = BoardContent::read(&node_settings()?).ok()?;
    Some(board.nodes.into_keys().map(|id| id.to_string()).collect())
}

fn rollouts() -> Option<Vec<String>> {
    let records = open_records_for_review(&node_settings()?).ok()?.list().ok()?;
    Some(records.into_iter().map(|held| held.value.id.to_string()).collect())
}

/// The names that a remote gives in time. A remote that hangs is left behind: the process ends after its answer.
fn within_patience(read: fn() -> Option<Vec<String>>) -> Vec<String> {
    let (answer, names) = mpsc::channel();
    std::thread::spawn(move || answer.send(read().unwrap_or_default()));
    names.recv_timeout(PATIENCE).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_schema_and_of_a_tree_are_found() {
        assert!(functions().iter().any(|name| name == "file.managed"));
        assert!(codes().iter().any(|code| code == "ZA0107"));
        assert!(existing("nonsense", "words").is_empty());
        let dir = tempfile::tempdir().unwrap();
        for file in ["top.sls", "web/init.sls", "web/tls.sls", "web/files/x.conf", ".git/no.sls", "db.sls"] {
            let path = dir.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let mut found = BTreeSet::new();
        add_sls(dir.path(), "", 0, &mut found);
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["db", "web", "web.tls"]);
    }
}
