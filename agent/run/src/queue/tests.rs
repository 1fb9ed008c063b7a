//! The laws of the queue, over graphs by chance: every node once, no edge violated, each schedule in its own order.

use proptest::prelude::*;

use super::*;

fn lanes(nodes: &[QueueNode], edges: &[(usize, usize)]) -> RankedGraph {
    RankedGraph::new(nodes, edges).expect("no circle")
}

#[test]
fn a_circle_has_no_lanes() {
    let node =
        |name: &str| QueueNode { order: 1.0, name: name.into(), band: OrderBand::Middle, parallel: false };
    let nodes = [node("a"), node("b"), node("c")];
    assert!(RankedGraph::new(&nodes, &[(0, 1), (1, 2), (2, 1)]).is_none());
    assert!(RankedGraph::new(&nodes, &[(0, 1), (1, 2)]).is_some());
}

/// A graph whose edges go forward, as Salt's order is a sound one.
fn graphs() -> impl Strategy<Value = (Vec<QueueNode>, Vec<(usize, usize)>)> {
    (1_usize..60).prop_flat_map(|n| {
        let node = (0_u8..5, 0_u8..12, 0_u8..4).prop_map(|(order, band, parallel)| QueueNode {
            order: f64::from(order),
            name: String::new(),
            band: [OrderBand::First, OrderBand::Last].get(band as usize).copied().unwrap_or_default(),
            parallel: parallel == 0,
        });
        let edges = proptest::collection::vec((0..n, 0..n), 0..n * 2);
        (proptest::collection::vec(node, n), edges).prop_map(|(mut nodes, edges)| {
            for (i, node) in nodes.iter_mut().enumerate() {
                node.name = format!("n{:02}", i * 7 % 60);
            }
            let edges = edges.into_iter().filter(|(a, b)| a != b).map(|(a, b)| (a.min(b), a.max(b)));
            (nodes, edges.collect())
        })
    })
}

/// What a run does: takes as long as it can, then ends one of those that run, by choice.
fn drive(
    queue: &mut RunQueue,
    picks: &[usize],
    mut step: impl FnMut(&[usize], &[usize], Option<usize>),
) -> Vec<usize> {
    let (mut running, mut done, mut taken) = (Vec::new(), Vec::new(), Vec::new());
    let mut picks = picks.iter().cycle();
    loop {
        while let Some(node) = queue.next_ready() {
            step(&running, &done, Some(node));
            running.push(node);
            taken.push(node);
        }
        if running.is_empty() {
            return taken;
        }
        let pick = picks.next().copied().unwrap_or(0) % running.len();
        let node = running.remove(pick);
        queue.finish(node);
        done.push(node);
        step(&running, &done, None);
    }
}

