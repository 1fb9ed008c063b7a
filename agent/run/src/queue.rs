//! What waits for what in, what may start now out: the one queue, with four schedules and without threads.
//!
//! Law: every node is taken exactly once, and never before all it waits for is finished. `levels` starts nothing
//! before the level before has ended; `eager` and `declared` wait for nothing else; `ordered` goes from the first to the last
//! (held by `every_node_once_and_no_edge_violated`, `a_level_never_starts_before_the_last_one_ended`,
//! `eager_never_waits_for_an_unrelated_node`, `ordered_is_salts_order`).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use zagent_config::settings::RunSchedule;

/// Before, among or after all that a node has no requisite with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum OrderBand {
    /// `order: first`.
    First,
    /// Most.
    #[default]
    Middle,
    /// `order: last`.
    Last,
}

/// One thing to run. Nodes stand in Salt's order, which is a sound order of the graph.
#[derive(Clone, Debug, Default)]
pub(crate) struct QueueNode {
    /// Its order; the lower starts first inside a level.
    pub order: f64,
    /// Its name; decides between equal orders.
    pub name: String,
    /// Its band, by its own words.
    pub(crate) band: OrderBand,
    /// In the ordered schedule, the next does not wait for its end.
    pub(crate) parallel: bool,
}

/// A graph of nodes, with the place of each.
#[derive(Clone, Debug, Default)]
pub(crate) struct RankedGraph {
    /// `before[i]`: how many nodes `i` waits for.
    before: Vec<u32>,
    /// `after[i]`: who waits for `i`.
    after: Vec<Vec<u32>>,
    /// The level of each node, from zero; bands are levels of their own.
    level: Vec<u32>,
    /// The band of each node, its requisites considered.
    band: Vec<OrderBand>,
    /// All nodes by level, then order, then name.
    ranked: Vec<u32>,
    parallel: Vec<bool>,
}

impl RankedGraph {
    /// Places nodes; an edge is (first, then). Edges that would close a circle are the caller's mistake, and there are no
    /// lanes then.
    #[must_use]
    pub(crate) fn new(nodes: &[QueueNode], edges: &[(usize, usize)]) -> Option<Self> {
        let mut after = vec![Vec::new(); nodes.len()];
        let mut before = vec![0; nodes.len()];
        let mut edges = edges.to_vec();
        edges.sort_unstable();
        edges.dedup();
        for &(from, to) in &edges {
            after[from].push(to_u32(to));
            before[to] += 1;
        }
        let sorted = topological_sort(&before, &after);
        if sorted.len() < nodes.len() {
            return None;
        }
        let band = node_bands(nodes, &sorted, &after);
        let level = node_levels(&sorted, &after, &band);
        let mut ranked: Vec<u32> = (0..to_u32(nodes.len())).collect();
        ranked.sort_by(|&a, &b| {
            let (x, y) = (&nodes[a as usize], &nodes[b as usize]);
            let by_level = level[a as usize].cmp(&level[b as usize]);
            by_level.then(x.order.total_cmp(&y.order)).then_with(|| x.name.cmp(&y.name)).then(a.cmp(&b))
        });
        let parallel = nodes.iter().map(|n| n.parallel).collect();
        Some(Self { before, after, level, band, ranked, parallel })
    }

    /// The level of a node, from zero.
    #[must_use]
    pub(crate) fn level(&self, node: usize) -> usize {
        self.level[node] as usize
    }
}

#[expect(clippy::cast_possible_truncation, reason = "the compiler makes far fewer than 2^32 states")]
const fn to_u32(n: usize) -> u32 {
    n as u32
}

fn topological_sort(before: &[u32], after: &[Vec<u32>]) -> Vec<u32> {
    let mut left = before.to_vec();
    let mut sorted: Vec<u32> = (0..to_u32(left.len())).filter(|&n| left[n as usize] == 0).collect();
    let mut next = 0;
    while let Some(&node) = sorted.get(next) {
        next += 1;
        for &then in &after[node as usize] {
            left[then as usize] -= 1;
            if left[then as usize] == 0 {
                sorted.push(then);
            }
        }
    }
    sorted
}

/// Requisites count more than bands: what a first one needs is first too, and what needs a last one is last too.
fn node_bands(nodes: &[QueueNode], sorted: &[u32], after: &[Vec<u32>]) -> Vec<OrderBand> {
    let mut band: Vec<OrderBand> = nodes.iter().map(|n| n.band).collect();
    if band.iter().all(|b| *b == OrderBand::Middle) {
        return band;
    }
    for &node in sorted.iter().rev() {
        if after[node as usize].iter().any(|&then| band[then as usize] == OrderBand::First) {
            band[node as usize] = OrderBand::First;
        }
    }
    for &node in sorted {
        if band[node as usize] == OrderBand::Last {
            for &then in &after[node as usize] {
                band[then as usize] = OrderBand::Last;
            }
        }
    }
    band
}

fn node_levels(sorted: &[u32], after: &[Vec<u32>], band: &[OrderBand]) -> Vec<u32> {
    let mut level = vec![0_u32; band.len()];
    let mut start = 0;
    for now in [OrderBand::First, OrderBand::Middle, OrderBand::Last] {
        let mut end = start;
        for &node in sorted.iter().filter(|&&n| band[n as usize] == now) {
            let own = level[node as usize].max(start);
            level[node as usize] = own;
            end = end.max(own + 1);
            for &then in &after[node as usize] {
                level[then as usize] = level[then as usize].max(own + 1);
            }
        }
        start = end;
    }
    level
}

