//! `zagent show top`: prints what the top files select.

use std::fmt::Write;

use zagent_compiler::TopTarget;
use zagent_config::Value;

use super::ShowStageArgs;
use crate::output::{OutputFormat, Paint, Ui, json, yaml};
use zagent_config::sanitize;
use zagent_daemon::error::AgentError;

pub(super) fn run(args: &ShowStageArgs, ui: &mut Ui<'_>) -> Result<(), AgentError> {
    let job = args.tree.job(ui)?;
    let top = job.compiler.top()?;
    let text = match args.out {
        OutputFormat::Json => json(&top),
        OutputFormat::Yaml => yaml(&top),
        OutputFormat::Text => top_text(&top, &job.compiler.top_targets().unwrap_or_default(), ui.paint),
    };
    ui.print(&job.mask(args.unmask).mask_str(&text));
    Ok(())
}

fn top_text(top: &Value, targets: &[TopTarget], paint: Paint) -> String {
    let mut out = String::new();
    for (env, selected) in top.as_map().into_iter().flat_map(zagent_config::Map::iter) {
        let _ = writeln!(out, "{}", paint.bold(sanitize(&env.json_key())));
        for sls in selected.as_list().into_iter().flat_map(|l| l.iter()) {
            let _ = writeln!(out, "  {}", sanitize(&sls.json_key()));
        }
    }
    if out.is_empty() {
        let _ = writeln!(out, "the top files select nothing for this node");
    }
    if !targets.is_empty() {
        let _ = writeln!(out, "\n{}", paint.bold("targets"));
    }
    let width = targets.iter().map(|t| t.target.chars().count()).max().unwrap_or(0).min(40);
    for target in targets {
        let mark = if target.matched { paint.green(paint.mark('✓')) } else { paint.dim(paint.mark('·')) };
        let name = format!("{:width$}", sanitize(&target.target));
        let name = if target.matched { name } else { paint.dim(name) };
        let place = paint.dim(format!("{} ({})", sanitize(&target.env), sanitize(&target.place.to_string())));
        let _ = writeln!(out, "  {mark} {name}  {place}");
    }
    out
}