/// Who can be reached from each node.
fn reach(n: usize, edges: &[(usize, usize)]) -> Vec<Vec<bool>> {
    let mut reach = vec![vec![false; n]; n];
    for from in (0..n).rev() {
        for &(_, to) in edges.iter().filter(|(a, _)| *a == from) {
            reach[from][to] = true;
            let further = reach[to].clone();
            reach[from].iter_mut().zip(further).for_each(|(own, more)| *own |= more);
        }
    }
    reach
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_node_once_and_no_edge_violated((nodes, edges) in graphs(), picks in proptest::collection::vec(0_usize..60, 8)) {
        for schedule in [RunSchedule::Levels, RunSchedule::Eager, RunSchedule::Ordered] {
            let mut queue = RunQueue::new(lanes(&nodes, &edges), schedule);
            let mut violated = None;
            let taken = drive(&mut queue, &picks, |_, done, node| {
                let Some(node) = node else { return };
                violated = violated.or(edges.iter().find(|(from, to)| *to == node && !done.contains(from)).copied());
            });
            prop_assert_eq!(violated, None);
            prop_assert!(queue.is_done());
            let mut all = taken.clone();
            all.sort_unstable();
            prop_assert_eq!(all, (0..nodes.len()).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_level_never_starts_before_the_last_one_ended((nodes, edges) in graphs(), picks in proptest::collection::vec(0_usize..60, 8)) {
        let ranked_graph = lanes(&nodes, &edges);
        let level: Vec<usize> = (0..nodes.len()).map(|n| ranked_graph.level(n)).collect();
        let mut queue = RunQueue::new(ranked_graph, RunSchedule::Levels);
        let mut mixed = false;
        let taken = drive(&mut queue, &picks, |running, _, node| {
            mixed |= node.is_some_and(|n| running.iter().any(|r| level[*r] != level[n]));
        });
        prop_assert!(!mixed);
        // Inside a level: by order, then by name.
        for pair in taken.windows(2).filter(|p| level[p[0]] == level[p[1]]) {
            let (a, b) = (&nodes[pair[0]], &nodes[pair[1]]);
            prop_assert!((a.order, &a.name) <= (b.order, &b.name));
        }
    }

    #[test]
    fn eager_never_waits_for_an_unrelated_node((mut nodes, edges) in graphs(), picks in proptest::collection::vec(0_usize..60, 8)) {
        for node in &mut nodes {
            node.band = OrderBand::Middle;
        }
        let mut queue = RunQueue::new(lanes(&nodes, &edges), RunSchedule::Eager);
        let mut late = None;
        drive(&mut queue, &picks, |running, done, node| {
            if node.is_some() {
                return;
            }
            // What was free before this one ended was taken before: all that is left waits for somebody.
            let unfinished = |n: &usize| !done.contains(n);
            let last = done.last().copied();
            let waits = |n: usize| edges.iter().any(|(from, to)| *to == n && (unfinished(from) || Some(*from) == last));
            late = late.or((0..nodes.len()).find(|n| !running.contains(n) && unfinished(n) && !waits(*n)));
        });
        prop_assert_eq!(late, None);
    }

    #[test]
    fn ordered_is_salts_order((mut nodes, edges) in graphs()) {
        for node in &mut nodes {
            node.parallel = false;
        }
        let mut queue = RunQueue::new(lanes(&nodes, &edges), RunSchedule::Ordered);
        let mut together = false;
        let taken = drive(&mut queue, &[0], |running, _, node| together |= node.is_some() && !running.is_empty());
        prop_assert!(!together);
        prop_assert_eq!(taken, (0..nodes.len()).collect::<Vec<_>>());
    }

    #[test]
    fn first_and_last_stand_apart_from_all_they_have_no_requisite_with((nodes, edges) in graphs(), picks in proptest::collection::vec(0_usize..60, 8)) {
        let reach = reach(nodes.len(), &edges);
        // Only bands that no requisite contradicts say anything.
        let band = |n: usize| nodes[n].band;
        let near = |n: usize, wanted: OrderBand| (0..nodes.len()).any(|m| m != n && band(m) == wanted && (reach[n][m] || reach[m][n]));
        for schedule in [RunSchedule::Levels, RunSchedule::Eager] {
            let mut queue = RunQueue::new(lanes(&nodes, &edges), schedule);
            let mut wrong = None;
            drive(&mut queue, &picks, |_, done, node| {
                let Some(node) = node else { return };
                if band(node) == OrderBand::Middle && !near(node, OrderBand::First) {
                    wrong = wrong.or((0..nodes.len()).find(|n| band(*n) == OrderBand::First && !done.contains(n)));
                }
                if band(node) == OrderBand::Last && !near(node, OrderBand::First) {
                    let middle = |n: &usize| band(*n) == OrderBand::Middle && !near(*n, OrderBand::Last) && !done.contains(n);
                    wrong = wrong.or((0..nodes.len()).find(middle));
                }
            });
            prop_assert_eq!(wrong, None);
        }
    }
}

#[test]
fn a_parallel_state_holds_up_only_those_that_need_it() {
    let node = |parallel| QueueNode { parallel, ..QueueNode::default() };
    let nodes = [node(true), node(false), node(true), node(false)];
    // The third waits for the first; the last for nobody.
    let mut queue = RunQueue::new(lanes(&nodes, &[(0, 2)]), RunSchedule::Ordered);
    assert_eq!(queue.next_ready(), Some(0));
    assert_eq!(queue.next_ready(), Some(1));
    assert_eq!(queue.next_ready(), None, "the second runs alone");
    queue.finish(1);
    assert_eq!(queue.next_ready(), Some(3), "the third is set aside");
    queue.finish(3);
    assert_eq!(queue.next_ready(), None);
    queue.finish(0);
    assert_eq!(queue.next_ready(), Some(2));
    queue.finish(2);
    assert!(queue.is_done());
}
