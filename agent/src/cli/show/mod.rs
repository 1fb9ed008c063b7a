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

use super::tree::TreeArgs;
use crate::output::{Format, Ui};
use crate::report::{Exit, Trouble};

/// Print a stage of the compiler, or what it is given
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// The SLS that the top files select for this node
    Top(StageArgs),
    /// An SLS after its template stage
    Sls(sls::Args),
    /// All states by id, before they are torn into chunks
    Highstate(StageArgs),
    /// The chunks that would run, in Salt's order
    Lowstate(StageArgs),
    /// What waits for what, as text, JSON, dot, mermaid or a picture
    Graph(graph::Args),
    /// The pillar of this node; secrets are masked
    Pillar(StageArgs),
    /// The facts of this node; `--out yaml` writes an inventory file
    Grains(StageArgs),
    /// The levels of the run: what runs together, and what it waits for
    Plan(StageArgs),
}

/// What every stage takes.
#[derive(Debug, clap::Args)]
struct StageArgs {
    #[command(flatten)]
    tree: TreeArgs,

    /// How to print it
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT", help_heading = "Output")]
    out: Format,

    /// Show secrets too
    #[arg(long, help_heading = "Output")]
    unmask: bool,
}

impl Args {
    pub(super) fn format(&self) -> Format {
        match &self.what {
            What::Top(args)
            | What::Highstate(args)
            | What::Lowstate(args)
            | What::Pillar(args)
            | What::Grains(args)
            | What::Plan(args) => args.out,
            What::Sls(args) => args.stage.out,
            What::Graph(args) => args.format(),
        }
    }

    pub(super) fn run(&self, ui: &mut Ui<'_>) -> Result<Exit, Trouble> {
        match &self.what {
            What::Top(args) => top::run(args, ui),
            What::Sls(args) => sls::run(args, ui),
            What::Highstate(args) => highstate::run(args, ui),
            What::Lowstate(args) => lowstate::run(args, ui),
            What::Graph(args) => graph::run(args, ui),
            What::Pillar(args) => pillar::run(args, ui),
            What::Grains(args) => grains::run(args, ui),
            What::Plan(args) => plan::run(args, ui),
        }?;
        Ok(Exit::Fine)
    }
}
