//! Levels and edges in, positions of boxes and lines out: a layered drawing from left to right.
//!
//! States without edges are placed in a grid below, so that they do not displace the others. An edge over
//! several levels runs through empty slots of the levels between, so that no line crosses a box.

use std::collections::BTreeSet;

use zagent_compiler::Plan;
use zagent_config::sorted::CollectSorted;

/// Width of a box.
pub(super) const BOX_W: f64 = 226.0;
/// Height of a box.
pub(super) const BOX_H: f64 = 42.0;
const GAP_X: f64 = 90.0;
const GAP_Y: f64 = 16.0;
/// Height of the slot that a passing line needs.
const LANE_H: f64 = 14.0;
/// Iterations of the ordering; more change little.
const SWEEPS: usize = 12;

/// A point.
pub(super) type LayoutPoint = (f64, f64);

/// One line: which edge, and the points it runs through, from box to box.
pub(super) struct EdgeLine {
    /// Index in the graph's edges.
    pub edge: usize,
    /// At least two points.
    pub points: Vec<LayoutPoint>,
}

/// All positions.
pub(super) struct GraphLayout {
    /// Upper left corner of each chunk's box.
    pub boxes: Vec<LayoutPoint>,
    /// Every edge.
    pub lines: Vec<EdgeLine>,
    /// Left side of each level that holds a connected chunk, with the level's number.
    pub columns: Vec<(usize, f64)>,
    /// Top of the grid of unconnected chunks.
    pub loose_top: Option<f64>,
    /// Total width.
    pub width: f64,
    /// Total height.
    pub height: f64,
}

/// An entry of a column: a box, or a line that passes through.
struct LayoutSlot {
    chunk: Option<usize>,
    before: Vec<usize>,
    after: Vec<usize>,
    y: f64,
}

impl LayoutSlot {
    fn height(&self) -> f64 {
        if self.chunk.is_some() { BOX_H + GAP_Y } else { LANE_H }
    }
}

struct LayoutColumns {
    slots: Vec<LayoutSlot>,
    columns: Vec<Vec<usize>>,
    /// For each edge, the slots it runs through, ends included; empty when it does not go forward.
    paths: Vec<Vec<usize>>,
    of_chunk: Vec<Option<usize>>,
}

/// Places every box and line.
pub(super) fn layout_graph(plan: &Plan) -> GraphLayout {
    let (levels, numbers) = used_levels(plan);
    let mut columns = LayoutColumns::new(plan, &levels, numbers.len());
    columns.reduce_crossings();
    columns.assign_positions();
    columns.lift();
    let mut boxes = vec![(0.0, 0.0); plan.chunks.len()];
    let mut height: f64 = 0.0;
    for (c, column) in columns.columns.iter().enumerate() {
        for &s in column {
            let slot = &columns.slots[s];
            height = height.max(slot.y + slot.height());
            if let Some(chunk) = slot.chunk {
                boxes[chunk] = (column_left(c), slot.y);
            }
        }
    }
    let lines = (0..plan.graph.edges.len()).map(|e| columns.edge_line(e, plan, &boxes)).collect();
    let least = if numbers.len() < plan.chunks.len() { numbers.len().clamp(2, 4) } else { 1 };
    let mut width = column_left(numbers.len().max(least)) - GAP_X;
    let loose: Vec<usize> = (0..plan.chunks.len()).filter(|c| columns.of_chunk[*c].is_none()).collect();
    let loose_top = (!loose.is_empty()).then_some(height + if numbers.is_empty() { 0.0 } else { 40.0 });
    if let Some(top) = loose_top {
        let across = (((width + GAP_Y) / (BOX_W + GAP_Y)) as usize).max(1);
        for (i, chunk) in loose.iter().enumerate() {
            let (row, col) = (i / across, i % across);
            boxes[*chunk] = (col as f64 * (BOX_W + GAP_Y), top + row as f64 * (BOX_H + GAP_Y));
        }
        height = top + loose.len().div_ceil(across) as f64 * (BOX_H + GAP_Y);
        width = width.max(BOX_W);
    }
    let columns = numbers.into_iter().enumerate().map(|(c, number)| (number, column_left(c))).collect();
    GraphLayout { boxes, lines, columns, loose_top, width, height }
}

