//! `zagent show plan`.

use std::fmt::Write;

use serde_json::json as object;
use zagent_compiler::{Plan, name_text};
use zagent_config::Value;

use super::StageArgs;
use crate::output::{Format, Mask, Paint, Ui, count, harmless, json, yaml};
use crate::report::Trouble;

pub(super) fn run(args: &StageArgs, ui: &mut Ui<'_>) -> Result<(), Trouble> {
    let job = args.tree.job()?;
    let plan = job.compile(ui)?.plan;
    let mask = job.mask(args.unmask);
    let text = match args.out {
        Format::Json => json(&data(&plan, &mask)),
        Format::Yaml => yaml(&serde_json::from_value::<Value>(data(&plan, &mask)).unwrap_or_default()),
        Format::Text => text(&plan, ui.paint),
    };
    ui.data(&text);
    Ok(())
}

/// Who a chunk waits for, nearest kinds first: index and kind.
fn needs(plan: &Plan, i: usize) -> Vec<(usize, &'static str)> {
    plan.graph.edges.iter().filter(|e| e.to == i).map(|e| (e.from, e.kind.key())).collect()
}

fn data(plan: &Plan, mask: &Mask) -> serde_json::Value {
    let state = |i: &usize| {
        let chunk = &plan.chunks[*i];
        let needs: Vec<_> = needs(plan, *i)
            .into_iter()
            .map(|(from, kind)| object!({"kind": kind, "state": plan.chunks[from].tag()}))
            .collect();
        object!({
            "tag": mask.text(&chunk.tag()), "id": &*chunk.id, "function": format!("{}.{}", chunk.state, chunk.fun),
            "name": mask.text(&name_text(&chunk.name)), "sls": &*chunk.sls, "env": &*chunk.env,
            "check": chunk.prereq.check, "needs": needs,
        })
    };
    let levels: Vec<Vec<_>> =
        plan.graph.levels.iter().map(|level| level.iter().map(state).collect()).collect();
    object!({"total": plan.chunks.len(), "levels": levels})
}

fn text(plan: &Plan, paint: Paint) -> String {
    let mut out = String::new();
    for (number, level) in plan.graph.levels.iter().enumerate() {
        let together = if level.len() > 1 { format!(", {} together", level.len()) } else { String::new() };
        let _ = writeln!(out, "{}{}", paint.bold(format!("level {}", number + 1)), paint.dim(together));
        let width = level.iter().map(|i| plan.chunks[*i].id.chars().count()).max().unwrap_or(0).min(40);
        for i in level {
            let chunk = &plan.chunks[*i];
            let function = paint.cyan(format!("{}.{}", chunk.state, chunk.fun));
            let check = if chunk.prereq.check { "  (check for a prereq)" } else { "" };
            let _ = writeln!(
                out,
                "  {:width$}  {function}{check}{}",
                harmless(&chunk.id),
                waits(plan, *i, paint)
            );
        }
    }
    let _ =
        writeln!(out, "{} in {}", count(plan.chunks.len(), "state"), count(plan.graph.levels.len(), "level"));
    out
}

fn waits(plan: &Plan, i: usize, paint: Paint) -> String {
    let needs = needs(plan, i);
    if needs.is_empty() {
        return String::new();
    }
    let names: Vec<String> =
        needs.iter().map(|(from, kind)| format!("{} ({kind})", harmless(&plan.chunks[*from].id))).collect();
    paint.dim(format!("  after {}", names.join(", ")))
}
