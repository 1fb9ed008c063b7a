//! `zagent show grains`.

use super::StageArgs;
use crate::output::{Format, Ui, json, yaml};
use crate::report::Trouble;

pub(super) fn run(args: &StageArgs, ui: &mut Ui<'_>) -> Result<(), Trouble> {
    let facts = args.tree.facts()?;
    let grains = facts.all();
    for warning in facts.warnings() {
        ui.say(&format!("{}: {warning}", ui.talk.yellow("warning")));
    }
    ui.data(&match args.out {
        Format::Json => json(&grains),
        Format::Text | Format::Yaml => yaml(&grains),
    });
    Ok(())
}
