//! Files of the agent in, what a node page shows besides the status out.
//!
//! It creates, locks and waits for nothing, and what it reads has a maximum size: a page never costs the daemon much
//! memory.

use std::collections::{BTreeMap, BTreeSet};

use zagent_compiler::{Plan, RequisiteEdge, RequisiteGraph};
use zagent_config::paths::Paths;
use zagent_run::history::{History, RunRecord, RunSummary};
use zagent_run::{StateOutcome, StateStatus, plan_cache};

use crate::graph_drawing::{StateMark, Svg, render_marked_svg};

/// Number of runs on a page.
const MAX_RUNS: usize = 10;
/// Number of runs on a page that are shown with their states.
const MAX_DETAILED_RUNS: usize = 5;
/// Size of a plan that is read for a page.
const MAX_PLAN_BYTES: u64 = 4 << 20;
/// Number of states in a drawing; of a larger plan, only the path of a failure is drawn.
const MAX_DRAWN: usize = 150;

/// What a node page shows besides the status.
#[derive(Clone, Debug, Default)]
pub struct NodeFacts {
    /// The newest runs, newest first, the first few with their states.
    pub runs: Vec<(RunSummary, Option<RunRecord>)>,
    /// The state graph of the last run.
    pub graph: Option<Svg>,
    /// What could not be read.
    pub unread: Vec<String>,
}

impl NodeFacts {
    /// Reads them.
    #[must_use]
    pub fn read(paths: &Paths, keep: usize) -> Self {
        let history = History::new(paths, keep);
        let listed = match history.list(MAX_RUNS) {
            Ok(listed) => listed.found,
            Err(error) => {
                return Self { unread: vec![zagent_config::error_chain(&error)], ..Self::default() };
            }
        };
        let mut detailed = 0;
        let mut runs = Vec::new();
        for head in listed {
            let has_news = head.tally.changed + head.tally.failed + head.tally.skipped > 0;
            let record = (has_news && detailed < MAX_DETAILED_RUNS)
                .then(|| history.get(&head.run).ok().map(|answer| answer.found))
                .flatten();
            detailed += usize::from(record.is_some());
            runs.push((head, record));
        }
        let last = runs.first().and_then(|(_, record)| record.as_ref());
        let plan = plan_cache::newest(&paths.plans(), MAX_PLAN_BYTES);
        let graph = plan.and_then(|plan| draw_run(&plan, last));
        Self { runs, graph, unread: Vec::new() }
    }
}

/// Draws the plan of a run. None when the plan belongs to another run, or is too large and nothing failed.
fn draw_run(plan: &Plan, last: Option<&RunRecord>) -> Option<Svg> {
    let states = last.map(|record| record.report.states.as_slice()).unwrap_or_default();
    let marks: BTreeMap<String, StateMark> =
        states.iter().filter_map(|state| Some((state.tag.clone(), state_mark(state)?))).collect();
    let tags: BTreeSet<String> = plan.chunks.iter().map(zagent_compiler::Chunk::tag).collect();
    if marks.keys().any(|tag| !tags.contains(tag)) {
        return None;
    }
    let is_bad = |index: &usize| {
        matches!(marks.get(&plan.chunks[*index].tag()), Some(StateMark::Failed | StateMark::Skipped))
    };
    if plan.chunks.len() <= MAX_DRAWN {
        return Some(render_marked_svg(plan, "States of the last run", &marks));
    }
    let bad: Vec<usize> = (0..plan.chunks.len()).filter(is_bad).take(MAX_DRAWN).collect();
    (!bad.is_empty())
        .then(|| render_marked_svg(&part_of(plan, &bad), "Failed states and what waits for them", &marks))
}

/// What became of a state; nothing when it was as it should be.
fn state_mark(state: &StateOutcome) -> Option<StateMark> {
    match state.status() {
        StateStatus::Failed => Some(StateMark::Failed),
        StateStatus::Skipped => {
            state.skip.is_some_and(zagent_run::SkipReason::is_problem).then_some(StateMark::Skipped)
        }
        StateStatus::Changed | StateStatus::WouldChange => Some(StateMark::Changed),
        StateStatus::Unchanged | StateStatus::Unknown => None,
    }
}

/// A plan with only these chunks.
fn part_of(plan: &Plan, kept: &[usize]) -> Plan {
    let place: BTreeMap<usize, usize> = kept.iter().enumerate().map(|(new, old)| (*old, new)).collect();
    let edges = plan.graph.edges.iter().filter_map(|edge| {
        Some(RequisiteEdge { from: *place.get(&edge.from)?, to: *place.get(&edge.to)?, kind: edge.kind })
    });
    let levels =
        plan.graph.levels.iter().map(|level| level.iter().filter_map(|i| place.get(i).copied()).collect());
    Plan {
        chunks: kept.iter().map(|index| plan.chunks[*index].clone()).collect(),
        graph: RequisiteGraph { edges: edges.collect(), levels: levels.collect() },
    }
}
