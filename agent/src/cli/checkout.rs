//! The working directory and flags in, the states repository to use out: the one that holds the working directory when this
//! node has no source of its own.
//!
//! Law: states from a working directory are applied only with `--here` or after a yes on a terminal, and templates of a
//! repository that belongs to somebody else are never rendered unasked (held by
//! `applying_from_a_checkout_needs_here_or_a_yes`, `the_repository_of_somebody_else_is_not_used_unasked`).

use std::io::IsTerminal;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use zagent_config::suggest::nearest;
use zagent_config::{error_chain, sanitize};

use super::revert::is_yes;
use super::settings;
use super::tree_args::TreeArgs;
use crate::check::{Inventory, InventoryNode};
use crate::output::Ui;
use zagent_daemon::compile_job::CompileJob;
use zagent_daemon::compile_request::has_source;
use zagent_daemon::error::AgentError;
use zagent_daemon::repo_layout::{RepoSource, enclosing_repository};
use zagent_host::facts::Grains;

/// What to look at, and for which node
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct LookArgs {
    #[command(flatten)]
    pub(super) tree: TreeArgs,

    #[command(flatten)]
    pub(super) node: NodeArgs,
}

/// A host from the inventory.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct NodeArgs {
    /// Preview a host that is recorded in inventory/ of the repository, with its id and its grains
    #[arg(long, value_name = "NAME", conflicts_with_all = ["id", "grains"], help_heading = "Node")]
    pub(super) node: Option<String>,
}

impl LookArgs {
    /// Builds the compiler of the tree to look at.
    pub(super) fn job(&self, ui: &mut Ui<'_>) -> Result<CompileJob, AgentError> {
        self.located(ui)?.job()
    }

    /// Grains of this host, of a file, or of a recorded host.
    pub(super) fn facts(&self, ui: &mut Ui<'_>) -> Result<Arc<dyn Grains>, AgentError> {
        match self.node.node {
            Some(_) => self.located(ui)?.facts(),
            None => self.tree.facts(),
        }
    }

    /// The same flags, with the repository of the working directory when there is nothing else to look at.
    pub(super) fn located(&self, ui: &mut Ui<'_>) -> Result<TreeArgs, AgentError> {
        let mut tree = self.tree.clone();
        if let Some(top) = unconfigured_checkout(&tree)? {
            name_repository(&top, ui);
            tree.states = Some(top);
        }
        self.node.apply_to(&mut tree, ui)?;
        Ok(tree)
    }
}

impl NodeArgs {
    /// Replaces this host by the recorded one.
    pub(super) fn apply_to(&self, tree: &mut TreeArgs, ui: &mut Ui<'_>) -> Result<(), AgentError> {
        let Some(name) = &self.node else { return Ok(()) };
        let top = tree.states.as_deref().and_then(inventory_holder).ok_or_else(|| {
            AgentError::usage_hint(
                format!("`--node {name}` needs a repository with inventory/"),
                "run it inside a checkout of the states repository, or name one with `--states DIR`",
            )
        })?;
        let node = recorded_node(&top, name)?;
        ui.message(&format!("previewing {} as recorded in inventory/", sanitize(&node.name)));
        tree.id = Some(node.name);
        tree.recorded = Some(node.grains);
        Ok(())
    }
}

/// The directory that holds the inventory of a states directory: the repository itself, or the directory above the states.
fn inventory_holder(states: &Path) -> Option<PathBuf> {
    let absolute = std::path::absolute(states).ok()?;
    let is_holder = |dir: &&Path| dir.join("inventory").is_dir();
    [Some(absolute.as_path()), absolute.parent()].into_iter().flatten().find(is_holder).map(Path::to_owned)
}

fn recorded_node(top: &Path, name: &str) -> Result<InventoryNode, AgentError> {
    let inventory =
        Inventory::read(&RepoSource::Dir(top.to_owned())).map_err(|e| AgentError::usage(error_chain(&e)))?;
    let names: Vec<String> = inventory.nodes.iter().map(|node| node.name.clone()).collect();
    inventory.nodes.into_iter().find(|node| node.name == name).ok_or_else(|| {
        let hint = match nearest(name, names.iter().map(String::as_str)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => {
                format!("record it on that host: `zagent show grains --out yaml > inventory/{name}.yaml`")
            }
        };
        AgentError::usage_hint(format!("inventory/ records no host `{name}`"), sanitize(&hint))
    })
}

/// The repository of the working directory, when no flag and no configuration names other states.
pub(super) fn unconfigured_checkout(tree: &TreeArgs) -> Result<Option<PathBuf>, AgentError> {
    if tree.states.is_some() || has_source(&settings::load(tree.config.as_deref())?) {
        return Ok(None);
    }
    let Some(top) = checkout()? else { return Ok(None) };
    verify_owner(&top)?;
    Ok(Some(top))
}

/// The repository of the working directory.
pub(super) fn checkout() -> Result<Option<PathBuf>, AgentError> {
    let here = std::env::current_dir()
        .map_err(|error| AgentError::usage(format!("cannot read the working directory: {error}")))?;
    Ok(enclosing_repository(&here).map(Path::to_owned))
}

/// The repository of the working directory, for `--here`.
pub(super) fn required_checkout() -> Result<PathBuf, AgentError> {
    let top = checkout()?.ok_or_else(|| {
        AgentError::usage_hint(
            "the working directory is in no states repository",
            "a repository holds manifest.yaml or states/top.sls; name one with `--states DIR`",
        )
    })?;
    verify_owner(&top)?;
    Ok(top)
}

/// Says once which repository is used.
pub(super) fn name_repository(top: &Path, ui: &mut Ui<'_>) {
    ui.message(&format!("using the states repository `{}`", sanitize(&top.display().to_string())));
}

/// Refuses the repository of another user: its templates can run commands.
fn verify_owner(top: &Path) -> Result<(), AgentError> {
    let euid = nix::unistd::geteuid().as_raw();
    // A person who uses sudo in a checkout of their own.
    let caller = std::env::var("SUDO_UID").ok().and_then(|uid| uid.parse::<u32>().ok()).filter(|_| euid == 0);
    let owner = std::fs::metadata(top).map(|meta| meta.uid());
    match owner {
        Ok(uid) if uid == 0 || uid == euid || Some(uid) == caller => Ok(()),
        _ => Err(AgentError::usage_hint(
            format!("the states repository `{}` belongs to another user", top.display()),
            format!("its templates can run commands; when you trust it, add `--states {}`", top.display()),
        )),
    }
}

/// What a person decided about applying from a working directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ApplyChoice {
    /// Apply.
    Apply,
    /// Leave everything as it is.
    Leave,
}

/// Asks whether to apply the states of a working directory.
pub(super) fn confirm_apply(top: &Path, ui: &mut Ui<'_>) -> Result<ApplyChoice, AgentError> {
    if !(std::io::stdin().is_terminal() && ui.is_interactive()) {
        return Err(AgentError::usage_hint(
            format!(
                "applying the working directory `{}` needs a confirmation, and this is no terminal",
                top.display()
            ),
            "preview it with `zagent run --once --test`, apply it with `zagent run --once --here`",
        ));
    }
    ui.message("Preview it with `zagent run --once --test`. Apply it to this host now? [y/N]");
    Ok(if is_yes(&mut std::io::stdin().lock()) { ApplyChoice::Apply } else { ApplyChoice::Leave })
}
