//! `zagent check [DIR]`: compiles and checks every host of a states repository; `--diff A..B` compares two
//! commits.
//!
//! Law: a check starts no program and reads nothing but the repository, and with `--live` the facts of this host
//! (held by `a_check_starts_nothing_and_shows_nothing`): it compiles pull requests of people whom nobody knows yet.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zagent_cache::{CacheLimits, GitRepository};
use zagent_compiler::{CompileInputs, CompileOptions, FileTree};
use zagent_config::mask::mask_message;

use super::checkout::{checkout, name_repository};
use super::settings;
use super::tree_args::TreeArgs;
use crate::check::{self, CompiledHost, HostDiff, Inventory, InventoryNode, PlanDiff};
use crate::output::{OutputFormat, Ui, json};
use zagent_config::error_chain;
use zagent_config::sorted::CollectSorted;
use zagent_daemon::error::{AgentError, ExitStatus};
use zagent_daemon::repo_layout::{RepoLayout, RepoSource};
use zagent_states::template_host::recorded_host::RecordedHost;

/// Compile every host of a states repository and report errors and warnings; starts no program
#[derive(Debug, clap::Args)]
pub(super) struct CheckArgs {
    /// States repository: states/ and pillar/, a manifest with roots, or a flat Salt tree; default: the one that
    /// holds the working directory
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,

    /// Compare two commits and show what changes on which host. `A` alone compares A with the working files
    #[arg(long, value_name = "A..B")]
    diff: Option<String>,

    /// Compile for this host instead of the recorded ones in inventory/
    #[arg(long)]
    live: bool,

    /// Output format
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT", help_heading = "Output")]
    out: CheckFormat,

    /// Same as `--out sarif`
    #[arg(long, conflicts_with = "out", help_heading = "Output")]
    sarif: bool,

    /// Treat warnings as errors
    #[arg(long)]
    deny_warnings: bool,

    /// Follow Salt's behaviour where zagent is stricter
    #[arg(long, value_name = "MODE", value_enum, help_heading = "Configuration")]
    compat: Option<super::tree_args::CompatArg>,

    /// Salt minion configuration (JSON or YAML) to read compile options from
    #[arg(long, value_name = "FILE", help_heading = "Configuration")]
    salt_config: Option<PathBuf>,

    /// Configuration file; default: /etc/zagent/zagent.yaml when it exists
    #[arg(long, value_name = "FILE", help_heading = "Configuration")]
    config: Option<PathBuf>,
}

/// Output format of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum CheckFormat {
    /// Human-readable
    #[default]
    Text,
    /// One JSON document
    Json,
    /// SARIF 2.1.0, for code hosts
    Sarif,
    /// A table for a comment on a pull request; also with `--diff`
    Markdown,
    /// Annotations of a GitHub workflow
    Github,
    /// A code quality report of GitLab
    Gitlab,
}

/// A repository with all its hosts compiled.
struct CheckedRepo {
    inventory: Inventory,
    compiled: Vec<CompiledHost>,
    states: Arc<dyn FileTree>,
}

impl CheckArgs {
    pub(super) const fn format(&self) -> OutputFormat {
        match (self.out, self.sarif) {
            (CheckFormat::Text | CheckFormat::Markdown | CheckFormat::Github, false) => OutputFormat::Text,
            _ => OutputFormat::Json,
        }
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let dir = self.directory(ui)?;
        match &self.diff {
            None => self.check(&dir, ui),
            Some(range) => self.diff_range(range, &dir, ui),
        }
    }

    /// The repository to check. It may belong to anybody: a check starts no program.
    fn directory(&self, ui: &mut Ui<'_>) -> Result<PathBuf, AgentError> {
        if let Some(dir) = &self.dir {
            return Ok(dir.clone());
        }
        let Some(top) = checkout()? else { return Ok(".".into()) };
        name_repository(&top, ui);
        let is_here = std::env::current_dir().is_ok_and(|here| here == top);
        Ok(if is_here { ".".into() } else { top })
    }

    fn check(&self, dir: &Path, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let checked = self.compile(&RepoSource::Dir(dir.to_owned()))?;
        if checked.inventory.nodes.is_empty() {
            return Err(no_inventory(&dir.display().to_string()));
        }
        let report = check::build_report(&checked.inventory, &checked.compiled, &*checked.states);
        let out = if self.sarif { CheckFormat::Sarif } else { self.out };
        let root = dir.display().to_string();
        let text = match out {
            CheckFormat::Text => check::report_text(&report, ui.paint),
            CheckFormat::Json => json(&report.to_json()),
            CheckFormat::Sarif => json(&check::render_sarif(&report, &root)),
            CheckFormat::Markdown => check::report_markdown(&report, &root),
            CheckFormat::Github => check::github_annotations(&report, &root),
            CheckFormat::Gitlab => json(&check::gitlab_code_quality(&report, &root)),
        };
        ui.print(&mask_message(&text));
        Ok(match (report.error_count(), report.warning_count()) {
            (0, 0) => ExitStatus::Success,
            (0, _) if !self.deny_warnings => ExitStatus::Success,
            (0, _) => ExitStatus::Failed,
            _ => ExitStatus::NotCompiled,
        })
    }

