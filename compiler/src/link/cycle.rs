//! Finds one cycle among the nodes that could not be sorted, and reports it as a path.

use zagent_config::Diagnostic;
use zagent_config::codes::requisite as codes;

use super::Linker;
use crate::plan::Requisite;

/// Maximum number of reported steps of a cycle.
const MAX_SHOWN: usize = 20;

/// The diagnostic for a requisite cycle: every step with its place.
pub(super) fn cycle_diagnostic(linker: &Linker<'_>) -> Diagnostic {
    let path = find_cycle(linker);
    let name = |node: usize| {
        let chunk = linker.chunk(node);
        format!("`{}: {}`", chunk.state, chunk.id)
    };
    let words: Vec<String> = path.iter().take(MAX_SHOWN).map(|&(node, _)| name(node)).collect();
    let more = if path.len() > MAX_SHOWN { " → …" } else { "" };
    let ring = match words.first() {
        Some(first) => format!("{}{more} → {first}", words.join(" → ")),
        None => "the graph has a cycle".into(),
    };
    let start = path.first().map_or(0, |&(node, _)| node);
    let session = linker.session();
    let mut diagnostic = session.diagnostic(
        codes::CYCLE,
        linker.spot(start),
        format!("requisite cycle: these states wait for each other: {ring}"),
    );
    for (i, &(node, kind)) in path.iter().enumerate().take(MAX_SHOWN) {
        let (next, _) = path[(i + 1) % path.len()];
        let place = session.place(linker.spot(node));
        diagnostic.notes.push(format!(
            "{place}: {} has a `{}` requisite on {}",
            name(node),
            linker.node_key(node, kind),
            name(next)
        ));
    }
    if path.len() > MAX_SHOWN {
        diagnostic.notes.push(format!("and {} more", path.len() - MAX_SHOWN));
    }
    diagnostic
        .hint("remove one of these requisites; `order` or the order of the states in the file may be enough")
}

/// A cycle as (node, the requisite by which it waits for the next one).
fn find_cycle(linker: &Linker<'_>) -> Vec<(usize, Requisite)> {
    let n = linker.nodes.len();
    let mut done = vec![false; n];
    let mut on_path = vec![false; n];
    for start in 0..n {
        if done[start] {
            continue;
        }
        // Follows "waits for" edges backwards with an explicit stack: (node, next edge to try).
        let mut path: Vec<(usize, usize)> = vec![(start, 0)];
        on_path[start] = true;
        while let Some(&mut (node, ref mut edge)) = path.last_mut() {
            let into = &linker.nodes[node].into;
            let Some(&(from, _)) = into.get(*edge) else {
                on_path[node] = false;
                done[node] = true;
                path.pop();
                continue;
            };
            *edge += 1;
            if on_path[from] {
                let at = path.iter().position(|&(p, _)| p == from).unwrap_or(0);
                return path[at..].iter().map(|&(p, e)| (p, linker.nodes[p].into[e - 1].1)).collect();
            }
            if !done[from] {
                on_path[from] = true;
                path.push((from, 0));
            }
        }
    }
    Vec::new()
}
