//! `zagent check [DIR]`: every host of a states repository, compiled and judged; `--diff A..B` compares two commits.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use zagent_cache::{Limits, Repository};
use zagent_compiler::{Files, Inputs, Options};

use super::settings;
use super::tree::TreeArgs;
use crate::check::{self, Compiled, Diff, HostDiff, Inventory, Node};
use crate::facts::Recorded;
use crate::files::{Layout, Source};
use crate::host::{ANSWERS, RecordedHost};
use crate::output::{Format, Ui, json};
use crate::report::{Exit, Trouble, chain};

/// Compile every host of a states repository and report what is wrong
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The repository: states/ and pillar/, a manifest with roots, or a flat Salt tree
    #[arg(value_name = "DIR", default_value = ".")]
    dir: PathBuf,

    /// Compare two commits: what would change on which host. `A` alone compares A with the files as they are
    #[arg(long, value_name = "A..B")]
    diff: Option<String>,

    /// How to print it
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT", help_heading = "Output")]
    out: Out,

    /// The same as `--out sarif`
    #[arg(long, conflicts_with = "out", help_heading = "Output")]
    sarif: bool,

    /// Warnings are errors
    #[arg(long)]
    deny_warnings: bool,

    /// Follow Salt's verdicts where zagent is stricter
    #[arg(long, value_name = "WHOM", value_enum, help_heading = "Configuration")]
    compat: Option<super::tree::CompatArg>,

    /// A Salt minion configuration (JSON or YAML): the options that matter to compiling
    #[arg(long, value_name = "FILE", help_heading = "Configuration")]
    salt_config: Option<PathBuf>,

    /// Configuration file; default: /etc/zagent/zagent.yaml when it exists
    #[arg(long, value_name = "FILE", help_heading = "Configuration")]
    config: Option<PathBuf>,
}

/// How a report is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Out {
    /// For people
    #[default]
    Text,
    /// One JSON document
    Json,
    /// SARIF 2.1.0, for code hosts
    Sarif,
}

/// A repository whose hosts were compiled.
struct Checked {
    inventory: Inventory,
    compiled: Vec<Compiled>,
    states: Arc<dyn Files>,
}