    /// Compiles every host; none when the repository records none.
    fn compile(&self, source: &RepoSource) -> Result<CheckedRepo, AgentError> {
        let layout = RepoLayout::find(source).map_err(|e| AgentError::usage(error_chain(&e)))?;
        let (states, pillar) = (source.files(&layout.states), source.files(&layout.pillar));
        let tree = TreeArgs {
            compat: self.compat,
            salt_config: self.salt_config.clone(),
            config: self.config.clone(),
            no_commands: true,
            ..TreeArgs::default()
        };
        let options = tree.options()?;
        let inventory = if self.live {
            let grains = Arc::new(tree.facts()?.all());
            Inventory { nodes: vec![InventoryNode { name: options.id.clone(), grains }], recorded: false }
        } else {
            Inventory::read(source).map_err(|e| AgentError::usage(error_chain(&e)))?
        };
        let inputs = |node: &InventoryNode| CompileInputs {
            states: Arc::clone(&states),
            pillar: Arc::clone(&pillar),
            host: Arc::new(RecordedHost::from_inventory(&node.grains)),
            schema: zagent_states::schema(),
            options: Arc::new(options_for(node, &options, &*states, &*pillar)),
        };
        let compiled = check::compile_hosts(&inventory.nodes, &inputs);
        Ok(CheckedRepo { inventory, compiled, states })
    }

    /// Compares two sources. Only the second must record hosts: a change may add the first ones.
    fn diff_sources(
        &self,
        before: &RepoSource,
        after: &RepoSource,
    ) -> Result<BTreeMap<String, HostDiff>, AgentError> {
        let now = self.compile(after)?;
        if now.inventory.nodes.is_empty() {
            return Err(no_inventory(&after.name()));
        }
        Ok(diff_hosts(&self.compile(before)?, &now))
    }

    fn diff_range(&self, range: &str, dir: &Path, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        if self.sarif || matches!(self.out, CheckFormat::Sarif | CheckFormat::Github | CheckFormat::Gitlab) {
            let hint = "use --out text, json or markdown";
            return Err(AgentError::usage_hint("--diff has no place in a file to report", hint));
        }
        let (from, to) = parse_range(range)?;
        let repository = GitRepository::discover(dir).map_err(|e| AgentError::usage(error_chain(&e)))?;
        let at = |revision: &str| match repository.read_tree(revision, CacheLimits::default()) {
            Ok(tree) => Ok(RepoSource::Commit(Arc::new(tree))),
            Err(e) => Err(AgentError::usage(error_chain(&e))),
        };
        let before = at(&from)?;
        let after = match &to {
            Some(to) => at(to)?,
            None => RepoSource::Dir(dir.to_owned()),
        };
        let diff = PlanDiff {
            from: from.clone(),
            to: to.unwrap_or_else(|| "files".into()),
            hosts: self.diff_sources(&before, &after)?,
        };
        let text = match self.out {
            CheckFormat::Json => json(&diff.to_json()),
            CheckFormat::Markdown => check::diff_markdown(&diff),
            _ => check::diff_text(&diff, ui.paint),
        };
        ui.print(&mask_message(&text));
        let broken = diff.hosts.values().any(|h| matches!(h, HostDiff::Breaks | HostDiff::Broken));
        Ok(if broken { ExitStatus::NotCompiled } else { ExitStatus::Success })
    }
}

/// The error for a repository without recorded hosts. A fallback to this host would let a pull request choose it.
fn no_inventory(repository: &str) -> AgentError {
    AgentError::usage_hint(
        format!("`{repository}` records no host in inventory/: there is nothing to compile for"),
        "record a host: `zagent show grains --out yaml > inventory/$(hostname).yaml`; or compile for this host: --live",
    )
}

fn options_for(
    node: &InventoryNode,
    shared: &CompileOptions,
    states: &dyn FileTree,
    pillar: &dyn FileTree,
) -> CompileOptions {
    let mut options = CompileOptions { id: node.name.clone(), ..shared.clone() };
    options.opts = settings::salt_opts(&options, &[("file_roots", states), ("pillar_roots", pillar)], false);
    options
}

/// `A..B`, `A..` (B is HEAD), `A` (B is the working directory).
fn parse_range(range: &str) -> Result<(String, Option<String>), AgentError> {
    let bad = |why: &str| {
        AgentError::usage_hint(format!("`--diff {range}`: {why}"), "write A..B, such as --diff main..HEAD")
    };
    if range.contains("...") {
        return Err(bad("`A...B` is not supported"));
    }
    match range.split_once("..") {
        None if range.is_empty() => Err(bad("no commit")),
        None => Ok((range.to_owned(), None)),
        Some(("", _)) => Err(bad("the first commit is missing")),
        Some((from, "")) => Ok((from.to_owned(), Some("HEAD".into()))),
        Some((from, to)) => Ok((from.to_owned(), Some(to.to_owned()))),
    }
}

/// Hosts that exist on either side.
fn diff_hosts(before: &CheckedRepo, after: &CheckedRepo) -> BTreeMap<String, HostDiff> {
    let named = |side: &CheckedRepo| -> BTreeMap<String, usize> {
        side.inventory.nodes.iter().enumerate().map(|(i, node)| (node.name.clone(), i)).into_map()
    };
    let (old, new) = (named(before), named(after));
    let mut out = BTreeMap::new();
    for (name, i) in &new {
        let now = after.compiled[*i].plan();
        let host = match old.get(name) {
            Some(j) => check::diff_plans(before.compiled[*j].plan(), now),
            None => now.map_or(HostDiff::Broken, |plan| HostDiff::New(plan.chunks.len())),
        };
        out.insert(name.clone(), host);
    }
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        out.insert(name.clone(), HostDiff::Removed);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_parsed() {
        let ok = |text: &str| parse_range(text).unwrap();
        assert_eq!(ok("a..b"), ("a".into(), Some("b".into())));
        assert_eq!(ok("HEAD~1.."), ("HEAD~1".into(), Some("HEAD".into())));
        assert_eq!(ok("v1.0"), ("v1.0".into(), None));
        for bad in ["", "..b", "a...b"] {
            assert!(parse_range(bad).is_err(), "{bad}");
        }
    }
}
