//! Plan in, Graphviz text out.

use std::fmt::Write;

use zagent_compiler::Plan;

use super::{edge_stroke, function_name};

/// Writes the graph in the dot language.
#[must_use]
pub fn render_dot(plan: &Plan) -> String {
    let mut out = String::from(
        "digraph plan {\n  rankdir=LR;\n  node [shape=box, style=\"rounded,filled\", fillcolor=\"#f8fafc\", fontname=\"sans-serif\", fontsize=11];\n",
    );
    for (i, chunk) in plan.chunks.iter().enumerate() {
        let label = format!("{}\n{}", chunk.id, function_name(chunk));
        let _ = writeln!(out, "  n{i} [label={}, tooltip={}];", quote(&label), quote(&chunk.tag()));
    }
    for edge in &plan.graph.edges {
        let stroke = edge_stroke(edge.kind);
        let style = if stroke.dash.is_empty() { "solid" } else { "dashed" };
        let _ = writeln!(
            out,
            "  n{} -> n{} [color=\"{}\", style={style}, tooltip=\"{}\"];",
            edge.from,
            edge.to,
            stroke.colour,
            edge.kind.key()
        );
    }
    out.push_str("}\n");
    out
}

/// A string of the dot language: quotes and backslashes escaped, line breaks as `\n`.
fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
