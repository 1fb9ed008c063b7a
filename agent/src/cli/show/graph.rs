//! `zagent show graph`: prints the dependency graph.

use std::fmt::Write;

use serde_json::json as object;
use zagent_compiler::Plan;
use zagent_config::Value;

use super::super::checkout::LookArgs;
use crate::output::{OutputFormat, Paint, Ui, json, pluralize, yaml};
use zagent_config::sanitize;
use zagent_daemon::error::AgentError;
use zagent_daemon::graph_drawing::{render_dot, render_mermaid, render_svg};

/// Dependency graph
#[derive(Debug, clap::Args)]
pub(super) struct ShowGraphArgs {
    #[command(flatten)]
    tree: LookArgs,

    /// Output format
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT", help_heading = "Output")]
    out: GraphFormat,
}

/// Output format of a graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum GraphFormat {
    /// One line per edge
    #[default]
    Text,
    /// Nodes and edges as JSON
    Json,
    /// Nodes and edges as YAML
    Yaml,
    /// Graphviz
    Dot,
    /// Mermaid flowchart, for Markdown
    Mermaid,
    /// SVG image
    Svg,
}

impl ShowGraphArgs {
    pub(super) fn format(&self) -> OutputFormat {
        match self.out {
            GraphFormat::Json => OutputFormat::Json,
            GraphFormat::Yaml => OutputFormat::Yaml,
            _ => OutputFormat::Text,
        }
    }
}

pub(super) fn run(args: &ShowGraphArgs, ui: &mut Ui<'_>) -> Result<(), AgentError> {
    let job = args.tree.job(ui)?;
    let plan = job.compile(ui)?.plan;
    let text = match args.out {
        GraphFormat::Text => graph_text(&plan, ui.paint),
        GraphFormat::Json => json(&graph_json(&plan)),
        GraphFormat::Yaml => yaml(&serde_json::from_value::<Value>(graph_json(&plan)).unwrap_or_default()),
        GraphFormat::Dot => render_dot(&plan),
        GraphFormat::Mermaid => render_mermaid(&plan),
        GraphFormat::Svg => render_svg(&plan, &job.node),
    };
    ui.print(&job.mask(false).mask_string(&text));
    Ok(())
}

fn graph_json(plan: &Plan) -> serde_json::Value {
    let nodes: Vec<_> = plan
        .chunks
        .iter()
        .map(|c| object!({"tag": c.tag(), "id": &*c.id, "function": format!("{}.{}", c.state, c.fun), "sls": &*c.sls}))
        .collect();
    let edges: Vec<_> = plan
        .graph
        .edges
        .iter()
        .map(|e| object!({"from": e.from, "to": e.to, "kind": e.kind.key()}))
        .collect();
    object!({"nodes": nodes, "edges": edges, "levels": plan.graph.levels})
}

fn graph_text(plan: &Plan, paint: Paint) -> String {
    let mut out = String::new();
    let name = |i: usize| {
        let chunk = &plan.chunks[i];
        format!("{} {}", sanitize(&chunk.id), paint.cyan(format!("{}.{}", chunk.state, chunk.fun)))
    };
    for edge in &plan.graph.edges {
        let arrow = paint.dim(format!("--{}->", edge.kind.key()));
        let _ = writeln!(out, "{} {arrow} {}", name(edge.from), name(edge.to));
    }
    let (states, edges) =
        (pluralize(plan.chunks.len(), "state"), pluralize(plan.graph.edges.len(), "requisite"));
    let _ = writeln!(out, "{states}, {edges}, {}", pluralize(plan.graph.levels.len(), "level"));
    out
}