fn column_left(column: usize) -> f64 {
    column as f64 * (BOX_W + GAP_X)
}

/// The column of each connected chunk, and the level that each column shows.
fn used_levels(plan: &Plan) -> (Vec<Option<usize>>, Vec<usize>) {
    let connected: BTreeSet<usize> = plan.graph.edges.iter().flat_map(|e| [e.from, e.to]).into_set();
    let mut of_chunk = vec![None; plan.chunks.len()];
    let mut numbers = Vec::new();
    for (number, level) in plan.graph.levels.iter().enumerate() {
        let mut used = false;
        for chunk in level.iter().filter(|c| connected.contains(c)) {
            if let Some(place) = of_chunk.get_mut(*chunk) {
                *place = Some(numbers.len());
                used = true;
            }
        }
        if used {
            numbers.push(number);
        }
    }
    (of_chunk, numbers)
}

impl LayoutColumns {
    fn new(plan: &Plan, levels: &[Option<usize>], count: usize) -> Self {
        let mut new = Self {
            slots: Vec::new(),
            columns: vec![Vec::new(); count],
            paths: Vec::new(),
            of_chunk: vec![None; plan.chunks.len()],
        };
        for (chunk, level) in levels.iter().enumerate() {
            if let Some(level) = level {
                new.of_chunk[chunk] = Some(new.add(*level, Some(chunk)));
            }
        }
        for edge in &plan.graph.edges {
            let path = match (levels[edge.from], levels[edge.to]) {
                (Some(a), Some(b)) if a < b => new.connect(edge.from, edge.to, a, b),
                _ => Vec::new(),
            };
            new.paths.push(path);
        }
        new
    }

    fn add(&mut self, column: usize, chunk: Option<usize>) -> usize {
        self.slots.push(LayoutSlot { chunk, before: Vec::new(), after: Vec::new(), y: 0.0 });
        self.columns[column].push(self.slots.len() - 1);
        self.slots.len() - 1
    }

    fn connect(&mut self, from: usize, to: usize, a: usize, b: usize) -> Vec<usize> {
        let mut path: Vec<usize> = self.of_chunk[from].into_iter().collect();
        for column in a + 1..b {
            path.push(self.add(column, None));
        }
        path.extend(self.of_chunk[to]);
        for pair in path.windows(2) {
            self.slots[pair[0]].after.push(pair[1]);
            self.slots[pair[1]].before.push(pair[0]);
        }
        path
    }

    /// Orders each column by the mean position of its neighbours, in both directions, so that few lines
    /// cross.
    fn reduce_crossings(&mut self) {
        let mut rank = vec![0.0; self.slots.len()];
        self.rank(&mut rank);
        for sweep in 0..SWEEPS {
            let forward = sweep % 2 == 0;
            let mut which: Vec<usize> = (0..self.columns.len()).collect();
            if !forward {
                which.reverse();
            }
            for c in which {
                let mut keyed: Vec<(f64, usize)> = self.columns[c]
                    .iter()
                    .map(|&s| {
                        let near = if forward { &self.slots[s].before } else { &self.slots[s].after };
                        (mean(near.iter().map(|n| rank[*n])).unwrap_or(rank[s]), s)
                    })
                    .collect();
                zagent_config::sorted::sort_by(&mut keyed, |a, b| a.0.total_cmp(&b.0));
                self.columns[c] = keyed.into_iter().map(|(_, s)| s).collect();
                self.rank_column(c, &mut rank);
            }
        }
    }

    fn rank(&self, rank: &mut [f64]) {
        for c in 0..self.columns.len() {
            self.rank_column(c, rank);
        }
    }

