//! `zagent show highstate`.

use super::StageArgs;
use crate::output::{Format, Ui, json, yaml};
use crate::report::Trouble;

pub(super) fn run(args: &StageArgs, ui: &mut Ui<'_>) -> Result<(), Trouble> {
    let job = args.tree.job()?;
    let high = job.compiler.high(&job.want)?;
    let high = job.mask(args.unmask).value(&high);
    ui.data(&match args.out {
        Format::Json => json(&high),
        Format::Text | Format::Yaml => yaml(&high),
    });
    Ok(())
}
