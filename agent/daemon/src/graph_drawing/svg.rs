//! Plan in, SVG image out.
//!
//! Law: well-formed XML for any ID; every shortened text is complete in a tooltip (held by `pictures`).

use std::collections::BTreeMap;
use std::fmt::Write;

use zagent_compiler::{Chunk, Plan, Requisite};

use super::layout::{BOX_H, BOX_W, EdgeLine, GraphLayout, layout_graph};
use super::{edge_stroke, function_name, truncate};

const MARGIN: f64 = 28.0;
const HEADER_HEIGHT: f64 = 84.0;
/// Maximum number of characters in a box.
const MAX_LABEL_CHARS: usize = 28;

/// A drawing: well-formed, with all text escaped. Only this file makes one.
#[derive(Clone, Debug)]
pub struct Svg(String);

impl Svg {
    /// Its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What became of a state in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateMark {
    /// It failed.
    Failed,
    /// It did not run because of a failure.
    Skipped,
    /// It changed something.
    Changed,
}

impl StateMark {
    /// Its word in a box, its fill and its stroke.
    const fn look(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Failed => ("FAILED ", "#fee2e2", "#b91c1c"),
            Self::Skipped => ("SKIPPED ", "#ffedd5", "#c2410c"),
            Self::Changed => ("CHANGED ", "#dcfce7", "#15803d"),
        }
    }
}

/// What became of states, by tag.
type StateMarks = BTreeMap<String, StateMark>;

/// Draws the graph.
#[must_use]
pub fn render_svg(plan: &Plan, title: &str) -> String {
    render_marked_svg(plan, title, &StateMarks::new()).0
}

/// Draws the graph with what became of its states: the path of a failure is thick and red.
#[must_use]
pub fn render_marked_svg(plan: &Plan, title: &str, marks: &BTreeMap<String, StateMark>) -> Svg {
    let layout = layout_graph(plan);
    let (width, height) = (layout.width + 2.0 * MARGIN, layout.height + HEADER_HEIGHT + 2.0 * MARGIN);
    let mut out = String::new();
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"Inter, 'DejaVu Sans', sans-serif\">"
    );
    let _ = writeln!(out, "<title>{}</title>", escape(title));
    let kinds = used_kinds(plan);
    write_markers(&mut out, &kinds);
    let _ = writeln!(out, "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>");
    let count = format!("{} states, {} requisites", plan.chunks.len(), plan.graph.edges.len());
    let _ = writeln!(
        out,
        "<text x=\"{MARGIN}\" y=\"32\" font-size=\"16\" font-weight=\"600\" fill=\"#0f172a\">{}<tspan dx=\"12\" font-size=\"12\" font-weight=\"400\" fill=\"#64748b\">{count}</tspan></text>",
        escape(title)
    );
    write_legend(&mut out, &kinds);
    let _ = writeln!(out, "<g transform=\"translate({MARGIN} {})\">", HEADER_HEIGHT + MARGIN / 2.0);
    write_headings(&mut out, &layout);
    for line in &layout.lines {
        draw_line(&mut out, line, plan, marks);
    }
    for (chunk, (x, y)) in plan.chunks.iter().zip(&layout.boxes) {
        draw_box(&mut out, chunk, (*x, *y), marks.get(&chunk.tag()).copied());
    }
    out.push_str("</g>\n</svg>\n");
    Svg(out)
}

fn used_kinds(plan: &Plan) -> Vec<Requisite> {
    Requisite::ALL.into_iter().filter(|k| plan.graph.edges.iter().any(|e| e.kind == *k)).collect()
}

fn write_markers(out: &mut String, kinds: &[Requisite]) {
    out.push_str("<defs>\n");
    for kind in kinds {
        let _ = writeln!(
            out,
            "<marker id=\"arrow-{}\" viewBox=\"0 0 10 10\" refX=\"9\" refY=\"5\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\"><path d=\"M0 1 L9 5 L0 9 z\" fill=\"{}\"/></marker>",
            kind.key(),
            edge_stroke(*kind).colour
        );
    }
    out.push_str("</defs>\n");
}

fn dash_attribute(kind: Requisite) -> String {
    match edge_stroke(kind).dash {
        "" => String::new(),
        dash => format!(" stroke-dasharray=\"{dash}\""),
    }
}