    /// Ranks run from 0 to 1 in every column, so that columns of different length are comparable.
    fn rank_column(&self, c: usize, rank: &mut [f64]) {
        let n = self.columns[c].len().max(1) as f64;
        for (i, s) in self.columns[c].iter().enumerate() {
            rank[*s] = (i as f64 + 0.5) / n;
        }
    }

    /// Moves each slot towards its neighbours, as far as the order and the distances allow.
    fn assign_positions(&mut self) {
        let mut y_of_column = Vec::new();
        for column in &self.columns {
            y_of_column.push(column.iter().map(|s| self.slots[*s].height()).sum::<f64>());
        }
        let tallest = y_of_column.iter().copied().fold(0.0, f64::max);
        for (c, total) in y_of_column.into_iter().enumerate() {
            let mut y = (tallest - total) / 2.0;
            for s in self.columns[c].clone() {
                self.slots[s].y = y;
                y += self.slots[s].height();
            }
        }
        for sweep in 0..SWEEPS {
            let mut which: Vec<usize> = (0..self.columns.len()).collect();
            if sweep % 2 == 1 {
                which.reverse();
            }
            for c in which {
                self.relax(c, tallest);
            }
        }
    }

    /// Moves everything up to the top edge.
    fn lift(&mut self) {
        let top = self.slots.iter().map(|s| s.y).fold(f64::INFINITY, f64::min);
        for slot in &mut self.slots {
            slot.y -= top;
        }
    }

    fn relax(&mut self, c: usize, tallest: f64) {
        let column = self.columns[c].clone();
        let wanted: Vec<f64> = column
            .iter()
            .map(|&s| {
                let slot = &self.slots[s];
                let near = slot.before.iter().chain(&slot.after);
                mean(near.map(|n| self.centre(*n))).map_or(slot.y, |m| m - self.drawn(s) / 2.0)
            })
            .collect();
        // Two passes: none above its predecessor, then none past its successor; the mean satisfies both.
        let mut down = vec![0.0; column.len()];
        let mut floor = 0.0_f64;
        for (i, s) in column.iter().enumerate() {
            down[i] = wanted[i].max(floor);
            floor = down[i] + self.slots[*s].height();
        }
        let mut up = vec![0.0; column.len()];
        let mut ceiling = tallest.max(floor);
        for (i, s) in column.iter().enumerate().rev() {
            up[i] = wanted[i].min(ceiling - self.slots[*s].height());
            ceiling = up[i];
        }
        let shift = up.iter().copied().fold(0.0, f64::min);
        for (i, s) in column.iter().enumerate() {
            self.slots[*s].y = f64::midpoint(down[i], up[i] - shift);
        }
    }

    fn drawn(&self, s: usize) -> f64 {
        if self.slots[s].chunk.is_some() { BOX_H } else { 0.0 }
    }

    fn centre(&self, s: usize) -> f64 {
        self.slots[s].y + self.drawn(s) / 2.0
    }

    fn edge_line(&self, edge: usize, plan: &Plan, boxes: &[LayoutPoint]) -> EdgeLine {
        let ends = &plan.graph.edges[edge];
        let (from, to) = (boxes[ends.from], boxes[ends.to]);
        let mut points = vec![(from.0 + BOX_W, from.1 + BOX_H / 2.0)];
        let path = &self.paths[edge];
        for s in path.iter().skip(1).take(path.len().saturating_sub(2)) {
            let column = self.columns.iter().position(|c| c.contains(s)).unwrap_or(0);
            points.push((column_left(column), self.slots[*s].y));
            points.push((column_left(column) + BOX_W, self.slots[*s].y));
        }
        points.push((to.0, to.1 + BOX_H / 2.0));
        EdgeLine { edge, points }
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, n) = values.fold((0.0, 0u32), |(sum, n), v| (sum + v, n + 1));
    (n > 0).then(|| sum / f64::from(n))
}
