//! `zagent show grains`: prints the grains of this node.

use super::ShowStageArgs;
use crate::output::{OutputFormat, Ui, json, yaml};
use zagent_daemon::error::AgentError;

pub(super) fn run(args: &ShowStageArgs, ui: &mut Ui<'_>) -> Result<(), AgentError> {
    let facts = args.tree.facts(ui)?;
    let grains = facts.all();
    for warning in facts.warnings() {
        ui.message(&format!("{}: {warning}", ui.err_paint.yellow("warning")));
    }
    ui.print(&match args.out {
        OutputFormat::Json => json(&grains),
        OutputFormat::Text | OutputFormat::Yaml => yaml(&grains),
    });
    Ok(())
}
