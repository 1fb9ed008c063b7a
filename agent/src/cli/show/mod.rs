//! `zagent show STAGE`: prints a compiler stage.

mod grains;
mod graph;
mod highstate;
mod lowstate;
mod pillar;
mod plan;
mod sls;
mod top;

use clap::Subcommand;

use super::checkout::LookArgs;
use super::run_args::RunOptionArgs;
use super::salt_args::SaltArgs;
use super::state::split_names;
use crate::output::{OutputFormat, Ui};
use zagent_daemon::error::{AgentError, ExitStatus};

/// Print a compiler stage, its inputs, or the dependency graph
#[derive(Debug, clap::Args)]
pub(super) struct ShowArgs {
    #[command(subcommand)]
    what: ShowCommand,
}

#[derive(Debug, Subcommand)]
enum ShowCommand {
    /// SLS files that the top files select for this node
    Top(ShowStageArgs),
    /// SLS file after template rendering
    Sls(sls::ShowSlsArgs),
    /// All states by ID, before they are split into chunks
    Highstate(ShowStageArgs),
    /// Chunks that would run, in Salt's order
    Lowstate(ShowStageArgs),
    /// Dependency graph as text, JSON, DOT, Mermaid or SVG
    Graph(graph::ShowGraphArgs),
    /// Pillar of this node, with secrets masked
    Pillar(ShowStageArgs),
    /// Grains of this node; `--out yaml` writes an inventory file
    Grains(ShowStageArgs),
    /// Levels of the run: which states run in parallel, and what they wait for
    Plan(ShowStageArgs),
}

/// Arguments of every stage.
#[derive(Clone, Debug, clap::Args)]
struct ShowStageArgs {
    #[command(flatten)]
    tree: LookArgs,

    /// Output format
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT", help_heading = "Output")]
    out: OutputFormat,

    /// Show secrets
    #[arg(long, help_heading = "Output")]
    unmask: bool,
}

/// Arguments of Salt's own commands for the same.
#[derive(Debug, clap::Args)]
pub(super) struct StateShowArgs {
    /// SLS names (for `state.show_sls`) and `key=value`, as Salt's command of the same name takes them
    #[arg(value_name = "WORD")]
    words: Vec<String>,

    #[command(flatten)]
    stage: ShowStageArgs,
}

/// What Salt's command shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StateShowVerb {
    Top,
    Sls,
    Highstate,
    Lowstate,
}

impl StateShowArgs {
    pub(super) const fn format(&self) -> OutputFormat {
        self.stage.out
    }

    pub(super) fn run(&self, verb: StateShowVerb, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        let mut words = SaltArgs::new(&self.words);
        let mut stage = self.stage.clone();
        words.take_run_keys(&mut stage.tree.tree, &mut RunOptionArgs::default())?;
        words.reject_named(&[])?;
        if verb == StateShowVerb::Sls {
            stage.tree.tree.sls.extend(words.positional.iter().flat_map(|word| split_names(word)));
            if stage.tree.tree.sls.is_empty() {
                return Err(AgentError::usage_hint("no SLS name given", "zagent state.show_sls a,b"));
            }
        } else {
            words.reject_positional("it takes no SLS names; use `state.show_sls`")?;
        }
        match verb {
            StateShowVerb::Top => top::run(&stage, ui),
            StateShowVerb::Sls | StateShowVerb::Highstate => highstate::run(&stage, ui),
            StateShowVerb::Lowstate => lowstate::run(&stage, ui),
        }?;
        Ok(ExitStatus::Success)
    }
}

impl ShowArgs {
    pub(super) fn format(&self) -> OutputFormat {
        match &self.what {
            ShowCommand::Top(args)
            | ShowCommand::Highstate(args)
            | ShowCommand::Lowstate(args)
            | ShowCommand::Pillar(args)
            | ShowCommand::Grains(args)
            | ShowCommand::Plan(args) => args.out,
            ShowCommand::Sls(args) => args.stage.out,
            ShowCommand::Graph(args) => args.format(),
        }
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, AgentError> {
        match &self.what {
            ShowCommand::Top(args) => top::run(args, ui),
            ShowCommand::Sls(args) => sls::run(args, ui),
            ShowCommand::Highstate(args) => highstate::run(args, ui),
            ShowCommand::Lowstate(args) => lowstate::run(args, ui),
            ShowCommand::Graph(args) => graph::run(args, ui),
            ShowCommand::Pillar(args) => pillar::run(args, ui),
            ShowCommand::Grains(args) => grains::run(args, ui),
            ShowCommand::Plan(args) => plan::run(args, ui),
        }?;
        Ok(ExitStatus::Success)
    }
}
