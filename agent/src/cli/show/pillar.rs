//! `zagent show pillar`.

use super::StageArgs;
use crate::output::{Format, Ui, json, yaml};
use crate::report::Trouble;

pub(super) fn run(args: &StageArgs, ui: &mut Ui<'_>) -> Result<(), Trouble> {
    let job = args.tree.job()?;
    let whole = job.compiler.pillar()?;
    let shown = if args.unmask { whole.clone() } else { job.mask(false).pillar(&whole) };
    ui.data(&match args.out {
        Format::Json => json(&shown),
        Format::Text | Format::Yaml => yaml(&shown),
    });
    if shown != whole {
        ui.say("secrets are masked; --unmask shows them");
    }
    Ok(())
}