/// What may start.
#[derive(Debug)]
pub(crate) struct RunQueue {
    ranked_graph: RankedGraph,
    unfinished_before: Vec<u32>,
    finished: usize,
    order: QueueOrder,
}

#[derive(Debug)]
enum QueueOrder {
    Levels { next: usize, running: usize },
    Eager { ready: BinaryHeap<Reverse<(u32, u32)>>, rank: Vec<u32>, waiting: [usize; 3], held: Vec<u32> },
    Ordered { next: usize, alone: Option<u32>, aside: Vec<u32> },
}

impl RunQueue {
    /// A queue in which nothing has started.
    #[must_use]
    pub(crate) fn new(ranked_graph: RankedGraph, schedule: RunSchedule) -> Self {
        let left = ranked_graph.before.clone();
        let order = match schedule {
            RunSchedule::Levels => QueueOrder::Levels { next: 0, running: 0 },
            RunSchedule::Ordered => QueueOrder::Ordered { next: 0, alone: None, aside: Vec::new() },
            RunSchedule::Eager | RunSchedule::Declared => {
                let mut rank = vec![0; left.len()];
                for (place, &node) in ranked_graph.ranked.iter().enumerate() {
                    rank[node as usize] = to_u32(place);
                }
                let mut waiting = [0; 3];
                for band in &ranked_graph.band {
                    waiting[*band as usize] += 1;
                }
                let held = (0..to_u32(left.len())).filter(|&n| left[n as usize] == 0).collect();
                QueueOrder::Eager { ready: BinaryHeap::new(), rank, waiting, held }
            }
        };
        let mut queue = Self { ranked_graph, unfinished_before: left, finished: 0, order };
        queue.release_ready();
        queue
    }

    /// The level of a node, from zero.
    #[must_use]
    pub(crate) fn level(&self, node: usize) -> usize {
        self.ranked_graph.level(node)
    }

    /// True when every node is finished.
    #[cfg(test)]
    pub(crate) fn is_done(&self) -> bool {
        self.finished == self.unfinished_before.len()
    }

    /// True when a node waits for another one, directly or not.
    pub(crate) fn is_after(&self, first: usize, then: usize) -> bool {
        let mut seen = vec![false; self.unfinished_before.len()];
        let mut stack = vec![first];
        while let Some(node) = stack.pop() {
            if node == then {
                return node != first;
            }
            if !std::mem::replace(&mut seen[node], true) {
                stack.extend(self.ranked_graph.after[node].iter().map(|&next| next as usize));
            }
        }
        false
    }

    /// The next node that may start; none when all that is left waits for something that runs.
    pub(crate) fn next_ready(&mut self) -> Option<usize> {
        let node = match &mut self.order {
            QueueOrder::Levels { next, running } => {
                let node = *self.ranked_graph.ranked.get(*next)?;
                let before = next.checked_sub(1).map(|p| self.ranked_graph.ranked[p]);
                let opens = before.is_some_and(|b| {
                    self.ranked_graph.level[b as usize] < self.ranked_graph.level[node as usize]
                });
                if opens && *running > 0 {
                    return None;
                }
                *next += 1;
                *running += 1;
                node
            }
            QueueOrder::Eager { ready, .. } => ready.pop()?.0.1,
            QueueOrder::Ordered { next, alone, aside } => {
                if alone.is_some() {
                    return None;
                }
                if let Some(place) = aside.iter().position(|&n| self.unfinished_before[n as usize] == 0) {
                    aside.remove(place)
                } else {
                    loop {
                        let node = to_u32(*next);
                        let (left, parallel) =
                            (*self.unfinished_before.get(*next)?, self.ranked_graph.parallel[*next]);
                        if left == 0 {
                            *next += 1;
                            *alone = (!parallel).then_some(node);
                            break node;
                        }
                        if !parallel {
                            return None;
                        }
                        aside.push(node);
                        *next += 1;
                    }
                }
            }
        };
        Some(node as usize)
    }

    /// Tells that a node has ended, however it ended.
    pub(crate) fn finish(&mut self, node: usize) {
        self.finished += 1;
        for &then in &self.ranked_graph.after[node] {
            self.unfinished_before[then as usize] -= 1;
            if let (0, QueueOrder::Eager { held, .. }) =
                (self.unfinished_before[then as usize], &mut self.order)
            {
                held.push(then);
            }
        }
        match &mut self.order {
            QueueOrder::Levels { running, .. } => *running -= 1,
            QueueOrder::Eager { waiting, .. } => waiting[self.ranked_graph.band[node] as usize] -= 1,
            QueueOrder::Ordered { alone, .. } => {
                if *alone == Some(to_u32(node)) {
                    *alone = None;
                }
            }
        }
        self.release_ready();
    }

    /// Moves free nodes to the ready ones once the bands before theirs have ended.
    fn release_ready(&mut self) {
        let QueueOrder::Eager { ready, rank, waiting, held } = &mut self.order else { return };
        if held.is_empty() {
            return;
        }
        let band = &self.ranked_graph.band;
        held.retain(|&node| {
            let open = waiting[..band[node as usize] as usize].iter().all(|left| *left == 0);
            if open {
                ready.push(Reverse((rank[node as usize], node)));
            }
            !open
        });
    }
}

#[cfg(test)]
pub mod tests;
