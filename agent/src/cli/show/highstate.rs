//! `zagent show highstate`: prints all states by ID.

use super::ShowStageArgs;
use crate::output::{OutputFormat, Ui, json, yaml};
use zagent_daemon::error::AgentError;

pub(super) fn run(args: &ShowStageArgs, ui: &mut Ui<'_>) -> Result<(), AgentError> {
    let job = args.tree.job(ui)?;
    let high = job.compiler.high(&job.want)?;
    let high = job.mask(args.unmask).mask_value(&high);
    ui.print(&match args.out {
        OutputFormat::Json => json(&high),
        OutputFormat::Text | OutputFormat::Yaml => yaml(&high),
    });
    Ok(())
}
