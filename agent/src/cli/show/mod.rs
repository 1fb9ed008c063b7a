//! `zagent show STAGE`: a stage of the compiler, printed.

mod grains;
mod graph;
mod highstate;
mod lowstate;
mod pillar;
mod plan;
mod sls;
mod top;

use clap::Subcommand;

use super::compile_job::TreeArgs;
use crate::output::{OutputFormat, Ui};
use zagent_daemon::error::{CliError, ExitStatus};

/// Print a stage of the compiler, or what it is given
#[derive(Debug, clap::Args)]
pub(super) struct ShowArgs {
    #[command(subcommand)]
    what: ShowCommand,
}

#[derive(Debug, Subcommand)]
enum ShowCommand {
    /// The SLS that the top files select for this node
    Top(ShowStageArgs),
    /// An SLS after its template stage
    Sls(sls::ShowSlsArgs),
    /// All states by id, before they are torn into chunks
    Highstate(ShowStageArgs),
    /// The chunks that would run, in Salt's order
    Lowstate(ShowStageArgs),
    /// What waits for what, as text, JSON, dot, mermaid or a picture
    Graph(graph::ShowGraphArgs),
    /// The pillar of this node; secrets are masked
    Pillar(ShowStageArgs),
    /// The facts of this node; `--out yaml` writes an inventory file
    Grains(ShowStageArgs),
    /// The levels of the run: what runs together, and what it waits for
    Plan(ShowStageArgs),
}

/// What every stage takes.
#[derive(Debug, clap::Args)]
struct ShowStageArgs {
    #[command(flatten)]
    tree: TreeArgs,

    /// How to print it
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT", help_heading = "Output")]
    out: OutputFormat,

    /// Show secrets too
    #[arg(long, help_heading = "Output")]
    unmask: bool,
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

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<ExitStatus, CliError> {
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
