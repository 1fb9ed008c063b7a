//! Plan in, drawing of its graph out: dot, mermaid, svg.
//!
//! Law: an arrow points from the state that runs first to the state that waits for it; no installed program is
//! needed (held by `pictures`, `no_box_covers_another_and_lines_end_at_boxes`).

mod dot;
mod layout;
mod mermaid;
mod svg;

pub use dot::render_dot;
pub use mermaid::render_mermaid;
pub use svg::{StateMark, Svg, render_marked_svg, render_svg};

use zagent_compiler::{Chunk, Requisite};

/// How a kind of requisite is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct EdgeStroke {
    /// Its colour.
    colour: &'static str,
    /// Dash pattern of the line, empty for a solid one.
    dash: &'static str,
}

/// One colour per family; solid lines must succeed, dashed ones depend on the outcome, `_any` is finer.
const fn edge_stroke(kind: Requisite) -> EdgeStroke {
    let (colour, dash) = match kind {
        Requisite::Require => ("#475569", ""),
        Requisite::RequireAny => ("#475569", "2 3"),
        Requisite::Watch => ("#2563eb", ""),
        Requisite::WatchAny => ("#2563eb", "2 3"),
        Requisite::Onchanges => ("#059669", "7 4"),
        Requisite::OnchangesAny => ("#059669", "2 3"),
        Requisite::Onfail => ("#dc2626", "7 4"),
        Requisite::OnfailAny => ("#dc2626", "2 3"),
        Requisite::OnfailAll => ("#dc2626", "10 3 2 3"),
        Requisite::Prereq => ("#7c3aed", "7 4"),
        Requisite::Listen => ("#d97706", "2 3"),
    };
    EdgeStroke { colour, dash }
}

/// `file.managed`.
fn function_name(chunk: &Chunk) -> String {
    format!("{}.{}", chunk.state, chunk.fun)
}

/// At most `max` characters; the end is cut.
fn truncate(text: &str, max: usize) -> String {
    if text.chars().count() <= max {
        return text.to_owned();
    }
    text.chars().take(max.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests;
