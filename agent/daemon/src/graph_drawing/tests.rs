//! Drawings of small plans, and invariants of the layout on random plans.

use zagent_compiler::{Plan, RequisiteEdge, RequisiteGraph};
use zagent_config::Map;

use super::layout::{BOX_H, BOX_W, layout_graph};
use super::*;

fn chunk(id: &str, state: &str, fun: &str) -> Chunk {
    let mut chunk = Chunk::single(state, fun, id, Map::new());
    chunk.sls = "web".into();
    chunk
}

/// Levels by the longest path, for edges that all point to a higher index.
fn plan(chunks: Vec<Chunk>, edges: Vec<(usize, usize, Requisite)>) -> Plan {
    let mut level = vec![0; chunks.len()];
    for to in 0..chunks.len() {
        for (from, _, _) in edges.iter().filter(|e| e.1 == to) {
            level[to] = level[to].max(level[*from] + 1);
        }
    }
    let count = level.iter().max().map_or(0, |m| m + 1);
    let levels = (0..count).map(|l| (0..chunks.len()).filter(|c| level[*c] == l).collect()).collect();
    let edges = edges.into_iter().map(|(from, to, kind)| RequisiteEdge { from, to, kind }).collect();
    Plan { chunks, graph: RequisiteGraph { edges, levels } }
}

fn sample() -> Plan {
    plan(
        vec![
            chunk("nginx", "pkg", "installed"),
            chunk("/etc/nginx/\"<odd>\"&.conf", "file", "managed"),
            chunk("nginx-service", "service", "running"),
            chunk("alone", "test", "nop"),
        ],
        vec![(0, 1, Requisite::Require), (0, 2, Requisite::Require), (1, 2, Requisite::Watch)],
    )
}

#[test]
fn pictures() {
    insta::assert_snapshot!("dot", render_dot(&sample()));
    insta::assert_snapshot!("mermaid", render_mermaid(&sample()));
    insta::assert_snapshot!("svg", render_svg(&sample(), "web-01"));
}

#[test]
fn no_box_covers_another_and_lines_end_at_boxes() {
    for seed in 0..40_u64 {
        let mut state = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let mut random = |n: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 33).unwrap() % n
        };
        let n = 2 + random(60);
        let edges = (0..random(90))
            .filter_map(|_| {
                let (a, b) = (random(n), random(n));
                (a != b).then(|| (a.min(b), a.max(b), Requisite::ALL[random(11)]))
            })
            .collect();
        let plan = plan((0..n).map(|i| chunk(&format!("s{i}"), "test", "nop")).collect(), edges);
        let drawn = layout_graph(&plan);
        for (i, a) in drawn.boxes.iter().enumerate() {
            assert!(
                a.0 >= 0.0 && a.1 >= -0.01 && a.1 + BOX_H <= drawn.height + 0.01,
                "seed {seed}: box {i} at {a:?}"
            );
            for b in &drawn.boxes[..i] {
                let apart = (a.0 - b.0).abs() >= BOX_W - 0.01 || (a.1 - b.1).abs() >= BOX_H - 0.01;
                assert!(apart, "seed {seed}: {a:?} covers {b:?}");
            }
        }
        for line in &drawn.lines {
            let edge = &plan.graph.edges[line.edge];
            let (from, to) = (drawn.boxes[edge.from], drawn.boxes[edge.to]);
            assert_eq!(line.points.first(), Some(&(from.0 + BOX_W, from.1 + BOX_H / 2.0)));
            assert_eq!(line.points.last(), Some(&(to.0, to.1 + BOX_H / 2.0)));
        }
    }
}

#[test]
fn an_empty_plan_can_be_drawn() {
    assert!(render_svg(&Plan::default(), "nothing").ends_with("</svg>\n"));
}