fn write_legend(out: &mut String, kinds: &[Requisite]) {
    let mut x = MARGIN;
    for kind in kinds {
        let (key, colour, dash) = (kind.key(), edge_stroke(*kind).colour, dash_attribute(*kind));
        let _ = writeln!(
            out,
            "<line x1=\"{x}\" y1=\"54\" x2=\"{:.0}\" y2=\"54\" stroke=\"{colour}\" stroke-width=\"1.8\"{dash} marker-end=\"url(#arrow-{key})\"/><text x=\"{:.0}\" y=\"58\" font-size=\"12\" fill=\"#334155\">{key}</text>",
            x + 34.0,
            x + 41.0
        );
        x += 60.0 + key.len() as f64 * 7.0;
    }
}

fn write_headings(out: &mut String, layout: &GraphLayout) {
    for (number, x) in &layout.columns {
        let _ = writeln!(
            out,
            "<text x=\"{x:.0}\" y=\"-8\" font-size=\"11\" fill=\"#94a3b8\">level {}</text>",
            number + 1
        );
    }
    if let Some(top) = layout.loose_top {
        let _ = writeln!(
            out,
            "<text x=\"0\" y=\"{:.0}\" font-size=\"11\" fill=\"#94a3b8\">without requisites</text>",
            top - 8.0
        );
    }
}

fn draw_line(out: &mut String, line: &EdgeLine, plan: &Plan, marks: &StateMarks) {
    let edge = &plan.graph.edges[line.edge];
    let start = line.points[0];
    let mut path = format!("M{:.1} {:.1}", start.0, start.1);
    for (i, pair) in line.points.windows(2).enumerate() {
        let ((x1, y1), (x2, y2)) = (pair[0], pair[1]);
        if i % 2 == 1 {
            let _ = write!(path, " L{x2:.1} {y2:.1}");
        } else if x2 > x1 {
            let mid = f64::midpoint(x1, x2);
            let _ = write!(path, " C{mid:.1} {y1:.1} {mid:.1} {y2:.1} {x2:.1} {y2:.1}");
        } else {
            // Backwards: a loop around the ends, so that it is visible.
            let _ = write!(path, " C{:.1} {y1:.1} {:.1} {y2:.1} {x2:.1} {y2:.1}", x1 + 80.0, x2 - 80.0);
        }
    }
    let key = edge.kind.key();
    let (from, to) = (&plan.chunks[edge.from], &plan.chunks[edge.to]);
    // A failure travels along the edge when it reached the other side.
    let mark = |chunk: &Chunk| marks.get(&chunk.tag()).copied();
    let is_path = matches!(mark(from), Some(StateMark::Failed | StateMark::Skipped))
        && mark(to) == Some(StateMark::Skipped);
    let (colour, width) = if is_path { ("#b91c1c", "3") } else { (edge_stroke(edge.kind).colour, "1.5") };
    let _ = writeln!(
        out,
        "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" stroke-opacity=\"0.8\"{} marker-end=\"url(#arrow-{key})\"><title>{}</title></path>",
        dash_attribute(edge.kind),
        escape(&format!("{} {key} {}", to.id, from.id))
    );
}

fn draw_box(out: &mut String, chunk: &Chunk, (x, y): (f64, f64), mark: Option<StateMark>) {
    let (word, fill, stroke) = mark.map_or(("", "#f8fafc", "#cbd5e1"), StateMark::look);
    let tip = format!("{}\nsls: {}", chunk.tag(), chunk.sls);
    let _ = writeln!(
        out,
        "<g transform=\"translate({x:.1} {y:.1})\"><title>{}</title><rect width=\"{BOX_W}\" height=\"{BOX_H}\" rx=\"6\" fill=\"{fill}\" stroke=\"{stroke}\"/><text x=\"10\" y=\"18\" font-size=\"12\" font-weight=\"600\" fill=\"#0f172a\">{}</text><text x=\"10\" y=\"33\" font-size=\"11\" fill=\"#64748b\">{}</text></g>",
        escape(&tip),
        escape(&truncate(&chunk.id, MAX_LABEL_CHARS)),
        escape(&truncate(&format!("{word}{}", function_name(chunk)), MAX_LABEL_CHARS + 3))
    );
}

/// Escapes text for XML; what XML 1.0 cannot hold, or what changes the direction of text, becomes the replacement character.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            '\u{fffe}' | '\u{ffff}' => out.push(char::REPLACEMENT_CHARACTER),
            c if zagent_config::steers_terminal(c) => out.push(char::REPLACEMENT_CHARACTER),
            c => out.push(c),
        }
    }
    out
}
