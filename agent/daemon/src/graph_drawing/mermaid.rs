//! Plan in, Mermaid flowchart out.

use std::fmt::Write;

use zagent_compiler::{Plan, Requisite};

use super::{edge_stroke, function_name};

/// Writes the graph as a Mermaid flowchart.
#[must_use]
pub fn render_mermaid(plan: &Plan) -> String {
    let mut out = String::from("flowchart LR\n");
    for (i, chunk) in plan.chunks.iter().enumerate() {
        let _ = writeln!(out, "  n{i}[\"{}<br/>{}\"]", quote(&chunk.id), quote(&function_name(chunk)));
    }
    for edge in &plan.graph.edges {
        let arrow = if edge_stroke(edge.kind).dash.is_empty() { "-->" } else { "-.->" };
        let label =
            if edge.kind == Requisite::Require { String::new() } else { format!("|{}|", edge.kind.key()) };
        let _ = writeln!(out, "  n{} {arrow}{label} n{}", edge.from, edge.to);
    }
    for kind in Requisite::ALL {
        let of_kind = plan.graph.edges.iter().enumerate().filter(|(_, e)| e.kind == kind);
        let links: Vec<String> = of_kind.map(|(i, _)| i.to_string()).collect();
        if !links.is_empty() {
            let _ = writeln!(out, "  linkStyle {} stroke:{}", links.join(","), edge_stroke(kind).colour);
        }
    }
    out
}

/// Text inside a quoted Mermaid label: special characters become entities.
fn quote(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '"' | '#' | '<' | '>' | '&' | '`' | ';' | '\\' => {
                let _ = write!(out, "#{};", u32::from(c));
            }
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}
