//! `zagent show graph`.

use std::fmt::Write;

use serde_json::json as object;
use zagent_compiler::Plan;
use zagent_config::Value;

use super::super::tree::TreeArgs;
use crate::draw::graph::{dot, mermaid, svg};
use crate::output::{Format, Paint, Ui, count, harmless, json, yaml};
use crate::report::Trouble;

/// What waits for what
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    tree: TreeArgs,

    /// How to print it
    #[arg(long, value_enum, default_value_t, value_name = "FORMAT", help_heading = "Output")]
    out: Picture,
}

/// How a graph is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Picture {
    /// One line an edge
    #[default]
    Text,
    /// Nodes and edges as JSON
    Json,
    /// Nodes and edges as YAML
    Yaml,
    /// Graphviz
    Dot,
    /// A Mermaid flowchart, for Markdown
    Mermaid,
    /// A picture
    Svg,
}

impl Args {
    pub(super) fn format(&self) -> Format {
        match self.out {
            Picture::Json => Format::Json,
            Picture::Yaml => Format::Yaml,
            _ => Format::Text,
        }
    }
}

pub(super) fn run(args: &Args, ui: &mut Ui<'_>) -> Result<(), Trouble> {
    let job = args.tree.job()?;
    let plan = job.compile(ui)?.plan;
    let text = match args.out {
        Picture::Text => text(&plan, ui.paint),
        Picture::Json => json(&data(&plan)),
        Picture::Yaml => yaml(&serde_json::from_value::<Value>(data(&plan)).unwrap_or_default()),
        Picture::Dot => dot(&plan),
        Picture::Mermaid => mermaid(&plan),
        Picture::Svg => svg(&plan, &job.node),
    };
    ui.data(&job.mask(false).text(&text));
    Ok(())
}

fn data(plan: &Plan) -> serde_json::Value {
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

fn text(plan: &Plan, paint: Paint) -> String {
    let mut out = String::new();
    let name = |i: usize| {
        let chunk = &plan.chunks[i];
        format!("{} {}", harmless(&chunk.id), paint.cyan(format!("{}.{}", chunk.state, chunk.fun)))
    };
    for edge in &plan.graph.edges {
        let arrow = paint.dim(format!("--{}->", edge.kind.key()));
        let _ = writeln!(out, "{} {arrow} {}", name(edge.from), name(edge.to));
    }
    let (states, edges) = (count(plan.chunks.len(), "state"), count(plan.graph.edges.len(), "requisite"));
    let _ = writeln!(out, "{states}, {edges}, {}", count(plan.graph.levels.len(), "level"));
    out
}