impl Args {
    pub(super) const fn format(&self) -> Format {
        match (self.out, self.sarif) {
            (Out::Text, false) => Format::Text,
            _ => Format::Json,
        }
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<Exit, Trouble> {
        match &self.diff {
            None => self.check(ui),
            Some(range) => self.compare(range, ui),
        }
    }

    fn check(&self, ui: &mut Ui<'_>) -> Result<Exit, Trouble> {
        let checked = self.compile(&Source::Dir(self.dir.clone()), ui)?;
        let report = check::report(&checked.inventory, &checked.compiled, &*checked.states);
        let out = if self.sarif { Out::Sarif } else { self.out };
        ui.data(&match out {
            Out::Text => check::text(&report, ui.paint),
            Out::Json => json(&report.to_json()),
            Out::Sarif => json(&check::sarif(&report, &self.dir.display().to_string())),
        });
        Ok(match (report.errors(), report.warnings()) {
            (0, 0) => Exit::Fine,
            (0, _) if !self.deny_warnings => Exit::Fine,
            (0, _) => Exit::Failed,
            _ => Exit::NotCompiled,
        })
    }

    fn compile(&self, source: &Source, ui: &mut Ui<'_>) -> Result<Checked, Trouble> {
        let layout = Layout::find(source).map_err(|e| Trouble::usage(chain(&e)))?;
        let (states, pillar) = (source.files(&layout.states), source.files(&layout.pillar));
        let inventory = Inventory::read(source).map_err(|e| Trouble::usage(chain(&e)))?;
        let tree = TreeArgs {
            compat: self.compat,
            salt_config: self.salt_config.clone(),
            config: self.config.clone(),
            ..TreeArgs::default()
        };
        let options = tree.options()?;
        let (inventory, host) = match inventory {
            Some(inventory) => (inventory, None),
            None => {
                ui.say("no inventory/ here: compiling for this host only (`zagent show grains --out yaml` records one)");
                let node = Node { name: options.id.clone(), grains: Arc::default() };
                (Inventory { nodes: vec![node], recorded: false }, Some(tree.host(&options)?))
            }
        };
        let inputs = |node: &Node| Inputs {
            states: Arc::clone(&states),
            pillar: Arc::clone(&pillar),
            host: host.clone().unwrap_or_else(|| recorded(node)),
            options: Arc::new(options_for(node, &options, &*states, &*pillar)),
        };
        let compiled = check::compile(&inventory.nodes, &inputs);
        Ok(Checked { inventory, compiled, states })
    }

    fn compare(&self, range: &str, ui: &mut Ui<'_>) -> Result<Exit, Trouble> {
        if self.sarif || self.out == Out::Sarif {
            return Err(Trouble::usage_hint("--diff is no SARIF report", "use --out json"));
        }
        let (from, to) = parse_range(range)?;
        let repository = Repository::discover(&self.dir).map_err(|e| Trouble::usage(chain(&e)))?;
        let at = |revision: &str| match repository.tree(revision, Limits::default()) {
            Ok(tree) => Ok(Source::Commit(Arc::new(tree))),
            Err(e) => Err(Trouble::usage(chain(&e))),
        };
        let before = at(&from)?;
        let after = match &to {
            Some(to) => at(to)?,
            None => Source::Dir(self.dir.clone()),
        };
        let diff = Diff {
            from: from.clone(),
            to: to.unwrap_or_else(|| "files".into()),
            hosts: hosts(&self.compile(&before, ui)?, &self.compile(&after, ui)?),
        };
        ui.data(&match self.out {
            Out::Json => json(&diff.to_json()),
            _ => check::diff_text(&diff, ui.paint),
        });
        let broken = diff.hosts.values().any(|h| matches!(h, HostDiff::Breaks | HostDiff::Broken));
        Ok(if broken { Exit::NotCompiled } else { Exit::Fine })
    }
}

fn options_for(node: &Node, shared: &Options, states: &dyn Files, pillar: &dyn Files) -> Options {
    let mut options = Options { id: node.name.clone(), ..shared.clone() };
    options.opts = settings::opts(&options, &[("file_roots", states), ("pillar_roots", pillar)], false);
    options
}

fn recorded(node: &Node) -> Arc<dyn zagent_compiler::Host> {
    let mut facts = node.grains.as_map().cloned().unwrap_or_default();
    let answers = facts.remove(ANSWERS).and_then(|answers| answers.as_map().cloned()).unwrap_or_default();
    Arc::new(RecordedHost::new(Arc::new(Recorded::new(facts)), answers))
}

/// `A..B`, `A..` (B is HEAD), `A` (B is the directory as it is).
fn parse_range(range: &str) -> Result<(String, Option<String>), Trouble> {
    let bad = |why: &str| {
        Trouble::usage_hint(format!("`--diff {range}`: {why}"), "write A..B, such as --diff main..HEAD")
    };
    if range.contains("...") {
        return Err(bad("three dots are not supported"));
    }
    match range.split_once("..") {
        None if range.is_empty() => Err(bad("no commit")),
        None => Ok((range.to_owned(), None)),
        Some(("", _)) => Err(bad("the first commit is missing")),
        Some((from, "")) => Ok((from.to_owned(), Some("HEAD".into()))),
        Some((from, to)) => Ok((from.to_owned(), Some(to.to_owned()))),
    }
}

/// Every host of either side.
fn hosts(before: &Checked, after: &Checked) -> BTreeMap<String, HostDiff> {
    let named = |side: &Checked| -> BTreeMap<String, usize> {
        side.inventory.nodes.iter().enumerate().map(|(i, node)| (node.name.clone(), i)).collect()
    };
    let (old, new) = (named(before), named(after));
    let mut out = BTreeMap::new();
    for (name, i) in &new {
        let now = after.compiled[*i].plan();
        let host = match old.get(name) {
            Some(j) => check::diff(before.compiled[*j].plan(), now),
            None => now.map_or(HostDiff::Broken, |plan| HostDiff::New(plan.chunks.len())),
        };
        out.insert(name.clone(), host);
    }
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        out.insert(name.clone(), HostDiff::Gone);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read() {
        let ok = |text: &str| parse_range(text).unwrap();
        assert_eq!(ok("a..b"), ("a".into(), Some("b".into())));
        assert_eq!(ok("HEAD~1.."), ("HEAD~1".into(), Some("HEAD".into())));
        assert_eq!(ok("v1.0"), ("v1.0".into(), None));
        for bad in ["", "..b", "a...b"] {
            assert!(parse_range(bad).is_err(), "{bad}");
        }
    }
}
