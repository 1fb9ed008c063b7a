//! `zagent show pillar`: prints the pillar of this node.

use super::ShowStageArgs;
use crate::output::{OutputFormat, Ui, json, yaml};
use zagent_daemon::error::AgentError;

pub(super) fn run(args: &ShowStageArgs, ui: &mut Ui<'_>) -> Result<(), AgentError> {
    let job = args.tree.job(ui)?;
    let whole = job.compiler.pillar()?;
    let shown = if args.unmask { whole.clone() } else { job.mask(false).mask_pillar(&whole) };
    ui.print(&match args.out {
        OutputFormat::Json => json(&shown),
        OutputFormat::Text | OutputFormat::Yaml => yaml(&shown),
    });
    if shown != whole {
        ui.message("secrets are masked; add --unmask to show them");
    }
    Ok(())
}
