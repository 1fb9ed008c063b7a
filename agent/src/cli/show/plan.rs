//! `zagent show plan`: prints the levels of a run.

use std::fmt::Write;

use serde_json::json as object;
use zagent_compiler::{Plan, name_text};
use zagent_config::Value;

use super::ShowStageArgs;
use crate::output::{OutputFormat, Paint, Ui, json, pluralize, yaml};
use zagent_config::sanitize;
use zagent_daemon::error::AgentError;

pub(super) fn run(args: &ShowStageArgs, ui: &mut Ui<'_>) -> Result<(), AgentError> {
    let job = args.tree.job(ui)?;
    let plan = job.compile(ui)?.plan;
    let mask = job.mask(args.unmask);
    let text = match args.out {
        OutputFormat::Json => json(&plan_json(&plan)),
        OutputFormat::Yaml => yaml(&serde_json::from_value::<Value>(plan_json(&plan)).unwrap_or_default()),
        OutputFormat::Text => plan_text(&plan, ui.paint),
    };
    ui.print(&mask.mask_str(&text));
    Ok(())
}

/// What every chunk waits for: index and kind, in the order of the edges.
struct ChunkNeeds(Vec<Vec<(usize, &'static str)>>);

impl ChunkNeeds {
    /// Sorts the edges by their end, once for all chunks.
    fn new(plan: &Plan) -> Self {
        let mut needs = vec![Vec::new(); plan.chunks.len()];
        for edge in &plan.graph.edges {
            needs[edge.to].push((edge.from, edge.kind.key()));
        }
        Self(needs)
    }
}

fn plan_json(plan: &Plan) -> serde_json::Value {
    let all_needs = ChunkNeeds::new(plan);
    let state = |i: &usize| {
        let chunk = &plan.chunks[*i];
        let needs: Vec<_> = all_needs.0[*i]
            .iter()
            .map(|(from, kind)| object!({"kind": kind, "state": plan.chunks[*from].tag()}))
            .collect();
        object!({
            "tag": chunk.tag(), "id": &*chunk.id, "function": format!("{}.{}", chunk.state, chunk.fun),
            "name": name_text(&chunk.name), "sls": &*chunk.sls, "env": &*chunk.env,
            "check": chunk.prereq.check, "needs": needs,
        })
    };
    let levels: Vec<Vec<_>> =
        plan.graph.levels.iter().map(|level| level.iter().map(state).collect()).collect();
    object!({"total": plan.chunks.len(), "levels": levels})
}

fn plan_text(plan: &Plan, paint: Paint) -> String {
    let mut out = String::new();
    let all_needs = ChunkNeeds::new(plan);
    for (number, level) in plan.graph.levels.iter().enumerate() {
        let together = if level.len() > 1 { format!(", {} together", level.len()) } else { String::new() };
        let _ = writeln!(out, "{}{}", paint.bold(format!("level {}", number + 1)), paint.dim(together));
        let width = level.iter().map(|i| plan.chunks[*i].id.chars().count()).max().unwrap_or(0).min(40);
        for i in level {
            let chunk = &plan.chunks[*i];
            let function = paint.cyan(format!("{}.{}", chunk.state, chunk.fun));
            let check = if chunk.prereq.check { "  (prereq check)" } else { "" };
            let _ = writeln!(
                out,
                "  {:width$}  {function}{check}{}",
                sanitize(&chunk.id),
                requisites_text(plan, &all_needs.0[*i], paint)
            );
        }
    }
    let _ = writeln!(
        out,
        "{} in {}",
        pluralize(plan.chunks.len(), "state"),
        pluralize(plan.graph.levels.len(), "level")
    );
    out
}

fn requisites_text(plan: &Plan, needs: &[(usize, &'static str)], paint: Paint) -> String {
    if needs.is_empty() {
        return String::new();
    }
    let names: Vec<String> =
        needs.iter().map(|(from, kind)| format!("{} ({kind})", sanitize(&plan.chunks[*from].id))).collect();
    paint.dim(format!("  after {}", names.join(", ")))
}
