//! Flags of `run` for a checkout and for plan files in, the tree to run and the plan file to save out.

use std::path::PathBuf;

use super::checkout::{
    ApplyChoice, NodeArgs, confirm_apply, name_repository, required_checkout, unconfigured_checkout,
};
use super::tree_args::TreeArgs;
use crate::output::Ui;
use zagent_config::sanitize;
use zagent_daemon::compile_request::CompileRequest;
use zagent_daemon::error::AgentError;
use zagent_daemon::plan_file::{PlanFileUse, PlanRequestFlags};

/// Flags that have no meaning with a saved plan: it was made with its own.
const FIXED_BY_PLAN: [&str; 18] = [
    "test",
    "save",
    "here",
    "node",
    "states",
    "pillar",
    "env",
    "pillar_env",
    "sls",
    "saltenv",
    "id",
    "grains",
    "salt_config",
    "compat",
    "no_commands",
    "revert",
    "schedule",
    "fresh",
];

/// A checkout, a recorded host, a plan file
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct LocalRunArgs {
    /// Use the states repository that holds the working directory, also when this node has another source. Needed to
    /// apply it where nobody can be asked
    #[arg(long, conflicts_with_all = ["states", "revert"], help_heading = "Tree")]
    here: bool,

    /// Save the dry run as a plan; needs `--once --test`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["revert", "node"], help_heading = "Plan file")]
    save: Option<PathBuf>,

    /// Apply a saved plan; refused when tree, facts, pillar or host changed since
    #[arg(long, value_name = "FILE", conflicts_with_all = FIXED_BY_PLAN, help_heading = "Plan file")]
    pub(super) plan: Option<PathBuf>,

    #[command(flatten)]
    node: NodeArgs,
}

impl LocalRunArgs {
    /// True when any of the flags was given.
    pub(super) const fn is_given(&self) -> bool {
        self.here || self.save.is_some() || self.plan.is_some() || self.node.node.is_some()
    }

    /// Refuses what these flags cannot do.
    pub(super) fn reject_misuse(&self, test: bool, has_target: bool) -> Result<(), AgentError> {
        if self.node.node.is_some() && !test {
            return Err(AgentError::usage_hint(
                "`--node` previews another host: its states are never applied here",
                "add `--test`",
            ));
        }
        if self.save.is_some() && !test {
            return Err(AgentError::usage_hint("`--save` saves a dry run", "add `--test`"));
        }
        if self.plan.is_some() && test {
            return Err(AgentError::usage("`--plan` applies a plan: omit `test=True`"));
        }
        if has_target && (self.save.is_some() || self.plan.is_some() || self.node.node.is_some()) {
            return Err(AgentError::usage(
                "a plan file and `--node` are about one node: omit `-r` and `--target`",
            ));
        }
        Ok(())
    }

    /// Finds the tree to run when none is named; asks before the tree of a working directory is applied.
    pub(super) fn locate(
        &self,
        tree: &mut TreeArgs,
        test: bool,
        ui: &mut Ui<'_>,
    ) -> Result<ApplyChoice, AgentError> {
        let top = match self.here {
            true => Some(required_checkout()?),
            false => unconfigured_checkout(tree)?,
        };
        let mut choice = ApplyChoice::Apply;
        if let Some(top) = top {
            name_repository(&top, ui);
            if !test && !self.here {
                choice = confirm_apply(&top, ui)?;
            }
            tree.states = Some(top);
        }
        self.node.apply_to(tree, ui)?;
        if self.node.node.is_some() {
            ui.message("its states are compared with the files and packages of this host");
        }
        Ok(choice)
    }

    /// Says where the plan is, after a dry run that succeeded.
    pub(super) fn announce_saved(&self, success: bool, ui: &mut Ui<'_>) {
        if let Some(path) = self.save.as_ref().filter(|_| success) {
            let path = sanitize(&path.display().to_string());
            ui.message(&format!("saved; apply it with `zagent run --once --plan {path}`"));
        }
    }

    /// The plan file that the run saves.
    pub(super) fn plan_file_to_save(&self, request: &CompileRequest) -> Option<PlanFileUse> {
        let path = self.save.clone()?;
        Some(PlanFileUse::Save { path, request: Box::new(PlanRequestFlags::new(request)) })
    }
}
